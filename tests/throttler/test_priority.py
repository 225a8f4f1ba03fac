"""The classes of queued requests, and how a request rises with age."""

from __future__ import annotations

from math import inf

import pytest

from throttler.request_policies import HIGH, LOW, NAMES, NORMAL, rank_at, share_of


def test_the_names_are_in_the_order_in_which_classes_go_first() -> None:
    assert [NAMES[each] for each in (HIGH, NORMAL, LOW)] == ["high", "normal", "low"]


@pytest.mark.parametrize(
    ("limit", "shares"),
    [(0, [0, 0, 0]), (1, [1, 1, 1]), (10, [10, 9, 8]), (10_000, [10_000, 9000, 7500])],
)
def test_a_lower_class_may_fill_less_of_the_queue(limit: int, shares: list[int]) -> None:
    assert [share_of(limit, each) for each in (HIGH, NORMAL, LOW)] == shares


@pytest.mark.parametrize(
    ("age", "low", "normal"),
    [
        (0.0, LOW, NORMAL),
        (49.9, LOW, NORMAL),
        (50.0, NORMAL, HIGH),
        (75.0, HIGH, HIGH),
        (200.0, HIGH, HIGH),
    ],
)
def test_a_request_rises_after_half_and_after_three_quarters(
    age: float, low: int, normal: int
) -> None:
    assert rank_at(LOW, 10.0, 110.0, 10.0 + age) == low
    assert rank_at(NORMAL, 10.0, 110.0, 10.0 + age) == normal
    assert rank_at(HIGH, 10.0, 110.0, 10.0 + age) == HIGH


def test_a_request_without_a_deadline_never_rises() -> None:
    assert rank_at(LOW, 10.0, inf, 1e9) == LOW
