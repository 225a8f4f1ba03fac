"""Connections of HTTP/2 to pods: shared, and closed when nobody needs them."""

from __future__ import annotations

from activator.proxy.pool import IDLE_TIMEOUT
from tests.activator.proxy.world import until


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
    (pool,) = pools._http2.values()
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
