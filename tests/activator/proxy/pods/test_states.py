"""The states of connections to pods."""

from __future__ import annotations

import pytest

from activator.proxy.pods.states import (
    BODY,
    CLOSED,
    HTTP1_FOLLOWS,
    HTTP2_FOLLOWS,
    IDLE,
    OPENING,
    SENT,
    Http1State,
    Http2State,
)


def test_each_state_has_its_row() -> None:
    assert set(HTTP1_FOLLOWS) == set(Http1State)
    assert set(HTTP2_FOLLOWS) == set(Http2State)


def test_each_state_but_the_first_is_reached() -> None:
    assert set().union(*HTTP1_FOLLOWS.values()) == set(Http1State) - {OPENING}
    assert set().union(*HTTP2_FOLLOWS.values()) == set(Http2State) - {Http2State.OPENING}


def test_a_request_is_sent_on_an_idle_connection_alone() -> None:
    assert [state for state, after in HTTP1_FOLLOWS.items() if SENT in after] == [IDLE]


def test_no_head_follows_a_body() -> None:
    assert HTTP1_FOLLOWS[BODY] == {IDLE, CLOSED}


@pytest.mark.parametrize(
    "state", [Http2State.OTHER_PROTOCOL, Http2State.CLOSED_EARLY, Http2State.CLOSED]
)
def test_a_connection_in_http2_that_has_ended_stays_so(state: Http2State) -> None:
    assert not HTTP2_FOLLOWS[state]
