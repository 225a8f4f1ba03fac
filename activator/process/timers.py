"""Deadlines that move later all the time, for one loop timer and next to no work.

A connection asks for a look at its next deadline; while each request's deadline is later than
the one before, the entry that is armed already serves them all: when it comes, it is moved.
Arming a loop timer per request instead costs 1.5 us and 0.4 KiB. Decides nothing.

Most deadlines are many seconds ahead, and there is one for each connection. Until its second is
the next one, an entry is one reference in a list: an entry of the heap takes 130 bytes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from math import inf
from typing import Final, Protocol, final

#: Below this many entries nothing is rebuilt.
_SMALL: Final = 64
#: How long a step is of those that are sorted one after the other, seconds.
_STEP: Final = 1.0


class Timed(Protocol):
    """Something with a next deadline.

    Attributes:
        armed: for when an entry exists; infinite if there is none. Only Timers sets it.
    """

    armed: float

    def on_time(self, now: float) -> float:
        """Do what is due; return when to look again, infinite for not before it is armed."""


@final
class _Step:
    """The entries of one step, unsorted.

    Attributes:
        number: which one, as a multiple of ``_STEP``.
        first: the earliest of their times, seconds; earlier if that entry is dead.
    """

    __slots__ = ("entries", "first", "number")

    def __init__(self, number: float, first: float) -> None:
        self.number = number
        self.first = first
        self.entries: list[Timed] = []

    def is_live(self, timed: Timed) -> bool:
        """Return whether an entry is still waited for; one that is forgotten has no number."""
        return timed.armed // _STEP == self.number


class Timers:
    """One heap for the present step, and a list for each later one.

    Arguments:
        clock: seconds, monotonic.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._heap: list[tuple[float, int, Timed]] = []
        self._step = -inf  # the last one whose entries went to the heap
        self._steps: dict[float, _Step] = {}  # those behind it, by number
        self._numbers: list[float] = []  # a heap of their numbers
        self._size = 0
        self._added = 0
        self._dead = 0  # entries that nobody waits for any more
        self._handle: asyncio.TimerHandle | None = None
        self._handle_at = inf

    def arm(self, timed: Timed, when: float) -> None:
        """Have ``timed`` looked at by ``when``. The caller checks ``timed.armed > when`` first:
        an earlier look serves as well."""
        replaces = timed.armed != inf  # the entry for later
        timed.armed = when
        self._size += 1
        number = when // _STEP
        if number <= self._step:
            self._push(timed)
        else:
            self._put_off(timed, number)
        if replaces:
            self._died()
        if when < self._handle_at:
            self._start(when)

    def _push(self, timed: Timed) -> None:
        self._added += 1
        heappush(self._heap, (timed.armed, self._added, timed))

    def _put_off(self, timed: Timed, number: float) -> None:
        step = self._steps.get(number)
        if step is None:
            step = self._steps[number] = _Step(number, timed.armed)
            heappush(self._numbers, number)
        elif timed.armed < step.first:
            step.first = timed.armed
        step.entries.append(timed)

    def forget(self, timed: Timed) -> None:
        """Look at ``timed`` no more. Its entry goes when it is due, or when dead entries outnumber
        the others: connections that come and go must not be kept in memory until then."""
        if timed.armed == inf:
            return
        timed.armed = inf
        self._died()

    def _died(self) -> None:
        self._dead += 1
        if self._size > _SMALL and 2 * self._dead > self._size:
            self._rebuild()

    def _rebuild(self) -> None:
        """Drop all dead entries."""
        self._heap = [entry for entry in self._heap if entry[2].armed == entry[0]]
        heapify(self._heap)
        for step in list(self._steps.values()):
            # An entry that died may look alive, if another one has followed in the same step.
            step.entries = list(dict.fromkeys(filter(step.is_live, step.entries)))
            if not step.entries:
                del self._steps[step.number]
        self._numbers = sorted(self._steps)
        self._size = len(self._heap) + sum(len(step.entries) for step in self._steps.values())
        self._dead = 0

    def __len__(self) -> int:
        return self._size

    def close(self) -> None:
        """Stop; nothing is looked at any more."""
        self._heap.clear()
        self._steps.clear()
        self._numbers.clear()
        self._size = self._dead = 0
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
        while (when := self._next()) <= now:
            if self._heap:
                self._look_at_first(now)
            else:
                self._begin_step()
        if when < self._handle_at:
            self._start(when)

    def _next(self) -> float:
        """Return when the first entry is due; infinite for no entry."""
        if self._heap:
            return self._heap[0][0]
        return self._steps[self._numbers[0]].first if self._numbers else inf

    def _look_at_first(self, now: float) -> None:
        when, _, timed = heappop(self._heap)
        self._size -= 1
        if timed.armed != when:
            self._dead -= 1
            return  # replaced by an earlier entry, which moved it, or forgotten
        timed.armed = inf
        later = timed.on_time(now)
        if later < timed.armed:
            self.arm(timed, later)

    def _begin_step(self) -> None:
        """Sort the entries of the next step; the heap is empty."""
        step = self._steps.pop(heappop(self._numbers))
        self._step = step.number
        for timed in step.entries:
            if step.is_live(timed):
                self._push(timed)
            else:
                self._size -= 1
                self._dead -= 1
