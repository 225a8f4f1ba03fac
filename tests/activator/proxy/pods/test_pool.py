"""The pools of connections to pods, and the limits that all of them share."""

from __future__ import annotations

import socket
from math import inf
from typing import Any

from h2.settings import SettingCodes

from activator.proxy.pods.pool import IDLE_TIMEOUT, SPARE_TIMEOUT, PoolLimits
from activator.proxy.pods.probes import ProbePools
from tests.activator.proxy.world import (
    NAME,
    NAMESPACE,
    TO_REVISION,
    PodConnection,
    answer_whole,
    ok,
    request,
    turns,
    until,
)
from tests.conftest import both_loops
from throttler.model import AppProtocol, Endpoint, ListedEndpoints, RevisionID


def pools_of(world):
    """Return the pools that have connections in HTTP/2."""
    pools = [world.pools.of(tracker) for tracker in world.revision().backends.pods.values()]
    return [pool for pool in pools if pool.shared]


@both_loops
async def test_a_connection_that_is_idle_is_closed(http2):
    pod = await http2.serving()
    client = await http2.client()
    await client.answer(client.ask())
    pools = http2.world.pools
    pools.close_expired()
    assert pools.resources.connections == 1
    (pool,) = pools_of(http2.world)
    pool.close_idle(http2.world.now() + IDLE_TIMEOUT)
    await until(lambda: pod.connections[0].lost)
    assert pools.resources.connections == 0


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


class Dialer:
    """Record the result of a dial."""

    wants_connection = True

    def __init__(self) -> None:
        self.upstreams: list[Any] = []
        self.failures: list[tuple[str, str]] = []

    def on_dialed(self, upstream) -> None:
        self.upstreams.append(upstream)

    def on_dial_failed(self, error: str, cause: str) -> None:
        self.failures.append((error, cause))


def tracker_of(world):
    (tracker,) = world.revision().backends.pods.values()
    return tracker


def pool_of(world):
    return world.pools.of(tracker_of(world))


def probes_of(world):
    """Return the same connections in the form that a probe gets."""
    return ProbePools(world.pools).of(tracker_of(world))


async def dialed(pool, count: int = 1):
    dialer = Dialer()
    for _ in range(count):
        pool.dial(dialer, inf)
    await until(lambda: len(dialer.upstreams) == count)
    return dialer.upstreams


async def test_the_connection_that_was_used_last_is_used_first(world):
    await world.serving()
    pool = probes_of(world)
    first, second = await dialed(pool, 2)
    first.release()
    second.release()
    assert pool.take().side is second.side
    assert pool.take().side is first.side
    assert pool.take() is None
    assert world.pools.resources.idle == 0
    for upstream in (first, second):
        upstream.cancel()


async def test_a_request_goes_over_an_idle_connection_of_its_pod(world):
    pod = await world.serving()
    for _ in range(5):
        await world.ask()
    assert len(pod.connections) == 1
    assert world.pools.resources.connections == world.pools.resources.idle == 1


@both_loops
async def test_a_connection_that_the_pod_closes_leaves_the_pool(world):
    pod = await world.serving()
    await world.ask()
    pod.connections[0].close()
    await until(lambda: world.pools.resources.connections == 0)
    assert world.pools.resources.idle == 0
    assert pool_of(world).take() is None


@both_loops
async def test_a_close_that_the_loop_has_not_seen_yet_is_noticed(world):
    pod = await world.serving()
    await world.ask()
    pool = pool_of(world)
    pod.connections[0].transport.abort()
    await until(lambda: pod.connections[0].closed)  # the loop may learn of it only later
    assert pool.take_alive() is None


async def test_idle_connections_are_closed_after_their_time(world):
    pod = await world.serving()
    await world.ask()
    clock = world.driver.clock
    world.pools.resources.clock = lambda: clock() + IDLE_TIMEOUT + 1
    world.pools.close_expired()
    await until(lambda: not pod.open)
    assert world.pools.resources.connections == 0
    assert (await world.ask()).status == 200


