"""Define the fields of the order of a revision's queue."""

from __future__ import annotations

from typing import Annotated, TypedDict

from activator.admin.views.fields import says
from throttler.request_policies import NAMES


class ClassesView(TypedDict):
    """Queued requests by the class in which they arrived."""

    high: Annotated[int, says("requests of class high")]
    normal: Annotated[int, says("requests of class normal")]
    low: Annotated[int, says("requests of class low")]


class FlowView(TypedDict):
    """A flow with queued requests."""

    flow: Annotated[
        str,
        says(
            "hash of the name of the flow; the name itself with `activator.dev/fair-names`, if it "
            "has at most 64 bytes and can be printed"
        ),
    ]
    queued: Annotated[int, says("number of its queued requests")]


class QueueOrderView(TypedDict):
    """How the queue orders requests, by annotations."""

    priority: Annotated[
        str | None,
        says(
            "class of a request that selects none; `null` if requests have no classes",
            (*NAMES, None),
        ),
    ]
    trustsHeader: Annotated[
        bool, says("whether a request may select its class by `Activator-Priority`")
    ]
    queuedByClass: Annotated[
        ClassesView | None, says("queued requests by class; `null` without classes")
    ]
    fairBy: Annotated[
        str | None, says("part of a request that names its flow; `null` without flows")
    ]
    flows: Annotated[int, says("number of flows with queued requests")]
    largestFlows: Annotated[
        list[FlowView], says("the five flows with the most queued requests, the largest first")
    ]
