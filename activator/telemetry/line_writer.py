"""Lines for a file that may not take them: whoever writes one never waits.

Lines are gathered for a moment and written by a thread, since a full pipe blocks, and a descriptor
that is set not to block would be so for everybody who shares it (stderr, most of the time). What
is held is bounded; beyond that, lines are dropped and counted.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from typing import Final

from activator.logs import Repeats

logger = logging.getLogger(__name__)

#: Seconds for which lines are gathered. A thread that is woken for each takes the interpreter's
#: lock from the byte path each time.
GATHER: Final = 0.05
#: Bytes that wait for a file that takes none: some ten thousand lines.
CAPACITY: Final = 4 << 20
#: Seconds that the end waits for a file that takes none.
PATIENCE: Final = 1.0


class LineWriter:
    """Writes lines to a file descriptor, in their order.

    Attributes:
        dropped: lines that were not written.
    """

    def __init__(self, descriptor: int, capacity: int = CAPACITY) -> None:
        """Args: the open file; bytes that may wait. Belongs to the running loop."""
        self.dropped = 0
        self._descriptor = descriptor
        self._capacity = capacity
        self._lines: list[bytes] = []
        self._held = 0  # bytes of _lines
        self._timer: asyncio.TimerHandle | None = None
        self._repeats = Repeats()
        # Shared with the thread: what it is to write, and what it failed to.
        self._changed = threading.Condition()
        self._chunk = b""
        self._failed = ""
        self._lost = 0
        self._ending = False
        self._thread: threading.Thread | None = None

    def write(self, line: bytes) -> None:
        """Take a line, with its end; it is written soon, or dropped if too many wait already."""
        if self._held + len(line) > self._capacity:
            self._drop(1, "its reader is too slow")
            return
        self._lines.append(line)
        self._held += len(line)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(GATHER, self._pass_on)

    def close(self) -> None:
        """Write what is left, but wait for no more than ``PATIENCE`` seconds."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        with self._changed:
            chunk = b"".join(self._lines)
            self._lines.clear()
            self._held = 0
            if chunk:
                self._chunk += chunk
                self._start()
            self._ending = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(PATIENCE)

    def _pass_on(self) -> None:
        """Give the thread what was gathered, unless it is still busy with the last."""
        self._timer = None
        with self._changed:
            lost, self._lost = self._lost, 0
            failed, busy = self._failed, bool(self._chunk)
            if not busy:
                self._chunk = b"".join(self._lines)
                self._lines.clear()
                self._held = 0
                self._start()
                self._changed.notify()
        if lost:
            self._drop(lost, failed)
        if self._lines:
            self._timer = asyncio.get_running_loop().call_later(GATHER, self._pass_on)

    def _drop(self, lines: int, why: str) -> None:
        self.dropped += lines
        if self._repeats.admit(why, time.monotonic()) is not None:
            logger.warning("request log: lines are dropped, %d until now: %s", self.dropped, why)

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="request-log", daemon=True)
            self._thread.start()

    # -- in the thread --------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._chunk or self._ending)
                chunk = self._chunk
            if not chunk:
                return
            lost, why = self._write_all(chunk)
            with self._changed:
                self._chunk = self._chunk[len(chunk) :]
                self._lost += lost
                self._failed = why or self._failed

    def _write_all(self, chunk: bytes) -> tuple[int, str]:
        """Return how many lines were lost, and why."""
        view = memoryview(chunk)
        while view:
            try:
                view = view[os.write(self._descriptor, view) :]
            except OSError as error:
                return bytes(view).count(b"\n"), str(error)
        return 0, ""
