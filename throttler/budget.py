"""The limits of queued requests and bytes: of one revision, and of all revisions, shared fairly.

Counts the use and decides whether one more fits; knows neither queue nor tickets. Knative has no
counterpart: its queues are unbounded.
"""

from __future__ import annotations

from typing import Final

#: One part in so many of the shared budget is reserved for revisions that use little of it.
RESERVED: Final = 4
#: The reserve is enough for so many revisions that queue at the same time. With the default limits
#: each may use 390 requests and 1 MiB of it.
RESERVED_FOR = 64


class Budget:
    """A limit of queued requests and of their buffered bytes, with their current use.

    Attributes:
        depth: queued requests; max_depth: their limit.
        bytes: buffered bytes; max_bytes: their limit.
    """

    __slots__ = ("bytes", "depth", "max_bytes", "max_depth")

    def __init__(self, max_depth: int, max_bytes: int) -> None:
        self.max_depth = max_depth
        self.max_bytes = max_bytes
        self.depth = 0
        self.bytes = 0

    def exceeded_by(self, size: int) -> str | None:
        """Return the limit that one more request exceeds: depth, bytes or None."""
        if self.depth >= self.max_depth:
            return "depth"
        return None if self.fits(size) else "bytes"

    def fits(self, size: int) -> bool:
        """Return whether ``size`` more bytes are within the limit."""
        return self.bytes + size <= self.max_bytes


class SharedBudget(Budget):
    """The budget of all revisions together; none can use it up alone.

    A revision above its small part of the reserve (``_reserve``) may use only the open part of the
    budget. So the reserve stays for revisions that use little. Such a revision is refused only if
    more than RESERVED_FOR revisions use their parts at the same time. The total never exceeds the
    limit, except for requeued requests, see Breaker.restore.
    """

    __slots__ = ()

    def exceeded_for(self, own: Budget, size: int) -> str | None:
        """Return the limit that one more request of a revision with ``own`` exceeds; O(1)."""
        if self.depth >= self.max_depth - _reserve(self.max_depth, own.depth + 1):
            return "depth"
        return None if self.fits_for(own, size) else "bytes"

    def fits_for(self, own: Budget, size: int) -> bool:
        """Return whether ``size`` more bytes of a revision with ``own`` fit; O(1)."""
        return self.bytes + size <= self.max_bytes - _reserve(self.max_bytes, own.bytes + size)


def _reserve(limit: int, would_use: int) -> int:
    """Return the part of the limit that is reserved for revisions that use less than this one.

    Arguments:
        would_use: use of this revision after the addition.
    """
    reserve = limit // RESERVED
    return reserve if would_use > max(reserve // RESERVED_FOR, 1) else 0
