"""What a call of the throttler says: what has to be done, and what there is to see.

Records only; nothing is decided here.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from throttler.capacity import ActivatorShare, CapacityTerms
from throttler.pod import PodTracker
from throttler.ticket import Ticket


@dataclass(slots=True)
class Changes:
    """What a call decided and the caller has to carry out.

    Attributes:
        assigned: tickets that left the queue; ``ticket.pod`` has them now, in this order.
        expired: tickets whose deadline passed; they have ended.
        probe: pods that want a probe now.
        gone: pods that are no more; what the caller keeps for them can go.
        taken: pods whose address another revision has from now on, ``pod.taken_by``.
        service: the ClusterIP if its use has begun or ended; it is in use if it has a ``bit``.
    """

    assigned: list[Ticket] = field(default_factory=list)
    expired: list[Ticket] = field(default_factory=list)
    probe: list[PodTracker] = field(default_factory=list)
    gone: list[PodTracker] = field(default_factory=list)
    taken: list[PodTracker] = field(default_factory=list)
    service: PodTracker | None = None

    def add(self, other: Changes) -> None:
        """Append what another call decided."""
        self.assigned += other.assigned
        self.expired += other.expired
        self.probe += other.probe
        self.gone += other.gone
        self.taken += other.taken
        self.service = other.service or self.service


@dataclass(frozen=True, slots=True)
class Statistics:
    """A revision's state at one moment, for people and metrics; see RevisionThrottler.

    Attributes:
        pods: all that are known, and those that another revision has by now.
        service: the ClusterIP while pods cannot be reached; it is in use if it has a ``bit``.
        start, turnover: seconds, see throttler.forecast; None while nothing is known.
    """

    waiting: int
    held_bytes: int
    oldest_arrival: float | None
    in_flight: int
    capacity: int
    capacity_terms: CapacityTerms
    queue_depth: int
    healthy: int
    in_reach: int
    share: ActivatorShare
    pods: tuple[PodTracker, ...]
    service: PodTracker | None = None
    start: float | None = None
    turnover: float | None = None
