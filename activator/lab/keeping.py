"""What a user is told of a stage that is left running: where everything is, and what to try.

Pure. Must not know how long it is kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from activator.lab.report import Row, text


class Place(NamedTuple):
    """Where one pod of a stage listens, for requests and for its switches."""

    pod: str
    address: str
    admin: str


SWITCHES = (
    ("toggleReady", "the readiness probe that queue-proxy asks"),
    ("toggleLive", "the liveness probe of the application"),
    ("toggleExec", "an exec readiness probe, which queue-proxy cannot see"),
    ("toggleSidecarReady", "the readiness probe of the other container"),
    ("toggleSidecarLive", "the liveness probe of the other container"),
)


def guide(
    traffic: str, admin: str, manifests: str, revisions: Iterable[str], pods: Iterable[Place]
) -> list[Row]:
    """What to try, until Ctrl-C.

    Arguments:
        traffic, admin: host and port of the activator's two sides.
        manifests: the folder that it watches.
    """
    names = list(revisions)
    hosts = [f"{name}.default.svc.cluster.local" for name in names]
    lines = ["It goes on running. Requests, by way of the activator:", ""]
    lines += [f"  curl -H 'Host: {host}' http://{traffic}/" for host in hosts]
    lines += ["", "What the activator knows:", ""]
    lines += [f"  activator explain {name} --admin-url http://{admin} --watch" for name in names]
    lines.append(f"  activator status --admin-url http://{admin}")
    lines.append(f"  curl http://{admin}/api/v1/revisions")
    lines += ["", "The pods, and the ports of their switches:", ""]
    lines += [f"  {pod.pod:<14} {pod.address:<22} http://{pod.admin}/" for pod in pods]
    lines += [
        "",
        "Each switch turns over with a GET; the first three on the pod's own port, too:",
        "",
    ]
    lines += [f"  /{name:<20} {meaning}" for name, meaning in SWITCHES]
    lines += ["", f"Manifests: {manifests}    Ctrl-C ends it.", "What happens:", ""]
    return [text(line) for line in lines]
