"""The slots of pods: which are taken and released, and which pods have a free one."""

from __future__ import annotations

from tests.throttler.world import OWNER, One, addresses
from throttler.ticket import SERVED, Ticket


def test_a_freed_slot_is_reported_only_if_the_pod_was_full_or_has_drained() -> None:
    one = One(2)
    (pod,) = one.healthy(addresses(1))
    slots = one.throttler.slots
    tickets = [Ticket(OWNER, 60.0) for _ in range(2)]
    for ticket in tickets:
        assert slots.assign(ticket, slots.free_pods, 1.0) is pod
    assert (slots.in_flight, slots.peak, slots.count_free_pods()) == (2, 2, 0)
    assert not slots.free_pods.summary
    assert slots.release(tickets[0], SERVED, 2.0) is pod
    assert slots.release(tickets[1], SERVED, 2.0) is None
    assert (slots.in_flight, slots.peak, slots.count_free_pods()) == (0, 2, 1)
    assert [ticket.pod for ticket in tickets] == [None, None]


def test_a_pod_that_gets_no_requests_any_more_is_reported_with_its_last() -> None:
    one = One(2)
    one.healthy(addresses(1))
    running = one.requests(2)
    one.set_endpoints([])
    slots = one.throttler.slots
    assert slots.release(running[0], SERVED, 1.0) is None
    assert slots.release(running[1], SERVED, 1.0) is not None


def test_another_pod_is_given_if_one_has_room_else_the_same() -> None:
    one = One(1)
    first, second = one.healthy(addresses(2))
    slots = one.throttler.slots
    ticket = Ticket(OWNER, 60.0)
    slots.assign(ticket, slots.free_pods, 1.0)
    assert ticket.pod is first
    for expected in (second, first):
        ticket.record_failed_pod()
        slots.release(ticket, SERVED, 1.0)
        ticket.failed = ticket.failed[-1:]
        slots.assign_another(ticket, 1.0)
        assert ticket.pod is expected
    one.set_endpoints([first.address])
    ticket.record_failed_pod()
    slots.release(ticket, SERVED, 1.0)
    slots.assign_another(ticket, 1.0)
    assert ticket.pod is first
