"""stdout and stderr of the process: threads write what the process prints.

Replaces ``sys.stdout`` and ``sys.stderr``. So ``print``, tracebacks, warnings and the logs of other
packages never wait for a pipe or a terminal. Knative has no counterpart: its activator waits.
"""

from __future__ import annotations

import atexit
import io
import logging
import os
import select
import sys
import threading
import time
from collections.abc import Mapping
from typing import Final, TextIO, cast

logger = logging.getLogger(__name__)

#: Seconds between two writes. The first line after a pause is written at once.
GATHER: Final = 0.05
#: Bytes that may be queued or half written, per file.
CAPACITY: Final = 4 << 20
#: Writes that may be queued: small lines cost more memory than their bytes.
MOST_LINES: Final = 20_000
#: More bytes that the threads of writers may queue. They report the lines that one file lost, also
#: while the other file blocks.
_RESERVE: Final = 64 << 10
#: Bytes per ``write(2)``: the queue becomes free in steps of this size.
_PIECE: Final = 64 << 10


#: Has the attribute ``reports`` in the threads of writers.
_of_thread = threading.local()


class LineWriter:
    """Writes lines to a file that may block, in their order: the caller never waits.

    A full pipe, a stopped terminal and a file system that hangs block ``write(2)``. A non-blocking
    descriptor affects every process that shares it. So a thread writes. It gathers lines, since
    each run of the thread takes the interpreter's lock from the byte path. The queue has a limit:
    the writer drops, counts and reports further lines. It works without a loop and from every
    thread.

    Attributes:
        dropped: lines that were not written.
    """

    def __init__(
        self,
        descriptor: int,
        name: str,
        capacity: int = CAPACITY,
        most_lines: int = MOST_LINES,
    ) -> None:
        """Args: the open file, its name in log lines, the bytes and writes that may be queued."""
        self.dropped = 0
        self._descriptor = descriptor
        self._name = name
        self._capacity = capacity
        self._most_lines = most_lines
        # The thread shares all attributes below. The lock is reentrant: a finalizer may run while
        # the lock is held, and log.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._lines: list[bytes] = []
        self._held = 0  # bytes of _lines and of the lines that the thread is writing
        self._unreported = 0
        self._dropping = False
        self._idle = False
        self._ending = False
        self._thread: threading.Thread | None = None

    def write(self, lines: bytes) -> None:
        """Queue one or more whole lines; drop them if the queue is full."""
        with self._lock:
            size = len(lines)
            fits = self._held + size <= self._capacity and len(self._lines) < self._most_lines
            why = "" if fits and self._thread is not None else self._refusal(fits, size)
            if not why:
                self._lines.append(lines)
                self._held += size
                if self._idle:
                    self._changed.notify()
        if why:
            self._drop(lines, why)

    def close(self, patience: float) -> bool:
        """Write the queued lines.

        Arguments:
            patience: the most seconds to wait for the file.

        Returns:
            Whether everything was written or dropped; False if the file still blocks.
        """
        with self._changed:
            self._ending = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(patience)
            return not self._thread.is_alive()
        return True

    def _refusal(self, fits: bool, size: int) -> str:
        """Return why these bytes cannot be queued; empty if they can."""
        if not fits:
            reports = getattr(_of_thread, "reports", False)
            if not reports or self._held + size > self._capacity + _RESERVE:
                return "its reader is too slow"
        return "" if self._thread is not None else self._start()

    def _start(self) -> str:
        """Start the thread; return why that failed, empty if it did not."""
        thread = threading.Thread(target=self._run, name=f"log-{self._name}", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # the limit of threads is reached, or the interpreter ends
            return str(error)
        self._thread = thread
        return ""

    def _drop(self, lines: bytes, why: str) -> None:
        """Count lines that were not written, and log the first of them."""
        count = max(1, lines.count(b"\n"))
        with self._changed:
            self.dropped += count
            self._unreported += count
            is_first, self._dropping = not self._dropping, True
        if is_first:
            logger.warning(
                "%s does not accept log lines (%s): they are dropped until it does",
                *(self._name, why),
                extra={"sink": self._name},
            )

    # -- in the thread --------------------------------------------------------------------------

    def _run(self) -> None:
        _of_thread.reports = True
        while chunk := self._next():
            if self._write(chunk):
                self._report()
            with self._changed:
                self._changed.wait_for(lambda: self._ending, GATHER)

    def _next(self) -> bytes:
        """Wait for lines and return all of them; return nothing when the writer closes."""
        with self._changed:
            self._idle = True
            self._changed.wait_for(lambda: self._lines or self._ending)
            self._idle = False
            lines, self._lines = self._lines, []
        return b"".join(lines)

    def _write(self, chunk: bytes) -> bool:
        """Write whole lines; return False if the file failed, and drop the rest."""
        view = memoryview(chunk)
        while view:
            try:
                written = os.write(self._descriptor, view[:_PIECE])
            except BlockingIOError:  # another process made the shared file non-blocking
                select.select([], [self._descriptor], [])
                continue
            except OSError as error:
                self._release(len(view))
                self._drop(bytes(view), error.strerror or str(error))
                return False
            self._release(written)
            view = view[written:]
        return True

    def _release(self, size: int) -> None:
        with self._changed:
            self._held -= size

    def _report(self) -> None:
        """Log how many lines were dropped before the file accepted lines again."""
        with self._changed:
            count, self._unreported = self._unreported, 0
            self._dropping = False
        if count:
            logger.warning(
                "%d log %s dropped because %s did not accept them",
                *(count, "line was" if count == 1 else "lines were", self._name),
                extra={"sink": self._name, "dropped": count},
            )


#: Seconds that both files together have to accept the queued lines when the process ends.
PATIENCE: Final = 1.0
#: The most bytes of an incomplete line that are held back.
_LONGEST_LINE: Final = 64 << 10


class LineStream(io.TextIOBase):
    """A text stream that passes whole lines to a writer and never waits."""

    def __init__(self, writer: LineWriter, descriptor: int) -> None:
        """Args: the writer of the lines; the descriptor that it writes to."""
        self._writer = writer
        self._descriptor = descriptor
        self._lock = threading.RLock()
        self._partial = b""

    @property
    def encoding(self) -> str:  # type: ignore[override] # an attribute there
        return "utf-8"

    @property
    def errors(self) -> str:  # type: ignore[override,mutable-override] # an attribute there
        return "backslashreplace"

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return os.isatty(self._descriptor)

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        """Pass text to the writer if it ends with a line end; hold it back otherwise."""
        self._pass(text.encode("utf-8", "backslashreplace"), whole=text.endswith("\n"))
        return len(text)

    def flush(self) -> None:
        """Pass on the incomplete line. Does not wait until it is written."""
        self._pass(b"", whole=True)

    def _pass(self, data: bytes, whole: bool) -> None:
        with self._lock:
            data, self._partial = self._partial + data, b""
            if not whole and len(data) <= _LONGEST_LINE:
                self._partial = data
                return
        if data:  # not under the lock: the writer may log, and the log may come here
            self._writer.write(data)


class Outputs:
    """The two files of the process.

    Attributes:
        stdout, stderr: take lines.
    """

    def __init__(self) -> None:
        self.stdout = LineWriter(1, "stdout")
        self.stderr = LineWriter(2, "stderr")

    @property
    def dropped(self) -> Mapping[str, int]:
        """How many lines were not written, by file."""
        return {"stdout": self.stdout.dropped, "stderr": self.stderr.dropped}

    def install(self) -> None:
        """Send all that the process prints through the writers, until the process ends.

        The end of the interpreter waits at most ``PATIENCE`` seconds for the queued lines. A file
        that still blocks then stays replaced, since the interpreter would wait for it.
        """
        for descriptor in range(3):
            _occupy(descriptor)
        sys.stdout = cast(TextIO, LineStream(self.stdout, 1))
        sys.stderr = cast(TextIO, LineStream(self.stderr, 2))
        atexit.register(self._end)

    def close(self, patience: float = PATIENCE) -> tuple[bool, bool]:
        """Write the queued lines, within ``patience`` seconds.

        Returns:
            Whether stdout has nothing left to write, and whether stderr has.
        """
        end = time.monotonic() + patience
        for writer in (self.stdout, self.stderr):
            writer.close(0.0)  # both begin to close before the wait for the first
        done = self.stdout.close(patience)
        return done, self.stderr.close(max(0.0, end - time.monotonic()))

    def _end(self) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        stdout, stderr = self.close()
        if stdout:
            sys.stdout = cast(TextIO, sys.__stdout__)
        if stderr:
            sys.stderr = cast(TextIO, sys.__stderr__)


def _occupy(descriptor: int) -> None:
    """Open the null device if the process was started without this file.

    Otherwise a socket would get that number, and its peer would get the log lines.
    """
    try:
        os.fstat(descriptor)
    except OSError:
        os.open(os.devnull, os.O_RDWR)
