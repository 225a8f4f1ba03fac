"""Decides what a sample pod's admin port answers: switches, counters, and what kubelet asks.

============================ ==================================================================
``/counters``                what reached the pod (requests by id, most at a time), as JSON
``/state``                   the switches, as JSON
``/toggleReady`` and others  turns a switch over: Ready, Live, Exec, Running
``/exec``, ``/live``         what an exec readiness probe or a liveness probe would find: 200, 500
============================ ==================================================================

Must not know sockets or traffic. ``/wait-for-drain``, queue-proxy's preStop hook, is the pod's own.
"""

from __future__ import annotations

from dataclasses import asdict

from activator.lab.answers import Answer, as_json, text
from activator.lab.application import SWITCHES
from activator.lab.http1 import Request
from activator.lab.state import Counters, Switches

ALL_SWITCHES = {**SWITCHES, "/toggleRunning": "running"}


def answer_admin(request: Request, switches: Switches, counters: Counters) -> Answer:
    """The admin port's answer to a request."""
    path = request.path
    if path in ALL_SWITCHES:
        name = ALL_SWITCHES[path]
        return text(200, f"{name} is {switches.toggle(name)}\n")
    if path == "/counters":
        return as_json(counters.report())
    if path == "/state":
        return as_json(asdict(switches))
    if path == "/exec":
        return text(200 if switches.exec_ready else 500, "")
    if path == "/live":
        return text(200 if switches.live and switches.running else 500, "")
    return text(404, f"no {path} here; try /counters, /state, {', '.join(ALL_SWITCHES)}\n")
