"""A forked process does the same as one that a user starts."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
from asyncio.subprocess import DEVNULL, PIPE
from pathlib import Path
from typing import Any

import pytest

from tests import fork_server
from tests.conftest import on_uvloop
from tests.process import ANY_PORTS, PATIENCE, ROOT

pytestmark = [pytest.mark.e2e, on_uvloop]

LOCAL = ("activator", "local", *ANY_PORTS, "--manifests")
BOTH = (fork_server.start, fork_server.REAL_START)


async def ended(start: Any, *command: str, **options: Any) -> tuple[int, bytes, bytes]:
    """Return the exit status of a program, and both outputs."""
    process = await start(
        *(sys.executable, "-m", *command), stdin=PIPE, stdout=PIPE, stderr=PIPE, **options
    )
    process.stdin.close()
    async with asyncio.timeout(PATIENCE):
        printed = await process.communicate()
        return await process.wait(), *printed


@pytest.mark.parametrize(
    ("command", "variables", "status"),
    [
        (("activator", "--version"), {}, 0),
        (("activator", "local", "--help"), {"COLUMNS": "60"}, 0),
        (("activator", "run"), {"ACTIVATOR_HTTP_PORT": "nonsense"}, 2),
        (("activator.lab.pod", "--port", "-1", "--address", "127.0.0.1"), {}, 1),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else None,
)
async def test_arguments_environment_directory_and_standard_files_are_those_of_the_start(
    command: tuple[str, ...], variables: dict[str, str], status: int, tmp_path: Path
) -> None:
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), **variables}
    forked, real = [await ended(start, *command, cwd=tmp_path, env=environment) for start in BOTH]
    assert forked == real
    assert forked[0] == status


def facts_of(pid: int) -> list[object]:
    """Return the session, the limits and the handling of signals of a process."""
    of_process = Path(f"/proc/{pid}")
    if not of_process.exists():  # only Linux forks
        return [os.getsid(pid) == pid]
    status = of_process.joinpath("status").read_text()
    signals = re.findall(r"^Sig(?:Blk|Ign|Cgt).*", status, re.MULTILINE)
    return [os.getsid(pid) == pid, of_process.joinpath("limits").read_text(), signals]


def kinds_of_files(pid: int) -> set[str]:
    """Return the kinds of files that a process has open."""
    links = Path(f"/proc/{pid}/fd").glob("*")
    return {re.sub(r"\d+", "", os.readlink(link)) for link in links}


@pytest.mark.parametrize("own", [True, False])
async def test_signals_open_files_and_session_are_those_of_the_start(
    own: bool, tmp_path: Path
) -> None:
    facts, kinds = [], []
    for start in BOTH:
        process = await start(
            *(sys.executable, "-m", *LOCAL, str(tmp_path)), stderr=PIPE, start_new_session=own
        )
        assert process.stderr is not None
        try:
            async with asyncio.timeout(PATIENCE):
                while b"listening: " not in await process.stderr.readline():
                    pass
            facts.append(facts_of(process.pid))
            kinds.append(kinds_of_files(process.pid))
            assert process.returncode is None
        finally:
            process.send_signal(signal.SIGKILL)
            assert await process.wait() == process.returncode == -signal.SIGKILL
        with pytest.raises(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
    assert facts[0] == facts[1]
    assert facts[0][0] is own
    forked, real = kinds
    assert forked <= real


def open_files() -> int:
    """Return how many files this process has open."""
    return len(os.listdir("/dev/fd"))


async def test_a_start_cancelled_at_any_step_leaves_no_file_open():
    await ended(fork_server.start, "activator", "--version")  # the fork server runs from now on
    pod = ("activator.lab.end_with_stdin", "activator.lab.pod", "--start-after", "60")
    files = open_files()
    steps, is_cancelled = 0, True
    while is_cancelled:
        steps += 1
        start = asyncio.ensure_future(
            fork_server.start(
                *(sys.executable, "-m", *pod), stdin=PIPE, stdout=PIPE, stderr=DEVNULL
            )
        )
        for _ in range(steps):
            await asyncio.sleep(0)
        is_cancelled = start.cancel()
        async with asyncio.timeout(PATIENCE):
            if is_cancelled:
                with pytest.raises(asyncio.CancelledError):
                    await start
            else:
                process = await start
                process.kill()
                assert await process.wait() == -signal.SIGKILL
        assert open_files() == files, steps
    assert steps > 1, "a start was cancelled"


def test_a_process_with_blocking_pipes_ends_as_a_real_one(tmp_path: Path) -> None:
    command = [sys.executable, "-m", *LOCAL, str(tmp_path)]
    ends: list[object] = []
    for start in (fork_server.popen, fork_server.REAL_POPEN):
        process = start(
            command, stdin=PIPE, stdout=DEVNULL, stderr=PIPE, text=True, start_new_session=True
        )
        assert process.stdin is not None
        assert process.stderr is not None
        with process.stdin, process.stderr:
            listening = next(line for line in process.stderr if "listening: " in line)
            assert process.poll() is None
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(0)
            process.terminate()
            rest = process.stderr.read()
        ends.append((process.wait(), process.poll(), process.returncode))
        assert '"http"' in listening
        assert "ended; " in rest
        process.kill()  # it has ended: nothing happens
    assert ends == [(0, 0, 0)] * 2
