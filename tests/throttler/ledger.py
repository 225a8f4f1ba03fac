"""The state that a random walk keeps by itself: where each request is, and which objects it fed.

The ledger follows the results of calls alone. It decides nothing; ``tests/throttler/invariants.py``
compares it with the throttler.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from throttler.model import Endpoint, Revision
from throttler.pod import PodState, PodTracker
from throttler.revision import RevisionThrottler
from throttler.ticket import ASSIGNED, QUEUED, Ticket

#: Whether each endpoint is ready; None for one that terminates.
Listed = dict[Endpoint, bool | None]


@dataclass(eq=False)
class Fed:
    """The objects that the walk fed for one revision.

    Attributes:
        spec: its specification; real: its throttler.
        listed: the endpoints of its protocol that Kubernetes lists.
        share: the index of this activator, and the number of activators; -1 and 0 if not known.
    """

    spec: Revision
    real: RevisionThrottler
    listed: Listed = field(default_factory=dict)
    share: tuple[int, int] = (-1, 0)
    deleted: bool = False


@dataclass(eq=False)
class Seen:
    """What was seen of one pod.

    Attributes:
        state, ready, limit: as after the last step.
        void: the step in which results of earlier probes became void.
        passed: the step in which the last passed probe began; passed_at: when it passed.
        mesh_like: whether its last probe failed as behind a mesh.
        errors: consecutive errors of its responses.
    """

    state: PodState = PodState.PROBING
    ready: bool = False
    limit: int = 0
    void: int = 0
    passed: int = -1
    passed_at: float = -1000.0
    mesh_like: bool | None = None
    errors: int = 0
    busy_since: float = 0.0


class Ledger:
    """Where each ticket is: in one queue, on one pod, or ended."""

    def __init__(self) -> None:
        self.queued: dict[Ticket, RevisionThrottler] = {}
        self.held: dict[Ticket, PodTracker] = {}
        self.ended: set[Ticket] = set()

    def queue(self, ticket: Ticket, real: RevisionThrottler) -> None:
        """Record that a ticket waits, as a new one or after its pod failed it."""
        assert ticket.state is QUEUED
        assert ticket not in self.ended
        self.held.pop(ticket, None)
        self.queued[ticket] = real

    def hold(self, ticket: Ticket, pod: PodTracker) -> None:
        """Record that a pod has a ticket."""
        assert ticket.state is ASSIGNED
        assert ticket not in self.ended
        assert ticket not in self.held, f"{ticket} has two pods"
        self.queued.pop(ticket, None)
        self.held[ticket] = pod

    def end(self, ticket: Ticket) -> None:
        """Record the only end of a ticket."""
        assert ticket not in self.ended, f"{ticket} ended twice"
        self.queued.pop(ticket, None)
        self.held.pop(ticket, None)
        self.ended.add(ticket)

    def waiting(self, real: RevisionThrottler) -> list[Ticket]:
        """Return the tickets that wait for a revision, by arrival."""
        found = [ticket for ticket, at in self.queued.items() if at is real]
        return sorted(found, key=lambda ticket: ticket.arrived)

    def count(self, pod: PodTracker) -> int:
        """Return how many tickets a pod has."""
        return sum(at is pod for at in self.held.values())
