"""The failures of one watch in a row: when its version may be the cause, and how to log them.

Pure: the time is an argument.
"""

from __future__ import annotations

import logging
from typing import Final

#: Consecutive failures of a watch, without an event, after which its version may be the cause.
RELIST_AFTER_FAILURES: Final = 5

#: Seconds between two warnings about the same failure.
_SAME_WARNING_SECONDS: Final = 10.0


class Failures:
    """The failures since the last valid response.

    Attributes:
        in_a_row: their number.
        last_error: the reason of the last one; empty after a valid response.
    """

    def __init__(self) -> None:
        self.in_a_row = 0
        self.last_error = ""
        self._suspicions = 0
        self._warned_at = float("-inf")

    def add(self, reason: str, now: float, *, suspect: bool) -> int:
        """Record a failure.

        Arguments:
            now: seconds, monotonic.
            suspect: whether the version of the watch may be the cause.

        Returns:
            Its log level: short pauses must not fill the log.
        """
        self.in_a_row += 1
        self._suspicions += suspect
        before, self.last_error = self.last_error, reason
        if reason == before and now - self._warned_at < _SAME_WARNING_SECONDS:
            return logging.DEBUG
        # The first failure in a row is usually a restart of the server.
        if self.in_a_row == 1:
            return logging.INFO
        self._warned_at = now
        return logging.WARNING

    def clear(self) -> None:
        """Record a valid response."""
        self.in_a_row = self._suspicions = 0
        self.last_error = ""

    @property
    def make_suspect(self) -> bool:
        """Whether so many failures suggest that the version of the watch is the cause."""
        return self._suspicions >= RELIST_AFTER_FAILURES
