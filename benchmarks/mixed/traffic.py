"""One run of the mixed traffic: services, clients and their outcomes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.activator import Activator
from benchmarks.agenda import Agenda
from benchmarks.helpers import Helper, helper
from benchmarks.mixed.kinds import COLD, KINDS, RPC, WEB
from benchmarks.mixed.services import ManifestFolder, Pod, Publisher, Service
from benchmarks.mixed.verdict import Failure, Kill, lost
from benchmarks.process import CannotMeasure
from benchmarks.report import Row

#: How many pods a service has.
PODS = {WEB: 3, RPC: 2, COLD: 1}
#: Seconds from a pod's death, or from its listening, to the change in its Endpoints.
NEWS_AFTER = 0.5
#: Seconds from a pod's death to the start of its next process.
RESTART_AFTER = 0.7
#: Seconds for all requests to end.
END_PATIENCE = 180.0
#: Failures whose details the JSON file holds.
MAX_SHOWN = 200


class MixedTraffic:
    """All services, with the outcomes of their requests.

    Attributes:
        manifests: the folder for the activator.
        ended: the number of ended requests, by kind.
        sent: the number of sent requests, by kind and time; see `Record.report`.
        longest: the longest request of each kind, in seconds.
        undrained: the number of pods that did not finish their drain.
    """

    def __init__(
        self,
        folder: Path,
        publisher: Publisher | None = None,
        pods: Mapping[str, int] = PODS,
        random: Random | None = None,
    ) -> None:
        """
        Arguments:
            folder: for manifests and for the arrivals of requests.
            publisher: writes the objects; by default into the folder of manifests.
            pods: the services with their numbers of pods.
            random: decides the addresses of pods.
        """
        self.manifests = folder / "manifests"
        publisher = publisher or ManifestFolder(self.manifests)
        self._arrivals = folder / "arrivals"
        self._arrivals.touch()
        random = random or Random()
        network = f"127.{random.randrange(1, 255)}.{random.randrange(1, 255)}"
        numbers = count(1)

        def address() -> str:
            # A pod may get the address of an earlier pod, as in a cluster.
            return f"{network}.{next(numbers) % 254 + 1}"

        self.services = {
            name: Service(name, publisher, address, self._arrivals, h2c=name == RPC)
            for name in pods
        }
        self._pods = pods
        self.kills: list[Kill] = []
        self.failures: list[Failure] = []
        self.ended: Counter[str] = Counter()
        self.sent: Counter[str] = Counter()
        self.longest: dict[str, float] = {}
        self.undrained = 0

    def start_pods(self) -> None:
        """Start all pods; Endpoints does not list them yet."""
        for name, service in self.services.items():
            while len(service.pods) < self._pods[name]:
                service.start_pod()
            service.mend()

    def publish(self) -> None:
        """List all pods in Endpoints."""
        for service in self.services.values():
            service.publish()

    def kill(self, service: Service, pod: Pod, agenda: Agenda) -> None:
        """Kill a pod; Kubernetes reacts late, and restarts it at its address."""
        if not pod.alive:
            return
        self.kills.append(pod.kill())

        def restart() -> None:
            pod.start()
            agenda.after(NEWS_AFTER, lambda: service.set_ready(pod))

        agenda.after(NEWS_AFTER, lambda: service.set_ready(pod, False))
        agenda.after(RESTART_AFTER, restart)

    def to_zero(self) -> list[Pod]:
        """Remove the pods of the cold service, and return them; they drain."""
        cold = self.services[COLD]
        removed = list(cold.pods)
        for pod in removed:
            cold.remove(pod)
        return removed

    def from_zero(self, agenda: Agenda) -> None:
        """Start a pod of the cold service; Kubernetes lists it as ready later."""
        cold = self.services[COLD]
        pod = cold.start_pod()
        cold.publish()

        def ready() -> None:
            if pod in cold.pods:  # it may be removed again
                cold.set_ready(pod)

        agenda.after(NEWS_AFTER, ready)

    def take(self, report: dict[str, Any]) -> None:
        """Add a report of the clients."""
        self.ended = Counter(report["ended"])
        self.sent.update(report["sent"])
        self.longest = report["longest"]
        self.failures += [Failure(**failure) for failure in report["failures"]]

    def lost(self) -> list[Failure]:
        """Return the failures that nothing excuses."""
        return lost(self.failures, self.kills)

    def summary(self) -> str:
        """Return the number of requests and of their outcomes, as text."""
        missing = len(self.lost())
        return (
            f"{sum(self.ended.values()):,} requests, {missing} lost,"
            f" {len(self.failures) - missing} ended with their pod"
        )

    def arrived(self) -> Counter[str]:
        """Return how often each request arrived that must arrive once."""
        return Counter(self._arrivals.read_text().splitlines())

    def repeated(self) -> list[str]:
        """Return the requests that must arrive once and arrived more often."""
        arrived = self.arrived()
        return [key for key, times in arrived.items() if times > 1]

    def mend(self) -> None:
        """Start all pods and list them as ready, so that every request can end."""
        self.start_pods()
        self.publish()

    def empty(self) -> None:
        """Remove all pods, and wait until they have drained."""
        self.undrained = sum([service.empty() for service in self.services.values()])

    def close(self) -> None:
        """End all pods at once."""
        for service in self.services.values():
            service.close()


@contextmanager
def mixed_traffic(folder: Path) -> Iterator[MixedTraffic]:
    """Provide services with running pods; `MixedTraffic.publish` lists them in Endpoints."""
    traffic = MixedTraffic(folder)
    try:
        traffic.start_pods()
        yield traffic
    finally:
        traffic.close()


class Clients:
    """The process with all clients."""

    def __init__(self, process: Helper, traffic: MixedTraffic) -> None:
        self._process = process
        self._stage = traffic

    def report(self) -> None:
        """Add the outcomes since the last report to the traffic."""
        self._process.send("report")
        self._stage.take(self._process.receive())

    def use(self, found: Activator) -> None:
        """Send new connections to another activator."""
        self._process.send(f"use 127.0.0.1:{found.port}")

    def end(self) -> None:
        """Stop sending requests; return when all have ended."""
        self._process.send("end")
        self._stage.take(self._process.receive(END_PATIENCE))


@contextmanager
def clients(
    traffic: MixedTraffic, found: Activator, kinds: Sequence[str] = ()
) -> Iterator[Clients]:
    """Provide clients that send requests of these kinds, by default of all kinds."""
    with helper("mixed.clients", f"127.0.0.1:{found.port}", *kinds) as process:
        yield Clients(process, traffic)


def rows(what: str, traffic: MixedTraffic) -> Iterator[Row]:
    """Yield the rows that endurance, rollout and sigterm share.

    Arguments:
        what: the benchmark and its duration.
    """
    missing = traffic.lost()
    counts = Counter(failure.kind for failure in missing)
    failed = Counter(failure.kind for failure in traffic.failures)
    excused = len(traffic.failures) - len(missing)
    total = sum(traffic.ended.values())
    yield Row(
        f"{what}: requests lost",
        f"{len(missing)} of {total:,}",
        f"{excused} ended with their pod",
        goal="0",
        met=not missing and total > 0,
        details={
            "lost": [asdict(failure) for failure in missing[:MAX_SHOWN]],
            "failures": [asdict(failure) for failure in traffic.failures[:MAX_SHOWN]],
            "kills": [asdict(kill) for kill in traffic.kills],
        },
    )
    repeated = traffic.repeated()
    name = f"{what}: POSTs, calls and WebSockets that arrived twice"
    yield _goal_none(name, len(repeated), {"repeated": repeated[:MAX_SHOWN]})
    for kind in KINDS:
        if traffic.ended[kind]:
            yield Row(
                f"  {kind}",
                f"{traffic.ended[kind]:,}, {counts[kind]} lost",
                f"{failed[kind] - counts[kind]} ended with their pod",
                details={"longestSeconds": traffic.longest[kind]},
            )
    yield _goal_none(f"{what}: pods that did not drain", traffic.undrained)


def fault_row(what: str, faults: list[str]) -> Row:
    """Return the row of errors in the activator's log."""
    name = f"{what}: errors in the activator's log"
    return _goal_none(name, len(faults), {"lines": faults[:MAX_SHOWN]})


def _goal_none(name: str, found: int, details: dict[str, Any] | None = None) -> Row:
    """Return a row whose goal is that nothing is found."""
    return Row(name, f"{found}", goal="0", met=found == 0, details=details or {})


def need_requests(traffic: MixedTraffic) -> None:
    """Check that the clients work at all.

    Raises:
        CannotMeasure: no request has ended.
    """
    if not traffic.ended:
        raise CannotMeasure("the clients sent nothing: benchmarks/results/mixed.clients.log")
