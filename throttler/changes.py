"""The effects that a call of the throttler decided and its caller must execute. A record only."""

from __future__ import annotations

from throttler.pod import PodTracker
from throttler.ticket import Ticket


class Changes:
    """The effects that a call decided and the caller must execute.

    Attributes:
        assigned: tickets that left the queue, in this order; ``ticket.pod`` is the pod of each.
        expired: tickets whose deadline has passed; they have ended.
        probe: pods to probe now.
        gone: removed pods; the caller releases their connections and probes.
        taken: pods whose address moved to another revision, ``pod.taken_by``.
        service: the ClusterIP if its use has begun or ended; see its ``in_use``.
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
