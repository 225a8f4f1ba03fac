"""The states of a connection."""

from __future__ import annotations

from activator.proxy.http2.states import CLOSED, ENDING, FOLLOWS, OPEN, ConnectionState


def test_each_state_has_its_row_and_can_be_lost():
    assert set(FOLLOWS) == set(ConnectionState)
    assert all(CLOSED in FOLLOWS[state] for state in ConnectionState if state is not CLOSED)


def test_a_connection_that_ends_never_goes_on():
    assert FOLLOWS[ENDING] == {CLOSED}
    assert FOLLOWS[CLOSED] == frozenset()


def test_each_state_but_the_first_is_reached():
    assert set().union(*FOLLOWS.values()) | {OPEN} == set(ConnectionState)
