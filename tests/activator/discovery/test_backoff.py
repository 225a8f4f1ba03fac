from __future__ import annotations

from activator.discovery.backoff import Backoff, Timings


def test_pauses_double_with_up_to_as_much_again_and_stay_below_the_limit() -> None:
    backoff, now, bases = Backoff(Timings()), 0.0, [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30, 30, 30]
    for base in bases:
        pause = backoff.pause(now)
        assert base <= pause <= min(2 * base, 30)
        now += pause


def test_pauses_start_from_the_first_after_a_healthy_time_only() -> None:
    backoff = Backoff(Timings())
    first = backoff.pause(0.0)
    second = backoff.pause(first + 119)
    assert second >= 1.6
    assert backoff.pause(first + 119 + second + 121) <= 1.6


def test_a_free_first_failure_costs_nothing_and_the_next_one_does() -> None:
    backoff = Backoff(Timings())
    assert backoff.pause(0.0, first_is_free=True) == 0
    assert backoff.pause(1.0, first_is_free=True) >= 1.6