async def test_connections_that_were_used_lately_are_kept(world):
    pod = await world.serving()
    await world.ask()
    clock = world.driver.clock
    world.pools.resources.clock = lambda: clock() + IDLE_TIMEOUT - 1
    world.pools.close_expired()
    await turns(20)
    assert len(pod.open) == 1


async def test_idle_connections_that_were_closed_count_no_more(new_world):
    """Otherwise closed connections would use up the limit of idle connections."""
    world = await new_world(pool=PoolLimits(max_idle=1))
    pod = await world.serving()

    async def keeps_its_connection() -> None:
        for _ in range(2):
            assert (await world.ask()).status == 200
        assert world.pools.resources.idle == len(pod.open) == 1

    await keeps_its_connection()
    await world.clock_moves(IDLE_TIMEOUT + 1)
    world.pools.close_expired()
    await until(lambda: not pod.open)
    assert world.pools.resources.idle == 0
    await keeps_its_connection()
    world.list()
    await until(lambda: not pod.open)
    assert world.pools.resources.idle == 0
    world.list(pod)
    await keeps_its_connection()
    assert len(pod.connections) == 3


async def test_a_pod_that_is_gone_keeps_no_connection(world):
    pod = await world.serving()
    await world.ask()
    world.list()
    await until(lambda: not pod.open)
    assert world.pools.resources.connections == 0


async def test_a_pod_that_goes_during_a_response_keeps_no_connection_after(world):
    pod = await world.serving()
    pod.on_data = lambda connection: None
    client = await world.client()
    client.send(request())
    await until(lambda: pod.requests)
    world.list()
    pod.connections[0].write(ok())
    assert (await client.answer()).status == 200
    await until(lambda: not pod.open)


@both_loops
async def test_kernel_keep_alive_is_on(world):
    import socket

    await world.serving()
    (upstream,) = await dialed(probes_of(world))
    sock = upstream.side.transport.get_extra_info("socket")
    assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
    upstream.cancel()


def _answer_and_close(connection: PodConnection) -> None:
    connection.write(ok())
    connection.close()


@both_loops
async def test_a_pod_that_closes_behind_each_response_costs_nothing_but_connections(world):
    pod = await world.serving()
    pod.on_data = _answer_and_close
    for method in (b"GET", b"POST", b"POST", b"GET"):
        assert (await world.ask(request(b"/", method, body=b"x"), method)).status == 200
    assert len(pod.requests) == 4


async def test_an_address_that_another_revision_has_by_now_gets_nothing_of_the_first(world):
    """Its kept connections lead to another pod."""
    pod = await world.serving()
    assert (await world.ask()).status == 200
    kept = pod.connections[0]
    world.revise(name="other")
    other = RevisionID(NAMESPACE, "other")
    taken = ListedEndpoints(frozenset([Endpoint(pod.endpoint.address, "another pod")]))
    world.healthy = lambda tracker: True
    world.driver.set_endpoints(other, {AppProtocol.HTTP1: taken})
    await until(lambda: kept.closed, "the connection to the former pod is closed")

    client = await world.client()
    client.send(request())
    await until(lambda: world.waiting == 1)
    fields = TO_REVISION.replace(b"Revision: rev", b"Revision: other")
    answer = await world.ask(b"GET /theirs HTTP/1.1\r\nHost: a\r\n%b\r\n" % fields)

    assert answer.status == 200
    assert [seen.target for seen in pod.requests] == [b"/", b"/theirs"]
    client.abort()


async def test_an_address_of_another_pod_of_the_revision_inherits_nothing(world):
    pod = await world.serving()
    assert (await world.ask()).status == 200
    world.healthy = lambda tracker: False
    replaced = ListedEndpoints(frozenset([Endpoint(pod.endpoint.address, "another pod")]))
    world.driver.set_endpoints(RevisionID(NAMESPACE, NAME), {AppProtocol.HTTP1: replaced})
    await until(lambda: pod.connections[0].closed)
    client = await world.client()
    client.send(request())
    await until(lambda: world.waiting == 1)
    assert len(pod.requests) == 1
    client.abort()


