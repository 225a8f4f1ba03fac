"""How failures in a row are logged, and when they cast doubt on the version of a watch."""

from __future__ import annotations

from logging import DEBUG, INFO, WARNING

from activator.discovery.reflector import RELIST_AFTER_FAILURES, WatchFailures


def test_the_first_failure_is_no_warning_and_a_repeated_one_is_one_every_ten_seconds() -> None:
    failures = WatchFailures()
    found = [failures.add("refused", now, suspect=False) for now in (0.0, 1.0, 2.0, 10.9, 11.0)]
    assert found == [INFO, WARNING, DEBUG, DEBUG, WARNING]
    assert failures.add("reset", 11.1, suspect=False) == WARNING
    failures.clear()
    assert (failures.in_a_row, failures.last_error) == (0, "")
    assert failures.add("refused", 12.0, suspect=False) == INFO


def test_only_suspect_failures_in_a_row_make_the_version_suspect() -> None:
    failures = WatchFailures()
    for _ in range(RELIST_AFTER_FAILURES):
        failures.add("refused", 0.0, suspect=False)
    for _ in range(RELIST_AFTER_FAILURES - 1):
        failures.add("garbled", 0.0, suspect=True)
    assert not failures.make_suspect
    failures.add("garbled", 0.0, suspect=True)
    assert failures.make_suspect
    failures.clear()
    assert not failures.make_suspect
