"""Which pod a request gets, with Knative's own cases."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Collection, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.throttler.world import OWNER, One, addresses, unhurried
from throttler.lb_policy import FirstAvailable, RandomChoice2, RoundRobin
from throttler.pod import FreePods, PodTracker
from throttler.ticket import Ticket

TICKET = Ticket(OWNER, 60.0)


def pods_of(count: int) -> list[PodTracker]:
    return One(10).healthy(addresses(count))


def room(*numbers: int) -> FreePods:
    found = FreePods(1 + max(numbers))
    for number in numbers:
        found.add(number)
    return found


def drawn(*numbers: float) -> Callable[[], float]:
    return iter(numbers).__next__


class TestFirstAvailable:
    def test_it_takes_the_first_pod_that_has_room(self) -> None:
        pods = pods_of(3)
        assert FirstAvailable().pick(TICKET, pods, room(0, 1, 2)) is pods[0]
        assert FirstAvailable().pick(TICKET, pods, room(1, 2)) is pods[1]
        assert FirstAvailable().pick(TICKET, pods, room(2)) is pods[2]


class TestRoundRobin:
    def indices(self, pods: Sequence[PodTracker], *free: Collection[int]) -> list[int]:
        """Return the picks of one policy from one set, whose free pods change."""
        policy, room = RoundRobin(), FreePods(len(pods))
        found = []
        for numbers in free:
            for number in range(len(pods)):
                (room.add if number in numbers else room.discard)(number)
            found.append(pods.index(policy.pick(TICKET, list(pods), room)))
        return found

    def test_each_pod_gets_its_turn(self) -> None:
        assert self.indices(pods_of(3), *[{0, 1, 2}] * 7) == [0, 1, 2, 0, 1, 2, 0]

    def test_full_pods_are_passed_over(self) -> None:
        free = [{1, 3}, {0, 1, 3}, {0, 2}, {0}, {0}]
        assert self.indices(pods_of(4), *free) == [1, 3, 0, 0, 0]

    def test_a_freed_pod_is_used_again(self) -> None:
        assert self.indices(pods_of(3), {0, 1, 2}, {1, 2}, {0}) == [0, 1, 0]

    def test_it_continues_after_a_change_of_the_pods(self) -> None:
        one = One(10)
        one.healthy(addresses(3))
        assert [one.request().pod, one.request().pod] == one.healthy(addresses(3))[:2]
        pods = one.healthy(addresses(4))
        assert [one.request().pod for _ in range(3)] == [pods[2], pods[3], pods[0]]
        pods = one.healthy(addresses(1))
        assert [one.request().pod for _ in range(2)] == pods[:1] * 2

    def test_many_requests_are_spread_evenly(self) -> None:
        counts = Counter(self.indices(pods_of(7), *[set(range(7))] * 700))
        assert set(counts.values()) == {100}


class TestRandomChoice2:
    def test_the_only_pod_is_taken_without_a_draw(self) -> None:
        pods = pods_of(1)
        assert RandomChoice2(drawn()).pick(TICKET, pods, room(0)) is pods[0]

    def test_of_two_pods_the_less_busy_one_is_taken(self) -> None:
        pods = pods_of(2)
        pods[0].in_flight = 1
        for first in (0.0, 0.9):
            assert RandomChoice2(drawn(first, 0.0)).pick(TICKET, pods, room(0, 1)) is pods[1]

    def test_equals_are_decided_by_the_draw(self) -> None:
        pods = pods_of(2)
        assert RandomChoice2(drawn(0.0, 0.0)).pick(TICKET, pods, room(0, 1)) is pods[0]
        assert RandomChoice2(drawn(0.9, 0.0)).pick(TICKET, pods, room(0, 1)) is pods[1]

    @pytest.mark.parametrize("count", [2, 3, 5])
    def test_every_pair_of_two_different_pods_is_drawn_equally_often(self, count: int) -> None:
        """Pods with higher numbers are busier, so the pick is the lower one of the pair."""
        pods = pods_of(count)
        for number, pod in enumerate(pods):
            pod.in_flight = number
        steps = range(count * (count - 1))
        picks: Counter[int] = Counter()
        for step in steps:
            first, second = divmod(step, count - 1)
            policy = RandomChoice2(drawn((first + 0.5) / count, (second + 0.5) / (count - 1)))
            picks[pods.index(policy.pick(TICKET, pods, room(*range(count))))] += 1
        # Of n pods, number i is the lower one of n - 1 - i pairs, each in two orders.
        assert [picks[i] for i in range(count)] == [2 * (count - 1 - i) for i in range(count)]

    def test_idle_pods_are_taken_about_equally_often(self) -> None:
        pods, policy = pods_of(10), RandomChoice2(random.Random(7).random)
        picks = Counter(policy.pick(TICKET, pods, room(*range(10))).address for _ in range(10_000))
        assert len(picks) == 10
        assert all(850 < n < 1150 for n in picks.values())

    def test_requests_that_last_are_spread_far_better_than_by_chance(self) -> None:
        pods, policy = pods_of(20), RandomChoice2(random.Random(7).random)
        for _ in range(2000):
            policy.pick(TICKET, pods, room(*range(20))).in_flight += 1
        assert max(p.in_flight for p in pods) - min(p.in_flight for p in pods) <= 6

    def test_a_full_pod_is_replaced_by_the_next_that_has_room(self) -> None:
        pods = pods_of(4)
        pods[3].in_flight = 5  # drawn second, and busier
        assert RandomChoice2(drawn(0.0, 0.9)).pick(TICKET, pods, room(2, 3)) is pods[2]

    def test_the_next_after_the_last_is_the_first(self) -> None:
        pods = pods_of(4)
        assert RandomChoice2(drawn(0.9, 0.9)).pick(TICKET, pods, room(1)) is pods[1]


@unhurried
@given(
    free=st.sets(st.integers(0, 11), min_size=1),
    busy=st.lists(st.integers(0, 5), min_size=12, max_size=12),
    seed=st.integers(0, 1000),
    asked=st.integers(0, 15),
)
def test_no_policy_ever_picks_a_pod_without_room(
    free: set[int], busy: list[int], seed: int, asked: int
) -> None:
    pods = pods_of(12)
    for pod, in_flight in zip(pods, busy, strict=True):
        pod.in_flight = in_flight
    chance = random.Random(seed).random
    for policy in (FirstAvailable(), RoundRobin(), RandomChoice2(chance)):
        for _ in range(asked):
            policy.pick(TICKET, pods, room(*range(12)))
        assert pods.index(policy.pick(TICKET, pods, room(*free))) in free
