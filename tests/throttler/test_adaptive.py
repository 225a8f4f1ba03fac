"""Adaptive concurrency: requests wait before a pod gets more of them than it can process."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.throttler.simulated_pods import Run, collapsing, steady
from tests.throttler.world import One, addresses, revision
from throttler.adaptive import RELEASE_AFTER, UNMEASURED
from throttler.model import AdaptiveMode, Policies
from throttler.pod import PodTracker
from throttler.ticket import FAILED, Ticket

OFF, OBSERVE, ON = AdaptiveMode
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
    assert p99[ON].percentile(0.99) < 0.5 * p99[OFF].percentile(0.99)
    assert p99[ON].served > 2 * p99[OFF].served


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


def test_a_request_beyond_the_limit_waits() -> None:
    one, [pod] = world(ON)
    tickets = one.requests(100)
    assert (pod.in_flight, one.throttler.breaker.waiting) == (64, 36)
    assert respond(one, tickets[0], 0.05) == [tickets[64]]


def test_a_limit_that_rises_frees_several_slots_at_once() -> None:
    one, [pod] = world(ON)
    tickets = one.requests(200)
    for number in range(40):
        one.now += 0.01
        respond(one, tickets[number], 0.05)
        if pod.limit > 64:
            break
    assert (pod.limit, pod.in_flight) == (128, 128)


def test_an_error_response_lowers_the_limit_at_once() -> None:
    one, [pod] = world(ON)
    tickets = one.requests(70)
    one.throttler.release(tickets[0], one.now, FAILED)
    assert pod.limit == 36
    assert one.throttler.release(tickets[1], one.now, FAILED) is None
    assert pod.limit == 36, "the second error is older than the new limit"


def test_pods_that_never_respond_get_more_requests_after_a_second_each_time() -> None:
    """Responses that take minutes are no reason to keep the first limit."""
    one, [pod] = world(ON)
    one.requests(300)
    for limit in (128, 256, 512):
        assert one.raise_at is not None
        one.now = max(one.now, one.raise_at)
        one.throttler.raise_limits(one.now + UNMEASURED)
        one.now += UNMEASURED
        assert pod.limit == limit


def test_a_pod_whose_responses_are_measured_gets_no_more_requests_with_time() -> None:
    one, [pod] = world(ON)
    for ticket in one.requests(30):
        one.now += 0.01
        respond(one, ticket, 0.05)
    one.requests(100)
    one.throttler.raise_limits(one.now + 10 * UNMEASURED)
    assert (pod.limit, one.throttler.breaker.waiting) == (64, 36)


def test_a_limit_is_released_when_no_request_has_waited_for_long() -> None:
    one, [pod] = world(ON)
    tickets = one.requests(65)
    one.now += 0.1
    one.throttler.release(tickets[0], one.now, FAILED)
    for ticket in tickets[1:]:
        one.throttler.release(ticket, one.now)
    assert pod.limit == 36
    one.now += RELEASE_AFTER + 1
    respond(one, one.request(), 0.05)
    assert pod.limit == 64


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
    assert adaptive._gradients[pod].usual == 0.0


def test_a_response_of_a_removed_pod_changes_no_limit() -> None:
    one, pods = world(ON, pods=2)
    by_pod = {ticket.pod: ticket for ticket in one.requests(2)}
    kept, removed = pods
    one.set_endpoints([kept.address])
    one.throttler.release(by_pod[removed], one.now, FAILED)
    assert (kept.limit, kept.in_flight) == (64, 1)


def test_a_limit_of_the_revision_wins() -> None:
    one, [pod] = world(ON, concurrency=10)
    assert one.throttler.slots.adaptive is None
    assert pod.limit == 10


def test_the_limit_ends_with_the_annotation() -> None:
    one, [pod] = world(ON)
    tickets = one.requests(100)
    one.throttler.release(tickets[0], one.now, FAILED)
    assert pod.limit == 36
    changes = one.throttler.set_revision(revision(), one.now)
    assert len(changes.assigned) == 36
    assert one.throttler.breaker.waiting == 0


def test_the_expected_wait_is_known_once_requests_have_waited() -> None:
    one, _ = world(ON)
    tickets = one.requests(200)
    assert one.throttler.expected_wait(one.now) is None
    for number, ticket in enumerate(tickets[:66]):
        one.now = 0.3 + number * 0.001
        one.throttler.release(ticket, one.now)
    assert one.throttler.expected_wait(one.now)
