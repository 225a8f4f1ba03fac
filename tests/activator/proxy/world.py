"""A proxy on a loopback port between scripted clients and scripted pods; it records all three.

Everything runs in the test's loop, also in virtual time. ``until`` lets callbacks run at the same
time; a wait for received bytes lets time pass where nothing else happens.
"""

from __future__ import annotations

import asyncio
import os
import socket
import struct
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import h11
import pytest
from h11._state import MIGHT_SWITCH_PROTOCOL

from activator.autoscaler.concurrency import ConcurrencyReporter, RevisionLoad
from activator.driver import Driver
from activator.knative.words import QUEUE_PROXY
from activator.plain.route_table import RouteTable
from activator.process.timers import Tasks
from activator.proxy.client.connection import MAX_SECONDS
from activator.proxy.client.http1 import Http1ClientConnection
from activator.proxy.client.proxy import Proxy
from activator.proxy.exchange.services import ProxyServices
from activator.proxy.message.request import RequestLimits
from activator.proxy.pods.pool import ConnectionPools, PoolLimits
from activator.proxy.transport.peer_socket import UnreadBytes
from activator.records.entries import Entries
from tests.ports import hold, port_of
from tests.rows import naming
from throttler.model import (
    NO_TIMEOUT,
    AppProtocol,
    Endpoint,
    ListedEndpoints,
    Policies,
    ReadinessRule,
    Revision,
    RevisionID,
    RevisionKind,
    ServiceRoute,
)
from throttler.pod import PodTracker
from throttler.request_policies import InterceptorRules, RequestPolicies, RouteRule
from throttler.revision import RevisionThrottler
from throttler.throttler import Limits, Throttler

if TYPE_CHECKING:
    from tests.activator.proxy.http2.peers import Http2Pod

#: Seconds of real time after which something that should happen will not happen any more.
PATIENCE = 45.0
_MAX_HEAD = 8 << 20

#: Limit of the unread bytes in a socket's kernel buffer; the default is up to 32 MiB.
_RECEIVE_BUFFER = 256 << 10
NAME = "rev"
NAMESPACE = "ns"
#: The fields that name the revision, as a client's request has them.
TO_REVISION = b"Knative-Serving-Namespace: ns\r\nKnative-Serving-Revision: rev\r\n"


def _socket() -> socket.socket:
    # asyncio turns Nagle's algorithm off only where the protocol number is given.
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)
    return sock


async def turns(count: int = 5) -> None:
    """Let what is ready happen; time stands still."""
    for _ in range(count):
        await asyncio.sleep(0)


async def until(condition: Callable[[], object], what: str = "") -> None:
    """Let things happen until the condition holds; virtual time stands still."""
    give_up = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > give_up:
            raise AssertionError(f"waited in vain: {what or condition}")
        await asyncio.sleep(0)


class _AtLeast:
    """Equal to each number from a bound on."""

    def __init__(self, bound: float) -> None:
        self._bound = bound

    def __eq__(self, other: object) -> bool:
        return isinstance(other, float) and other >= self._bound

    def __repr__(self) -> str:
        return f"at least {self._bound}"


def about(seconds: float, within: float) -> object:
    """Return what equals about so many seconds of the loop's time.

    In real time any longer time is equal too: a busy machine may be late by any time.

    Arguments:
        within: seconds by which it may differ.
    """
    if hasattr(asyncio.get_running_loop(), "virtual_now"):
        return pytest.approx(seconds, abs=within)
    return _AtLeast(seconds - within)


def request(
    target: bytes = b"/", method: bytes = b"GET", fields: bytes = b"", body: bytes = b""
) -> bytes:
    """Return a request for the revision; ``fields`` are whole lines with their CRLF."""
    length = b"Content-Length: %d\r\n" % len(body) if body else b""
    return b"%b %b HTTP/1.1\r\nHost: example.com\r\n%b%b%b\r\n%b" % (
        *(method, target),
        *(TO_REVISION, length, fields, body),
    )


def ok(body: bytes = b"hello", fields: bytes = b"") -> bytes:
    """Return a pod's response."""
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n%b\r\n%b" % (len(body), fields, body)


