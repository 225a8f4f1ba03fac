"""The states of a client's connection in HTTP/1."""

from __future__ import annotations

from activator.proxy.client.states import (
    CLOSED,
    DISCARDING,
    FOLLOWS,
    LINGERING,
    READING_HEAD,
    Http1State,
)


def test_each_state_has_its_row_and_can_end():
    assert set(FOLLOWS) == set(Http1State)
    assert all(CLOSED in FOLLOWS[state] for state in Http1State if state is not CLOSED)
    assert FOLLOWS[CLOSED] == frozenset()


def test_each_state_is_reached():
    assert set().union(*FOLLOWS.values()) == set(Http1State)


def test_no_request_is_read_behind_the_last_response():
    for state in (DISCARDING, LINGERING, CLOSED):
        assert READING_HEAD not in FOLLOWS[state]
        assert FOLLOWS[state] <= {LINGERING, CLOSED}
