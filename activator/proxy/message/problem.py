"""Converts the activator's error responses to problem details (RFC 9457), for clients of JSON.

Status and meaning stay the same. A client that does not prefer JSON gets Knative's bytes. Pure.
Knative has no counterpart.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from activator.proxy.message.accept import prefers_json
from activator.proxy.message.own_responses import PLAIN, OwnResponse, not_found, printable
from throttler.errors import RevisionNotFound
from throttler.model import RevisionID, RevisionKind
from throttler.reason import ROWS

#: The prefix of a problem type; the reason's word follows (RFC 4151). It is no URL: the response
#: comes from the host of a service, and must not name a path there.
TYPES: Final = "tag:activator.dev,2026:reasons/"
_PROBLEM: Final = b"\r\nContent-Type: application/problem+json"
#: Both forms have it. Otherwise a cache could give one form to a client that prefers the other. A
#: cache may store a 404 without explicit permission (RFC 9110 section 15.1).
VARY: Final = b"\r\nVary: Accept"


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
    response = replace(response, fields=response.fields + VARY + added_lines)
    if not prefers_json(lines):
        return response
    about: dict[str, str | float] = {
        **_names(*revision),
        "waitedSeconds": round(max(0.0, waited), 3),
    }
    if attempts > 1:
        about["attempts"] = attempts
    return _as_problem(response, about, revision.kind)


def negotiate(response: OwnResponse, block: bytes) -> OwnResponse:
    """Return an error response without a revision, in the form for its client.

    Arguments:
        response: the response as plain text. Responses to probes stay unchanged.
        block: the request's header fields, each preceded by its CRLF; empty if unknown.
    """
    if not (response.reason and block):
        return response
    response = replace(response, fields=response.fields + VARY)
    if not prefers_json(block):
        return response
    return _as_problem(response, {}, RevisionKind.REVISION)


def negotiate_not_found(error: RevisionNotFound, block: bytes) -> OwnResponse:
    """Return the response to a request for an unknown revision, in the form for its client.

    Arguments:
        error: the revision that was not found.
        block: the request's header fields, each preceded by its CRLF.
    """
    response = not_found(error)
    response = replace(response, fields=response.fields + VARY)
    if not prefers_json(block):
        return response
    named = _names(printable(error.namespace), printable(error.name), error.kind)
    return _as_problem(response, named if error.namespace else {}, error.kind)


def _names(namespace: str, name: str, kind: RevisionKind) -> dict[str, str]:
    """Return the members that name a revision; ``service`` only for a plain Service."""
    named = {"namespace": namespace, "revision": name}
    return {**named, "service": name} if kind is RevisionKind.SERVICE else named


def _as_problem(
    response: OwnResponse, about: Mapping[str, str | float], kind: RevisionKind
) -> OwnResponse:
    """Return the same response with problem details as its body.

    Arguments:
        about: the members that not every problem has, by name.
        kind: of the revision, for the title.
    """
    assert response.reason is not None
    members: dict[str, str | float] = {
        "type": TYPES + response.reason.value,
        "title": ROWS[response.reason].title(is_service=kind is RevisionKind.SERVICE),
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
