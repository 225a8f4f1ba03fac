"""What a call of the throttler says: what has to be done, and what there is to see.

Records only; nothing is decided here.
"""

from __future__ import annotations

from dataclasses import dataclass

from throttler.capacity import ActivatorShare, CapacityTerms
from throttler.pod import PodTracker
from throttler.ticket import Ticket


class Changes:
    """What a call decided and the caller has to carry out.

    Attributes:
        assigned: tickets that left the queue; ``ticket.pod`` has them now, in this order.
        expired: tickets whose deadline passed; they have ended.
        probe: pods that want a probe now.
        gone: pods that are no more; what the caller keeps for them can go.
        taken: pods whose address another revision has from now on, ``pod.taken_by``.
        service: the ClusterIP if its use has begun or ended; see its ``in_use``.
    """

    __slots__ = ("assigned", "expired", "gone", "probe", "service", "taken")

    def __init__(self, probe: list[PodTracker] | None = None) -> None:
        self.assigned: list[Ticket] = []
        self.expired: list[Ticket] = []
        self.probe: list[PodTracker] = [] if probe is None else probe
        self.gone: list[PodTracker] = []
        self.taken: list[PodTracker] = []
        self.service: PodTracker | None = None

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
        service: the ClusterIP while pods cannot be reached; see its ``in_use``.
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
