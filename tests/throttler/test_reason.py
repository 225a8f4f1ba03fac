"""The words of reasons; why a revision has which is in test_wait_reason.py."""

from __future__ import annotations

from throttler.reason import MEANINGS, Reason


def test_each_word_has_a_sentence() -> None:
    assert MEANINGS.keys() == set(Reason)
    assert all(meaning.endswith(".") for meaning in MEANINGS.values())
