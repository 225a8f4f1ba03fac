"""The windows of a connection, and budgets: so many at once, and then so many a second."""

from __future__ import annotations

import pytest

from activator.proxy.http2.connection import RateBudget
from activator.proxy.http2.frames import DEFAULT_WINDOW, MAX_31_BITS, ConnectionFault
from activator.proxy.http2.stream import CONNECTION_WINDOW, LOW_WINDOW, FlowControl


def test_a_peer_gets_all_of_its_window_again():
    flow = FlowControl()
    flow.allowed -= CONNECTION_WINDOW // 2
    assert flow.allowed == LOW_WINDOW
    assert flow.grant() == CONNECTION_WINDOW // 2
    assert flow.allowed == CONNECTION_WINDOW
    flow.allowed -= CONNECTION_WINDOW
    assert flow.grant() == CONNECTION_WINDOW


def test_more_than_the_window_is_a_fault():
    flow = FlowControl()
    flow.allowed -= CONNECTION_WINDOW + 1
    with pytest.raises(ConnectionFault, match="DATA beyond the window"):
        flow.grant()


def test_a_window_cannot_grow_without_bound():
    flow = FlowControl()
    with pytest.raises(ConnectionFault, match="too large"):
        flow.widen(MAX_31_BITS)


def test_small_increments_are_free_while_they_give_back_what_was_sent():
    flow = FlowControl()
    assert flow.widen(1)
    flow.window -= 100
    assert not flow.widen(1)
    assert not flow.widen(64)


def test_what_was_allowed_of_a_stream_may_come_late_once():
    flow = FlowControl()
    flow.late = 10
    assert flow.came_late(10)
    assert not flow.came_late(1)
    assert flow.window == DEFAULT_WINDOW


def test_a_ping_is_idle_where_nothing_was_sent_since_the_one_before():
    flow = FlowControl()
    assert not flow.is_idle_ping()
    assert flow.is_idle_ping()
    flow.window -= 1
    assert not flow.is_idle_ping()


def test_what_is_used_up_comes_back_with_time():
    budget = RateBudget(3, 2.0)
    assert [budget.take(10.0) for _ in range(4)] == [True, True, True, False]
    assert budget.take(10.5)
    assert not budget.take(10.5)


def test_no_more_comes_back_than_there_was():
    budget = RateBudget(2, 100.0)
    budget.take(0.0)
    assert [budget.take(1e6) for _ in range(3)] == [True, True, False]


def test_a_share_of_what_is_done_besides_comes_back():
    budget = RateBudget(2, 0.0, 0.5)
    assert [budget.take(0.0, 8) for _ in range(3)] == [True, True, False]
    assert [budget.take(0.0, done) for done in (9, 10, 11, 12)] == [False, True, False, True]
    assert [budget.take(0.0, 1000) for _ in range(3)] == [True, True, False]
