"""Keeps the demand for a revision alive while its clients are expected back.

A client with a waiting page, or one that was refused with Retry-After, has no request in the
meantime. So the lease counts as one concurrent request in the load of its revision, for all such
clients together. Pure: ``now`` is an argument. Knative has no counterpart.
"""

from __future__ import annotations

from math import inf
from typing import Final, Protocol, final

from activator.records.cold_starts import ColdStart, ColdStarts

#: Seconds by which a lease must grow until that is worth another probe of the pods.
_NEWS: Final = 1.0


class Load(Protocol):
    """See records.entries.Load."""

    def request_began(self, now: float) -> None:
        """Count the arrival of a request."""

    def request_ended(self, now: float) -> None:
        """Count the end of a request."""


@final
class WakeLease:
    """The lease of one revision (process.timers.Timed).

    Arguments:
        load: the load of the revision.

    Attributes:
        armed: see Timed.
        until: when the lease ends, seconds; minus infinity while there is none.
    """

    __slots__ = ("_cold_start", "_cold_starts", "_load", "armed", "until")

    def __init__(self, load: Load) -> None:
        self._load = load
        self._cold_starts: ColdStarts | None = None
        self._cold_start: ColdStart | None = None
        self.armed = inf
        self.until = -inf

    def keep(self, until: float, now: float) -> bool:
        """Begin the lease, or prolong it; the caller then arms a timer for ``until``.

        Arguments:
            until: when the clients should be back, seconds.
            now: seconds.

        Returns:
            Whether it began, or grew by more than a second.
        """
        before = self.until
        if before == -inf:
            self._load.request_began(now)
        self.until = max(before, until)
        return until > before + _NEWS

    def hold(self, cold_starts: ColdStarts, cold_start: ColdStart, outcome: str) -> None:
        """Continue a cold start while the lease lasts; it has begun before.

        Arguments:
            cold_starts: the cold starts of all revisions.
            cold_start: the one of this revision.
            outcome: see ColdStarts.lease.
        """
        self._cold_starts, self._cold_start = cold_starts, cold_start
        cold_starts.lease(cold_start, outcome)

    def on_time(self, now: float) -> float:
        """End the lease if its time is over; see Timed."""
        if now < self.until:
            return self.until
        if self.until > -inf:
            self.until = -inf
            self._load.request_ended(now)
            if self._cold_starts is not None and self._cold_start is not None:
                self._cold_starts.lease_ended(self._cold_start, now)
            self._cold_starts = self._cold_start = None
        return inf

    def seconds_left(self, now: float) -> float:
        """Return the seconds until the lease ends; 0 without one."""
        return max(self.until - now, 0.0)
