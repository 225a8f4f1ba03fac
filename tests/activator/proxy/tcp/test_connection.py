"""One connection of a TCP Service, from its client to its pod."""

from __future__ import annotations

import errno
import os
import socket
from functools import partial

import pytest

from tests.activator.proxy.tcp.world import SERVICE, TcpPod, TcpWorld
from tests.activator.proxy.world import turns, until
from tests.conftest import both_loops
from throttler.model import FlowKey, Policies, QueueOrder
from throttler.request_policies import ConnectionPolicies, RequestPolicies
from throttler.throttler import Limits

BYTES = ConnectionPolicies(by_bytes=True)


@both_loops
async def test_bytes_pass_both_ways_and_the_end_of_each_side(world: TcpWorld) -> None:
    [pod] = await world.up()
    client = await world.client()
    client.send(b"hello")
    await until(lambda: pod.connections and pod.connections[0].received == b"hello")
    [at_pod] = pod.connections
    at_pod.send(b"who is there?")
    assert await client.take(13) == b"who is there?"
    client.end_sending()
    await at_pod.ended()
    assert not at_pod.lost
    at_pod.send(b"bye")
    assert await client.take(3) == b"bye"
    at_pod.end_sending()
    await client.ended()
    assert not client.reset
    assert not at_pod.reset
    await until(lambda: world.outcomes() == {"served": 1})
    assert world.load == 0


@both_loops
@pytest.mark.parametrize("pod_resets", [False, True])
async def test_a_reset_passes_as_a_reset(world: TcpWorld, pod_resets: bool) -> None:
    [pod] = await world.up()
    client = await world.client()
    client.send(b"x")
    await until(lambda: pod.connections and pod.connections[0].received)
    [at_pod] = pod.connections
    (at_pod if pod_resets else client).abort()
    other = client if pod_resets else at_pod
    await until(lambda: other.lost)
    assert other.reset
    await until(lambda: world.outcomes() == {"upstream-failed" if pod_resets else "cancelled": 1})


async def test_the_last_bytes_of_a_side_that_resets_arrive(world: TcpWorld) -> None:
    [pod] = await world.up()
    client = await world.client()
    client.send(b"x")
    await until(lambda: pod.connections and pod.connections[0].received)
    [at_pod] = pod.connections
    client.send(b"y" * 1000)
    at_pod.send(b"no more")
    at_pod.abort()
    await until(lambda: client.lost)
    assert client.received == b"no more"


async def test_a_server_that_speaks_first_is_reached_at_once(world: TcpWorld) -> None:
    [pod] = await world.up()
    pod.on_connect = lambda connection: connection.send(b"SSH-2.0\r\n")
    client = await world.client()
    began = world.now()
    assert await client.take(9) == b"SSH-2.0\r\n"
    assert world.now() == began
    assert world.load == 0  # it may be a health check
    await world.clock_moves(0.1)
    assert world.load == 1
    client.close()
    pod.connections[0].close()


async def test_a_health_check_wakes_nothing_and_keeps_nothing_awake(world: TcpWorld) -> None:
    pod = await world.asleep()
    for _ in range(3):
        client = await world.client()
        client.close()
        await until(lambda: not world.proxy.connections)
    assert SERVICE not in world.loads or world.loads[SERVICE].ever == 0
    assert world.outcomes() == {}
    await world.start_pod(pod)
    await until(lambda: world.throttler.statistics().healthy)
    client = await world.client()
    await until(lambda: pod.connections)
    client.close()
    await until(lambda: pod.connections[0].eof)
    pod.connections[0].close()
    await until(lambda: world.outcomes() == {"served": 1})
    assert world.loads[SERVICE].ever == 0


@pytest.mark.parametrize(("silent", "after"), [(False, 0.0), (True, 0.25)])
async def test_a_byte_or_time_wakes_the_workload(
    world: TcpWorld, silent: bool, after: float
) -> None:
    pod = await world.asleep(connections=ConnectionPolicies(wake_after=0.25))
    began = world.now()
    client = await world.client()
    if not silent:
        client.send(b"GET")
    await world.in_time(lambda: world.load == 1)
    assert world.now() - began == pytest.approx(after, abs=0.011)
    assert world.throttler.queued.waiting == 1
    await world.start_pod(pod)
    await until(lambda: pod.connections)
    await turns()
    assert pod.connections[0].received == (b"" if silent else b"GET")
    client.close()
    pod.connections[0].close()


