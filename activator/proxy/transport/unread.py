"""Limits the bytes in memory that clients and pods do not read, of all of them together.

A response waits in memory while its client does not read it, a request while its pod does not. Each
alone is small, but nothing else limits their number. Above half of the limit, each new one gets a
smaller window. At the limit, the one without progress for longest is ended. A peer that reads has
no bytes here, and is never ended. Knative has no counterpart.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from enum import Enum
from typing import Final, Protocol

#: The budget is scarce above the limit divided by this; then each peer gets a quarter.
_SCARCE: Final = 2
#: The limit if none is set. It is an integer, because the metrics print limits as integers.
UNLIMITED: Final = sys.maxsize
#: Bytes that may wait for one peer, usually and while the budget is scarce.
WINDOW: Final = 64 << 10
SMALL_WINDOW: Final = WINDOW // 4


class Peer(Enum):
    """Which side does not read."""

    CLIENT = "client"
    POD = "pod"


class Reader(Protocol):
    """A connection or a stream whose peer does not read."""

    def end_unread(self) -> tuple[Peer, str]:
        """End it to free its bytes; return the side and the address of its peer."""


class UnreadBytes:
    """The budget of unread bytes.

    Arguments:
        most: the limit, in bytes.

    Attributes:
        bytes: bytes in use; most: see the argument.
        scarce: whether more than half of the limit is in use.
        ended: number of connections and streams that ended at the limit, by side.
        on_ended: called with the side and the address of each peer whose connection or stream
            ended.
    """

    __slots__ = ("_ending", "_held", "bytes", "ended", "most", "on_ended", "scarce")

    def __init__(self, most: int = UNLIMITED) -> None:
        self.bytes = 0
        self.most = most
        self.scarce = False
        self.ended = dict.fromkeys((peer.value for peer in Peer), 0)
        self.on_ended: Callable[[Peer, str], None] = _ignore
        self._held: dict[Reader, int] = {}  # the one without progress for longest is first
        self._ending = False

    def hold(self, reader: Reader, size: int) -> None:
        """Record how many bytes wait for a peer now; O(1).

        Arguments:
            reader: the connection or stream of the peer.
            size: bytes; fewer than before are progress, and 0 ends the wait.
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
            # Not at once, because the caller is inside a write.
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
