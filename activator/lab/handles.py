"""Handles of a service and its pods, for scripts of scenarios.

They toggle switches, send requests to pods, start and stop pods, and read the programs' APIs.
"""

from __future__ import annotations

import asyncio
import json
import time
from asyncio import Task
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from activator.lab.kubelet import PodProcess
from activator.lab.programs import ClientResponse, LocalProgram, fetch
from activator.lab.timeline import Who, of_view

if TYPE_CHECKING:  # an environment has handles
    from activator.lab.environment import Environment

View = dict[str, Any]

#: Most seconds to wait for an expected event, on a busy machine.
PATIENCE = 30.0
#: Seconds between two polls of an API, for changes that cause no event.
POLL_PERIOD = 0.01


class Overdue(Exception):
    """An expected event did not come within `PATIENCE` seconds; the text names it."""


def verdict(pod: View) -> list[str]:
    """Return what a view shows of a pod: Kubernetes' list, probe, decision, and its rule."""
    return [pod[key] for key in ("kubernetes", "probe", "decision", "decidedBy")]


class PodHandle:
    """A script's handle of one pod.

    Attributes:
        process: the pod's process; a script pauses steps of kubelet there.
        events: the pod's events so far: kind and details.
    """

    def __init__(self, environment: Environment, process: PodProcess) -> None:
        self._environment = environment
        self.process = process
        self.events: list[tuple[str, Mapping[str, Any]]] = []

    @property
    def name(self) -> str:
        """The pod's name in Endpoints."""
        return self.process.options.name

    def in_view(self, view: View) -> View:
        """Return the pod as a view of its service shows it; empty if it does not."""
        return next((each for each in view["pods"] if each["uid"] == self.process.uid), {})

    def count(self, event: str) -> int:
        """Return how often the pod has reported a kind of event."""
        return sum(kind == event for kind, _ in self.events)

    async def until(self, event: str, count: int = 1) -> None:
        """Return when the pod has reported a kind of event so many times since its start."""
        await self._environment.until(lambda: self.count(event) >= count, f"{self.name}: {event}")

    async def until_responses(self, count: int) -> None:
        """Return when the pod has responded to so many more requests."""
        await self.until("responded", self.count("responded") + count)

    async def switch(self, name: str, fault: str) -> None:
        """Toggle a switch on the pod's admin port.

        Arguments:
            name: as in the switch's path: Ready, Live, Exec, SidecarReady, SidecarLive.
            fault: the effect in words, for the timeline.
        """
        self._environment.note(Who.FAULT, f"{self.name}: {fault} (/toggle{name})")
        await self._admin(f"/toggle{name}")

    async def requests(self) -> int:
        """Return how many requests the pod has had."""
        return int((await self.counters())["requests"])

    async def counters(self) -> dict[str, Any]:
        """Return the pod's counters, as `activator.lab.application.PodCounters.report` does."""
        found: dict[str, Any] = json.loads((await self._admin("/counters")).body)
        return found

    async def _admin(self, path: str) -> ClientResponse:
        return await fetch(*self.process.options.switches, path)

    async def probe_as_kubelet(self) -> ClientResponse:
        """Send kubelet's readiness probe to queue-proxy, and return the response."""
        headers = {"User-Agent": "kube-probe/1.34", "K-Network-Probe": "queue"}
        return await fetch(*self.process.options.where, "/", headers=headers)

    async def request_directly(self) -> ClientResponse:
        """Send a request to the pod without the activator, and return the response."""
        return await fetch(*self.process.options.where, "/")

    def terminate(self) -> None:
        """Delete the pod: it leaves its Endpoints, and gets SIGTERM."""
        self._environment.note(Who.KUBERNETES, f"{self.name}: is terminating")
        self._environment.cluster.stop_pod(self.name)


