"""The requests of a revision that were not served: the last one, and how many by why.

Told where an answer of our own goes out, or a pod's is broken off, so it costs nothing where
requests are served. Knows no clock (the time is passed in) and no HTTP but a status. Knative has
no counterpart.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from throttler.reason import Reason

#: Seconds between two events of one revision: thousands of requests may fail together.
PACE: Final = 1.0


class Failed(NamedTuple):
    """One such request.

    Attributes:
        at: when it ended, on the driver's clock.
        status: what its client got; of an answer that was broken off, the pod's.
        detail: more about the reason, for people: printable and short; may be empty.
    """

    at: float
    status: int
    reason: Reason
    detail: str


class Failures:
    """Those of one revision; bounded by the number of reasons.

    Attributes:
        last: the last one; None before the first.
        by_reason: how many there were.
    """

    __slots__ = ("_told_at", "_untold", "by_reason", "last")

    def __init__(self) -> None:
        self.last: Failed | None = None
        self.by_reason: dict[Reason, int] = {}
        self._told_at = float("-inf")
        self._untold = 0

    def take(self, failed: Failed) -> int:
        """Take one more.

        Returns:
            How many the caller is to tell of, with this one; 0 if one was told of within ``PACE``.
        """
        self.last = failed
        self.by_reason[failed.reason] = self.by_reason.get(failed.reason, 0) + 1
        self._untold += 1
        if failed.at - self._told_at < PACE:
            return 0
        told, self._untold, self._told_at = self._untold, 0, failed.at
        return told
