"""Writes errors in the form that a client expects: problem details, or the OpenAI API."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from typing import Final

from activator.proxy.message.own_responses import (
    JSON,
    PLAIN,
    OwnResponse,
    not_found,
    of_add_on,
    printable,
)
from activator.proxy.message.request import Request
from throttler.errors import RevisionNotFound
from throttler.model import RevisionID, RevisionKind
from throttler.reason import ROWS

# Decides by the Accept field which media types a client prefers (RFC 9110 section 12.5.1).
#
# The activator reads the field only for its own responses, so a request that a pod serves costs
# nothing here. Knative has no counterpart: its activator always responds with text.

#: Limits of the parser: bytes of one Accept field, and number of Accept fields. Browsers and
#: libraries send a fraction of this.
_MAX_FIELD_BYTES: Final = 1024
_MAX_FIELDS: Final = 4

_ACCEPT: Final = re.compile(rb"\r\n[Aa](?i:ccept):([^\r\n]*)")
_QUOTED: Final = re.compile(rb'"(?:[^"\\]|\\.)*"')
_QUALITY: Final = re.compile(rb"q[ \t]*=[ \t]*(0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)", re.IGNORECASE)
#: Media ranges that match the activator's two forms of a response, the most specific first.
_JSON: Final = (b"application/problem+json", b"application/json")
_HTML: Final = (b"text/html", b"application/xhtml+xml")
_TEXT: Final = (b"text/plain", b"text/*", b"*/*")
_EVENT_STREAM: Final = b"text/event-stream"


def prefers_json(block: bytes) -> bool:
    """Return whether the client names JSON, accepts it, and does not prefer text.

    ``*/*`` does not name JSON: a client that sends only that gets text, as from Knative. A
    malformed member is ignored.

    Arguments:
        block: the request's header fields, each preceded by its CRLF.
    """
    qualities = _qualities(block)
    json = next((qualities[name] for name in _JSON if name in qualities), 0.0)
    text = next((qualities[name] for name in _TEXT if name in qualities), 0.0)
    return json > 0 and json >= text


def prefers_html(block: bytes) -> bool:
    """Return whether the client names HTML, accepts it, and prefers no other type that it names.

    Wildcards name no type: a client that sends only ``*/*`` is no browser.

    Arguments:
        block: the request's header fields, each preceded by its CRLF.
    """
    qualities = {name: q for name, q in _qualities(block).items() if not name.endswith(b"*")}
    html = max(qualities.get(name, 0.0) for name in _HTML)
    return html > 0 and html >= max(qualities.values())


def names_no_form(block: bytes) -> bool:
    """Return whether the client names neither JSON nor text, so that its request may decide.

    Arguments:
        block: the request's header fields, each preceded by its CRLF.
    """
    qualities = _qualities(block)
    return not any(name in qualities for name in (*_JSON, *_HTML, *_TEXT[:-1]))


def prefers_event_stream(block: bytes) -> bool:
    """Return whether the client names ``text/event-stream``, and prefers it to all types it names.

    A client that names JSON as well leaves the choice to the server, as clients of MCP do.
    Wildcards name no type.

    Arguments:
        block: the request's header fields, each preceded by its CRLF.
    """
    qualities = _qualities(block)
    stream = qualities.pop(_EVENT_STREAM, 0.0)
    return stream > max((q for name, q in qualities.items() if not name.endswith(b"*")), default=0)


def _qualities(block: bytes) -> dict[bytes, float]:
    """Return the quality of each media range, 0 to 1."""
    qualities: dict[bytes, float] = {}
    for found in islice(_ACCEPT.finditer(block), _MAX_FIELDS):
        for member in _QUOTED.sub(b"", found[1][:_MAX_FIELD_BYTES]).split(b","):
            name, *parameters = (part.strip(b" \t") for part in member.lower().split(b";"))
            qualities[name] = max(qualities.get(name, 0.0), _quality(parameters))
    return qualities


def _quality(parameters: list[bytes]) -> float:
    for parameter in parameters:
        if parameter[:1] == b"q" and parameter[1:].lstrip(b" \t")[:1] == b"=":
            quality = _QUALITY.fullmatch(parameter)
            return float(quality[1]) if quality else 0.0
    return 1.0


# Converts the activator's error responses to problem details (RFC 9457), for clients of JSON.
#
# Status and meaning stay the same. A client that does not prefer JSON gets Knative's bytes. Pure.
# Knative has no counterpart.

#: The prefix of a problem type; the reason's word follows (RFC 4151). It is no URL: the response
#: comes from the host of a service, and must not name a path there.
TYPES: Final = "tag:activator.dev,2026:reasons/"
_PROBLEM: Final = b"\r\nContent-Type: application/problem+json"
#: Both forms have it. Otherwise a cache could give one form to a client that prefers the other. A
#: cache may store a 404 without explicit permission (RFC 9110 section 15.1).
VARY: Final = b"\r\nVary: Accept"
#: The kinds of revisions whose errors have the texts of the KEDA HTTP add-on.
_OF_ADD_ON: Final = (RevisionKind.HTTP_ROUTE, RevisionKind.FALLBACK)


def negotiate_for_revision(
    response: OwnResponse,
    lines: bytes,
    added_lines: bytes,
    revision: RevisionID,
    waited: float,
    attempts: int,
) -> OwnResponse:
    """Return an error response to a request for a known revision, in the form for its client.

    Arguments:
        response: the response as plain text.
        lines: the request's header fields, each preceded by its CRLF.
        added_lines: field lines that the activator adds, each preceded by its CRLF.
        revision: the revision of the request.
        waited: seconds since the request arrived.
        attempts: how often the request was assigned to a pod.
    """
    if revision.kind in _OF_ADD_ON:
        response = of_add_on(response)
    about: dict[str, str | float] = {
        **_names(*revision),
        "waitedSeconds": round(max(0.0, waited), 3),
    }
    if attempts > 1:
        about["attempts"] = attempts
    return _chosen(response, lines, about, revision.kind, added_lines)


def negotiate(response: OwnResponse, block: bytes) -> OwnResponse:
    """Return an error response without a revision, in the form for its client.

    Arguments:
        response: the response as plain text. Responses to probes stay unchanged.
        block: the request's header fields, each preceded by its CRLF; empty if unknown.
    """
    if not (response.reason and block):
        return response
    return _chosen(response, block, {}, RevisionKind.REVISION)


def negotiate_not_found(error: RevisionNotFound, block: bytes) -> OwnResponse:
    """Return the response to a request for an unknown revision, in the form for its client.

    Arguments:
        error: the revision that was not found.
        block: the request's header fields, each preceded by its CRLF.
    """
    named = _names(printable(error.namespace), printable(error.name), error.kind)
    return _chosen(not_found(error), block, named if error.namespace else {}, error.kind)


def _names(namespace: str, name: str, kind: RevisionKind) -> dict[str, str]:
    """Return the members that name a revision; ``service`` only for a plain Service."""
    named = {"namespace": namespace, "revision": name}
    return {**named, "service": name} if kind is RevisionKind.SERVICE else named


def _chosen(
    response: OwnResponse,
    block: bytes,
    about: Mapping[str, str | float],
    kind: RevisionKind,
    added_lines: bytes = b"",
) -> OwnResponse:
    """Return a response as plain text or as problem details, by the preference of its client.

    Arguments:
        block: the request's header fields.
        about: the members that not every problem has, by name.
        kind: of the revision, for the title.
        added_lines: further fields of the response.
    """
    response = replace(response, fields=response.fields + VARY + added_lines)
    if not prefers_json(block):
        return response
    assert response.reason is not None
    members: dict[str, str | float] = {
        "type": TYPES + response.reason.value,
        "title": ROWS[response.reason].title(is_service=kind is not RevisionKind.REVISION),
        "status": response.status,
        "detail": printable(response.detail) or response.body.decode().rstrip("\n"),
        "reason": response.reason.value,
        **about,
    }
    if response.retry_after is not None:
        members["retryAfterSeconds"] = response.retry_after
    fields = response.fields.replace(PLAIN, _PROBLEM, 1)
    body = json.dumps(members, separators=(",", ":")).encode()
    return replace(response, fields=fields, body=body)


# Writes the activator's errors in the form of the OpenAI API. Pure.
#
# Source: https://platform.openai.com/docs/guides/error-codes. Its clients raise an exception with
# the message. Knative has no counterpart.

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
        title = ROWS[reason].title(is_service=kind is not RevisionKind.REVISION)
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
