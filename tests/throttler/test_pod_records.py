"""The data that a pod's probes and responses leave."""

from __future__ import annotations

from throttler.pod import Ejection, ProbeRecord


def test_failures_in_a_row_count_from_the_first_of_them() -> None:
    probe = ProbeRecord(1.0)
    assert (probe.failures, probe.at, probe.status, probe.error) == (0, None, None, "")
    for now in (2.0, 3.0):
        probe.record_failure(f"at {now}", now)
    assert (probe.failures, probe.failing_since, probe.error) == (2, 2.0, "at 3.0")


def test_a_new_pod_has_no_errors() -> None:
    ejection = Ejection()
    assert (ejection.active, ejection.half_open) == (False, False)
    assert (ejection.consecutive_errors, ejection.count) == (0, 0)
    assert ejection.until < 0.0
