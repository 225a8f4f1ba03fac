"""Kept responses of one revision: bounded, the oldest leaves first."""

from __future__ import annotations

from activator.records.kept_responses import (
    MOST_BYTES,
    MOST_RESPONSES,
    KeptResponse,
    KeptResponses,
)


def test_the_last_response_of_a_key_counts():
    kept = KeptResponses()
    assert kept.get(b"a") is None
    kept.put(b"a", KeptResponse(b"1", 1.0))
    kept.put(b"a", KeptResponse(b"22", 2.0))
    assert kept.get(b"a") == KeptResponse(b"22", 2.0)
    assert kept.size == 2


def test_the_oldest_leaves_for_a_new_one():
    kept = KeptResponses()
    for key in (b"a", b"b", b"c"):
        kept.put(key, KeptResponse(bytes(MOST_BYTES // 3), 0.0))
    kept.put(b"d", KeptResponse(bytes(MOST_BYTES // 2), 0.0))
    assert [kept.get(key) is None for key in (b"a", b"b", b"c", b"d")] == [True, True, False, False]
    assert kept.size <= MOST_BYTES


def test_a_response_beyond_the_limit_replaces_nothing_but_its_own():
    kept = KeptResponses()
    kept.put(b"a", KeptResponse(b"1", 0.0))
    kept.put(b"b", KeptResponse(b"2", 0.0))
    kept.put(b"a", KeptResponse(bytes(MOST_BYTES + 1), 0.0))
    assert kept.get(b"a") is None
    assert kept.get(b"b") is not None
    assert kept.size == 1


def test_the_number_of_responses_is_limited():
    kept = KeptResponses()
    for number in range(2 * MOST_RESPONSES):
        kept.put(b"%d" % number, KeptResponse(b"", 0.0))
    found = [kept.get(b"%d" % number) is not None for number in range(2 * MOST_RESPONSES)]
    assert found == [False] * MOST_RESPONSES + [True] * MOST_RESPONSES