@dataclass
class Seen:
    """A request as a pod saw it."""

    method: bytes
    target: bytes
    version: bytes
    headers: list[tuple[bytes, bytes]]
    content: bytearray = field(default_factory=bytearray)
    trailers: list[tuple[bytes, bytes]] = field(default_factory=list)
    whole: bool = False

    @property
    def body(self) -> bytes:
        """Return the part of the body that has come."""
        return bytes(self.content)

    def all(self, name: bytes) -> list[bytes]:
        """The values of a field."""
        return [value for key, value in self.headers if key.lower() == name.lower()]


def protocol(proxy: Proxy) -> asyncio.Protocol:
    """Return a client's connection; it has the methods of a protocol, not its type."""
    return cast(asyncio.Protocol, Http1ClientConnection(proxy))


class PodConnection(asyncio.Protocol):
    """A connection as its pod sees it. A strict parser (h11) must accept its bytes as HTTP/1.1."""

    def __init__(self, pod: Pod) -> None:
        self.pod = pod
        self.received = bytearray()
        self.closed = False
        self.eof = False
        self.answered = 0
        self.raw = False  # the bytes are HTTP no longer
        self.requests: list[Seen] = []
        self._parser = _server_parser()

    transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.pod.connections.append(self)
        self.pod.on_connect(self)

    def data_received(self, data: bytes) -> None:
        self.received += data
        if not self.raw:
            if self._parser.their_state is MIGHT_SWITCH_PROTOCOL:
                self._parser = _server_parser()  # it has not been switched
            self._parse(data)
        self.pod.on_data(self)

    def eof_received(self) -> bool:
        self.eof = True
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True

    def write(self, data: bytes) -> None:
        """Send bytes; a timer may call this after the connection has ended."""
        if not self.transport.is_closing():
            self.transport.write(data)

    def close(self) -> None:
        self.transport.close()

    def reset(self) -> None:
        """Close with RST, unless the connection has ended already."""
        if self.transport.is_closing():
            return
        sock = self.transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    def end_behind_the_loop(self) -> None:
        """End the connection in the kernel; no callback has run yet."""
        if self.transport.is_closing():
            return
        fd = os.dup(self.transport.get_extra_info("socket").fileno())
        with socket.socket(fileno=fd) as sock:
            sock.shutdown(socket.SHUT_RDWR)

    def widen(self) -> None:
        """Have a usual receive buffer again."""
        sock = self.transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)

    def _parse(self, data: bytes) -> None:
        try:
            self._parser.receive_data(data)
            while (event := self._parser.next_event()) is not h11.NEED_DATA:
                if event is h11.PAUSED:
                    rest = self._parser.trailing_data[0]
                    if self._parser.their_state is MIGHT_SWITCH_PROTOCOL:
                        return
                    self._parser = _server_parser()
                    if not rest:
                        return
                    self._parser.receive_data(rest)
                else:
                    self._take(event)
                    if isinstance(event, h11.EndOfMessage) and not self._parser.trailing_data[0]:
                        if self._parser.their_state is not MIGHT_SWITCH_PROTOCOL:
                            self._parser = _server_parser()
                        return
        except h11.RemoteProtocolError as error:
            self.pod.world.errors.append(f"a pod got {self.received[:2000]!r}: {error}")

    def _take(self, event: Any) -> None:
        if isinstance(event, h11.Request):
            seen = Seen(
                *(bytes(event.method), bytes(event.target), bytes(event.http_version)),
                [(bytes(k), bytes(v)) for k, v in event.headers.raw_items()],
            )
            self.requests.append(seen)
            self.pod.requests.append(seen)
        elif isinstance(event, h11.Data):
            self.requests[-1].content += event.data
        elif isinstance(event, h11.EndOfMessage):
            self.requests[-1].trailers = [(bytes(k), bytes(v)) for k, v in event.headers]
            self.requests[-1].whole = True


def _server_parser() -> h11.Connection:
    return h11.Connection(h11.SERVER, max_incomplete_event_size=_MAX_HEAD)


def send_pieces(connection: PodConnection, data: bytes, size: int) -> None:
    """Write pieces one by one, as the loop turns."""
    loop = asyncio.get_running_loop()

    def send(at: int) -> None:
        if at < len(data) and not connection.transport.is_closing():
            connection.write(data[at : at + size])
            loop.call_soon(loop.call_soon, send, at + size)

    send(0)


