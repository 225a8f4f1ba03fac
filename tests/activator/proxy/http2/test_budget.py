"""So many at once, and then so many a second."""

from __future__ import annotations

from activator.proxy.http2.budget import Budget


def test_what_is_used_up_comes_back_with_time():
    budget = Budget(3, 2.0)
    assert [budget.take(10.0) for _ in range(4)] == [True, True, True, False]
    assert budget.take(10.5)
    assert not budget.take(10.5)


def test_no_more_comes_back_than_there_was():
    budget = Budget(2, 100.0)
    budget.take(0.0)
    assert [budget.take(1e6) for _ in range(3)] == [True, True, False]


def test_a_share_of_what_is_done_besides_comes_back():
    budget = Budget(2, 0.0, 0.5)
    assert [budget.take(0.0, 8) for _ in range(3)] == [True, True, False]
    assert [budget.take(0.0, done) for done in (9, 10, 11, 12)] == [False, True, False, True]
    assert [budget.take(0.0, 1000) for _ in range(3)] == [True, True, False]
