"""Defines the exit statuses of all commands."""

from __future__ import annotations

from typing import Final

OK: Final = 0
FAILED: Final = 1
MISUSED: Final = 2  # also click's status for wrong options
NO_RESPONSE: Final = 3
NOT_KNOWN: Final = 4
INTERRUPTED: Final = 130  # 128 + SIGINT, as shells have it
