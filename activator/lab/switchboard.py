"""Decides what a sample pod's admin port answers: switches, counters, and what kubelet asks.

============================ ==================================================================
``/counters``                what reached the pod (requests by id, most at a time), as JSON
``/state``                   the switches, as JSON
``/toggleReady`` and others  turns a switch over: Ready, Live, Exec, Running, SidecarReady,
                             SidecarLive
``/exec``, ``/live``         what an exec readiness probe or a liveness probe would find: 200, 500
``/sidecarReady``, ``…Live`` the same of the other container
``/kill``, ``/start``        what kubelet does to the application's process
``/startSidecar``            what it does to the other container's
============================ ==================================================================

Must not know sockets or traffic. ``/wait-for-drain``, queue-proxy's preStop hook, is the pod's own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict

from activator.lab.answers import Answer, as_json, text
from activator.lab.application import SWITCHES
from activator.lab.http1 import Request
from activator.lab.state import Counters, Switches

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

DEEDS: dict[str, Callable[[Switches], None]] = {
    "/kill": Switches.kill_application,
    "/start": Switches.start_application,
    "/startSidecar": Switches.start_sidecar,
}


def answer_admin(request: Request, switches: Switches, counters: Counters) -> Answer:
    """The admin port's answer to a request."""
    path = request.path
    if path in ALL_SWITCHES:
        name = ALL_SWITCHES[path]
        return text(200, f"{name} is {switches.toggle(name)}\n")
    if path in CHECKS:
        return text(200 if CHECKS[path](switches) else 500, "")
    if path in DEEDS:
        DEEDS[path](switches)
        return text(200, "")
    if path == "/counters":
        return as_json(counters.report())
    if path == "/state":
        return as_json(asdict(switches))
    return text(404, f"no {path} here; try /counters, /state, {', '.join(ALL_SWITCHES)}\n")
