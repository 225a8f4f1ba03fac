"""The requests that wait for one pod only."""

from __future__ import annotations

from tests.throttler.test_ranked_queue import ticket
from tests.throttler.world import OWNER, One, addresses
from throttler.ranked_queue import Parked, QueueCounts
from throttler.request_policies import HIGH, LOW
from throttler.ticket import Ticket


def test_each_pod_has_its_own_order() -> None:
    one = One(1)
    first, second = one.healthy(addresses(2))
    tickets = [Ticket(OWNER, 60.0) for _ in range(6)]
    counts = QueueCounts()
    parked = Parked(counts)
    for each, pod in zip(tickets, (first, second) * 3, strict=True):
        parked.add(each, pod, 0.0)
    assert (len(parked), parked.first(), set(parked.pods())) == (6, tickets[0], {first, second})
    assert {*parked.tickets()} == {*tickets}
    parked.discard(tickets[2])
    assert tickets[2] not in parked
    assert [parked.pop(first, 0.0), parked.pop(first, 0.0)] == [tickets[0], tickets[4]]
    assert (parked.has(first), parked.has(second)) == (False, True)
    first.free_pods = None
    assert parked.take_lost() == []
    second.free_pods = None
    assert {*parked.take_lost()} == {*tickets[1::2]}
    assert (len(parked), parked.first()) == (0, None)
    parked.add(tickets[0], first, 0.0)
    assert parked.take_all() == tickets[:1]
    assert (parked.has(first), counts.flows) == (False, {})


def test_the_requests_of_a_pod_go_by_class_and_flow_and_rise_with_age() -> None:
    pod = One(1).healthy(addresses(1))[0]
    parked = Parked(QueueCounts())
    low, high = ticket(0, LOW), ticket(3, HIGH)
    greedy = [ticket(n, flow=b"greedy") for n in (1, 2)]
    modest = ticket(4, flow=b"modest")
    for each in (low, *greedy, high, modest):
        parked.add(each, pod, 5.0)
    assert parked.top(pod, 10.0) == HIGH
    assert [parked.pop(pod, 10.0) for _ in range(3)] == [high, greedy[0], modest]
    assert parked.top(pod, 76.0) == HIGH
    assert parked.pop(pod, 76.0) is low
