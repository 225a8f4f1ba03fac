"""How many bytes of in-progress request heads there may be, of all clients together.

Each head has bounds of its own (``request.RequestLimits``); nothing else bounds their number.
A head that arrives whole, as nearly all do, is not counted: it does not stay. Counts, and knows no
connection. Knative has no counterpart.
"""

from __future__ import annotations

from typing import Final, final

from throttler.budget import RESERVED

#: Bytes of a head that counts as small: the last part of the bound, as much as throttler.budget
#: reserves, is open only to such. Most are, and those that have all of one line in other servers
#: (nginx, Apache: 8 KiB); to use up the reserve of the default takes 1,024 clients.
SMALL: Final = 8 << 10


@final
class HeadBudget:
    """The bytes of all of them.

    Attributes:
        bytes: how many there are; most: how many there may be.
    """

    __slots__ = ("bytes", "most")

    def __init__(self, most: int) -> None:
        self.bytes = 0
        self.most = most

    def grow(self, before: int, now: int) -> bool:
        """Count a head that had ``before`` bytes and has ``now``.

        Returns:
            Whether there is room. If not, nothing has changed, and the caller is to refuse the
            head; ``end`` takes back what was counted of it.
        """
        room = self.most if now <= SMALL else self.most - self.most // RESERVED
        total = self.bytes - before + now
        if total > room and now > before:
            return False
        self.bytes = total
        return True

    def end(self, counted: int) -> None:
        """Remove a head that was counted with so many bytes."""
        self.bytes -= counted


@final
class HeadCharge:
    """One connection's in-progress head, as HeadBudget counts it."""

    __slots__ = ("_counted", "_heads")

    def __init__(self, heads: HeadBudget) -> None:
        self._heads = heads
        self._counted = 0

    def grow(self, size: int) -> bool:
        """Count a head of so many bytes; return whether there is room. See HeadBudget."""
        if size == self._counted:
            return True
        if not self._heads.grow(self._counted, size):
            return False
        self._counted = size
        return True

    def end(self) -> None:
        """Remove what was counted; does nothing the second time."""
        if self._counted:
            self._heads.end(self._counted)
            self._counted = 0
