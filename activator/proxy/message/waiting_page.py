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
    a probe of one has ended, and none is usable yet. BUSY: each usable pod is busy.
    """

    ASKED = "asked"
    LISTED = "listed"
    PROBED = "probed"
    BUSY = "busy"


#: For each phase the value of the progress bar, of 4, and a sentence.
_SHOWN: Final[dict[Phase, tuple[int, str]]] = {
    Phase.ASKED: (1, "A new instance is requested."),
    Phase.LISTED: (2, "An instance is starting."),
    Phase.PROBED: (3, "An instance runs. It does not respond yet."),
    Phase.BUSY: (3, "All instances are busy at the moment."),
}
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
        reason: why requests wait; detail: an explanation for people.
    """

    name: str
    namespace: str
    phase: Phase
    forecast: int | None
    reason: Reason
    detail: str


def page(template: Template, start: Start) -> OwnResponse:
    """Return the response with the page."""
    step, message = _SHOWN[start.phase]
    values = {
        "name": start.name,
        "namespace": start.namespace,
        "phase": start.phase.value,
        "step": str(step),
        "message": message,
        "forecast": _forecast(start.forecast),
        "reason": start.reason.value,
    }
    policy = b"\r\nContent-Security-Policy: " + template.policy.encode()
    body = template.render(values)
    return OwnResponse(503, _HTML + policy, body, start.reason, start.detail, RETRY_AFTER)


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
    return OwnResponse(503, fields, b"", start.reason, start.detail, RETRY_AFTER)


def whole_seconds(expected: float | None) -> int | None:
    """Return a forecast in whole seconds, at least 1; None if it is unknown."""
    return None if expected is None else max(ceil(expected), 1)


def _forecast(seconds: int | None) -> str:
    if seconds is None:
        return "not known yet"
    return f"about {seconds} s" if seconds < _MINUTES_FROM else f"about {ceil(seconds / 60)} min"
