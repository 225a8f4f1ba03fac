"""pkg/activator/net/lb_policy_test.go and helpers_test.go: which pod is next.

The load balancing policy of a revision follows from its containerConcurrency. With 0, the policy
draws two pods and chooses the less loaded. Up to 3 it fills the first pod. From 4 on it is round
robin.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.knative.objects import H2C, HTTP1, private, revision
from tests.knative.pods import ScriptedPod
from tests.knative.world import World


async def of(world: World, pods: int, cc: int) -> list[ScriptedPod]:
    """Return healthy pods of a revision, which keep their requests."""
    found = await world.serving(pods, holding=True)
    world.apply(revision(cc=cc), private(pod.at for pod in found))
    await world.passes()
    return found


async def picked(world: World) -> str:
    """Send a request, and return the name of its pod; empty if the request waits."""
    before = {pod.name: len(pod.traffic) for pod in world.pods}
    await world.call()
    await world.passes(0.01)
    return "".join(pod.name for pod in world.pods if len(pod.traffic) > before[pod.name])


# random choice 2


async def test_TestRandomChoice_TwoTrackersDistribution(world: World) -> None:
    """A hundred requests one after the other over two pods: both get some."""
    pods = await of(world, 2, cc=0)
    for pod in pods:
        pod.holding = False
    for _ in range(100):
        await (await world.call()).text()
    counts = [len(pod.traffic) for pod in pods]
    assert sum(counts) == 100
    assert min(counts) > 0, "fails by chance once in 2^99"


async def test_TestRandomChoice2__1_tracker(world: World) -> None:
    """One pod: it gets all requests, and its load rises and falls."""
    (pod,) = await of(world, 1, cc=0)
    assert [await picked(world) for _ in range(3)] == ["pod-0"] * 3
    assert (await world.api())["pods"][0]["inFlight"] == 3
    pod.release(2)
    await world.passes(0.01)
    assert (await world.api())["pods"][0]["inFlight"] == 1


async def test_TestRandomChoice2__2_trackers(world: World) -> None:
    """Two pods: the second request goes to the other pod, the third to the free one."""
    pods = await of(world, 2, cc=0)
    one, other = await picked(world), await picked(world)
    assert {one, other} == {"pod-0", "pod-1"}
    next(pod for pod in pods if pod.name == other).release()
    await world.passes(0.01)
    assert await picked(world) == other


async def test_TestRandomChoice2__3_trackers(world: World) -> None:
    """Three pods: the second request goes to a different pod than the first."""
    await of(world, 3, cc=0)
    assert await picked(world) != await picked(world)


# first available


async def test_TestFirstAvailable__1_tracker_1_slot(world: World) -> None:
    """One slot: the second request waits."""
    await of(world, 1, cc=1)
    assert [await picked(world), await picked(world)] == ["pod-0", ""]


async def test_TestFirstAvailable__2_trackers_1_slot(world: World) -> None:
    """Two pods with one slot each: the first, then the second, then none."""
    await of(world, 2, cc=1)
    assert [await picked(world) for _ in range(3)] == ["pod-0", "pod-1", ""]


# round robin


@pytest.mark.parametrize("cc", [4, 5])
async def test_TestRoundRobin(world: World, cc: int) -> None:
    """Pods get requests in turn, except full ones; without a free slot the request waits.

    A request then gets the next slot that becomes free. (Knative's test drives the policy alone,
    with 1 and 2; a revision has this policy from 4 on.)
    """
    pods = await of(world, 3, cc=cc)
    everything = [await picked(world) for _ in range(3 * cc)]
    assert everything == ["pod-0", "pod-1", "pod-2"] * cc
    assert await picked(world) == ""
    pods[1].release(1)
    await world.passes(0.01)
    assert world.load() == {"pod-0": cc, "pod-1": cc, "pod-2": cc}, (
        "the queued request has the slot"
    )
    pods[2].release(1)
    await world.passes(0.01)
    assert await picked(world) == "pod-2"


async def test_TestRoundRobin__shrinking_list_resets_the_index(world: World) -> None:
    """The next pod in turn is gone: the policy begins with the first."""
    pods = await of(world, 3, cc=4)
    assert [await picked(world), await picked(world)] == ["pod-0", "pod-1"]
    world.apply(private(pod.at for pod in pods[:2]))
    await world.passes()
    assert [await picked(world), await picked(world)] == ["pod-0", "pod-1"]


async def test_TestRoundRobin__full_pods_are_skipped(world: World) -> None:
    """The policy skips a pod without a free slot."""
    pods = await of(world, 3, cc=4)
    for _ in range(12):
        await picked(world)
    pods[0].release()
    pods[2].release()
    await world.passes(0.01)
    assert [await picked(world) for _ in range(4)] == ["pod-0", "pod-2", "pod-0", "pod-2"]


# TestEndpointsToDests


def subset(
    ready: list[str], not_ready: list[str], *ports: tuple[str, int]
) -> dict[str, list[dict[str, Any]]]:
    return {
        "addresses": [{"ip": ip} for ip in ready],
        "notReadyAddresses": [{"ip": ip} for ip in not_ready],
        "ports": [{"name": name, "port": port} for name, port in ports],
    }


HTTP = ("http", 1234)
R, N = "ready", "not-ready"


@pytest.mark.parametrize(
    ("subsets", "protocol", "dests"),
    [
        pytest.param([], HTTP1, {}, id="no addresses"),
        pytest.param([subset(["127.9.0.1"], [], HTTP)], HTTP1, {"127.9.0.1:1234": R}, id="one"),
        pytest.param(
            [subset(["127.9.0.1", "127.9.0.2"], [], HTTP), subset(["127.9.0.3"], [], HTTP)],
            HTTP1,
            {"127.9.0.1:1234": R, "127.9.0.2:1234": R, "127.9.0.3:1234": R},
            id="many, over two subsets",
        ),
        pytest.param(
            [subset(["127.9.0.1"], ["127.9.0.2"], HTTP), subset([], ["127.9.0.3"], HTTP)],
            HTTP1,
            {"127.9.0.1:1234": R, "127.9.0.2:1234": N, "127.9.0.3:1234": N},
            id="ready and not ready",
        ),
        pytest.param(
            [
                subset(["127.9.0.1"], [], ("other", 1), HTTP),
                subset(["127.9.0.2"], ["127.9.0.3"], ("other", 5678)),
            ],
            HTTP1,
            {"127.9.0.1:1234": R},
            id="ports by name",
        ),
        pytest.param(
            [subset(["127.9.0.1"], ["127.9.0.2"], HTTP, ("http2", 5678))],
            H2C,
            {"127.9.0.1:5678": R, "127.9.0.2:5678": N},
            id="h2c",
        ),
    ],
)
async def test_TestEndpointsToDests(
    world: World, subsets: list[Any], protocol: str, dests: dict[str, str]
) -> None:
    """Each address gets the port that the protocol names, and keeps its readiness."""
    endpoints = private()
    endpoints["subsets"] = subsets
    world.apply(revision(protocol=protocol), endpoints)
    await world.passes()
    found = (await world.api())["pods"]
    assert {pod["address"]: pod["kubernetes"] for pod in found} == dests
