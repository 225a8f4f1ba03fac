"""The record of one request, and the effects of a call that its caller must execute."""

from __future__ import annotations

from enum import Enum
from typing import Final, Protocol

from throttler.model import RevisionConfig
from throttler.pod import PodTracker
from throttler.reason import Reason
from throttler.request_policies import NORMAL

# The record of one request: queued, assigned to a pod, then ended exactly once.
#
# Knative has no counterpart: there a queued request is a goroutine blocked on a channel.

#: The rank of a ticket that is in no ranked queue.
UNRANKED: Final = -1
#: The same, after the ticket had lost its pod and had its turn again. It keeps its place also where
#: it then waits for one pod.
KEEPS_PLACE: Final = -2
#: A ticket records so many of the pods that failed its request: the last ones, which are the most
#: likely to have a free slot.
MAX_AVOIDED: Final = 3


class TicketState(Enum):
    """The state of a request. The last four are final."""

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

#: The states that may follow each state.
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

    SERVED: its response is complete. FAILED: the pod failed it; it may go to another pod. NEUTRAL:
    it ended for a reason that says nothing about the pod, such as a client that closed.
    """

    SERVED = "served"
    FAILED = "failed"
    NEUTRAL = "left"


SERVED: Final = Outcome.SERVED
FAILED: Final = Outcome.FAILED
NEUTRAL: Final = Outcome.NEUTRAL


class TicketOwner(Protocol):
    """The object that has the request; the driver notifies it."""

    def ticket_assigned(self) -> None:
        """Continue: the ticket left the queue and has a pod."""

    def ticket_expired(self, reason: Reason, detail: str) -> None:
        """End the request: the deadline of its ticket passed in the queue.

        Arguments:
            reason: why it was queued, see throttler.reason; detail: more for people, often empty.
        """


class _NoOwner:
    """The owner of tickets that have ended; nothing calls it."""

    def ticket_assigned(self) -> None:
        """Do nothing: an ended ticket is not assigned."""

    def ticket_expired(self, reason: Reason, detail: str) -> None:
        """Do nothing: an ended ticket does not expire."""


NO_OWNER: Final[TicketOwner] = _NoOwner()


class Ticket:
    """The record of one request.

    Attributes:
        owner: the object to notify.
        deadline: when the request expires; absolute, seconds on the caller's clock.
        size: bytes of the request that are buffered while it is queued.
        arrived: when it was admitted, seconds on the caller's clock.
        config: of its revision; set when it is admitted.
        counts: whether it is load of its revision, for the autoscaler.
        pod: the pod that has it; None while it is queued.
        assigned: when it last got a pod; 0 if the policy did not follow requests then.
        beside: requests that the pod then had in flight, with this one; 0 as for ``assigned``.
        sent: when that pod had the whole request; infinite while the body is still on its way.
        first_byte: when that pod began its response; 0 before.
        key: the part of the request by which a policy picks a pod; empty if the policy needs no
            key, or the request has none.
        failed: the last pods that failed it; another pod is preferred.
        priority: its class, see throttler.request_policies; flow: the name of its flow. Both have
            their default unless the revision has classes or flows.
        ages: whether it rises to higher classes with age.
        rank: the class in which it waits now; negative outside a ranked queue, see UNRANKED.
    """

    __slots__ = (
        "ages",
        "arrived",
        "assigned",
        "beside",
        "config",
        "counts",
        "deadline",
        "failed",
        "first_byte",
        "flow",
        "key",
        "owner",
        "pod",
        "priority",
        "rank",
        "sent",
        "size",
        "state",
    )

    def __init__(self, owner: TicketOwner, deadline: float, size: int = 0) -> None:
        self.owner = owner
        self.deadline = deadline
        self.size = size
        self.arrived = self.assigned = self.sent = self.first_byte = 0.0
        self.key = self.flow = b""
        self.priority = NORMAL
        self.rank = UNRANKED
        self.ages = False
        self.counts = True
        self.beside = 0
        self.config: RevisionConfig | None = None
        self.pod: PodTracker | None = None
        self.failed: tuple[PodTracker, ...] = ()
        self.state = NEW

    def record_failed_pod(self) -> None:
        """Record that the pod that has the request has failed it."""
        assert self.pod is not None
        self.failed = (*self.failed[1 - MAX_AVOIDED :], self.pod)


class Changes:
    """The effects that a call decided and the caller must execute.

    Attributes:
        assigned: tickets that left the queue, in this order; ``ticket.pod`` is the pod of each.
        expired: tickets whose deadline has passed; they have ended.
        probe: pods to probe now.
        gone: removed pods; the caller releases their connections and probes.
        taken: pods whose address moved to another revision, ``pod.taken_by``.
        service: the record of the ClusterIP if its use has begun or ended: its ``in_use`` shows
            which; else None.
        stranded: queued tickets of a revision whose last usable pod is lost. They stay queued,
            unless the caller cancels a request that may not start a pod.
    """

    __slots__ = ("assigned", "expired", "gone", "probe", "service", "stranded", "taken")

    def __init__(self, probe: list[PodTracker] | None = None) -> None:
        self.assigned: list[Ticket] = []
        self.expired: list[Ticket] = []
        self.probe: list[PodTracker] = [] if probe is None else probe
        self.gone: list[PodTracker] = []
        self.taken: list[PodTracker] = []
        self.service: PodTracker | None = None
        self.stranded: list[Ticket] = []

    def add(self, other: Changes) -> None:
        """Append the effects of another call."""
        self.assigned += other.assigned
        self.expired += other.expired
        self.probe += other.probe
        self.gone += other.gone
        self.taken += other.taken
        self.service = other.service or self.service
        self.stranded += other.stranded
