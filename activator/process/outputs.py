"""stdout and stderr of the process: threads write what the process prints.

Replaces ``sys.stdout`` and ``sys.stderr``. So ``print``, tracebacks, warnings and the logs of other
packages never wait for a pipe or a terminal. Knative has no counterpart.
"""

from __future__ import annotations

import atexit
import io
import os
import sys
import threading
import time
from collections.abc import Mapping
from typing import Final, TextIO, cast

from activator.process.line_writer import LineWriter

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
        """See io.TextIOBase."""
        return "utf-8"

    @property
    def errors(self) -> str:  # type: ignore[override,mutable-override] # an attribute there
        """See io.TextIOBase."""
        return "backslashreplace"

    def fileno(self) -> int:
        """See io.IOBase."""
        return self._descriptor

    def isatty(self) -> bool:
        """See io.IOBase."""
        return os.isatty(self._descriptor)

    def writable(self) -> bool:
        """See io.IOBase."""
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
