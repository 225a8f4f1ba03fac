"""The real API server still responds as tests/recorded says."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE, STDOUT


async def test_the_real_server_responds_as_recorded() -> None:
    # A process of its own, which enters a network of its own.
    command = (sys.executable, "-m", "tests.recorded")
    process = await asyncio.create_subprocess_exec(*command, stdout=PIPE, stderr=STDOUT)
    output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()
