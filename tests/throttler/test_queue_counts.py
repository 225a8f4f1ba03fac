"""The counts of a queue by class and flow: how much one flow may have, and who was outranked."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.throttler.test_ranked_queue import ticket
from throttler.ranked_queue import MOST_FLOWS, QueueCounts
from throttler.request_policies import HIGH, LOW, NORMAL
from throttler.ticket import Ticket


def counts(*tickets: Ticket) -> QueueCounts:
    made = QueueCounts()
    for each in tickets:
        made.enter(each)
    return made


def test_requests_are_counted_by_class() -> None:
    tickets = [ticket(n, priority) for n, priority in enumerate((LOW, NORMAL, HIGH, LOW))]
    made = counts(*tickets)
    assert made.by_priority == [1, 1, 2]
    made.leave(tickets[0])
    assert made.by_priority == [1, 1, 1]


def test_one_flow_has_at_most_twice_its_fair_share() -> None:
    made = counts(*(ticket(n, flow=b"a") for n in range(24)))
    assert not made.is_full(b"a", 100, 24), "it is alone"
    for n in range(7):
        made.enter(ticket(n, flow=b"%d" % n))
    assert not made.is_full(b"a", 100, 31)
    made.enter(ticket(8, flow=b"last"))
    assert made.is_full(b"a", 100, 32), "22 of 100 for each of nine"
    assert not made.is_full(b"0", 100, 32)


def test_ten_are_always_allowed() -> None:
    made = counts(*(ticket(n, flow=b"a") for n in range(9)))
    assert not made.is_full(b"a", 4, 9)
    made.enter(ticket(9, flow=b"a"))
    assert made.is_full(b"a", 4, 10)


def test_a_tenth_of_the_queue_is_for_flows_with_few_requests() -> None:
    made = counts(*(ticket(n, flow=b"a") for n in range(90)))
    assert made.is_full(b"a", 100, 90)
    assert not made.is_full(b"b", 100, 90)


def test_beyond_512_flows_share_queues() -> None:
    queued = [ticket(n, flow=b"%d" % n) for n in range(3000)]
    made = counts(*queued)
    assert (len(made.flows), len(made.shared)) == (3000, 3000 - MOST_FLOWS)
    assert len(set(made.shared.values())) <= MOST_FLOWS
    shared = made.shared[b"700"]
    made.leave(queued[5])
    made.enter(ticket(0, flow=b"700"))
    assert made.shared[b"700"] == shared, "a flow keeps its queue"
    made.leave(ticket(0, flow=b"700"))
    for each in [*queued[:5], *queued[6:]]:
        made.leave(each)
    assert not made.flows
    assert not made.shared


@pytest.mark.untraced
def test_flows_with_a_shared_queue_have_their_own_limits() -> None:
    made = counts(*(ticket(n, flow=b"%d" % (n % 8000)) for n in range(9 * 8000)))
    [(fullest, _)] = Counter(made.shared.values()).most_common(1)
    tenants = [flow for flow in made.flows if made.shared.get(flow) == fullest]
    assert len(tenants) > 10, "they have 9 requests each in one queue"
    assert not any(made.is_full(flow, 1000, 0) for flow in tenants)
    made.enter(ticket(0, flow=tenants[0]))
    assert [flow for flow in tenants if made.is_full(flow, 1000, 0)] == tenants[:1]


def test_the_largest_flows() -> None:
    made = counts(*(ticket(n, flow=flow) for n, flow in enumerate([b"b", b"a", b"c", b"b"])))
    assert list(made.largest(2).items()) == [(b"b", 2), (b"a", 1)]


def test_a_request_is_outranked_once_a_later_one_of_a_higher_class_was_served() -> None:
    low, made = ticket(5, LOW), QueueCounts()
    made.served(ticket(4))
    assert not made.is_outranked(low), "that one arrived before"
    made.served(ticket(7, HIGH))
    assert made.is_outranked(low)
    assert not made.is_outranked(ticket(5, HIGH))
