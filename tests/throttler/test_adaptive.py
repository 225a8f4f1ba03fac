"""Adaptive concurrency: requests wait before a pod gets more of them than it can process."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from tests.throttler.simulated_pods import Run, collapsing, steady
from tests.throttler.world import One, addresses, revision
from throttler.adaptive import ALLOWANCE, MIN_LIMIT, RELEASE_AFTER, UNMEASURED, WINDOW
from throttler.capacity import SLOW_START
from throttler.model import AdaptiveMode, Policies
from throttler.pod import PodTracker
from throttler.ticket import FAILED, Ticket

OFF, OBSERVE, ON = AdaptiveMode
#: The limit of a pod that is not measured yet.
FIRST = MIN_LIMIT
#: Seconds and requests a second: what a pod serves, then a burst above that, then as before.
BURST = [(0.5, 3000.0), (0.5, 6000.0), (1.5, 3000.0)]


def world(mode: AdaptiveMode, pods: int = 1, concurrency: int = 0) -> tuple[One, list[PodTracker]]:
    one = One(concurrency)
    spec = replace(revision(concurrency), policies=Policies(adaptive=mode))
    one.throttler.set_revision(spec, 0.0)
    return one, one.healthy(addresses(pods))


def respond(one: One, ticket: Ticket, seconds: float) -> list[Ticket]:
    one.now = max(one.now, ticket.assigned + seconds)
    ticket.first_byte = one.now
    return one.release(ticket)


@pytest.mark.untraced
def test_a_pod_that_collapses_under_a_burst_recovers_only_with_a_limit() -> None:
    p99 = {
        mode: Run(Policies(adaptive=mode), collapsing(0.05, 200), BURST).run() for mode in (OFF, ON)
    }
    assert p99[ON].most < 300 < 3000 < p99[OFF].most
    assert p99[ON].percentile(0.99) < 0.6 * p99[OFF].percentile(0.99)
    assert p99[ON].served > 2 * p99[OFF].served


@pytest.mark.untraced
@pytest.mark.parametrize("seed", [6, 8, 14])
def test_a_pod_that_collapses_before_its_limit_falls_recovers(seed: int) -> None:
    """Responses that end while the pod empties were slowed down by the requests before."""
    arrivals = [(0.7, 80.0), (30.0, 350.0)]
    policies = Policies(adaptive=ON)
    run = Run(policies, collapsing(0.1, 20), arrivals, spread=0.02, seed=seed).run()
    assert run.most <= 64
    assert run.served > 4_000  # 6,000 at best, with 20 in flight; 1,400 if it stays slow
    assert run.limits[-1] < 40


@pytest.mark.untraced
def test_observing_changes_nothing_and_shows_a_limit() -> None:
    off, observe = (
        Run(Policies(adaptive=mode), collapsing(0.05, 200), [(0.3, 6000)]).run()
        for mode in (OFF, OBSERVE)
    )
    assert off.latencies == observe.latencies
    adaptive = observe.one.throttler.slots.adaptive
    assert adaptive is not None
    assert adaptive.limit_of(observe.tracked[0])


@pytest.mark.untraced
@pytest.mark.parametrize("spread", [0.2, 0.8])
def test_a_pod_that_does_not_collapse_serves_as_much(spread: float) -> None:
    off, on = (
        Run(Policies(adaptive=mode), steady(0.05), [(2.0, 4000)], spread=spread).run()
        for mode in (OFF, ON)
    )
    assert on.served >= 0.98 * off.served


@pytest.mark.untraced
@pytest.mark.parametrize(("base", "rate"), [(0.03, 100.0), (0.5, 6.0)])
def test_a_pod_for_four_requests_never_collapses(base: float, rate: float) -> None:
    """It is measured with as few requests. So the usual time is not that of an overload."""
    arrivals = [(20.0 + 20 * base, rate)]
    off, on = (
        Run(Policies(adaptive=mode), collapsing(base, 4), arrivals).run() for mode in (OFF, ON)
    )
    assert on.most <= 8
    assert on.served > 0.9 * arrivals[0][0] * rate
    assert on.served > 2.5 * off.served


@pytest.mark.untraced
def test_a_client_with_two_errors_a_second_costs_no_throughput() -> None:
    luck = random.Random(3)
    off, on = (
        Run(
            Policies(adaptive=mode),
            collapsing(0.05, 60),
            [(10.0, 780.0)],
            failing=lambda in_flight: luck.random() < 2 / 780,
        ).run()
        for mode in (OFF, ON)
    )
    assert on.served >= 0.98 * off.served


def grown(one: One, pod: PodTracker) -> list[Ticket]:
    """Let the limit of a pod double twice; return all requests."""
    tickets = one.requests(400)
    while pod.limit < 4 * FIRST:
        one.now += 0.01
        ticket = next(each for each in tickets if each.pod is not None)
        ticket.first_byte = ticket.assigned + 0.05
        one.release(ticket)
    return tickets


def fail(one: One, tickets: list[Ticket], count: int) -> None:
    """Let a pod fail so many requests, the last ones that it got."""
    for _ in range(count):
        one.now += WINDOW / 8
        running = (each for each in tickets if each.pod is not None)
        one.throttler.release(max(running, key=lambda each: each.assigned), one.now, FAILED)


def test_a_request_beyond_the_limit_waits() -> None:
    one, [pod] = world(ON)
    tickets = one.requests(100)
    assert (pod.in_flight, one.throttler.queued.waiting) == (FIRST, 100 - FIRST)
    assert respond(one, tickets[0], 0.05) == [tickets[FIRST]]


def test_a_limit_that_rises_frees_several_slots_at_once() -> None:
    one, [pod] = world(ON)
    grown(one, pod)
    assert (pod.limit, pod.in_flight) == (4 * FIRST, 4 * FIRST)


def test_an_error_response_lowers_the_limit_at_once() -> None:
    """Once errors are a tenth of a window; older ones say nothing about the new limit."""
    one, [pod] = world(ON)
    tickets = grown(one, pod)
    older = [each for each in tickets if each.pod is not None][:4]
    fail(one, tickets, 9)
    assert pod.limit == 4 * FIRST
    fail(one, tickets, 1)
    assert pod.limit == 2 * FIRST + ALLOWANCE
    for ticket in older:
        one.throttler.release(ticket, one.now + 1.0, FAILED)
    assert pod.limit == 2 * FIRST + ALLOWANCE


def raises(one: One, pod: PodTracker, until: float) -> dict[int, int]:
    """Return the limits of a pod by seconds, until a number of them."""
    limits: dict[int, int] = {}
    began = one.now
    while one.now < began + until:
        one.now += UNMEASURED
        one.throttler.raise_limits(one.now)
        if pod.limit not in limits.values():
            limits[round(one.now - began)] = pod.limit
    return limits


def test_a_pod_that_never_responds_gets_more_requests_more_and_more_rarely() -> None:
    """Responses that take minutes are no reason to keep the first limit."""
    one, [pod] = world(ON)
    one.requests(1000)
    assert raises(one, pod, 20) == {1: 8, 3: 16, 7: 32, 15: 64}


def test_a_pod_of_streams_gets_more_requests_each_second() -> None:
    one, [pod] = world(ON)
    one.requests(1000)
    limits: list[int] = []
    for _ in range(4):
        pod.last_response_at = one.now + 0.5
        limits += raises(one, pod, UNMEASURED).values()
    assert limits == [8, 16, 32, 64]


@pytest.mark.untraced
def test_a_pod_that_is_being_measured_gets_no_more_requests_until_it_is() -> None:
    one, [pod] = world(ON)
    tickets = one.requests(1000)
    assert raises(one, pod, 1) == {1: 8}
    for ticket in tickets[:4]:
        pod.last_response_at = one.now + 0.1
        respond(one, ticket, 1.1)
    assert raises(one, pod, 1) == {1: 8}
    for ticket in tickets[4:10]:
        respond(one, ticket, 0.9)
    assert pod.limit == 8, "the first window shows the usual time of fewer requests"


@pytest.mark.untraced
@pytest.mark.parametrize("base", [2.0, 5.0])
def test_a_slow_pod_does_not_collapse_before_its_first_responses(base: float) -> None:
    rate = 150 / base
    burst = [(2.0, rate), (1.0, rate + 400), (12 * base, rate)]
    off, on = (
        Run(Policies(adaptive=mode), collapsing(base, 200), burst).run() for mode in (OFF, ON)
    )
    assert on.most < 300
    assert on.served > 1.15 * off.served


def test_a_pod_whose_responses_are_measured_gets_no_more_requests_with_time() -> None:
    one, [pod] = world(ON)
    for ticket in one.requests(30):
        one.now += 0.01
        respond(one, ticket, 0.05)
    one.requests(100)
    limit = pod.limit
    one.throttler.raise_limits(one.now + 10 * UNMEASURED)
    assert (pod.limit, one.throttler.queued.waiting) == (limit, 100 - limit)


def test_a_limit_is_released_when_no_request_has_waited_for_long() -> None:
    """It is so by time alone: no request has to end."""
    one, [pod] = world(ON)
    tickets = grown(one, pod)
    fail(one, tickets, 60)
    low = pod.limit
    assert low < 2 * FIRST
    for ticket in reversed(tickets):
        one.throttler.cancel(ticket, one.now)
    began = one.now
    while one.raise_at is not None:
        assert one.raise_at <= began + RELEASE_AFTER + UNMEASURED
        assert pod.limit == low
        one.now = one.raise_at
        one.throttler.raise_limits(one.now)
    assert pod.limit == 2 * FIRST, "the highest that responses have proven"
    assert one.now >= began + RELEASE_AFTER - UNMEASURED


def test_an_observed_limit_is_released_by_the_next_request() -> None:
    """No timer follows limits that only people see."""
    one, [pod] = world(OBSERVE)
    adaptive = one.throttler.slots.adaptive
    assert adaptive is not None
    for ticket in one.requests(2 * FIRST):
        one.release(ticket)
    assert one.now < adaptive.release_at <= one.now + RELEASE_AFTER
    one.now += RELEASE_AFTER
    respond(one, one.request(), 0.05)
    assert adaptive.release_at == float("inf")
    assert adaptive.limit_of(pod) == FIRST


def test_streams_and_requests_that_clients_still_send_do_not_count() -> None:
    one, [pod] = world(ON)
    adaptive = one.throttler.slots.adaptive
    assert adaptive is not None
    for sent, lasts in ((float("inf"), 0.1), (0.0, 6.0)):
        for ticket in one.requests(30):
            ticket.sent = sent or ticket.sent
            ticket.first_byte = one.now + 0.01
            one.throttler.release(ticket, one.now + lasts)
        one.now += lasts
    assert adaptive.gradients[pod].usual == 0.0


def test_a_response_of_a_removed_pod_changes_no_limit() -> None:
    one, pods = world(ON, pods=2)
    by_pod = {ticket.pod: ticket for ticket in one.requests(2)}
    kept, removed = pods
    one.set_endpoints([kept.address])
    one.throttler.release(by_pod[removed], one.now, FAILED)
    assert (kept.limit, kept.in_flight) == (FIRST, 1)


def test_a_limit_of_the_revision_wins() -> None:
    one, [pod] = world(ON, concurrency=10)
    assert one.throttler.slots.adaptive is None
    assert pod.limit == 10


def test_the_limit_ends_with_the_annotation() -> None:
    one, [pod] = world(ON)
    one.requests(100)
    assert pod.limit == FIRST
    changes = one.throttler.set_revision(revision(), one.now)
    assert len(changes.assigned) == SLOW_START
    assert one.throttler.queued.waiting == 100 - FIRST - SLOW_START


def test_the_expected_wait_is_known_once_requests_have_waited() -> None:
    one, _ = world(ON)
    tickets = one.requests(200)
    assert one.throttler.expected_wait(one.now) is None
    for number, ticket in enumerate(tickets[:6]):
        one.now = 0.3 + number * 0.001
        one.throttler.release(ticket, one.now)
    assert one.throttler.expected_wait(one.now)
