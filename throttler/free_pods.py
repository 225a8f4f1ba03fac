"""The pods with a free slot: a set of their numbers that finds the next one quickly.

Usually the given number itself is in the set, which one list shows. Otherwise the bits of words
find the next one, with a summary that has one bit for each word that is not 0. Both are small
integers, for 1 pod as for 1,000. Knows no pods.
"""

from __future__ import annotations

from typing import Final, final

#: A word has 2**_SHIFT bits, so all integers for up to 1,024 pods are small.
_SHIFT: Final = 5
_MASK: Final = 31


@final
class FreePods:
    """A set of numbers below ``size``.

    Attributes:
        summary: bit i is set while word i is not 0; so it is 0 while the set is empty.
    """

    __slots__ = ("_has", "_size", "_words", "summary")

    def __init__(self, size: int) -> None:
        self._size = size
        self._has = [False] * size
        self._words = [0] * ((size >> _SHIFT) + 1)
        self.summary = 0

    def add(self, number: int) -> None:
        """Add a number; no error if the set has it."""
        word = number >> _SHIFT
        self._has[number] = True
        self._words[word] |= 1 << (number & _MASK)
        self.summary |= 1 << word

    def discard(self, number: int) -> None:
        """Remove a number; no error if the set lacks it."""
        word = number >> _SHIFT
        self._has[number] = False
        left = self._words[word] & ~(1 << (number & _MASK))
        self._words[word] = left
        if not left:
            self.summary &= ~(1 << word)

    def has(self, number: int) -> bool:
        """Return whether the set has a number."""
        return self._has[number]

    def next(self, number: int) -> int:
        """Return the first number from ``number`` on, else the lowest.

        The caller has checked ``summary``: the set is not empty.
        """
        if number >= self._size:
            number = 0
        if self._has[number]:
            return number
        word = number >> _SHIFT
        ahead = self._words[word] >> (number & _MASK)
        if ahead:
            return number + _lowest(ahead)
        later = self.summary >> (word + 1)
        word = word + 1 + _lowest(later) if later else _lowest(self.summary)
        return (word << _SHIFT) + _lowest(self._words[word])


def _lowest(bits: int) -> int:
    """Return the number of the lowest bit that is set."""
    return (bits & -bits).bit_length() - 1
