"""Whose turn it is when more probes are due than may be sent.

Pods that a request waits for go first, and among them those that have failed least: black holes
stand behind pods that were never asked. All others have a small share, so that a revision whose
pods all refuse never keeps the rest from being looked at. Decides nothing but the order; each
operation takes the same time however many stand here, and whoever is discarded is gone at once.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)

#: Ranks double: 0, 1, 2-3, 4-7, ... failures. Within one rank it is first come, first served.
_RANKS: Final = 17
#: One turn of so many belongs to those that nobody waits for, while somebody waits for others.
SHARE: Final = 8


class ProbeQueue(Generic[Key]):
    """What is due, in the order in which it is to be probed."""

    def __init__(self) -> None:
        # One lane a rank; the fewest failures first.
        self._wanted = [OrderedDict[Key, None]() for _ in range(_RANKS)]
        self._others = [OrderedDict[Key, None]() for _ in range(_RANKS)]
        self._lane: dict[Key, OrderedDict[Key, None]] = {}
        self._turns = 0

    def __len__(self) -> int:
        return len(self._lane)

    def __contains__(self, key: Key) -> bool:
        return key in self._lane

    def put(self, key: Key, *, wanted: bool, failures: int) -> bool:
        """Have it stand where it belongs; it keeps its turn where it stands there already.

        Arguments:
            wanted: whether a request waits for it.
            failures: in a row, so far.

        Returns:
            Whether it was put there now.
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
        """Have it stand here no more; no error if it does not."""
        if (lane := self._lane.pop(key, None)) is not None:
            del lane[key]

    def clear(self) -> None:
        """Have nothing stand here."""
        for key in list(self._lane):
            self.discard(key)

    def first(self) -> Key | None:
        """Return whose turn it is; None if nobody stands here."""
        both = (self._wanted, self._others)
        for lanes in both[::-1] if self._turns % SHARE == SHARE - 1 else both:
            for lane in lanes:
                if lane:
                    return next(iter(lane))
        return None

    def take(self) -> None:
        """Use up the turn of the one that is ``first``."""
        if (key := self.first()) is not None:
            self.discard(key)
            self._turns += 1
