"""Decides when one connection of a TCP Service counts as load; the time is an argument.

A health check only connects and closes. So a connection begins to count with the first byte of its
client, or once it has been open for a while: some servers speak first. From then on it counts until
it ends. With ``keep-awake: bytes`` it counts only while bytes pass.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Final, final

from throttler.request_policies import ConnectionPolicies

if TYPE_CHECKING:
    from activator.runtime import RevisionLoad

#: Seconds for which a connection counts after a byte, with ``keep-awake: bytes``: the period of a
#: report. Behind them, the scaler counts ``idle-seconds``.
BUSY_SECONDS: Final = 1.0


@final
class ConnectionDemand:
    """The demand of one connection.

    Arguments:
        load: of its Service.
        policies: of its Service.
        now: when it was opened, seconds.

    Attributes:
        opened: when it was opened, seconds.
        follows: whether ``moved`` has to be called for the bytes that pass.
        shown: whether it is known to be more than a health check.
    """

    __slots__ = (
        *("_by_bytes", "_counts", "_load", "_moved_at", "_shows_at"),
        *("follows", "opened", "shown"),
    )

    def __init__(self, load: RevisionLoad, policies: ConnectionPolicies, now: float) -> None:
        self._load = load
        self._by_bytes = policies.by_bytes
        self._shows_at = now + policies.wake_after
        self._counts = False
        self._moved_at = now
        self.opened = now
        self.follows = True
        self.shown = False

    def begin(self, now: float) -> None:
        """Count from now on; do nothing while it counts."""
        self.shown = True
        self.follows = self._by_bytes
        self._moved_at = now
        if not self._counts:
            self._counts = True
            self._load.request_began(now)

    def end(self, now: float) -> None:
        """Count no more."""
        if self._counts:
            self._counts = False
            self._load.request_ended(now)

    def moved(self, now: float, *, by_client: bool) -> bool:
        """Record that bytes pass; return whether the connection begins to count.

        Bytes of the pod alone, such as a greeting, do not show more than a health check.

        Arguments:
            now: seconds.
            by_client: whether the client has sent them.
        """
        self._moved_at = now
        if self._counts or not (self.shown or by_client):
            return False
        self.begin(now)
        return True

    def check(self, now: float) -> bool:
        """Begin or end to count, if it is time; return whether it has ended to count."""
        if not self.shown and now >= self._shows_at:
            self.begin(now)
        if not (self._by_bytes and self._counts and now >= self._moved_at + BUSY_SECONDS):
            return False
        self.end(now)
        return True

    @property
    def due(self) -> float:
        """When to call ``check`` next, seconds; infinite for never."""
        if not self.shown:
            return self._shows_at
        return self._moved_at + BUSY_SECONDS if self._by_bytes and self._counts else inf
