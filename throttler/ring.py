"""A ring of numbers that changes in small steps: finds the next numbers after a given one.

A flat sorted list would move all numbers behind each new one, and would have to be sorted as a
whole after many changes. So the numbers are in parts of limited length: a change costs O(√n).
Knows neither pods nor keys.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import Final, final

#: The numbers of a ring are from 0 to this, without it.
SIZE: Final = 1 << 62
#: A longer part is split in two.
_LONGEST: Final = 512


@final
class Ring:
    """Different numbers in ascending order; the first follows the last."""

    __slots__ = ("_lasts", "_parts")

    def __init__(self) -> None:
        self._parts: list[array[int]] = []
        self._lasts: list[int] = []  # the last number of each part

    def add(self, number: int) -> None:
        """Add a number that the ring lacks."""
        parts, lasts = self._parts, self._lasts
        if not parts:
            parts.append(array("q", (number,)))
            lasts.append(number)
            return
        index = min(bisect_left(lasts, number), len(parts) - 1)
        part = parts[index]
        insort(part, number)
        if len(part) > _LONGEST:
            half = len(part) // 2
            parts.insert(index + 1, part[half:])  # ordered: half of the length
            del part[half:]
            lasts.insert(index, part[-1])
            index += 1
        lasts[index] = parts[index][-1]

    def remove(self, number: int) -> None:
        """Remove a number that the ring has."""
        index = bisect_left(self._lasts, number)
        part = self._parts[index]
        del part[bisect_left(part, number)]
        if part:
            self._lasts[index] = part[-1]
        else:
            del self._parts[index], self._lasts[index]

    def first(self, number: int) -> int:
        """Return the first number from ``number`` on; one beyond the end has ``SIZE`` added.

        The ring is not empty.
        """
        index = bisect_left(self._lasts, number)
        if index == len(self._parts):
            return self._parts[0][0] + SIZE
        part = self._parts[index]
        return part[bisect_left(part, number)]

    def after(self, number: int) -> Iterator[int]:
        """Yield the numbers from ``number`` on, once around the ring.

        Numbers beyond the end have ``SIZE`` added, so the order is ascending.
        """
        first = bisect_left(self._lasts, number)
        if first < len(self._parts):
            part = self._parts[first]
            for index in range(bisect_left(part, number), len(part)):
                yield part[index]
        for index in range(first + 1, len(self._parts)):
            yield from self._parts[index]
        for part in self._parts[: first + 1]:  # ordered: from the start
            for found in part:
                if found >= number:
                    return
                yield found + SIZE
