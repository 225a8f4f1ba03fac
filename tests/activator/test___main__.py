"""``python -m activator`` is the console script by another name."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.process import PATIENCE


def activator(*args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "activator", *args]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_it_is_the_same_program():
    done = activator("--version")
    assert done.returncode == 0
    assert done.stdout.startswith("activator, version ")


def test_the_exit_status_reaches_the_shell():
    assert activator("run", "--http-port", "nonsense").returncode == 2


@pytest.mark.parametrize(
    "start",
    [
        pytest.param(["-m", "activator"], id="module"),
        pytest.param(
            ["-c", "import sys, activator.__main__ as m; sys.exit(m.main())"], id="script"
        ),
    ],
)
def test_a_sigterm_while_modules_are_loaded_ends_it_at_once_with_0(
    tmp_path: Path, start: list[str]
) -> None:
    """The first process of a container would not even get it without a handler."""
    slow = "import sys\nprint('loading', flush=True)\nsys.stdin.read()\n"
    (tmp_path / "uvloop.py").write_text(slow)
    path = os.pathsep.join([str(tmp_path), *os.environ.get("PYTHONPATH", "").split(os.pathsep)])
    process = subprocess.Popen(
        [sys.executable, *start, "local", "--manifests", str(tmp_path)],
        env={**os.environ, "PYTHONPATH": path},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "loading\n"
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=PATIENCE) == 0
            assert process.stderr is not None
            assert process.stderr.read() == ""
        finally:
            process.kill()
