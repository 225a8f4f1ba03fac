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

from collections.abc import Callable
from dataclasses import asdict

from activator.lab.application import SWITCHES
from activator.lab.http1 import PodRequest
from activator.lab.responses import PodResponse, as_json, text
from activator.lab.state import PodCounters, Switches

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
