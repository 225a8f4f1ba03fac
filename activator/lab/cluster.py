"""A toy cluster on one machine: API server, controllers and node, with processes as pods.

It has pods of Services without Knative, which a Deployment asks for, and pods of Knative's
revisions, which its user starts and stops. `ServiceProxy` opens a Service to clients.
"""

from __future__ import annotations

import asyncio
import random
import socket
import struct
from asyncio import TaskGroup
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any, Final

from activator.lab import controllers
from activator.lab.addresses import AddressPool
from activator.lab.control_plane import api
from activator.lab.control_plane.plane import ControlPlane, PlaneServer
from activator.lab.control_plane.store import ObjectChange
from activator.lab.kubelet import PodProcess, Probes, Tell, ToyNode
from activator.lab.objects import PORT, REVISION, Object, is_live, revision_of
from activator.lab.pod import PodOptions, pod_arguments

Address = tuple[str, int]

NAMESPACE: Final = "default"
_READ_BYTES: Final = 64 * 1024


class ServiceProxy:
    """The proxy of the sample pods' port of one Service. It needs a running loop.

    Arguments:
        delay: seconds from a change of a slice to its effect, as kube-proxy has one.

    Attributes:
        where: host and port for clients; the port is set by `start`.
        endpoints: the addresses to which connections go now.
        refused: how many connections found no endpoint, or one that refused them.
    """

    def __init__(self, plane: ControlPlane, service: str, delay: float) -> None:
        self.where: Address = ("127.0.0.1", 0)
        self.endpoints: list[Address] = []
        self.refused = 0
        self._delay = delay
        self._plane = plane
        self._is_own = controllers.lists(service)
        self._timer: asyncio.TimerHandle | None = None
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Listen, with the present endpoints.

        Raises:
            OSError: the kernel has no free port.
        """
        self._sync()
        self._plane.store.listen(self._on_change)
        self._server = await asyncio.start_server(self._serve, *self.where, backlog=4096)
        self.where = self._server.sockets[0].getsockname()

    async def close(self) -> None:
        """Stop listening, and break all connections."""
        self._plane.store.remove(self._on_change)
        if self._timer is not None:
            self._timer.cancel()
        if self._server is not None:
            self._server.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _on_change(self, change: ObjectChange) -> None:
        is_seen = change.resource == api.SLICES and self._is_own(change.last)
        if is_seen and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._delay, self._sync)

    def _sync(self) -> None:
        self._timer = None
        self.endpoints = endpoints_of(
            self._plane.store.select(api.SLICES, NAMESPACE, self._is_own), PORT
        )

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._forward(reader, writer)
        except* OSError:
            _reset(writer)
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if not self.endpoints:
                raise ConnectionRefusedError
            there, onward = await asyncio.open_connection(*random.choice(self.endpoints))
        except OSError:
            self.refused += 1
            raise
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(_copy(reader, onward))
                both.create_task(_copy(there, writer))
        finally:
            onward.close()


def _reset(writer: asyncio.StreamWriter) -> None:
    """Break a connection, so that its client sees a reset instead of an end."""
    found = writer.get_extra_info("socket")
    with suppress(OSError):
        found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(_READ_BYTES):
        writer.write(data)
        await writer.drain()
    with suppress(OSError):
        writer.write_eof()


def endpoints_of(slices: list[Object], port_name: str) -> list[Address]:
    """Return the addresses of ready endpoints; without one, of terminating endpoints that serve.

    Arguments:
        slices: of one Service, by any author.
        port_name: the name of the Service's port.
    """
    ready: set[Address] = set()
    leaving: set[Address] = set()
    for found in slices:
        ports = [each["port"] for each in found["ports"] or () if each["name"] == port_name]
        for endpoint in found["endpoints"] or ():
            conditions = endpoint.get("conditions") or {}
            addresses = {*product(endpoint["addresses"], ports)}
            if conditions.get("ready", True):
                ready |= addresses
            elif conditions.get("serving") and conditions.get("terminating"):
                leaving |= addresses
    return sorted(ready or leaving)


#: The duration of a second in probes of pods of Deployments: kubelet's 10 s become 1 s.
PACE: Final = 0.1
#: The kinds that ``activator local`` reads from a folder.
MIRRORED: Final = (api.REVISIONS, api.ENDPOINTS, api.DEPLOYMENTS, api.SERVICES, api.SLICES)


class ToyCluster:
    """All parts of the cluster. Call `close` before the task group ends.

    Attributes:
        plane, server: the API server and its socket, which `start` opens.
        slices: the endpointslice controller.
        node: runs the pods.
    """

    def __init__(
        self,
        addresses: AddressPool,
        tasks: TaskGroup,
        tell: Tell = lambda *args, **details: None,
        pace: float = 1.0,
        resources: Iterable[api.ApiKind] = (*api.BUILT_IN, api.SCALED_OBJECTS),
        folder: Path | None = None,
    ) -> None:
        """
        Arguments:
            tasks: gets a task for each pod.
            tell: called with each event: kind, pod (empty for none), details by name; must return
                at once.
            pace: the duration of a second in probes of pods, in seconds.
            folder: gets copies of the objects that ``activator local`` reads; None for no copies.
        """
        self.plane = ControlPlane(resources)
        self.server = PlaneServer(self.plane)
        self._tell = tell
        self._started: Counter[str] = Counter()
        self._options: dict[str, Mapping[str, Any]] = {}
        self._proxies: list[ServiceProxy] = []
        self._mirror = controllers.Mirror(self.plane.store, folder, MIRRORED) if folder else None
        self._deployments = controllers.Deployments(self.plane)
        self.node = ToyNode(self.plane, addresses, tasks, tell, pace)
        self.slices = controllers.EndpointSlices(self.plane, self._on_slice)
        self._endpoints = controllers.RevisionEndpoints(self.plane, tell)
        self.plane.store.listen(self._on_change)

    async def start(self) -> None:
        """Listen with the API server.

        Raises:
            OSError: the kernel has no free port.
        """
        await self.server.start()

    async def close(self) -> None:
        """End all pods and connections."""
        for proxy in self._proxies:
            await proxy.close()
        for part in (self._mirror, self._deployments, self.slices, self._endpoints, self.node):
            if part is not None:
                part.close()
        self.plane.close()
        await self.server.close()

    @property
    def pods(self) -> dict[str, PodProcess]:
        """The pods with a process, by name."""
        return self.node.pods

    # -- Services without Knative ---------------------------------------------------------------

    def create(self, resource: api.ApiKind, found: Object) -> Object:
        """Create an object, as ``kubectl create`` does; return it.

        Raises:
            ApiError: the API server refuses it.
        """
        return self.plane.act("create", resource, found["metadata"]["namespace"], "", found)

    def patch(self, resource: api.ApiKind, name: str, change: Object) -> Object:
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
        self.plane.act("patch", api.DEPLOYMENTS, NAMESPACE, name, change, "scale")

    def replicas(self, name: str) -> int:
        """Return the replicas that a Deployment wants; 0 if there is no such Deployment."""
        found = self.plane.store.get(api.DEPLOYMENTS, NAMESPACE, name)
        return 0 if found is None else int(found["spec"]["replicas"])

    def listed(self, name: str) -> list[Object]:
        """Return the endpoints of a Service, of all its slices."""
        found = self.plane.store.select(api.SLICES, NAMESPACE, controllers.lists(name))
        return [endpoint for each in found for endpoint in each["endpoints"] or ()]

    async def open(self, service: str, delay: float) -> ServiceProxy:
        """Open a Service to clients.

        Arguments:
            delay: seconds from a change of an EndpointSlice to its effect.
        """
        proxy = ServiceProxy(self.plane, service, delay)
        await proxy.start()
        self._proxies.append(proxy)
        return proxy

    def _on_change(self, change: ObjectChange) -> None:
        if change.resource == api.DEPLOYMENTS and change.old and change.new:
            before, after = (each["spec"]["replicas"] for each in (change.old, change.new))
            if before != after:
                name = change.new["metadata"]["name"]
                self._tell("scaled", "", deployment=name, pods=before, wanted=after)

    def _on_slice(self, service: str, written: Object) -> None:
        states: dict[str, list[str]] = {"ready": [], "not_ready": [], "terminating": []}
        for endpoint in written["endpoints"] or ():
            is_so = endpoint["conditions"]
            state = "ready" if is_so["ready"] else "not_ready"
            state = "terminating" if is_so["terminating"] else state
            states[state].append(endpoint["targetRef"]["name"])
        self._tell("listed in slices", "", service=service, **states)

    # -- revisions of Knative -------------------------------------------------------------------

    def add_revision(self, found: Object, probes: Probes, options: Mapping[str, Any]) -> None:
        """Create a Revision, and its Endpoints without pods.

        Arguments:
            probes: the probes of its pods.
            options: fields of `PodOptions`.
        """
        metadata = self.create(api.REVISIONS, found)["metadata"]
        self.node.probes[metadata["name"]] = probes
        self._options[metadata["name"]] = options
        self._endpoints.reconcile(metadata["namespace"], metadata["name"])

    def start_pods(self, revision: str, count: int) -> None:
        """Start so many more pods of a revision; its Endpoints list them soon as not ready."""
        for _ in range(count):
            self._started[revision] += 1
            options = PodOptions(report_requests=True, **self._options[revision])
            container = {
                "name": "user-container",
                "args": pod_arguments(options),
                "ports": [{"name": "http1", "containerPort": options.port}],
            }
            name = f"{revision}-{self._started[revision]}"
            pod = {
                "metadata": {"name": name, "namespace": NAMESPACE, "labels": {REVISION: revision}},
                "spec": {"containers": [container], "nodeName": controllers.NODE},
            }
            self.create(api.PODS, pod)

    def stop_pod(self, name: str) -> None:
        """Delete a pod, as ``kubectl delete`` does; its process finishes its requests."""
        self.plane.act("delete", api.PODS, NAMESPACE, name)

    def running(self, revision: str) -> list[str]:
        """Return the names of a revision's pods that do not terminate, in the order of start."""
        found = self.plane.store.select(
            api.PODS, NAMESPACE, lambda pod: is_live(pod) and revision_of(pod) == revision
        )
        return [pod["metadata"]["name"] for pod in sorted(found, key=controllers.number)]
