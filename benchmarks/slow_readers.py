"""What responses that their clients do not read cost in memory, beside nginx."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from activator.lab.objects import PodAddress
from benchmarks import activator, nginx
from benchmarks.helpers import helper
from benchmarks.process import CannotMeasure, free_port, pause, resident_bytes
from benchmarks.report import Row, middle

#: Bytes of a response: more than all kernels on its way take.
SIZE = 10 << 20
#: Seconds between two looks at the memory, and how many looks there are at most.
STEP, LOOKS = 1.0, 40
#: Bytes by which the memory differs between two looks when nothing moves any more.
STILL = 1 << 20
KIB, MIB = 1 << 10, 1 << 20


@dataclass(frozen=True, slots=True)
class Load:
    """One kind of clients.

    Attributes:
        way: ``http1`` or ``h2c``; connections, streams: how many, and of each.
        goal: at most so many KiB for each response, as far as the bound of all allows them.
    """

    what: str
    way: str
    connections: int
    streams: int
    goal: int = 96


def loads(few: bool) -> tuple[Load, ...]:
    """Return what is measured; ``few``: with fewer clients."""
    clients, connections = (100, 10) if few else (500, 50)
    return (
        Load(f"{clients} clients that read nothing, HTTP/1.1", "http1", clients, 1),
        Load(f"{connections} × 200 streams that are not read, HTTP/2", "h2c", connections, 200),
    )


def measure(folder: Path, few: bool, rounds: int) -> Iterator[Row]:
    """One row for each kind of clients.

    Raises:
        CannotMeasure: a program is missing, or something did not come up.
    """
    for load in loads(few):
        ours, beside = [], []
        for turn in range(rounds):
            own = folder / f"{load.way}-{turn}"
            own.mkdir()
            with _pods(load), _activator(own, load) as found:
                ours.append(_growth(found.pid, found.port, load))
            with _pods(load):
                port = free_port()
                with nginx.proxy(own, port, http2=load.way == "h2c") as pid:
                    beside.append(_growth(pid, port, load))
        yield _row(load, ours, beside)


def _row(load: Load, ours: list[int], beside: list[int]) -> Row:
    responses = load.connections * load.streams
    each, other = middle(ours) / responses, middle(beside) / responses
    return Row(
        f"{load.what}: memory",
        f"{each / KIB:.1f} KiB each, {middle(ours) / MIB:.0f} MiB in all",
        f"nginx {other / KIB:.1f} KiB",
        each / other,
        f"<= {load.goal} KiB",
        each <= load.goal * KIB,
        {"bytes": ours, "bytesBeside": beside, "responses": responses},
    )


def _growth(pid: int, port: int, load: Load) -> int:
    """By how many bytes the memory of a process grows, until it grows no more."""
    with _clients(port, load, connections=2):
        pass  # what is allocated once
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
        clients.hear()
        yield


@contextmanager
def _pods(load: Load) -> Iterator[None]:
    places = [(ip, nginx.POD_PORT) for ip in nginx.POD_IPS]
    if load.way == "h2c":
        with helper("http2_pod", str(SIZE), *(f"{ip}:{port}" for ip, port in places)) as pods:
            pods.hear()
            yield
        return
    with helper("pod", str(SIZE)) as pods:
        for ip, port in places:
            pods.say(f"{ip} {port}")
            pods.hear()
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
