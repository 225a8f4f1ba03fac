"""pkg/activator/net/throttler_test.go: capacity, shares and queues, by the requests at each pod.

Knative reads the capacity of its queued. These tests send more requests than the capacity, let no
pod respond, and count the requests at each pod. ``--borrow false`` assigns pods as Knative does. By
default an idle pod of another share is used before a request waits.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from tests.knative.objects import (
    H2C,
    HTTP1,
    NAME,
    PORT_NAMES,
    Address,
    config_map,
    private,
    private_service,
    public,
    revision,
)
from tests.knative.peers import to
from tests.knative.pods import UNAVAILABLE, ScriptedPod
from tests.knative.world import NEVER, World

NewWorld = Callable[..., Awaitable[World]]


def activators(count: int, index: int) -> tuple[list[str], str]:
    """Return the addresses of ``count`` activators, and the one at ``index`` when sorted."""
    ips = sorted(f"10.0.0.{number + 1}" for number in range(count))
    return ips, ips[index] if index >= 0 else "10.1.1.1"


async def sharing(
    new_world: NewWorld,
    pods: int,
    cc: int,
    count: int = 1,
    index: int = 0,
    *,
    protocol: str = HTTP1,
    borrow: str = "false",
) -> World:
    """Start one of several activators, with pods that keep their requests."""
    ips, own = activators(count, index)
    world = await new_world(pod_ip=own, borrow=borrow)
    port_name = PORT_NAMES[protocol]
    at = [pod.at for pod in await world.serving(pods, holding=True)]
    world.apply(revision(cc=cc, protocol=protocol), private(at, port_name=port_name))
    world.apply(public(ips, port_name=port_name))
    await world.passes()
    return world


async def filled(world: World, calls: int) -> int:
    """Send so many requests, and return how many are in flight at a time."""
    await world.calls(calls)
    await world.passes()
    return sum(world.load().values())


# TestThrottlerUpdateCapacity


@pytest.mark.parametrize(
    ("pods", "cc", "count", "index", "capacity"),
    [
        (1, 10, 1, 0, 10),
        (2, 10, 1, 0, 20),
        (2, 10, 2, 0, 10),
        (3, 10, 2, 0, 20),
        (3, 10, 2, 1, 10),
        (5, 1, 2, 0, 3),
        (5, 1, 2, 1, 2),
        (0, 10, 1, 0, 0),
    ],
)
async def test_TestThrottlerUpdateCapacity(
    new_world: NewWorld, pods: int, cc: int, count: int, index: int, capacity: int
) -> None:
    """Pod mode: containerConcurrency times the pods of this activator's share."""
    world = await sharing(new_world, pods, cc, count, index)
    assert await filled(world, capacity + 3) == capacity
    assert (await world.api())["capacity"] == capacity


async def test_TestThrottlerUpdateCapacity__cc_0(new_world: NewWorld) -> None:
    """Without a limit every activator has all pods, and no request waits."""
    world = await sharing(new_world, 3, 0, 2, 1)
    assert await filled(world, 30) == 30
    assert world.took() == ["pod-0", "pod-1", "pod-2"]


async def test_TestThrottlerUpdateCapacity__borrowing(new_world: NewWorld) -> None:
    """The default: use the own share first, then pods of others, before a request waits."""
    world = await sharing(new_world, 4, 1, 2, 1, borrow="true")
    assert await filled(world, 2) == 2
    assert world.took() == ["pod-2", "pod-3"]
    assert await filled(world, 3) == 4


@pytest.mark.parametrize(
    ("backends", "cc", "count", "capacity"),
    [(1, 10, 1, 10), (10, 10, 1, 100), (100, 10, 1, 1000), (10, 10, 5, 20), (10, 10, 200, 1)],
)
async def test_TestThrottlerUpdateCapacity__clusterIP(
    new_world: NewWorld, backends: int, cc: int, count: int, capacity: int
) -> None:
    """By the ClusterIP: containerConcurrency times the ready pods, divided by the activators.

    The result is at least 1.
    """
    world, cluster_ip = await behind_cluster_ip(new_world, backends, cc, count)
    assert (await world.api())["capacity"] == capacity
    if capacity <= 100:  # more sockets would not show more
        assert await filled(world, capacity + 2) == capacity
        assert cluster_ip.in_flight == capacity


