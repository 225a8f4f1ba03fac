"""What a call of the throttler decided, and its caller has to carry out. A record only."""

from __future__ import annotations

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
