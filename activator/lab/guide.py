"""The guide that ``activator lab --keep`` prints: all addresses, and commands to try."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import NamedTuple

from activator.lab.report import ReportRow, text


class ShownPod(NamedTuple):
    """The addresses of one pod: its traffic port and its admin port."""

    pod: str
    address: str
    admin: str


#: Each switch and its effect; the first three are on the traffic port as well.
SWITCHES = (
    ("Ready", "the readiness probe that queue-proxy runs"),
    ("Live", "the liveness probe of the application"),
    ("Exec", "an exec readiness probe, which queue-proxy cannot see"),
    ("Running", "whether the application runs behind queue-proxy"),
    ("SidecarReady", "the readiness probe of the other container"),
    ("SidecarLive", "the liveness probe of the other container"),
)


def own_command() -> str:
    """Return the command that starts this program's command line in the current folder."""
    found = shutil.which("activator")
    installed = Path(sys.executable).with_name("activator")
    if found is not None and Path(found).resolve() == installed.resolve():
        return "activator"
    return os.path.relpath(installed) if installed.is_relative_to(Path.cwd()) else str(installed)


def guide(
    traffic: str,
    admin: str,
    objects: str,
    revisions: Iterable[str],
    pods: Iterable[ShownPod],
    probed_switches: Collection[str],
) -> list[ReportRow]:
    """Return the guide as rows.

    Arguments:
        traffic, admin: host and port of the activator for requests, and of its admin API.
        objects: where the activator's objects are: a folder, or a command that shows them.
        probed_switches: the switches that have an effect in this scenario.
    """
    names = list(revisions)
    hosts = [f"{name}.default.svc.cluster.local" for name in names]
    lines = ["All processes keep running. Send requests through the activator:", ""]
    lines += [f"  curl -H 'Host: {host}' http://{traffic}/" for host in hosts]
    lines += ["", "Show the activator's state:", ""]
    lines += [
        f"  {own_command()} explain {name} --admin-url http://{admin} --watch" for name in names
    ]
    lines.append(f"  {own_command()} status --admin-url http://{admin}")
    lines.append(f"  curl http://{admin}/api/v1/revisions")
    lines += ["", "The pods, with their traffic ports and admin ports:", ""]
    lines += [f"  {pod.pod:<14} {pod.address:<22} http://{pod.admin}/" for pod in pods]
    lines += [
        "",
        "A GET on the admin port toggles a switch. The first three are also on the traffic port,",
        "so you can use them through the activator:",
        "",
    ]
    for name, meaning in SWITCHES:
        idle = "" if name in probed_switches else "; no effect in this scenario"
        lines.append(f"  {'/toggle' + name:<21} {meaning}{idle}")
    lines += ["", f"Objects: {objects}    Ctrl-C ends the lab.", "Events:", ""]
    return [text(line) for line in lines]
