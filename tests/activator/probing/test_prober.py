"""When each pod is probed, and in which order."""

from __future__ import annotations

import asyncio
import gc
from itertools import pairwise
from math import inf

import pytest

from activator.knative.words import QUEUE_PROXY
from activator.probing.prober import (
    BURST,
    MAX_RATE,
    MAX_TIMEOUT,
    MIN_TIMEOUT_BUSY,
    ROUND_TRIPS,
    SHARE,
    ProbeQueue,
    Schedule,
)
from tests.activator.probing.world import APP, Response, World, until
from tests.activator.telemetry.world import World as TelemetryWorld
from tests.activator.throttlers import release
from throttler.model import (
    AppProtocol,
    Endpoint,
    ListedEndpoints,
    MeshMode,
    ProbeKind,
    ProbeSpec,
    ReadinessRule,
    Revision,
    RevisionID,
)
from throttler.pod import (
    DELAY_AFTER_TIMEOUT,
    DELAY_HEALTHY,
    DELAY_HEALTHY_IDLE,
    DELAY_SERVICE,
    DELAY_UNWANTED_MAX,
    DELAY_WANTED,
    DELAY_WANTED_LONG,
    DELAY_WANTED_VERY_LONG,
    PodState,
    PodTracker,
    delay_after_not_ready,
    delay_after_tls,
)
from throttler.ticket import ASSIGNED, QUEUED

A, B, C, D = (f"10.0.0.{number}:8012" for number in (1, 2, 3, 4))


def gaps(moments: list[float]) -> list[float]:
    """The seconds between one probe and the next."""
    return [later - earlier for earlier, later in pairwise(moments)]


def between(moments: list[float], begin: float, end: float) -> list[float]:
    return [moment for moment in moments if begin <= moment < end]


# How soon.


async def test_new_pod_is_probed_at_once_and_serves_who_waits() -> None:
    world = World()
    waiting = world.ask()
    await until(3.0)
    world.list_pods(not_ready=[A])
    await until(3.0)
    await asyncio.sleep(0)
    assert world.pods[A].at == [3.0]
    assert waiting.state is ASSIGNED
    assert world.tracker(A).state is PodState.HEALTHY


async def test_probes_that_are_held_are_sent_once_they_may_be_and_those_of_gone_pods_never() -> (
    None
):
    world = World()
    world.prober.hold()
    world.list_pods("10.0.0.1:8012", "10.0.0.2:8012")
    ticket = world.ask()
    await until(1.0)
    world.list_pods("10.0.0.1:8012")
    assert world.prober.attempts == 0
    world.prober.go_on()
    assert world.pods["10.0.0.1:8012"].at == [1.0]
    assert world.pods["10.0.0.2:8012"].at == []
    await until(1.001)
    assert ticket.pod is world.tracker("10.0.0.1:8012")


@pytest.mark.untraced
async def test_refusing_pod_is_asked_every_5_ms_while_wanted_and_slower_the_longer_it_takes() -> (
    None
):
    world = World()
    world.pods[A].listens = False
    world.ask()
    world.list_pods(not_ready=[A])
    await until(70.0)

    at = world.pods[A].at
    assert gaps(between(at, 0, 10)) == pytest.approx([DELAY_WANTED] * 1999)
    assert gaps(between(at, 10.1, 59.9)) == pytest.approx(
        [DELAY_WANTED_LONG] * (len(between(at, 10.1, 59.9)) - 1)
    )
    assert gaps(between(at, 60.2, 70)) == pytest.approx(
        [DELAY_WANTED_VERY_LONG] * (len(between(at, 60.2, 70)) - 1)
    )


async def test_pod_that_begins_to_listen_is_found_within_one_interval() -> None:
    world = World()
    world.pods[A].listens = False
    waiting = world.ask()
    world.list_pods(not_ready=[A])
    await until(1.0012)
    world.pods[A].listens = True
    await until(1.0012 + DELAY_WANTED)
    assert waiting.state is ASSIGNED


async def test_refusing_pod_without_requests_is_probed_ever_less_down_to_a_limit() -> None:
    world = World()
    world.pods[A].listens = False
    world.list_pods(A)
    await until(200.0)
    expected = [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, DELAY_UNWANTED_MAX]
    assert gaps(world.pods[A].at)[: len(expected)] == pytest.approx(expected)
    assert gaps(world.pods[A].at)[-1] == pytest.approx(DELAY_UNWANTED_MAX)


async def test_refusing_pod_of_a_revision_with_short_requests_is_asked_every_two_seconds() -> None:
    world = World()
    world.pods[A].listens = False
    world.list_pods(A, B)
    for tenth in range(1, 300):  # each request ends before the next comes
        await until(tenth / 10)
        ticket = world.ask()
        assert ticket.state is ASSIGNED
        release(world.driver, world.revision, ticket, world.clock())
    assert gaps(world.pods[A].at)[4:] == pytest.approx([2.0] * 13)


async def test_first_waiter_has_all_unhealthy_pods_probed_at_once_and_then_quickly() -> None:
    world = World()
    for address in (A, B):
        world.pods[address].listens = False
    world.list_pods(A, not_ready=[B])
    await until(5.0)
    waiting = world.ask()
    for address in (A, B):
        assert world.pods[address].at[-1] == 5.0
    await until(5.0 + 4.5 * DELAY_WANTED)
    assert waiting.state is QUEUED
    for address in (A, B):
        at = between(world.pods[address].at, 5.0, 6.0)
        assert gaps(at) == pytest.approx([DELAY_WANTED] * 4)


