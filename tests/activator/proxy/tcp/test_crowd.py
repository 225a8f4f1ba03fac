"""Many connections at once: clients that send nothing, short ones, and a shortage of files."""

from __future__ import annotations

import errno
import socket

from tests.activator.proxy.tcp.world import SERVICE, TcpWorld
from tests.activator.proxy.world import until
from throttler.throttler import Limits


def silent(port: int, count: int) -> list[socket.socket]:
    """Return connections that send nothing."""
    found = []
    for _ in range(count):
        client = socket.socket()
        client.setblocking(False)
        assert client.connect_ex(("127.0.0.1", port)) in (0, errno.EINPROGRESS)
        found.append(client)
    return found


async def test_silent_clients_are_bounded_and_others_are_served() -> None:
    world = TcpWorld()
    await world.start(queue=Limits(queue_depth=100))
    pod = await world.asleep()
    crowd = silent(world.port, 1000)
    await until(lambda: len(world.proxy.connections) == 1000)
    assert world.load == 0
    await world.in_time(lambda: world.throttler.breaker.waiting == 100)
    await world.in_time(lambda: len(world.proxy.connections) == 100)
    assert world.outcomes() == {"queue-full": 900}
    assert world.throttler.breaker.own.bytes == 0
    for each in crowd:
        each.close()
    await until(lambda: world.throttler.breaker.waiting == 0)
    await world.start_pod(pod)
    client = await world.client()
    client.send(b"x")
    await until(lambda: pod.connections and pod.connections[-1].received == b"x")
    client.close()
    pod.connections[-1].close()
    await world.close()


async def test_beyond_the_limit_of_files_a_client_is_closed(world: TcpWorld) -> None:
    [pod] = await world.up()
    world.proxy.max_connections = 1
    first = await world.client()
    first.send(b"x")
    await until(lambda: pod.connections and pod.connections[0].received == b"x")
    second = await world.client()
    await second.ended()
    assert second.received == b""
    assert world.proxy.counters.turned_away == 1
    for each in (first, second):
        each.close()
    pod.connections[0].close()


async def test_a_connection_waits_for_a_free_file(world: TcpWorld) -> None:
    pod = await world.asleep()
    client = await world.client()
    client.send(b"x")
    await until(lambda: world.throttler.breaker.waiting == 1)
    files = world.pools.files
    files.pods = files.shares.traffic
    await world.start_pod(pod)
    await until(lambda: files.waiting == 1)
    files.pods -= 10
    files.freed()
    await until(lambda: pod.connections and pod.connections[0].received == b"x")
    client.close()
    pod.connections[0].close()
    await until(lambda: not world.proxy.connections)
    assert files.pods == files.shares.traffic - 10
    files.pods = 0


async def test_a_silent_client_leaves_its_place_to_another_one(world: TcpWorld) -> None:
    await world.asleep(connections=None)
    client = await world.client()
    await until(lambda: len(world.proxy.connections) == 1)
    for connection in world.proxy.connections:
        connection.idle_since -= 10
    assert world.proxy.connections.make_room(world.now(), 1)
    await client.ended()
    assert SERVICE not in world.loads or world.load == 0
    client.close()
