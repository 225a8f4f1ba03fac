"""What a sample pod remembers: whether it is ready, and what it has seen.

Holds switches and counters; decides nothing. Must not know HTTP, sockets or the clock.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

#: Request ids remembered; beyond it new ones are only counted, so a long run cannot fill memory.
MAX_REMEMBERED_IDS = 200_000


@dataclass(slots=True)
class Switches:
    """The conditions a scenario turns on and off.

    Attributes:
        ready: the application's HTTP readiness, which queue-proxy checks and vouches for.
        live: the application's liveness; kubelet restarts the application while it is False.
        exec_ready: an exec readiness probe's result; only kubelet sees it, queue-proxy does not.
        running: whether the application's process exists behind queue-proxy.
        draining: set by SIGTERM or ``/wait-for-drain``; probes fail, requests are still answered.
    """

    ready: bool = True
    live: bool = True
    exec_ready: bool = True
    running: bool = True
    draining: bool = False

    def toggle(self, name: str) -> bool:
        """Turns the switch of that name over and returns its new value."""
        value = not getattr(self, name)
        setattr(self, name, value)
        return value


@dataclass(slots=True)
class Counters:
    """What reached the pod, for tests that must know that nothing was lost or done twice."""

    requests: int = 0
    probes: int = 0
    in_flight: int = 0
    max_in_flight: int = 0
    by_id: Counter[str] = field(default_factory=Counter)
    posts_by_id: Counter[str] = field(default_factory=Counter)

    def enter(self, method: str, request_id: str) -> None:
        """Counts a request that arrived; the caller must call `leave` when it is answered."""
        self.requests += 1
        self.in_flight += 1
        self.max_in_flight = max(self.max_in_flight, self.in_flight)
        if request_id and len(self.by_id) < MAX_REMEMBERED_IDS:
            self.by_id[request_id] += 1
            if method == "POST":
                self.posts_by_id[request_id] += 1

    def leave(self) -> None:
        """Counts a request's end, whatever it was."""
        self.in_flight -= 1

    def report(self) -> dict[str, object]:
        """All of it, in a shape that JSON takes."""
        return {
            "requests": self.requests,
            "probes": self.probes,
            "inFlight": self.in_flight,
            "maxInFlight": self.max_in_flight,
            "seenById": dict(self.by_id),
            "postsSeenTwice": sorted(key for key, seen in self.posts_by_id.items() if seen > 1),
        }
