"""Orders the probes that are due when the limits allow no more.

Pods of revisions with queued requests are first. Among them, pods with fewer failures are first:
an unreachable pod is behind a pod without a probe so far. All other pods have a small share of the
turns. So a revision whose pods all refuse does not delay the probes of other pods without end. Each
operation is O(1) in the length of the queue.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)

#: Ranks double: 0, 1, 2-3, 4-7, ... failures. Each rank is first in, first out.
_RANKS: Final = 17
#: One turn in so many is for pods without queued requests, while other pods have some.
SHARE: Final = 8


class ProbeQueue(Generic[Key]):
    """The keys of due probes, in the order in which they are sent."""

    def __init__(self) -> None:
        # One lane per rank; the fewest failures first.
        self._wanted = [OrderedDict[Key, None]() for _ in range(_RANKS)]
        self._others = [OrderedDict[Key, None]() for _ in range(_RANKS)]
        self._lane: dict[Key, OrderedDict[Key, None]] = {}
        self._turns = 0

    def __len__(self) -> int:
        return len(self._lane)

    def __contains__(self, key: Key) -> bool:
        return key in self._lane

    def put(self, key: Key, *, wanted: bool, failures: int) -> bool:
        """Queue a key. A key that is already in the right lane keeps its turn.

        Arguments:
            wanted: whether a request waits for it.
            failures: consecutive failures so far.

        Returns:
            Whether the key entered the lane now.
        """
        lanes = self._wanted if wanted else self._others
        lane = lanes[min(failures.bit_length(), _RANKS - 1)]
        if self._lane.get(key) is lane:
            return False
        self.discard(key)
        self._lane[key] = lane
        lane[key] = None
        return True

    def discard(self, key: Key) -> None:
        """Remove a key, if it is in the queue."""
        if (lane := self._lane.pop(key, None)) is not None:
            del lane[key]

    def clear(self) -> None:
        """Remove all keys."""
        for key in list(self._lane):
            self.discard(key)

    def first(self) -> Key | None:
        """Return the key whose turn it is; None if the queue is empty."""
        both = (self._wanted, self._others)
        for lanes in both[::-1] if self._turns % SHARE == SHARE - 1 else both:
            for lane in lanes:
                if lane:
                    return next(iter(lane))
        return None

    def take(self) -> None:
        """Remove the key that is ``first``, and count its turn."""
        if (key := self.first()) is not None:
            self.discard(key)
            self._turns += 1
