"""Things to do, each at its time, one after the other in one thread."""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable
from itertools import count
from time import monotonic

Do = Callable[[], None]


class Agenda:
    """Things that are due.

    Arguments:
        stop: ends `run` early when it is set.
    """

    def __init__(self, stop: threading.Event | None = None) -> None:
        self._stop = stop or threading.Event()
        self._order = count()  # things due at the same moment run in the order of their entry
        self._due: list[tuple[float, int, Do]] = []

    def after(self, delay: float, do: Do) -> None:
        """Do something in so many seconds."""
        heapq.heappush(self._due, (monotonic() + delay, next(self._order), do))

    def every(self, period: float, do: Do, *, first: float) -> None:
        """Do something again and again.

        Arguments:
            period: seconds from one beginning to the next.
            first: seconds until the first one.
        """

        def again() -> None:
            self.after(period, again)
            do()

        self.after(first, again)

    def run(self, seconds: float | None = None) -> None:
        """Do what is due within so many seconds, by default everything; `stop` ends it early."""
        end = float("inf") if seconds is None else monotonic() + seconds
        while self._due and self._due[0][0] <= end:
            at, _, do = heapq.heappop(self._due)
            if self._stop.wait(max(0.0, at - monotonic())):
                return
            do()
        if seconds is not None:
            self._stop.wait(max(0.0, end - monotonic()))