async def test_a_connection_wakes_at_once_where_the_annotation_says_zero(world: TcpWorld) -> None:
    await world.asleep(connections=ConnectionPolicies(wake_after=0.0))
    client = await world.client()
    await until(lambda: world.load == 1)
    client.close()
    await until(lambda: world.outcomes() == {"cancelled": 1})


async def test_bytes_of_a_waiting_client_arrive_in_order(world: TcpWorld) -> None:
    pod = await world.asleep()
    client = await world.client()
    data = bytes(range(256)) * 1000
    client.send(data)
    client.end_sending()
    await until(lambda: world.throttler.queued.own.bytes > 60_000)
    assert world.throttler.queued.own.bytes <= 64 << 10
    await world.start_pod(pod)
    await until(lambda: pod.connections and pod.connections[0].eof)
    assert pod.connections[0].received == data
    pod.connections[0].close()


async def test_connections_get_their_pods_in_order_of_arrival(world: TcpWorld) -> None:
    pod = await world.asleep(container_concurrency=1)
    clients = []
    for number in range(4):
        clients.append(await world.client())
        clients[-1].send(b"%d" % number)
        await until(lambda: world.throttler.queued.waiting == len(clients))
    await world.start_pod(pod)
    for number, client in enumerate(clients):
        await until(partial(lambda n: len(pod.connections) == n + 1, number))
        assert await pod.connections[-1].take(1) == b"%d" % number
        assert world.throttler.slots.in_flight == 1
        client.close()
        pod.connections[-1].close()


async def test_a_refused_connect_goes_to_another_pod(world: TcpWorld) -> None:
    first, second = await world.up(2, container_concurrency=1)
    await first.refuse()
    clients = [await world.client() for _ in range(2)]
    for client in clients:
        client.send(b"x")
    await until(lambda: second.connections and world.throttler.queued.waiting == 1)
    assert await second.connections[0].take(1) == b"x"
    assert world.driver.entries.of(SERVICE).counters.requeues == {"connect-failed": 1}
    await first.listen()
    world.driver.set_endpoints(SERVICE, {})
    world.put(first, second)
    await until(lambda: first.connections and first.connections[0].received == b"x")
    for client in clients:
        client.close()
    for pod in (first, second):
        pod.connections[0].close()


async def test_a_pod_that_does_not_respond_is_left_after_a_second(world: TcpWorld) -> None:
    hole = await world.unreachable()
    pod = TcpPod()
    await pod.listen()
    world.set(timeout=5.0)
    world.pods.append(pod)  # type: ignore[arg-type] # it has all that is used
    world.put(hole)  # type: ignore[arg-type] # as above
    await until(lambda: world.throttler.statistics().healthy == 1)
    client = await world.client()
    client.send(b"x")
    await world.in_time(lambda: world.throttler.queued.waiting == 1)
    assert world.now_since_start() == pytest.approx(1.0, abs=0.1)
    assert world.driver.entries.of(SERVICE).counters.requeues == {"connect-timeout": 1}
    world.put(pod)
    await until(lambda: pod.connections and pod.connections[0].received == b"x")
    client.close()
    pod.connections[0].close()


async def test_a_wait_ends_with_its_reason(
    world: TcpWorld, caplog: pytest.LogCaptureFixture
) -> None:
    await world.asleep(timeout=300.0, policies=Policies(requests=RequestPolicies(wait_seconds=2)))
    client = await world.client()
    client.send(b"x")
    await client.ended()
    assert not client.reset
    assert client.received == b""
    assert world.now_since_start() == pytest.approx(2.0, abs=0.1)
    assert world.outcomes() == {"timed-out": 1}
    failed = world.driver.entries.of(SERVICE).failures.last
    assert failed is not None
    assert (failed.status, failed.reason.value) == (0, "no-endpoints")
    assert "closed a connection: no-endpoints" in caplog.text
    client.close()