async def test_no_more_are_kept_idle_than_the_limit_of_all_pods_says(new_world):
    world = await new_world(pool=PoolLimits(max_idle=5))
    pod = await world.serving()
    other = await world.pod()
    world.revise(other, name="other")
    await until(lambda: world.revision("other").statistics().healthy == 1)
    for name in (b"rev", b"other"):
        clients = [await world.client() for _ in range(4)]
        for target in (pod, other):
            target.on_data = lambda connection: None
        for client in clients:
            client.send(request().replace(b"Revision: rev", b"Revision: " + name))
        target = pod if name == b"rev" else other
        await until(lambda target=target: len([c for c in target.open if c.requests]) == 4)
        for connection in target.open:
            connection.write(ok())
        for client in clients:
            assert (await client.answer()).status == 200
    await turns(20)
    assert len(pod.open) == 4
    assert len(other.open) == 1
    assert world.pools.resources.idle == world.pools.resources.connections == 5


async def test_a_pod_keeps_as_many_idle_as_were_used_in_the_last_seconds(new_world):
    world = await new_world(pool=PoolLimits(kept_per_pod=2))
    pod = await world.serving()

    async def serve(count: int) -> None:
        """Serve so many requests at a time."""
        pod.on_data = lambda connection: None
        before = len(pod.requests)
        clients = [await world.client() for _ in range(count)]
        for client in clients:
            client.send(request())
        await until(lambda: len(pod.requests) == before + count)
        for connection in pod.open:
            connection.answered = len(connection.requests) - 1
            pod.on_data = answer_whole
            answer_whole(connection)
        for client in clients:
            assert (await client.answer()).status == 200

    for _ in range(3):
        await serve(20)
        world.pools.close_expired()
    assert len(pod.connections) == len(pod.open) == 20, "no request needs a new connection"
    for _ in range(6):
        await serve(5)
        await world.clock_moves(SPARE_TIMEOUT / 4)
        world.pools.close_expired()
    await until(lambda: len(pod.open) == 5)
    await world.clock_moves(SPARE_TIMEOUT + 1)
    world.pools.close_expired()
    world.pools.close_expired()
    await until(lambda: len(pod.open) == 2)
    assert world.pools.resources.idle == 2
    assert len(pod.connections) == 20


async def test_idle_connections_are_closed_of_one_pod_after_the_other(new_world):
    world = await new_world()
    pod, other = await world.serving(), await world.pod()
    world.revise(other, name="other")
    await until(lambda: world.revision("other").statistics().healthy == 1)
    for target, name, count in ((pod, b"rev", 2), (other, b"other", 1)):
        target.on_data = lambda connection: None
        clients = [await world.client() for _ in range(count)]
        for client in clients:
            client.send(request().replace(b"Revision: rev", b"Revision: " + name))
        await until(lambda t=target, n=count: len([c for c in t.open if c.requests]) == n)
        for connection in target.open:
            if connection.requests:
                connection.write(ok())
        for client in clients:
            assert (await client.answer()).status == 200
    pools = [
        world.pools.of(next(iter(world.revision(name).backends.pods.values())))
        for name in ("rev", "other")
    ]
    world.pools.close_expired()
    left = [[len(pool.idle) for pool in pools]]
    while world.pools.resources.close_one_idle():
        left.append([len(pool.idle) for pool in pools])
    assert [sum(counts) for counts in left] == list(range(sum(left[0]), -1, -1))
    assert [min(counts) for counts in left[:3]] == [1, 1, 0], "each time of another pod"


async def test_a_pool_without_an_idle_connection_is_not_searched_twice(new_world):
    world = await new_world()
    await world.serving()
    pool, resources = (
        world.pools.of(next(iter(world.revision().backends.pods.values()))),
        world.pools.resources,
    )
    pool.close_idle()
    resources.with_idle(pool)
    assert pool.may_have_idle
    assert not resources.close_one_idle()
    assert not pool.may_have_idle
