"""The policy that picks the pod that would respond sooner."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from tests.throttler.world import OWNER, One, addresses, revision
from throttler.model import Policies
from throttler.pod import PodTracker
from throttler.ticket import FAILED, NEUTRAL, SERVED, Outcome, Ticket


def world(pods: int) -> tuple[One, list[PodTracker]]:
    one = One()
    one.throttler.set_revision(replace(revision(), policies=Policies("ewma-latency")), 0.0)
    return one, one.healthy(addresses(pods))


def admit(one: One) -> Ticket:
    """Admit a request; the world does not follow its states, which costs time."""
    one.now += 0.001
    ticket = Ticket(OWNER, one.now + 60.0)
    one.throttler.admit(ticket, one.now)
    return ticket


def serve(one: One, seconds: dict[PodTracker, float], count: int) -> Counter[int]:
    """Serve requests one after the other; return how many each pod got, by its number."""
    got = Counter[int]()
    for _ in range(count):
        ticket = admit(one)
        assert ticket.pod is not None
        got[ticket.pod.number] += 1
        one.now += seconds[ticket.pod]
        ticket.first_byte = one.now
        one.throttler.release(ticket, one.now)
    return got


def at(pod: PodTracker, one: One) -> Ticket:
    """Return a request that a pod has; other pods may have some, too."""
    while (ticket := admit(one)).pod is not pod:
        assert one.throttler.slots.in_flight < 1000
    return ticket


def test_a_pod_that_is_slower_gets_few_requests_but_some() -> None:
    one, pods = world(3)
    seconds = dict(zip(pods, (0.01, 0.01, 0.2), strict=True))
    got = serve(one, seconds, 3000)
    assert 0 < got[2] < 0.05 * 3000
    assert min(got[0], got[1]) > 0.3 * 3000


@pytest.mark.untraced
def test_a_pod_that_recovers_gets_requests_again() -> None:
    one, pods = world(2)
    serve(one, dict(zip(pods, (0.01, 0.5), strict=True)), 200)
    serve(one, dict.fromkeys(pods, 0.01), 6000)  # a minute, in which the average falls
    assert serve(one, dict.fromkeys(pods, 0.01), 1000)[1] > 20


def test_the_only_pod_gets_all_requests() -> None:
    one, [pod] = world(1)
    assert serve(one, {pod: 0.01}, 3) == {0: 3}


def test_a_response_of_a_removed_pod_changes_no_pick() -> None:
    one, pods = world(3)
    running = [admit(one) for _ in range(9)]
    assert {ticket.pod for ticket in running} == set(pods)
    one.set_endpoints(addresses(2))
    one.now += 1.0
    for ticket in running:
        ticket.first_byte = one.now
        one.throttler.release(ticket, one.now)
    assert {admit(one).pod for _ in range(10)} == set(pods[:2])


def test_one_slow_response_counts_at_once() -> None:
    one, pods = world(2)
    serve(one, dict(zip(pods, (0.01, 0.01), strict=True)), 100)
    ticket = at(pods[1], one)
    one.now += 2.0
    ticket.first_byte = one.now
    one.release(ticket)
    assert {admit(one).pod for _ in range(10)} == {pods[0]}


def test_a_pod_that_fails_at_once_does_not_look_fast() -> None:
    one, pods = world(2)
    serve(one, dict(zip(pods, (0.05, 0.05), strict=True)), 100)
    one.throttler.release(at(pods[1], one), one.now, FAILED)
    assert {admit(one).pod for _ in range(5)} == {pods[0]}


def test_a_pod_without_a_response_gets_one_request_first() -> None:
    one, pods = world(2)
    serve(one, dict(zip(pods, (0.05, 0.05), strict=True)), 50)
    one.healthy(addresses(3))
    new = one.pod(addresses(3)[2])
    for _ in range(20):
        admit(one)
    assert new.in_flight == 1


def test_a_client_that_leaves_shows_at_least_how_long_it_waited() -> None:
    outcomes: list[tuple[Outcome, float]] = [(NEUTRAL, 0.0), (SERVED, 0.01)]
    shares = []
    for outcome, seconds in outcomes:
        one, pods = world(2)
        serve(one, dict(zip(pods, (0.01, 0.01), strict=True)), 100)
        ticket = at(pods[1], one)
        if seconds:
            ticket.first_byte = one.now + seconds
        one.now += 3.0
        one.throttler.release(ticket, one.now, outcome)
        shares.append(sum(admit(one).pod is pods[1] for _ in range(20)))
    assert shares[0] < 5 < shares[1]
