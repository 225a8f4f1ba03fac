"""Attempts to open a connection, for one request or for all that wait; failures as text."""

from __future__ import annotations

import asyncio
import os
import resource
import threading
from math import inf

import pytest

from activator.proxy.http2 import frames
from activator.proxy.http2.connection import Http2Connection
from activator.proxy.http2.frame_reader import Http2Setting, write_settings
from activator.proxy.http2.frames import ErrorCode
from activator.proxy.pods import dial
from activator.proxy.pods.dial import connect
from activator.proxy.pods.http1 import Http1PodConnection
from activator.proxy.pods.pool import PoolLimits
from tests.activator.proxy.http2.peers import Message, Peer, answer_hello
from tests.activator.proxy.pods.test_pool import Dialer, probes_of
from tests.activator.proxy.world import until
from tests.conftest import both_loops, in_virtual_time
from throttler.backends import PANIC_PAUSE

pytestmark = both_loops


async def test_a_refused_dial_says_so(world):
    pod = await world.serving()
    await pod.refuse()
    dialer = Dialer()
    probes_of(world).dial(dialer, inf)
    await until(lambda: dialer.failures)
    assert dialer.failures == [("connection refused", "connect-failed")]


@in_virtual_time
async def test_a_dial_without_a_response_ends_in_time(world):
    hole = await world.unreachable()
    world.revise(hole)
    dialer = Dialer()
    probes_of(world).dial(dialer, 0.1)
    while not dialer.failures:
        await world.clock_moves(0.02)
    assert dialer.failures == [("connect timed out after 0.1 s", "connect-timeout")]
    assert world.pools.resources.connections == 0


@in_virtual_time
async def test_a_connect_that_succeeds_as_its_time_ends_leaves_no_connection(new_world):
    """The loop stalls: afterwards the connection is open, and the time-out is due as well."""
    world = await new_world(pool=PoolLimits(connect_timeout=0.05))
    await world.serving()
    for _ in range(3):
        dialer = Dialer()
        probes_of(world).dial(dialer, inf)
        world.loop.call_soon(threading.Event().wait, 0.1)
        await world.in_time(lambda dialer=dialer: dialer.failures or dialer.upstreams)
        for upstream in dialer.upstreams:
            upstream.cancel()
    await until(lambda: not world.pools.resources.connections)


async def test_an_http2_connection_that_opens_as_its_time_ends_sends_nothing(http2, monkeypatch):
    """Its first frames wait for the end of the loop's turn, and uvloop has closed the handle."""
    attempts: list[asyncio.Task[None]] = []
    opened, received = Http2Connection.connection_made, Http2Connection.data_received

    async def timed(*arguments) -> None:
        task = asyncio.current_task()
        assert task is not None
        attempts.append(task)
        try:
            await connect(*arguments)
        except asyncio.CancelledError:
            task.uncancel()
            raise TimeoutError("connect timed out") from None

    def expired(self, transport) -> None:
        if len(attempts) == 1:
            attempts[0].cancel()
        opened(self, transport)

    def late(self, data) -> None:
        if len(attempts) != 1:  # else its SETTINGS would take the first frames along
            received(self, data)

    await http2.serving()
    client = await http2.client()
    stream = client.ask()
    monkeypatch.setattr(dial, "connect", timed)
    monkeypatch.setattr(Http2Connection, "connection_made", expired)
    monkeypatch.setattr(Http2Connection, "data_received", late)
    response = await client.answer(stream)
    assert response.body == b"hello"
    assert http2.world.errors == []  # the pod got no request in HTTP/1


async def test_a_dial_that_is_dropped_at_once_is_a_failure(world, monkeypatch):
    """The proxy may notice the close before the dialer gets the connection, and not later."""
    await world.serving()
    opened = Http1PodConnection.connection_made

    def dropped(self, transport) -> None:
        opened(self, transport)
        transport.abort()

    monkeypatch.setattr(Http1PodConnection, "connection_made", dropped)
    dialer = Dialer()
    probes_of(world).dial(dialer, inf)
    await until(lambda: dialer.failures or dialer.upstreams)
    assert dialer.failures == [("the pod closed the new connection", "connect-failed")]


@pytest.mark.parametrize("wanted", [True, False])
async def test_a_local_shortage_is_waited_out_and_says_nothing_about_the_pod(world, wanted):
    await world.serving()
    pool, dialer = probes_of(world), Dialer()
    dialer.wants_connection = wanted
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    next_file = os.dup(0)
    os.close(next_file)
    resource.setrlimit(resource.RLIMIT_NOFILE, (next_file, hard))
    try:
        pool.dial(dialer, inf)
        await world.clock_moves(0.2)
        assert dialer.upstreams == []
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if wanted:
        await until(lambda: dialer.upstreams)
        assert dialer.failures == []
        dialer.upstreams[0].cancel()
    else:
        await world.in_time(lambda: dialer.failures)
        assert dialer.failures == [("too many open files", "connect-failed")]


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


async def test_a_burst_waits_until_the_pod_has_said_how_many_streams_it_takes(http2):
    """gRPC servers end streams beyond their limit by ENHANCE_YOUR_CALM, as if they were spam."""
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


@in_virtual_time
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
    http2.world.errors.clear()  # the library rejects a request in HTTP/1


@in_virtual_time
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
    none = frames.settings(write_settings(((Http2Setting.MAX_CONCURRENT_STREAMS, 0),)))
    pod.greeting, pod.on_message = none, refuse
    if not answers:  # the connection ends, perhaps before a request is on it
        pod.greeting += frames.goaway(0, ErrorCode.NO_ERROR)
        pod.on_message = lambda *_: None
    client = await http2.client()
    streams = [client.ask(b"/", b"POST") for _ in range(20)]
    await until(lambda: http2.world.waiting == 20)
    before = len(pod.connections)
    assert before < 10
    assert (await passes()) / PANIC_PAUSE + 1 >= len(pod.connections) - before
    pod.greeting, pod.on_message = b"", answer_hello
    await passes()
    for stream in streams:
        assert (await client.answer(stream)).status == 200
