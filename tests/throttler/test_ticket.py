"""The states of a ticket, as a table."""

from __future__ import annotations

import pytest

from tests.throttler.world import OWNER, Tickets
from throttler.ticket import FOLLOWS, Ticket, TicketState

S = TicketState
ENDS = {S.RELEASED, S.TIMED_OUT, S.CANCELLED, S.REJECTED}


def test_every_state_says_what_may_follow() -> None:
    assert FOLLOWS.keys() == set(TicketState)


@pytest.mark.parametrize("state", TicketState)
def test_exactly_the_ends_have_no_follower(state: TicketState) -> None:
    assert (not FOLLOWS[state]) == (state in ENDS)


@pytest.mark.parametrize("state", [state for state in TicketState if state is not S.NEW])
def test_every_state_can_be_reached_from_new(state: TicketState) -> None:
    reached, before = {S.NEW}, set[TicketState]()
    while reached != before:
        before = set(reached)
        reached = reached.union(*(FOLLOWS[s] for s in reached))
    assert state in reached


def test_nothing_becomes_new_again() -> None:
    assert all(S.NEW not in followers for followers in FOLLOWS.values())


def test_a_new_ticket_has_neither_revision_nor_pod() -> None:
    ticket = Ticket(OWNER, 12.5, 300)
    assert (ticket.state, ticket.config, ticket.pod) == (S.NEW, None, None)
    assert (ticket.deadline, ticket.size) == (12.5, 300)


def test_a_ticket_has_room_for_its_own_attributes_only() -> None:
    with pytest.raises(AttributeError):
        Ticket(OWNER, 1.0).comment = "memory per waiting request counts"  # type: ignore[attr-defined] # slots are the test


def test_the_tickets_of_these_tests_refuse_a_false_step() -> None:
    tickets = Tickets()
    ticket = tickets.make(1.0)
    ticket.state = S.QUEUED
    tickets.look()
    ticket.state = S.REJECTED
    with pytest.raises(AssertionError, match="REJECTED"):
        tickets.look()
