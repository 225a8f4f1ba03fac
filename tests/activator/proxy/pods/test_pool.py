"""HTTP/2 connections to pods: requests share them; unused ones close."""

from __future__ import annotations

import socket

from h2.settings import SettingCodes

from activator.proxy.pods.pool import IDLE_TIMEOUT
from tests.activator.proxy.world import until
from tests.conftest import both_loops


def pools_of(world):
    """Return the pools that have connections in HTTP/2."""
    pools = [world.pools.of(tracker) for tracker in world.revision().pods()]
    return [pool for pool in pools if pool.shared]


@both_loops
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


@both_loops
async def test_the_kernel_closes_connections_to_a_vanished_pod(http2):
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
