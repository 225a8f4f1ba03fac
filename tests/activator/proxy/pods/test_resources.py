"""State that the pools of all pods share: limits of idle connections, and which of them close."""

from __future__ import annotations

from activator.proxy.pods.pools import PoolLimits
from activator.proxy.pods.resources import Resources
from activator.proxy.transport.unread import UnreadBytes
from tests.activator.proxy.world import ok, request, turns, until


async def test_no_more_are_kept_idle_than_the_limits_say(new_world):
    world = await new_world(pool=PoolLimits(max_idle=3, max_idle_per_pod=2))
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
    assert len(pod.open) == 2
    assert len(other.open) == 1
    assert world.pools.idle == world.pools.connections == 3


class Idle:
    """A pool with that many idle connections; counts its searches."""

    def __init__(self, resources: Resources, count: int) -> None:
        self.may_have_idle = False
        self.left = list(range(count))
        self.searches = 0
        resources.with_idle(self)

    def close_oldest_idle(self) -> object | None:
        self.searches += 1
        return self.left.pop(0) if self.left else None


def test_idle_connections_are_closed_of_one_pod_after_the_other() -> None:
    resources = Resources(PoolLimits(), lambda _: None, lambda: 0.0, UnreadBytes())
    pools = [Idle(resources, 2), Idle(resources, 0), Idle(resources, 1)]
    left = []
    while resources.close_one_idle():
        left.append([len(pool.left) for pool in pools])
    assert left == [[1, 0, 1], [1, 0, 0], [0, 0, 0]]


def test_a_pool_without_an_idle_connection_is_not_searched_twice() -> None:
    resources = Resources(PoolLimits(), lambda _: None, lambda: 0.0, UnreadBytes())
    pools = [Idle(resources, 0) for _ in range(10)]
    for _ in range(3):
        assert not resources.close_one_idle()
    assert {pool.searches for pool in pools} == {1}
    assert not any(pool.may_have_idle for pool in pools)
