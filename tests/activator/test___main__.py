"""``python -m activator`` is the console script by another name."""

from __future__ import annotations

import subprocess
import sys


def activator(*args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "activator", *args]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_it_is_the_same_program():
    done = activator("--version")
    assert done.returncode == 0
    assert done.stdout.startswith("activator, version ")


def test_the_exit_status_reaches_the_shell():
    assert activator("run", "--http-port", "nonsense").returncode == 2
