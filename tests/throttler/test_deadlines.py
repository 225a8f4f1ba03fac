"""When the next event is due, among very many removed ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.throttler.world import OWNER, unhurried
from throttler.queue import Deadlines
from throttler.ticket import CANCELLED, QUEUED, TIMED_OUT, Ticket


def queued(deadline: float) -> Ticket:
    ticket = Ticket(OWNER, deadline)
    ticket.state = QUEUED
    return ticket


def expire(deadlines: Deadlines, now: float) -> list[Ticket]:
    """End the tickets whose deadline has passed, as the throttler does."""
    passed = []
    for ticket in deadlines.passed(now):
        ticket.state = TIMED_OUT
        passed.append(ticket)
    return passed


def test_without_queued_requests_there_is_no_deadline() -> None:
    assert Deadlines().next() is None
    assert expire(Deadlines(), 1e9) == []


def test_the_earliest_is_next_in_whatever_order_they_came() -> None:
    deadlines = Deadlines()
    for n, deadline in enumerate((5.0, 2.0, 9.0, 2.5)):
        deadlines.add(queued(deadline), n + 1)
    assert deadlines.next() == 2.0


def test_a_deadline_has_passed_the_moment_it_is_reached() -> None:
    deadlines = Deadlines()
    tickets = [queued(t) for t in (3.0, 1.0, 2.0)]
    for n, ticket in enumerate(tickets):
        deadlines.add(ticket, n + 1)
    assert expire(deadlines, 0.999) == []
    assert expire(deadlines, 2.0) == [tickets[1], tickets[2]]
    assert deadlines.next() == 3.0


def test_who_has_left_is_passed_over_wherever_it_stands() -> None:
    deadlines = Deadlines()
    tickets = [queued(t) for t in (1.0, 2.0, 3.0, 4.0)]
    for n, ticket in enumerate(tickets):
        deadlines.add(ticket, n + 1)
    tickets[0].state = tickets[2].state = CANCELLED
    assert deadlines.next() == 2.0
    assert expire(deadlines, 10.0) == [tickets[1], tickets[3]]
    assert deadlines.next() is None


def test_equal_deadlines_pass_in_the_order_of_arrival() -> None:
    deadlines = Deadlines()
    tickets = [queued(7.0) for _ in range(10)]
    for n, ticket in enumerate(tickets):
        deadlines.add(ticket, n + 1)
    assert expire(deadlines, 7.0) == tickets


@pytest.mark.untraced
def test_a_hundred_thousand_that_come_and_go_leave_no_trace() -> None:
    deadlines, largest = Deadlines(), 0
    for n in range(100_000):
        ticket = queued(300.0 + n)
        deadlines.add(ticket, 1)
        ticket.state = CANCELLED
        largest = max(largest, len(deadlines))
    assert largest <= 64 + 2


@pytest.mark.untraced
def test_the_heap_stays_in_proportion_to_those_that_wait() -> None:
    deadlines, live = Deadlines(), [queued(1000.0 + n) for n in range(500)]
    for n, ticket in enumerate(live):
        deadlines.add(ticket, n + 1)
    for n in range(20_000):
        ticket = queued(300.0 + n)
        deadlines.add(ticket, 501)
        ticket.state = CANCELLED
        assert len(deadlines) <= 64 + 2 * 501
    assert deadlines.next() == 1000.0


@pytest.mark.untraced
def test_a_hundred_thousand_cancelled_requests_are_released() -> None:
    deadlines, tickets = Deadlines(), [queued(300.0 + n) for n in range(100_000)]
    for n, ticket in enumerate(tickets):
        deadlines.add(ticket, n + 1)
    for left, ticket in enumerate(tickets, 1):
        ticket.state = CANCELLED
        deadlines.trim(100_000 - left)
        assert len(deadlines) <= 64 + 2 * (100_000 - left)
    assert len(deadlines) <= 64


def test_one_that_returns_to_the_queue_again_and_again_leaves_no_trace_either() -> None:
    deadlines, ticket = Deadlines(), queued(300.0)
    for _ in range(10_000):
        deadlines.add(ticket, 1)
        assert len(deadlines) <= 64 + 2
    assert expire(deadlines, 300.0) == [ticket]
    assert deadlines.next() is None


@pytest.mark.untraced
@unhurried
@given(st.data())
def test_next_and_passed_agree_with_a_plain_list(data: st.DataObject) -> None:
    deadlines, live = Deadlines(), list[Ticket]()
    for _ in range(data.draw(st.integers(0, 200))):
        choice = data.draw(st.integers(0, 5))
        if choice <= 2:
            ticket = queued(data.draw(st.integers(0, 50)))
            live.append(ticket)
            deadlines.add(ticket, len(live))
        elif choice <= 4 and live:
            live.pop(data.draw(st.integers(0, len(live) - 1))).state = CANCELLED
        else:
            now = data.draw(st.integers(0, 50))
            due = [t for t in live if t.deadline <= now]
            assert expire(deadlines, now) == sorted(due, key=lambda t: t.deadline)
            live = [t for t in live if t.deadline > now]
        assert deadlines.next() == min((t.deadline for t in live), default=None)
