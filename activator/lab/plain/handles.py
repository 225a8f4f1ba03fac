"""Handles of a plain Service and its pods, for scripts of scenarios."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from activator.lab.handles import PodHandle, View, view_of
from activator.lab.local_activator import Where
from activator.lab.objects import PORT
from activator.lab.plain.service_proxy import ServiceProxy

if TYPE_CHECKING:  # an environment has handles
    from activator.lab.plain.environment import PlainEnvironment


class ServiceHandle:
    """A script's handle of one Service and its Deployment of the same name.

    Attributes:
        name: the name of the Service.
        pods: all pods that were started, in order.
        probed_switches: the switches of its pods that have an effect.
        pods_service: the Service whose slices list the pods.
    """

    def __init__(self, environment: PlainEnvironment, name: str, switches: frozenset[str]) -> None:
        self.pods_service = name
        self._environment = environment
        self.name = name
        self.probed_switches = switches
        self._proxy: ServiceProxy | None = None
        self.pods: list[PodHandle] = []

    async def open(self, delay: float) -> Where:
        """Open the Service itself to clients, without the activator; return host and port.

        Arguments:
            delay: seconds from a change of an EndpointSlice to its effect.
        """
        plane = self._environment.cluster.plane
        self._proxy = ServiceProxy(plane, "default", self.name, PORT, delay)
        await self._proxy.start()
        return self._proxy.host, self._proxy.port

    async def close(self) -> None:
        """Close the Service to clients."""
        if self._proxy is not None:
            await self._proxy.close()

    @property
    def endpoints(self) -> list[Where]:
        """The addresses to which the opened Service leads clients now."""
        assert self._proxy is not None
        return self._proxy.endpoints

    @property
    def refused(self) -> int:
        """How many connections of clients the opened Service has refused."""
        assert self._proxy is not None
        return self._proxy.refused

    @property
    def replicas(self) -> int:
        """The replicas that the Deployment wants."""
        return self._environment.cluster.replicas(self.name)

    def scale(self, replicas: int) -> None:
        """Set the replicas of the Deployment, as a person or another program does."""
        self._environment.cluster.scale(self.name, replicas)

    async def until_more_than(self, count: int) -> None:
        """Return when more pods than that have been started."""
        what = "the scaler starts a pod"
        await self._environment.base.until(lambda: len(self.pods) > count, what)

    async def until_listed(self, count: int) -> None:
        """Return when Kubernetes lists so many pods as ready, and no others."""

        def is_so() -> bool:
            listed = self._environment.cluster.listed(self.pods_service)
            ready = [each for each in listed if each["conditions"]["ready"] and "targetRef" in each]
            return len(ready) == count == len(listed)

        what = f"{count} pods of {self.name} are ready"
        await self._environment.base.until(is_so, what)

    async def view(self) -> View:
        """Return the Service as the activator's API shows it.

        Raises:
            OSError: no response from the activator, or it does not know the Service yet.
        """
        path = f"/api/v1/revisions/default/{self.name}?kind=service"
        activator = self._environment.base.activator
        return await view_of(activator, path, f"the activator does not know {self.name}")

    async def until_view(self, what: str, is_so: Callable[[View], object]) -> View:
        """See `AppHandle.until_view`."""
        return await self._environment.base.until_view(self, what, is_so)

    async def scaler_view(self) -> View:
        """Return the Service as the scaler's API shows it.

        Raises:
            OSError: no response from the scaler, or it does not know the Service yet.
        """
        path = f"/api/v1/services/default/{self.name}"
        scaler = self._environment.scaler
        return await view_of(scaler, path, f"the scaler does not know {self.name}")

    def happened(self, kind: str, pod: str, details: dict[str, Any]) -> None:
        """Record an event of a pod."""
        if kind == "started":
            process = self._environment.cluster.pods[pod]
            self.pods.append(PodHandle(self._environment.base, process))
        for each in self.pods:
            if each.name == pod:
                each.events.append((kind, details))
