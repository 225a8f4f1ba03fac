"""How many bytes of request heads may have come that are not at their end, of all clients together.

Each head has bounds of its own (``request.RequestLimits``), but nobody bounds how many are begun.
A head that comes whole, as nearly all do, is not counted: it does not stay. Counts, and knows no
connection. Knative has no counterpart.
"""

from __future__ import annotations

from throttler.budget import RESERVED

#: Bytes of a head that counts as small: the last part of the bound, as much as throttler.budget
#: reserves, is open only to such. Most are, and those that have all of one line in other servers
#: (nginx, Apache: 8 KiB); to use up the reserve of the default takes 1,024 clients.
SMALL = 8 << 10


class UnfinishedHeads:
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
        """A head of which so many bytes were counted is whole, refused or given up."""
        self.bytes -= counted
