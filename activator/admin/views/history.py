"""Define the fields of the history: the last ten minutes, in steps."""

from __future__ import annotations

from typing import Annotated, TypedDict

from activator.admin.views.fields import KIND, says


class PastView(TypedDict):
    """Values of each step; lists of equal length, the oldest step first."""

    queued: Annotated[list[int], says("peak of queued requests")]
    inFlight: Annotated[list[int], says("peak of requests in flight")]
    outcomes: Annotated[
        dict[str, list[int]],
        says(
            "number of requests that ended, by the words of `activator_requests_total`; only words"
            " that occur"
        ),
    ]


class RevisionPastView(PastView):
    """Values of each step for one revision."""

    namespace: Annotated[str, says("namespace of the Revision object")]
    name: Annotated[str, says("name of the Revision object")]
    kind: Annotated[str, says(KIND)]


class HistoryView(TypedDict):
    """The last ten minutes."""

    revisions: Annotated[
        list[RevisionPastView],
        says("the revisions that had requests, sorted by namespace and name, see below"),
    ]
    activator: Annotated[
        PastView,
        says(
            "sums over all revisions. For `queued` and `inFlight` a sum is an upper bound, since "
            "peaks may fall on different moments"
        ),
    ]
    stepSeconds: Annotated[float, says("length of a step")]
    steps: Annotated[int, says("maximum of steps; fewer after a start")]
    time: Annotated[str, says("end of the last step; UTC, RFC 3339")]
