"""One request's place: it waits, is assigned a pod, and ends exactly once.

Knows neither queue nor pod rules; the revision's throttler moves it. Knative has no counterpart:
there a waiter is a goroutine blocked on a channel.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, Protocol

from throttler.config import RevisionConfig
from throttler.pod import PodTracker
from throttler.reason import Reason

#: Of the pods that have failed a request, how many are remembered: the last, which are the ones
#: that may have room.
MAX_AVOIDED: Final = 3


class TicketState(Enum):
    """Where a request is. The last four are ends."""

    NEW = "new"
    QUEUED = "queued"
    ASSIGNED = "assigned"
    RELEASED = "released"
    TIMED_OUT = "timed-out"
    CANCELLED = "cancelled"
    REJECTED = "rejected"


NEW: Final = TicketState.NEW
QUEUED: Final = TicketState.QUEUED
ASSIGNED: Final = TicketState.ASSIGNED
RELEASED: Final = TicketState.RELEASED
TIMED_OUT: Final = TicketState.TIMED_OUT
CANCELLED: Final = TicketState.CANCELLED
REJECTED: Final = TicketState.REJECTED

#: Which state may follow which.
FOLLOWS: Final[dict[TicketState, frozenset[TicketState]]] = {
    NEW: frozenset((ASSIGNED, QUEUED, REJECTED)),
    QUEUED: frozenset((ASSIGNED, TIMED_OUT, CANCELLED)),
    ASSIGNED: frozenset((RELEASED, QUEUED, TIMED_OUT)),
    RELEASED: frozenset(),
    TIMED_OUT: frozenset(),
    CANCELLED: frozenset(),
    REJECTED: frozenset(),
}


class Outcome(Enum):
    """How a request left its pod, for the policy that picked the pod.

    SERVED: its response is complete. FAILED: the pod failed it; it may go to another pod. LEFT: it
    ended for a reason that says nothing of the pod, such as a client that closed.
    """

    SERVED = "served"
    FAILED = "failed"
    NEUTRAL = "left"


SERVED: Final = Outcome.SERVED
FAILED: Final = Outcome.FAILED
NEUTRAL: Final = Outcome.NEUTRAL


class TicketOwner(Protocol):
    """Who holds the request; told by whoever carries out the throttler's changes."""

    def ticket_assigned(self) -> None:
        """The ticket left the queue and has a pod."""

    def ticket_expired(self, reason: Reason, detail: str) -> None:
        """The ticket's deadline passed in the queue; it has ended. See throttler.reason."""


class _NoOwner:
    """Whom a ticket that has ended concerns."""

    def ticket_assigned(self) -> None:
        """See TicketOwner; an ended ticket is not assigned."""

    def ticket_expired(self, reason: Reason, detail: str) -> None:
        """See TicketOwner; an ended ticket does not expire."""


NO_OWNER: Final[TicketOwner] = _NoOwner()


class Ticket:
    """One request's place.

    Attributes:
        owner: whom it concerns.
        deadline: when the request ends unanswered; absolute, on the caller's clock, seconds.
        size: bytes of the request that are held in memory while it waits.
        arrived: when it was admitted.
        config: of the revision whose queue or pod has it; set when it is admitted.
        pod: the pod that has it; None while it waits.
        assigned: when it last got a pod; 0 if its policy did not follow requests then.
        first_byte: when that pod began its response; 0 before.
        key: the part of the request by which its revision's policy picks a pod; empty where the
            policy wants none, or the request lacks it.
        failed: the pods that had it last and failed it; another is preferred.
    """

    __slots__ = (
        "arrived",
        "assigned",
        "config",
        "deadline",
        "failed",
        "first_byte",
        "key",
        "owner",
        "pod",
        "size",
        "state",
    )

    def __init__(self, owner: TicketOwner, deadline: float, size: int = 0) -> None:
        self.owner = owner
        self.deadline = deadline
        self.size = size
        self.arrived = self.assigned = self.first_byte = 0.0
        self.key = b""
        self.config: RevisionConfig | None = None
        self.pod: PodTracker | None = None
        self.failed: tuple[PodTracker, ...] = ()
        self.state = NEW

    def record_failed_pod(self) -> None:
        """Remember that the pod that has the request has failed it."""
        assert self.pod is not None
        self.failed = (*self.failed[1 - MAX_AVOIDED :], self.pod)
