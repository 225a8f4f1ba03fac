"""What ends is freed at once: the garbage collector, which runs rarely, finds nothing of it.

The activator turns the collector down, since its byte path leaves no reference cycles. With cycles,
each connection that ended would stay in memory until the collector runs.
"""

from __future__ import annotations

import asyncio
import gc
import socket
import weakref
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from math import inf

import pytest

from activator.build import Build, running
from activator.process import timers
from activator.proxy.http2.connection import data_head
from activator.proxy.pods import dial
from tests.activator.proxy.client.test_http2 import BEGIN, asked
from tests.activator.proxy.exchange.test_tunnel import SWITCHED, WEBSOCKET, switch
from tests.activator.proxy.http2.peers import Http2Pod, Http2World
from tests.activator.proxy.test_leaving import reset
from tests.activator.proxy.world import (
    NAME,
    NAMESPACE,
    Pod,
    PodConnection,
    World,
    ok,
    request,
    turns,
    until,
)
from tests.conftest import both_loops
from throttler.model import AppProtocol, Endpoint, ListedEndpoints, RevisionID

pytestmark = both_loops

OURS = ("activator.", "throttler.")
#: Entries that the timers keep of connections that have ended. A compiled build has its own number.
KEPT = 8
TURNS = 12 if running() is Build.PURE else 80


@pytest.fixture(autouse=True)
def timers_keep_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let few turns suffice: timers keep fewer entries than that."""
    monkeypatch.setattr(timers, "_SMALL", KEPT)  # pure: compiled tests take more turns instead


@contextmanager
def no_garbage() -> Iterator[None]:
    """Check that the block leaves none of the activator's objects in reference cycles."""
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        yield
        gc.collect()
        found = Counter(f"{type(each).__module__}.{type(each).__name__}" for each in gc.garbage)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert {name: times for name, times in found.items() if name.startswith(OURS)} == {}


def ours(world: World) -> Counter[str]:
    """Count the activator's objects by their types."""
    world.driver.probe_silent_pods()  # each second it removes pods without requests
    gc.collect()
    found = Counter(f"{type(each).__module__}.{type(each).__name__}" for each in gc.get_objects())
    return Counter({name: count for name, count in found.items() if name.startswith(OURS)})


def connect(world: World) -> socket.socket:
    """A client without protocol objects, which would leave cycles of their own."""
    client = socket.create_connection(("127.0.0.1", world.port))
    client.setblocking(False)
    return client


async def until_received(client: socket.socket, text: bytes) -> None:
    received = b""
    while text not in received:
        piece = await asyncio.get_running_loop().sock_recv(client, 65536)
        assert piece, received
        received += piece


async def gone(world: World) -> None:
    await until(lambda: not world.proxy.connections, "no connection of a client is left")
    await world.idle()


async def asks(world: World) -> None:
    with connect(world) as client:
        client.send(request())
        await until_received(client, b"hello")


async def asks_for_the_end(world: World) -> None:
    with connect(world) as client:
        client.send(request(fields=b"Connection: close\r\n"))
        await until_received(client, b"hello")


async def sends_what_is_no_request(world: World) -> None:
    with connect(world) as client:
        client.send(b"\x00\r\n\r\n")
        await until_received(client, b"400")


async def says_nothing(world: World) -> None:
    with connect(world):
        await until(lambda: world.proxy.connections)


CLIENTS = (asks, asks_for_the_end, sends_what_is_no_request, says_nothing)


@pytest.mark.parametrize("play", CLIENTS, ids=lambda play: play.__name__)
async def test_connections_that_end_are_freed(
    world: World, play: Callable[[World], Awaitable[None]]
) -> None:
    await world.serving(answer=ok())
    await play(world)  # objects that are made once exist now
    await gone(world)
    with no_garbage():
        for _ in range(TURNS):
            await play(world)
            await gone(world)


async def test_connections_to_pods_that_end_are_freed(world: World) -> None:
    await world.serving(answer=ok(fields=b"Connection: close\r\n"))
    await asks(world)
    await gone(world)
    with no_garbage():
        for _ in range(TURNS):
            await asks(world)
            await gone(world)


LEAVING = [
    pytest.param(request(), id="http1"),
    pytest.param(BEGIN + asked(1), id="http2"),
]


@pytest.mark.parametrize("data", LEAVING)
async def test_clients_that_leave_while_they_wait_are_freed(world: World, data: bytes) -> None:
    world.revise()

    async def leave() -> None:
        with connect(world) as client:
            client.send(data)
            await until(lambda: world.waiting == 1)
            reset(client)
        await gone(world)

    await leave()
    with no_garbage():
        for _ in range(TURNS):
            await leave()


