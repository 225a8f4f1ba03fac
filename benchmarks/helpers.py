"""Helper processes, such as pods and clients: they read commands and print facts as JSON."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.process import RESULTS, CannotMeasure, started

#: Seconds within which a helper must print its next fact.
PATIENCE = 90.0


class Helper:
    """A helper process that reads commands and prints facts, one per line."""

    def __init__(self, process: subprocess.Popen[str], name: str) -> None:
        self._process = process
        self._name = name

    def send(self, line: str) -> None:
        """Send a command."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def receive(self, patience: float = PATIENCE) -> Any:
        """Return the next fact, from JSON.

        Arguments:
            patience: seconds.

        Raises:
            CannotMeasure: the helper has ended, or printed nothing in that time.
        """
        assert self._process.stdout is not None
        silent = threading.Timer(patience, self._process.kill)
        silent.start()
        line = self._process.stdout.readline()
        silent.cancel()
        if not line:
            raise CannotMeasure(
                f"benchmarks.{self._name} ended or hangs: {RESULTS / self._name}.log"
            )
        return json.loads(line)

    def kill(self) -> list[Any]:
        """End it by SIGKILL, and return the facts that were not received yet."""
        self._process.kill()
        assert self._process.stdout is not None
        facts = [json.loads(line) for line in self._process.stdout]
        self._process.wait()
        return facts

    def signal(self, number: signal.Signals) -> None:
        """Send a signal."""
        self._process.send_signal(number)

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
    """Provide a running ``benchmarks.NAME``.

    Arguments:
        log: the name of its log; NAME by default.
    """
    command = [sys.executable, "-m", f"benchmarks.{name}", *arguments]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with started(command, log or name, **pipes) as process:
        yield Helper(process, name)
