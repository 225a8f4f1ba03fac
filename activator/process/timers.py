"""Calls objects at their deadlines; one loop timer serves all of them.

The deadline of a connection moves later with each request. The entry of the first deadline serves
them all: when it is due, it moves to the present deadline. A loop timer for each request would cost
1.5 µs and 0.4 KiB.

Most deadlines are many seconds ahead, and each connection has one. An entry of the heap takes
130 bytes. So the heap has only the entries of the present second. Each later second has a list,
where an entry is one reference.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from heapq import heapify, heappop, heappush
from math import inf
from typing import Any, Final, Protocol, final

# Runs tasks and keeps references to them: asyncio may collect a task without one while it runs.
#
# See https://docs.python.org/3/library/asyncio-task.html#asyncio.create_task.


async def cancel(*tasks: asyncio.Future[Any]) -> None:
    """Cancel tasks, and wait until they are done."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class Tasks:
    """A set of running tasks. The loop's exception handler gets each exception of a task."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a coroutine in the running loop, and return its task."""
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            context = {"message": "a task failed", "exception": error, "task": task}
            task.get_loop().call_exception_handler(context)

    async def finish(self, within: float) -> None:
        """Wait until all tasks are done; cancel the rest after ``within`` seconds."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=within)
        await self.close()

    async def close(self) -> None:
        """Cancel all tasks, and wait until they are done."""
        await cancel(*self._tasks)

    def __len__(self) -> int:
        return len(self._tasks)


#: With fewer entries, dead entries stay until they are due.
_SMALL: Final = 64
#: Seconds of one step: the entries of a step are sorted when the step begins.
_STEP: Final = 1.0


class Timed(Protocol):
    """An object with a deadline.

    Attributes:
        armed: time of its entry, in seconds; infinite without one. Only Timers sets it.
    """

    armed: float

    def on_time(self, now: float) -> float:
        """Act if the deadline has passed.

        Arguments:
            now: seconds, on the clock of the timers.

        Returns:
            The next deadline in seconds; infinite for none until the object is armed again.
        """


@final
class _Step:
    """The entries of one step, unsorted.

    Attributes:
        number: its time, as a multiple of ``_STEP``.
        first: seconds; no live entry is earlier.
    """

    __slots__ = ("entries", "first", "number")

    def __init__(self, number: float, first: float) -> None:
        self.number = number
        self.first = first
        self.entries: list[Timed] = []

    def is_live(self, timed: Timed) -> bool:
        """Return whether an object is armed for this step; a dead entry is not."""
        return timed.armed // _STEP == self.number


class Timers:
    """The deadlines of all objects: a heap for the present step, a list for each later one.

    Arguments:
        clock: seconds, monotonic.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._heap: list[tuple[float, int, Timed]] = []
        self._step = -inf  # number of the present step, whose entries are in the heap
        self._steps: dict[float, _Step] = {}  # later steps by number
        self._numbers: list[float] = []  # a heap of the numbers of later steps
        self._size = 0
        self._added = 0
        self._dead = 0  # entries of objects that are disarmed, or armed for an earlier time
        self._handle: asyncio.TimerHandle | None = None
        self._handle_at = inf

    def arm(self, timed: Timed, when: float) -> None:
        """Call ``timed.on_time`` at ``when``, in seconds.

        The caller first checks ``timed.armed > when``: an earlier entry serves as well.
        """
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

    def disarm(self, timed: Timed) -> None:
        """Do not call ``timed`` any more.

        Its entry stays until it is due, or until more than half of the entries are dead. Otherwise
        closed connections would stay in memory until their deadlines.
        """
        if timed.armed == inf:
            return
        timed.armed = inf
        self._died()

    def _died(self) -> None:
        self._dead += 1
        if self._size > _SMALL and 2 * self._dead > self._size:
            self._rebuild()

    def _rebuild(self) -> None:
        """Remove all dead entries."""
        self._heap = [entry for entry in self._heap if entry[2].armed == entry[0]]
        heapify(self._heap)
        for step in list(self._steps.values()):
            # A dead entry looks live if its object was armed again in the same step.
            step.entries = list(dict.fromkeys(filter(step.is_live, step.entries)))
            if not step.entries:
                del self._steps[step.number]
        self._numbers = sorted(self._steps)
        self._size = len(self._heap) + sum(len(step.entries) for step in self._steps.values())
        self._dead = 0

    def __len__(self) -> int:
        return self._size

    def close(self) -> None:
        """Remove all entries and stop the loop timer."""
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
        # uvloop counts whole milliseconds, so its timers may be early. The entries count as due
        # even so. Otherwise the loop would run again and again until the exact time.
        now = max(self._clock(), self._handle_at)
        self._handle = None
        self._handle_at = inf
        while (when := self._next()) <= now:
            if self._heap:
                self._call_first(now)
            else:
                self._begin_step()
        if when < self._handle_at:
            self._start(when)

    def _next(self) -> float:
        """Return when the first entry is due; infinite for no entry."""
        if self._heap:
            return self._heap[0][0]
        return self._steps[self._numbers[0]].first if self._numbers else inf

    def _call_first(self, now: float) -> None:
        when, _, timed = heappop(self._heap)
        self._size -= 1
        if timed.armed != when:
            self._dead -= 1
            return  # the object is disarmed, or armed for another time
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
