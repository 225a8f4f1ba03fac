"""Deadlines that move later all the time, for one loop timer and next to no work.

A connection asks for a look at its next deadline; while each request's deadline is later than
the one before, the entry that is armed already serves them all: when it comes, it is moved.
Arming a loop timer per request instead costs 1.5 us and 0.4 KiB. Decides nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from math import inf
from typing import Final, Protocol

#: Below this many entries the heap is never rebuilt.
_SMALL: Final = 64


class Timed(Protocol):
    """Something with a next deadline.

    Attributes:
        armed: for when an entry exists; infinite if there is none. Only Timers sets it.
    """

    armed: float

    def on_time(self, now: float) -> float:
        """Do what is due; return when to look again, infinite for not before it is armed."""


class Timers:
    """One heap for all of them, at most a few entries each.

    Arguments:
        clock: seconds, monotonic.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._heap: list[tuple[float, int, Timed]] = []
        self._added = 0
        self._dead = 0  # entries that nobody waits for any more
        self._handle: asyncio.TimerHandle | None = None
        self._handle_at = inf

    def arm(self, timed: Timed, when: float) -> None:
        """Have ``timed`` looked at by ``when``. The caller checks ``timed.armed > when`` first:
        an earlier look serves as well."""
        replaces = timed.armed != inf  # the entry for later
        timed.armed = when
        self._added += 1
        heappush(self._heap, (when, self._added, timed))
        if replaces:
            self._died()
        if when < self._handle_at:
            self._start(when)

    def forget(self, timed: Timed) -> None:
        """Look at ``timed`` no more. Its entry goes when it is due, or when dead entries outnumber
        the others: connections that come and go must not be kept in memory until then."""
        if timed.armed == inf:
            return
        timed.armed = inf
        self._died()

    def _died(self) -> None:
        self._dead += 1
        if len(self._heap) > _SMALL and 2 * self._dead > len(self._heap):
            self._heap = [entry for entry in self._heap if entry[2].armed == entry[0]]
            heapify(self._heap)
            self._dead = 0

    def __len__(self) -> int:
        return len(self._heap)

    def close(self) -> None:
        """Stop; nothing is looked at any more."""
        self._heap.clear()
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _start(self, when: float) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self._handle_at = when
        loop = asyncio.get_running_loop()
        self._handle = loop.call_later(max(0.0, when - self._clock()), self._run)

    def _run(self) -> None:
        # uvloop counts whole milliseconds, so its timers may be early. What this one was for is
        # due all the same, else the loop would wake again and again until the time has come.
        now = max(self._clock(), self._handle_at)
        self._handle = None
        self._handle_at = inf
        while (heap := self._heap) and heap[0][0] <= now:
            when, _, timed = heappop(heap)
            if timed.armed != when:
                self._dead -= 1
                continue  # replaced by an earlier entry, which moved it, or forgotten
            timed.armed = inf
            later = timed.on_time(now)
            if later < timed.armed:
                self.arm(timed, later)
        if heap and heap[0][0] < self._handle_at:
            self._start(heap[0][0])
