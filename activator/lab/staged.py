"""One revision and its pods on a stage, as a script sees them.

Turns switches, asks pods, starts and ends them, and reads what the activator's API says of them.
Must not know what a scenario is about.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from activator.lab import wording
from activator.lab.addresses import Place
from activator.lab.checks import Probes, heeded
from activator.lab.client import Reply, fetch
from activator.lab.deployment import Deployment
from activator.lab.kubelet import PodProcess, Step
from activator.lab.objects import Object
from activator.lab.pod import PodOptions
from activator.lab.timeline import Who

if TYPE_CHECKING:  # a stage has apps
    from activator.lab.stage import Stage

#: Seconds without a request that end a pod's draining.
QUIET_PERIOD = 0.1

View = dict[str, Any]


class StagePod:
    """One pod, as a script sees it.

    Attributes:
        told: what it told so far: each event with its details.
    """

    def __init__(self, stage: Stage, process: PodProcess) -> None:
        self._stage = stage
        self._process = process
        self.told: list[tuple[str, Mapping[str, Any]]] = []

    @property
    def name(self) -> str:
        """As in Endpoints."""
        return self._process.options.name

    @property
    def uid(self) -> str:
        """As in Endpoints and in the activator's API."""
        return self._process.uid

    @property
    def options(self) -> PodOptions:
        """What it was started with."""
        return self._process.options

    @property
    def listed_ready(self) -> bool:
        """Whether kubelet has it as ready."""
        return self._process.ready

    def count(self, event: str) -> int:
        """How often it told of an event."""
        return sum(kind == event for kind, _ in self.told)

    async def until(self, event: str, count: int = 1) -> None:
        """Returns when it has told of an event so many times since it was started."""
        await self._stage.until(lambda: self.count(event) >= count, f"{self.name}: {event}")

    async def switch(self, name: str, fault: str) -> None:
        """Turns a switch over, on the pod's admin port.

        Arguments:
            name: as in its path: Ready, Live, Exec, SidecarReady, SidecarLive.
            fault: what that means, for the timeline.
        """
        self._stage.note(Who.FAULT, f"{self.name}: {fault} (/toggle{name})")
        await self.admin(f"/toggle{name}")

    async def admin(self, path: str) -> Reply:
        """One request to its admin port."""
        return await fetch(self.options.address, self.options.admin_port, path)

    async def counters(self) -> dict[str, Any]:
        """What reached it."""
        found: dict[str, Any] = json.loads((await self.admin("/counters")).body)
        return found

    async def asked_as_kubelet(self) -> Reply:
        """What queue-proxy answers to a readiness probe."""
        headers = {"User-Agent": "kube-probe/1.34", "K-Network-Probe": "queue"}
        return await fetch(self.options.address, self.options.port, "/", headers=headers)

    async def ask_directly(self) -> Reply:
        """What it answers to a request that does not come through the activator."""
        return await fetch(self.options.address, self.options.port, "/")

    def hold(self, step: Step) -> None:
        """Keeps kubelet from its next step of that kind."""
        self._process.hold(step)

    def let(self, step: Step) -> None:
        """Has kubelet go on."""
        self._process.let(step)

    def terminate(self) -> None:
        """Takes it out of Endpoints, then tells it to end, as Kubernetes deletes a pod."""
        self._stage.note(Who.KUBERNETES, f"{self.name}: is terminating")
        self._process.stop()


class App:
    """One revision on the stage.

    Attributes:
        pods: all that were started, in order.
    """

    def __init__(self, stage: Stage, found: Object, probes: Probes, pod: Mapping[str, Any]) -> None:
        self._stage = stage
        self._probes = probes
        self._options = dict(pod)
        self.name: str = found["metadata"]["name"]
        self.pods: list[StagePod] = []
        self._by_name: dict[str, StagePod] = {}
        self._deployment = Deployment(stage.manifests, found, self._happened, stage.addresses)

    @property
    def heeded(self) -> frozenset[str]:
        """The switches of its pods that somebody asks."""
        return heeded(self._probes, blind=bool(self._options.get("blind")))

    def start_pods(self, count: int = 1) -> list[StagePod]:
        """Starts so many more pods, and lists them as not ready."""
        fresh = [self._start_pod() for _ in range(count)]
        self._deployment.publish()
        return fresh

    def _start_pod(self) -> StagePod:
        process = self._deployment.start_pod(self._stage.tasks, self._probes, self._pod_options)
        self._stage.held.append(self._deployment.tasks[process])
        pod = StagePod(self._stage, process)
        self.pods.append(pod)
        self._by_name[pod.name] = pod
        return pod

    def _pod_options(self, name: str, place: Place) -> PodOptions:
        fixed = {"quiet_period": QUIET_PERIOD, "tell_requests": True, **self._options}
        return PodOptions(name, place.ip, place.port, place.admin_port, **fixed)

    def terminate(self, pod: StagePod) -> None:
        """See `StagePod.terminate`."""
        pod.terminate()
        self._deployment.publish()

    async def until_ready(self) -> None:
        """Returns when Kubernetes lists all its pods as ready."""
        await self._stage.until(
            lambda: all(pod.listed_ready for pod in self.pods), f"all pods of {self.name} are ready"
        )

    async def view(self) -> View:
        """What the activator's API says of it.

        Raises:
            OSError: the activator does not answer, or not yet know it.
        """
        found = await self._stage.activator.get(f"/api/v1/revisions/default/{self.name}")
        if not isinstance(found, dict):
            raise ConnectionError(f"the activator does not know {self.name}")
        return found

    async def until_view(self, what: str, is_so: Callable[[View], object]) -> View:
        """Returns the activator's view once something is so in it, and notes that.

        Arguments:
            what: is then so, for the timeline.

        Raises:
            Overdue: it was not so within `PATIENCE`.
        """
        return await self._stage.until_view(self, what, is_so)

    def _happened(self, kind: str, pod: str = "", **details: Any) -> None:
        if kind == "listed":
            details["revision"] = self.name
        at = float(details.pop("at", time.monotonic()))
        if pod in self._by_name:
            self._by_name[pod].told.append((kind, details))
        if words := wording.told(kind, pod, details):
            self._stage.note(*words, at=at)
        self._stage.news.set()
