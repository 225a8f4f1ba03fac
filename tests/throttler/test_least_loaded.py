"""The policy that gives a request to the pod with the fewest requests."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.throttler.world import One, addresses, revision, unhurried
from throttler.capacity import ActivatorShare
from throttler.lb_policy import LeastLoaded
from throttler.model import Policies
from throttler.pod import PodTracker
from throttler.ticket import Ticket

POLICIES = Policies("least-loaded")


def world(pods: int, container_concurrency: int = 10, **more: Any) -> tuple[One, list[PodTracker]]:
    one = One(container_concurrency, **more)
    one.throttler.set_revision(replace(revision(container_concurrency), policies=POLICIES), one.now)
    return one, one.healthy(addresses(pods))


def loads(pods: list[PodTracker]) -> list[int]:
    return [pod.in_flight for pod in pods]


def test_requests_that_last_are_spread_evenly() -> None:
    one, pods = world(7)
    for count in range(1, 71):
        one.request()
        assert max(loads(pods)) - min(loads(pods)) <= 1, count
    assert loads(pods) == [10] * 7
    assert one.request().pod is None


def test_requests_one_after_the_other_use_each_pod_in_turn() -> None:
    one, _ = world(5)
    used: Counter[str] = Counter()
    for _ in range(50):
        ticket = one.request()
        assert ticket.pod is not None
        used[ticket.pod.address] += 1
        one.release(ticket)
    assert set(used.values()) == {10}


def test_a_pod_that_is_slow_gets_fewer() -> None:
    one, pods = world(3)
    slow: list[Ticket] = []
    for _ in range(100):
        ticket = one.request()
        if ticket.pod is pods[0]:
            slow.append(ticket)  # no response yet
        else:
            one.release(ticket)
    assert len(slow) == 1


def test_pods_beyond_our_share_are_used_when_those_in_it_are_full() -> None:
    one, pods = world(4, 1)
    one.throttler.set_share(ActivatorShare(0, 2), one.now)
    ours = [ticket.pod for ticket in one.requests(2)]
    assert {pod.number for pod in ours if pod} == {0, 1}
    assert {ticket.pod for ticket in one.requests(2)} == set(pods[2:])


def test_another_pod_is_tried_before_one_that_has_failed_the_request() -> None:
    one, pods = world(3)
    one.requests(4)  # 2, 1, 1
    ticket = one.request()
    assert ticket.pod is pods[1]
    for expected in (pods[2], pods[0], pods[0]):
        before = ticket.pod
        one.throttler.requeue(ticket, one.now)
        assert (before, ticket.pod) == (before, expected)


def test_pods_that_come_and_go_are_followed() -> None:
    one, _ = world(2)
    running = one.requests(4)
    more = one.healthy(addresses(3))
    assert [one.request().pod for _ in range(2)] == [more[2]] * 2
    one.set_endpoints(addresses(2, first=1))
    for ticket in running:
        one.release(ticket)
    assert [pod.in_flight for pod in one.throttler.backends.pods.values()].count(0) == 1


@unhurried
@given(seed=st.integers(0, 10_000), pods=st.integers(1, 12), limit=st.sampled_from([0, 1, 3]))
def test_the_pick_is_always_one_of_the_least_loaded(seed: int, pods: int, limit: int) -> None:
    one, trackers = world(pods, limit)
    chance = random.Random(seed)
    running: list[Ticket] = []
    for _ in range(60):
        if running and chance.random() < 0.45:
            one.release(running.pop(chance.randrange(len(running))))
            continue
        free = [pod.in_flight for pod in trackers if pod.in_flight < pod.limit]
        ticket = one.request()
        if ticket.pod is None:
            assert not free
            one.throttler.cancel(ticket, one.now)
        else:
            running.append(ticket)
            assert ticket.pod.in_flight - 1 == min(free)


@pytest.mark.parametrize("load", [1, 50])
def test_a_new_pod_gets_the_next_request_whatever_the_others_have(load: int) -> None:
    one, _ = world(2, 0)
    for ticket in one.requests(2 * load):
        assert ticket.pod is not None
    (_, _, new) = one.healthy(addresses(3))
    ticket = one.request()
    assert ticket.pod is new
    one.release(ticket)
    assert one.request().pod is new


def test_the_load_of_a_pod_that_gets_no_requests_changes_nothing() -> None:
    one, pods = world(2)
    one.set_endpoints([pods[0].address])
    policy = LeastLoaded()
    policy.set_pods([pods[0]])
    policy.changed(pods[1], has_free_slot=True)
    assert policy.pick(one.request(), [pods[0]], one.throttler.slots.own_free) is pods[0]


def test_pods_of_another_activators_share_get_no_requests_without_borrowing() -> None:
    one, pods = world(4, 1, borrow=False)
    one.throttler.set_share(ActivatorShare(0, 2), one.now)
    taken = {ticket.pod for ticket in one.requests(3)}
    assert taken == {pods[0], pods[1], None}