def answer_whole(connection: PodConnection) -> None:
    """Respond to each complete request, as pods do by default."""
    while connection.answered < len(connection.requests):
        seen = connection.requests[connection.answered]
        if not seen.whole:
            return
        connection.answered += 1
        answer = connection.pod.answer
        connection.write(answer(seen) if callable(answer) else answer)


def _nothing(_connection: PodConnection) -> None:
    pass


class Pod:
    """A scripted pod.

    Attributes:
        ``answer``: the response to each whole request, or the function that makes it.
        on_connect, on_data: called with the connection instead of the default.
        requests, connections: all that it saw.
    """

    def __init__(self, world: World, address: str = "127.0.0.1", receive_buffer: int = 0) -> None:
        self.world = world
        self.host = address
        self.port = 0
        self._receive_buffer = receive_buffer
        self.answer: bytes | Callable[[Seen], bytes] = ok()
        self.on_connect: Callable[[PodConnection], None] = _nothing
        self.on_data: Callable[[PodConnection], None] = answer_whole
        self.requests: list[Seen] = []
        self.connections: list[PodConnection] = []
        self.hole = False  # a SYN gets no response
        self._server: asyncio.Server | None = None
        self._place: socket.socket | None = None  # keeps the port after ``refuse``

    async def listen(self) -> None:
        """Accept connections."""
        loop = asyncio.get_running_loop()
        if self.port == 0:
            self._place = hold(self.host)
            self.port = port_of(self._place)
        sock = _socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if self._receive_buffer:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._receive_buffer)
        sock.bind((self.host, self.port))
        self._server = await loop.create_server(lambda: PodConnection(self), sock=sock)

    async def refuse(self) -> None:
        """Close the listener: the kernel refuses connections."""
        if self._server is not None:
            self._server.close()
            self._server = None
            await turns()

    @property
    def listening(self) -> bool:
        return self._server is not None

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(f"{self.host}:{self.port}", f"uid-{self.port}")

    @property
    def open(self) -> list[PodConnection]:
        """Return the connections that are not closed."""
        return [c for c in self.connections if not c.closed]

    async def close(self) -> None:
        await self.refuse()
        if self._place is not None:
            self._place.close()
        for connection in self.connections:
            connection.transport.abort()


