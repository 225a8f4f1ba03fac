"""Many connections at once: clients that send nothing, short ones, and a shortage of files."""

from __future__ import annotations

import errno
import socket
from typing import cast

import pytest

from activator.telemetry.request_log import RequestLog
from tests.activator.proxy.observers import Records
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


@pytest.mark.untraced
async def test_silent_clients_are_bounded_and_others_are_served() -> None:
    world = TcpWorld()
    await world.start(queue=Limits(queue_depth=100))
    pod = await world.asleep()
    crowd = []
    for number in range(1, 6):  # the kernel keeps no more before they are accepted
        crowd += silent(world.port, 1000)
        await until(lambda number=number: len(world.proxy.connections) == 1000 * number)
    assert world.load == 0
    await world.in_time(lambda: world.throttler.queued.waiting == 100)
    other, client = await world.other()
    client.send(b"x")
    assert await other.connections[0].take(1) == b"x"
    client.close()
    other.connections[0].close()
    await world.in_time(lambda: len(world.proxy.connections) == 100)
    assert world.outcomes() == {"queue-full": 4900}
    assert world.throttler.queued.own.bytes == 0
    for each in crowd:
        each.close()
    await until(lambda: world.throttler.queued.waiting == 0)
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


async def test_if_files_run_short_silent_clients_of_an_awake_service_give_place(
    world: TcpWorld, caplog: pytest.LogCaptureFixture
) -> None:
    [pod] = await world.up()
    world.proxy.max_connections = 3
    talks = await world.client()
    talks.send(b"x")
    quiet = [await world.client() for _ in range(2)]
    await until(lambda: len(pod.connections) == 3)
    await world.clock_moves(9.0)
    early = await world.client()
    await early.ended()
    await world.clock_moves(2.0)
    late = [await world.client() for _ in range(2)]
    for each in late:
        each.send(b"late")
    await until(lambda: sum(each.received == b"late" for each in pod.connections) == 2)
    for each in quiet:
        await each.ended()
        assert not each.reset
    assert not talks.eof
    assert world.outcomes() == {"queue-full": 2}
    assert "closed a connection: queue-full; too many connections" in caplog.text
    for each in (talks, early, *late, *quiet):
        each.abort()


async def test_a_connection_waits_for_a_free_file(world: TcpWorld) -> None:
    pod = await world.asleep()
    client = await world.client()
    client.send(b"x")
    await until(lambda: world.throttler.queued.waiting == 1)
    files = world.pools.files
    files.pods = files.shares.traffic
    await world.start_pod(pod)
    await world.clock_moves(1.0)
    assert pod.connections == []
    files.pods -= 10
    await world.in_time(lambda: pod.connections and pod.connections[0].received == b"x")
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


async def test_a_wait_for_a_file_ends_with_the_deadline(world: TcpWorld) -> None:
    pod = await world.asleep(timeout=2.0)
    client = await world.client()
    client.send(b"x")
    await until(lambda: world.throttler.queued.waiting == 1)
    files = world.pools.files
    files.pods = files.shares.traffic
    await world.start_pod(pod)
    await client.ended()
    assert world.now_since_start() == pytest.approx(2.0, abs=0.1)
    failed = world.driver.entries.of(SERVICE).failures.last
    assert failed is not None
    assert failed.reason.value == "response-late"
    assert failed.detail == f"no file is free to connect, of {files.shares.limit}"
    client.close()
    await until(lambda: not world.proxy.connections)
    files.pods = 0


async def test_at_the_limit_of_unread_bytes_a_slow_reader_is_reset() -> None:
    world = TcpWorld()
    await world.start(unread_bytes=1000)
    [pod] = await world.up()
    client = await world.client(receive_buffer=4096)
    client.send(b"x")
    await until(lambda: pod.connections and pod.connections[0].received)
    client.transport.pause_reading()
    pod.connections[0].send(bytes(8 << 20))
    await until(lambda: pod.connections[0].lost)
    assert pod.connections[0].reset
    assert world.proxy.unread.ended == {"client": 1, "pod": 0}
    client.transport.abort()
    await world.close()


async def test_the_request_log_has_a_line_for_a_connection(world: TcpWorld) -> None:
    records = Records()
    world.proxy.services.request_log = cast(RequestLog, records)
    [pod] = await world.up()
    client = await world.client()
    client.send(b"hello")
    await until(lambda: pod.connections and pod.connections[0].received)
    pod.connections[0].send(b"bye")
    await client.take(3)
    number = client.transport.get_extra_info("sockname")[1]
    client.close()
    pod.connections[0].close()
    await until(lambda: records)
    [record] = records
    assert (record.method, record.host, record.status) == (b"TCP", b"ns/rev", 101)
    assert (record.content_length, record.response_size) == (5, 3)
    assert record.client == f"127.0.0.1:{number}"
