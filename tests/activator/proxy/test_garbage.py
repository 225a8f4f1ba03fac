"""What ends is freed at once: the garbage collector, which runs rarely, finds nothing of it.

The activator turns the collector down, since its byte path leaves no reference cycles. With cycles,
each connection that ended would stay in memory until the collector runs.
"""

from __future__ import annotations

import asyncio
import gc
import socket
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.activator.proxy.client.test_http2 import BEGIN, asked
from tests.activator.proxy.http2.peers import Http2World
from tests.activator.proxy.test_leaving import reset
from tests.activator.proxy.world import NAME, NAMESPACE, World, ok, request, until
from throttler.model import AppProtocol, Dest, Dests, RevisionID

OURS = ("activator.", "throttler.")
#: More than the timers keep of connections that have ended.
TURNS = 80


@contextmanager
def no_garbage() -> Iterator[None]:
    """Check that what runs meanwhile leaves none of our objects in reference cycles."""
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
    """Count our objects by their types."""
    world.driver.look_for_silence()  # each second it forgets pods without requests
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
    await play(world)  # what is made once is made
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


def replace_pod(world: World, address: str, number: int, protocol: AppProtocol) -> None:
    """List another pod at the address of the present one."""
    dests = Dests(frozenset([Dest(address, f"uid {number}")]))
    world.driver.set_dests(RevisionID(NAMESPACE, NAME), {protocol: dests})


async def nothing_stays(world: World, turn: Callable[[int], Awaitable[None]]) -> None:
    """Check that turns leave no objects of ours behind, neither referred to nor in cycles."""
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
        replace_pod(world, pod.dest.address, number, AppProtocol.HTTP1)
        await asks(world)

    await nothing_stays(world, turn)


async def test_nothing_stays_of_http2_pods_that_are_gone(http2: Http2World) -> None:
    pod = await http2.serving()

    async def turn(number: int) -> None:
        replace_pod(http2.world, pod.dest.address, number, AppProtocol.H2C)
        with connect(http2.world) as client:
            client.send(BEGIN + asked(1))
            await until_received(client, b"hello")
        pod.connections.clear()

    await nothing_stays(http2.world, turn)


async def test_nothing_stays_of_http2_pods_that_go_while_streams_are_open(
    http2: Http2World,
) -> None:
    pod = await http2.serving()
    pod.on_message = lambda *_: None

    async def turn(number: int) -> None:
        with connect(http2.world) as client:
            client.send(BEGIN + asked(1))
            await until(lambda: pod.requests)
            replace_pod(http2.world, pod.dest.address, number, AppProtocol.H2C)
            reset(client)
            await gone(http2.world)
        pod.connections.clear()

    await nothing_stays(http2.world, turn)


async def test_nothing_stays_of_http2_pods_that_go_and_break_their_streams(
    http2: Http2World,
) -> None:
    pod = await http2.serving()
    pod.on_message = lambda *_: None

    async def turn(number: int) -> None:
        with connect(http2.world) as client:
            before = len(pod.requests)
            client.send(BEGIN + asked(1))
            await until(lambda: len(pod.requests) == before + 1)
            replace_pod(http2.world, pod.dest.address, number, AppProtocol.H2C)
            for peer in pod.connections:
                peer.transport.abort()
            await until(
                lambda: len(pod.requests) == before + 2, "the pod behind it gets the request"
            )
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
            replace_pod(http2.world, pod.dest.address, number, AppProtocol.H2C)
            reset(client)
            await gone(http2.world)
        await until(lambda: not http2.world.pools.connections)

    await nothing_stays(http2.world, turn)
