"""State that the pools of all pods share: limits of idle connections, and which of them close."""

from __future__ import annotations

from activator.proxy.pods.pool import SPARE_TIMEOUT, PoolLimits
from tests.activator.proxy.world import answer_whole, ok, request, turns, until


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
    assert world.pools.idle == world.pools.connections == 5


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
    assert world.pools.idle == 2
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
    pools = [world.pools.of(next(iter(world.revision(name).pods()))) for name in ("rev", "other")]
    world.pools.close_expired()
    left = [[len(pool.idle) for pool in pools]]
    while world.pools.resources.close_one_idle():
        left.append([len(pool.idle) for pool in pools])
    assert [sum(counts) for counts in left] == list(range(sum(left[0]), -1, -1))
    assert [min(counts) for counts in left[:3]] == [1, 1, 0], "each time of another pod"


async def test_a_pool_without_an_idle_connection_is_not_searched_twice(new_world):
    world = await new_world()
    await world.serving()
    pool, resources = world.pools.of(next(iter(world.revision().pods()))), world.pools.resources
    pool.close_idle()
    resources.with_idle(pool)
    assert pool.may_have_idle
    assert not resources.close_one_idle()
    assert not pool.may_have_idle