async def test_TestThrottlerUpdateCapacity__clusterIP_without_ready_pods(
    new_world: NewWorld,
) -> None:
    """Without a ready pod there is no capacity, even if the ClusterIP passes its probe."""
    world, cluster_ip = await behind_cluster_ip(new_world, 0, 10, 200)
    assert await filled(world, 2) == 0
    assert not cluster_ip.traffic


async def test_TestThrottlerUpdateCapacity__clusterIP_cc_0(new_world: NewWorld) -> None:
    """Without a limit all requests pass, for any number of activators."""
    world, cluster_ip = await behind_cluster_ip(new_world, 1, 0, 200)
    assert await filled(world, 30) == 30
    assert cluster_ip.in_flight == 30


async def behind_cluster_ip(
    new_world: NewWorld, backends: int, cc: int, count: int
) -> tuple[World, ScriptedPod]:
    """Start an activator that reaches a revision only by its ClusterIP; no pod listens."""
    ips, own = activators(count, 0)
    world = await new_world(pod_ip=own)
    cluster_ip = await world.pod()
    cluster_ip.holding = True
    at = [Address(f"127.9.{number}.1", 1) for number in range(backends)]
    world.apply(config_map("config-network", {"mesh-compatibility-mode": "enabled"}))
    world.apply(revision(cc=cc), private(at, [Address("127.9.0.2", 1)]), public(ips))
    world.apply(private_service(cluster_ip.at))
    await world.passes()
    return world, cluster_ip


# TestThrottlerErrorNoRevision


async def test_TestThrottlerErrorNoRevision(world: World) -> None:
    """A revision works; after its deletion a 404 names it."""
    (pod,) = await world.serving(1)
    world.apply(revision(), private([pod.at]))
    assert (await world.ask()).status == 200
    world.delete("Revision", NAME)
    while (answer := await world.ask()).status == 200:
        await world.passes(0.005)
    assert answer.status == 404
    error = f'Error getting active endpoint: revision.serving.knative.dev "{NAME}" not found\n'
    assert answer.body == error.encode()


async def test_TestThrottlerErrorOneTimesOut(world: World) -> None:
    """containerConcurrency 1: the second request expires while the first has the pod.

    The first succeeds. (Knative uses its ClusterIP and gives the second 100 ms.)
    """
    (pod,) = await world.serving(1, holding=True)
    world.apply(revision(cc=1, timeoutSeconds=300), private([pod.at]))
    first = await world.call()
    await world.until(lambda: pod.traffic)
    world.apply(revision(cc=1, timeoutSeconds=1))
    await world.passes()
    answer = await world.ask()
    assert (answer.status, answer.body) == (504, b"activator request timeout")
    assert first.waits
    pod.release()
    assert await first.text() == "pod-0"
    assert len(pod.traffic) == 1


async def test_TestThrottlerErrorNoRevision__comes_back(world: World) -> None:
    """A Revision is deleted and created again; its Endpoints do not change.

    The activator still has its pods, and serves the requests that waited. In Knative such requests
    wait until their deadline.
    """
    (pod,) = await world.serving(1, holding=True)
    world.apply(revision(cc=1), private([pod.at]))
    await world.passes()
    running, waiting = await world.calls(2)
    await world.until(lambda: pod.traffic)
    world.delete("Revision", NAME)
    while not (await world.api())["deleted"]:
        await world.passes(0.005)
    again = revision(cc=1)
    again["metadata"]["uid"] = "another"
    world.apply(again)
    await world.passes()
    pod.holding = False
    pod.release()
    assert [await running.text(), await waiting.text()] == ["pod-0", "pod-0"]
    assert (await world.ask()).body == b"pod-0"