@dataclass
class Answer:
    """A response as a strict client (h11) sees it."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes = b""
    trailers: list[tuple[bytes, bytes]] = field(default_factory=list)
    interim: list[int] = field(default_factory=list)

    def get(self, name: bytes) -> bytes | None:
        """Return the value of a field, None if it is absent."""
        values = [value for key, value in self.headers if key.lower() == name.lower()]
        assert len(values) < 2, f"{name!r} is there {len(values)} times"
        return values[0] if values else None


class _ResponseReader:
    """Parses one response.

    Attributes:
        response: the response so far; whole: whether it has ended; behind: the bytes behind it.
    """

    def __init__(self, method: bytes) -> None:
        self._parser = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MAX_HEAD)
        self._parser.send(h11.Request(method=method, target="/", headers=[("Host", "x")]))
        self._parser.send(h11.EndOfMessage())
        self._interim: list[int] = []
        self.response: Answer | None = None
        self.whole = False
        self.behind = b""

    def read(self, data: bytes, *, ended: bool) -> None:
        """Parse more bytes; ``ended`` if the connection has none behind them."""
        parser = self._parser
        if data:
            parser.receive_data(data)
        if ended:
            parser.receive_data(b"")
        while (event := parser.next_event()) not in (h11.NEED_DATA, h11.PAUSED):
            if isinstance(event, h11.InformationalResponse):
                self._interim.append(event.status_code)
            elif isinstance(event, h11.Response):
                headers = [(bytes(k), bytes(v)) for k, v in event.headers]
                self.response = Answer(event.status_code, headers, interim=self._interim)
            elif isinstance(event, h11.Data):
                assert self.response is not None
                self.response.body += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                assert self.response is not None
                self.response.trailers = [(bytes(k), bytes(v)) for k, v in event.headers]
                self.whole, self.behind = True, parser.trailing_data[0]
                return
            else:
                raise AssertionError(f"unexpected {event!r} behind {self.response!r}")


class Client(asyncio.Protocol):
    """A client that sends bytes and splits responses.

    Attributes:
        received: all bytes; unread: bytes that no response has used yet.
        eof: the proxy has ended its side; reset: the connection broke.
    """

    def __init__(self) -> None:
        self.received = bytearray()
        self.unread = bytearray()
        self.eof = False
        self.lost = False
        self.reset = False
        self._changed = asyncio.Event()

    transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        sock = transport.get_extra_info("socket")
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def data_received(self, data: bytes) -> None:
        self.received += data
        self.unread += data
        self._changed.set()

    def eof_received(self) -> bool:
        self.eof = True
        self._changed.set()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = self.eof = True
        self.reset = exc is not None
        self._changed.set()

    def send(self, data: bytes) -> None:
        self.transport.write(data)

    async def drip(self, data: bytes, size: int = 1) -> None:
        """Send in pieces of ``size`` bytes, each read before the next is sent."""
        for at in range(0, len(data), size):
            if self.transport.is_closing() or self.eof:
                return
            self.transport.write(data[at : at + size])
            await turns(3)

    async def change(self, patience: float = PATIENCE) -> None:
        """Wait until bytes arrive; in virtual time this lets time pass."""
        self._changed.clear()
        loop = asyncio.get_running_loop()
        # In virtual time: longer than any deadline of the proxy, and over at once.
        virtual = hasattr(loop, "virtual_now")
        async with asyncio.timeout(1e6 if virtual else patience):
            await self._changed.wait()

    async def answer(self, method: bytes = b"GET") -> Answer:
        """Wait for the next final response to a request of this method."""
        reader = _ResponseReader(method)
        read = 0
        while True:
            if self.unread:  # each byte is parsed once: a body may arrive in thousands of pieces
                reader.read(bytes(self.unread[read:]), ended=self.eof)
                read = len(self.unread)
            if reader.whole:
                self.unread = bytearray(reader.behind)
                assert reader.response is not None
                return reader.response
            if self.eof:
                raise AssertionError(f"no whole answer, but {self.unread[:2000]!r} and the end")
            await self.change()

    async def take(self, count: int) -> bytes:
        """Wait until this many bytes have arrived, and take them."""
        while len(self.unread) < count:
            assert not self.eof, f"only {self.unread!r} before the end"
            await self.change()
        data, self.unread = self.unread[:count], self.unread[count:]
        return bytes(data)

    async def size(self, count: int) -> None:
        """Wait until this many bytes have arrived in all."""
        while len(self.received) < count:
            assert not self.eof, f"only {len(self.received)} bytes before the end"
            await self.change()

    async def ended(self) -> None:
        """Wait until the proxy has ended its side."""
        while not self.eof:
            await self.change()

    async def ended_or_answered(self) -> None:
        """Wait until a part of a response has arrived, or the end."""
        while not self.received and not self.eof:
            await self.change()

    def widen(self) -> None:
        """Have a usual receive buffer again: the kernel waits now and then with a small one."""
        sock = self.transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)

    def end_sending(self) -> None:
        """Half-close."""
        self.transport.write_eof()

    def close(self) -> None:
        self.transport.close()

    def abort(self) -> None:
        """Close with RST."""
        sock = self.transport.get_extra_info("socket")
        if sock is not None and sock.fileno() >= 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()


class _Load:
    """A revision's requests: now, and ever.

    Attributes:
        own: the load, which the driver gets.
        on_first: called for the first request, and for the next one after ``calm``.
    """

    def __init__(self, revision: RevisionID) -> None:
        self._reporter = ConcurrencyReporter(self._on_first)
        self._reported = 0
        self.own = self._reporter.load(revision)
        self.on_first: Callable[[], object] = lambda: None

    @property
    def now(self) -> int:
        return self.own.in_flight

    @property
    def ever(self) -> int:
        stats = self._reporter.report(asyncio.get_running_loop().time())
        self._reported += sum(stat.request_count for stat in stats)
        return self._reported

    def calm(self) -> None:
        """Let two periods without requests pass."""
        assert self.ever == self.ever

    def _on_first(self, _: RevisionID) -> None:
        self._reported += 1
        self.on_first()


class _Prober:
    """A prober whose pods pass at once, or when they may, where the world's ``healthy`` says so."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.hurried = 0

    def probe(self, pod: PodTracker) -> None:
        self._verdict(pod, pod.epoch, asyncio.get_running_loop())

    def _verdict(self, pod: PodTracker, epoch: int, loop: asyncio.AbstractEventLoop) -> None:
        if loop.time() < pod.ejection.until:  # a loop's timers may be early
            loop.call_at(pod.ejection.until + 0.001, self._verdict, pod, epoch, loop)
        else:
            loop.call_soon(self._pass, pod, epoch)

    def _pass(self, pod: PodTracker, epoch: int) -> None:
        if self._world.healthy(pod):
            self._world.driver.probe_passed(pod, epoch)

    def hurry(self, revision: RevisionThrottler) -> None:
        self.hurried += 1

    def forget(self, pod: PodTracker) -> None:
        pass


