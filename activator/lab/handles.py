"""Handles of a revision and its pods, for scripts of scenarios.

They toggle switches, send requests to pods, start and stop pods, and read the activator's API.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from activator.lab import phrases
from activator.lab.addresses import PodPlace
from activator.lab.client import ClientResponse, fetch
from activator.lab.deployment import Deployment
from activator.lab.kubelet import KubeletStep, PodProcess, Probes, probed_switches
from activator.lab.objects import Object
from activator.lab.pod import PodOptions
from activator.lab.timeline import Who

if TYPE_CHECKING:  # an environment has handles
    from activator.lab.environment import Environment

#: Seconds without a request before a draining pod stops listening.
QUIET_PERIOD = 0.1

View = dict[str, Any]


class Program(Protocol):
    """A program with an API: `LocalActivator` or `LocalScaler`."""

    async def get(self, path: str) -> Any:
        """Return the JSON document at a path; None for a status other than 200."""


async def view_of(program: Program, path: str, unknown: str) -> View:
    """Return an object of an API.

    Arguments:
        path: of the object.
        unknown: the text of the error if the program does not know it.

    Raises:
        OSError: no response from the program, or it does not know the object yet.
    """
    found = await program.get(path)
    if not isinstance(found, dict):
        raise ConnectionError(unknown)
    return found


class PodHandle:
    """A script's handle of one pod.

    Attributes:
        events: the pod's events so far: kind and details.
    """

    def __init__(self, environment: Environment, process: PodProcess) -> None:
        self._environment = environment
        self._process = process
        self.events: list[tuple[str, Mapping[str, Any]]] = []

    @property
    def name(self) -> str:
        """The pod's name in Endpoints."""
        return self._process.options.name

    @property
    def uid(self) -> str:
        """The pod's uid in Endpoints and in the activator's API."""
        return self._process.uid

    @property
    def options(self) -> PodOptions:
        """The options of the pod's process."""
        return self._process.options

    @property
    def listed_ready(self) -> bool:
        """Whether kubelet reports the pod as ready."""
        return self._process.ready

    def count(self, event: str) -> int:
        """Return how often the pod has reported a kind of event."""
        return sum(kind == event for kind, _ in self.events)

    async def until(self, event: str, count: int = 1) -> None:
        """Return when the pod has reported a kind of event so many times since its start."""
        await self._environment.until(lambda: self.count(event) >= count, f"{self.name}: {event}")

    async def switch(self, name: str, fault: str) -> None:
        """Toggle a switch on the pod's admin port.

        Arguments:
            name: as in the switch's path: Ready, Live, Exec, SidecarReady, SidecarLive.
            fault: the effect in words, for the timeline.
        """
        self._environment.note(Who.FAULT, f"{self.name}: {fault} (/toggle{name})")
        await self.admin(f"/toggle{name}")

    async def admin(self, path: str) -> ClientResponse:
        """Send a GET to the pod's admin port."""
        return await fetch(self.options.address, self.options.admin_port, path)

    async def counters(self) -> dict[str, Any]:
        """Return the pod's counters, as `activator.lab.switchboard.Counters.report` makes them."""
        found: dict[str, Any] = json.loads((await self.admin("/counters")).body)
        return found

    async def probe_as_kubelet(self) -> ClientResponse:
        """Send kubelet's readiness probe to queue-proxy, and return the response."""
        headers = {"User-Agent": "kube-probe/1.34", "K-Network-Probe": "queue"}
        return await fetch(self.options.address, self.options.port, "/", headers=headers)

    async def request_directly(self) -> ClientResponse:
        """Send a request to the pod without the activator, and return the response."""
        return await fetch(self.options.address, self.options.port, "/")

    def pause(self, step: KubeletStep) -> None:
        """Delay kubelet's next step of that kind until `resume`."""
        self._process.pause(step)

    def resume(self, step: KubeletStep) -> None:
        """Let kubelet continue with steps of that kind."""
        self._process.resume(step)

    def terminate(self) -> None:
        """Remove the pod from Endpoints and send it SIGTERM, as Kubernetes deletes a pod."""
        self._environment.note(Who.KUBERNETES, f"{self.name}: is terminating")
        self._process.stop()


class AppHandle:
    """A script's handle of one revision.

    Attributes:
        name: the revision's name.
        pods: all pods that were started, in order.
    """

    def __init__(
        self, environment: Environment, found: Object, probes: Probes, pod: Mapping[str, Any]
    ) -> None:
        self._environment = environment
        self._probes = probes
        self._options = dict(pod)
        self.name: str = found["metadata"]["name"]
        self.pods: list[PodHandle] = []
        self._by_name: dict[str, PodHandle] = {}
        self._deployment = Deployment(
            environment.manifests, found, self._happened, environment.addresses
        )

    @property
    def probed_switches(self) -> frozenset[str]:
        """The switches of its pods that have an effect."""
        return probed_switches(self._probes, blind=bool(self._options.get("blind")))

    def start_pods(self, count: int = 1) -> list[PodHandle]:
        """Start so many more pods, and list them as not ready."""
        fresh = [self._start_pod() for _ in range(count)]
        self._deployment.publish()
        return fresh

    def _start_pod(self) -> PodHandle:
        process = self._deployment.start_pod(
            self._environment.tasks, self._probes, self._pod_options
        )
        self._environment.pod_tasks.append(self._deployment.tasks[process])
        pod = PodHandle(self._environment, process)
        self.pods.append(pod)
        self._by_name[pod.name] = pod
        return pod

    def _pod_options(self, name: str, place: PodPlace) -> PodOptions:
        fixed = {"quiet_period": QUIET_PERIOD, "report_requests": True, **self._options}
        return PodOptions(name, place.ip, place.port, place.admin_port, **fixed)

    def terminate(self, pod: PodHandle) -> None:
        """See `PodHandle.terminate`."""
        pod.terminate()
        self._deployment.publish()

    async def until_ready(self) -> None:
        """Return when Kubernetes lists all its pods as ready."""
        await self._environment.until(
            lambda: all(pod.listed_ready for pod in self.pods), f"all pods of {self.name} are ready"
        )

    async def view(self) -> View:
        """Return the revision as the activator's API shows it.

        Raises:
            OSError: no response from the activator, or it does not know the revision yet.
        """
        path = f"/api/v1/revisions/default/{self.name}"
        return await view_of(
            self._environment.activator, path, f"the activator does not know {self.name}"
        )

    async def until_view(self, what: str, is_so: Callable[[View], object]) -> View:
        """Wait until a condition is true in the activator's API, and add it to the timeline.

        Arguments:
            what: the condition in words.
            is_so: the condition, on the revision as the API shows it.

        Returns:
            That view.

        Raises:
            Overdue: the condition was not true within `PATIENCE` seconds.
        """
        return await self._environment.until_view(self, what, is_so)

    def _happened(self, kind: str, pod: str = "", **details: Any) -> None:
        if kind == "listed":
            details["revision"] = self.name
        at = float(details.pop("at", time.monotonic()))
        if pod in self._by_name:
            self._by_name[pod].events.append((kind, details))
        if words := phrases.of_pod_event(kind, pod, details):
            self._environment.note(*words, at=at)
        self._environment.changed.set()
