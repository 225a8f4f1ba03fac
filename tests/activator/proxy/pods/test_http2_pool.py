"""Connections of HTTP/2 to pods: shared, and closed when nobody needs them."""

from __future__ import annotations

import socket

import pytest
from h2.settings import SettingCodes

from activator.proxy.http2 import frames
from activator.proxy.http2.errors import ErrorCode
from activator.proxy.http2.settings import Setting, write_settings
from activator.proxy.pods.pools import IDLE_TIMEOUT
from tests.activator.proxy.http2.peers import Message, Peer, answer_hello
from tests.activator.proxy.http2.test_slowness import virtually
from tests.activator.proxy.world import until
from throttler.outliers import PAUSE


def pools_of(world):
    """The pools that have connections in HTTP/2."""
    pools = [world.pools.of(tracker) for tracker in world.revision().pods()]
    return [pool for pool in pools if pool.shared]


async def test_requests_that_come_while_a_connection_opens_share_it(http2):
    pod = await http2.pod()
    http2.list()
    client = await http2.client()
    streams = [client.ask() for _ in range(100)]
    await until(lambda: http2.world.waiting == 100)
    http2.list(pod)
    for stream in streams:
        assert (await client.answer(stream)).body == b"hello"
    assert len(pod.connections) == 1


async def test_a_connection_that_is_idle_is_closed(http2):
    pod = await http2.serving()
    client = await http2.client()
    await client.answer(client.ask())
    pools = http2.world.pools
    pools.close_expired()
    assert pools.connections == 1
    (pool,) = pools_of(http2.world)
    pool.close_idle(http2.world.now() + IDLE_TIMEOUT)
    await until(lambda: pod.connections[0].lost)
    assert pools.connections == 0


async def test_what_runs_on_a_pod_that_leaves_is_finished(http2):
    pod = await http2.serving()
    pod.on_message = lambda *_: None
    client = await http2.client()
    stream = client.ask()
    await until(lambda: pod.requests and pod.requests[0].ended)
    http2.list()
    pod.connections[0].headers(1, [(b":status", b"200")], end=True)
    assert (await client.answer(stream)).status == 200
    await until(lambda: pod.connections[0].lost)


async def test_the_kernel_is_told_to_give_up_a_pod_that_has_vanished(http2):
    await http2.serving()
    client = await http2.client()
    await client.answer(client.ask())
    ((connection,),) = (pool.shared for pool in pools_of(http2.world))
    sock = connection.link.transport.get_extra_info("socket")
    assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 20_000
    assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
    assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 15


async def test_a_pod_that_takes_no_streams_any_more_is_asked_on_a_new_connection(http2):
    pod = await http2.serving()
    client = await http2.client()
    await client.answer(client.ask())
    (first,) = pod.connections
    first.h2.update_settings({SettingCodes.MAX_CONCURRENT_STREAMS: 0})
    first.flush()
    await until(lambda: first.lost)
    assert (await client.answer(client.ask())).status == 200
    assert len(pod.connections) == 2


async def test_a_pod_that_takes_one_stream_at_a_time_serves_all(http2):
    pod = await http2.serving()
    pod.settings = {"streams": 1}
    client = await http2.client()
    assert (await client.answer(client.ask())).status == 200
    streams = [client.ask() for _ in range(20)]
    for stream in streams:
        assert (await client.answer(stream)).status == 200


async def test_a_burst_waits_until_the_pod_has_said_how_many_streams_it_takes(http2):
    """Servers of gRPC end what is beyond their number by ENHANCE_YOUR_CALM, as if it were spam."""
    at_once = []

    def answer(peer: Peer, stream: int, message: Message) -> None:
        if message.ended:
            at_once.append(peer.h2.open_inbound_streams)
            answer_hello(peer, stream, message)

    pod = await http2.pod()
    pod.settings, pod.on_message = {"streams": 3, "late": 0.01}, answer
    http2.list()
    client = await http2.client()
    streams = [client.ask() for _ in range(30)]
    await until(lambda: http2.world.waiting == 30)
    http2.list(pod)
    while len(at_once) < 30:
        await http2.world.clock_moves(0.01)
    for stream in streams:
        assert (await client.answer(stream)).status == 200
    assert max(at_once) == 3


@virtually
async def test_a_pod_that_is_late_with_its_settings_is_asked_after_a_second(http2):
    pod = await http2.serving()
    pod.settings = {"late": 60}
    client = await http2.client()
    began = http2.world.now()
    stream = client.ask()
    while stream not in client.messages:
        await http2.world.clock_moves(0.01)
    assert (await client.answer(stream)).body == b"hello"
    assert http2.world.now() - began == pytest.approx(1.0, abs=0.2)


async def test_a_pod_that_drops_new_connections_has_looked_at_no_request(http2):
    pod = await http2.serving(timeout=300)
    pod.greeting = None
    client = await http2.client()
    stream = client.ask(b"/", b"POST")
    await until(lambda: len(pod.connections) == 1)
    pod.greeting = b""
    while stream not in client.messages:
        await http2.world.clock_moves(0.005)
    assert (await client.answer(stream)).status == 200


@pytest.mark.parametrize("answers", [False, True], ids=["lost", "refused"])
async def test_a_pod_that_takes_no_streams_is_dialled_at_a_pace_until_it_does(http2, answers):
    def refuse(peer: Peer, stream: int, message: Message) -> None:
        if message.ended and message.reset is None:
            peer.h2.reset_stream(stream, ErrorCode.REFUSED_STREAM)
            peer.flush()

    async def passes() -> float:
        began = http2.world.now()
        for _ in range(40):
            await http2.world.clock_moves(0.005)
        return http2.world.now() - began

    pod = await http2.serving(timeout=300)
    none = frames.settings(write_settings(((Setting.MAX_CONCURRENT_STREAMS, 0),)))
    pod.greeting, pod.on_message = none, refuse
    if not answers:  # the connection is over, perhaps before a request is on it
        pod.greeting += frames.goaway(0, ErrorCode.NO_ERROR)
        pod.on_message = lambda *_: None
    client = await http2.client()
    streams = [client.ask(b"/", b"POST") for _ in range(20)]
    await until(lambda: http2.world.waiting == 20)
    before = len(pod.connections)
    assert before < 10
    assert (await passes()) / PAUSE + 1 >= len(pod.connections) - before
    pod.greeting, pod.on_message = b"", answer_hello
    await passes()
    for stream in streams:
        assert (await client.answer(stream)).status == 200
