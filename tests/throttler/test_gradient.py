"""The limit of one pod, by the times to the first byte of its responses."""

from __future__ import annotations

import pytest

from throttler.adaptive import ALLOWANCE, MAX_LIMIT, MIN_LIMIT, SAMPLES, WINDOW, Gradient


class Pod:
    """A gradient, its clock, and windows of equal responses."""

    def __init__(self, limit: int = 64) -> None:
        self.gradient, self.now = Gradient(limit, 0.0), 0.0

    def window(self, seconds: float, in_flight: int | None = None, assigned: float = -1.0) -> int:
        """Record one window of responses; return the limit after it."""
        began = self.now if assigned < 0 else assigned
        load = self.gradient.limit if in_flight is None else in_flight
        for _ in range(SAMPLES):
            self.now += 1.01 * WINDOW / (SAMPLES - 1)
            self.gradient.responded(began, seconds, load, load, self.now)
        return self.gradient.limit


def test_a_limit_that_is_reached_doubles_until_responses_get_slow() -> None:
    pod = Pod()
    assert [pod.window(0.05), pod.window(0.05), pod.window(0.06)] == [128, 256, 512]
    fallen = pod.window(0.15)
    assert 0.5 * 512 <= fallen < 300
    assert pod.window(0.05) == fallen + ALLOWANCE


def test_a_limit_that_is_not_reached_stays() -> None:
    pod = Pod()
    assert [pod.window(0.05, 60), pod.window(0.05, 63)] == [64, 64]
    assert pod.window(0.5, 31) == 64, "few requests in flight are not the cause"
    assert pod.window(0.5, 32) < 64


def test_the_limit_stays_in_its_bounds() -> None:
    pod = Pod()
    for _ in range(20):
        pod.window(0.05)
    assert pod.gradient.limit == MAX_LIMIT
    for number in range(1, 20):
        pod.window(0.05 * 3**number)
    assert pod.gradient.limit >= MIN_LIMIT
    assert (Gradient(1, 0.0).limit, Gradient(5000, 0.0).limit) == (MIN_LIMIT, MAX_LIMIT)


def test_responses_to_requests_under_an_earlier_limit_do_not_count() -> None:
    pod = Pod()
    pod.window(0.05)
    for _ in range(5):
        pod.window(0.5, assigned=0.0)
    assert pod.gradient.limit == 128


def test_the_first_window_has_responses_of_an_earlier_limit_and_does_not_raise_it() -> None:
    pod = Pod()
    pod.now = 1.0
    pod.gradient.double(1.0, blind=True)
    assert pod.window(0.05, assigned=0.0) == 128
    assert pod.gradient.usual == 0.05
    assert pod.window(0.05) == 256


def test_a_window_of_very_many_responses_has_the_median_of_the_first() -> None:
    pod = Pod()
    pod.window(0.05)
    began = pod.now
    for seconds in [0.05] * 1000 + [0.5] * 2000:
        pod.gradient.responded(began, seconds, 128, 128, began)
    pod.gradient.responded(began, 0.5, 128, 128, began + WINDOW)
    assert pod.gradient.limit == 256


@pytest.mark.parametrize(
    ("errors", "load", "limit"),
    [(10, 31, 64), (10, 64, 36), (1, 64, 36), (0, 64, 128)],
)
def test_an_error_response_of_a_busy_pod_halves_the_limit_once(
    errors: int, load: int, limit: int
) -> None:
    """A tenth of a window is enough; a pod that is nearly idle is not overloaded."""
    pod = Pod()
    for number in range(SAMPLES):
        now = 1.01 * WINDOW * number / (SAMPLES - 1)
        if number < errors:
            pod.gradient.failed(0.0, load, load, now)
        else:
            pod.gradient.responded(0.0, 0.05, load, load, now)
    assert pod.gradient.limit == limit
    for _ in range(5):
        pod.gradient.failed(0.0, load, load, 2 * WINDOW)
    assert pod.gradient.limit == limit


def test_few_errors_among_many_responses_lower_nothing() -> None:
    """One client whose requests always fail shows nothing about the pod."""
    pod = Pod()
    for number in range(500):
        now = number * 0.001
        if number % 50:
            pod.gradient.responded(now, 0.05, 40, 40, now)
        else:
            pod.gradient.failed(now, 40, 40, now)
    assert pod.gradient.limit == 64


def test_another_cause_than_requests_in_flight_becomes_the_usual_time() -> None:
    """A database is slower for good: with half of the requests, responses are as slow."""
    pod = Pod(200)
    for _ in range(3):
        pod.window(0.05, 150)
    limits = [pod.window(0.2) for _ in range(10)]
    assert min(limits) >= 50
    assert limits[-1] > 500
    assert pod.gradient.usual == pytest.approx(0.2, rel=0.1)


def test_slow_responses_of_a_long_overload_do_not_become_usual() -> None:
    pod = Pod(200)
    pod.window(0.05, 100)
    for _ in range(600):  # a minute
        pod.window(0.05 * max(1.0, (pod.gradient.limit / 200) ** 2))
    assert pod.gradient.usual < 0.06
    assert pod.gradient.limit < 290


def test_a_pod_that_becomes_faster_is_known_within_seconds() -> None:
    pod = Pod()
    for _ in range(20):
        pod.window(0.5, 10)
    for _ in range(60):
        pod.window(0.05, 10)
    assert pod.gradient.usual < 0.15


def test_a_release_lets_the_limit_rise_quickly_again() -> None:
    """It begins where responses took the usual time, unless slow ones have shown otherwise."""
    pod = Pod()
    pod.window(0.05)
    pod.window(0.05)
    for number in range(SAMPLES):
        pod.gradient.failed(pod.now, 256, 256, pod.now + WINDOW * number)
    assert pod.gradient.limit == 132
    pod.gradient.release(pod.now)
    assert pod.gradient.limit == 132
    pod.now += 10.0
    assert [pod.window(0.05), pod.window(0.5)] == [264, 136]
    pod.gradient.release(pod.now)
    assert pod.gradient.limit == 136
