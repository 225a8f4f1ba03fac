"""The slices to compare with their Services: now, at a time, or in a sweep through all Services.

Pure. Each call gets a few slices only, so that a change of the activators, which concerns every
sleeping Service, never takes one long call.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from heapq import heappop, heappush
from typing import Final, final

from activator.scale.reports.load import Name
from activator.scale.takeover.writes import Key

#: Slices, or Services, that one call gets at most: the comparison of a slice takes about 40 µs.
MOST: Final = 32


@final
class Agenda:
    """The comparisons that are due. Times are seconds, monotonic."""

    def __init__(self) -> None:
        self._due: dict[Key, None] = {}
        self._later: list[tuple[float, Key]] = []
        self._sweep: list[Name] = []

    def add(self, key: Key) -> None:
        """Compare a slice as soon as possible."""
        self._due.setdefault(key)

    def extend(self, keys: Iterable[Key]) -> None:
        """Compare slices as soon as possible."""
        self._due.update(dict.fromkeys(keys))

    def add_at(self, at: float, key: Key) -> None:
        """Compare a slice at a time."""
        heappush(self._later, (at, key))

    def sweep(self, names: Collection[Name]) -> None:
        """Compare the slices of all these Services, a few with each call."""
        self._sweep = list(names)

    def clear(self) -> None:
        """Compare nothing any more."""
        self._due.clear()
        self._later.clear()
        self._sweep.clear()

    def take_names(self) -> list[Name]:
        """Remove and return the next Services of the sweep, at most ``MOST``."""
        names = self._sweep[-MOST:]
        del self._sweep[-MOST:]
        return names

    def take_keys(self) -> Iterator[Key]:
        """Remove and yield the next due slices, at most ``MOST``."""
        for _ in range(min(len(self._due), MOST)):
            key = next(iter(self._due))
            del self._due[key]
            yield key

    def advance(self, now: float) -> None:
        """Make the slices due whose time has come."""
        while self._later and self._later[0][0] <= now:
            self.add(heappop(self._later)[1])

    @property
    def is_due(self) -> bool:
        """Whether there is something to compare now."""
        return bool(self._due or self._sweep)

    @property
    def next_time(self) -> float:
        """The time of the next later comparison; inf for none."""
        return self._later[0][0] if self._later else float("inf")
