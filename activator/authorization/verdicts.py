"""Remembers the decisions of authorization servers, by a hash of the fields that the server got.

Pure: the time is an argument. No field is kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import Final, NamedTuple

from activator.proxy.message.fields import folded
from throttler.model import RevisionID
from throttler.request_policies import Authorization, Verdict

#: Most decisions in memory, and most bytes of each. Invented fields can remove others. These then
#: cost a sub-request.
MOST_VERDICTS: Final = 2048
MOST_BYTES: Final = 4 << 10
#: The denials that may count for other requests. A redirect may name the URL of one request.
_KEPT: Final = (401, 403)


class Key(NamedTuple):
    """The requests that share a decision.

    Attributes:
        revision: their revision. Its server may decide differently for another one.
        policy: the server, and all that annotations say about it.
        fields: a hash of the fields that have to be equal.
    """

    revision: RevisionID
    policy: Authorization
    fields: bytes


def key_of(
    revision: RevisionID, policy: Authorization, fields: Iterable[tuple[bytes, bytes]]
) -> Key:
    """Return the key of a request.

    Arguments:
        revision: its revision.
        policy: the server of the revision, and the names of the fields that count.
        fields: the fields that the server gets, by name. A name counts in each spelling that a
            server may read as the same.
    """
    digest, names = sha256(), policy.cache_key
    for name, value in fields:
        if not names or folded(name) in names:
            name = name.lower()
            digest.update(b"%d:%b%d:%b" % (len(name), name, len(value), value))
    return Key(revision, policy, digest.digest())


class Verdicts:
    """The decisions of all authorization servers; at the limit, a new one replaces the oldest."""

    def __init__(self) -> None:
        self._verdicts: dict[Key, tuple[float, Verdict]] = {}

    def put(self, key: Key, verdict: Verdict, now: float) -> None:
        """Remember a decision, unless it is for one request only; ``now`` in seconds.

        A cookie is for one client, also if others are equal in the fields that count.
        """
        has_cookie = b"\r\nset-cookie:" in verdict.lines.lower()
        may_count = verdict.allows or (verdict.status in _KEPT and not has_cookie)
        if not may_count or len(verdict.lines) + len(verdict.body) > MOST_BYTES:
            return
        self._verdicts.pop(key, None)
        if len(self._verdicts) >= MOST_VERDICTS:
            del self._verdicts[next(iter(self._verdicts))]
        self._verdicts[key] = (now, verdict)

    def get(self, key: Key, now: float) -> Verdict | None:
        """Return a decision that still counts; None without one.

        Arguments:
            key: of the request.
            now: seconds.
        """
        found = self._verdicts.get(key)
        if found is None:
            return None
        since, verdict = found
        if now - since < key.policy.cache_seconds:
            return verdict
        del self._verdicts[key]
        return None