# TestThrottlerSuccesses


async def test_TestThrottlerSuccesses__single_healthy_podIP(world: World) -> None:
    """One pod: it gets the request."""
    (pod,) = await world.serving(1)
    world.apply(revision(cc=1), private([pod.at]))
    assert await (await world.call()).text() == "pod-0"


async def test_TestThrottlerSuccesses__single_healthy_podIP_infinite_cc(world: World) -> None:
    """containerConcurrency 0, and the pods change: only the last listed pods get requests."""
    first, second = await world.serving(2)
    world.apply(revision(cc=0), private([first.at]))
    await world.passes()
    world.apply(private([second.at]))
    await world.passes()
    assert [await client.text() for client in await world.calls(2)] == ["pod-1", "pod-1"]


async def test_TestThrottlerSuccesses__spread_podIP_load(world: World) -> None:
    """containerConcurrency 1, two requests at a time: they go to two pods."""
    pods = await world.serving(2, holding=True)
    world.apply(revision(cc=1), private(pod.at for pod in pods))
    assert await filled(world, 2) == 2
    assert world.load() == {"pod-0": 1, "pod-1": 1}


async def test_TestThrottlerSuccesses__clumping_test(
    world: World,
) -> None:
    """containerConcurrency 3, five pods, three requests: the pod of the lowest address has all."""
    pods = await world.serving(5, holding=True)
    world.apply(revision(cc=3), private(pod.at for pod in reversed(pods)))
    await world.passes()
    assert await filled(world, 3) == 3
    assert world.load() == {"pod-0": 3}


async def test_TestThrottlerSuccesses__roundrobin_test(world: World) -> None:
    """containerConcurrency 5, three requests: at three pods."""
    pods = await world.serving(5, holding=True)
    world.apply(revision(cc=5), private(pod.at for pod in pods))
    await world.passes()
    assert await filled(world, 3) == 3
    assert world.load() == {"pod-0": 1, "pod-1": 1, "pod-2": 1}


async def test_TestThrottlerSuccesses__single_healthy_clusterIP(new_world: NewWorld) -> None:
    """The ClusterIP gets the requests instead of pods."""
    world, cluster_ip = await behind_cluster_ip(new_world, 2, 1, 1)
    cluster_ip.holding = False
    assert [await client.text() for client in await world.calls(3)] == ["pod-0"] * 3
    assert cluster_ip.most <= 2


# Slices


async def test_TestPodAssignmentFinite(new_world: NewWorld) -> None:
    """containerConcurrency 42, six pods, four activators, index 0: pods 0 and 4, 42 at each."""
    world = await sharing(new_world, 6, 42, 4, 0)
    assert await filled(world, 100) == 84
    assert world.load() == {"pod-0": 42, "pod-4": 42}
    world.apply(private())
    await world.passes()
    for pod in world.pods:
        pod.release()
    assert (await world.api())["capacity"] == 0
    client = await world.call()
    await world.passes(NEVER)
    assert client.waits


async def test_TestPodAssignmentInfinite(new_world: NewWorld) -> None:
    """containerConcurrency 0: all three pods, for any number of activators; then none."""
    world = await sharing(new_world, 3, 0, 4, 0)
    assert await filled(world, 30) == 30
    assert world.took() == ["pod-0", "pod-1", "pod-2"]
    world.apply(private())
    await world.passes()
    client = await world.call()
    await world.passes(NEVER)
    assert client.waits


async def test_TestActivatorsIndexUpdate(new_world: NewWorld) -> None:
    """h2c, 130.0.0.2 of two activators has one of three pods; once it is alone, all three."""
    world = await new_world(pod_ip="130.0.0.2", borrow="false")
    pods = await world.serving(3, holding=True)
    world.apply(revision(cc=1, protocol=H2C))
    world.apply(private((pod.at for pod in pods), port_name="http2"))
    world.apply(public(["130.0.0.1", "130.0.0.2"], port_name="http2"))
    await world.passes()
    found = await world.api()
    assert (found["activatorCount"], found["activatorIndex"]) == (2, 1)
    assert await filled(world, 4) == 1
    assert world.took() == ["pod-1"]
    world.apply(public(["130.0.0.2"], port_name="http2"))
    await world.passes()
    found = await world.api()
    assert (found["activatorCount"], found["activatorIndex"]) == (1, 0)
    assert world.took() == ["pod-0", "pod-1", "pod-2"]


