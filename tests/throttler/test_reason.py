"""The words of reasons; test_wait_reason.py tests when each of them holds."""

from __future__ import annotations

from throttler.reason import ROWS, TABLE, Reason


def test_each_reason_has_one_row() -> None:
    assert [row.reason for row in TABLE] == list(Reason)
    assert ROWS.keys() == set(Reason)
