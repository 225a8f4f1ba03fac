"""Our own answers as problem details (RFC 9457), for clients that would rather have JSON.

A response in, a response out; status and meaning stay. Whoever does not ask for JSON gets Knative's
bytes. Knows what an exchange has to tell, and no socket. Knative has no counterpart.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from activator.proxy.message.accept import prefers_json
from activator.proxy.message.own_responses import PLAIN, OwnResponse, not_found, printable
from throttler.errors import RevisionNotFound
from throttler.reason import ROWS

#: What a reason's word is appended to (RFC 4151). Not an address: an answer of a service's host
#: must not send its reader to a path of that service.
TYPES: Final = "tag:activator.dev,2026:reasons/"
_PROBLEM: Final = b"\r\nContent-Type: application/problem+json"
#: Both forms say it: a cache that kept either would give it to who had rather the other (404 may
#: be kept without being asked, RFC 9110 section 15.1).
_VARY: Final = b"\r\nVary: Accept"


def fitted(
    response: OwnResponse,
    lines: bytes,
    notes: bytes,
    namespace: str,
    revision: str,
    waited: float,
    attempts: int,
) -> OwnResponse:
    """Return a response to a revision's request as its client gets it, perhaps as JSON.

    Arguments:
        lines: the request's header fields, each preceded by its CRLF.
        notes: the exchange's field lines for the response.
        waited: seconds; attempts: how often the request was given to a pod.
    """
    response = replace(response, fields=response.fields + _VARY + notes)
    if not prefers_json(lines):
        return response
    about: dict[str, str | float] = {
        "namespace": namespace,
        "revision": revision,
        "waitedSeconds": round(max(0.0, waited), 3),
    }
    if attempts > 1:
        about["attempts"] = attempts
    return _as_problem(response, about)


def negotiated(response: OwnResponse, block: bytes) -> OwnResponse:
    """Return a response that belongs to no revision as its client gets it.

    Arguments:
        block: the request's header fields, each preceded by its CRLF; empty if they are not known.
    """
    if not (response.reason and block):
        return response
    response = replace(response, fields=response.fields + _VARY)
    return _as_problem(response, {}) if prefers_json(block) else response


def unknown(error: RevisionNotFound, block: bytes) -> OwnResponse:
    """Return the answer to a request for a revision that there is not.

    Arguments:
        block: as for ``negotiated``.
    """
    named = {"namespace": printable(error.namespace), "revision": printable(error.name)}
    response = not_found(error)
    response = replace(response, fields=response.fields + _VARY)
    return (
        _as_problem(response, named if error.namespace else {}) if prefers_json(block) else response
    )


def _as_problem(response: OwnResponse, about: Mapping[str, str | float]) -> OwnResponse:
    """Return the same answer with problem details as its body.

    Arguments:
        about: members beyond those of every problem, by name.
    """
    assert response.reason is not None
    members: dict[str, str | float] = {
        "type": TYPES + response.reason.value,
        "title": ROWS[response.reason].meaning,
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
