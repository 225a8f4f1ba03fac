"""When something has to happen next: a heap whose dead entries cost nothing.

Leaving the queue does not search the heap; an entry whose ticket has left is dropped when it
surfaces, or when dead entries outnumber live ones.
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

    ``add`` is O(1) where time-outs are equal (a later deadline stays at the heap's end) and
    O(log n) at worst; a rebuild is paid for by the tickets that left since the last one.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Ticket]] = []
        self._added = 0

    def add(self, ticket: Ticket, waiting: int) -> None:
        """Remember a queued ticket's deadline.

        Arguments:
            waiting: how many tickets are queued in all, for ``trim``.
        """
        self._added += 1
        heappush(self._heap, (ticket.deadline, self._added, ticket))
        self.trim(waiting)

    def trim(self, waiting: int) -> None:
        """Drop the entries of tickets that have left, once they outnumber the others.

        Arguments:
            waiting: how many tickets are queued in all.
        """
        if len(self._heap) > _SMALL + 2 * waiting:
            # By ticket: one that returned to the queue has an entry of each time it came.
            live = {entry[2]: entry for entry in self._heap if entry[2].state is QUEUED}
            self._heap = list(live.values())
            heapify(self._heap)

    def next(self) -> float | None:
        """Return the earliest deadline of a queued ticket, or None."""
        heap = self._heap
        while heap and heap[0][2].state is not QUEUED:
            heappop(heap)
        return heap[0][0] if heap else None

    def passed(self, now: float) -> Iterator[Ticket]:
        """Yield, and forget, each queued ticket whose deadline has come. The caller ends it."""
        while (deadline := self.next()) is not None and deadline <= now:
            yield heappop(self._heap)[2]

    def __len__(self) -> int:
        return len(self._heap)
