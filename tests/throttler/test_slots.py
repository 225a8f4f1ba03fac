"""The slots of pods: what is given and freed, and who counts as having room."""

from __future__ import annotations

from tests.throttler.world import OWNER, One, addresses
from throttler.ticket import SERVED, Ticket


def test_a_freed_slot_is_reported_only_if_the_pod_was_full_or_has_drained() -> None:
    one = One(2)
    (pod,) = one.healthy(addresses(1))
    slots = one.throttler.slots
    tickets = [Ticket(OWNER, 60.0) for _ in range(2)]
    for ticket in tickets:
        assert slots.give(ticket, slots.room, 1.0) is pod
    assert (slots.in_flight, slots.peak, slots.count_with_room()) == (2, 2, 0)
    assert not slots.room.summary
    assert slots.free(tickets[0], SERVED, 2.0) is pod
    assert slots.free(tickets[1], SERVED, 2.0) is None
    assert (slots.in_flight, slots.peak, slots.count_with_room()) == (0, 2, 1)
    assert [ticket.pod for ticket in tickets] == [None, None]


def test_a_pod_that_gets_no_requests_any_more_is_reported_with_its_last() -> None:
    one = One(2)
    one.healthy(addresses(1))
    running = one.requests(2)
    one.set_dests([])
    slots = one.throttler.slots
    assert slots.free(running[0], SERVED, 1.0) is None
    assert slots.free(running[1], SERVED, 1.0) is not None


def test_another_pod_is_given_if_one_has_room_else_the_same() -> None:
    one = One(1)
    first, second = one.healthy(addresses(2))
    slots = one.throttler.slots
    ticket = Ticket(OWNER, 60.0)
    slots.give(ticket, slots.room, 1.0)
    assert ticket.pod is first
    for expected in (second, first):
        ticket.note_failed()
        slots.free(ticket, SERVED, 1.0)
        ticket.failed = ticket.failed[-1:]
        slots.give_another(ticket, 1.0)
        assert ticket.pod is expected
    one.set_dests([first.address])
    ticket.note_failed()
    slots.free(ticket, SERVED, 1.0)
    slots.give_another(ticket, 1.0)
    assert ticket.pod is first
