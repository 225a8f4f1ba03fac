"""When pods without a limit of their own may have more at a time.

Such a pod begins with a limit that doubles as long as requests wait (throttler/capacity.py).
Knative has no counterpart: there the first pod gets all that wait at once.
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
    """What the limit of one pod has brought since it last doubled.

    Attributes:
        answered: requests that the pod ended while others waited, since its limit was last widened.
    """

    __slots__ = ("_finished_before", "_steps_kept", "finished")

    def __init__(self) -> None:
        self.finished = self._finished_before = self._steps_kept = 0

    def restart(self) -> None:
        """Forget what the pod answered in an earlier life."""
        self.finished = self._finished_before = self._steps_kept = 0

    def next_limit(self, limit: int) -> int:
        """Return twice the limit, see throttler.capacity; unless the last doubling brought nothing.

        A pod that answers no more than before, with twice as much at a time, is busy: more requests
        would wait inside it, on connections that cost both sides. Now and then it is tried all the
        same.
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
        due: the doublings that are due at some time, of all revisions.

    Attributes:
        revision: whose limits they are.
        at: when it is due; None while no request waits for it.
    """

    __slots__ = ("_due", "at", "revision")

    def __init__(self, revision: RevisionID, due: set[SlowStart]) -> None:
        self.revision = revision
        self.at: float | None = None
        self._due = due

    def arm(self, now: float) -> None:
        """Have the limits doubled soon, if that is not due already."""
        if self.at is None:
            self.at = now + SLOW_START_STEP
            self._due.add(self)

    def disarm(self) -> None:
        """Forget it: it is being done."""
        self.at = None
        self._due.discard(self)
