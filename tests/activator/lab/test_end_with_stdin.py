from __future__ import annotations

import subprocess
import sys

from tests.process import PATIENCE, ROOT


def tied(*words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "activator.lab.end_with_stdin", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
    )


def test_program_gets_its_words_and_its_exit_status():
    with tied("activator", "lab", "--list") as program:
        assert program.stdout is not None
        assert b"exec-readiness" in program.stdout.read()
        assert program.wait(PATIENCE) == 0
    with tied("activator", "lab", "99") as program:
        assert program.wait(PATIENCE) == 2


def test_program_ends_with_its_input():
    with tied("activator.lab.pod", "--port", "0") as program:
        assert program.stdout is not None
        assert b"listening" in program.stdout.readline()
        assert program.stdin is not None
        program.stdin.close()
        assert program.wait(PATIENCE) == 1
