"""How much of a kind a peer may do: so many at once, and then so many a second. Pure."""

from __future__ import annotations


class Budget:
    """A bucket that fills by itself.

    Arguments:
        most: what it holds; rate: what comes back, a second.
    """

    __slots__ = ("_left", "_most", "_rate", "_since")

    def __init__(self, most: int, rate: float) -> None:
        self._most = self._left = float(most)
        self._rate = rate
        self._since: float | None = None

    def take(self, now: float) -> bool:
        """Take one; return whether there was one."""
        if self._since is not None:
            self._left = min(self._most, self._left + (now - self._since) * self._rate)
        self._since = now
        if self._left < 1:
            return False
        self._left -= 1
        return True
