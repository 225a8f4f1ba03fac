"""The proxy finds connections to vanished pods, and keeps connections to pods that do not read."""

from __future__ import annotations

import socket
from typing import Any, cast

import pytest

from tests.activator.process.test_sockets import options
from tests.activator.proxy.world import World, ok, request, until
from tests.conftest import both_loops

pytestmark = both_loops

POD = (1, 15, 1, 5, 20_000)


async def sockets_to_pods(world: World) -> list[socket.socket]:
    """Return the activator's ends of the connections to pods, which are all in use."""
    return [
        cast(Any, each).handler.exchange.pod_side.transport.get_extra_info("socket")
        for each in world.proxy.connections
    ]


async def test_a_connection_to_a_pod_that_vanishes_is_found_dead_whatever_runs_on_it(world):
    pod = await world.serving()
    pod.on_data = lambda connection: None
    client = await world.client()
    client.send(request())
    await until(lambda: pod.requests)
    assert [options(sock) for sock in await sockets_to_pods(world)] == [POD]
    pod.connections[0].write(ok())
    assert (await client.answer()).status == 200


@pytest.mark.parametrize(
    ("head", "user_timeout"),
    [
        (b"Content-Length: 1\r\n", 20_000),
        (b"Content-Length: 32768\r\n", 20_000),
        (b"Content-Length: 32769\r\n", 0),
        (b"Transfer-Encoding: chunked\r\n", 0),
    ],
)
async def test_a_pod_may_leave_a_large_body_unread_for_as_long_as_it_likes(
    world, head, user_timeout
):
    """The kernel's limit does not distinguish a vanished pod from one that does not read."""
    pod = await world.serving()
    pod.on_data = lambda connection: None
    client = await world.client()
    client.send(request(method=b"POST", fields=head))
    await until(lambda: pod.connections and pod.connections[0].received)
    (sock,) = await sockets_to_pods(world)
    assert options(sock) == (*POD[:4], user_timeout)
    client.abort()
    await until(lambda: not pod.open)


async def test_behind_a_large_body_the_bound_is_set_again(world):
    pod = await world.serving()
    body = b"x" * 40_000
    assert (await world.ask(request(method=b"POST", body=body), b"POST")).status == 200
    pod.on_data = lambda connection: None
    client = await world.client()
    client.send(request())
    await until(lambda: len(pod.requests) == 2)
    assert len(pod.connections) == 1
    assert [options(sock) for sock in await sockets_to_pods(world)] == [POD]
    client.abort()
    await until(lambda: not pod.open)


async def test_in_a_tunnel_the_pod_may_read_when_it_likes(world):
    pod = await world.serving()
    switch = b"HTTP/1.1 101 Switching\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n"
    pod.on_data = lambda connection: connection.write(switch)
    client = await world.client()
    client.send(request(fields=b"Upgrade: echo\r\nConnection: Upgrade\r\n"))
    await client.size(20)
    (sock,) = await sockets_to_pods(world)
    assert options(sock) == (*POD[:4], 0)
    client.abort()
    await until(lambda: not pod.open)
