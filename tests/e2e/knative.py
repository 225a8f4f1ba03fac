"""The rest of Knative: an API server with a history, pods, and an autoscaler that uses the stats.

All of it runs in the test's own loop; only activators and the ingress are processes.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from activator.autoscaler.concurrency import Stat
from activator.lab.demo import EPSILON
from activator.lab.http1 import Connection
from activator.lab.http1 import HttpRequest as HttpRequest
from activator.lab.objects import PodAddress, private_endpoints, revision
from activator.lab.pod import Pod as SamplePod
from activator.lab.pod import PodOptions
from tests.activator.discovery.fake_api_server import (
    Answer,
    FakeApiServer,
    Request,
    event,
    expired,
    selects,
)
from tests.ports import hold, port_of
from tests.process import PATIENCE
from tests.stats import decode
from throttler.model import RevisionID

#: Seconds without a request after which a service scales to zero (Knative: 60). The first report
#: after a poke does not repeat the requests of the poke. Only the second shows that one is queued.
STABLE_WINDOW = 4.0


class ApiServer(FakeApiServer):
    """An API server with a history, as etcd has: a watch begins at its resource version."""

    def __init__(self) -> None:
        super().__init__()
        self._history: list[tuple[int, dict[str, Any], bytes]] = []
        self._oldest = 0

    def forget(self) -> None:
        """Compact the history: watches from earlier versions must list again (410)."""
        self._oldest = self.version + 1
        self.version += 1
        self._history.clear()

    def _tell(self, obj: dict[str, Any], line: bytes) -> None:
        self._history.append((self.version, obj, line))
        super()._tell(obj, line)

    def _usual(self, request: Request) -> Answer:
        if not request.is_watch:
            return super()._usual(request)
        since = int(request.params["resourceVersion"])
        if since < self._oldest:
            return Answer(body=event("ERROR", expired()))
        missed = [
            line
            for version, obj, line in self._history
            if version > since and obj["kind"] == request.kind and selects(request, obj)
        ]
        return Answer(body=b"".join(missed), end="hold")

    async def start_again(self) -> None:
        """Listen again, on the same port as before ``stop``."""
        await self.__aenter__()


class Pod(SamplePod):
    """A sample pod that serves while the gate is open, and counts requests by their sender.

    Attributes:
        held: requests in the pod at present, by their ``x-asked`` field.
        most: the highest number of requests in the pod at a time.
        port: the port of the pod, 0 before it listens.

    The pod keeps its port until ``release``. An activator may probe the port long after the pod's
    end. It must not find a pod of another test there.
    """

    def __init__(self, name: str, gate: asyncio.Event, quiet_period: float = 0.3) -> None:
        # The pod has no limit of its own: the activators must keep the limit.
        self._held = hold()
        options = PodOptions(
            *(name, "127.0.0.1", port_of(self._held)),
            quiet_period=quiet_period,
            report_requests=True,
        )
        super().__init__(options, self._note)
        self._gate = gate
        self.held: Counter[str] = Counter()
        self.most = 0
        self.port = 0
        self.events: list[str] = []
        self.statuses: Counter[int] = Counter()
        self._noted = asyncio.Event()
        self._running: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Run the pod, and return when it listens."""
        self._running = asyncio.ensure_future(self.run())
        await self.told("listening")

    async def end(self) -> None:
        """Drain the pod as SIGTERM would, and return when it has ended."""
        self.stop.set()
        if self._running is not None:
            await asyncio.wait([self._running])  # the drain continues if the caller is cancelled
            self._running.result()

    def release(self) -> None:
        """Free the port."""
        self._held.close()

    async def told(self, what: str) -> None:
        """Wait until the pod has reported an event."""
        async with asyncio.timeout(PATIENCE):
            while what not in self.events:
                self._noted.clear()
                await self._noted.wait()

    def listed(self, *, ready: bool) -> PodAddress:
        """Return the pod's address for an Endpoints object."""
        name = self.options.name
        return PodAddress("127.0.0.1", self.port, f"uid-of-{name}", name, ready)

    def _note(self, what: str, **details: Any) -> None:
        self.events.append(what)
        if what == "listening":
            self.port = details["port"]
        elif what == "responded":
            self.statuses[details["status"]] += 1
        self._noted.set()

    async def _serve(self, request: HttpRequest, connection: Connection) -> int:
        asked = request.header("x-asked")
        self.held[asked] += 1
        self.most = max(self.most, self.held.total())
        try:
            await self._gate.wait()
            return await super()._serve(request, connection)
        finally:
            self.held[asked] -= 1


