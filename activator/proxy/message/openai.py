"""Writes the activator's errors in the form of the OpenAI API. Pure.

Source: https://platform.openai.com/docs/guides/error-codes. Its clients raise an exception with the
message. Knative has no counterpart.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Final

from activator.proxy.message.accept import names_no_form, prefers_json
from activator.proxy.message.own_responses import JSON, PLAIN, OwnResponse, printable
from activator.proxy.message.problem import VARY
from activator.proxy.message.request import Request
from throttler.model import RevisionKind
from throttler.reason import ROWS

_OF_SERVER: Final = "server_error"
_OF_CLIENT: Final = "invalid_request_error"


def wants_json(request: Request) -> bool:
    """Return whether the client of a request is a client of JSON.

    It prefers JSON, or it names no media type for the response and sends JSON itself.
    """
    lines = request.lines
    return prefers_json(lines) or (names_no_form(lines) and sends_json(request))


def sends_json(request: Request) -> bool:
    """Return whether the body of a request is JSON, by its Content-Type."""
    kind = request.value_of(b"content-type").partition(b";")[0].strip(b" \t").lower()
    return kind == b"application/json" or kind.endswith(b"+json")


def as_error(response: OwnResponse, added_lines: bytes, kind: RevisionKind) -> OwnResponse:
    """Return an error response with its error in OpenAI's form as the body, in one line.

    Arguments:
        response: the response as plain text. A body in OpenAI's form already stays unchanged.
        added_lines: field lines that the activator adds, each preceded by its CRLF.
        kind: of the revision, for the message.
    """
    reason, body = response.reason, response.body
    assert reason is not None
    if not body.startswith(b'{"error"'):
        title = ROWS[reason].title(is_service=kind is RevisionKind.SERVICE)
        detail = printable(response.detail)
        message = f"{title} ({detail})" if detail else title
        body = error(message, response.status, reason.value)
    fields = response.fields.replace(PLAIN, JSON, 1) + VARY + added_lines
    return replace(response, fields=fields, body=body)


def error(message: str, status: int, code: str, kind: str = "") -> bytes:
    """Return an error as JSON in one line.

    Arguments:
        message: for people.
        status: the HTTP status that fits.
        code: a word for programs.
        kind: the type; empty for the one that fits the status.
    """
    kind = kind or (_OF_SERVER if status >= 500 else _OF_CLIENT)
    members = {"error": {"message": message, "type": kind, "code": code}}
    return json.dumps(members, separators=(",", ":")).encode()


def error_in(body: bytes, status: int, code: str) -> bytes:
    """Return the error that a pod's response has, in OpenAI's form; empty if it has none.

    Arguments:
        body: the whole body of the response.
        status: its status.
        code: a word for programs, if the error has none.
    """
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return b""
    found = found.get("error") if isinstance(found, dict) else None
    if not isinstance(found, dict) or not isinstance(found.get("message"), str):
        return b""
    kind = found.get("type")
    word = found.get("code")
    return error(
        found["message"],
        status,
        word if isinstance(word, str) else code,
        kind if isinstance(kind, str) else "",
    )
