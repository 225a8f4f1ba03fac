"""What a user is told of a stage that is left running: where everything is, and what to try.

Pure. Must not know how long it is kept.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from activator.lab.report import Row, text


class Place(NamedTuple):
    """Where one pod of a stage listens: its traffic port and its admin port."""

    pod: str
    address: str
    admin: str


#: What each turns over; the first three are on the traffic port as well.
SWITCHES = (
    ("Ready", "the readiness probe that queue-proxy asks"),
    ("Live", "the liveness probe of the application"),
    ("Exec", "an exec readiness probe, which queue-proxy cannot see"),
    ("Running", "whether the application runs behind queue-proxy"),
    ("SidecarReady", "the readiness probe of the other container"),
    ("SidecarLive", "the liveness probe of the other container"),
)


def guide(
    traffic: str,
    admin: str,
    manifests: str,
    revisions: Iterable[str],
    pods: Iterable[Place],
    heeded: Collection[str],
) -> list[Row]:
    """What to try, until Ctrl-C.

    Arguments:
        traffic, admin: host and port of the activator's two sides.
        manifests: the folder that it watches.
        heeded: the switches that somebody asks in this scenario.
    """
    names = list(revisions)
    hosts = [f"{name}.default.svc.cluster.local" for name in names]
    lines = ["It goes on running. Requests, by way of the activator:", ""]
    lines += [f"  curl -H 'Host: {host}' http://{traffic}/" for host in hosts]
    lines += ["", "What the activator knows:", ""]
    lines += [f"  activator explain {name} --admin-url http://{admin} --watch" for name in names]
    lines.append(f"  activator status --admin-url http://{admin}")
    lines.append(f"  curl http://{admin}/api/v1/revisions")
    lines += ["", "The pods, with their traffic ports and admin ports:", ""]
    lines += [f"  {pod.pod:<14} {pod.address:<22} http://{pod.admin}/" for pod in pods]
    lines += [
        "",
        "Each switch turns over with a GET on the admin port; the first three also with one on the",
        "traffic port, and so through the activator:",
        "",
    ]
    for name, meaning in SWITCHES:
        nobody = "" if name in heeded else "; nobody asks it in this scenario"
        lines.append(f"  {'/toggle' + name:<21} {meaning}{nobody}")
    lines += ["", f"Manifests: {manifests}    Ctrl-C ends it.", "What happens:", ""]
    return [text(line) for line in lines]