class Deployment:
    """One revision: its pods, and the objects that list them.

    Attributes:
        gate: while it is not set, no pod responds to a request.
        kubelet: while it is not set, no further pod is listed as ready.
        pods: the present pods.
        every: the present pods and all earlier ones.
    """

    def __init__(
        self,
        api: ApiServer,
        name: str,
        container_concurrency: int,
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.gate = asyncio.Event()
        self.gate.set()
        self.kubelet = asyncio.Event()
        self.kubelet.set()
        self.pods: list[Pod] = []
        self.every: list[Pod] = []
        self._api = api
        self._tasks: set[asyncio.Future[None]] = set()
        self._changed = asyncio.Event()
        api.put(
            revision(
                name,
                container_concurrency=container_concurrency,
                annotations=annotations,
                uid=f"uid-of-{name}",
            )
        )
        self._publish()

    async def __aenter__(self) -> Deployment:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self.gate.set()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(pod.end() for pod in self.every))
        for pod in self.every:
            pod.release()

    def reached_by(self, ips: list[str]) -> None:
        """List these activators in the revision's public Endpoints."""
        labels = {
            "networking.internal.knative.dev/serviceType": "Public",
            "serving.knative.dev/revision": self.name,
        }
        subset = {
            "addresses": [{"ip": ip} for ip in ips],
            "ports": [{"name": "http", "port": 8012, "protocol": "TCP"}],
        }
        metadata = {"name": self.name, "namespace": "default", "labels": labels}
        self._api.put(
            {"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata, "subsets": [subset]}
        )

    def scale_up(self, count: int) -> None:
        """Start pods until there are ``count``; list each as not ready, then as ready."""
        while len(self.pods) < count:
            pod = Pod(f"{self.name}-{len(self.every) + 1}", self.gate)
            self.pods.append(pod)
            self.every.append(pod)
            task = asyncio.ensure_future(self._bring_up(pod))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def scale_to_zero(self) -> None:
        """Remove all pods from the Endpoints, and end them."""
        pods, self.pods = self.pods, []
        self._publish()
        await asyncio.gather(*(pod.end() for pod in pods))

    async def replace(self, pod: Pod) -> None:
        """Start another pod, then remove this one, as a rollout does."""
        self.scale_up(len(self.pods) + 1)
        fresh = self.pods[-1]
        await self.until(lambda: "ready" in fresh.events)
        await self.take_away(pod)

    async def take_away(self, pod: Pod) -> None:
        """Remove a pod from the Endpoints, and end it as kubelet does."""
        self.pods.remove(pod)
        self._publish()
        await pod.end()

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until the state of the pods meets a condition."""
        async with asyncio.timeout(PATIENCE):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    async def _bring_up(self, pod: Pod) -> None:
        await pod.start()
        self._publish()
        # kubelet probes at most once a second, the activator at once: its probe is the first.
        await pod.told("probe passed")
        await self.kubelet.wait()
        pod.events.append("ready")
        self._publish()

    def _publish(self) -> None:
        pods = [pod.listed(ready="ready" in pod.events) for pod in self.pods if pod.port]
        self._api.put(private_endpoints(self.name, pods))
        self._changed.set()


class Autoscaler:
    """Receives the activators' stats, adds them up, and scales a deployment by the sum.

    After a while without requests it probes the ingress. It removes the last pods only if an
    activator responds there.
    """

    def __init__(
        self, deployment: Deployment, target: float, is_activator_in_path: Callable[[], Any]
    ) -> None:
        self._deployment = deployment
        self._target = target
        self._is_activator_in_path = is_activator_in_path
        self._revision = RevisionID("default", deployment.name)
        self._server: Server | None = None
        self._stopping: asyncio.Future[None] | None = None
        self._window: asyncio.TimerHandle | None = None
        self._told = asyncio.Event()
        self._held = hold()
        self.port = port_of(self._held)
        self.stats: list[tuple[str, Stat]] = []
        self.latest: dict[str, Stat] = {}
        self.close_codes: list[int | None] = []
        self.faults: list[str] = []

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}"

    async def start(self) -> None:
        """Listen, each time on the same port."""
        self._server = await serve(self._handle, "127.0.0.1", self.port)

    async def stop(self) -> None:
        """End as Knative's autoscaler does, with the close code for a restart."""
        if self._server is not None:
            self._server.close(code=1012, reason="Restarting")
            await self._server.wait_closed()
            self._server = None
            self.latest.clear()

    async def __aenter__(self) -> Autoscaler:
        await self.start()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.stop()
        self._held.close()
        if self._window is not None:
            self._window.cancel()
        if self._stopping is not None:
            self._stopping.cancel()
            await asyncio.gather(self._stopping, return_exceptions=True)

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until the reports received meet a condition."""
        async with asyncio.timeout(PATIENCE):
            while not condition():
                self._told.clear()
                await self._told.wait()

    async def _handle(self, connection: ServerConnection) -> None:
        told_of: set[str] = set()
        with suppress(ConnectionClosed):
            async for frame in connection:
                self._take(frame, told_of)
        for pod_name in told_of:
            self.latest.pop(pod_name, None)
        self.close_codes.append(connection.close_code)
        self._told.set()

    def _take(self, frame: str | bytes, told_of: set[str]) -> None:
        if isinstance(frame, str):
            self.faults.append(f"a text frame: {frame!r}")
            return
        stats, pod_names = decode(frame)
        if len(pod_names) != 1:
            self.faults.append(f"a frame of several pods: {pod_names}")
        pod_name = next(iter(pod_names))
        told_of |= pod_names
        for stat in stats:
            self.stats.append((pod_name, stat))
            if stat.revision_id == self._revision:
                self._scale(pod_name, stat)
        self._told.set()

    def _scale(self, pod_name: str, stat: Stat) -> None:
        self.latest[pod_name] = stat
        concurrency = sum(stat.concurrency for stat in self.latest.values())
        wanted = math.ceil(concurrency / self._target - EPSILON)
        if stat.concurrency or stat.request_count:
            wanted = max(wanted, 1)
            self._see_in_a_while()
        self._deployment.scale_up(wanted)

    def _see_in_a_while(self) -> None:
        if self._window is not None:
            self._window.cancel()
        self._window = asyncio.get_running_loop().call_later(STABLE_WINDOW, self._window_ended)

    def _window_ended(self) -> None:
        self._window = None
        self._stopping = asyncio.ensure_future(self._scale_to_zero())

    async def _scale_to_zero(self) -> None:
        if not await self._is_activator_in_path():
            self.faults.append("no activator responds to the scale-to-zero probe")
        elif self._window is None:
            await self._deployment.scale_to_zero()


async def gather(*awaitables: Awaitable[Any]) -> list[Any]:
    """Return all results; fail if they take longer than ``PATIENCE``."""
    async with asyncio.timeout(PATIENCE):
        return await asyncio.gather(*awaitables)
