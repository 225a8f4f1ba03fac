"""Virtual time: calls in the order of their times, from a heap."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from math import inf
from typing import Any, final

_Call = tuple[float, int, Callable[..., None], tuple[Any, ...]]


@final
class Agenda:
    """Calls with their times. Calls with one time run in the order of their addition.

    Attributes:
        now: the virtual time, seconds.
    """

    __slots__ = ("_added", "_due", "now")

    def __init__(self) -> None:
        self.now = 0.0
        self._added = 0
        self._due: list[_Call] = []

    def at(self, when: float, do: Callable[..., None], *arguments: Any) -> None:
        """Schedule a call; ``when`` in seconds, not before ``now``."""
        self._added += 1
        heappush(self._due, (when, self._added, do, arguments))

    def next(self) -> float:
        """Return the time of the next call; infinite without one."""
        return self._due[0][0] if self._due else inf

    def run(self, until: float) -> None:
        """Make all calls up to a time, and set ``now`` to it."""
        due = self._due
        while due and due[0][0] <= until:
            self.now, _, do, arguments = heappop(due)
            do(*arguments)
        self.now = max(self.now, until)