async def test_a_full_queue_ends_a_connection(caplog: pytest.LogCaptureFixture) -> None:
    world = TcpWorld()
    await world.start(queue=Limits(queue_depth=1))
    await world.asleep()
    waiting, refused = await world.client(), await world.client()
    waiting.send(b"x")
    await until(lambda: world.throttler.queued.waiting == 1)
    refused.send(b"x")
    await refused.ended()
    assert not refused.reset
    assert world.outcomes() == {"queue-full": 1}
    assert "closed a connection: queue-full" in caplog.text
    waiting.abort()
    refused.close()
    await world.close()


async def test_a_tenant_has_its_share_of_the_queue(world: TcpWorld) -> None:
    order = QueueOrder(fair_by=FlowKey())
    await world.asleep(policies=Policies(order=order))
    client = await world.client()
    client.send(b"x")
    await until(lambda: world.throttler.queued.waiting == 1)
    [ticket] = world.throttler.queued.tickets()
    assert ticket.flow == b"127.0.0.1"
    client.abort()


async def test_a_slow_reader_costs_one_pipe(world: TcpWorld) -> None:
    [pod] = await world.up()
    client = await world.client(receive_buffer=4096)
    client.send(b"x")
    await until(lambda: pod.connections and pod.connections[0].received)
    client.transport.pause_reading()
    data = bytes(range(256)) * 64 * 1024
    [at_pod] = pod.connections
    at_pod.send(data)
    await until(lambda: world.proxy.unread.bytes > 0)
    for _ in range(50):
        await turns()
        assert world.proxy.unread.bytes <= 256 << 10
    client.transport.resume_reading()
    client.widen()
    await client.size(len(data))
    assert client.received == data
    client.close()
    at_pod.close()


async def test_many_bytes_are_copied_where_a_sandbox_forbids_the_splice(
    world: TcpWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(*_: object, **__: object) -> int:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "splice", forbidden)
    [pod] = await world.up()
    client = await world.client()
    client.send(b"x")
    await until(lambda: pod.connections and pod.connections[0].received)
    data = bytes(range(256)) * 64 * 1024
    for _ in range(2):
        pod.connections[0].send(data)
    await client.size(2 * len(data))
    assert client.received == 2 * data
    client.close()
    pod.connections[0].close()


@both_loops
async def test_a_slow_reader_that_has_ended_gets_all_bytes(world: TcpWorld) -> None:
    [pod] = await world.up()
    client = await world.client(receive_buffer=4096)
    client.send(b"x")
    client.end_sending()
    await until(lambda: pod.connections and pod.connections[0].eof)
    client.transport.pause_reading()
    [at_pod] = pod.connections
    data = b""
    while not world.proxy.unread.bytes:
        data += bytes(100_000)
        at_pod.send(bytes(100_000))
        await turns()
    assert not at_pod.transport.get_write_buffer_size()  # so the kernel has the end as well
    at_pod.end_sending()
    await turns(50)
    assert world.outcomes() == {}
    client.transport.resume_reading()
    client.widen()
    await client.size(len(data))
    await client.ended()
    assert not client.reset
    await until(lambda: world.outcomes() == {"served": 1})


async def test_only_bytes_keep_a_workload_awake_where_that_is_asked(world: TcpWorld) -> None:
    [pod] = await world.up(connections=BYTES)
    client = await world.client()
    client.send(b"x")
    await until(lambda: pod.connections and pod.connections[0].received)
    [at_pod] = pod.connections
    assert world.load == 1
    await world.clock_moves(1.1)
    assert world.load == 0
    assert world.throttler.slots.in_flight == 1
    at_pod.send(b"y")
    await client.take(1)
    assert world.load == 1
    await world.clock_moves(0.7)
    client.send(b"z")
    await at_pod.take(2)
    await world.clock_moves(0.7)
    assert world.load == 1
    await world.clock_moves(0.7)
    assert world.load == 0
    world.put(ending=(pod,))  # the last pod: it still gets connections
    world.put()
    await client.ended()
    assert not client.reset
    assert world.outcomes() == {"served": 1}
    client.close()
    await at_pod.ended()
    assert not at_pod.reset


