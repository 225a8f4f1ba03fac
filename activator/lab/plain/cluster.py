"""A plain cluster on one machine: API server, controllers and node in one place."""

from __future__ import annotations

from asyncio import TaskGroup
from collections.abc import Iterable
from typing import Any, Final

from activator.lab.addresses import AddressPool
from activator.lab.control_plane.plane import ControlPlane
from activator.lab.control_plane.resources import (
    BUILT_IN,
    DEPLOYMENTS,
    SCALED_OBJECTS,
    SERVICES,
    SLICES,
    ApiKind,
)
from activator.lab.control_plane.server import PlaneServer
from activator.lab.control_plane.validation import ValidationRules
from activator.lab.controllers import SERVICE_NAME, Deployments, EndpointSlices
from activator.lab.kubelet import PodProcess, Tell, ToyNode

Object = dict[str, Any]

NAMESPACE: Final = "default"


class PlainCluster:
    """All parts of the cluster. Call `start`, and `close` before the task group ends.

    Attributes:
        plane, server: the API server and its socket.
        slices: the endpointslice controller.
        node: runs the pods.
    """

    def __init__(
        self,
        addresses: AddressPool,
        tasks: TaskGroup,
        tell: Tell = lambda kind, pod, **details: None,
        pace: float = 1.0,
        resources: Iterable[ApiKind] = (*BUILT_IN, SCALED_OBJECTS),
    ) -> None:
        """
        Arguments:
            tasks: gets a task for each pod.
            tell: called with each event: kind, pod (empty for none), details by name; must return
                at once.
            pace: the duration of a second in probes of pods, in seconds.
        """
        self.plane = ControlPlane(resources, ValidationRules(allows_loopback=True))
        self.server = PlaneServer(self.plane)
        self._tell = tell
        self._deployments = Deployments(self.plane)
        self.node = ToyNode(self.plane, addresses, tasks, tell, pace)
        self.slices = EndpointSlices(self.plane, self._on_slice)

    async def start(self) -> None:
        """Listen with the API server.

        Raises:
            OSError: the kernel has no free port.
        """
        await self.server.start()

    async def close(self) -> None:
        """End all pods and connections."""
        self._deployments.close()
        self.slices.close()
        self.node.close()
        self.plane.close()
        await self.server.close()

    @property
    def pods(self) -> dict[str, PodProcess]:
        """The pods with a process, by name."""
        return self.node.pods

    def create(self, resource: ApiKind, found: Object) -> Object:
        """Create an object, as ``kubectl create`` does; return it.

        Raises:
            ApiError: the API server refuses it.
        """
        return self.plane.act("create", resource, found["metadata"]["namespace"], "", found)

    def patch(self, resource: ApiKind, name: str, change: Object) -> Object:
        """Change an object by a merge patch; return it.

        Raises:
            ApiError: the API server refuses it.
        """
        return self.plane.act("patch", resource, NAMESPACE, name, change)

    def scale(self, name: str, replicas: int) -> None:
        """Set the replicas of a Deployment, as ``kubectl scale`` does.

        Raises:
            ApiError: there is no such Deployment.
        """
        change = {"spec": {"replicas": replicas}}
        self.plane.act("patch", DEPLOYMENTS, NAMESPACE, name, change, "scale")

    def replicas(self, name: str) -> int:
        """Return the replicas that a Deployment wants; 0 if there is no such Deployment."""
        found = self.plane.store.get(DEPLOYMENTS, NAMESPACE, name)
        return 0 if found is None else int(found["spec"]["replicas"])

    def service(self, name: str) -> Object | None:
        """Return a Service; None if there is none."""
        return self.plane.store.get(SERVICES, NAMESPACE, name)

    def listed(self, name: str) -> list[Object]:
        """Return the endpoints of a Service, of all its slices."""
        found = self.plane.store.select(
            SLICES, NAMESPACE, lambda each: each["metadata"]["labels"].get(SERVICE_NAME) == name
        )
        return [endpoint for each in found for endpoint in each["endpoints"] or ()]

    def _on_slice(self, service: str, written: Object) -> None:
        states: dict[str, list[str]] = {"ready": [], "not_ready": [], "terminating": []}
        for endpoint in written["endpoints"] or ():
            states[_state(endpoint["conditions"])].append(endpoint["targetRef"]["name"])
        self._tell("listed in slices", "", service=service, **states)


def _state(conditions: Object) -> str:
    if conditions["terminating"]:
        return "terminating"
    return "ready" if conditions["ready"] else "not_ready"
