"""The admin port of a sample pod: switches, counters, and the results of kubelet's probes.

============================ ==================================================================
``/counters``                requests by id, most requests at a time, probes; as JSON
``/state``                   the switches, as JSON
``/toggleReady`` and others  toggle a switch: Ready, Live, Exec, Running, SidecarReady,
                             SidecarLive
``/exec``, ``/live``         the result of an exec readiness or liveness probe: 200 or 500
``/sidecarReady``, ``…Live`` the same for the sidecar
``/kill``, ``/start``        kill or start the application's process, as kubelet does
``/startSidecar``            start the sidecar's process
============================ ==================================================================

:mod:`.pod` handles ``/wait-for-drain`` itself, which is queue-proxy's preStop hook.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field

from activator.lab.http1 import PodRequest, PodResponse, as_json, text

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


#: The switches that the application toggles too, on the port of requests.
SWITCHES = {"/toggleReady": "ready", "/toggleLive": "live", "/toggleExec": "exec_ready"}
ALL_SWITCHES = {
    **SWITCHES,
    "/toggleRunning": "running",
    "/toggleSidecarReady": "sidecar_ready",
    "/toggleSidecarLive": "sidecar_live",
}

CHECKS: dict[str, Callable[[Switches], bool]] = {
    "/exec": lambda switches: switches.exec_ready,
    "/live": lambda switches: switches.live and switches.running,
    "/sidecarReady": lambda switches: switches.sidecar_ready,
    "/sidecarLive": lambda switches: switches.sidecar_live,
}

ACTIONS: dict[str, Callable[[Switches], None]] = {
    "/kill": Switches.kill_application,
    "/start": Switches.start_application,
    "/startSidecar": Switches.start_sidecar,
}


def admin_response(request: PodRequest, switches: Switches, counters: PodCounters) -> PodResponse:
    """Return the admin port's response to a request; a request may change the switches."""
    path = request.path
    if path in ALL_SWITCHES:
        name = ALL_SWITCHES[path]
        return text(200, f"{name} is {switches.toggle(name)}\n")
    if path in CHECKS:
        return text(200 if CHECKS[path](switches) else 500, "")
    if path in ACTIONS:
        ACTIONS[path](switches)
        return text(200, "")
    if path == "/counters":
        return as_json(counters.report())
    if path == "/state":
        return as_json(asdict(switches))
    return text(404, f"no {path} here; try /counters, /state, {', '.join(ALL_SWITCHES)}\n")
