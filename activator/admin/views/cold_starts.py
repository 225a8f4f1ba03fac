"""Define the fields of a cold start."""

from __future__ import annotations

from typing import Annotated, TypedDict

from activator.admin.views.fields import says
from activator.records.entries import OUTCOMES

#: Its names are no identifiers, so it is made by a call.
PhasesView = TypedDict(
    "PhasesView",
    {
        "stat-sent": Annotated[
            float, says("the activator sent a report on the revision to the autoscaler")
        ],
        "address": Annotated[float, says("Kubernetes listed a new pod")],
        "probe": Annotated[float, says("the activator sent the first probe")],
        "probe-passed": Annotated[float, says("a probe succeeded")],
        "dispatched": Annotated[float, says("the request with the first response went to its pod")],
        "first-byte": Annotated[float, says("the first byte of that response came")],
    },
    total=False,
)


class ColdStartView(TypedDict):
    """A cold start, from the first request that waited to the first response."""

    began: Annotated[
        str,
        says(
            "when a request first waited while no pod was usable, and none had been a moment "
            "before; UTC, RFC 3339"
        ),
    ]
    outcome: Annotated[
        str | None,
        says(
            "`served`, or how the last request that waited ended; `null` until then",
            (*OUTCOMES, None),
        ),
    ]
    seconds: Annotated[float | None, says("duration; `null` until the end")]
    requests: Annotated[int, says("number of requests that waited")]
    pod: Annotated[
        str | None, says("address of the pod with the first response; `null` until then")
    ]
    phases: Annotated[
        PhasesView, says("phases in order, with seconds since the beginning; see below")
    ]
    probeAheadSeconds: Annotated[
        float | None,
        says(
            "time for which that pod was usable before Kubernetes listed it as ready; `null` if "
            "unknown, or if Kubernetes was first"
        ),
    ]
    why: Annotated[
        str | None,
        says("if it failed, why requests waited, as in `Activator-Reason`; else `null`"),
    ]
