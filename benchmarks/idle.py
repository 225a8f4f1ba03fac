"""CPU time and memory of an activator without traffic."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from activator.lab.objects import PodAddress
from benchmarks import activator, nginx
from benchmarks.process import cpu_seconds, pause, resident_bytes
from benchmarks.report import Row

#: One revision in so many has a pod; the others are scaled to zero.
WITH_POD = 10
GOAL_SHARE = 0.003
#: Seconds after the start for first probes, and until discovery relies on the files' dates.
SETTLE = 10.0


def measure(folder: Path, revisions: int, seconds: float) -> Iterator[Row]:
    """Yield one row: share of a core used by an activator without traffic.

    Raises:
        CannotMeasure: nginx is missing, or the activator did not start.
    """
    manifests = folder / "manifests"
    pod = PodAddress(nginx.POD_IPS[0], nginx.POD_PORT, uid="uid-of-the-pod", ready=True)
    for number in range(revisions):
        pods = [] if number % WITH_POD else [pod]
        activator.write_revision(manifests, pods, name=f"idle-{number}")
    with nginx.pods(folder), activator.running(manifests) as found:
        pause(SETTLE)
        before = cpu_seconds(found.pid)
        pause(seconds)
        share = (cpu_seconds(found.pid) - before) / seconds
        resident = resident_bytes(found.pid)
    yield Row(
        f"idle, {revisions:,} revisions, one in {WITH_POD} with a pod",
        f"{share * 100:.2f} % of a core",
        f"{resident / 2**20:.0f} MiB resident",
        goal=f"≤ {GOAL_SHARE * 100:.1f} %",
        met=share <= GOAL_SHARE,
        details={"share": share, "residentBytes": resident},
    )
