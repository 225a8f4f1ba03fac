"""Cached decisions of authorization servers."""

from __future__ import annotations

from activator.authorization.authorizer import MOST_VERDICTS, VerdictKey, Verdicts, key_of
from throttler.model import RevisionID
from throttler.request_policies import Authorization, Verdict

HELLO = RevisionID("default", "hello")
ALLOWED = Verdict(200)


def policy(seconds: float = 10, url: str = "http://auth/check", *names: bytes) -> Authorization:
    return Authorization(url, cache_seconds=seconds, cache_key=names)


def key(*fields: tuple[bytes, bytes], names: tuple[bytes, ...] = ()) -> VerdictKey:
    return key_of(HELLO, policy(10, "http://auth/check", *names), fields)


def test_a_decision_counts_as_long_as_the_annotation_says() -> None:
    verdicts = Verdicts()
    one = key((b"A", b"b"))
    assert verdicts.get(one, 0) is None
    verdicts.put(one, ALLOWED, 100)
    assert verdicts.get(one, 109.9) is ALLOWED
    assert verdicts.get(key_of(HELLO, policy(5), [(b"A", b"b")]), 101) is None  # it has changed
    assert verdicts.get(one, 110) is None
    assert verdicts.get(one, 100) is None  # it is forgotten


def test_without_names_all_fields_are_part_of_the_key() -> None:
    rows = [
        key((b"A", b"b")),
        key((b"A", b"c")),
        key((b"A", b"b"), (b"X-Api-Key", b"good")),
        key((b"A", b"b"), (b"X_Api_Key", b"good")),
        key((b"Ab", b"")),
        key((b"A", b""), (b"b", b"")),
        key((b"A", b"b"), (b"A", b"b")),
        key((b"A", b"b1:a1:b")),
        key_of(RevisionID("default", "other"), policy(), [(b"A", b"b")]),
        key_of(HELLO, policy(url="http://auth/other"), [(b"A", b"b")]),
    ]
    assert len(set(rows)) == len(rows)
    assert key((b"a", b"b")) == rows[0]
    assert b"good" not in b"".join(each.fields for each in rows)


def test_names_choose_the_fields_of_the_key_in_each_spelling() -> None:
    names = (b"authorization", b"x-api-key")
    none = key(names=names)
    assert key((b"Traceparent", b"1"), (b"X-Forwarded-Uri", b"/"), names=names) == none
    one = key((b"Authorization", b"a"), names=names)
    assert key((b"authorization", b"a"), (b"Cookie", b"b"), names=names) == one
    others = [
        key((name, b"good"), names=names)
        for name in (b"X-Api-Key", b"X_Api_Key", b"x.api.key", b"X-API_KEY")
    ]
    assert len({none, one, *others}) == 6


def test_a_decision_for_one_client_or_of_many_bytes_is_not_kept() -> None:
    verdicts = Verdicts()
    cookie = b"\r\nSet-Cookie: csrf=a"
    rows = [
        (Verdict(200, b"\r\nx-user: a"), True),
        (Verdict(401, b"\r\nWWW-Authenticate: Basic"), True),
        (Verdict(403, b"", b"no"), True),
        (Verdict(403, cookie), False),
        (Verdict(302, b"\r\nLocation: /login?rd=/secret"), False),
        (Verdict(403, b"", 4096 * b"a"), True),
        (Verdict(403, b"", 4097 * b"a"), False),
        (Verdict(200, 4097 * b"a"), False),
    ]
    for number, (verdict, is_kept) in enumerate(rows):
        one = key((b"a", b"%d" % number))
        verdicts.put(one, verdict, 0)
        assert (verdicts.get(one, 0) is verdict) is is_kept, verdict


def test_invented_fields_take_bounded_memory_and_displace_the_oldest() -> None:
    verdicts = Verdicts()
    keys = [key((b"a", b"%d" % number)) for number in range(MOST_VERDICTS + 1)]
    for each in keys:
        verdicts.put(each, ALLOWED, 0)
    verdicts.put(keys[1], ALLOWED, 0)  # it is the newest now
    assert verdicts.get(keys[0], 0) is None
    verdicts.put(keys[0], ALLOWED, 0)
    assert verdicts.get(keys[1], 0) is ALLOWED
    assert verdicts.get(keys[2], 0) is None
