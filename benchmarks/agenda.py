"""A schedule of calls in one thread, each at its time."""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable
from itertools import count
from time import monotonic

Do = Callable[[], None]


class Agenda:
    """Calls with their times.

    Arguments:
        stop: ends `run` early when it is set.
    """

    def __init__(self, stop: threading.Event | None = None) -> None:
        self._stop = stop or threading.Event()
        self._order = count()  # calls with the same time run in the order of their addition
        self._due: list[tuple[float, int, Do]] = []

    def after(self, delay: float, do: Do) -> None:
        """Schedule a call in so many seconds."""
        heapq.heappush(self._due, (monotonic() + delay, next(self._order), do))

    def every(self, period: float, do: Do, *, first: float) -> None:
        """Schedule a periodic call.

        Arguments:
            period: seconds from the start of a call to the start of the next.
            first: seconds until the first call.
        """

        def again() -> None:
            self.after(period, again)
            do()

        self.after(first, again)

    def run(self, seconds: float | None = None) -> None:
        """Make the calls of so many seconds, by default all; `stop` ends it early."""
        end = float("inf") if seconds is None else monotonic() + seconds
        while self._due and self._due[0][0] <= end:
            at, _, do = heapq.heappop(self._due)
            if self._stop.wait(max(0.0, at - monotonic())):
                return
            do()
        if seconds is not None:
            self._stop.wait(max(0.0, end - monotonic()))
