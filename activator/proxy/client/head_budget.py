"""Limits the bytes of in-progress request heads of all clients together.

Each head has limits of its own (``request.RequestLimits``), but nothing else limits how many heads
are in progress. A head that arrives in one piece is not counted, since it does not stay in memory.
Nearly all do. Pure. Knative has no counterpart.
"""

from __future__ import annotations

from typing import Final, final

from throttler.breaker import RESERVED

#: Bytes of a small head. The last part of the budget, of the size that throttler.breaker reserves,
#: is only for small heads. nginx and Apache limit one line to 8 KiB. At the default setting it
#: takes 1,024 clients to use up this reserve.
SMALL: Final = 8 << 10


@final
class HeadBudget:
    """The bytes of all in-progress heads.

    Attributes:
        bytes: the current number.
        most: the limit.
    """

    __slots__ = ("bytes", "most")

    def __init__(self, most: int) -> None:
        self.bytes = 0
        self.most = most

    def grow(self, before: int, now: int) -> bool:
        """Count a head that had ``before`` bytes and has ``now`` bytes.

        Returns:
            Whether the budget has space. If not, nothing has changed. The caller then refuses the
            head, and calls ``release``.
        """
        room = self.most if now <= SMALL else self.most - self.most // RESERVED
        total = self.bytes - before + now
        if total > room and now > before:
            return False
        self.bytes = total
        return True

    def release(self, counted: int) -> None:
        """Release the bytes of a head.

        Arguments:
            counted: how many were counted.
        """
        self.bytes -= counted


@final
class HeadCharge:
    """The part of a HeadBudget that one connection uses."""

    __slots__ = ("_counted", "_heads")

    def __init__(self, heads: HeadBudget) -> None:
        self._heads = heads
        self._counted = 0

    def grow(self, size: int) -> bool:
        """Count a head of ``size`` bytes; return whether the budget has space. See HeadBudget."""
        if size == self._counted:
            return True
        if not self._heads.grow(self._counted, size):
            return False
        self._counted = size
        return True

    def release(self) -> None:
        """Release all bytes; do nothing the second time."""
        if self._counted:
            self._heads.release(self._counted)
            self._counted = 0
