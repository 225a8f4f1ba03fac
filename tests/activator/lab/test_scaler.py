from __future__ import annotations

import pytest

from activator.lab.scaler import ToyScaler


def test_first_request_asks_for_one_pod_at_once():
    scaler = ToyScaler(target=10, max_pods=5, window=15)
    assert scaler.desired(0) == 0
    scaler.observe(0, 1, 1)
    assert scaler.desired(0) == 1


@pytest.mark.parametrize(
    ("concurrency", "count", "pods"),
    [
        (0.01, 3, 1),
        (0, 3, 1),
        (0, 0, 0),
        (10, 0, 1),
        (10.5, 0, 2),
        (20.0000000001, 0, 2),
        (900, 9, 5),
    ],
)
def test_pods_follow_concurrency_up_to_the_limit(concurrency, count, pods):
    scaler = ToyScaler(target=10, max_pods=5, window=15)
    scaler.observe(0, concurrency, count)
    assert scaler.desired(0) == pods


def test_pods_leave_only_after_a_window_that_was_quieter():
    scaler = ToyScaler(target=1, max_pods=9, window=15)
    scaler.observe(0, 5, 5)
    scaler.observe(1, 2, 2)
    scaler.observe(2, 0, 0)
    assert [scaler.desired(now) for now in (3, 14.9, 15, 15.9, 16, 17)] == [5, 5, 2, 2, 0, 0]


def test_silence_alone_scales_to_zero_and_its_time_is_known():
    scaler = ToyScaler(target=1, max_pods=9, window=15)
    scaler.observe(3, 4, 4)
    assert scaler.next_change() == 18
    assert scaler.desired(17.9) == 4
    assert scaler.desired(18) == 0
    assert scaler.next_change() is None


def test_least_number_is_kept_without_any_load():
    assert ToyScaler(target=1, max_pods=3, window=15, min_pods=2).desired(100) == 2


def test_long_run_remembers_no_more_than_its_window():
    scaler = ToyScaler(target=1, max_pods=9, window=15)
    for now in range(1000):
        scaler.observe(now, 1000 - now, 1)
        scaler.desired(now)
    assert len(scaler._needs) <= 16


@pytest.mark.parametrize("wrong", [{"target": 0}, {"window": 0}, {"min_pods": 4}])
def test_impossible_settings_are_refused(wrong):
    with pytest.raises(ValueError, match="cannot scale"):
        ToyScaler(**{"target": 1, "max_pods": 3, "window": 15, **wrong})