async def test_clients_and_pods_of_http2_are_freed(http2: Http2World) -> None:
    async def ask() -> None:
        with connect(http2.world) as client:
            client.send(BEGIN + asked(1))
            await until_received(client, b"hello")
        await gone(http2.world)

    await http2.serving()
    await ask()
    with no_garbage():
        for _ in range(TURNS):
            await ask()


async def test_requests_of_a_connection_of_http2_are_freed(http2: Http2World) -> None:
    await http2.serving()
    with connect(http2.world) as client:
        client.send(BEGIN + asked(1))
        await until_received(client, b"hello")
        with no_garbage():
            for number in range(TURNS):
                client.send(asked(2 * number + 3))
                await until_received(client, b"hello")
            await http2.world.idle()


async def closes_the_tunnel(client: socket.socket, pod: Pod) -> None:
    client.close()


async def resets_the_tunnel(client: socket.socket, pod: Pod) -> None:
    reset(client)


async def has_a_pod_that_closes_it(client: socket.socket, pod: Pod) -> None:
    pod.connections[-1].transport.close()


async def has_a_pod_that_breaks_it(client: socket.socket, pod: Pod) -> None:
    pod.connections[-1].transport.abort()


async def closes_its_side_first(client: socket.socket, pod: Pod) -> None:
    client.shutdown(socket.SHUT_WR)
    await until(lambda: pod.connections[-1].eof)
    pod.connections[-1].transport.close()


TUNNELS = (
    closes_the_tunnel,
    resets_the_tunnel,
    has_a_pod_that_closes_it,
    has_a_pod_that_breaks_it,
    closes_its_side_first,
)


@pytest.mark.parametrize("end", TUNNELS, ids=lambda end: end.__name__)
async def test_tunnels_that_end_are_freed(
    world: World, end: Callable[[socket.socket, Pod], Awaitable[None]]
) -> None:
    pod = await world.serving()
    pod.on_data = switch

    async def turn() -> None:
        with connect(world) as client:
            client.send(request(b"/ws", fields=WEBSOCKET))
            await until_received(client, SWITCHED)
            client.send(b"hello")
            await until_received(client, b"<hello>")
            await end(client, pod)
            await turns(20)
        await gone(world)

    await turn()
    with no_garbage():
        for _ in range(TURNS):
            await turn()


#: A head whose body is to come.
UPLOADS = [
    pytest.param(
        request(b"/", fields=b"Content-Length: 9\r\n", method=b"POST") + b"abc", id="http1"
    ),
    pytest.param(BEGIN + asked(1, ended=False) + data_head(1, 3, ended=False) + b"abc", id="http2"),
]


def breaks(pod: Http2Pod) -> None:
    """The pod's connection breaks while its streams are open."""
    for peer in pod.connections:
        peer.transport.abort()


def resets(pod: Http2Pod) -> None:
    """The pod resets its streams."""
    for peer in pod.connections:
        for stream in peer.messages:
            peer.h2.reset_stream(stream)
        peer.flush()


def breaks_a_rule(pod: Http2Pod) -> None:
    """The pod sends DATA before the head of its response."""
    for peer in pod.connections:
        for stream in peer.messages:
            peer.transport.write(data_head(stream, 1, ended=False) + b"x")


def says_nothing_more(pod: Http2Pod) -> None:
    """The client leaves."""


@pytest.mark.parametrize("end", [breaks, resets, breaks_a_rule, says_nothing_more])
@pytest.mark.parametrize("data", [LEAVING[1], UPLOADS[1]])
async def test_requests_whose_http2_pod_fails_are_freed(
    http2: Http2World, data: bytes, end: Callable[[Http2Pod], None]
) -> None:
    pod = await http2.serving()
    pod.on_message = lambda *_: None

    async def turn() -> None:
        with connect(http2.world) as client:
            client.send(data)
            await until(lambda: pod.requests)
            end(pod)
            await turns(20)
            reset(client)
            await gone(http2.world)
        breaks(pod)
        await until(lambda: not http2.world.pools.resources.connections)
        pod.connections.clear()

    await turn()
    with no_garbage():
        for _ in range(TURNS):
            await turn()


@pytest.mark.parametrize("data", [LEAVING[1], UPLOADS[1]])
async def test_attempts_to_connect_to_an_http2_pod_are_freed(
    http2: Http2World, data: bytes
) -> None:
    pod = await http2.serving()
    pod.server.close()
    await pod.server.wait_closed()

    async def turn() -> None:
        with connect(http2.world) as client:
            client.send(data)
            await until(lambda: http2.world.busy)
            await turns(20)
            reset(client)
            await gone(http2.world)

    await turn()
    with no_garbage():
        for _ in range(TURNS):
            await turn()


def breaks_at_once(connection: PodConnection) -> None:
    """The pod's connection breaks before its response."""
    if connection.requests:
        connection.transport.abort()


