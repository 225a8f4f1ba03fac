"""Builds the HTTP application of an admin or metrics port: for the activator and for the scaler.

All of them have the same headers and errors, and no redirect. Long responses are split into small
pieces. Must not know the routes, nor the content.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import re
from collections.abc import (
    AsyncIterator,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from datetime import UTC, datetime
from heapq import merge
from http import HTTPStatus
from typing import Any, Final, TypeVar

import msgspec
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from throttler.errors import RevisionNotFound

T = TypeVar("T")

# -- pieces of long responses
#
# Admin port and traffic share one thread. Ten thousand revisions of ten pods make 30 MB of JSON.
# In one piece, this would delay every request by half a second. So requests pass between two
# pieces.

#: Bytes of a piece of JSON; it takes half a millisecond.
PIECE = 64 << 10
#: Elements that are sorted at once; this takes a quarter of a millisecond.
BLOCK = 500


async def in_turns(pieces: Iterable[bytes]) -> AsyncIterator[bytes]:
    """Yield the pieces, with a turn of the event loop after each.

    A producer yields an empty piece to pause without data.
    """
    for piece in pieces:
        if piece:
            yield piece
        await asyncio.sleep(0)


class _Streamed(StreamingResponse):
    """A response of unknown length, which is sent to its end.

    Starlette would also watch for the end of the connection, by anyio, which takes 1.2 MiB. Without
    that, the rest of the pieces is made in vain.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.stream_response(send)


def stream(request: Request, pieces: Iterable[bytes], media_type: str) -> Response:
    """Return a response of unknown length; one to HEAD makes no piece."""
    found = () if request.method == "HEAD" else pieces
    return _Streamed(in_turns(found), media_type=media_type)


def in_order(items: Sequence[T], key: Callable[[T], str]) -> Iterator[T | None]:
    """Yield ``items`` sorted; before them some None, where the caller may pause.

    To sort 10,000 revisions at once takes 5 ms.
    """
    blocks = []
    for start in range(0, len(items), BLOCK):
        blocks.append(sorted(items[start : start + BLOCK], key=key))
        yield None
    yield from merge(*blocks, key=key)


def json_pieces(
    name: str, elements: Iterable[Mapping[str, Any] | None], rest: Mapping[str, Any]
) -> Iterator[bytes]:
    """Yield a JSON object in pieces.

    Arguments:
        name: key of the array of ``elements``; a None among them is a pause.
        rest: the other fields, at least one.
    """
    buffer = bytearray(b"{" + encode(name) + b":[")
    separator = b""
    for element in elements:
        if element is None:
            yield b""
            continue
        buffer += separator
        buffer += encode(element)
        separator = b","
        if len(buffer) >= PIECE:
            yield bytes(buffer)
            buffer.clear()
    yield bytes(buffer) + b"]," + encode(rest)[1:]


def encode(value: object) -> bytes:
    """Return JSON in UTF-8."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        # A lone surrogate in a manifest has no UTF-8, but an escape in JSON.
        return json.dumps(value).encode()


def as_json(value: object) -> Response:
    """Return a response with a value as JSON."""
    return Response(encode(value), media_type=JSON_TYPE)


def iso(seconds: float) -> str:
    """Return a time, in seconds since 1970, in RFC 3339, UTC, with milliseconds."""
    moment = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
    return moment.replace("+00:00", "Z")


#: https://prometheus.io/docs/instrumenting/exposition_formats/
METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
JSON_TYPE: Final = "application/json"


# -- headers
#
# The admin port has no password. Foreign pages could reach it by a browser on the same machine, so
# each response has headers that keep its data from other pages.

#: Headers of each response, unless it sets them itself.
SECURITY_HEADERS = {
    # A page may load, frame or submit nothing: the responses are data.
    "Content-Security-Policy": (
        "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    # Each response is about this moment.
    "Cache-Control": "no-store",
}
#: Headers of the dashboard's files.
DASHBOARD_HEADERS = {
    # Scripts, styles and data come only from this port. The browser runs no script or style in
    # the page itself, so injected markup has no effect. `data:` is for the icon.
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


class SecurityHeaders:
    """ASGI middleware that adds each header to a response that lacks it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, send_with_headers)


# -- host names
#
# The host name of a web page may resolve to this machine (DNS rebinding). For a browser, such a
# page and the admin port have the same origin. So the page could read all responses, since the port
# has no password. Its requests have its own host name, which the admin port refuses. An address
# cannot resolve to another machine, so all addresses are accepted.

_HOST = re.compile(r"(?:\[(?P<address>[^\]]*)\]|(?P<name>[^:]*))(?::[0-9]*)?")


def is_accepted(host: str, names: Collection[str]) -> bool:
    """Return whether a Host field is an address, ``localhost``, or one of ``names``.

    Arguments:
        host: value of the field, with or without a port.
        names: further host names, in lower case.
    """
    found = _HOST.fullmatch(host)
    if found is None:
        return False
    name = (found["address"] or found["name"] or "").lower().rstrip(".")
    if name == "localhost" or name in names:
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


class OwnHosts:
    """ASGI middleware that responds 421 to a foreign host name."""

    def __init__(self, app: ASGIApp, names: Collection[str]) -> None:
        self._app = app
        self._names = names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # HTTP/1.0 does not require a Host field; browsers always send one.
        host = Headers(scope=scope).get("host") if scope["type"] == "http" else None
        if host is None or is_accepted(host, self._names):
            await self._app(scope, receive, send)
            return
        detail = (
            "The admin port does not accept this host name. Use localhost or an address, or add "
            "the name to ACTIVATOR_ADMIN_HOSTS."
        )
        await problem(421, detail)(scope, receive, send)


# -- errors, as problem details (RFC 9457), without internals of the process

PROBLEM_TYPE = "application/problem+json"


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
    return Response(body, status, dict(headers or {}), media_type=PROBLEM_TYPE)


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


# -- the application


def application(
    routes: Sequence[Route], lifespan: Any = None, middleware: Iterable[Middleware] = ()
) -> Starlette:
    """Return the application.

    Arguments:
        routes: all paths that have a response.
        lifespan: as for Starlette.
        middleware: in addition to the headers of each response.
    """
    app = Starlette(
        routes=routes,
        lifespan=lifespan,
        middleware=[Middleware(SecurityHeaders), *middleware],
        exception_handlers=HANDLERS,
    )
    # A redirect of a path with a further slash would repeat the client's Host field.
    app.router.redirect_slashes = False
    return app
