"""The policy that sends requests with one key to one pod."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from activator import build
from tests.throttler.test_complexity import instructions
from tests.throttler.world import OWNER, One, addresses, revision, unhurried
from throttler.capacity import ActivatorShare
from throttler.lb_policy import FirstAvailable
from throttler.model import DEFAULT_REACH, Endpoint, HashKey, Policies, RevisionConfig
from throttler.pod import FreePods, PodTracker
from throttler.rendezvous import AT_ONCE, MEMO_KEYS, PER_PICK, Rendezvous
from throttler.ticket import Ticket

POLICIES = Policies("hash", HashKey(b"x-user"))
KEYS = 8_000
interpreted = pytest.mark.skipif(
    build.running() is build.Build.COMPILED, reason="it counts bytecode instructions"
)


def world(container_concurrency: int = 0, **more: Any) -> One:
    one = One(container_concurrency, **more)
    one.throttler.set_revision(replace(revision(container_concurrency), policies=POLICIES), one.now)
    return one


def pods_for(one: One, keys: range) -> list[str]:
    """Return the address of the pod that a request of each key gets, one after the other."""
    found = []
    for key in keys:
        ticket = Ticket(OWNER, 60.0)
        ticket.key = b"user-%d" % key
        pod = one.throttler.admit(ticket, 0.0)
        assert pod is not None
        found.append(pod.address)
        one.throttler.release(ticket, 0.0)
    return found


def keyed(one: One, key: bytes) -> Ticket:
    ticket = Ticket(OWNER, one.now + 60.0)
    ticket.key = key
    one.throttler.admit(ticket, one.now)
    return ticket


@pytest.mark.untraced
@pytest.mark.parametrize("pods", [1, 2, 9])
def test_only_the_share_of_a_pod_that_comes_or_goes_moves(pods: int) -> None:
    one = world()
    one.healthy(addresses(pods))
    before = pods_for(one, range(KEYS))
    new = addresses(1, first=pods)[0]
    one.healthy([*addresses(pods), new])
    after = pods_for(one, range(KEYS))
    moved = [now for was, now in zip(before, after, strict=True) if was != now]
    assert set(moved) <= {new}
    assert len(moved) / KEYS <= 1 / (pods + 1) + 0.02
    lost = addresses(pods)[0]
    one.set_endpoints([*addresses(pods)[1:], new])
    last = pods_for(one, range(KEYS))
    moved = [was for was, now in zip(after, last, strict=True) if was != now]
    assert set(moved) <= {lost}
    assert len(moved) / KEYS <= 1 / (pods + 1) + 0.02
    assert lost not in last


@pytest.mark.untraced
@pytest.mark.parametrize(("pods", "most"), [(2, 1.05), (10, 1.15), (50, 1.3)])
def test_pods_get_about_equally_many_keys(pods: int, most: float) -> None:
    one = world()
    one.healthy(addresses(pods))
    shares = Counter(pods_for(one, range(12_000)))
    assert len(shares) == pods
    assert max(shares.values()) <= most * 12_000 / pods
    assert min(shares.values()) >= 12_000 / pods / most


@pytest.mark.untraced
def test_all_activators_agree_whatever_came_before() -> None:
    """Pods are added and removed in another order, one by one or many at a time."""
    plain, other = world(), world()
    plain.healthy(addresses(40))
    chance = random.Random(1)
    listed = addresses(60)
    other.healthy(listed)
    other.set_endpoints(addresses(5, first=20))
    for address in chance.sample(addresses(40), 40):
        there = {pod.address for pod in other.throttler.backends.pods.values()}
        other.healthy(sorted(there | {address}))
    for address in addresses(60)[40:]:
        there = {pod.address for pod in other.throttler.backends.pods.values()}
        other.healthy(sorted(there | {address}))
        other.set_endpoints(sorted(there))
    assert pods_for(plain, range(5000)) == pods_for(other, range(5000))


def test_a_full_pod_is_replaced_by_the_one_that_would_get_its_keys() -> None:
    one = world(1)
    pods = one.healthy(addresses(5))
    without: dict[str, list[str]] = {}
    for pod in pods:
        one.healthy([other.address for other in pods if other is not pod])
        without[pod.address] = pods_for(one, range(50))
    one.healthy(addresses(5))
    for key, home in enumerate(pods_for(one, range(50))):
        first, second = (keyed(one, b"user-%d" % key) for _ in range(2))
        assert [ticket.pod and ticket.pod.address for ticket in (first, second)] == [
            home,
            without[home][key],
        ]
        for ticket in (first, second):
            one.release(ticket)


def test_a_request_waits_only_while_all_pods_are_full() -> None:
    one = world(1)
    pods = one.healthy(addresses(300))
    running = [keyed(one, b"one user") for _ in range(301)]
    assert {ticket.pod for ticket in running} == {*pods, None}
    home = running[0]
    assert one.release(home) == [running[-1]]


def test_a_pod_that_failed_the_request_is_passed_over() -> None:
    one = world()
    one.healthy(addresses(3))
    ticket = keyed(one, b"u")
    seen = [ticket.pod]
    for _ in range(2):
        one.throttler.requeue(ticket, one.now)
        seen.append(ticket.pod)
    assert len(set(seen)) == 3


@pytest.mark.parametrize(("limit", "expected"), [(0, 4), (1, 1), (10, 4)])
def test_a_request_without_a_key_gets_its_pod_as_by_default(limit: int, expected: int) -> None:
    one = world(limit)
    one.healthy(addresses(4))
    used = set()
    for _ in range(40):
        ticket = one.request()
        used.add(ticket.pod)
        one.release(ticket)
    assert len(used) == expected


@pytest.mark.parametrize("borrow", [True, False])
def test_shares_of_activators_count_only_where_borrowing_is_off(borrow: bool) -> None:
    found = []
    for index in (0, 1):
        one = world(10, borrow=borrow)
        one.healthy(addresses(6))
        one.throttler.set_share(ActivatorShare(index, 2), one.now)
        found.append(pods_for(one, range(200)))
    assert (found[0] == found[1]) is borrow
    assert len(set(found[0])) == (6 if borrow else 3)


def test_more_keys_than_are_remembered_change_nothing() -> None:
    one = world()
    one.healthy(addresses(5))
    keys = range(2 * MEMO_KEYS + 10)
    assert pods_for(one, keys) == pods_for(one, keys)


@pytest.mark.untraced
@unhurried
@given(st.lists(st.sets(st.integers(0, 40), min_size=1), max_size=6))
def test_any_history_of_pods_ends_in_the_same_choice(history: list[set[int]]) -> None:
    every = addresses(41)
    one, fresh = world(), world()
    for numbers in (*history, {3, 5, 7}):
        one.healthy([every[number] for number in numbers])
        assert set(pods_for(one, range(5))) <= {every[number] for number in numbers}
    fresh.healthy([every[number] for number in (3, 5, 7)])
    assert pods_for(one, range(100)) == pods_for(fresh, range(100))


class Many:
    """The policy alone, with pods by number: a throttler would add them by one probe at a time."""

    def __init__(self) -> None:
        config = RevisionConfig(revision(), DEFAULT_REACH)
        self.every = [PodTracker(config, Endpoint(a), True, 0.0) for a in addresses(150)]
        self.policy = Rendezvous(FirstAvailable())
        self.pods: list[PodTracker] = []
        self.free = FreePods(0)

    def set(self, numbers: Iterable[int]) -> None:
        """Set the pods, all free."""
        for pod in self.every:
            pod.free_pods = None
        self.pods = [self.every[number] for number in sorted(numbers)]
        self.free = FreePods(len(self.pods))
        for number, pod in enumerate(self.pods):
            pod.number, pod.free_pods = number, self.free
            self.free.add(number)
        self.policy.set_pods(self.pods)

    def pick(self, key: int) -> PodTracker:
        ticket = Ticket(OWNER, 60.0)
        ticket.key = b"user-%d" % key
        return self.policy.pick(ticket, self.pods, self.free)

    def settle(self) -> None:
        """Pick as often as the rings may need to contain these pods, and no others."""
        for _ in range(2 * len(self.every) // PER_PICK + 1):
            self.pick(0)


ranges = st.tuples(st.integers(0, 140), st.integers(1, 150)).map(
    lambda ends: range(ends[0], max(ends[0] + 1, ends[1]))
)


@pytest.mark.untraced
@settings(unhurried, max_examples=15)
@given(st.lists(st.tuples(ranges, st.integers(0, 20)), max_size=4), ranges)
def test_many_pods_at_a_time_end_in_the_same_choice(
    history: list[tuple[range, int]], last: range
) -> None:
    """During the change of the rings, each pick is one of the pods, and is free."""
    world = Many()
    for numbers, picks in (*history, (last, 0)):
        world.set(numbers)
        for key in range(picks):
            pod = world.pick(key)
            assert world.pods[pod.number] is pod
            world.free.discard(pod.number)
            assert len(world.pods) == 1 or world.pick(key) is not pod
            world.free.add(pod.number)
    world.settle()
    fresh = Many()
    fresh.set(last)
    fresh.settle()
    assert [world.pick(key).address for key in range(50)] == [
        fresh.pick(key).address for key in range(50)
    ]


def test_some_pods_of_many_leave_and_no_other_key_moves() -> None:
    """This holds from the first pick on, since searches skip the points of removed pods."""
    world = Many()
    world.set(range(150))
    world.settle()
    before = [world.pick(key).address for key in range(1000)]
    world.set(range(0, 150, 2))
    left = {pod.address for pod in world.pods}
    after = [world.pick(key).address for key in range(1000)]
    assert set(after) <= left
    assert all(now == was for was, now in zip(before, after, strict=True) if was in left)


@pytest.mark.untraced
@interpreted
def test_a_change_of_many_pods_is_done_in_pieces() -> None:
    """A pod that joins the rings costs thousands of instructions; a pod that waits costs few."""

    def cost(pods: int) -> int:
        world = Many()
        return instructions(lambda: world.set(range(pods)))

    for_one = cost(AT_ONCE) / AT_ONCE
    assert cost(150) <= cost(AT_ONCE) + (150 - AT_ONCE) * for_one / 20
    world = Many()
    world.set(range(150))
    assert max(instructions(lambda: world.pick(1)) for _ in range(20)) < 2 * PER_PICK * for_one


@interpreted
def test_rings_begin_again_when_most_pods_have_left() -> None:
    """To remove the points of all these pods would delay many picks."""
    world = Many()
    world.set(range(100))
    world.settle()
    world.set(range(100, 150))
    for _ in range(50 // PER_PICK + 1):
        world.pick(1)
    soon = instructions(lambda: world.pick(1))
    world.settle()
    assert soon == instructions(lambda: world.pick(1))
