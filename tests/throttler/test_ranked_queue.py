"""The queue by class and flow: which request is next, which rise."""

from __future__ import annotations

import pytest

from tests.throttler.world import OWNER
from throttler.ranked_queue import MOST_RISES, QueueCounts, RankedQueue
from throttler.request_policies import HIGH, LOW, NORMAL
from throttler.ticket import Ticket


def ticket(
    arrived: float, priority: int = NORMAL, flow: bytes = b"", within: float = 100.0
) -> Ticket:
    made = Ticket(OWNER, arrived + within)
    made.arrived, made.priority, made.flow, made.ages = arrived, priority, flow, True
    return made


def queue(*tickets: Ticket) -> RankedQueue:
    made = RankedQueue(QueueCounts())
    for each in tickets:
        made.append(each)
    return made


def drain(made: RankedQueue, now: float) -> list[float]:
    return [made.popleft(now).arrived for _ in range(made.waiting)]


def test_the_higher_class_goes_first_and_each_class_is_first_in_first_out() -> None:
    made = queue(
        ticket(1, LOW), ticket(2), ticket(3, HIGH), ticket(4, LOW), ticket(5), ticket(6, HIGH)
    )
    assert drain(made, 10.0) == [3, 6, 2, 5, 1, 4]
    assert made.oldest() is None


def test_a_request_rises_and_then_precedes_younger_ones_of_the_higher_class() -> None:
    low, normal = ticket(0, LOW), ticket(1)
    made = queue(low, normal, *(ticket(n, HIGH) for n in (40, 60)))
    assert made.popleft(49.9).arrived == 40
    assert made.popleft(51.0) is normal, "it has waited half of its time-out"
    assert made.popleft(75.0) is low, "it has waited three quarters"
    assert made.popleft(75.0).arrived == 60


def test_nobody_starves_while_more_requests_of_a_higher_class_come_than_are_served() -> None:
    starving = ticket(0.5, LOW)
    made = queue(starving)
    for now in range(1, 100):
        for part in range(3):
            made.append(ticket(now + part / 10, HIGH))
        if made.popleft(now + 0.9) is starving:
            break
    assert now == 75


def test_a_request_keeps_its_age_after_its_pod_failed_it() -> None:
    lost, other = ticket(0, LOW), ticket(5, LOW)
    made = queue(other)
    made.restore(lost, 60.0)
    made.append(ticket(59))
    assert drain(made, 60.0) == [0, 5, 59]


def test_requests_that_lost_their_pod_rise_too() -> None:
    lost = ticket(0, LOW)
    made = queue(ticket(1, HIGH), ticket(2, HIGH))
    made.restore(lost, 10.0)
    assert made.oldest() is lost
    assert made.popleft(20.0).arrived == 1
    assert made.popleft(80.0) is lost


def test_a_request_that_rose_before_its_pod_failed_it_does_not_rise_again_for_that_age() -> None:
    lost = ticket(0, LOW)
    made = queue(lost)
    assert made.popleft(10.0) is lost
    made.restore(lost, 60.0)
    ranks = [(made.top(now), lost.rank) for now in (60.0, 74.0, 75.0)]
    assert ranks == [(NORMAL, NORMAL), (NORMAL, NORMAL), (HIGH, HIGH)]


def test_without_ages_no_request_rises() -> None:
    low = ticket(0, LOW)
    low.ages = False
    made = queue(low, ticket(1, HIGH))
    assert drain(made, 99.0) == [1, 0]


def test_many_requests_rise_in_small_steps() -> None:
    made = queue(*(ticket(n / 1000, LOW) for n in range(200)))
    made.append(ticket(70.0, HIGH))
    low = made.tickets()[:200]
    assert made.popleft(90.0) is low[0]
    assert sum(each.rank == HIGH for each in low) == MOST_RISES - 1
    assert drain(made, 90.0)[:10] == [n / 1000 for n in range(1, 11)]


def test_the_oldest_request_is_found_though_it_is_not_the_next() -> None:
    oldest = ticket(0, LOW)
    made = queue(oldest, ticket(1, HIGH))
    assert made.oldest() is oldest
    made.discard(oldest)
    assert drain(made, 2.0) == [1]


def test_the_rank_of_a_ticket_that_left_is_void() -> None:
    one, two = ticket(0, LOW), ticket(1, LOW)
    made = queue(one, two)
    assert (one.rank, two.rank) == (LOW, LOW)
    made.discard(one)
    assert made.popleft(60.0) is two
    assert (one.rank, two.rank) == (-1, -1)


@pytest.mark.parametrize("left", [True, False])
def test_the_ages_of_requests_that_left_do_not_pile_up(left: bool) -> None:
    made = RankedQueue(QueueCounts())
    for n in range(1000):
        made.append(each := ticket(n, LOW, within=1e6))
        if left:
            made.discard(each)
        else:
            made.popleft(n)
    assert len(made.rises) < 100


def test_a_request_that_another_queue_has_rises_there_only() -> None:
    counts = QueueCounts()
    first, second = RankedQueue(counts), RankedQueue(counts)
    moved = ticket(0, LOW)
    first.append(moved)
    first.append(ticket(1, LOW))
    assert first.popleft(10.0) is moved
    second.append(moved)
    assert (first.top(90.0), second.top(90.0)) == (HIGH, HIGH)
    assert (drain(first, 90.0), drain(second, 90.0)) == ([1], [0])
    assert (counts.by_priority, counts.flows) == ([0, 0, 0], {})


@pytest.mark.untraced
def test_the_ages_of_requests_that_come_and_go_do_not_pile_up() -> None:
    made, other = queue(*(ticket(n, LOW, within=1e6) for n in range(100))), queue()
    for _ in range(50):
        for source, target in ((made, other), (other, made)):
            for _ in range(100):
                target.restore(source.popleft(100.0), 100.0)
    assert len(made.rises) <= 64 + 200
    assert drain(made, 9e5) == list(range(100))


class TestFlows:
    def test_flows_take_turns_inside_a_class(self) -> None:
        made = queue(*(ticket(n, flow=b"greedy") for n in range(4)), ticket(4, flow=b"modest"))
        assert drain(made, 5.0) == [0, 4, 1, 2, 3]


class TestViews:
    def test_the_forecast_counts_only_those_that_go_first(self) -> None:
        made = queue(*(ticket(n, LOW) for n in range(50)), ticket(50, HIGH))
        assert made.ahead_of(ticket(51, HIGH)) == 1
        assert made.ahead_of(ticket(51)) == 1
        assert made.ahead_of(ticket(51, LOW)) == 51

    def test_flows_go_first_as_often_as_the_own_one(self) -> None:
        made = queue(*(ticket(n, flow=b"greedy") for n in range(50)), ticket(50, flow=b"b"))
        assert made.ahead_of(ticket(51, flow=b"c")) == 2
        assert made.ahead_of(ticket(51, flow=b"b")) == 4
        assert made.ahead_of(ticket(51, flow=b"greedy")) == 51