async def test_TestMultipleActivators(new_world: NewWorld) -> None:
    """Two activators, three pods, containerConcurrency 1: one request passes, a second waits."""
    world = await sharing(new_world, 3, 1, 2, 1)
    clients = await world.calls(2)
    await world.passes(0.1)
    assert world.load() == {"pod-1": 1}
    world.pods[1].release(1)
    assert await clients[0].text() == "pod-1"
    assert clients[1].waits


@pytest.mark.parametrize(
    ("pods", "count", "index", "own"),
    [
        (1, 1, 0, [0]),
        (1, 2, 0, [0]),
        (1, 2, 1, [0]),
        (2, 3, 0, [0]),
        (2, 3, 1, [1]),
        (2, 3, 2, [0]),
        (2, 2, 1, [1]),
        (3, 2, 0, [0, 2]),
        (3, 2, 1, [1]),
        (10, 3, 0, [0, 1, 2, 9]),
        (10, 3, 1, [3, 4, 5]),
        (10, 3, 2, [6, 7, 8]),
        (11, 3, 1, [3, 4, 5, 10]),
    ],
)
async def test_TestPickIndices(
    new_world: NewWorld, pods: int, count: int, index: int, own: list[int]
) -> None:
    """An activator's share of the sorted pods: a block, and perhaps one of the rest."""
    world = await sharing(new_world, pods, 1, count, index)
    await filled(world, len(own) + 2)
    assert world.took() == sorted(f"pod-{number}" for number in own)


@pytest.mark.parametrize("index", range(5))
async def test_TestPickIndices__150_pods_5_activators(new_world: NewWorld, index: int) -> None:
    """Thirty pods each."""
    world = await sharing(new_world, 150, 1, 5, index)
    await filled(world, 32)
    start = 30 * index
    assert world.took() == sorted(f"pod-{number}" for number in range(start, start + 30))


@pytest.mark.parametrize(
    ("pods", "count", "index", "own"),
    [
        pytest.param(0, 1, 0, [], id="empty"),
        pytest.param(3, 1, 0, [0, 1, 2], id="single activator"),
        pytest.param(3, 3, -1, [0, 1, 2], id="not among the activators"),
        pytest.param(3, 3, 1, [1], id="second of three"),
        pytest.param(1, 3, 1, [0], id="a single pod"),
        pytest.param(3, 2, 1, [1], id="three pods, second of two"),
    ],
)
async def test_TestAssignSlice(
    new_world: NewWorld, pods: int, count: int, index: int, own: list[int]
) -> None:
    """An activator uses its own share; one that is not listed uses all pods."""
    world = await sharing(new_world, pods, 1, count, index)
    await filled(world, 5)
    assert world.took() == sorted(f"pod-{number}" for number in own)


@pytest.mark.parametrize(
    ("own_ip", "index"),
    [("10.0.0.1", 0), ("10.0.0.3", 2), ("10.0.0.2", 1), ("10.9.9.9", -1)],
)
async def test_TestInferIndex(new_world: NewWorld, own_ip: str, index: int) -> None:
    """The index of an address among the sorted ones, listed in any order; -1 if not listed."""
    world = await new_world(pod_ip=own_ip)
    world.apply(revision(cc=1), public(["10.0.0.3", "10.0.0.1", "10.0.0.2"]))
    await world.passes()
    assert (await world.api())["activatorIndex"] == index


# Queues of revisions with and without a limit (pkg/queue/breaker_test.go)


