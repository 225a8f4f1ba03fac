"""When pods without a limit of their own may have more at a time.

Such a pod begins with a limit that doubles as long as requests wait (throttler/capacity.py). Here
is only who waits for the next doubling. Knative has no counterpart: there the first pod gets all
that wait at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from throttler.capacity import SLOW_START_STEP

if TYPE_CHECKING:  # a slow start knows its revision and a revision its slow start
    from throttler.revision import RevisionThrottler


class SlowStart:
    """The next doubling of one revision's limits.

    Arguments:
        due: the revisions that wait for one, shared by all.

    Attributes:
        at: when it is due; None while nobody waits for it.
    """

    __slots__ = ("_due", "_revision", "at")

    def __init__(self, revision: RevisionThrottler, due: set[RevisionThrottler]) -> None:
        self.at: float | None = None
        self._revision = revision
        self._due = due

    def arm(self, now: float) -> None:
        """Have the limits doubled soon, if that is not due already."""
        if self.at is None:
            self.at = now + SLOW_START_STEP
            self._due.add(self._revision)

    def disarm(self) -> None:
        """Forget it: it is being done."""
        self.at = None
        self._due.discard(self._revision)
