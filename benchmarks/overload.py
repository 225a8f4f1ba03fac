"""More requests than a revision can serve, from impatient clients: nothing may pile up.

These are the steps of knative/serving#13583, where Knative's activator ran out of memory: 200
requests per second, whose clients disconnect after 1 s. The one pod may have 2 requests at a time
and takes 30 s for each.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

from activator.lab.objects import PodAddress
from benchmarks import activator
from benchmarks.helpers import Helper, helper
from benchmarks.process import pause, resident_bytes, wait_until
from benchmarks.report import Row, middle, percentile

RATE, PATIENCE = 200, 1.0
SLOTS, HANDLER_SECONDS = 2, 30.0
POD_PORT = 8012
#: Seconds between two samples.
INTERVAL = 1.0
#: Seconds before the first sample: the first clients disconnect after 1 s, and one-time
#: allocations are done.
WARM_UP = 3.0
#: Most clients by which the counts of activator and clients may differ: the arrivals of 0.1 s.
#: Half of it is by design: the activator checks so late whether a half-closed client still reads
#: (activator/proxy/transport/peer_socket.py). The rest allows for shared cores. One sample in ten
#: may coincide with a stall of the machine; requests that pile up would show in all samples.
GOAL_APART = RATE * 0.1
GOAL_GROWTH = 1.05


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample.

    Attributes:
        live: waiting clients, right before and right after the activator's count.
        present: the activator's requests, queued and in flight.
    """

    live: tuple[int, int]
    present: int
    in_flight: int
    resident: int

    @property
    def apart(self) -> int:
        """The difference of the counts."""
        low, high = sorted(self.live)
        return max(low - self.present, self.present - high, 0)


@dataclass(frozen=True, slots=True)
class Overload:
    """The observations of a run.

    Attributes:
        outcomes: the number of clients by outcome.
        left: requests that the activator still has after the last client.
    """

    samples: list[Sample]
    outcomes: dict[str, int]
    left: int

    @property
    def growth(self) -> float:
        """The median resident memory of the last sixth, divided by that of the first sixth."""
        sizes = [sample.resident for sample in self.samples]
        part = max(1, len(sizes) // 6)
        return middle(sizes[-part:]) / middle(sizes[:part])


def measure(folder: Path, seconds: float) -> Iterator[Row]:
    """Yield rows for the queue's length and for memory.

    Raises:
        CannotMeasure: a process did not start.
    """
    seen = run_recipe(folder, seconds)
    apart = [sample.apart for sample in seen.samples]
    p90 = percentile(apart, 90)
    clients = middle([sum(sample.live) / 2 for sample in seen.samples])
    yield Row(
        f"overload, {RATE} rps for {seconds:g} s: requests held and clients there",
        f"apart by {middle(apart):g}, p90 {p90:g}; {seen.left} left",
        f"{clients:g} clients",
        goal=f"p90 <= {GOAL_APART:g}, 0 left",
        met=p90 <= GOAL_APART and seen.left == 0,
        details={"outcomes": seen.outcomes, "apart": apart},
    )
    sizes = [sample.resident for sample in seen.samples]
    yield Row(
        "overload: resident memory, last sixth through first",
        f"{middle(sizes) / 1024**2:.1f} MiB",
        ratio=seen.growth,
        goal=f"<= {GOAL_GROWTH}",
        met=seen.growth <= GOAL_GROWTH,
        details={"residentBytes": sizes},
    )


def run_recipe(folder: Path, seconds: float) -> Overload:
    """Send requests for so many seconds, sample every second, and wait for the last request.

    Raises:
        CannotMeasure: a process did not start, or requests remain.
    """
    ip = f"127.{random.randrange(1, 255)}.{random.randrange(1, 255)}.1"
    manifests = folder / "manifests"
    pod = PodAddress(ip, POD_PORT, uid="uid-of-the-pod", name="pod", ready=True)
    activator.write_revision(manifests, [pod], container_concurrency=SLOTS)
    with (
        activator.running(manifests) as found,
        helper("slow_pod", f"{HANDLER_SECONDS}", f"{ip}:{POD_PORT}") as slow,
    ):
        slow.receive()
        load = (f"127.0.0.1:{found.port}", activator.HOST, f"{RATE}", f"{PATIENCE}", "0")
        with helper("arrivals", *load) as clients:
            samples = list(_look(found, clients, seconds))
            clients.send("end")
            outcomes = clients.receive()["outcomes"]["GET"]
        wait_until(lambda: _present(found) == (0, 0), "the last request is gone")
        return Overload(samples, outcomes, sum(_present(found)))


def _look(found: activator.Activator, clients: Helper, seconds: float) -> Iterator[Sample]:
    began = monotonic()
    due = began + WARM_UP
    while due < began + seconds:
        pause(max(0.0, due - monotonic()))
        before = _live(clients)
        queued, in_flight = _present(found)
        after = _live(clients)
        yield Sample((before, after), queued + in_flight, in_flight, resident_bytes(found.pid))
        due += INTERVAL


def _live(clients: Helper) -> int:
    clients.send("live")
    return int(clients.receive()["live"])


def _present(found: activator.Activator) -> tuple[int, int]:
    status, body = found.admin_get(f"/api/v1/revisions/default/{activator.NAME}")
    assert status == activator.OK, body
    told: dict[str, Any] = json.loads(body)
    return int(told["queued"]), int(told["inFlight"])
