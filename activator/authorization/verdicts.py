"""Remembers the decisions of authorization servers, by a hash of the credentials.

Pure: the time is an argument. No credentials are kept.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Final, NamedTuple

from throttler.model import RevisionID
from throttler.request_policies import Authorization, Verdict

#: Most decisions in memory. Invented credentials can remove others. These then cost a sub-request.
MOST_VERDICTS: Final = 2048


class Key(NamedTuple):
    """The requests that share a decision: those of one revision with equal credentials.

    Attributes:
        revision: the revision. Its server may decide differently for another one.
        url: the server.
        credentials: a hash of Authorization and Cookie.
    """

    revision: RevisionID
    url: str
    credentials: bytes


def key_of(revision: RevisionID, policy: Authorization, credentials: bytes) -> Key:
    """Return the key of a request.

    Arguments:
        revision: its revision.
        policy: the server of the revision.
        credentials: the values of Authorization and Cookie.
    """
    return Key(revision, policy.url, sha256(credentials).digest())


class Verdicts:
    """The decisions of all authorization servers; at the limit, a new one replaces the oldest."""

    def __init__(self) -> None:
        self._verdicts: dict[Key, tuple[float, Verdict]] = {}

    def __len__(self) -> int:
        return len(self._verdicts)

    def put(self, key: Key, verdict: Verdict, now: float) -> None:
        """Remember a decision; ``now`` in seconds."""
        self._verdicts.pop(key, None)
        if len(self._verdicts) >= MOST_VERDICTS:
            del self._verdicts[next(iter(self._verdicts))]
        self._verdicts[key] = (now, verdict)

    def get(self, key: Key, seconds: float, now: float) -> Verdict | None:
        """Return a decision that still counts; None without one.

        Arguments:
            key: of the request.
            seconds: how long a decision counts, by the annotation as it is now.
            now: seconds.
        """
        found = self._verdicts.get(key)
        if found is None:
            return None
        since, verdict = found
        if now - since < seconds:
            return verdict
        del self._verdicts[key]
        return None
