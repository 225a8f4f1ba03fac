"""Cached decisions of authorization servers."""

from __future__ import annotations

from activator.authorization.verdicts import MOST_VERDICTS, Verdicts, key_of
from throttler.model import RevisionID
from throttler.request_policies import Authorization, Verdict

POLICY = Authorization("http://auth/check", cache_seconds=10)
HELLO = RevisionID("default", "hello")
ALLOWED = Verdict(200)


def test_a_decision_counts_as_long_as_the_annotation_says() -> None:
    verdicts = Verdicts()
    key = key_of(HELLO, POLICY, b"3:abc")
    assert verdicts.get(key, 10, 0) is None
    verdicts.put(key, ALLOWED, 100)
    assert verdicts.get(key, 10, 109.9) is ALLOWED
    assert verdicts.get(key, 5, 105) is None  # the annotation has changed
    verdicts.put(key, ALLOWED, 100)
    assert verdicts.get(key, 10, 110) is None
    assert len(verdicts) == 0


def test_a_decision_counts_for_the_same_revision_server_and_credentials() -> None:
    keys = {
        key_of(HELLO, POLICY, b"1:ab"),
        key_of(HELLO, POLICY, b"2:ab"),
        key_of(RevisionID("default", "other"), POLICY, b"1:ab"),
        key_of(HELLO, Authorization("http://auth/other"), b"1:ab"),
    }
    assert len(keys) == 4
    assert b"1:ab" not in b"".join(key.credentials for key in keys)


def test_invented_credentials_take_bounded_memory_and_displace_the_oldest() -> None:
    verdicts = Verdicts()
    keys = [key_of(HELLO, POLICY, b"%d:" % number) for number in range(MOST_VERDICTS + 1)]
    for key in keys:
        verdicts.put(key, ALLOWED, 0)
    verdicts.put(keys[1], ALLOWED, 0)  # it is the newest now
    assert len(verdicts) == MOST_VERDICTS
    assert verdicts.get(keys[0], 10, 0) is None
    verdicts.put(keys[0], ALLOWED, 0)
    assert verdicts.get(keys[1], 10, 0) is ALLOWED
    assert verdicts.get(keys[2], 10, 0) is None
