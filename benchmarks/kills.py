"""One pod per second is killed under steady traffic: lost requests, and requests sent twice.

A kill is SIGKILL: the kernel closes the pod's connections with their requests. Kubernetes reacts
late. Half a second later, it lists the pod as not ready. Then the container restarts at the same
address. Half a second after it listens, Kubernetes lists it as ready again.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from activator.lab.objects import PodAddress
from benchmarks import activator
from benchmarks.agenda import Agenda
from benchmarks.helpers import Helper, helper
from benchmarks.report import Row

PODS, CONTAINER_CONCURRENCY = 4, 10
POD_PORT = 8012
#: Requests per second; one in so many is a POST.
RATE, POST_EVERY = 200, 4
#: Seconds that a request takes, so that each killed pod has some in flight.
HANDLER_SECONDS = 0.05
#: Seconds that a client waits; no request takes that long.
PATIENCE = 30.0
#: Most seconds by which a kill differs from a full second, so that kills vary.
VARIED_BY, SEED = 0.1, 4
#: Seconds from a pod's death, or from its listening, to the change in its Endpoints.
NEWS_AFTER = 0.5
#: Seconds from its death to the new process's start.
RESTART_AFTER = 0.7


@dataclass(slots=True)
class Kills:
    """The observations of a run.

    Attributes:
        outcomes: the number of requests, by method and outcome.
        failed: id, outcome and response of failed requests.
        arrivals: how often each request arrived at a pod.
    """

    kills: int = 0
    outcomes: dict[str, dict[str, int]] = field(default_factory=dict)
    failed: list[tuple[str, str, str]] = field(default_factory=list)
    arrivals: Counter[str] = field(default_factory=Counter)

    def failures(self, method: str) -> int:
        """Return how many requests of a method did not get 200."""
        return sum(n for outcome, n in self.outcomes[method].items() if outcome != "200")

    def repeated(self, method: str) -> int:
        """Return how many requests of a method arrived at pods more than once."""
        return sum(n > 1 for key, n in self.arrivals.items() if key.startswith(method))


class KilledPod:
    """One pod: an address, and its present process."""

    def __init__(self, ip: str, seen: Kills) -> None:
        self.ready = True
        self._ip = ip
        self._seen = seen
        self._running = ExitStack()
        self.start()

    @property
    def listed(self) -> PodAddress:
        """The pod's entry in Endpoints."""
        return PodAddress(self._ip, POD_PORT, f"uid-{self._ip}", f"pod-{self._ip}", self.ready)

    def start(self) -> None:
        """Start a process, and return when it listens."""
        command = (f"{HANDLER_SECONDS}", f"{self._ip}:{POD_PORT}")
        self._helper = self._running.enter_context(helper("slow_pod", *command))
        self._helper.receive()

    def kill(self) -> None:
        """Kill the process, and read the rest of its facts."""
        arrived = (told["arrived"] for told in self._helper.kill())
        self._seen.arrivals.update(arrived)
        self._running.close()


def measure(folder: Path, seconds: int) -> Iterator[Row]:
    """Yield rows for GETs and for POSTs.

    Raises:
        CannotMeasure: a process did not start.
    """
    seen = run_recipe(folder, seconds)
    told = {"outcomes": seen.outcomes, "failed": seen.failed}
    yield Row(
        f"{seen.kills} kills among {PODS} pods, {RATE} rps: GETs that failed",
        f"{seen.failures('GET')} of {sum(seen.outcomes['GET'].values()):,}",
        f"{seen.repeated('GET')} retried",
        goal="0",
        met=seen.failures("GET") == 0,
        details=told,
    )
    unsure = seen.outcomes["POST"].get("502", 0)
    yield Row(
        f"{seen.kills} kills: POSTs that arrived twice",
        f"{seen.repeated('POST')} of {sum(seen.outcomes['POST'].values()):,}",
        f"{unsure} got 502: their pod was killed",
        goal="0, and no other failure",
        met=seen.repeated("POST") == 0 and seen.failures("POST") == unsure,
        details=told,
    )


def run_recipe(folder: Path, seconds: int) -> Kills:
    """Kill a pod per second, for so many seconds, and wait for the end of all requests.

    Raises:
        CannotMeasure: a process did not start.
    """
    seen = Kills()
    network = f"127.{random.randrange(1, 255)}.{random.randrange(1, 255)}"
    pods = [KilledPod(f"{network}.{number + 1}", seen) for number in range(PODS)]
    try:
        manifests = folder / "manifests"
        listed = [pod.listed for pod in pods]
        activator.write_revision(manifests, listed, container_concurrency=CONTAINER_CONCURRENCY)
        with activator.running(manifests) as found:
            load = (f"127.0.0.1:{found.port}", activator.HOST, f"{RATE}", f"{PATIENCE}")
            with helper("arrivals", *load, f"{POST_EVERY}") as clients:
                _kill_in_turn(found, pods, seconds, seen)
                _end(clients, seen)
    finally:
        for pod in pods:
            pod.kill()
    return seen


def _end(clients: Helper, seen: Kills) -> None:
    clients.send("end")
    told = clients.receive()
    seen.outcomes = told["outcomes"]
    seen.failed = told["failed"]


def _kill_in_turn(
    found: activator.Activator, pods: Sequence[KilledPod], seconds: int, seen: Kills
) -> None:
    """Kill one pod per second, restart it, and update its Endpoints."""
    agenda, chance = Agenda(), random.Random(SEED)

    def kill(pod: KilledPod) -> None:
        pod.kill()
        seen.kills += 1
        agenda.after(NEWS_AFTER, lambda: news(pod, ready=False))
        agenda.after(RESTART_AFTER, lambda: restart(pod))

    def restart(pod: KilledPod) -> None:
        pod.start()
        agenda.after(NEWS_AFTER, lambda: news(pod, ready=True))

    def news(pod: KilledPod, ready: bool) -> None:
        pod.ready = ready
        found.list_pods([each.listed for each in pods])

    for number in range(seconds):
        pod = pods[number % len(pods)]
        agenda.after(1 + number + chance.uniform(0, VARIED_BY), partial(kill, pod))
    agenda.run()
