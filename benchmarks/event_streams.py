"""Memory of clients that get heartbeats of an event stream while no pod runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks import activator
from benchmarks.helpers import helper
from benchmarks.process import CannotMeasure, pause, resident_bytes
from benchmarks.report import Row, middle

#: Clients before the measurement, so that one-time allocations are not counted.
WARM_UP = 200
#: Seconds between two heartbeats; each client gets two.
EVERY = 5
GOAL_BYTES = 6 << 10
_EVENT_STREAM = "text/event-stream"


def measure(folder: Path, clients: int, rounds: int) -> Iterator[Row]:
    """Yield the row for the memory of a client with heartbeats.

    Arguments:
        clients: the number of clients.
        rounds: the number of activators that are measured.

    Raises:
        CannotMeasure: a process did not start, or a client got no heartbeat.
    """
    each = [_per_client(folder / f"streams-{turn}", clients) for turn in range(rounds)]
    size = middle(each)
    yield Row(
        f"{clients:,} clients with heartbeats: memory",
        f"{size / 1024:.2f} KiB each",
        goal=f"<= {GOAL_BYTES / 1024:.0f} KiB",
        met=size <= GOAL_BYTES,
        details={"bytesEach": each},
    )


def _per_client(manifests: Path, clients: int) -> float:
    annotations = {
        "activator.dev/while-waiting": "heartbeat",
        "activator.dev/heartbeat-seconds": str(EVERY),
    }
    activator.write_revision(manifests, [], annotations=annotations)
    with activator.running(manifests) as found:
        with _waiting(found.port, WARM_UP):
            pass
        pause(1)
        before = resident_bytes(found.pid)
        with _waiting(found.port, clients):
            pause(EVERY + 1)  # the second heartbeat of each
            return (resident_bytes(found.pid) - before) / clients


@contextmanager
def _waiting(port: int, count: int) -> Iterator[None]:
    """Open so many clients; yield when each has the head of its event stream."""
    target = f"127.0.0.1:{port}"
    with helper("crowd", target, activator.HOST, str(count), _EVENT_STREAM) as crowd:
        crowd.receive()
        crowd.send("go")
        crowd.receive()
        told = crowd.receive()
        if told["statuses"] != {"200": count}:
            raise CannotMeasure(f"expected {count} early heads, got {told['statuses']}")
        yield
