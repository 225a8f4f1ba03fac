"""A whole activator seen from outside, for the cases of Knative's own tests.

A folder plays Kubernetes, scripted pods play queue-proxy, a WebSocket peer plays the autoscaler and
decodes its messages. Everything runs in the test's loop in virtual time, over real sockets. So a
test of ten seconds takes a moment.
"""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from activator.runtime import Runtime
from activator.servers import Servers
from activator.settings.config import load
from tests.activator.proxy.world import Answer
from tests.knative.objects import NAME, NAMESPACE, Address, Object
from tests.knative.peers import PATIENCE, Autoscaler, Client, to
from tests.knative.pods import Reaction, ScriptedPod
from tests.ports import hold, network, port_of

#: Seconds after which all effects show that need no timer of their own. While requests wait, the
#: activator probes every 5 ms, 50 ms after no response, or 200 ms after "not ready".
SOON = 0.25
#: Knative's tests wait this long for an update that must not come (updateTimeout).
NEVER = 0.8


class World:
    """An activator and all its peers.

    Attributes:
        folder: the folder of the objects.
        pods: all pods that ``pod`` has started.
        errors: errors of the strict parsers in pods, and of the loop.
        trusted: the authorities that clients of the TLS port trust.
    """

    trusted: ssl.SSLContext

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.errors: list[str] = []
        self.pods: list[ScriptedPod] = []
        self.clients: list[Client] = []
        self.autoscaler = Autoscaler()
        self.at: dict[str, tuple[str, int]] = {}
        self._servers: Servers | None = None
        # Tests that run in parallel must not share addresses.
        self._network = network()
        self._held: socket.socket | None = None

    # -- the activator --------------------------------------------------------------------------

    async def start(
        self, *, objects: Iterable[Object] = (), autoscaler: bool = False, **flags: str
    ) -> None:
        """Start the activator with these settings and the defaults of tests.

        Arguments:
            objects: objects that exist before it starts.
        """
        self.apply(*objects)
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._complain)
        if autoscaler:
            await self.autoscaler.listen()
            flags["autoscaler_url"] = f"ws://127.0.0.1:{self.autoscaler.port}"
        names = ("http_port", "h2c_port", "https_port", "admin_port", "metrics_port")
        ports = dict.fromkeys(names, "0")
        given = {"manifests": str(self.folder), "bind": "127.0.0.1", "pod_name": "activator-1"}
        settings = load("local", {**given, **ports, **flags}, {})
        self.runtime = Runtime(settings, clock=loop.time)
        self._servers = Servers(self.runtime)
        await self._servers.start()
        for name, address in self._servers.addresses.items():
            host, _, port = address.rpartition(":")
            self.at[name] = (host, int(port))

    async def close(self) -> None:
        """End all parts of the world, and fail with the errors that they recorded."""
        for client in self.clients:
            client.transport.abort()
        if self._servers is not None:
            await self._servers.stop()
            self._servers = None
            self.runtime.observers.outputs.close()
        for pod in self.pods:
            await pod.close()
        await self.autoscaler.close()
        self.autoscaler.give_up_port()
        if self._held is not None:
            self._held.close()
        await asyncio.sleep(0)
        assert not self.errors, "\n".join(self.errors)

    def _complain(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.errors.append(f"{context.get('message')}: {context.get('exception')!r}")

    # -- Kubernetes -----------------------------------------------------------------------------

    def apply(self, *objects: Object) -> None:
        """Create or replace objects; the activator reads them in the loop's next turns."""
        for found in objects:
            target = self._file(found["kind"], found["metadata"]["name"])
            temporary = target.with_suffix(".tmp")
            temporary.write_text(json.dumps(found))
            temporary.replace(target)

    def delete(self, kind: str, name: str) -> None:
        """Delete an object; the activator accepts that a moment later."""
        self._file(kind, name).unlink()

    def _file(self, kind: str, name: str) -> Path:
        return self.folder / f"{kind.lower()}.{name}.json"

    # -- pods -----------------------------------------------------------------------------------

    async def pod(self, *script: Reaction, listening: bool = True) -> ScriptedPod:
        """Start a pod at a new address, on the port that all pods share.

        Each address sorts after the previous one, as a string, as the activator sorts them.

        Arguments:
            script: reactions to probes; without any, the pod passes all probes.
        """
        number = len(self.pods)
        if self._held is None:
            self._held = hold(f"{self._network}.250")
        at = Address(f"{self._network}.{number + 101}", port_of(self._held))
        pod = ScriptedPod(self, f"pod-{number}", at, script)
        self.pods.append(pod)
        if listening:
            await pod.listen()
        return pod

    async def serving(self, count: int, **options: bool) -> list[ScriptedPod]:
        """Start ``count`` pods that pass their probes; options are attributes of the pods."""
        pods = [await self.pod() for _ in range(count)]
        for pod in pods:
            for name, value in options.items():
                setattr(pod, name, value)
        return pods

    def load(self) -> dict[str, int]:
        """Return the number of requests in flight per pod, without idle pods."""
        return {pod.name: pod.in_flight for pod in self.pods if pod.in_flight}

    def took(self) -> list[str]:
        """Return the names of the pods with requests in flight."""
        return sorted(self.load())

    # -- clients --------------------------------------------------------------------------------

    async def client(self, port: str = "http") -> Client:
        """Return a connected client."""
        loop = asyncio.get_running_loop()
        tls: dict[str, Any] = {}
        if port == "https":
            tls = {"ssl": self.trusted, "server_hostname": "localhost"}
        _, client = await loop.create_connection(Client, *self.at[port], **tls)
        self.clients.append(client)
        return client

    async def call(self, data: bytes | None = None, port: str = "http") -> Client:
        """Return a client that has sent a request."""
        client = await self.client(port)
        client.send(to() if data is None else data)
        return client

    async def calls(self, count: int, data: bytes | None = None) -> list[Client]:
        """Return ``count`` clients; each has sent a request, in order."""
        return [await self.call(data) for _ in range(count)]

    async def ask(
        self, data: bytes | None = None, method: bytes = b"GET", port: str = "http"
    ) -> Answer:
        """Send a request on a new connection, and return the response."""
        client = await self.call(data, port)
        answer = await client.answer(method)
        client.close()
        return answer

    async def outcome(self, clients: list[Client]) -> Counter[str]:
        """Return how many requests got each response body, and how many still wait."""
        counts: Counter[str] = Counter()
        for client in clients:
            counts["waits" if client.waits else (await client.answer()).body.decode()] += 1
        return counts

    # -- time -----------------------------------------------------------------------------------

    async def passes(self, seconds: float = SOON) -> None:
        """Wait for so many seconds of the loop's time."""
        passed = asyncio.Event()
        asyncio.get_running_loop().call_later(seconds, passed.set)
        await passed.wait()

    async def until(self, condition: Callable[[], object], what: str = "") -> None:
        """Wait until a condition holds."""
        loop = asyncio.get_running_loop()
        end = loop.time() + PATIENCE
        while not condition():
            assert loop.time() < end, f"waited in vain: {what}"
            await self.passes(0.005)

    def now(self) -> float:
        """Return the loop's time."""
        return asyncio.get_running_loop().time()

    # -- other observations ---------------------------------------------------------------------

    async def api(self, name: str = NAME, namespace: str = NAMESPACE) -> Any:
        """Return the admin API's view of a revision."""
        request = f"GET /api/v1/revisions/{namespace}/{name} HTTP/1.1\r\nHost: localhost\r\n\r\n"
        return json.loads((await self.ask(request.encode(), port="admin")).body)

    async def metric(self, sample: str, **labels: str) -> dict[tuple[str, ...], float]:
        """Return the values of a metric with these labels, by the values of all labels."""
        request = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
        text = (await self.ask(request, port="metrics")).body.decode()
        return {
            tuple(found.labels.values()): found.value
            for family in text_string_to_metric_families(text)
            for found in family.samples
            if found.name == sample and labels.items() <= found.labels.items()
        }
