"""The words of reasons; why a revision has which is in test_wait_reason.py."""

from __future__ import annotations

from throttler.reason import ROWS, TABLE, Reason


def test_each_reason_has_one_row() -> None:
    assert [row.reason for row in TABLE] == list(Reason)
    assert ROWS.keys() == set(Reason)
