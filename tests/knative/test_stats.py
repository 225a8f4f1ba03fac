"""Reports to the autoscaler: concurrency_reporter_test.go and stat_reporter_test.go.

The tests check the stats that a WebSocket peer decodes. Knative's tests tick by hand. Here the
activator sends a report each second. A request that arrives right after a report counts in the next
report for the whole second.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from activator.autoscaler.concurrency import Stat
from tests.knative.objects import NAMESPACE, private, revision
from tests.knative.peers import Client, to
from tests.knative.pods import ScriptedPod
from tests.knative.world import World
from throttler.model import RevisionID

NewWorld = Callable[..., Awaitable[World]]

ONE, TWO = "rev-1", "rev-2"
#: Seconds of tolerance: in virtual time sockets need no time, but timers of servers do.
CLOSE = 0.01


def stat(name: str, concurrency: float, count: int) -> Stat:
    about: Any = pytest.approx(concurrency, abs=CLOSE)
    return Stat(RevisionID(NAMESPACE, name), about, count)


@pytest.fixture
async def world(new_world: NewWorld) -> World:
    """Start an activator, an autoscaler and two revisions; each pod keeps its requests.

    Each revision has had a request and is idle again: the activator reports nothing more.
    """
    world = await new_world(autoscaler=True)
    for name in (ONE, TWO):
        pod = await world.pod()
        pod.holding = True
        world.apply(revision(name), private([pod.at], name=name))
    await world.autoscaler.connected()
    await world.passes(0.1)
    return world


async def arrives(world: World, name: str = ONE, count: int = 1) -> list[Client]:
    """Send ``count`` requests."""
    pod = of(world, name)
    known = len(pod.traffic)
    clients = [await world.call(to(name)) for _ in range(count)]
    await world.until(lambda: len(pod.traffic) == known + count)
    return clients


async def leaves(world: World, name: str = ONE, count: int = 1) -> None:
    """End ``count`` requests."""
    of(world, name).release(count)
    await world.passes(0.001)


def of(world: World, name: str) -> ScriptedPod:
    return world.pods[(ONE, TWO).index(name)]


async def reports(world: World, count: int = 1) -> list[list[Stat]]:
    """Wait for the next ``count`` frames, and return them."""
    known = len(world.autoscaler.frames)
    return (await world.autoscaler.told(known + count))[known:]


def told(world: World) -> list[list[Stat]]:
    return world.autoscaler.frames


async def test_TestStats__scale_from_zero_sends_stat(world: World) -> None:
    """The first request of each revision is reported at once: concurrency 1, count 1."""
    started = world.now()
    await arrives(world, ONE)
    await arrives(world, TWO)
    assert told(world) == [[stat(ONE, 1, 1)], [stat(TWO, 1, 1)]]
    assert world.now() - started < 0.1
    assert world.autoscaler.pods == {"activator-1"}
    assert all(isinstance(message, bytes) for message in world.autoscaler.messages)


async def test_TestStats__in_n_out(world: World) -> None:
    """A request that ends at once is reported at once; the next report has only zeros."""
    await arrives(world)
    await leaves(world)
    await world.autoscaler.told(2)
    assert told(world) == [[stat(ONE, 1, 1)], [stat(ONE, 0, 0)]]


async def test_TestStats__two_requests(world: World) -> None:
    """Two requests: the first report omits the one reported at once; the next has both."""
    await arrives(world, count=2)
    await world.autoscaler.told(3)
    assert told(world) == [[stat(ONE, 1, 1)], [stat(ONE, 1, 1)], [stat(ONE, 2, 0)]]


async def test_TestStats__entry_is_dropped_after_a_report_of_zeros(world: World) -> None:
    """An idle revision is reported once more with zeros, then not until its next request."""
    await arrives(world)
    await leaves(world)
    await world.autoscaler.told(3)
    assert told(world) == [[stat(ONE, 1, 1)], [stat(ONE, 0, 0)], [stat(ONE, 0, 0)]]
    await world.passes(3.5)
    assert len(told(world)) == 3
    await arrives(world)
    assert told(world)[3:] == [[stat(ONE, 1, 1)]]


async def test_TestStats__multiple_revisions(world: World) -> None:
    """One report has all active revisions."""
    await arrives(world, ONE, 2)
    await arrives(world, TWO, 3)
    assert told(world) == [[stat(ONE, 1, 1)], [stat(TWO, 1, 1)]]
    (first,), (second,) = [await reports(world), await reports(world)]
    assert sorted(first) == [stat(ONE, 1, 1), stat(TWO, 2, 2)]
    assert sorted(second) == [stat(ONE, 2, 0), stat(TWO, 3, 0)]


async def test_TestStats__interleaved_requests(world: World) -> None:
    """A request for half of a report's second: average 0.5, count 1."""
    await arrives(world)
    await reports(world)
    await leaves(world)
    await arrives(world)
    await world.passes(0.5)
    await leaves(world)
    assert await reports(world) == [[stat(ONE, 0.5, 1)]]


