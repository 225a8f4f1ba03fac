"""Records the failed requests of a revision: the last one, and the number by reason.

The byte path records a failure with an error response, or when a pod's response breaks off. So
served requests cost nothing. The module reads no clock (the time is an argument), and knows no HTTP
except a status. Knative has no counterpart.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from throttler.reason import Reason

#: Seconds between two events of one revision: thousands of requests may fail together.
PACE: Final = 1.0


class Failed(NamedTuple):
    """One failed request.

    Attributes:
        at: its end on the driver's clock.
        status: of the error response; the pod's status if its response broke off.
        reason: why it failed.
        detail: more about the reason, for people: printable and short; may be empty.
    """

    at: float
    status: int
    reason: Reason
    detail: str


class Failures:
    """The failed requests of one revision; the number of reasons bounds the memory.

    Attributes:
        last: the last one; None before the first.
        by_reason: the number of failed requests by reason.
    """

    __slots__ = ("_reported_at", "_unreported", "by_reason", "last")

    def __init__(self) -> None:
        self.last: Failed | None = None
        self.by_reason: dict[Reason, int] = {}
        self._reported_at = float("-inf")
        self._unreported = 0

    def record(self, failed: Failed) -> int:
        """Record a failed request.

        Returns:
            The number of failed requests since the last event, with this one; the caller publishes
            an event about them. 0 if the last event is younger than ``PACE``.
        """
        self.last = failed
        self.by_reason[failed.reason] = self.by_reason.get(failed.reason, 0) + 1
        self._unreported += 1
        if failed.at - self._reported_at < PACE:
            return 0
        count, self._unreported, self._reported_at = self._unreported, 0, failed.at
        return count
