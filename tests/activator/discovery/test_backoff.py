from __future__ import annotations

import pytest

from activator.discovery.backoff import Backoff, Pause, Timings, hurried


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


@pytest.mark.parametrize(
    ("pause", "lasted", "least", "most"),
    [
        (Pause(0.5), 0.0, 0.5, 0.5),  # shorter than the limit
        (Pause(30.0), 0.0, 1.0, 2.0),
        (Pause(30.0), 0.5, 0.5, 1.5),
        (Pause(30.0), 10.0, 0.0, 0.2),  # over by now: at once, but with jitter
        (Pause(30.0), 29.9, 0.0, 0.11),
        (Pause(17.0, minimum=17.0), 5.0, 12.0, 12.0),
        (Pause(30.0, minimum=3.0), 0.0, 3.0, 3.0),
    ],
)
def test_what_is_left_of_a_pause_once_requests_wait(
    pause: Pause, lasted: float, least: float, most: float
) -> None:
    left = [hurried(pause, lasted, Timings()) for _ in range(50)]
    assert least - 1e-9 <= min(left) <= max(left) <= most + 1e-9
    assert len(set(left)) > 1 or least == most
