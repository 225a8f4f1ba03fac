"""Pods and clients as seen by what starts them: commands in, told facts out."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.process import RESULTS, CannotMeasure, started

#: Seconds in which each has something to tell; all are asked for less.
PATIENCE = 90.0


class Helper:
    """A helper process that reads lines and tells lines."""

    def __init__(self, process: subprocess.Popen[str], name: str) -> None:
        self._process = process
        self._name = name

    def say(self, line: str) -> None:
        """Sends a line."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def hear(self) -> Any:
        """The next line that it tells, as JSON.

        Raises:
            CannotMeasure: it has ended, or said nothing within `PATIENCE`.
        """
        assert self._process.stdout is not None
        silent = threading.Timer(PATIENCE, self._process.kill)
        silent.start()
        line = self._process.stdout.readline()
        silent.cancel()
        if not line:
            raise CannotMeasure(
                f"benchmarks.{self._name} ended or hangs: {RESULTS / self._name}.log"
            )
        return json.loads(line)

    def kill(self) -> list[Any]:
        """Ends it by SIGKILL, and returns what it had told that nobody has heard yet."""
        self._process.kill()
        assert self._process.stdout is not None
        told = [json.loads(line) for line in self._process.stdout]
        self._process.wait()
        return told

    def terminate(self) -> None:
        """Send SIGTERM."""
        self._process.terminate()

    def ended(self, timeout: float) -> int | None:
        """Wait for the end.

        Arguments:
            timeout: seconds.

        Returns:
            The exit status; None if it still runs.
        """
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            return None


@contextmanager
def helper(name: str, *arguments: str, log: str = "") -> Iterator[Helper]:
    """A running ``benchmarks.NAME``.

    Arguments:
        log: the name of its log; NAME by default.
    """
    command = [sys.executable, "-m", f"benchmarks.{name}", *arguments]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with started(command, log or name, **pipes) as process:
        yield Helper(process, name)
