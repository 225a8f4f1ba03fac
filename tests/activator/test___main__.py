"""``python -m activator`` is the console script by another name."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.process import PATIENCE

#: A module that loads until its standard input ends, and catches all exceptions, as some do.
SLOW = """
import sys
print("loading", flush=True)
while True:
    try:
        sys.stdin.read()
        break
    except BaseException:
        pass
"""


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
@pytest.mark.parametrize(
    ("number", "status", "output"),
    [
        # The first process of a container would not even get it without a handler.
        pytest.param(signal.SIGTERM, 0, "", id="SIGTERM"),
        pytest.param(signal.SIGINT, 130, "\n", id="SIGINT"),
    ],
)
def test_a_signal_while_modules_are_loaded_ends_it_at_once(
    tmp_path: Path, start: list[str], number: signal.Signals, status: int, output: str
) -> None:
    (tmp_path / "click.py").write_text(SLOW)
    path = os.pathsep.join([str(tmp_path), *os.environ.get("PYTHONPATH", "").split(os.pathsep)])
    # A shell without job control starts the tests with SIGINT ignored, which a process inherits; a
    # handler becomes the default. `preexec_fn` would fork, and threads of gRPC end such a process.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen(
        [sys.executable, *start, "local", "--manifests", str(tmp_path)],
        env={**os.environ, "PYTHONPATH": path},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    signal.signal(signal.SIGINT, before)
    with process:
        assert process.stdout is not None
        try:
            assert process.stderr is not None
            assert process.stdout.readline() == "loading\n", process.stderr.read()
            process.send_signal(number)
            assert process.wait(timeout=PATIENCE) == status
            assert process.stderr.read() == output
        finally:
            process.kill()
