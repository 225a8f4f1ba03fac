"""Connections to pods: opened on demand, kept while idle, the newest used first, limited."""

from __future__ import annotations

from math import inf
from typing import Any

from activator.proxy.pods.pool import IDLE_TIMEOUT, PoolLimits
from activator.proxy.pods.probes import ProbePools
from tests.activator.proxy.world import (
    NAME,
    NAMESPACE,
    TO_REVISION,
    PodConnection,
    ok,
    request,
    turns,
    until,
)
from tests.conftest import both_loops
from throttler.model import AppProtocol, Endpoint, ListedEndpoints, RevisionID


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
    (tracker,) = world.revision().pods()
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
    assert pool.take().pod is second.pod
    assert pool.take().pod is first.pod
    assert pool.take() is None
    assert world.pools.idle == 0
    for upstream in (first, second):
        upstream.cancel()


async def test_a_request_goes_over_an_idle_connection_of_its_pod(world):
    pod = await world.serving()
    for _ in range(5):
        await world.ask()
    assert len(pod.connections) == 1
    assert world.pools.connections == world.pools.idle == 1


@both_loops
async def test_a_connection_that_the_pod_closes_leaves_the_pool(world):
    pod = await world.serving()
    await world.ask()
    pod.connections[0].close()
    await until(lambda: world.pools.connections == 0)
    assert world.pools.idle == 0
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
    assert world.pools.connections == 0
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
        assert world.pools.idle == len(pod.open) == 1

    await keeps_its_connection()
    await world.clock_moves(IDLE_TIMEOUT + 1)
    world.pools.close_expired()
    await until(lambda: not pod.open)
    assert world.pools.idle == 0
    await keeps_its_connection()
    world.list()
    await until(lambda: not pod.open)
    assert world.pools.idle == 0
    world.list(pod)
    await keeps_its_connection()
    assert len(pod.connections) == 3


async def test_a_pod_that_is_gone_keeps_no_connection(world):
    pod = await world.serving()
    await world.ask()
    world.list()
    await until(lambda: not pod.open)
    assert world.pools.connections == 0


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
    sock = upstream.pod.transport.get_extra_info("socket")
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