async def test_an_idle_connection_ends_as_soon_as_its_pod_does(world: TcpWorld) -> None:
    [pod] = await world.up(connections=BYTES)
    client = await world.client()
    client.send(b"x")
    await until(lambda: pod.connections and pod.connections[0].received)
    world.put()
    await turns()
    assert not client.eof
    await client.ended()
    assert world.now_since_start() == pytest.approx(1.0, abs=0.05)
    client.close()


async def test_bytes_that_a_slow_client_has_not_read_outlive_the_draining_pod(
    world: TcpWorld,
) -> None:
    [pod] = await world.up(connections=BYTES)
    client = await world.client(receive_buffer=4096)
    client.send(b"x")
    await until(lambda: pod.connections and pod.connections[0].received)
    client.transport.pause_reading()
    data = bytes(range(256)) * 64 * 1024
    pod.connections[0].send(data)
    await until(lambda: world.proxy.unread.bytes > 0)
    world.put()
    await world.in_time(lambda: world.now_since_start() > 1.5)
    client.widen()
    client.transport.resume_reading()
    await client.size(len(data))
    assert client.received == data
    await client.ended()
    client.close()


@both_loops
async def test_an_idle_connection_has_no_pipe(world: TcpWorld) -> None:
    [pod] = await world.up()
    client = await world.client(receive_buffer=4096)
    client.send(b"x")
    await until(lambda: pod.connections and pod.connections[0].received)
    before = len(os.listdir("/proc/self/fd"))
    for slow in (True, False):
        client.received.clear()
        if slow:
            client.transport.pause_reading()
        data = bytes(16 << 20)
        pod.connections[0].send(data)
        if slow:
            await until(lambda: world.proxy.unread.bytes > 0)
            client.widen()
            client.transport.resume_reading()
        await client.size(len(data))
        assert len(os.listdir("/proc/self/fd")) == before
    client.close()
    pod.connections[0].close()


async def test_a_half_closed_client_that_breaks_is_found(world: TcpWorld) -> None:
    [pod] = await world.up()
    client = await world.client()
    client.send(b"x")
    client.end_sending()
    await until(lambda: pod.connections and pod.connections[0].eof)
    client.abort()
    await world.in_time(lambda: world.outcomes() == {"cancelled": 1})
    pod.connections[0].send(b"y")  # the loop reports no reset behind an end
    await until(lambda: pod.connections[0].reset)


@pytest.mark.parametrize("waits", [True, False])
async def test_the_drain(world: TcpWorld, waits: bool, caplog: pytest.LogCaptureFixture) -> None:
    if waits:
        await world.asleep()
    else:
        await world.up()
    opened = await world.client()
    client = await world.client()
    client.send(b"x")
    await until(lambda: world.load == 1)
    await turns()
    for connection in world.proxy.connections:
        connection.shutdown()
    if waits:
        await opened.ended()  # no byte has come, so nothing is lost
    await turns()
    assert not client.eof
    world.proxy.drain()
    await turns()
    assert client.eof is waits
    assert world.proxy.force_end() == (1 if waits else 2)
    await client.ended()
    assert not client.reset
    assert world.outcomes() == {"draining": 1 if waits else 2}
    text = "no pod was free in time" if waits else "this activator ends"
    assert f"closed a connection: draining; {text}" in caplog.text
    for each in (client, opened):
        each.abort()


async def test_no_request_of_http_reaches_a_tcp_service(world: TcpWorld) -> None:
    [pod] = await world.up()
    port = world.server.sockets[0].getsockname()[1]
    _, writer = None, socket.create_connection(("127.0.0.1", port))
    writer.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nActivator-Service: ns/rev\r\n\r\n")
    writer.setblocking(False)
    found = b""

    def read() -> bool:
        nonlocal found
        try:
            found += writer.recv(1000)
        except BlockingIOError:
            return False
        return b"404 Not Found" in found

    await until(read)
    writer.close()
    assert pod.connections == []
