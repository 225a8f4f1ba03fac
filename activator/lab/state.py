"""The state of a sample pod: switches for its probes, and counters of its requests."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

#: Most request ids that are stored; further requests are only counted, to limit memory.
MAX_REMEMBERED_IDS = 200_000


@dataclass(slots=True)
class Switches:
    """The conditions a scenario turns on and off.

    Attributes:
        ready: the application's HTTP readiness, which queue-proxy checks and reports.
        live: the application's liveness; kubelet restarts the application while it is False.
        exec_ready: an exec readiness probe's result; only kubelet sees it, queue-proxy does not.
        running: whether the application's process exists behind queue-proxy.
        sidecar_ready, sidecar_live: the same for the sidecar. queue-proxy polls ``sidecar_ready``
            if the pod has the option ``polls_sidecar``.
        draining: set by SIGTERM or ``/wait-for-drain``; probes fail, requests still succeed.
    """

    ready: bool = True
    live: bool = True
    exec_ready: bool = True
    running: bool = True
    sidecar_ready: bool = True
    sidecar_live: bool = True
    draining: bool = False

    def toggle(self, name: str) -> bool:
        """Toggle the switch of that name, and return its new value."""
        value = not getattr(self, name)
        setattr(self, name, value)
        return value

    def kill_application(self) -> None:
        """End the application's process; queue-proxy stays and gets no notice."""
        self.running = False

    def start_application(self) -> None:
        """Start the application's process again, with all its switches on."""
        self.running = self.live = self.ready = self.exec_ready = True

    def start_sidecar(self) -> None:
        """Start the sidecar's process again, with both its switches on."""
        self.sidecar_ready = self.sidecar_live = True


@dataclass(slots=True)
class PodCounters:
    """Counts of requests and probes, from which tests see lost and repeated requests.

    Attributes:
        last_probes: the last probe of each prober, by user agent: request line and headers.
        at_readiness_port: requests to the separate port of the readiness probe.
    """

    requests: int = 0
    probes: int = 0
    in_flight: int = 0
    max_in_flight: int = 0
    by_id: Counter[str] = field(default_factory=Counter)
    posts_by_id: Counter[str] = field(default_factory=Counter)
    last_probes: dict[str, list[str]] = field(default_factory=dict)
    at_readiness_port: int = 0

    def enter(self, method: str, request_id: str) -> None:
        """Count a request that arrived; the caller must call `leave` after the response."""
        self.requests += 1
        self.in_flight += 1
        self.max_in_flight = max(self.max_in_flight, self.in_flight)
        if request_id and len(self.by_id) < MAX_REMEMBERED_IDS:
            self.by_id[request_id] += 1
            if method == "POST":
                self.posts_by_id[request_id] += 1

    def refuse(self, method: str, request_id: str) -> None:
        """Count the id of a request no more, because queue-proxy refused it."""
        self.by_id[request_id] -= 1
        self.posts_by_id[request_id] -= method == "POST"

    def leave(self) -> None:
        """Count the end of a request."""
        self.in_flight -= 1

    def report(self) -> dict[str, object]:
        """Return all counters as a JSON object."""
        return {
            "requests": self.requests,
            "probes": self.probes,
            "inFlight": self.in_flight,
            "maxInFlight": self.max_in_flight,
            "seenById": dict(self.by_id),
            "postsSeenTwice": sorted(key for key, seen in self.posts_by_id.items() if seen > 1),
            "lastProbes": self.last_probes,
            "atReadinessPort": self.at_readiness_port,
        }