async def test_a_refusal_that_takes_time_does_not_delay_the_next_probe() -> None:
    world = World()
    world.pods[A].listens = False
    world.pods[A].round_trip = 0.002
    world.list_pods(not_ready=[A])
    world.ask()
    await until(1.0)
    assert gaps(world.pods[A].at) == pytest.approx([DELAY_WANTED] * (len(world.pods[A].at) - 1))
    assert len(world.pods[A].at) > 190


async def test_a_pod_far_away_is_asked_again_as_soon_as_it_has_refused() -> None:
    world = World()
    world.pods[A].listens = False
    world.pods[A].round_trip = 0.05
    world.list_pods(not_ready=[A])
    world.ask()
    await until(1.0)
    assert gaps(world.pods[A].at) == pytest.approx([0.05] * (len(world.pods[A].at) - 1))
    assert len(world.pods[A].at) > 15


@pytest.mark.untraced
async def test_pod_whose_tls_is_wrong_is_asked_once_a_second_and_the_others_as_ever() -> None:
    world = World()
    world.pods[A].untrusted = True
    world.pods[B].listens = False
    waiting = world.ask()
    world.list_pods(not_ready=[A, B])
    await until(10.0)
    expected = [0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    assert gaps(world.pods[A].at)[: len(expected)] == pytest.approx(expected)
    assert gaps(world.pods[B].at)[:1900] == pytest.approx([DELAY_WANTED] * 1900)
    assert world.prober.failures["tls-failed"] == len(world.pods[A].at)
    world.pods[B].listens = True
    await until(10.0 + 1.5 * DELAY_WANTED)
    assert waiting.state is ASSIGNED


async def test_each_new_waiter_asks_a_pod_no_sooner_whose_tls_is_wrong() -> None:
    world = World()
    world.pods[A].untrusted = True
    world.list_pods(not_ready=[A])
    await until(60.0)
    asked = len(world.pods[A].at)
    for number in range(1, 291):  # each of them waits alone
        ticket = world.ask()
        await until(60.0 + number / 100)
        world.driver.cancel(world.revision, ticket, world.clock())
    # The last request was long ago: one probe at once for the first, and then one per second.
    assert gaps(world.pods[A].at[asked:]) == pytest.approx([1.0, 1.0], abs=0.011)
    assert world.pods[A].at[asked] == 60.0


async def test_restarted_pod_with_correct_tls_is_probed_as_often_as_any() -> None:
    world = World()
    world.pods[A].untrusted = True
    world.ask()
    world.list_pods(not_ready=[A])
    await until(5.0)
    world.pods[A].listens = False
    await until(7.0)
    assert gaps(between(world.pods[A].at, 6.1, 7.0))[-10:] == pytest.approx([DELAY_WANTED] * 10)


NOT_READY = Response(503, b"")
#: Seconds between the first probes of a pod that responds "not ready" at once.
BACKING_OFF = [0.025, 0.05, 0.1, 0.2, 0.2]


@pytest.mark.parametrize(
    "response", [NOT_READY, Response(500, b"no probe\n"), Response(200, b"hello")], ids=str
)
async def test_pod_that_says_not_ready_is_asked_as_often_as_by_knative(response: Response) -> None:
    """One request waits for 8 s: Knative's activator probes 41 times."""
    world = World()
    world.pods[A].response = response
    waiting = world.ask()
    world.list_pods(not_ready=[A])
    await until(8.0)
    assert gaps(world.pods[A].at)[:5] == pytest.approx(BACKING_OFF)
    assert len(world.pods[A].at) <= 41 + len(BACKING_OFF)
    world.pods[A].response = Response()
    await until(8.2)
    assert waiting.state is ASSIGNED


async def test_pod_whose_probe_is_expensive_is_asked_less_often_from_the_first_on() -> None:
    world = World()
    world.pods[A].response = NOT_READY
    world.pods[A].round_trip = 0.002
    world.ask()
    world.list_pods(not_ready=[A])
    await until(1.0)
    # The first probe opens a connection as well: 4 ms. The others take 2 ms.
    pauses = [0.08, 0.08, 0.16, 0.2]
    expected = [pauses[0] + 0.004, *(pause + 0.002 for pause in pauses[1:])]
    assert gaps(world.pods[A].at)[:4] == pytest.approx(expected)


@pytest.mark.parametrize("news", ["ready", "delisted and listed"])
async def test_pod_that_kubernetes_reports_news_of_is_asked_at_once_and_quickly_again(
    news: str,
) -> None:
    world = World()
    world.pods[A].response = NOT_READY
    world.ask()
    world.list_pods(not_ready=[A])
    await until(5.1)
    if news != "ready":
        world.list_pods()
    world.list_pods(A)
    await until(6.0)
    at = between(world.pods[A].at, 5.1, 6.0)
    assert at[0] == 5.1
    assert gaps(at)[:5] == pytest.approx(BACKING_OFF[: len(gaps(at)[:5])])
    assert len(at) > 4


async def test_each_new_waiter_asks_a_pod_no_sooner_that_says_not_ready() -> None:
    world = World()
    world.pods[A].response = NOT_READY
    world.list_pods(not_ready=[A])
    await until(60.0)
    asked = len(world.pods[A].at)
    for number in range(1, 200):  # each of them waits alone
        ticket = world.ask()
        await until(60.0 + number / 100)
        world.driver.cancel(world.revision, ticket, world.clock())
    assert world.pods[A].at[asked] == 60.0  # at once for the first
    assert gaps(world.pods[A].at[asked:]) == pytest.approx([0.2] * 9, abs=0.011)


async def test_pod_that_said_not_ready_and_refuses_then_is_asked_as_often_as_any() -> None:
    """The pod's queue-proxy has ended, so a refused probe costs nothing."""
    world = World()
    world.pods[A].response = NOT_READY
    world.ask()
    world.list_pods(not_ready=[A])
    await until(5.0)
    world.pods[A].listens = False
    world.pods[A].idle.clear()
    await until(6.0)
    refused = between(world.pods[A].at, 5.21, 6.0)
    assert gaps(refused) == pytest.approx([DELAY_WANTED] * (len(refused) - 1))
    world.pods[A].listens = True
    await until(7.0)
    assert gaps(between(world.pods[A].at, 5.996, 7.0))[1:5] == pytest.approx(BACKING_OFF[:4])


async def test_when_the_last_waiter_leaves_probing_slows_down_again() -> None:
    world = World()
    world.pods[A].listens = False
    world.list_pods(A)
    waiting = world.ask()
    await until(1.0)
    world.driver.cancel(world.revision, waiting, world.clock())
    await until(61.0)
    assert len(between(world.pods[A].at, 1.1, 61.0)) <= 2


async def test_healthy_pod_without_traffic_is_checked_now_and_then() -> None:
    world = World()
    world.list_pods(A)
    await until(500.0)
    assert world.pods[A].at == pytest.approx([DELAY_HEALTHY_IDLE * each for each in range(4)])


async def test_healthy_pod_is_checked_more_often_while_its_revision_has_requests() -> None:
    world = World()
    world.list_pods(A, B)
    for second in range(1, 330):  # each request ends before the next comes
        await until(float(second))
        release(world.driver, world.revision, world.ask(), world.clock())
    assert gaps(world.pods[B].at)[1:] == pytest.approx([DELAY_HEALTHY] * 5)


@pytest.mark.parametrize(("drawn", "delay"), [(0.0, 135.0), (0.999999, 165.0)])
async def test_checks_of_healthy_pods_are_spread_out(drawn: float, delay: float) -> None:
    world = World(random=lambda: drawn)
    world.list_pods(A)
    await until(170.0)
    assert gaps(world.pods[A].at) == pytest.approx([delay], abs=1e-4)


async def test_healthy_pod_that_responds_to_requests_is_not_probed_until_they_cease() -> None:
    world = World()
    world.list_pods(A)
    pod = None
    for second in range(1, 131):
        await until(float(second))
        pod = pod or world.tracker(A)
        pod.last_response_at = world.clock()
    assert world.pods[A].at == [0.0]
    await until(154.1)
    assert world.pods[A].at == pytest.approx([0.0, 154.0])


@pytest.mark.parametrize(
    ("requests", "takes", "state"),
    [
        (1, 0.9, PodState.HEALTHY),
        (1, 1.1, PodState.PROBING),
        (0, 0.9, PodState.PROBING),
    ],
)
async def test_healthy_pod_with_requests_has_a_second_to_respond(
    requests: int, takes: float, state: PodState
) -> None:
    """A busy pod responds more slowly than the idle pod on which its time-out was measured."""
    world = World()
    world.list_pods(A)
    await until(1.0)
    for _ in range(requests):
        world.ask()
    world.pods[A].round_trip = takes
    world.prober.probe(world.tracker(A))
    await until(2.0 + 0.05)
    assert world.tracker(A).state is state


async def test_healthy_pod_that_fails_its_check_is_asked_again_at_once() -> None:
    world = World()
    world.list_pods(A)
    await until(149.0)
    world.pods[A].response = Response(503, b"not ready")
    await until(150.1)
    assert between(world.pods[A].at, 149, 151) == pytest.approx([150.0, 150.0])
    assert world.tracker(A).state is PodState.PROBING
    world.pods[A].response = Response()
    await until(151.0)
    assert world.tracker(A).state is PodState.HEALTHY


async def test_pod_that_dropped_a_request_is_probed_at_once() -> None:
    world = World()
    world.list_pods(A)
    await until(5.0)
    world.driver.connect_failed(world.tracker(A), "connection refused")
    assert world.pods[A].at == [0.0, 5.0]


async def test_pod_that_is_ejected_for_its_responses_is_probed_at_the_end_of_the_ejection() -> None:
    world = World()
    world.list_pods(A, B, C)
    await until(5.0)
    pod = world.tracker(A)
    world.driver.responded_badly(pod, "responded 502", untouched=True)
    world.driver.prober.hurry(world.revision)
    await until(5.09)
    assert world.pods[A].at == [0.0]
    await until(5.2)
    assert world.pods[A].at == [0.0, pytest.approx(5.1)]
    assert pod.state is PodState.HEALTHY


async def test_a_request_that_comes_does_not_shorten_the_pause_of_the_only_pod() -> None:
    world = World()
    world.list_pods(A)
    await until(5.0)
    pod = world.tracker(A)
    world.driver.responded_badly(pod, "responded 502", untouched=True)
    waiting = world.ask()
    await until(5.019)
    assert world.pods[A].at == [0.0]
    await until(5.03)
    assert world.pods[A].at == [0.0, pytest.approx(5.02)]
    assert waiting.state is ASSIGNED


# None waits for another.


@pytest.mark.untraced
async def test_silent_pods_delay_no_other_by_any_time_at_all() -> None:
    """The same pods are probed at the same times whether or not black holes are among them."""

    async def run(silent: int) -> list[float]:
        world = World()
        begin = world.clock()
        for number in range(silent):
            world.pods[f"10.1.0.{number}:8012"].silent = True
        world.pods[A].listens = False
        world.ask()
        world.list_pods(not_ready=[A, *world.pods])
        await until(begin + 1.0012)
        world.pods[A].listens = True
        await until(begin + 2.0)
        assert world.tracker(A).state is PodState.HEALTHY
        world.prober.close()
        return [moment - begin for moment in world.pods[A].at]

    alone = await run(silent=0)
    assert await run(silent=50) == pytest.approx(alone, abs=1e-9)
    assert alone[-1] == pytest.approx(1.005)


async def test_at_the_cap_those_that_failed_least_go_first() -> None:
    world = World(max_in_flight=2)
    holes = [f"10.1.0.{number}:8012" for number in range(20)]
    for address in holes:
        world.pods[address].silent = True
    waiting = world.ask()
    world.list_pods(not_ready=holes)
    assert world.prober.in_flight == 2
    await until(30.0)  # each has failed a few times
    assert all(world.tracker(address).probe.failures for address in holes)
    assert world.prober.in_flight == 2

    world.list_pods(not_ready=[*holes, A])
    assert world.pods[A].at == []  # no probe takes longer, so no place is free
    await until(35.1)  # the longest that a probe can take
    assert waiting.state is ASSIGNED
    later = [moment for address in holes for moment in between(world.pods[address].at, 30.001, 35)]
    assert world.pods[A].at[0] <= min(later, default=99.0)


async def test_never_more_probes_at_a_time_than_allowed_and_each_pod_gets_its_turn() -> None:
    world = World(max_in_flight=3)
    addresses = [f"10.1.0.{number}:8012" for number in range(30)]
    most = 0
    for address in addresses:
        world.pods[address].round_trip = 0.01
    world.list_pods(*addresses)
    for step in range(1, 600):
        most = max(most, world.prober.in_flight)
        await until(step * 0.001)
    assert most == 3
    assert all(world.tracker(a).state is PodState.HEALTHY for a in addresses)
    assert world.prober.in_flight == 0
    assert world.prober.attempts == 30


async def test_removed_pods_release_their_place_and_their_turn() -> None:
    world = World(max_in_flight=1)
    for address in (A, B):
        world.pods[address].silent = True
    world.list_pods(A)
    world.list_pods(A, B)
    world.list_pods(A, B, C)  # two pods of the queue are behind A
    world.list_pods(C)
    await until(0.0)
    await asyncio.sleep(0)
    assert world.tracker(C).state is PodState.HEALTHY
    assert world.pods[B].at == []
    assert world.prober.in_flight == 0


# How long a response may take.


@pytest.mark.parametrize("round_trip", [0.1, 0.29, 0.3, 0.45, 0.9])
async def test_far_pod_becomes_and_stays_healthy(round_trip: float) -> None:
    world = World()
    world.pods[A].round_trip = round_trip
    waiting = world.ask()
    world.list_pods(not_ready=[A])
    await until(10 * round_trip + 1.0)
    assert waiting.state is ASSIGNED
    world.pods[A].idle.clear()  # each check from now on over a new connection
    failures = dict(world.prober.failures)
    await until(200.0)
    assert world.tracker(A).state is PodState.HEALTHY
    assert world.prober.failures == failures


async def test_timeout_of_a_silent_pod_grows_to_a_bound() -> None:
    world = World()
    world.pods[A].silent = True
    world.ask()
    world.list_pods(not_ready=[A])
    await until(40.0)
    waits = [gap - DELAY_AFTER_TIMEOUT for gap in gaps(world.pods[A].at)]
    assert waits[:6] == pytest.approx([0.3, 0.6, 1.2, 2.4, 4.8, 5.0])
    assert max(waits) == pytest.approx(5.0)


async def test_pod_that_holds_probes_and_then_responds_is_healthy() -> None:
    """queue-proxy responds only when its container does, for up to 10 s."""
    world = World()
    world.pods[A].response = None
    world.ask()
    world.list_pods(not_ready=[A])
    await until(4.0)
    assert world.pods[A].abandoned >= 2
    assert world.prober.failures == {"timeout": world.pods[A].abandoned}
    world.pods[A].response = Response()
    await until(9.0)
    assert world.tracker(A).state is PodState.HEALTHY


async def test_refused_and_timed_out_are_distinguished() -> None:
    world = World()
    world.pods[A].listens = False
    world.pods[B].silent = True
    world.pods[C].response = None
    world.pods[D].response = Response(503, b"not ready")
    world.list_pods(A, B, C, D)
    await until(0.31)
    assert [world.tracker(address).probe.error for address in (A, B, C, D)] == [
        "connection refused",
        "connect timed out after 0.3 s",
        "no response in 0.3 s",
        "status 503",
    ]
    # The prober has sent a second probe, 0.2 s later, to the pods that responded at once.
    assert world.prober.failures == {
        "connect-failed": 2,
        "connect-timeout": 1,
        "timeout": 1,
        "bad-status": 2,
    }
    assert world.prober.attempts == 6


# What makes the result of a probe void.


async def test_change_for_the_worse_cancels_the_probe_under_way() -> None:
    world = World()
    world.pods[A].round_trip = 0.1
    world.list_pods(A)
    await until(150.25)  # the check of 150.2 is under way, over the connection that is kept
    assert world.tracker(A).state is PodState.HEALTHY
    assert world.prober.in_flight == 1

    world.list_pods(not_ready=[A])  # the probe under way was sent before this
    assert world.pods[A].abandoned == 1
    assert world.prober.in_flight == 1
    await until(150.31)
    assert world.tracker(A).state is PodState.PROBING
    await until(150.46)  # after the time for a connection and a response
    assert world.tracker(A).state is PodState.HEALTHY
    assert between(world.pods[A].at, 150.0, 151.0) == pytest.approx([150.2, 150.25])


async def test_dial_under_way_for_a_void_probe_leaves_its_connection_to_the_next() -> None:
    world = World()
    world.pods[A].round_trip = 0.1
    world.list_pods(not_ready=[A])
    await until(0.05)
    world.list_pods(A)  # listed as ready: probed again
    await until(0.5)
    assert world.tracker(A).state is PodState.HEALTHY
    assert len(world.pods[A].asked) == 1
    assert len(world.pods[A].idle) == 2


async def test_removed_pod_is_never_probed_again_and_its_response_is_ignored() -> None:
    world = World()
    world.pods[A].round_trip = 0.1
    world.list_pods(A)
    await until(0.15)
    world.list_pods()
    assert world.pods[A].abandoned == 1
    await until(300.0)
    assert world.pods[A].at == [0.0]
    assert world.prober.in_flight == 0


@pytest.mark.untraced
async def test_thousands_of_pods_that_are_gone_are_not_kept_until_their_next_probe() -> None:
    world = World()
    world.list_pods(*(f"10.99.{n // 250}.{n % 250}:8012" for n in range(1000)))
    await until(5.0)  # the next is in 25 s
    world.list_pods()
    world.pods.clear()
    gc.collect()
    left = [each for each in gc.get_objects() if isinstance(each, PodTracker)]
    assert sum(each.address.startswith("10.99.") for each in left) < 100


async def test_address_that_comes_back_is_probed_as_a_new_pod() -> None:
    world = World()
    world.list_pods(A)
    await until(1.0)
    world.list_pods()
    world.pods[A].listens = False
    world.list_pods(A)
    assert world.tracker(A).state is PodState.PROBING
    await until(2.0)
    assert between(world.pods[A].at, 1.0, 1.1) == [1.0]


async def test_draining_pod_is_not_probed() -> None:
    world = World()
    world.list_pods(A)
    await until(1.0)
    ticket = world.ask()
    assert ticket.state is ASSIGNED
    pod = world.tracker(A)
    world.list_pods()
    await until(200.0)
    assert pod in world.revision.backends.pods.values()
    assert len(world.pods[A].at) == 1
    release(world.driver, world.revision, ticket, world.clock())
    assert pod.state is PodState.GONE


async def test_closing_ends_all_probing_and_begins_none() -> None:
    world = World(max_in_flight=1)
    for address in (A, B, C):
        world.pods[address].silent = True
    world.list_pods(A, B, C)
    world.prober.close()
    await until(100.0)
    assert sum(len(pod.at) for pod in world.pods.values()) == 1
    assert world.prober.in_flight == 0
    assert world.prober.attempts == 1


def crowd_that_refuses() -> tuple[World, list[str]]:
    """A revision of 2,000 pods that all refuse, and a request that waits for it."""
    world = World()
    addresses = [f"10.1.{n // 250}.{n % 250}:8012" for n in range(2000)]
    for address in addresses:
        world.pods[address].listens = False
    world.list_pods(*addresses)
    world.ask()
    return world, addresses


@pytest.mark.untraced
async def test_probes_are_bounded_in_number_per_second_however_many_pods_refuse() -> None:
    world, _ = crowd_that_refuses()
    await until(2.0)
    attempts = world.prober.attempts
    assert BURST + MAX_RATE < attempts <= BURST + 2 * MAX_RATE + 10


@pytest.mark.untraced
async def test_a_new_pod_is_asked_before_hundreds_that_have_failed() -> None:
    world, addresses = crowd_that_refuses()
    await until(5.0)
    world.list_pods(A, *addresses)
    await until(5.1)
    assert world.tracker(A).state is PodState.HEALTHY


@pytest.mark.untraced
async def test_removed_pods_take_no_turn_of_a_pod_with_waiting_requests() -> None:
    world = World()
    gone = [f"10.1.{n // 250}.{n % 250}:8012" for n in range(3000)]
    world.list_pods(*gone)  # most of them wait for their turn
    world.list_pods(A)
    waiting = world.ask()
    await until(0.01)
    assert waiting.pod is world.tracker(A)
    assert world.prober.attempts < BURST + 2


def idle_crowd(world: World) -> list[str]:
    """List 3,000 revisions without requests, each with a pod that refuses after a while."""
    addresses = [f"10.2.{n // 250}.{n % 250}:8012" for n in range(3000)]
    for number, address in enumerate(addresses):
        world.pods[address].listens = False
        world.pods[address].round_trip = 0.05
        revision = RevisionID("default", f"idle-{number}")
        world.driver.set_revision(Revision(revision, probe=QUEUE_PROXY))
        endpoints = ListedEndpoints(frozenset([Endpoint(address)]), frozenset())
        world.driver.set_endpoints(revision, {AppProtocol.HTTP1: endpoints})
    return addresses


@pytest.mark.untraced
async def test_a_pod_with_waiting_requests_is_probed_before_thousands_without() -> None:
    world = World()
    idle_crowd(world)
    world.list_pods(A)
    assert world.pods[A].at == []  # there is no place
    waiting = world.ask()
    await until(0.07)  # the first probes end after 50 ms
    assert waiting.pod is world.tracker(A)
    await until(0.2)
    world.ask()
    world.list_pods(A, B)  # it comes when a request waits already
    await until(0.27)
    assert world.pods[B].at


@pytest.mark.untraced
async def test_pods_without_requests_are_probed_beside_a_crowd_that_refuses() -> None:
    world, _ = crowd_that_refuses()
    await until(1.0)
    idle = idle_crowd(world)
    await until(31.0)
    assert all(world.pods[address].at for address in idle)


# The ClusterIP, where pods cannot be reached.

VIP = "10.96.0.5:80"


def meshed(response: Response | None = None) -> World:
    """Return a world with a ready pod that responds as a mesh would, and a ClusterIP."""
    world = World(container_concurrency=10)
    world.pods[A].response = Response(503, b"")
    world.pods[VIP].response = response or Response()
    world.driver.set_service(APP, {AppProtocol.HTTP1: VIP})
    return world


async def test_cluster_ip_serves_as_soon_as_the_pod_has_responded_as_a_mesh_would() -> None:
    world = meshed()
    waiting = world.ask()
    await until(1.0)
    world.list_pods(A)
    await until(1.0 + DELAY_WANTED / 2)
    assert waiting.pod is world.revision.backends.service.tracker
    assert world.pods[VIP].at == [1.0]


async def test_ordinary_cold_start_never_asks_the_cluster_ip() -> None:
    world = meshed()
    waiting = world.ask()
    world.list_pods(not_ready=[A])
    await until(5.0)
    world.pods[A].response = Response()
    await until(5.0 + DELAY_WANTED)
    world.list_pods(A)
    await until(6.0)
    assert waiting.pod is world.tracker(A)
    assert world.pods[VIP].at == []


async def test_cluster_ip_that_was_a_moment_too_early_is_left_a_moment_later() -> None:
    world = meshed()
    world.ask()
    world.list_pods(A)
    await until(0.001)
    assert world.ask().pod is world.revision.backends.service.tracker
    await until(0.1)
    world.pods[A].response = Response()
    await until(0.2)
    assert world.ask().pod is world.tracker(A)


async def test_cluster_ip_that_fails_is_asked_seldom_and_so_are_pods_that_say_not_ready() -> None:
    world = meshed(Response(503, b""))
    world.ask()
    world.list_pods(A)
    await until(0.9)
    assert gaps(world.pods[VIP].at) == pytest.approx([DELAY_SERVICE] * 4)
    assert gaps(world.pods[A].at)[:5] == pytest.approx(BACKING_OFF)


async def test_bursts_of_requests_do_not_have_the_cluster_ip_asked_more_often() -> None:
    world = meshed(Response(503, b""))
    world.list_pods(A)
    for number in range(100):
        await until(0.01 * number)
        world.driver.cancel(world.revision, world.ask(), world.clock())
    assert len(world.pods[VIP].at) <= 1 + 1.0 / DELAY_SERVICE


async def test_pods_behind_a_real_mesh_are_asked_ever_less_also_under_full_load() -> None:
    world = meshed()
    world.list_pods(A)
    for second in range(100):
        await until(float(second) + 0.5)
        requests = [world.ask() for _ in range(11)]
        assert [r.state for r in requests] == [ASSIGNED] * 10 + [QUEUED]
        for request in requests[:10]:
            release(world.driver, world.revision, request, world.clock())
        release(world.driver, world.revision, requests[10], world.clock())
    assert len(between(world.pods[A].at, 1.0, 100.0)) <= 8


async def test_cluster_ip_that_refuses_a_request_has_the_pods_asked_at_once() -> None:
    world = meshed()
    world.list_pods(A)
    await until(50.0)
    world.pods[A].response = Response()
    world.pods[VIP].listens = False
    service = world.revision.backends.service.tracker
    assert service is not None
    world.driver.connect_failed(service, "connection refused")
    await until(50.001)
    assert world.ask().pod is world.tracker(A)


async def test_pods_are_never_asked_where_only_the_cluster_ip_may_be_used() -> None:
    world = meshed()
    world.list_pods(A)
    await until(0.1)
    asked = len(world.pods[A].at)
    world.driver.set_mesh(MeshMode.ENABLED, False)
    for second in range(60):
        await until(1.0 + second)
        assert world.ask(timeout=0.1).pod is (
            world.revision.backends.service.tracker if second < 10 else None
        )
    assert len(world.pods[A].at) == asked
    world.driver.set_mesh(MeshMode.AUTO, False)
    await until(60.5)
    assert len(world.pods[A].at) > asked


async def test_pods_that_kubernetes_vouches_for_are_not_asked_until_they_refuse() -> None:
    world = World(container_concurrency=10)
    world.pods[A].response = Response(503, b"")
    world.driver.set_mesh(MeshMode.DISABLED, False)
    world.list_pods(A)
    await until(100.0)
    assert world.pods[A].at == []
    pod = world.ask().pod
    assert pod is world.tracker(A)
    world.pods[A].listens = False
    world.driver.connect_failed(pod, "connection refused")
    waiting = world.ask()
    await until(101.0)
    assert waiting.state is QUEUED
    assert len(world.pods[A].at) > 100
    world.pods[A].listens = True
    await until(101.0 + 2 * DELAY_WANTED)
    assert waiting.pod is pod
    asked = len(world.pods[A].at)
    await until(200.0)
    assert len(world.pods[A].at) == asked


# -- pods of plain Services ---------------------------------------------------------------------

PAGE = ProbeSpec(ProbeKind.HTTP, path=b"/ready")
HEALTH = ProbeSpec(ProbeKind.GRPC)
SERVING = Response(200, b"\0\0\0\0\2\x08\1")
NOT_SERVING = Response(200, b"\0\0\0\0\2\x08\2")


@pytest.mark.parametrize(
    ("spec", "status"),
    [(ProbeSpec(), None), (PAGE, 200), (HEALTH, None)],
    ids=["tcp", "page", "grpc"],
)
async def test_a_plain_pod_that_refuses_is_probed_every_5_ms_whatever_its_probe(
    spec: ProbeSpec, status: int | None
) -> None:
    world = World(plain=spec)
    world.pods[A].listens = False
    waiting = world.ask()
    world.list_pods(not_ready=[A])
    await until(1.0)
    assert gaps(world.pods[A].at) == pytest.approx([DELAY_WANTED] * (len(world.pods[A].at) - 1))
    world.pods[A].response = SERVING
    world.pods[A].listens = True
    await until(1.01)
    assert waiting.state is ASSIGNED
    assert waiting.pod is not None
    assert waiting.pod.probe.status == status, "only a response over HTTP has a status"


async def test_a_health_page_gets_at_most_a_request_every_50_ms_whatever_happens() -> None:
    world = World(plain=PAGE)
    world.pods[A].response = NOT_READY
    world.ask()
    world.list_pods(not_ready=[A])
    for step in range(1, 300):  # news of Kubernetes, and requests that come
        await until(step / 100)
        world.list_pods(*([A] if step % 2 else []), not_ready=[] if step % 2 else [A])
        world.ask()
    found = gaps(world.pods[A].at)
    assert min(found) > 0.0499
    assert max(found) <= 0.2001


async def test_a_health_page_that_drops_connections_is_no_cheaper() -> None:
    world = World(plain=PAGE)
    world.pods[A].response = None
    world.ask()
    world.list_pods(not_ready=[A])
    await until(0.01)
    for _ in range(5):
        asked = len(world.pods[A].asked)
        world.pods[A].probes[-1].on_lost("the pod closed the connection", False)
        while len(world.pods[A].asked) == asked:
            await until(world.clock() + 0.001)
    assert min(gaps(world.pods[A].at)) > 0.0499


async def test_grpcs_health_service_is_called_soon_again_and_ever_less() -> None:
    world = World(plain=HEALTH)
    world.pods[A].response = NOT_SERVING
    waiting = world.ask()
    world.list_pods(not_ready=[A])
    await until(2.0)
    expected = [0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.2, 0.2]
    assert gaps(world.pods[A].at)[:8] == pytest.approx(expected)
    assert waiting.state is QUEUED
    world.pods[A].response = SERVING
    await until(2.3)
    assert waiting.state is ASSIGNED


async def test_a_grpc_pod_that_accepts_no_stream_times_out() -> None:
    world = World(plain=HEALTH, timeout=0.1)
    world.pods[A].silent = True
    world.ask()
    world.list_pods(not_ready=[A])
    await until(1.0)
    assert world.prober.failures == {"connect-timeout": len(world.pods[A].at) - 1}


async def test_a_pod_without_a_probe_is_probed_only_after_a_failed_connection() -> None:
    world = World(plain=ProbeSpec(ProbeKind.NONE), readiness=ReadinessRule.NO_PROBE)
    waiting = world.ask()
    world.list_pods(not_ready=[A])
    await until(60.0)
    assert world.pods[A].at == []
    world.list_pods(A)
    assert waiting.state is ASSIGNED
    await until(120.0)
    assert world.pods[A].at == []
    world.pods[A].listens = False
    world.driver.connect_failed(world.tracker(A), "refused")
    world.ask()
    await until(120.1)
    assert len(world.pods[A].at) > 10
    world.pods[A].listens = True
    await until(121.0)
    assert world.tracker(A).state is PodState.HEALTHY
    assert not between(world.pods[A].at, 120.2, 121.0)


async def test_a_page_has_as_long_as_kubelet_gives_it_each_time() -> None:
    world = World(plain=ProbeSpec(ProbeKind.HTTP, timeout=20.0))
    world.pods[A].round_trip = 8.0
    world.pods[A].response = Response(200)
    world.list_pods(A)
    await until(600.0)
    assert world.tracker(A).state is PodState.HEALTHY
    assert world.prober.failures == {}
    assert len(world.pods[A].at) > 3


@pytest.fixture
def pod() -> PodTracker:
    world = TelemetryWorld()
    (pod,) = world.healthy(world.revision(), "10.0.0.1:8012")
    return pod


def made(pod: PodTracker, timeout: float = 0.3) -> Schedule:
    return Schedule(pod, timeout, lambda schedule, now: None)


def test_the_time_out_follows_the_round_trips_within_its_limits(pod: PodTracker) -> None:
    schedule = made(pod)
    assert (schedule.timeout, schedule.due) == (0.3, inf)
    schedule.ended("", 0.2)
    assert schedule.timeout == ROUND_TRIPS * 0.2
    for now in (0.0, 100.0):
        schedule.ended("", now)
        assert 0.3 <= schedule.timeout <= MAX_TIMEOUT
    assert schedule.timeout == MAX_TIMEOUT


@pytest.mark.parametrize(
    ("kind", "timeout"), [("timeout", 0.6), ("connect-timeout", 0.6), ("connect-failed", 0.3)]
)
def test_a_late_response_doubles_the_time_out(pod: PodTracker, kind: str, timeout: float) -> None:
    schedule = made(pod)
    schedule.ended(kind, 0.0)
    assert schedule.timeout == timeout
    for _ in range(9):
        schedule.ended("timeout", 0.0)
    assert schedule.timeout == MAX_TIMEOUT


def test_a_busy_healthy_pod_has_more_time(pod: PodTracker) -> None:
    schedule = made(pod)
    assert schedule.next_timeout == 0.3
    pod.in_flight = 1
    assert schedule.next_timeout == MIN_TIMEOUT_BUSY


def test_failures_of_one_kind_in_a_row_leave_the_pod_alone_for_longer(pod: PodTracker) -> None:
    schedule = made(pod)
    for count in (1, 2, 3):
        schedule.ended("tls-failed", 10.0)
        assert schedule.quiet_until == 10 + delay_after_tls(count)
    schedule.ended("bad-status", 10.0)
    least = pod.config.revision.probe.least_interval
    assert schedule.tls_failures == 0
    assert schedule.quiet_until == 10 + delay_after_not_ready(1, 10.0, least)
    schedule.ended("", 10.0)
    assert schedule.not_ready == 0


def turns(queue: ProbeQueue[str], most: int = 10**6) -> list[str]:
    """Take turns until the queue is empty."""
    found: list[str] = []
    while (key := queue.first()) is not None and len(found) < most:
        queue.take()
        found.append(key)
    return found


def test_order_is_waiting_requests_then_fewest_failures_then_age() -> None:
    queue = ProbeQueue[str]()
    for failures in (4, 0, 1):
        for name in "xy":
            queue.put(f"idle {failures}{name}", wanted=False, failures=failures)
    queue.put("wanted 4", wanted=True, failures=4)
    queue.put("wanted 0", wanted=True, failures=0)
    expected = ["wanted 0", "wanted 4"]
    expected += [f"idle {failures}{name}" for failures in (0, 1, 4) for name in "xy"]
    assert turns(queue) == expected
    assert len(queue) == 0


def test_who_waits_is_put_first_and_may_lose_that_again() -> None:
    queue = ProbeQueue[str]()
    for name in "abc":
        assert queue.put(name, wanted=False, failures=0)
    assert queue.put("c", wanted=True, failures=0)
    assert queue.first() == "c"
    assert queue.put("c", wanted=False, failures=0)
    assert turns(queue) == ["a", "b", "c"]


def test_to_be_put_where_one_stands_costs_no_turn() -> None:
    queue = ProbeQueue[str]()
    for name in "aba":
        queue.put(name, wanted=True, failures=2)
    assert not queue.put("a", wanted=True, failures=3)  # failures count by their magnitude
    assert turns(queue) == ["a", "b"]


def test_any_number_of_failures_has_a_rank() -> None:
    queue = ProbeQueue[str]()
    for failures in (2**80, 2**20, 2**14):
        queue.put(str(failures), wanted=True, failures=failures)
    assert turns(queue) == [str(2**14), str(2**80), str(2**20)]


def test_pods_without_waiting_requests_have_a_share() -> None:
    queue = ProbeQueue[str]()
    for number in range(100):
        queue.put(f"w{number}", wanted=True, failures=0)
        queue.put(f"i{number}", wanted=False, failures=0)
    taken = turns(queue, most=4 * SHARE)
    assert [key for key in taken if key[0] == "i"] == ["i0", "i1", "i2", "i3"]
    assert taken[0] == "w0"


def test_a_discarded_key_is_gone() -> None:
    queue = ProbeQueue[str]()
    queue.discard("nobody")
    for name in "ab":
        queue.put(name, wanted=True, failures=0)
    queue.discard("a")
    assert "a" not in queue
    assert (len(queue), queue.first()) == (1, "b")
    queue.clear()
    assert queue.first() is None
    queue.take()
    assert len(queue) == 0
