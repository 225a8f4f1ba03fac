"""Limits how often a peer does one thing: by a burst, a rate, and its other work. Pure."""

from __future__ import annotations


class Budget:
    """A token bucket that fills with time, and with other work of the peer.

    Arguments:
        most: tokens in a full bucket; rate: new tokens per second.
        share: new tokens per unit of other work.
    """

    __slots__ = ("_done", "_left", "_most", "_rate", "_share", "_since")

    def __init__(self, most: int, rate: float, share: float = 0.0) -> None:
        self._most = self._left = float(most)
        self._rate = rate
        self._share = share
        self._since: float | None = None
        self._done = 0

    def take(self, now: float, done: int = 0) -> bool:
        """Take one token; return whether there was one.

        Arguments:
            now: seconds, monotonic.
            done: units of other work that the peer has done so far.
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
