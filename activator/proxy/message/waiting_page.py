"""Builds the waiting page, and the responses to the requests by which it follows the start. Pure.

Nothing of a request is in the page. Its values come from the objects of the cluster, and each is
escaped. Knative has no counterpart.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from math import ceil
from typing import Final

from activator.proxy.message.own_responses import OwnResponse
from activator.proxy.message.page_template import Template
from throttler.reason import Reason

#: Seconds of Retry-After: the page asks as often.
RETRY_AFTER: Final = 2
#: From so many seconds on, a forecast is given in minutes.
_MINUTES_FROM: Final = 90


class Phase(Enum):
    """How far the start of a revision is.

    ASKED: no pod is listed yet. LISTED: Kubernetes lists one, and no probe of it has ended. PROBED:
    a probe of one has ended, and none is usable yet. BUSY: each usable pod is busy. FAILED: the
    time-out of a request has passed since the first one waited.
    """

    ASKED = "asked"
    LISTED = "listed"
    PROBED = "probed"
    BUSY = "busy"
    FAILED = "failed"


#: For each phase the value of the progress bar, of 4, and a sentence.
_SHOWN: Final[dict[Phase, tuple[int, str]]] = {
    Phase.ASKED: (1, "A new instance is requested."),
    Phase.LISTED: (2, "An instance is starting."),
    Phase.PROBED: (3, "An instance runs. It does not respond yet."),
    Phase.BUSY: (3, "All instances are busy at the moment."),
    Phase.FAILED: (0, "It did not start in time ({}). Load this page again to retry."),
}
_LATE: Final = "longer than usual"
_NO_STORE: Final = b"\r\nCache-Control: no-store"
_HTML: Final = (
    b"\r\nContent-Type: text/html; charset=utf-8\r\nX-Content-Type-Options: nosniff"
    b"\r\nReferrer-Policy: same-origin" + _NO_STORE
)


@dataclass(frozen=True, slots=True)
class Start:
    """The start of a revision, as a page shows it.

    Attributes:
        name: of the Service, or of the revision; namespace: of both.
        phase: see Phase.
        forecast: the expected wait, whole seconds; None if unknown.
        is_late: whether it takes longer than usual.
        reason: why requests wait; detail: an explanation for people.
    """

    name: str
    namespace: str
    phase: Phase
    forecast: int | None
    reason: Reason
    detail: str
    is_late: bool = False


def page(template: Template, start: Start) -> OwnResponse:
    """Return the response with the page; at the end it does not load itself again."""
    step, message = _SHOWN[start.phase]
    values = {
        "name": start.name,
        "namespace": start.namespace,
        "phase": start.phase.value,
        "step": str(step),
        "message": message.replace("{}", start.reason.value),
        "forecast": _LATE if start.is_late else _forecast(start.forecast),
        "reason": start.reason.value,
    }
    policy = b"\r\nContent-Security-Policy: " + template.policy.encode()
    body = template.render(values, reloads=start.phase is not Phase.FAILED)
    return _response(start, _HTML + policy, body)


def peek(start: Start | None) -> OwnResponse:
    """Return the response to a page that asks whether it should reload.

    Arguments:
        start: the start of the revision; None if a request would be served now.
    """
    if start is None:
        return OwnResponse(200, _NO_STORE)
    fields = _NO_STORE + b"\r\nActivator-Phase: " + start.phase.value.encode()
    if start.forecast is not None:
        fields += b"\r\nActivator-Forecast: %d" % start.forecast
    elif start.is_late:
        fields += b"\r\nActivator-Forecast: late"
    return _response(start, fields)


def _response(start: Start, fields: bytes, body: bytes = b"") -> OwnResponse:
    failed = start.phase is Phase.FAILED
    status, again = (504, None) if failed else (503, RETRY_AFTER)
    return OwnResponse(status, fields, body, start.reason, start.detail, again)


def whole_seconds(expected: float | None) -> int | None:
    """Return a forecast in whole seconds, at least 1; None if it is unknown."""
    return None if expected is None else max(ceil(expected), 1)


def _forecast(seconds: int | None) -> str:
    if seconds is None:
        return "not known yet"
    return f"about {seconds} s" if seconds < _MINUTES_FROM else f"about {ceil(seconds / 60)} min"
