"""The deadlines of queued tickets: a heap whose obsolete entries cost almost nothing.

A ticket that leaves the queue stays in the heap, since a search would cost O(tickets). Its entry is
removed when it reaches the top, or when obsolete entries outnumber the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from typing import Final

from throttler.ticket import QUEUED, Ticket

#: Below this many entries the heap is never rebuilt.
_SMALL: Final = 64


class Deadlines:
    """The deadlines of all queued tickets.

    ``add`` is O(1) if time-outs are equal, since a later deadline stays at the heap's end, and
    O(log n) at worst. The tickets that left since the last rebuild pay for the next one.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Ticket]] = []
        self._added = 0

    def add(self, ticket: Ticket, waiting: int) -> None:
        """Add the deadline of a queued ticket.

        Arguments:
            waiting: number of queued tickets of all revisions, for ``trim``.
        """
        self._added += 1
        heappush(self._heap, (ticket.deadline, self._added, ticket))
        self.trim(waiting)

    def trim(self, waiting: int) -> None:
        """Remove the entries of tickets that have left, once they outnumber the others.

        Arguments:
            waiting: number of queued tickets of all revisions.
        """
        if len(self._heap) > _SMALL + 2 * waiting:
            # By ticket: a requeued one has an entry for each time that it was queued.
            live = {entry[2]: entry for entry in self._heap if entry[2].state is QUEUED}
            self._heap = list(live.values())
            heapify(self._heap)

    def next(self) -> float | None:
        """Return the earliest deadline of a queued ticket, seconds; None without one."""
        heap = self._heap
        while heap and heap[0][2].state is not QUEUED:
            heappop(heap)
        return heap[0][0] if heap else None

    def passed(self, now: float) -> Iterator[Ticket]:
        """Remove and yield each queued ticket whose deadline has come; the caller ends it."""
        while (deadline := self.next()) is not None and deadline <= now:
            yield heappop(self._heap)[2]

    def __len__(self) -> int:
        return len(self._heap)
