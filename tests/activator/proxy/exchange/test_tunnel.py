"""After a 101: bytes both ways, each side no faster than the other reads."""

from __future__ import annotations

import pytest

from tests.activator.proxy.world import (
    Client,
    Pod,
    PodConnection,
    about,
    answer_whole,
    ok,
    request,
    turns,
    until,
)
from tests.conftest import both_loops, in_virtual_time, on_uvloop
from throttler.model import Policies

pytestmark = both_loops

WEBSOCKET = b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: k\r\n"
SWITCH = (
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Accept: a\r\n\r\n"
)
#: The client's view of it.
SWITCHED = (
    b"HTTP/1.1 101 Switching Protocols\r\nSec-WebSocket-Accept: a\r\n"
    b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
)
LARGE = 12 << 20
#: A connection to a pod may keep 32 MiB of unread bytes.
DOWNLOAD = 48 << 20


def switch(connection: PodConnection) -> None:
    """Send 101, and then echo each piece in brackets."""
    if not connection.raw:
        connection.raw = True
        connection.received = bytearray()
        connection.write(SWITCH)
    elif connection.received:
        connection.write(b"<" + connection.received + b">")
        connection.received = bytearray()


@pytest.fixture
async def pod(world) -> Pod:
    pod = await world.serving(container_concurrency=1)
    pod.on_data = switch
    return pod


async def opened(world) -> Client:
    client = await world.client()
    client.send(request(b"/ws", fields=WEBSOCKET))
    assert await client.take(len(SWITCHED)) == SWITCHED
    return client


async def test_bytes_pass_both_ways_and_the_slot_is_held(world, pod):
    client = await opened(world)
    (seen,) = pod.requests
    assert seen.all(b"upgrade") == [b"websocket"]
    assert seen.all(b"sec-websocket-key") == [b"k"]
    client.send(b"\x00\xffGET / HTTP/1.1\r\n\r\n")
    assert await client.take(22) == b"<\x00\xffGET / HTTP/1.1\r\n\r\n>"
    pod.connections[0].write(b"from the pod")
    assert await client.take(12) == b"from the pod"
    assert world.in_flight == 1

    client.close()

    await world.idle()
    await until(lambda: not pod.open)
    assert world.counters().outcomes["served"] == 1


async def test_by_host_alone_too(world, pod):
    client = await world.client()
    client.send(b"GET / HTTP/1.1\r\nHost: rev.ns.svc.cluster.local\r\n" + WEBSOCKET + b"\r\n")
    assert await client.take(len(SWITCHED)) == SWITCHED


async def test_what_the_client_sends_early_waits_for_the_101(world, pod):
    pod.on_data = lambda connection: None
    client = await world.client()
    client.send(request(b"/ws", fields=WEBSOCKET) + b"early")
    await until(lambda: pod.requests)
    client.send(b" bird")
    await turns(30)
    assert pod.connections[0].received.endswith(b"\r\n\r\n")

    pod.on_data = switch
    switch(pod.connections[0])

    assert await client.take(len(SWITCHED)) == SWITCHED
    assert await client.take(12) == b"<early bird>"


async def test_what_the_pod_sends_behind_its_101_passes(world, pod):
    def both(connection: PodConnection) -> None:
        connection.raw = True
        connection.write(SWITCH + b"hello")

    pod.on_data = both
    client = await opened(world)
    assert await client.take(5) == b"hello"


async def test_what_was_sent_early_is_the_next_request_where_the_pod_declines(world, pod):
    pod.on_data = answer_whole
    pod.answer = lambda seen: ok(seen.target)
    client = await world.client()
    client.send(request(b"/ws", fields=WEBSOCKET) + request(b"/next"))
    assert (await client.answer()).body == b"/ws"
    assert (await client.answer()).body == b"/next"


@pytest.mark.parametrize(
    "answer",
    [
        SWITCH.replace(b"Upgrade: websocket", b"Upgrade: other"),
        SWITCH.replace(b"Upgrade: websocket\r\n", b""),
        SWITCH.replace(b"Connection: Upgrade\r\n", b""),
    ],
)
async def test_another_protocol_than_asked_for_is_a_502(world, pod, answer):
    pod.on_data = lambda connection: connection.write(answer)
    client = await world.client()
    client.send(request(b"/ws", fields=WEBSOCKET) + b"early")
    assert (await client.answer()).status == 502
    await until(lambda: not pod.open)
    assert b"early" not in pod.connections[0].received
    client.abort()


