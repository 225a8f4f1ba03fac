"""A whole activator seen from outside, for the cases of Knative's own tests.

A folder plays Kubernetes, scripted pods play queue-proxy, a WebSocket peer plays the autoscaler and
decodes what it is sent. Everything runs in the test's loop in virtual time, over real sockets, so
that a test of ten seconds takes a moment.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import re
import socket
import ssl
from collections import Counter, deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families
from websockets.asyncio.server import Server, ServerConnection, serve

from activator.autoscaler import wire
from activator.autoscaler.concurrency import Stat
from activator.config import load
from activator.runtime import Runtime
from activator.servers import Servers
from tests.activator.proxy.world import Answer, Pod, PodConnection, Seen
from tests.activator.proxy.world import Client as BytesClient
from tests.knative.objects import NAME, NAMESPACE, Address, Object

#: Seconds of the loop's time after which something that should happen will not happen any more:
#: longer than any timer of an activator with its default settings.
PATIENCE = 650.0
#: Seconds in which everything follows that does not wait for a timer of its own: demand has pods
#: probed every 5 ms, or 50 ms after a silence.
SOON = 0.25
#: Knative's tests wait this long for an update that must not come (updateTimeout).
NEVER = 0.8

_networks = itertools.count(os.getpid() * 7)


def http(body: bytes = b"", status: int = 200, fields: bytes = b"") -> bytes:
    """An answer; ``fields`` are whole lines with their CRLF."""
    return b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n%b\r\n%b" % (status, len(body), fields, body)


#: What a pod does with a probe: bytes that it sends, or what it does instead.
Reaction = bytes | Callable[[PodConnection], object]
#: An answer in pieces: seconds after the request, and what is sent then.
Pieces = list[tuple[float, Reaction]]

PASSES = http(b"queue")
UNAVAILABLE = http(status=503)


def breaks(connection: PodConnection) -> None:
    """The error of a transport: a connection that breaks without an answer."""
    connection.reset()


def slowly(seconds: float, answer: bytes = PASSES) -> Reaction:
    """An answer that takes its time."""

    def react(connection: PodConnection) -> None:
        asyncio.get_running_loop().call_later(seconds, _write, connection, answer)

    return react


def chunked(*pieces: tuple[float, bytes], ends: float | None = None) -> Pieces:
    """A chunked answer whose head comes with its first piece.

    Arguments:
        pieces: seconds after the request, and a chunk.
        ends: when the last chunk follows; at once if None.
    """
    # What is due at one moment is one piece: timers of the same time run in any order.
    due: dict[float, bytes] = {
        pieces[0][0]: b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    }
    for at, data in pieces:
        due[at] = due.get(at, b"") + b"%x\r\n%b\r\n" % (len(data), data)
    end = pieces[-1][0] if ends is None else ends
    due[end] = due.get(end, b"") + b"0\r\n\r\n"
    return list(due.items())


def after(seconds: float, data: bytes = http(b"hi")) -> Pieces:
    """A whole answer that takes so long."""
    return [(seconds, data)]


def _write(connection: PodConnection, data: Reaction) -> None:
    if connection.closed:
        return
    if callable(data):
        data(connection)
    else:
        connection.write(data)


class ScriptedPod(Pod):
    """A pod, or whatever listens behind a ClusterIP.

    Attributes:
        script: reactions to probes, one each; the last one serves for all that follow.
        holding: whether requests are kept until ``release``.
        pieces: how requests are answered over time, instead of with ``answer``.
        probes: the probes that came; traffic: the requests.
        in_flight: requests that it has not answered; most: the highest number there was.
    """

    def __init__(self, world: World, name: str, at: Address, script: tuple[Reaction, ...]) -> None:
        super().__init__(world, at.ip)  # type: ignore[arg-type] # it wants its ``errors`` alone
        self.port = at.port
        self.name = name
        self.script = deque(script or (PASSES,))
        self.holding = False
        self.probes: list[Seen] = []
        self.traffic: list[Seen] = []
        self.most = 0
        self.answer = http(name.encode())
        self.pieces: Pieces | None = None
        self.on_data = self._react
        self._held: list[tuple[PodConnection, Seen]] = []
        self._tls: asyncio.Server | None = None

    @property
    def at(self) -> Address:
        return Address(self.host, self.port)

    @property
    def in_flight(self) -> int:
        return sum(not connection.closed for connection, _ in self._held)

    async def listen_tls(self, context: ssl.SSLContext) -> None:
        """Take requests over TLS as well, on the port where queue-proxy takes them."""
        if self._tls is not None:
            self._tls.close()
        self._tls = await asyncio.get_running_loop().create_server(
            lambda: PodConnection(self), self.host, 8112, ssl=context
        )

    async def close(self) -> None:
        if self._tls is not None:
            self._tls.close()
        await super().close()

    def reacts(self, *script: Reaction) -> None:
        """Follow another script from now on."""
        self.script = deque(script)

    def release(self, count: int = 1_000_000) -> None:
        """Answer that many of the requests that it keeps, the oldest first."""
        for connection, seen in self._held[:count]:
            if not connection.closed:
                self._answer(connection, seen)
        del self._held[:count]

    def _react(self, connection: PodConnection) -> None:
        while connection.answered < len(connection.requests):
            seen = connection.requests[connection.answered]
            if not seen.whole:
                return
            connection.answered += 1
            if seen.all(b"user-agent") == [b"Knative-Activator-Probe"]:
                self.probes.append(seen)
                self._answer_probe(connection)
            else:
                self.traffic.append(seen)
                self._held.append((connection, seen))
                self.most = max(self.most, self.in_flight)
                if self.pieces is not None:
                    self._answer_in_pieces(connection, seen, self.pieces)
                elif not self.holding:
                    self.release()

    def _answer_probe(self, connection: PodConnection) -> None:
        reaction = self.script.popleft() if len(self.script) > 1 else self.script[0]
        if callable(reaction):
            reaction(connection)
        else:
            connection.write(reaction)

    def _answer_in_pieces(self, connection: PodConnection, seen: Seen, pieces: Pieces) -> None:
        loop = asyncio.get_running_loop()
        *first, (end, last) = pieces
        for at, data in first:
            loop.call_later(at, _write, connection, data)

        def finish() -> None:
            self._held.remove((connection, seen))
            _write(connection, last)

        loop.call_later(end, finish)

    def _answer(self, connection: PodConnection, seen: Seen) -> None:
        connection.write(self.answer(seen) if callable(self.answer) else self.answer)


class Client(BytesClient):
    """A client; what it waits for comes within ``PATIENCE`` seconds of the loop's time."""

    async def change(self, patience: float = PATIENCE) -> None:
        self._changed.clear()
        async with asyncio.timeout(patience):
            await self._changed.wait()

    async def text(self) -> str:
        """The body of the next answer, which must be a 200."""
        answer = await self.answer()
        assert answer.status == 200, answer
        return answer.body.decode()

    @property
    def waits(self) -> bool:
        """Whether nothing has come so far, and the connection is open."""
        return not self.received and not self.eof


