"""Thousands of requests that wait for a first pod: memory of each, time to the last response."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from activator.lab.objects import PodAddress
from activator.process.memory import PERIOD
from benchmarks import activator
from benchmarks.helpers import Helper, helper
from benchmarks.process import CannotMeasure, pause, resident_bytes, wait_until
from benchmarks.report import Row, middle

POD_IP, POD_PORT = "127.0.0.25", 8012
POD = PodAddress(POD_IP, POD_PORT, uid="uid-of-the-pod", name="pod", ready=True)
#: Requests before the first measurement, so that one-time allocations are not counted.
WARM_UP = 64
#: Seconds after the last request has arrived, for bytes in socket buffers.
SETTLE = 0.5
GOAL_BYTES = 4096
#: Seconds from the pod's appearance to the last response, by containerConcurrency.
GOALS = {10: 0.3, 0: 0.5}
#: Memory after a crowd has left, as a share of the memory before it came, and the growth that
#: counts as none.
GOAL_AFTER, NO_GROWTH = 1.7, 0.03


@dataclass(frozen=True, slots=True)
class Turn:
    """The measurements of one turn."""

    seconds: float
    direct_seconds: float
    bytes_per_waiter: float


def measure(folder: Path, waiters: int, rounds: int) -> Iterator[Row]:
    """Yield rows for memory and time; turns with a new activator and without one alternate.

    Raises:
        CannotMeasure: a process did not start, or a response was not 200.
    """
    turns: dict[int, list[Turn]] = {limit: [] for limit in GOALS}
    with helper("pod") as pod:
        pod.send(f"{POD_IP} {POD_PORT}")
        pod.receive()
        for number in range(rounds):
            for limit, done in turns.items():
                manifests = folder / f"{limit}-{number}"
                direct = _direct(waiters)
                done.append(_turn(manifests, limit, waiters, direct))
    yield _memory_row(waiters, [turn for done in turns.values() for turn in done])
    for limit, done in turns.items():
        yield _release_row(waiters, limit, done)


def _memory_row(waiters: int, turns: list[Turn]) -> Row:
    each = middle([turn.bytes_per_waiter for turn in turns])
    return Row(
        f"{waiters:,} waiting GETs: memory",
        f"{each / 1024:.2f} KiB each",
        goal="<= 4 KiB",
        met=each <= GOAL_BYTES,
        details={"bytesPerWaiter": [turn.bytes_per_waiter for turn in turns]},
    )


def _release_row(waiters: int, limit: int, turns: list[Turn]) -> Row:
    took = middle([turn.seconds for turn in turns])
    direct = middle([turn.direct_seconds for turn in turns])
    goal = GOALS[limit]
    return Row(
        f"{waiters:,} waiting GETs, one pod, containerConcurrency {limit}",
        f"last response after {took:.3f} s",
        f"straight to the pod {direct:.3f} s",
        took / direct,
        f"<= {goal} s",
        took <= goal,
        {
            "seconds": [turn.seconds for turn in turns],
            "directSeconds": [turn.direct_seconds for turn in turns],
        },
    )


def _direct(waiters: int) -> float:
    """Return the seconds that the same crowd needs without an activator."""
    with helper("crowd", f"{POD_IP}:{POD_PORT}", activator.HOST, str(waiters)) as crowd:
        crowd.receive()
        crowd.send("go")
        sent = crowd.receive()["sent"]
        return _last_answer(crowd, waiters) - float(sent)


def _turn(manifests: Path, limit: int, waiters: int, direct: float) -> Turn:
    activator.write_revision(manifests, [POD], container_concurrency=limit)
    with activator.running(manifests) as found:
        _warm_up(found)
        found.list_pods([])
        before = resident_bytes(found.pid)
        target = f"127.0.0.1:{found.port}"
        with helper("crowd", target, activator.HOST, str(waiters)) as crowd:
            crowd.receive()
            crowd.send("go")
            crowd.receive()
            wait_until(lambda: found.queued() == waiters, f"{waiters} requests wait", 60)
            pause(SETTLE)
            growth = resident_bytes(found.pid) - before
            appeared = monotonic()
            found.list_pods([POD])
            seconds = _last_answer(crowd, waiters) - appeared
    return Turn(seconds, direct, growth / waiters)


def measure_waves(folder: Path, waiters: int, waves: int) -> Iterator[Row]:
    """Yield a row: the memory of one activator after each of some crowds has come and left.

    Raises:
        CannotMeasure: a process did not start, or a response was not 200.
    """
    manifests = folder / "manifests"
    activator.write_revision(manifests, [POD], container_concurrency=0)
    depth = ("--queue-depth", str(waiters))
    with helper("pod") as pod, activator.running(manifests, *depth) as found:
        pod.send(f"{POD_IP} {POD_PORT}")
        pod.receive()
        _warm_up(found)
        pause(2 * PERIOD)
        before = resident_bytes(found.pid)
        after = []
        for _ in range(waves):
            found.list_pods([])
            with helper("crowd", f"127.0.0.1:{found.port}", activator.HOST, str(waiters)) as crowd:
                crowd.receive()
                crowd.send("go")
                crowd.receive()
                wait_until(lambda: found.queued() == waiters, f"{waiters} requests wait", 60)
                found.list_pods([POD])
                _last_answer(crowd, waiters)
            pause(2 * PERIOD)
            after.append(resident_bytes(found.pid))
    yield Row(
        f"memory after {waiters:,} waiting GETs have left, {waves} times",
        ", ".join(f"{each / 2**20:.0f}" for each in after) + " MiB",
        f"before {before / 2**20:.0f} MiB",
        goal=f"<= {GOAL_AFTER} x, no growth",
        met=after[0] <= GOAL_AFTER * before and after[-1] <= after[0] * (1 + NO_GROWTH),
        details={"before": before, "after": after},
    )


def _warm_up(found: activator.Activator) -> None:
    with helper("crowd", f"127.0.0.1:{found.port}", activator.HOST, str(WARM_UP)) as crowd:
        crowd.receive()
        crowd.send("go")
        crowd.receive()
        _last_answer(crowd, WARM_UP)


def _last_answer(crowd: Helper, expected: int) -> float:
    told = crowd.receive()
    if told["statuses"] != {"200": expected}:
        raise CannotMeasure(f"expected {expected} responses of 200, got {told['statuses']}")
    return float(told["last"])