class AppHandle:
    """A script's handle of one revision, or of a Service and its Deployment of the same name.

    Attributes:
        name: the name of the revision or Service.
        pods: all pods that were started, in order.
        probed_switches: the switches of its pods that have an effect.
        pods_service: the Service whose slices list the pods.
    """

    def __init__(
        self, environment: Environment, name: str, switches: frozenset[str], *, is_plain: bool
    ) -> None:
        self.name = name
        self.pods: list[PodHandle] = []
        self.probed_switches = switches
        self.pods_service = name
        self._environment = environment
        self._query = "?kind=service" if is_plain else ""

    async def view(self, who: Who = Who.ACTIVATOR) -> View:
        """Return the revision or Service as the API of the activator or the scaler shows it.

        Raises:
            OSError: no response from the program, or it does not know the object yet.
        """
        program: LocalProgram = self._environment.activator
        path = f"/api/v1/revisions/default/{self.name}{self._query}"
        if who is Who.SCALER:
            program, path = self._environment.scaler, f"/api/v1/services/default/{self.name}"
        found = await program.get(path)
        if not isinstance(found, dict):
            raise ConnectionError(f"the {who.value} does not know {self.name}")
        return found

    async def until_view(
        self, what: str, is_so: Callable[[View], object], who: Who = Who.ACTIVATOR
    ) -> View:
        """Wait until a condition is true in the view of a program; return the view.

        Arguments:
            what: the condition in words, for the timeline.
            who: the activator or the scaler.

        Raises:
            Overdue: it was not true within `PATIENCE` seconds.
        """
        end = time.monotonic() + PATIENCE
        found: View = {}
        while time.monotonic() < end:
            try:
                found = await self.view(who)
            except ConnectionError:
                found = {}
            if found and is_so(found):
                self._environment.note(who, f"{self.name}: {what}")
                return found
            await asyncio.sleep(POLL_PERIOD)
        state = f"its state: {of_view(found)}" if who is Who.ACTIVATOR else f"{found}"
        raise Overdue(f"the {who.value} did not reach: {self.name}: {what}; {state}")

    async def occupy(self, target: str, count: int, what: str) -> list[Task[ClientResponse]]:
        """Start so many slow requests; return them when each pod has one.

        Arguments:
            what: the condition in words.
        """
        slow = [self._environment.start_request(self, target) for _ in range(count)]
        await self.until_view(what, lambda view: all(pod["inFlight"] for pod in view["pods"]))
        return slow

    async def until_usable(self, count: int, what: str) -> None:
        """Return when the activator uses so many pods.

        Arguments:
            what: the condition in words.
        """
        await self.until_view(
            what, lambda view: sum(pod["usable"] for pod in view["pods"]) == count
        )

    def happened(self, kind: str, pod: str, details: Mapping[str, Any]) -> None:
        """Record an event of a pod."""
        if kind == "started":
            self.pods.append(PodHandle(self._environment, self._environment.cluster.pods[pod]))
        for each in self.pods:
            if each.name == pod:
                each.events.append((kind, details))

    # -- a revision -----------------------------------------------------------------------------

    def start_pods(self, count: int = 1) -> list[PodHandle]:
        """Start so many more pods, which Kubernetes lists as not ready; return them."""
        self._environment.cluster.start_pods(self.name, count)
        return self.pods[len(self.pods) - count :]

    async def until_ready(self) -> None:
        """Return when Kubernetes lists all its pods as ready."""
        await self._environment.until(
            lambda: all(pod.process.ready for pod in self.pods),
            f"all pods of {self.name} are ready",
        )

    async def until_kubernetes(self, state: str, what: str) -> None:
        """Return when the activator's API has a state of the first pod in Kubernetes' list.

        Arguments:
            what: the condition in words.
        """
        await self.until_view(what, lambda view: view["pods"][0]["kubernetes"] == state)

    # -- a Service without Knative --------------------------------------------------------------

    @property
    def replicas(self) -> int:
        """The replicas that the Deployment wants."""
        return self._environment.cluster.replicas(self.name)

    def scale(self, replicas: int) -> None:
        """Set the replicas of the Deployment, as a person or another program does."""
        self._environment.cluster.scale(self.name, replicas)

    async def until_more_than(self, count: int) -> None:
        """Return when more pods than that have been started."""
        await self._environment.until(lambda: len(self.pods) > count, "the scaler starts a pod")

    async def until_listed(self, count: int) -> None:
        """Return when Kubernetes lists so many pods as ready, and no others."""

        def is_so() -> bool:
            listed = self._environment.cluster.listed(self.pods_service)
            ready = [each for each in listed if each["conditions"]["ready"] and "targetRef" in each]
            return len(ready) == count == len(listed)

        await self._environment.until(is_so, f"{count} pods of {self.name} are ready")
