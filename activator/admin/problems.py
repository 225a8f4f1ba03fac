"""Make error responses of the admin port as problem details (RFC 9457).

They contain no internals of the process. Must not know the routes.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from throttler.errors import RevisionNotFound

MEDIA_TYPE = "application/problem+json"


def problem(status: int, detail: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return an error response.

    Arguments:
        detail: the error and the next step, for people.
    """
    content = {
        "type": "about:blank",  # RFC 9457 section 4.2.1: the status says it all
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
    }
    body = msgspec.json.encode(content)
    return Response(body, status, dict(headers or {}), media_type=MEDIA_TYPE)


def on_http_exception(request: Request, error: Exception) -> Response:
    """Return the response to a request that Starlette's routing refuses."""
    assert isinstance(error, HTTPException)
    if error.status_code == HTTPStatus.NOT_FOUND:
        detail = f"This port has nothing at {_path(request)}."
    elif error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        detail = f"{_path(request)} is read-only; use GET or HEAD."
    else:
        detail = error.detail
    return problem(error.status_code, detail, error.headers)


def on_revision_not_found(request: Request, error: Exception) -> Response:
    """Return the response for an unknown revision."""
    wanted = request.path_params
    name = _printable(f"{wanted['namespace']}/{wanted['name']}")
    detail = f"No revision {name} is known; GET /api/v1/revisions lists the known ones."
    return problem(HTTPStatus.NOT_FOUND, detail)


def on_error(request: Request, error: Exception) -> Response:
    """Return the response after a bug of this program; the server logs it."""
    detail = f"{_path(request)} failed inside this process; its log has the error."
    return problem(HTTPStatus.INTERNAL_SERVER_ERROR, detail)


HANDLERS = {
    HTTPException: on_http_exception,
    RevisionNotFound: on_revision_not_found,
    Exception: on_error,
}


def _path(request: Request) -> str:
    return _printable(request.url.path)


def _printable(text: str) -> str:
    """Return a text without lone surrogates, which a path may have and UTF-8 has not."""
    return text.encode("utf-8", "replace").decode()
