"""What the activator records about failed requests, and how often it logs them."""

from __future__ import annotations

from activator.records.failures import PACE, Failed, Failures
from throttler.reason import Reason


def failed(at: float, reason: Reason = Reason.UPSTREAM_FAILED) -> Failed:
    return Failed(at, 502, reason, f"at {at}")


def test_the_last_one_is_kept_and_all_are_counted_by_reason() -> None:
    failures = Failures()
    assert (failures.last, failures.by_reason) == (None, {})
    for one in (failed(1.0), failed(2.0, Reason.QUEUE_FULL), failed(3.0)):
        failures.record(one)
    assert failures.last == failed(3.0)
    assert failures.by_reason == {Reason.UPSTREAM_FAILED: 2, Reason.QUEUE_FULL: 1}


def test_the_first_is_logged_at_once_and_a_burst_once_a_second() -> None:
    failures = Failures()
    assert failures.record(failed(10.0)) == 1
    assert [failures.record(failed(10.0 + n / 1000)) for n in range(1, 500)] == [0] * 499
    assert failures.record(failed(10.0 + PACE)) == 500
    assert failures.record(failed(20.0)) == 1