class World:
    """A proxy, its pods and its clients. The exit checks that no error occurred inside.

    Attributes:
        healthy: whether a pod passes its probe.
        errors: exceptions in the loop, and requests that no strict parser accepts.
        expect_idle: whether all counts have to be back at zero in the end.
    """

    def __init__(self) -> None:
        self.errors: list[str] = []
        self.expect_idle = True
        self.healthy: Callable[[PodTracker], bool] = self._is_healthy
        self.loads: dict[RevisionID, _Load] = {}
        self.pods: list[Pod] = []
        self.clients: list[Client] = []
        self.not_ready = ""

    async def start(
        self,
        *,
        limits: RequestLimits | None = None,
        queue: Limits | None = None,
        pool: PoolLimits | None = None,
        hold_bytes: int = 64 << 10,
        header_timeout: float = 60.0,
        unfinished_header_bytes: int = 32 << 20,
        unread_bytes: int = 128 << 20,
        idle_from_arrival: bool = False,
        knative: bool = True,
        keda: bool = False,
    ) -> None:
        """Listen."""
        loop = self.loop = asyncio.get_running_loop()
        self._started = loop.time()
        self.tasks = Tasks()
        throttler = Throttler(queue or Limits(), lambda: 0.0)
        unknown = RevisionKind.REVISION if knative else RevisionKind.SERVICE
        if keda:
            unknown = RevisionKind.HTTP_ROUTE
        entries = Entries(throttler, self._load, table=RouteTable(), unknown=unknown)
        self.driver = Driver(throttler, entries, clock=loop.time)
        self.driver.prober = self.prober = _Prober(self)
        unread = UnreadBytes(unread_bytes)
        self.pools = ConnectionPools(pool or PoolLimits(), self._start_task, loop.time, unread)
        self.driver.pools = self.pools
        services = ProxyServices(
            *(self.driver, self.pools), hold_bytes=hold_bytes, idle_from_arrival=idle_from_arrival
        )
        if keda:
            services.health = lambda: self.not_ready
        self.proxy = Proxy(
            services,
            request_limits=limits or RequestLimits(),
            header_timeout=header_timeout,
            unfinished_header_bytes=unfinished_header_bytes,
            unhealthy=lambda: self.not_ready,
        )
        sock = _socket()
        sock.bind(("127.0.0.1", 0))
        self.server = await loop.create_server(lambda: protocol(self.proxy), sock=sock)
        self.port = self.server.sockets[0].getsockname()[1]
        self._handler = loop.get_exception_handler()
        loop.set_exception_handler(self._on_loop_exception)

    def _is_healthy(self, tracker: PodTracker) -> bool:
        """Pods that listen pass; a black hole passes once, or it would never get a request."""
        (pod,) = (pod for pod in self.pods if pod.endpoint == tracker.endpoint)
        return pod.listening or (pod.hole and not tracker.probe.failures)

    def _start_task(self, coroutine: Coroutine[Any, Any, None]) -> object:
        return self.tasks.start(coroutine)

    def _load(self, revision: RevisionID) -> RevisionLoad:
        return self.loads.setdefault(revision, _Load(revision)).own

    def _on_loop_exception(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.errors.append(f"{context.get('message')}: {context.get('exception')!r}")

    async def pod(self, address: str = "127.0.0.1", receive_buffer: int = 0) -> Pod:
        """A pod that listens and that no revision lists yet."""
        pod = Pod(self, address, receive_buffer)
        await pod.listen()
        self.pods.append(pod)
        return pod

    async def unreachable(self) -> Pod:
        """Return a pod that never completes a handshake: its backlog is full."""
        pod = Pod(self, "127.0.0.77")
        pod.hole = True
        sock = _socket()
        sock.bind((pod.host, 0))
        sock.listen(0)
        pod.port = sock.getsockname()[1]
        self._sockets = [sock]
        for _ in range(3):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex((pod.host, pod.port))
            self._sockets.append(filler)
        self.pods.append(pod)
        return pod

    _sockets: list[socket.socket] = []  # noqa: RUF012 # none in most worlds

    def now(self) -> float:
        """The loop's time, virtual or not."""
        return asyncio.get_running_loop().time()

    def now_since_start(self) -> float:
        """Seconds since the proxy listens."""
        return self.now() - self._started

    async def clock_moves(self, seconds: float) -> None:
        """Let that much time pass, virtual or not."""
        passed = asyncio.Event()
        asyncio.get_running_loop().call_later(seconds, passed.set)
        await passed.wait()

    async def in_time(self, condition: Callable[[], object], what: str = "") -> None:
        """Let time pass, virtual or not, until the condition holds."""
        give_up = time.monotonic() + PATIENCE
        looks = 0
        while not condition():
            assert time.monotonic() < give_up, f"waited in vain: {what or condition}"
            looks += 1
            await self.clock_moves(0.01 if looks < 100 else 0.05)

    def revise(self, *pods: Pod, name: str = NAME, **spec: Any) -> None:
        """Set a revision and its ready pods."""
        revision = RevisionID(NAMESPACE, name)
        self.driver.set_revision(Revision(revision, probe=QUEUE_PROXY, **spec))
        self.list(*pods, name=name)

    def serve(
        self,
        *pods: Pod | Http2Pod,
        name: str = NAME,
        hosts: Iterable[str] = (),
        protocol: AppProtocol = AppProtocol.HTTP1,
        **spec: Any,
    ) -> RevisionThrottler:
        """Set a plain Service, its hosts and its ready pods; return its throttler."""
        service = RevisionID(NAMESPACE, name, RevisionKind.SERVICE)
        listed = ListedEndpoints(frozenset(pod.endpoint for pod in pods))
        self.driver.set_revision(
            Revision(service, protocol=protocol, behind_queue_proxy=False, **spec)
        )
        rules = (RouteRule(names),) if (names := tuple(hosts)) else ()
        self.driver.set_route(service, ServiceRoute("2026-01-01", rules))
        self.driver.set_endpoints(service, {protocol: listed})
        return self.driver.throttler.find(*service)

    def route(
        self,
        *pods: Pod | Http2Pod,
        rules: InterceptorRules,
        readiness: float = NO_TIMEOUT,
        kind: RevisionKind = RevisionKind.HTTP_ROUTE,
        protocol: AppProtocol = AppProtocol.HTTP1,
        timeout: float = 300.0,
    ) -> RevisionThrottler:
        """Set an object of the KEDA HTTP add-on, or its fallback; the host is ``shop``."""
        id_ = RevisionID(NAMESPACE, NAME, kind)
        requests = RequestPolicies(wait_seconds=readiness, interceptor=rules)
        self.driver.set_revision(
            Revision(
                id_,
                protocol=protocol,
                timeout=timeout,
                readiness=ReadinessRule.KUBERNETES_POLICY,
                policies=Policies(requests=requests),
                behind_queue_proxy=False,
            )
        )
        if kind is RevisionKind.HTTP_ROUTE:
            self.driver.set_route(id_, ServiceRoute("2026-01-01", (RouteRule(("shop",)),)))
        listed = ListedEndpoints(frozenset(pod.endpoint for pod in pods))
        self.driver.set_endpoints(id_, {protocol: listed})
        return self.driver.throttler.find(*id_)

    def list(self, *pods: Pod, name: str = NAME) -> None:
        """List these pods as ready."""
        endpoints = ListedEndpoints(frozenset(pod.endpoint for pod in pods))
        self.driver.set_endpoints(RevisionID(NAMESPACE, name), {AppProtocol.HTTP1: endpoints})

    async def serving(self, *, answer: bytes | None = None, **spec: Any) -> Pod:
        """A revision with one pod that is healthy."""
        pod = await self.pod()
        if answer is not None:
            pod.answer = answer
        self.revise(pod, **spec)
        await until(lambda: self.revision().statistics().healthy == 1)
        return pod

    async def client(self, receive_buffer: int = 0) -> Client:
        """A connected client; with a small receive buffer in its kernel, if one is given."""
        loop = asyncio.get_running_loop()
        sock = _socket()
        if receive_buffer:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        sock.setblocking(False)
        await loop.sock_connect(sock, ("127.0.0.1", self.port))
        _, client = await loop.create_connection(Client, sock=sock)
        self.clients.append(client)
        return client

    async def ask(self, data: bytes | None = None, method: bytes = b"GET") -> Answer:
        """Send one request on a new connection; return its response."""
        client = await self.client()
        client.send(data or request(method=method))
        answer = await client.answer(method)
        client.close()
        return answer

    def revision(self, name: str = NAME) -> RevisionThrottler:
        """The throttler of a revision."""
        return self.driver.throttler.find(NAMESPACE, name)

    @property
    def waiting(self) -> int:
        return self.revision().queued.waiting

    @property
    def in_flight(self) -> int:
        return self.revision().slots.in_flight

    def counters(self) -> Any:
        """Return the counters of the revision."""
        return self.driver.entries.find(NAMESPACE.encode(), NAME.encode()).counters

    def failures(self) -> Any:
        """Return the recorded failures of the revision's requests."""
        return self.driver.entries.find(NAMESPACE.encode(), NAME.encode()).failures

    @property
    def busy(self) -> dict[str, int]:
        """Return the counts that are not zero."""
        counts = {"loads": sum(load.now for load in self.loads.values())}
        for throttler in self.driver.throttler:
            counts["waiting"] = counts.get("waiting", 0) + throttler.queued.waiting
            counts["bytes"] = counts.get("bytes", 0) + throttler.queued.own.bytes
            counts["in flight"] = counts.get("in flight", 0) + throttler.slots.in_flight
            for pod in throttler.backends.pods.values():
                counts[pod.address] = pod.in_flight
        counts["in all"] = self.driver.throttler.total.depth + self.driver.throttler.total.bytes
        counts["heads"] = self.proxy.head_budget.bytes
        counts["unread"] = self.proxy.unread.bytes
        return {key: count for key, count in counts.items() if count}

    async def idle(self) -> None:
        """Wait until no request is queued or in flight."""
        await until(lambda: not self.busy, f"{self.busy}")

    async def close(self) -> None:
        """End everything; return the errors."""
        for client in self.clients:
            if not client.lost:  # asyncio before 3.11.4 raises for a closed TLS transport
                client.transport.abort()
        if self.expect_idle and not self.errors:
            await self._collect(lambda: not self.busy, "counts that are not zero")
            await self.let_linger()
            await self._collect(lambda: not self.proxy.connections, "clients' connections are left")
        await self.tear_down()
        assert not self.errors, "\n".join(self.errors)

    async def let_linger(self) -> None:
        """Let time pass until no client's connection is left, as long as one may linger at most."""
        await turns(20)
        give_up = self.now() + MAX_SECONDS
        while self.proxy.connections and self.now() <= give_up:
            await self.clock_moves(0.02)

    async def _collect(self, condition: Callable[[], object], problem: str) -> None:
        try:
            await until(condition)
        except AssertionError:
            self.errors.append(f"{problem}: {self.busy}")

    async def tear_down(self) -> None:
        """End everything, whatever state it is in."""
        self.server.close()
        for downstream in list(self.proxy.connections):
            transport = getattr(downstream, "transport", None)
            downstream.force_end() if transport is None else transport.abort()
        self.pools.close()
        for pod in self.pods:
            await pod.close()
        for sock in self._sockets:
            sock.close()
        await self.proxy.arrivals.close()
        await self.tasks.close()
        await turns(20)
        await self._collect(
            lambda: not self.pools.resources.connections, "connections to pods are left"
        )
        self.proxy.timers.close()
        self.driver.close()
        asyncio.get_running_loop().set_exception_handler(self._handler)


@asynccontextmanager
async def own_world(*row: object, **settings: Any) -> AsyncIterator[World]:
    """Start a proxy for one row of a test, check and close it, and name a row that fails."""
    with naming(*row):
        world = World()
        await world.start(**settings)
        try:
            yield world
        except BaseException:
            await world.tear_down()
            raise
        await world.close()
