"""Adapts uvicorn's server to a process with other servers: no signal handlers and no timer."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

import uvicorn


class QuietServer(uvicorn.Server):
    """uvicorn's server without signal handlers, since the process has its own.

    It has no timer either. uvicorn's main loop runs ten times a second for each server. It checks
    whether to stop, and renews the Date field, which no server of this project needs from it.

    Arguments:
        config: uvicorn's configuration.
    """

    def __init__(self, config: uvicorn.Config) -> None:
        self._stop = asyncio.Event()
        super().__init__(config)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone."""
        yield

    @property
    def should_exit(self) -> bool:
        """Whether the server stops; setting it to True wakes ``main_loop`` at once."""
        return self._stop.is_set()

    @should_exit.setter
    def should_exit(self, value: bool) -> None:
        if value:
            self._stop.set()
        else:
            self._stop.clear()

    async def main_loop(self) -> None:
        """Wait until the server stops."""
        await self._stop.wait()
