"""The cluster of a soak: the lab's API server, its node, and an autoscaler, in a thread of its own.

The soak itself has no event loop: it starts and kills processes, and waits for them.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any, Final, TypeVar
from uuid import uuid4

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from activator.lab.addresses import AddressPool
from activator.lab.cluster import ToyCluster
from activator.lab.control_plane.api import (
    BUILT_IN,
    CONFIG_MAPS,
    DEPLOYMENTS,
    ENDPOINTS,
    PODS,
    REVISIONS,
    SERVICES,
    SLICES,
    ApiKind,
)
from activator.lab.controllers import CONTROLLER, MANAGED_BY, SERVICE_NAME, lists
from activator.lab.objects import TCP_PROBE, Object, deployment, service
from benchmarks.mixed.kinds import BYTES, SCALED
from tests.stats import decode

#: The duration of a second in probes of the node's pods: kubelet's 10 s become 1 s.
PACE: Final = 0.1
#: The namespace of activators, scaler and autoscaler, and the Service of the activators.
SYSTEM, ACTIVATORS = "activator", "activator-service"
#: The ConfigMaps that an activator needs, or watches.
CONFIG_MAP_NAMES: Final = (
    *("config-network", "config-features", "config-logging", "config-observability"),
)
#: Seconds for one call of the thread.
PATIENCE: Final = 30.0
#: Seconds without a request after which the scaler ends the pods of the Deployment.
IDLE_SECONDS: Final = 4

T = TypeVar("T")


class Autoscaler:
    """A stand-in for Knative's autoscaler: it reads the stats of activators, and scales nothing.

    Attributes:
        received: the time of the last stat, by the activator's name.
    """

    def __init__(self) -> None:
        self.received: dict[str, float] = {}
        self.port = 0
        self._server: Server | None = None

    async def start(self) -> None:
        """Listen, on the same port as before."""
        self._server = await serve(self._converse, "127.0.0.1", self.port)
        self.port = next(iter(self._server.sockets)).getsockname()[1]

    async def stop(self) -> None:
        """Close all connections, and listen no longer."""
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()
            self._server = None

    async def _converse(self, connection: ServerConnection) -> None:
        try:
            async for frame in connection:
                if isinstance(frame, bytes):
                    for name in decode(frame)[1]:
                        self.received[name] = monotonic()
        except ConnectionClosed:
            pass


class Cluster:
    """The thread with all parts of the cluster; see `running`.

    Attributes:
        autoscaler: the stand-in; call it by `execute`.
        arrived: how often a request with an id arrived at a pod of the Deployment.
        kubeconfig: a file with the access to the API server.
    """

    def __init__(self, folder: Path) -> None:
        self.autoscaler = Autoscaler()
        self.arrived: Counter[str] = Counter()
        self.kubeconfig = Path()
        self._folder = folder
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._end = asyncio.Event()
        self._plain: ToyCluster
        self.thread = threading.Thread(target=self._run, name="cluster", daemon=True)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._live())
        self._loop.close()

    async def _live(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            self._plain = ToyCluster(
                AddressPool(), tasks, self._on_event, PACE, (*BUILT_IN, REVISIONS)
            )
            await self._plain.start()
            await self.autoscaler.start()
            self.kubeconfig = self._plain.server.write_kubeconfig(self._folder)
            self._ready.set()
            await self._end.wait()
            await self.autoscaler.stop()
            await self._plain.close()

    def start(self) -> None:
        """Start the thread, and return when the API server listens."""
        self.thread.start()
        if not self._ready.wait(PATIENCE):
            raise TimeoutError("the API server does not listen")

    def close(self) -> None:
        """End all of it."""
        if self.thread.is_alive():
            self._loop.call_soon_threadsafe(self._end.set)
            self.thread.join(PATIENCE)

    def execute(self, do: Callable[[], T]) -> T:
        """Call a function in the thread of the cluster; return its result."""

        async def call() -> T:
            return do()

        return asyncio.run_coroutine_threadsafe(call(), self._loop).result(PATIENCE)

    def put(self, *objects: tuple[ApiKind, Object]) -> None:
        """Store objects; an object that exists keeps its uid."""

        def do() -> None:
            for resource, found in objects:
                metadata = found["metadata"]
                old = self._plain.plane.store.get(resource, metadata["namespace"], metadata["name"])
                uid = old["metadata"]["uid"] if old else str(uuid4())
                metadata = {**metadata, "uid": metadata.get("uid") or uid}
                self._plain.plane.store.put(resource, {**found, "metadata": metadata})

        self.execute(do)

    def list_activators(self, ips: Sequence[str]) -> None:
        """List these activators as ready in the slice of their Service."""
        ready = {"ready": True, "serving": True, "terminating": False}
        endpoints = [{"addresses": [ip], "conditions": ready, "nodeName": "laptop"} for ip in ips]
        labels = {SERVICE_NAME: ACTIVATORS, MANAGED_BY: CONTROLLER}
        listed = {
            "metadata": {"name": f"{ACTIVATORS}-1", "namespace": SYSTEM, "labels": labels},
            "addressType": "IPv4",
            "ports": [{"name": "http", "port": 8012}],
            "endpoints": endpoints,
        }
        self.put((SLICES, listed))

    def create_config(self) -> None:
        """Create the ConfigMaps of Knative, without settings."""
        for name in CONFIG_MAP_NAMES:
            self.put((CONFIG_MAPS, {"metadata": {"name": name, "namespace": SYSTEM}, "data": {}}))

    def create_scaled(self) -> None:
        """Create the pod object of the scaler, and Deployments that sleep, with their Services.

        One has a Service of HTTP, the other one a TCP Service with route ``front``.
        """

        def do() -> None:
            labels = {"app": "activator-scale"}
            pod: Object = {
                "metadata": {"name": "scale-1", "labels": labels},
                "spec": {"containers": [{"name": "scale"}]},
            }
            self._plain.plane.act("create", PODS, SYSTEM, "", pod)
            pods = f"{BYTES}-pods"
            for name in (SCALED, pods):
                made = deployment(name, probe=TCP_PROBE, arguments=("--quiet-period=0.3",))
                self._plain.create(DEPLOYMENTS, made)
            asked = {"enabled": "true", "idle-seconds": f"{IDLE_SECONDS}"}
            self._plain.create(SERVICES, service(SCALED, annotations=asked))
            self._plain.create(SERVICES, service(pods))
            asked |= {"protocol": "tcp", "route": "front", "pods-service": pods}
            front = service(BYTES, annotations=asked)
            del front["spec"]["selector"]
            self._plain.create(SERVICES, front)

        self.execute(do)

    def port_of_bytes(self) -> int:
        """Return the port that the scaler has allotted to the TCP Service; 0 for none yet."""

        def do() -> list[Object]:
            return self._plain.plane.store.select(SLICES, "default", lists(BYTES))

        return next((int(each["ports"][0]["port"]) for each in self.execute(do)), 0)

    # -- faults ---------------------------------------------------------------------------------

    def cut_watches(self) -> None:
        """Break all connections to the API server."""
        self.execute(self._plain.plane.hang_up)

    def expire_watches(self) -> None:
        """Remove the history, and break all connections: a watch gets 410."""

        def do() -> None:
            store = self._plain.plane.store
            store.put(ENDPOINTS, {"metadata": {"name": "other", "namespace": SYSTEM}})
            store.compact()
            self._plain.plane.hang_up()

        self.execute(do)

    def silence_watches(self) -> None:
        """Send nothing more on the present watches, and do not end them."""
        self.execute(self._plain.plane.fall_silent)

    def go_away(self) -> None:
        """Break all connections to the API server, and refuse new ones."""
        self.execute(self._plain.plane.go_away)

    def come_back(self) -> None:
        """End the effect of `go_away`."""
        self.execute(self._plain.plane.come_back)

    def stop_autoscaler(self) -> None:
        """End the autoscaler."""
        self._await(self.autoscaler.stop)

    def start_autoscaler(self) -> None:
        """Start the autoscaler again."""
        self._await(self.autoscaler.start)

    def _await(self, do: Callable[[], Any]) -> None:
        asyncio.run_coroutine_threadsafe(do(), self._loop).result(PATIENCE)

    def _on_event(self, kind: str, pod: str, **details: Any) -> None:
        if kind == "responded" and details["path"] == "/echo":
            self.arrived[details["id"]] += 1


@contextmanager
def running(folder: Path) -> Iterator[Cluster]:
    """Provide a cluster that ends with the block."""
    cluster = Cluster(folder)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.close()
