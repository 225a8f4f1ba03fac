"""The reader's terminals: a shell for commands that end, and one more for each that stays."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Final, NamedTuple

from tests.process import PATIENCE as STEP

#: Seconds of a step, also in a cluster, on a busy machine.
PATIENCE: Final = 2 * STEP


#: Each shell that is not interactive reads the file of ``BASH_ENV`` first.
FUNCTIONS: Final = Path(__file__).parent / "objects" / "functions.sh"


def _text(output: Path) -> str:
    """Return an output, without what curl adds because of the option of the worlds."""
    text = output.read_text(errors="replace")
    return re.sub(r"^curl: \(22\) .*\n", "", text, flags=re.MULTILINE)


class Result(NamedTuple):
    """How a command ended; one with ``&`` goes on, and so does its output."""

    status: int
    file: Path

    @property
    def output(self) -> str:
        """Return its output and its errors, in their order."""
        return _text(self.file)


class Program:
    """A command in a terminal of its own."""

    def __init__(self, command: str, process: subprocess.Popen[bytes], output: Path) -> None:
        self.command = command
        self._process = process
        self._output = output

    @property
    def output(self) -> str:
        return _text(self._output)

    @property
    def status(self) -> int | None:
        """Return the exit status, or None while it runs."""
        return self._process.poll()

    def interrupt(self) -> None:
        """Press Ctrl-C, and wait until it has ended."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGINT)
        self._process.wait(PATIENCE)

    def kill(self) -> None:
        """End it with all that it has started."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


class Terminals:
    """The terminals of one page.

    Variables, aliases and jobs of the first one stay from command to command.
    """

    def __init__(
        self, folder: Path, enter: Sequence[str], environment: Mapping[str, str], records: Path
    ) -> None:
        """
        Arguments:
            folder: where the reader is.
            enter: the words of a command that runs another one in the network of the world.
            records: a folder for scripts and outputs.
        """
        self.programs: list[Program] = []
        self._enter = [*enter, "bash", "--norc"]
        self._records = records
        self._number = 0
        self._folder = folder
        self._environment = {**environment, "BASH_ENV": str(FUNCTIONS)}
        self._shell = self._spawn(self._enter, subprocess.PIPE, None)

    def run(self, command: str, patience: float = PATIENCE) -> Result:
        """Run a command in the first terminal, until it ends.

        Raises:
            AssertionError: it did not end in time; the text has its output.
        """
        script, output = self._script(command)
        status = script.with_suffix(".status")
        self._say(f"source {script} < /dev/null > {output} 2>&1; echo $? > {status}\n")
        ended = lambda: status.exists() and status.read_text().endswith("\n")  # noqa: E731 # used once
        assert self.wait(ended, patience), f"did not end in {patience} s; output:\n" + (
            output.read_text() if output.exists() else ""
        )
        return Result(int(status.read_text()), output)

    def start(self, command: str) -> Program:
        """Start a command in a new terminal."""
        script, output = self._script(command)
        with output.open("wb") as file:
            process = self._spawn([*self._enter, str(script)], subprocess.DEVNULL, file)
        self.programs.append(Program(command, process, output))
        return self.programs[-1]

    def wait(self, condition: Callable[[], object], patience: float = PATIENCE) -> bool:
        """Poll a condition until it holds; return whether it does before the deadline."""
        deadline = time.monotonic() + patience
        while not condition():
            if time.monotonic() > deadline:
                return False
            with suppress(subprocess.TimeoutExpired):  # the pause; a shell that ended is an error
                raise AssertionError(f"the shell ended with {self._shell.wait(0.05)}")
        return True

    def close(self) -> None:
        """End all that runs."""
        for program in self.programs:
            program.kill()
        with suppress(ProcessLookupError):
            os.killpg(self._shell.pid, signal.SIGKILL)
        with self._shell:  # closes the pipe, and waits
            pass

    def _spawn(
        self, command: list[str], stdin: int, output: IO[bytes] | None
    ) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command,
            cwd=self._folder,
            env=self._environment,
            stdin=stdin,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )

    def _script(self, command: str) -> tuple[Path, Path]:
        self._number += 1
        script = self._records / f"{self._number}.sh"
        script.write_text(command + "\n")
        return script, script.with_suffix(".output")

    def _say(self, line: str) -> None:
        assert self._shell.stdin is not None
        self._shell.stdin.write(line.encode())
        self._shell.stdin.flush()