@pytest.mark.parametrize("end", ["close", "reset"])
async def test_a_pod_that_leaves_ends_the_tunnel(world, pod, end):
    client = await opened(world)
    getattr(pod.connections[0], end)()
    await client.ended()
    client.close()
    await world.idle()


async def test_a_client_that_breaks_ends_the_tunnel(world, pod):
    client = await opened(world)
    client.abort()
    await world.idle()
    await until(lambda: not pod.open)


async def test_a_half_close_passes_and_the_other_way_stays_open(world, pod):
    pod.on_data = lambda connection: switch(connection) if not connection.raw else None
    keep_half_open(pod)
    client = await opened(world)
    client.end_sending()
    await until(lambda: pod.connections[0].eof)

    pod.connections[0].write(b"still here")
    assert await client.take(10) == b"still here"
    pod.connections[0].close()
    await client.ended()
    client.close()


def keep_half_open(pod: Pod) -> None:
    """Keep the pod's connections open when their client ends its side."""

    def on_connect(connection: PodConnection) -> None:
        def eof_received() -> bool:
            connection.eof = True
            return True

        connection.eof_received = eof_received  # type: ignore[method-assign] # for this test

    pod.on_connect = on_connect


# In real time: the kernel, too, waits now and then where the window is small.
@on_uvloop
async def test_a_client_that_reads_slowly_stops_the_pod(world, pod):
    client = await world.client(4096)
    client.send(request(b"/ws", fields=WEBSOCKET))
    await client.take(len(SWITCHED))
    client.transport.pause_reading()
    pod.connections[0].write(b"x" * DOWNLOAD)
    await turns(300)
    assert pod.connections[0].transport.get_write_buffer_size() > 0

    client.transport.resume_reading()
    await client.size(DOWNLOAD)


async def test_a_pod_that_reads_slowly_stops_the_client(world, pod):
    client = await opened(world)
    connection = pod.connections[0]
    connection.transport.pause_reading()
    pod.on_data = lambda connection: None
    client.send(b"x" * 2 * LARGE)
    await turns(300)
    assert client.transport.get_write_buffer_size() > 0

    connection.transport.resume_reading()
    await until(lambda: len(connection.received) == 2 * LARGE)


@in_virtual_time
async def test_the_deadline_of_the_revision_ends_a_tunnel_too(world, pod):
    world.revise(pod, container_concurrency=1, timeout=0.3)
    client = await opened(world)
    started = world.now()
    await client.ended()
    assert world.now() - started == about(0.3, within=0.15)
    await until(lambda: not pod.open)


@in_virtual_time
async def test_a_tunnel_measures_its_pod_by_the_time_until_the_101(world):
    pods = [await world.pod() for _ in range(2)]
    world.revise(*pods, policies=Policies("ewma-latency"))
    await until(lambda: world.revision().statistics().healthy == 2)
    for pod in pods:
        pod.on_data = lambda connection: (
            switch if b"/ws" in connection.received else answer_whole
        )(connection)
    await world.clock_moves(1.0)
    client = await opened(world)
    (tracker,) = (pod for pod in world.revision().backends.pods.values() if pod.in_flight)
    assert tracker.last_response_at == about(world.now(), within=0.1)
    await world.clock_moves(60.0)
    client.close()
    await until(lambda: world.in_flight == 0)
    for _ in range(30):
        assert (await world.ask()).status == 200
    (held,) = (pod for pod in pods if pod.endpoint == tracker.endpoint)
    assert len(held.requests) > 5, "the duration of the tunnel is no latency"


@in_virtual_time
async def test_a_101_ends_the_errors_of_a_pod(world, pod):
    pod.on_data = answer_whole
    pod.answer = b"HTTP/1.1 503 X\r\nContent-Length: 0\r\n\r\n"
    assert (await world.ask()).status == 503
    (tracker,) = world.revision().backends.pods.values()
    assert tracker.ejection.consecutive_errors == 1
    pod.on_data = switch
    await opened(world)
    assert tracker.ejection.consecutive_errors == 0
