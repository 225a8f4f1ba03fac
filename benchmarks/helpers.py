"""The pod and the crowd as seen by what starts them: commands in, told facts out."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.process import RESULTS, CannotMeasure, started


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
            CannotMeasure: it has ended.
        """
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise CannotMeasure(f"benchmarks.{self._name} ended early: {RESULTS / self._name}.log")
        return json.loads(line)


@contextmanager
def helper(name: str, *arguments: str) -> Iterator[Helper]:
    """A running ``benchmarks.NAME``."""
    command = [sys.executable, "-m", f"benchmarks.{name}", *arguments]
    with started(command, name, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield Helper(process, name)
