"""Memory of responses that their clients do not read, compared with nginx."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from activator.lab.objects import PodAddress
from benchmarks import activator, nginx
from benchmarks.helpers import helper
from benchmarks.process import CannotMeasure, free_port, pause, resident_bytes
from benchmarks.report import Row, middle

#: Bytes of a response: more than all kernels on its way hold.
SIZE = 10 << 20
#: Seconds between two readings of the memory, and the most readings.
STEP, LOOKS = 1.0, 40
#: The memory is stable when two readings differ by fewer bytes than this.
STILL = 1 << 20
KIB, MIB = 1 << 10, 1 << 20
#: The most KiB per response.
GOAL = 96


@dataclass(frozen=True, slots=True)
class Load:
    """One kind of clients.

    Attributes:
        way: ``http1`` or ``h2c``.
        connections: the number of connections; streams: requests on each.
    """

    what: str
    way: str
    connections: int
    streams: int


def loads(few: bool) -> tuple[Load, ...]:
    """Return the loads to measure; ``few``: with fewer clients."""
    clients, connections = (100, 10) if few else (500, 50)
    return (
        Load(f"{clients} clients that read nothing, HTTP/1.1", "http1", clients, 1),
        Load(f"{connections} × 200 streams that are not read, HTTP/2", "h2c", connections, 200),
    )


def measure(folder: Path, few: bool, rounds: int) -> Iterator[Row]:
    """Yield one row for each kind of clients.

    Raises:
        CannotMeasure: a program is missing, or a process did not start.
    """
    for load in loads(few):
        ours, ended, beside = [], [], []
        for turn in range(rounds):
            own = folder / f"{load.way}-{turn}"
            own.mkdir()
            with _pods(load), _activator(own, load) as found:
                ours.append(_growth(found.pid, found.port, load))
                ended.append(_ended(found))
            with _pods(load):
                port = free_port()
                with nginx.proxy(own, port, http2=load.way == "h2c") as pid:
                    beside.append(_growth(pid, port, load))
        yield _row(load, ours, ended, beside)


def _row(load: Load, ours: list[int], ended: list[int], beside: list[int]) -> Row:
    """Return the row of one kind of clients; responses that were ended use no memory."""
    responses = load.connections * load.streams
    left = responses - middle(ended)
    each = middle(ours) / left
    measured = f"{each / KIB:.1f} KiB each, {middle(ours) / MIB:.0f} MiB in all"
    if left < responses:
        measured += f", {responses - left:,.0f} ended"
    other = middle(beside) / responses
    return Row(
        f"{load.what}: memory",
        measured,
        f"nginx {other / KIB:.1f} KiB each",
        each / other,
        f"<= {GOAL} KiB each",
        each <= GOAL * KIB,
        {"bytes": ours, "ended": ended, "bytesBeside": beside, "responses": responses},
    )


def _ended(found: activator.Activator) -> int:
    """Return how many responses it ended at its limit; 0 if it has no such limit."""
    text = found.admin_get("/metrics")[1].decode()
    ended = re.search(r'^activator_unread_ended_total\{peer="client"\} (\d+)', text, re.MULTILINE)
    return int(ended[1]) if ended else 0


def _growth(pid: int, port: int, load: Load) -> int:
    """Return by how many bytes the memory of a process grows, until it is stable."""
    with _clients(port, load, connections=2):
        pass  # for memory that is allocated only once
    pause(STEP)
    before = resident_bytes(pid)
    with _clients(port, load, load.connections):
        last = before
        for _ in range(LOOKS):
            pause(STEP)
            now = resident_bytes(pid)
            if abs(now - last) < STILL and now > before + STILL:
                return now - before
            last = now
    raise CannotMeasure(f"memory still changes after {LOOKS * STEP:g} s")


@contextmanager
def _clients(port: int, load: Load, connections: int) -> Iterator[None]:
    counts = str(connections), str(load.streams)
    with helper("slow_clients", load.way, str(port), activator.HOST, *counts) as clients:
        clients.receive()
        yield


@contextmanager
def _pods(load: Load) -> Iterator[None]:
    places = [(ip, nginx.POD_PORT) for ip in nginx.POD_IPS]
    if load.way == "h2c":
        with helper("http2_pod", str(SIZE), *(f"{ip}:{port}" for ip, port in places)) as pods:
            pods.receive()
            yield
        return
    with helper("pod", str(SIZE)) as pods:
        for ip, port in places:
            pods.send(f"{ip} {port}")
            pods.receive()
        yield


@contextmanager
def _activator(folder: Path, load: Load) -> Iterator[activator.Activator]:
    pods = [
        PodAddress(ip, nginx.POD_PORT, uid=f"uid-{ip}", name=f"pod-{ip}", ready=True)
        for ip in nginx.POD_IPS
    ]
    manifests = folder / "manifests"
    activator.write_revision(manifests, pods, h2c=load.way == "h2c")
    with activator.running(manifests) as found:
        yield found
