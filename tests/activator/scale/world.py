"""Scalers against a stand-in control plane on loopback sockets, in virtual time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import httpx
from websockets.asyncio.client import ClientConnection, connect

from activator.autoscaler.concurrency import Stat
from activator.autoscaler.wire import encode
from activator.lab.control_plane.api import BUILT_IN, SCALED_OBJECTS, ApiKind
from activator.lab.control_plane.plane import PlaneCall, PlaneServer
from activator.lab.http1 import HttpResponse
from activator.scale import scaler as scalers
from activator.scale.election import LABEL
from activator.scale.keda.part import KedaPart
from activator.scale.part import Part, PartContext
from activator.scale.scaler import PARTS, ScalerProcess
from activator.scale.settings import load
from tests.control_plane.client import plane_request
from tests.recorded.requests import Recorder
from throttler.model import RevisionID

Object = dict[str, Any]

NAMESPACE = "activator-system"
#: Seconds of virtual time within which everything must happen.
PATIENCE = 900.0
_STEP = 0.1
#: The parts without listeners of their own: gRPC does not follow virtual time.
WITHOUT_KEDA: Final = tuple(make for make in PARTS if make is not KedaPart)


async def elapse(seconds: float) -> None:
    """Let virtual time pass."""
    passed = asyncio.Event()
    asyncio.get_running_loop().call_later(seconds, passed.set)
    await passed.wait()


async def until(condition: Callable[[], object], what: str, within: float = PATIENCE) -> None:
    """Wait until a condition holds; fail after some virtual time."""
    end = asyncio.get_running_loop().time() + within
    while not condition():
        assert asyncio.get_running_loop().time() < end, f"not within {within:g} s: {what}"
        await elapse(_STEP)


class Cluster:
    """A control plane, with the few controllers that tests play themselves."""

    def __init__(self, folder: Path, *, keda: bool = True, kinds: Sequence[ApiKind] = ()) -> None:
        self.plane = Recorder((*BUILT_IN, *((SCALED_OBJECTS,) if keda else ()), *kinds))
        self.server = PlaneServer(self.plane)
        self.folder = folder
        self.kubeconfig = ""

    async def send(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request past all sockets; it must succeed."""
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        data = b"" if body is None else json.dumps(body).encode()
        response = await self.plane.send(plane_request(method, path, data, kind, "test"))
        assert isinstance(response, HttpResponse)
        assert response.status < 300, response.body
        return json.loads(response.body)

    async def add(self, name: str = "hello", replicas: int = 0, **annotations: str) -> None:
        """Create a Deployment, and the Service that opts in for it."""
        labels = {"app": name}
        await self.deploy(name, replicas)
        asked = {
            f"activator.dev/{key.replace('_', '-')}": each for key, each in annotations.items()
        }
        metadata = {
            "name": name,
            "namespace": "shop",
            "annotations": {"activator.dev/enabled": "true", **asked},
        }
        ports = [{"name": "http", "port": 80, "targetPort": 8080}]
        body = {"metadata": metadata, "spec": {"selector": labels, "ports": ports}}
        await self.send("POST", "/api/v1/namespaces/shop/services", body)

    async def deploy(self, name: str, replicas: int = 0) -> None:
        """Create a Deployment."""
        labels = {"app": name}
        pods = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c"}]}}
        spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": pods}
        body = {"metadata": {"name": name, "namespace": "shop"}, "spec": spec}
        await self.send("POST", "/apis/apps/v1/namespaces/shop/deployments", body)

    async def list_activators(self, *addresses: str) -> None:
        """List the activators of the cluster."""
        path = f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices"
        labels = {"kubernetes.io/service-name": "activator-service"}
        metadata = {"name": "activator-service-1", "namespace": NAMESPACE, "labels": labels}
        body = {
            "metadata": metadata,
            "addressType": "IPv4",
            "ports": [{"name": "http", "port": 8012}],
            "endpoints": [{"addresses": [each], "nodeName": "node-1"} for each in addresses],
        }
        await self.send("POST", path, body)

    async def annotate(self, name: str = "hello", /, **annotations: str | None) -> None:
        """Change annotations of a Service."""
        asked = {
            f"activator.dev/{key.replace('_', '-')}": each for key, each in annotations.items()
        }
        path = f"/api/v1/namespaces/shop/services/{name}"
        await self.send("PATCH", path, {"metadata": {"annotations": asked}})

    async def set_ready(self, name: str, count: int) -> None:
        """List as many ready pods of a Service."""
        path = "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices"
        endpoints = [
            {"addresses": [f"10.0.0.{number + 1}"], "conditions": {"ready": True}}
            for number in range(count)
        ]
        body: Object = {"ports": [{"name": "http", "port": 8080}], "endpoints": endpoints}
        known = await self.send("GET", path)
        if any(each["metadata"]["name"] == f"{name}-1" for each in known["items"]):
            await self.send("PATCH", f"{path}/{name}-1", body)
            return
        labels = {"kubernetes.io/service-name": name}
        metadata = {"name": f"{name}-1", "namespace": "shop", "labels": labels}
        await self.send("POST", path, {**body, "metadata": metadata, "addressType": "IPv4"})

    def replicas(self, name: str = "hello") -> int:
        """Return how many replicas a Deployment asks for."""
        found = self._get("deployments", "shop", name)
        return int(found["spec"].get("replicas", 0))

    def leaders(self) -> list[str]:
        """Return the pods with the leader's label."""
        pods = self.plane.resources.find(f"/api/v1/namespaces/{NAMESPACE}/pods")
        assert pods is not None
        found = self.plane.store.select(pods.resource, NAMESPACE, lambda _: True)
        return [
            pod["metadata"]["name"]
            for pod in found
            if (pod["metadata"].get("labels") or {}).get(LABEL) == "true"
        ]

    def holder(self) -> str:
        """Return the pod that holds the Lease; empty for none."""
        place = self.plane.resources.find(
            f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
        )
        assert place is not None
        found = self.plane.store.get(place.resource, NAMESPACE, "activator-scale")
        return (found["spec"].get("holderIdentity") or "").rpartition("_")[0] if found else ""

    def calls(self, verb: str, resource: str, subresource: str = "") -> list[PlaneCall]:
        """Return the requests of one kind so far."""
        return [
            call
            for call in self.plane.calls
            if (call.verb, call.resource, call.subresource) == (verb, resource, subresource)
        ]

    def _get(self, plural: str, namespace: str, name: str) -> Object:
        place = self.plane.resources.find(f"/apis/apps/v1/namespaces/{namespace}/{plural}")
        assert place is not None
        found = self.plane.store.get(place.resource, namespace, name)
        assert found is not None
        return found


