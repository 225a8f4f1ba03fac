"""A client and a pod that speak HTTP/2 by the library h2, around the world's proxy."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import h2.settings

from activator.knative.words import QUEUE_PROXY
from tests.activator.proxy.world import NAME, NAMESPACE, World, until
from throttler.model import AppProtocol, Endpoint, ListedEndpoints, Revision, RevisionID

Headers = list[tuple[bytes, bytes]]
#: These fields name the revision.
TO_REVISION: Headers = [
    (b"knative-serving-namespace", NAMESPACE.encode()),
    (b"knative-serving-revision", NAME.encode()),
]


@dataclass
class Message:
    """One side of one stream, as its receiver saw it."""

    headers: Headers = field(default_factory=list)
    body: bytes = b""
    trailers: Headers = field(default_factory=list)
    interim: list[Headers] = field(default_factory=list)
    ended: bool = False
    reset: int | None = None

    def all(self, name: bytes) -> list[bytes]:
        """The values of a field."""
        return [value for key, value in self.headers if key == name]

    @property
    def status(self) -> int:
        return int(self.all(b":status")[0])

    @property
    def over(self) -> bool:
        return self.ended or self.reset is not None


class Peer(asyncio.Protocol):
    """One end of a connection.

    Attributes:
        messages: the received messages, by stream; reads: whether received bytes are acknowledged.
        goaway: the last stream and the code of a GOAWAY; lost: the connection is closed.
        greeting: frames that it sends after its SETTINGS, without effect on it; None to close.
        padding: bytes of padding in each DATA frame, which then has as many bytes of payload.

    Arguments:
        window, streams: of its SETTINGS.
        late: seconds until it sends anything, unless it receives a header section before.
    """

    def __init__(
        self, *, client: bool, window: int = 65535, streams: int = 1000, late: float = 0.0
    ) -> None:
        self.h2 = h2.connection.H2Connection(
            h2.config.H2Configuration(
                client_side=client,
                header_encoding=None,
                # The tests' peers must be able to send the frames that the proxy must survive.
                validate_outbound_headers=False,
                normalize_outbound_headers=False,
            )
        )
        self.h2.local_settings = h2.settings.Settings(
            client=client,
            initial_values={
                h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: window,
                h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS: streams,
            },
        )
        self.messages: dict[int, Message] = {}
        self.reads = True
        self.goaway: tuple[int | None, int | None] | None = None
        self.lost = False
        self.late = late
        self.greeting: bytes | None = b""
        self.padding = 0
        self.unsent: dict[int, tuple[bytes, bool]] = {}
        self.on_message: Callable[[Peer, int, Message], None] = lambda *_: None

    transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        if self.greeting is None:
            self.transport.close()
            return
        self.h2.initiate_connection()
        if self.late:
            asyncio.get_running_loop().call_later(self.late, self._speak)
        self.flush()
        self.transport.write(self.greeting)

    def data_received(self, data: bytes) -> None:
        # Frames that cross the proxy's RST_STREAM count for no stream.
        with contextlib.suppress(h2.exceptions.StreamClosedError):
            for event in self.h2.receive_data(data):
                self._take(event)
        self.flush()

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True

    def _speak(self) -> None:
        self.late = 0.0
        self.flush()

    def flush(self) -> None:
        if not self.late and not self.transport.is_closing():
            self.transport.write(self.h2.data_to_send())

    def _take(self, event: Any) -> None:
        if isinstance(event, h2.events.ConnectionTerminated):
            self.goaway = (event.last_stream_id, event.error_code)
        stream = getattr(event, "stream_id", None)
        if not stream:
            if isinstance(event, h2.events.WindowUpdated):
                self._send_rest()
            return
        message = self.messages.setdefault(stream, Message())
        if isinstance(event, h2.events.RequestReceived | h2.events.ResponseReceived):
            message.headers = list(event.headers)
        elif isinstance(event, h2.events.InformationalResponseReceived):
            message.interim.append(list(event.headers))
        elif isinstance(event, h2.events.DataReceived):
            message.body += event.data
            if self.reads:
                self.h2.acknowledge_received_data(event.flow_controlled_length, stream)
        elif isinstance(event, h2.events.TrailersReceived):
            message.trailers = list(event.headers)
        elif isinstance(event, h2.events.StreamEnded):
            message.ended = True
        elif isinstance(event, h2.events.StreamReset):
            message.reset = int(event.error_code)
        elif isinstance(event, h2.events.WindowUpdated):
            self._send_rest()
            return
        else:
            return
        self.on_message(self, stream, message)

    def headers(self, stream: int, headers: Headers, *, end: bool = False) -> None:
        """Send a header section."""
        self.h2.send_headers(stream, headers, end_stream=end)
        self._speak()

    def data(self, stream: int, data: bytes, *, end: bool = False) -> None:
        """Send payload as windows allow."""
        before, _ = self.unsent.get(stream, (b"", False))
        self.unsent[stream] = (before + data, end)
        self._send_rest()
        self.flush()

    def _send_rest(self) -> None:
        for stream, (data, end) in list(self.unsent.items()):
            while data:
                try:
                    room = self.h2.local_flow_control_window(stream)
                except h2.exceptions.ProtocolError:
                    data, end = b"", False
                    break
                room = min(room, self.h2.max_outbound_frame_size)
                if self.padding:
                    room = min(room - self.padding - 1, self.padding)
                room = min(room, len(data))
                if room <= 0:
                    break
                self.h2.send_data(stream, data[:room], pad_length=self.padding or None)
                data = data[room:]
            if data:
                self.unsent[stream] = (data, end)
                continue
            del self.unsent[stream]
            if end:
                self.h2.end_stream(stream)

    def ask(
        self,
        path: bytes = b"/",
        method: bytes = b"GET",
        *more: tuple[bytes, bytes],
        end: bool = True,
    ) -> int:
        """Begin a request; return its stream."""
        stream = self.h2.get_next_available_stream_id()
        head = [(b":method", method), (b":scheme", b"http"), (b":path", path)]
        self.headers(stream, [*head, (b":authority", b"example.com"), *TO_REVISION, *more], end=end)
        return stream

    async def answer(self, stream: int) -> Message:
        """Wait until a response is complete."""
        await until(lambda: stream in self.messages and self.messages[stream].over, f"{stream}")
        return self.messages[stream]


def answer_hello(peer: Peer, stream: int, message: Message) -> None:
    """Respond as pods do by default."""
    if message.ended and message.reset is None:
        peer.headers(stream, [(b":status", b"200"), (b"content-length", b"5")])
        peer.data(stream, b"hello", end=True)


def echo(peer: Peer, stream: int, message: Message) -> None:
    """Have a pod send the body as its response, when it is whole."""
    if message.ended:
        peer.headers(stream, [(b":status", b"200")])
        peer.data(stream, message.body, end=True)


class Http2Pod:
    """A scripted pod.

    Attributes:
        on_message: what it does with each event of a stream.
        settings: arguments of each Peer; greeting: of each Peer.
    """

    def __init__(self) -> None:
        self.on_message: Callable[[Peer, int, Message], None] = answer_hello
        self.settings: dict[str, Any] = {}
        self.greeting: bytes | None = b""
        self.connections: list[Peer] = []
        self.port = 0

    def accept(self) -> Peer:
        peer = Peer(client=False, **self.settings)
        peer.greeting = self.greeting
        peer.on_message = lambda *about: self.on_message(*about)
        self.connections.append(peer)
        return peer

    async def listen(self) -> None:
        loop = asyncio.get_running_loop()
        self.server = await loop.create_server(self.accept, "127.0.0.1", self.port)
        self.port = self.server.sockets[0].getsockname()[1]

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(f"127.0.0.1:{self.port}", f"uid-{self.port}")

    @property
    def requests(self) -> list[Message]:
        return [m for peer in self.connections for m in peer.messages.values()]

    def close(self) -> None:
        self.server.close()
        for peer in self.connections:
            if hasattr(peer, "transport"):
                peer.transport.abort()


class Http2World:
    """The world with a revision whose pods speak HTTP/2."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.pods: list[Http2Pod] = []
        world.healthy = lambda _: True

    async def pod(self) -> Http2Pod:
        """A pod that listens."""
        pod = Http2Pod()
        await pod.listen()
        self.pods.append(pod)
        return pod

    def list(self, *pods: Http2Pod, **spec: Any) -> None:
        """Set the revision and its ready pods."""
        revision = RevisionID(NAMESPACE, NAME)
        h2c = Revision(revision, protocol=AppProtocol.H2C, probe=QUEUE_PROXY, **spec)
        self.world.driver.set_revision(h2c)
        endpoints = ListedEndpoints(frozenset(pod.endpoint for pod in pods))
        self.world.driver.set_endpoints(revision, {AppProtocol.H2C: endpoints})

    async def serving(self, **spec: Any) -> Http2Pod:
        """A revision with one healthy pod."""
        pod = await self.pod()
        self.list(pod, **spec)
        await until(lambda: self.world.revision().statistics().healthy == 1)
        return pod

    async def client(self, **settings: Any) -> Peer:
        """A connected client."""
        loop = asyncio.get_running_loop()
        peer = Peer(client=True, **settings)
        await loop.create_connection(lambda: peer, "127.0.0.1", self.world.port)
        self.world.clients.append(peer)  # type: ignore[arg-type] # it has a transport
        return peer

    def close(self) -> None:
        for pod in self.pods:
            pod.close()
