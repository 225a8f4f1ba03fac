"""How much may wait: the bounds of one revision, and the bound that all of them share fairly.

Counts what is used and says whether one more fits; knows neither queue nor ticket. Knative has no
counterpart: its queues are unbounded.
"""

from __future__ import annotations

from typing import Final

#: One part in so many of what all revisions share is open only to those that use little of it.
RESERVED: Final = 4
#: For so many revisions that wait at the same time that reserve suffices, whatever they do. Each
#: may have 390 requests and 1 MiB of it where the defaults are not changed.
RESERVED_FOR = 64


class Budget:
    """How many requests may wait, and how many bytes of them may be held. Counts what is used."""

    __slots__ = ("bytes", "depth", "max_bytes", "max_depth")

    def __init__(self, max_depth: int, max_bytes: int) -> None:
        self.max_depth = max_depth
        self.max_bytes = max_bytes
        self.depth = 0
        self.bytes = 0

    def exceeded_by(self, size: int) -> str | None:
        """Return which bound one more request of ``size`` bytes breaks: depth, bytes or None."""
        if self.depth >= self.max_depth:
            return "depth"
        return None if self.fits(size) else "bytes"

    def fits(self, size: int) -> bool:
        """Return whether ``size`` bytes more may be held."""
        return self.bytes + size <= self.max_bytes


class SharedBudget(Budget):
    """The budget of all revisions together; none can use it up alone.

    A revision that uses more than a small share of its own (``_share``) finds the budget used up
    when all but the reserve is. So what revisions use beyond their shares never exceeds the open
    part, and a revision within its share is refused only if more than RESERVED_FOR revisions use
    theirs at the same time. In all it is never more than the bound. Requests that return to the
    queue are let in regardless, see Breaker.restore.
    """

    __slots__ = ()

    def exceeded_for(self, own: Budget, size: int) -> str | None:
        """As ``exceeded_by``, for a revision that uses ``own`` of it; O(1)."""
        if self.depth >= self.max_depth - _reserve(self.max_depth, own.depth + 1):
            return "depth"
        return None if self.fits_for(own, size) else "bytes"

    def fits_for(self, own: Budget, size: int) -> bool:
        """As ``holds``, for a revision that uses ``own`` of it; O(1)."""
        return self.bytes + size <= self.max_bytes - _reserve(self.max_bytes, own.bytes + size)


def _reserve(limit: int, would_use: int) -> int:
    """Return how much of the bound is kept for others from a revision that would use so much."""
    reserve = limit // RESERVED
    return reserve if would_use > max(reserve // RESERVED_FOR, 1) else 0