class Running:
    """One scaler that runs, and one activator that reports to it."""

    def __init__(
        self,
        cluster: Cluster,
        pod: str,
        parts: Sequence[Callable[[PartContext], Part | None]] | None,
        **flags: str,
    ) -> None:
        self.pod = pod
        environ = {
            "SYSTEM_NAMESPACE": NAMESPACE,
            "POD_NAME": pod,
            "KUBECONFIG": cluster.kubeconfig,
            "ACTIVATOR_BIND": "127.0.0.1",
        }
        ports = dict.fromkeys(("stat_port", "grpc_port", "metrics_port", "admin_port"), "0")
        self.scaler = ScalerProcess(
            load(ports | flags, environ), environ, parts=PARTS if parts is None else parts
        )
        self._stack = AsyncExitStack()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start the scaler."""
        self._task = await self._stack.enter_async_context(scalers.running(self.scaler))

    async def terminate(self) -> None:
        """End the scaler as SIGTERM does."""
        await self._stack.aclose()

    def kill(self) -> None:
        """Stop the work of the scaler at once; it releases nothing."""
        assert self._task is not None
        self._task.cancel()

    async def get(self, path: str, **headers: str) -> httpx.Response:
        """Send a request to the admin port."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        async with httpx.AsyncClient(timeout=None) as client:
            return await client.get(f"http://{self.scaler.addresses['admin']}{path}", headers=named)

    async def service(self, name: str = "hello") -> Any:
        """Return a Service as the API has it."""
        response = await self.get(f"/api/v1/services/shop/{name}")
        assert response.status_code == 200, response.text
        return response.json()

    @property
    def leads(self) -> bool:
        """Whether this scaler decides."""
        return self.scaler.status.readiness() == ""

    @asynccontextmanager
    async def activator(self, name: str = "activator-1") -> AsyncIterator[Activator]:
        """Connect an activator."""
        async with connect(f"ws://{self.scaler.addresses['stat']}", ping_interval=None) as socket:
            activator = Activator(socket, name)
            try:
                yield activator
            finally:
                activator.hold(0)


class Activator:
    """An activator that reports every second."""

    def __init__(self, socket: ClientConnection, name: str) -> None:
        self._socket = socket
        self._name = name
        self._task: asyncio.Task[None] | None = None

    async def report(
        self, load: float, name: str | RevisionID = "hello", requests: int | None = None
    ) -> None:
        """Report once; by default as many requests as are concurrent."""
        count = round(load) if requests is None else requests
        of = RevisionID("shop", name) if isinstance(name, str) else name
        stat = Stat(of, load, count)
        await self._socket.send(encode([stat], self._name))

    def hold(self, load: float, name: str = "hello", requests: int | None = None) -> None:
        """Report a load every second from now on; 0 ends that."""
        if self._task is not None:
            self._task.cancel()
            self._task = None
        if load:
            self._task = asyncio.ensure_future(self._repeat(load, name, requests))

    async def _repeat(self, load: float, name: str, requests: int | None) -> None:
        while True:
            await self.report(load, name, requests)
            await elapse(1.0)


@asynccontextmanager
async def cluster(
    folder: Path, *, keda: bool = True, kinds: Sequence[ApiKind] = ()
) -> AsyncIterator[Cluster]:
    """Run a control plane, with or without the custom resources of KEDA, and with more kinds."""
    found = Cluster(folder, keda=keda, kinds=kinds)
    await found.server.start()
    found.kubeconfig = str(found.server.write_kubeconfig(folder))
    try:
        yield found
    finally:
        found.plane.close()
        await found.server.close()


@asynccontextmanager
async def scaler(
    of: Cluster,
    pod: str = "scale-1",
    parts: Sequence[Callable[[PartContext], Part | None]] | None = WITHOUT_KEDA,
    **flags: str,
) -> AsyncIterator[Running]:
    """Run a scaler in a pod of its own; ``parts`` None for all parts of the program."""
    body = {"metadata": {"name": pod, "namespace": NAMESPACE}, "spec": {"containers": []}}
    await of.send("POST", f"/api/v1/namespaces/{NAMESPACE}/pods", body)
    running = Running(of, pod, parts, **flags)
    await running.start()
    try:
        yield running
    finally:
        await running.terminate()


@asynccontextmanager
async def leader(of: Cluster, pod: str = "scale-1", **flags: str) -> AsyncIterator[Running]:
    """Run a scaler, and wait until it leads."""
    async with scaler(of, pod, WITHOUT_KEDA, **flags) as running:
        await until(lambda: running.leads, "a leader")
        yield running
