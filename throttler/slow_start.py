"""Slow start: when a pod without a limit of its own may have more requests in flight.

The limit of such a pod begins low and doubles as long as requests are queued
(throttler/capacity.py). Knative has no counterpart: there the first pod gets all queued requests at
once.
"""

from __future__ import annotations

from typing import final

from throttler.capacity import (
    MAX_CAPACITY,
    RAISE_ANYWAY,
    SLOW_START_END,
    SLOW_START_STEP,
    WORTH_RAISING,
)
from throttler.model import RevisionID


@final
class Ramp:
    """The effect of the last doubling of one pod's limit.

    Attributes:
        finished: requests that the pod ended while others were queued, since the last step.
    """

    __slots__ = ("_finished_before", "_steps_kept", "finished")

    def __init__(self) -> None:
        self.finished = self._finished_before = self._steps_kept = 0

    def restart(self) -> None:
        """Discard the counts of an earlier limit."""
        self.finished = self._finished_before = self._steps_kept = 0

    def next_limit(self, limit: int) -> int:
        """Return twice the limit, or the same limit if the last doubling gained nothing.

        If a pod with twice the limit ends no more requests than before, it is busy. More requests
        would wait inside it, on connections that cost both sides. After RAISE_ANYWAY such steps,
        the limit is raised once more, to try. The constants are in throttler.capacity.

        Arguments:
            limit: requests in flight that the pod may have.
        """
        finished, before = self.finished, self._finished_before
        self.finished, self._finished_before = 0, finished
        if before and finished < WORTH_RAISING * before and self._steps_kept < RAISE_ANYWAY:
            self._steps_kept += 1
            return limit
        self._steps_kept = 0
        return limit * 2 if limit < SLOW_START_END else MAX_CAPACITY


@final
class SlowStart:
    """The next doubling of one revision's limits.

    Arguments:
        due: the armed slow starts of all revisions; this one adds and removes itself.

    Attributes:
        revision: the revision of these limits.
        at: when the limits double, seconds on the caller's clock; None while no request is queued
            for it.
    """

    __slots__ = ("_due", "at", "revision")

    def __init__(self, revision: RevisionID, due: set[SlowStart]) -> None:
        self.revision = revision
        self.at: float | None = None
        self._due = due

    def arm(self, now: float, step: float = SLOW_START_STEP) -> None:
        """Schedule the next doubling, unless an earlier one is scheduled.

        Arguments:
            step: seconds until then.
        """
        if self.at is None or now + step < self.at:
            self.at = now + step
            self._due.add(self)

    def disarm(self) -> None:
        """Remove the schedule: the caller raises the limits, or no request is queued."""
        self.at = None
        self._due.discard(self)
