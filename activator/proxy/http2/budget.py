"""How much of a kind a peer may do: so many at once, and then so many a second, or as it earns.
Pure."""

from __future__ import annotations


class Budget:
    """A bucket that fills by itself, and with what its peer does besides.

    Arguments:
        most: what it holds; rate: what comes back, a second.
        share: what comes back with each thing that the peer does besides.
    """

    __slots__ = ("_done", "_left", "_most", "_rate", "_share", "_since")

    def __init__(self, most: int, rate: float, share: float = 0.0) -> None:
        self._most = self._left = float(most)
        self._rate = rate
        self._share = share
        self._since: float | None = None
        self._done = 0

    def take(self, now: float, done: int = 0) -> bool:
        """Take one; return whether there was one.

        Arguments:
            now: seconds, monotonic.
            done: things that the peer has done besides, so far.
        """
        if self._since is not None:
            back = (now - self._since) * self._rate + (done - self._done) * self._share
            self._left = min(self._most, self._left + back)
        self._since = now
        self._done = done
        if self._left < 1:
            return False
        self._left -= 1
        return True