async def test_TestInfiniteBreaker(world: World) -> None:
    """containerConcurrency 0: requests wait while there is no pod, and can be cancelled.

    All others proceed once a pod is usable, and requests wait again after its end. No request gets
    an error response.
    """
    (pod,) = await world.serving(1)
    world.apply(revision(cc=0), private())
    await world.passes()
    clients = await world.calls(30)
    await world.passes(NEVER)
    assert await world.outcome(clients) == {"waits": 30}
    clients.pop(7).abort()
    await world.passes(0.01)
    world.apply(private([pod.at]))
    await world.passes()
    assert await world.outcome(clients) == {"pod-0": 29}
    world.apply(private())
    await world.passes()
    client = await world.call()
    await world.passes(NEVER)
    assert client.waits
    assert len(pod.traffic) == 29


async def test_TestBreakerQueueing(world: World) -> None:
    """No capacity at first: two requests queue; a capacity of one serves both."""
    (pod,) = await world.serving(1)
    world.apply(revision(cc=1), private())
    clients = await world.calls(2)
    await world.passes(NEVER)
    assert await world.outcome(clients) == {"waits": 2}
    world.apply(private([pod.at]))
    assert [await client.text() for client in clients] == ["pod-0", "pod-0"]
    assert pod.most == 1


async def test_TestBreakerNoOverload(new_world: NewWorld) -> None:
    """Requests fill the slot and the queue, again and again: none fails."""
    world = await new_world(queue_depth="1")
    (pod,) = await world.serving(1, holding=True)
    world.apply(revision(cc=1), private([pod.at]))
    await world.passes()
    clients = await world.calls(2)
    for _ in range(50):
        await world.until(lambda: pod.in_flight)
        pod.release(1)
        done = clients.pop(0)
        assert await done.text() == "pod-0"
        done.close()
        clients.append(await world.call())
    assert pod.most == 1


async def test_TestBreakerOverload(new_world: NewWorld) -> None:
    """One slot and a queue of one: the third request fails with 503, the other two succeed.

    Knative's activator never reaches its limit, which is the sum of depth and 2^31. This activator
    enforces the depth.
    """
    world = await new_world(queue_depth="1")
    (pod,) = await world.serving(1, holding=True)
    world.apply(revision(cc=1), private([pod.at]))
    await world.passes()
    clients = await world.calls(2)
    await world.until(lambda: pod.in_flight)
    answer = await world.ask()
    assert (answer.status, answer.body) == (503, b"pending request queue full\n")
    pod.release()
    pod.holding = False
    assert [await client.text() for client in clients] == ["pod-0", "pod-0"]


async def test_TestBreakerCancel(new_world: NewWorld) -> None:
    """A cancelled request frees its place in the queue; one request beyond the queue fails."""
    world = await new_world(queue_depth="1")
    (pod,) = await world.serving(1, holding=True)
    world.apply(revision(cc=1), private([pod.at]))
    await world.passes()
    running = await world.call()
    await world.until(lambda: pod.in_flight)
    for _ in range(3):
        waiting = await world.call()
        await world.passes(0.01)
        assert waiting.waits
        waiting.abort()
        await world.passes(0.01)
    last = await world.call()
    await world.passes(0.01)
    assert (await world.ask()).status == 503
    pod.holding = False
    pod.release()
    assert [await running.text(), await last.text()] == ["pod-0", "pod-0"]
    assert len(pod.traffic) == 2


async def test_TestThrottlerErrorNoRevision__waiting(world: World) -> None:
    """A request that waits while its Revision is deleted gets its 504 at its deadline."""
    pod = await world.pod(UNAVAILABLE)
    world.apply(revision(cc=1, timeoutSeconds=10), private([pod.at]))
    await world.passes()
    started = world.now()
    client = await world.call(to())
    await world.passes(0.1)
    world.delete("Revision", NAME)
    answer = await client.answer()
    assert (answer.status, answer.body) == (504, b"activator request timeout")
    assert world.now() - started == pytest.approx(10, abs=0.1)