class Autoscaler:
    """The peer of the stat WebSocket.

    Attributes:
        frames: the stats of each frame in order; pods: the names under which they were reported.
        messages: what came as it came; a str is a text frame.
    """

    def __init__(self) -> None:
        self.frames: list[list[Stat]] = []
        self.pods: set[str] = set()
        self.messages: list[bytes | str] = []
        self.connections: list[ServerConnection] = []
        self._changed = asyncio.Event()
        self._server: Server | None = None
        self.port = 0

    async def listen(self) -> None:
        """Take connections, on the same port as before."""
        self._server = await serve(self._take, "127.0.0.1", self.port, ping_interval=None)
        self.port = next(iter(self._server.sockets)).getsockname()[1]

    async def close(self) -> None:
        """End all connections and take no more."""
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()
            self._server = None

    async def told(self, count: int) -> list[list[Stat]]:
        """Wait until there are that many frames, and return them all."""
        async with asyncio.timeout(PATIENCE):
            while len(self.frames) < count:
                self._changed.clear()
                await self._changed.wait()
        return self.frames

    async def connected(self, count: int = 1) -> None:
        """Wait for the connection of that number."""
        async with asyncio.timeout(PATIENCE):
            while len(self.connections) < count:
                self._changed.clear()
                await self._changed.wait()

    async def _take(self, connection: ServerConnection) -> None:
        self.connections.append(connection)
        self._changed.set()
        async for message in connection:
            self.messages.append(message)
            assert isinstance(message, bytes)
            stats, pods = wire.decode(message)
            self.frames.append(stats)
            self.pods |= pods
            self._changed.set()


