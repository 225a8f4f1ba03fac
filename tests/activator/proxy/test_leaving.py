"""Clients that leave while they wait: no pod gets their request, even at the last moment."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Iterator

import pytest

from activator.proxy.pods import dial
from activator.proxy.pods.dial import connect
from activator.proxy.transport.peer_socket import ACKNOWLEDGE_WITHIN
from tests.activator.proxy.world import (
    PATIENCE,
    Pod,
    World,
    answer_whole,
    own_world,
    request,
    turns,
    until,
)
from tests.conftest import both_loops, in_virtual_time

pytestmark = both_loops

EXPECTED = b"Content-Length: 10\r\nExpect: 100-continue\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
#: Whole requests.
REQUESTS = {
    "get": request(),
    "post": request(b"/", b"POST", body=b"x" * 10),
    "chunks": request(b"/", b"POST", CHUNKED) + b"5\r\nhello\r\n0\r\n\r\n",
    "pipelined": request(b"/1") + request(b"/2"),
    "unread": request(b"/", b"POST", body=b"x" * 100_000),
}


@pytest.fixture
def sockets() -> Iterator[list[socket.socket]]:
    opened: list[socket.socket] = []
    yield opened
    for each in opened:
        each.close()


async def waiting(world: World, sockets: list[socket.socket], data: bytes) -> socket.socket:
    """A client whose request waits. It is a bare socket, which ends at once and unseen."""
    before = world.waiting
    client = socket.create_connection(("127.0.0.1", world.port))
    sockets.append(client)
    client.settimeout(PATIENCE)
    client.sendall(data[:200])
    await until(lambda: world.waiting > before)
    client.sendall(data[200:])
    return client


def reset(client: socket.socket) -> None:
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


async def received(client: socket.socket) -> bytes:
    """All that comes until the end."""
    client.setblocking(False)
    data = b""
    loop = asyncio.get_running_loop()
    while piece := await loop.sock_recv(client, 65536):
        data += piece
    return data


#: How long before the pod comes: before the loop can look, as it looks, and in seconds.
MOMENTS = ("same", "turn", "turns", 0.005, 0.02, 0.06)


async def passes(world: World, moment: str | float) -> None:
    if isinstance(moment, float):
        await world.clock_moves(moment)
    else:
        await turns({"same": 0, "turn": 1, "turns": 10}[moment])


async def is_served_alone(world: World, pod: Pod) -> None:
    """Check that a new pod serves a new client, and has served no other before."""
    await world.in_time(lambda: not world.busy)
    assert not any(connection.received for connection in pod.connections)
    assert (await world.ask(request(b"/new"))).status == 200
    assert [seen.target for seen in pod.requests] == [b"/new"]


@pytest.mark.parametrize("leave", [socket.socket.close, reset], ids=["close", "reset"])
@pytest.mark.parametrize("name", REQUESTS)
async def test_no_pod_gets_the_request_of_a_client_that_left(anyio_backend, sockets, name, leave):
    for moment in MOMENTS:
        async with own_world(moment, hold_bytes=1000) as world:
            pod = await world.pod()
            world.revise()
            client = await waiting(world, sockets, REQUESTS[name])

            leave(client)
            await passes(world, moment)
            world.list(pod)

            await is_served_alone(world, pod)


@pytest.mark.parametrize("name", REQUESTS)
async def test_a_client_that_only_ended_its_side_is_served(anyio_backend, sockets, name):
    for moment in MOMENTS:
        async with own_world(moment, hold_bytes=1000) as world:
            pod = await world.pod()
            world.revise()
            client = await waiting(world, sockets, REQUESTS[name])

            client.shutdown(socket.SHUT_WR)
            await passes(world, moment)
            world.list(pod)

            data = await received(client)
            count = 2 if name == "pipelined" else 1
            assert data.count(b"HTTP/1.1 200 OK\r\n") == len(pod.requests) == count
            assert data.startswith(b"HTTP/1.1 100 Continue\r\n\r\n")
            assert all(seen.whole for seen in pod.requests)


async def test_the_place_of_a_client_that_left_goes_to_the_next(world, sockets):
    pod = await world.pod()
    world.revise(container_concurrency=1)
    first = [await waiting(world, sockets, request(b"/%d" % each)) for each in range(20)]
    last = await waiting(world, sockets, request(b"/last", fields=b"Connection: close\r\n"))
    for client in first:
        client.close()
    world.list(pod)

    assert b"200 OK" in await received(last)
    assert [seen.target for seen in pod.requests] == [b"/last"]


async def test_a_client_that_ended_its_side_and_then_left_is_gone(world, sockets):
    """A killed program leaves like this while it waits. Earlier signs of life are no proof."""
    pod = await world.pod()
    world.revise(timeout=1000.0)
    client = await waiting(world, sockets, request())
    client.shutdown(socket.SHUT_WR)
    await world.clock_moves(0.2)
    assert world.waiting == 1
    assert client.recv(100).startswith(b"HTTP/1.1 100")
    await world.clock_moves(2 * ACKNOWLEDGE_WITHIN)  # until then the acknowledgement is a proof

    client.close()
    world.list(pod)

    await is_served_alone(world, pod)


@in_virtual_time
async def test_a_client_that_leaves_while_a_connection_is_opened(world, sockets, monkeypatch):
    pod = await world.pod()
    world.revise()

    async def slow(*arguments: object) -> None:
        await world.clock_moves(0.5)
        await connect(*arguments)  # type: ignore[arg-type] # as they came

    monkeypatch.setattr(dial, "connect", slow)
    client = await waiting(world, sockets, request())
    world.list(pod)
    await until(lambda: world.in_flight)
    client.close()
    await world.clock_moves(0.7)

    await world.idle()
    assert not pod.requests


@pytest.mark.parametrize("moment", ["same", "turns", 0.06])
@pytest.mark.parametrize("option", [b"close", b"keep-alive"])
async def test_in_http_1_0_the_end_of_sending_of_a_proxy_is_the_end(world, sockets, moment, option):
    """Such as nginx, which ends a connection when its own client has left."""
    pod = await world.pod()
    world.revise()
    data = request(fields=b"Connection: %b\r\n" % option).replace(b"HTTP/1.1", b"HTTP/1.0")
    client = await waiting(world, sockets, data)
    client.shutdown(socket.SHUT_WR)
    await passes(world, moment)
    world.list(pod)

    await is_served_alone(world, pod)


@pytest.mark.parametrize("moment", ["same", "turns", 0.06])
@pytest.mark.parametrize("late", [False, True], ids=["at-once", "late"])
async def test_in_http_1_0_a_client_without_connection_field_gets_its_response(
    world, sockets, moment, late
):
    pod = await world.pod()
    pod.on_data = (lambda connection: None) if late else pod.on_data
    world.revise()
    data = request(b"/", b"POST", body=b"x" * 10).replace(b"HTTP/1.1", b"HTTP/1.0")
    client = await waiting(world, sockets, data)
    client.shutdown(socket.SHUT_WR)
    await passes(world, moment)
    world.list(pod)
    await until(lambda: pod.requests and pod.requests[0].whole)
    if late:
        await world.clock_moves(1.0)
        answer_whole(pod.connections[0])

    data = await received(client)
    assert data.startswith(b"HTTP/1.1 200 OK\r\n")
    assert data.endswith(b"hello")


@in_virtual_time
async def test_in_http_1_0_a_client_that_breaks_its_half_closed_connection_is_gone(world, sockets):
    pod = await world.pod()
    world.revise(timeout=1000.0)
    client = await waiting(world, sockets, request().replace(b"HTTP/1.1", b"HTTP/1.0"))
    client.shutdown(socket.SHUT_WR)
    await world.clock_moves(1.0)
    assert world.waiting == 1
    reset(client)
    await world.clock_moves(5.0)
    world.list(pod)

    await is_served_alone(world, pod)


@pytest.mark.parametrize("moment", ["same", "turns", 0.06])
async def test_a_client_that_could_not_send_all_is_not_served(world, sockets, moment):
    pod = await world.pod()
    world.revise()
    client = await waiting(world, sockets, request(b"/", b"POST", EXPECTED) + b"five!")
    client.shutdown(socket.SHUT_WR)
    await passes(world, moment)
    world.list(pod)

    await world.in_time(lambda: not world.busy)
    assert (await world.ask(request(b"/new"))).status == 200
    assert [seen.target for seen in pod.requests if seen.whole] == [b"/new"]


async def test_a_client_that_is_there_gets_no_byte(world, sockets):
    pod = await world.pod()
    world.revise()
    client = await waiting(world, sockets, request(fields=b"Connection: close\r\n"))
    await world.clock_moves(0.2)
    world.list(pod)

    data = await received(client)
    assert data.startswith(b"HTTP/1.1 200 OK\r\n")
