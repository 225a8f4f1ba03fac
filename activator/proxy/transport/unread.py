"""Bytes that wait for peers that do not read: of all clients and pods together, within one bound.

A response waits here when its client does not read it, a request when its pod does not. Each may
hold little by itself; nothing else bounds how many there are. Under pressure each new one gets
less. At the bound the one that has waited longest without progress is ended. A peer that reads
holds nothing, and is never stopped. Knows no connection. Knative has no counterpart.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from enum import Enum
from typing import Final, Protocol

#: Share of the bound beyond which room is scarce: from there on each peer gets a quarter.
_SCARCE: Final = 2
#: The limit where none is set: a whole number, as every limit is in the metrics.
UNLIMITED: Final = sys.maxsize
#: Bytes that may wait for one peer, and that may while room is scarce.
WINDOW: Final = 64 << 10
SMALL_WINDOW: Final = WINDOW // 4


class Peer(Enum):
    """Which side does not read."""

    CLIENT = "client"
    POD = "pod"


class Reader(Protocol):
    """A connection or a stream whose peer does not read."""

    def end_unread(self) -> tuple[Peer, str]:
        """End it, because others need its room; return the side and the address of its peer."""


class UnreadBytes:
    """The bytes of all of them.

    Arguments:
        most: how many there may be.

    Attributes:
        bytes: how many there are; most: see the argument.
        scarce: whether more than half of the room is taken.
        ended: how many connections and streams were ended for want of room, by side.
        on_ended: called with the side and the address of each peer that was ended.
    """

    __slots__ = ("_ending", "_held", "bytes", "ended", "most", "on_ended", "scarce")

    def __init__(self, most: int = UNLIMITED) -> None:
        self.bytes = 0
        self.most = most
        self.scarce = False
        self.ended = dict.fromkeys((peer.value for peer in Peer), 0)
        self.on_ended: Callable[[Peer, str], None] = _ignore
        self._held: dict[Reader, int] = {}  # the one that has waited longest is first
        self._ending = False

    def hold(self, reader: Reader, size: int) -> None:
        """Record that so many bytes wait for a peer now; O(1).

        Arguments:
            size: bytes; fewer than before are progress, 0 is the end of its wait.
        """
        held = self._held
        before = held.get(reader, 0)
        if size < before:
            del held[reader]
        if size:
            held[reader] = size
        self.bytes += size - before
        self.scarce = self.bytes * _SCARCE > self.most
        if self.bytes > self.most and not self._ending:
            # Not now: the caller is in the middle of a write.
            self._ending = True
            asyncio.get_running_loop().call_soon(self._end_oldest)

    def _end_oldest(self) -> None:
        while self.bytes > self.most:
            reader = next(iter(self._held))
            self.hold(reader, 0)
            peer, address = reader.end_unread()
            self.ended[peer.value] += 1
            self.on_ended(peer, address)
        self._ending = False


def _ignore(_peer: Peer, _address: str) -> None:
    """Do nothing."""
