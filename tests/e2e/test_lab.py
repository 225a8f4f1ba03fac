"""Each scenario of the lab, as ``activator lab`` plays it, and that no process stays behind."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from activator.lab import command
from activator.lab.programs import fetch
from activator.lab.scenario import Scenario, run_scenario
from activator.lab.scenarios import SCENARIOS, plain
from tests.process import PATIENCE, ROOT, addresses, until

pytestmark = pytest.mark.e2e


SHORT = [scenario for scenario in SCENARIOS if not scenario.is_long]


@pytest.mark.parametrize("scenario", SHORT, ids=lambda scenario: scenario.name)
async def test_scenario_passes(scenario: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain, "TIMES", 2)
    outcome = await run_scenario(scenario, addresses())
    assert outcome.passed, "\n".join(["", *(row.plain for row in command.timeline(outcome))])


COMMAND = """
import sys
from activator.lab.addresses import AddressPool
from activator.lab.command import run
sys.exit(run([sys.argv[1]], keep=True, addresses=AddressPool(sys.argv[2])))
"""


@asynccontextmanager
async def kept(scenario: str) -> AsyncIterator[Process]:
    """Run ``activator lab SCENARIO --keep``, with addresses that no other test uses."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", COMMAND, scenario, addresses().take().ip),
        stdout=PIPE,
        cwd=ROOT,
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def printed(process: Process, text: str) -> list[str]:
    """Wait for a line that holds a text, and return all lines up to it."""
    assert process.stdout is not None
    lines: list[str] = []
    async with asyncio.timeout(PATIENCE * 2):
        async for line in process.stdout:
            lines.append(line.decode())
            if text in lines[-1]:
                return lines
    raise AssertionError(f"ended without {text!r}: {''.join(lines)}")


def descendants(process: Process) -> set[int]:
    """Return the ids of all descendants of a process."""
    found, new = set[int](), {process.pid}
    while new:
        found |= new
        new = {
            int(child)
            for pid in new
            for task in Path(f"/proc/{pid}/task").glob("*/children")
            for child in task.read_text().split()
        } - found
    return found - {process.pid}


async def gone(pids: set[int]) -> None:
    async def look() -> bool:
        return not any(os.path.exists(f"/proc/{pid}") for pid in pids)  # noqa: ASYNC240 # /proc never blocks

    await until(look, f"no process is left of {pids}")


needs_proc = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="Linux alone says")


@needs_proc
async def test_interrupted_lab_leaves_no_process() -> None:
    async with kept("readiness") as lab:
        await printed(lab, "app-1: listens")
        started = descendants(lab)
        assert len(started) >= 2  # an activator and a pod
        lab.send_signal(signal.SIGINT)
        async with asyncio.timeout(PATIENCE):
            assert await lab.wait() == 130
        await gone(started)


@needs_proc
async def test_kept_lab_can_be_played_with_until_it_is_interrupted() -> None:
    async with kept("ingress-probe") as lab:
        lines = await printed(lab, "Events:")
        started = descendants(lab)
        row = next(line.split() for line in lines if line.startswith("  app-1"))
        host, _, port = row[2].removeprefix("http://").rstrip("/").rpartition(":")
        await fetch(host, int(port), "/toggleReady")
        await printed(lab, "app-1: its readiness probe fails")
        await printed(lab, "notReadyAddresses app-1")
        lab.send_signal(signal.SIGINT)
        async with asyncio.timeout(PATIENCE):
            assert await lab.wait() == 130
        await gone(started)


@needs_proc
async def test_killed_lab_leaves_no_process() -> None:
    async with kept("readiness") as lab:
        await printed(lab, "app-1: listens")
        started = descendants(lab)
        lab.kill()
        await gone(started)