class World:
    """An activator and all that is around it.

    Attributes:
        folder: where the objects are; pods: everything that was started by ``pod``.
        errors: what a strict parser in a pod, or the loop, has to complain of.
        trusted: whom clients of the port for TLS trust.
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
        # Tests that run at the same time must not share addresses.
        number = next(_networks)
        self._network = f"127.{number // 250 % 100 + 100}.{number % 250}"
        self._port = 0

    # -- the activator --------------------------------------------------------------------------

    async def start(
        self, *, objects: Iterable[Object] = (), autoscaler: bool = False, **flags: str
    ) -> None:
        """Start the activator with these settings beyond those of a test.

        Arguments:
            objects: what is there before it starts.
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
        for name, address in self._servers.describe().items():
            host, _, port = address.rpartition(":")
            self.at[name] = (host, int(port))

    async def close(self) -> None:
        """End everything, and tell what went wrong inside."""
        for client in self.clients:
            client.transport.abort()
        if self._servers is not None:
            await self._servers.stop()
            self._servers = None
        for pod in self.pods:
            await pod.close()
        await self.autoscaler.close()
        await asyncio.sleep(0)
        assert not self.errors, "\n".join(self.errors)

    def _complain(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.errors.append(f"{context.get('message')}: {context.get('exception')!r}")

    # -- Kubernetes -----------------------------------------------------------------------------

    def apply(self, *objects: Object) -> None:
        """Create objects, or replace those of the same name; noticed in the loop's next turns."""
        for found in objects:
            target = self._file(found["kind"], found["metadata"]["name"])
            temporary = target.with_suffix(".tmp")
            temporary.write_text(json.dumps(found))
            temporary.replace(target)

    def delete(self, kind: str, name: str) -> None:
        """Delete an object; believed a moment later."""
        self._file(kind, name).unlink()

    def _file(self, kind: str, name: str) -> Path:
        return self.folder / f"{kind.lower()}.{name}.json"

    # -- pods -----------------------------------------------------------------------------------

    async def pod(self, *script: Reaction, listening: bool = True) -> ScriptedPod:
        """A pod at an address of its own, on the port that all pods share.

        Their addresses are in order as strings, as the activator sorts them.

        Arguments:
            script: what it does with its probes; it passes all of them if nothing is said.
        """
        number = len(self.pods)
        if not self._port:
            self._port = _free_port(self._network)
        at = Address(f"{self._network}.{number + 101}", self._port)
        pod = ScriptedPod(self, f"pod-{number}", at, script)
        self.pods.append(pod)
        if listening:
            await pod.listen()
        return pod

    async def serving(self, count: int, **options: bool) -> list[ScriptedPod]:
        """So many pods that pass their probes; options are attributes of theirs."""
        pods = [await self.pod() for _ in range(count)]
        for pod in pods:
            for name, value in options.items():
                setattr(pod, name, value)
        return pods

    def load(self) -> dict[str, int]:
        """The requests at each pod that has any, by its name."""
        return {pod.name: pod.in_flight for pod in self.pods if pod.in_flight}

    def took(self) -> list[str]:
        """The names of the pods that have requests."""
        return sorted(self.load())

    # -- clients --------------------------------------------------------------------------------

    async def client(self, port: str = "http") -> Client:
        """A connected client."""
        loop = asyncio.get_running_loop()
        tls: dict[str, Any] = {}
        if port == "https":
            tls = {"ssl": self.trusted, "server_hostname": "localhost"}
        _, client = await loop.create_connection(Client, *self.at[port], **tls)
        self.clients.append(client)
        return client

    async def call(self, data: bytes | None = None, port: str = "http") -> Client:
        """A client that has sent a request."""
        client = await self.client(port)
        client.send(to() if data is None else data)
        return client

    async def calls(self, count: int, data: bytes | None = None) -> list[Client]:
        """So many clients that have each sent a request, in order."""
        return [await self.call(data) for _ in range(count)]

    async def ask(
        self, data: bytes | None = None, method: bytes = b"GET", port: str = "http"
    ) -> Answer:
        """One request on a connection of its own, and its answer."""
        client = await self.call(data, port)
        answer = await client.answer(method)
        client.close()
        return answer

    async def outcome(self, clients: list[Client]) -> Counter[str]:
        """What became of requests so far: the bodies of answers, and how many wait."""
        counts: Counter[str] = Counter()
        for client in clients:
            counts["waits" if client.waits else (await client.answer()).body.decode()] += 1
        return counts

    # -- time -----------------------------------------------------------------------------------

    async def passes(self, seconds: float = SOON) -> None:
        """Let that much of the loop's time pass."""
        passed = asyncio.Event()
        asyncio.get_running_loop().call_later(seconds, passed.set)
        await passed.wait()

    async def until(self, condition: Callable[[], object], what: str = "") -> None:
        """Let time pass until something is so."""
        loop = asyncio.get_running_loop()
        end = loop.time() + PATIENCE
        while not condition():
            assert loop.time() < end, f"waited in vain: {what}"
            await self.passes(0.005)

    def now(self) -> float:
        """The loop's time."""
        return asyncio.get_running_loop().time()

    # -- what else can be seen ------------------------------------------------------------------

    async def api(self, name: str = NAME, namespace: str = NAMESPACE) -> Any:
        """What the admin API tells of a revision."""
        request = f"GET /api/v1/revisions/{namespace}/{name} HTTP/1.1\r\nHost: localhost\r\n\r\n"
        return json.loads((await self.ask(request.encode(), port="admin")).body)

    async def metric(self, sample: str, **labels: str) -> dict[tuple[str, ...], float]:
        """The values of a metric that have these labels, by the values of all labels."""
        request = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
        text = (await self.ask(request, port="metrics")).body.decode()
        return {
            tuple(found.labels.values()): found.value
            for family in text_string_to_metric_families(text)
            for found in family.samples
            if found.name == sample and labels.items() <= found.labels.items()
        }


def to(
    name: str = NAME,
    namespace: str = NAMESPACE,
    *,
    method: bytes = b"GET",
    target: bytes = b"/",
    fields: bytes = b"",
    body: bytes = b"",
) -> bytes:
    """A request to a revision, named by the control headers."""
    length = b"Content-Length: %d\r\n" % len(body) if body else b""
    named = f"Knative-Serving-Namespace: {namespace}\r\nKnative-Serving-Revision: {name}\r\n"
    return b"%b %b HTTP/1.1\r\nHost: example.com\r\n%b%b%b\r\n%b" % (
        *(method, target),
        *(named.encode(), length, fields, body),
    )


def without_date(raw: bytes | bytearray) -> bytes:
    """An answer as it came, less its Date."""
    return re.sub(rb"\r\nDate: [^\r]*", b"", bytes(raw))


def _free_port(network: str) -> int:
    with socket.create_server((f"{network}.250", 0)) as taken:
        port: int = taken.getsockname()[1]
        return port
