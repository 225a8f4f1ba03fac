"""One run of the mixed traffic: services, clients, and what was seen of them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from itertools import count
from pathlib import Path
from typing import Any

from benchmarks.activator import Activator
from benchmarks.agenda import Agenda
from benchmarks.helpers import Helper, helper
from benchmarks.mixed.kinds import COLD, KINDS, RPC, WEB
from benchmarks.mixed.services import Pod, Service
from benchmarks.mixed.verdict import Failure, Kill, lost
from benchmarks.process import CannotMeasure
from benchmarks.report import Row

#: How many pods a service has.
PODS = {WEB: 3, RPC: 2, COLD: 1}
#: Seconds from a pod's death, or its first moment of listening, to the news in its Endpoints.
NEWS_AFTER = 0.5
#: Seconds from a pod's death to the start of its next process.
RESTART_AFTER = 0.7
#: Failures whose details the JSON file holds.
MAX_SHOWN = 200


class Stage:
    """All services, and what became of the requests to them.

    Attributes:
        manifests: the folder for the activator.
        ended: how many requests ended, by kind; longest: the longest one in seconds.
        undrained: pods that did not come to the end of their drain.
    """

    def __init__(self, folder: Path) -> None:
        self.manifests = folder / "manifests"
        self._arrivals = folder / "arrivals"
        self._arrivals.touch()
        network = f"127.{random.randrange(1, 255)}.{random.randrange(1, 255)}"
        numbers = count(1)

        def address() -> str:
            # A pod may get an address of an early one that is gone, as in a cluster.
            return f"{network}.{next(numbers) % 254 + 1}"

        self.services = {
            name: Service(name, self.manifests, address, self._arrivals, h2c=name == RPC)
            for name in PODS
        }
        self.kills: list[Kill] = []
        self.failures: list[Failure] = []
        self.ended: Counter[str] = Counter()
        self.longest: dict[str, float] = {}
        self.undrained = 0

    def start_pods(self) -> None:
        """Have all pods run; Endpoints does not list them yet."""
        for name, service in self.services.items():
            while len(service.pods) < PODS[name]:
                service.start_pod()
            service.mend()

    def publish(self) -> None:
        """List all pods in Endpoints."""
        for service in self.services.values():
            service.publish()

    def kill(self, service: Service, pod: Pod, agenda: Agenda) -> None:
        """Kill a pod. Kubernetes learns of it late, and restarts it at its address."""
        if not pod.alive:
            return
        self.kills.append(pod.kill())

        def restart() -> None:
            pod.start()
            agenda.after(NEWS_AFTER, lambda: service.set_ready(pod))

        agenda.after(NEWS_AFTER, lambda: service.set_ready(pod, False))
        agenda.after(RESTART_AFTER, restart)

    def to_zero(self) -> None:
        """Take away the pod of the cold service."""
        cold = self.services[COLD]
        for pod in list(cold.pods):
            cold.remove(pod)

    def from_zero(self, agenda: Agenda) -> None:
        """Start a pod of the cold service; Kubernetes lists it as ready later."""
        cold = self.services[COLD]
        pod = cold.start_pod()
        cold.publish()

        def ready() -> None:
            if pod in cold.pods:  # it may be gone again
                cold.set_ready(pod)

        agenda.after(NEWS_AFTER, ready)

    def take(self, report: dict[str, Any]) -> None:
        """Add what the clients report."""
        self.ended = Counter(report["ended"])
        self.longest = report["longest"]
        self.failures += [Failure(**failure) for failure in report["failures"]]

    def lost(self) -> list[Failure]:
        """Return the failures that nothing excuses."""
        return lost(self.failures, self.kills)

    def summary(self) -> str:
        """Return how many requests there were, and what became of them."""
        missing = len(self.lost())
        return (
            f"{sum(self.ended.values()):,} requests, {missing} lost,"
            f" {len(self.failures) - missing} ended with their pod"
        )

    def repeated(self) -> list[str]:
        """Return the requests that must arrive once and arrived more often."""
        arrived = Counter(self._arrivals.read_text().splitlines())
        return [key for key, times in arrived.items() if times > 1]

    def mend(self) -> None:
        """Have all pods run and be listed as ready, so that every request can end."""
        self.start_pods()
        self.publish()

    def empty(self) -> None:
        """Take away all pods, and wait until they have drained."""
        self.undrained = sum([service.empty() for service in self.services.values()])

    def close(self) -> None:
        """End all pods at once."""
        for service in self.services.values():
            service.close()


@contextmanager
def staged(folder: Path) -> Iterator[Stage]:
    """Services with pods that run; `Stage.publish` lists them. They end with the block."""
    stage = Stage(folder)
    try:
        stage.start_pods()
        yield stage
    finally:
        stage.close()


class Clients:
    """The process with all clients."""

    def __init__(self, process: Helper, stage: Stage) -> None:
        self._process = process
        self._stage = stage

    def report(self) -> None:
        """Take what became of their requests."""
        self._process.say("report")
        self._stage.take(self._process.hear())

    def use(self, found: Activator) -> None:
        """Have new connections go to another activator."""
        self._process.say(f"use 127.0.0.1:{found.port}")

    def end(self) -> None:
        """Begin no more requests, and return when all have ended."""
        self._process.say("end")
        self._stage.take(self._process.hear())


@contextmanager
def clients(stage: Stage, found: Activator, kinds: Sequence[str] = ()) -> Iterator[Clients]:
    """Clients that send requests of these kinds, by default of all."""
    with helper("mixed.clients", f"127.0.0.1:{found.port}", *kinds) as process:
        yield Clients(process, stage)


def rows(what: str, stage: Stage) -> Iterator[Row]:
    """Yield the rows that every recipe has.

    Arguments:
        what: the recipe, and for how long.
    """
    missing = stage.lost()
    counts = Counter(failure.kind for failure in missing)
    failed = Counter(failure.kind for failure in stage.failures)
    excused = len(stage.failures) - len(missing)
    total = sum(stage.ended.values())
    yield Row(
        f"{what}: requests lost",
        f"{len(missing)} of {total:,}",
        f"{excused} ended with their pod",
        goal="0",
        met=not missing and total > 0,
        details={
            "lost": [asdict(failure) for failure in missing[:MAX_SHOWN]],
            "failures": [asdict(failure) for failure in stage.failures[:MAX_SHOWN]],
            "kills": [asdict(kill) for kill in stage.kills],
        },
    )
    repeated = stage.repeated()
    yield Row(
        f"{what}: POSTs, calls and WebSockets that arrived twice",
        f"{len(repeated)}",
        goal="0",
        met=not repeated,
        details={"repeated": repeated[:MAX_SHOWN]},
    )
    for kind in KINDS:
        if stage.ended[kind]:
            yield Row(
                f"  {kind}",
                f"{stage.ended[kind]:,}, {counts[kind]} lost",
                f"{failed[kind] - counts[kind]} ended with their pod",
                details={"longestSeconds": stage.longest[kind]},
            )
    yield Row(
        f"{what}: pods that did not drain",
        f"{stage.undrained}",
        goal="0",
        met=stage.undrained == 0,
    )


def fault_row(what: str, faults: list[str]) -> Row:
    """Return the row of errors in the activator's log."""
    return Row(
        f"{what}: errors in the activator's log",
        f"{len(faults)}",
        goal="0",
        met=not faults,
        details={"lines": faults[:MAX_SHOWN]},
    )


def need_requests(stage: Stage) -> None:
    """Check that the clients work at all.

    Raises:
        CannotMeasure: no request has ended.
    """
    if not stage.ended:
        raise CannotMeasure("the clients sent nothing: benchmarks/results/mixed.clients.log")