async def test_TestStats__requests_of_different_lengths(world: World) -> None:
    """Overlapping requests count for the time of each.

    One lasts the whole second, one its second half, one its first quarter.
    """
    await arrives(world)
    await reports(world)
    await arrives(world, count=1)
    await world.passes(0.25)
    await leaves(world)
    await world.passes(0.25)
    await arrives(world)
    assert await reports(world) == [[stat(ONE, 1.75, 2)]]


async def test_TestConcurrencyReporterRun(world: World) -> None:
    """Three requests that stay: 1/1 at once, 2/2 in the report."""
    await arrives(world, count=3)
    assert [told(world)[0], *await reports(world)] == [[stat(ONE, 1, 1)], [stat(ONE, 2, 2)]]


async def test_TestConcurrencyReporterHandler(world: World) -> None:
    """Three requests that are over: 1/1 at once, 0/2 in the report."""
    for _ in range(3):
        await arrives(world)
        await leaves(world)
    assert [told(world)[0], *await reports(world)] == [[stat(ONE, 1, 1)], [stat(ONE, 0, 2)]]


async def test_TestMetricsReported(world: World) -> None:
    """The gauge has the concurrency of the reports: 3 of 4 requests at first, then 4."""
    await arrives(world, count=4)
    labels = {
        "kn_service_name": f"service-{ONE}",
        "kn_configuration_name": f"config-{ONE}",
        "kn_revision_name": ONE,
        "k8s_namespace_name": NAMESPACE,
    }
    for expected in (3, 4):
        await reports(world)
        found = await world.metric("kn_revision_request_concurrency", **labels)
        assert list(found.values()) == [pytest.approx(expected, abs=0.05)]


# stat_reporter_test.go


async def test_TestReportStats(world: World) -> None:
    """Every stat of every batch arrives, in binary frames."""
    await arrives(world, ONE)
    await arrives(world, TWO)
    await reports(world)
    assert sorted(one for frame in told(world) for one in frame) == [
        stat(ONE, 0, 0),
        stat(ONE, 1, 1),
        stat(TWO, 0, 0),
        stat(TWO, 1, 1),
    ]
    assert all(isinstance(message, bytes) for message in world.autoscaler.messages)


async def test_TestReportStatsSendFailure(world: World) -> None:
    """The autoscaler ends: requests continue. After its return it receives all further reports."""
    await world.autoscaler.close()
    clients = await arrives(world, count=2)
    of(world, ONE).release()
    assert [await client.text() for client in clients] == ["pod-0", "pod-0"]
    await world.passes(5)
    await world.autoscaler.listen()
    await world.autoscaler.connected(2)
    assert [stat(TWO, 1, 1)] not in told(world)
    await arrives(world, TWO)
    await world.until(lambda: [stat(TWO, 1, 1)] in told(world))