def breaks_in_the_middle(connection: PodConnection) -> None:
    """The pod's connection breaks in the middle of its response."""
    if connection.requests:
        connection.write(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc")
        connection.transport.abort()


def takes_its_time(connection: PodConnection) -> None:
    """The client leaves."""


@pytest.mark.parametrize("end", [breaks_at_once, breaks_in_the_middle, takes_its_time])
@pytest.mark.parametrize("data", [LEAVING[0], UPLOADS[0]])
async def test_requests_whose_pod_fails_are_freed(
    world: World, data: bytes, end: Callable[[PodConnection], None]
) -> None:
    pod = await world.serving()
    pod.on_data = end

    async def turn() -> None:
        with connect(world) as client:
            client.send(data)
            await until(lambda: pod.connections)
            await turns(20)
            reset(client)
            await gone(world)
        for each in pod.connections:
            each.transport.abort()
        await until(lambda: not world.pools.resources.connections)
        pod.connections.clear()

    await turn()
    with no_garbage():
        for _ in range(TURNS):
            await turn()


def replace_pod(world: World, address: str, number: int, protocol: AppProtocol) -> None:
    """List another pod at the address of the present one."""
    endpoints = ListedEndpoints(frozenset([Endpoint(address, f"uid {number}")]))
    world.driver.set_endpoints(RevisionID(NAMESPACE, NAME), {protocol: endpoints})


async def nothing_stays(world: World, turn: Callable[[int], Awaitable[None]]) -> None:
    """Check that turns leave none of the activator's objects, neither referred to nor in cycles."""
    for number in range(TURNS // 2):
        await turn(number)
    before = ours(world)
    for number in range(TURNS, 2 * TURNS):
        await turn(number)
    grown = ours(world) - before
    assert {name: count for name, count in grown.items() if count >= TURNS // 2} == {}


async def test_nothing_stays_of_pods_that_are_gone(world: World) -> None:
    pod = await world.serving()
    world.healthy = lambda _: True

    async def turn(number: int) -> None:
        replace_pod(world, pod.endpoint.address, number, AppProtocol.HTTP1)
        await asks(world)

    await nothing_stays(world, turn)


async def test_nothing_stays_of_http2_pods_that_are_gone(http2: Http2World) -> None:
    pod = await http2.serving()

    async def turn(number: int) -> None:
        replace_pod(http2.world, pod.endpoint.address, number, AppProtocol.H2C)
        with connect(http2.world) as client:
            client.send(BEGIN + asked(1))
            await until_received(client, b"hello")
        pod.connections.clear()

    await nothing_stays(http2.world, turn)


@pytest.mark.parametrize("broken", [False, True], ids=["open", "broken"])
async def test_nothing_stays_of_http2_pods_that_go_while_streams_are_open(
    http2: Http2World, broken: bool
) -> None:
    pod = await http2.serving()
    pod.on_message = lambda *_: None

    async def turn(number: int) -> None:
        before = len(pod.requests)
        with connect(http2.world) as client:
            client.send(BEGIN + asked(1))
            await until(lambda: len(pod.requests) == before + 1)
            replace_pod(http2.world, pod.endpoint.address, number, AppProtocol.H2C)
            if broken:
                breaks(pod)
                await until(lambda: len(pod.requests) == before + 2, "the next pod has it")
            reset(client)
            await gone(http2.world)

    await nothing_stays(http2.world, turn)


async def test_nothing_stays_of_http2_pods_that_go_before_they_are_connected(
    http2: Http2World,
) -> None:
    pod = await http2.serving()

    async def turn(number: int) -> None:
        with connect(http2.world) as client:
            client.send(BEGIN + asked(1))
            await until(lambda: "in flight" in http2.world.busy)
            replace_pod(http2.world, pod.endpoint.address, number, AppProtocol.H2C)
            reset(client)
            await gone(http2.world)
        await until(lambda: not http2.world.pools.resources.connections)

    await nothing_stays(http2.world, turn)


class Upstream(asyncio.Protocol):
    """A connection whose dial is cancelled in the moment in which it opens."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.dial.cancel()

    def dials(self, address: str) -> asyncio.Task[None]:
        host, _, port = address.partition(":")
        self.dial = asyncio.create_task(  # noqa: TID251 # held here
            dial.connect(self, host, int(port), inf)
        )
        return self.dial


async def test_a_connection_whose_dial_is_cancelled_as_it_opens_is_freed(world: World) -> None:
    pod = await world.serving()
    upstream = Upstream()
    await asyncio.wait([upstream.dials(pod.endpoint.address)])
    is_left = weakref.ref(upstream)
    with no_garbage():
        del upstream.dial, upstream
        await until(lambda: not is_left(), "it is freed without a collection")
