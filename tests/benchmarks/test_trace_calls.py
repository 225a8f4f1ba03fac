"""How far apart the code of one event stands: a maintainer reads every file on the way."""

from __future__ import annotations

import asyncio
import sys
from contextlib import closing

import pytest

from activator.build import Build, running
from benchmarks.trace_calls import WAYS, count

#: The most files and switches of each way. More need a reason in the commit.
MOST = {"get": (15, 34), "grpc": (16, 59), "held": (43, 170), "scale": (24, 47)}
#: A busy machine lets timers fire between the steps of a way, so the best of so many tries counts.
TRIES = 5


@pytest.mark.skipif(running() is Build.COMPILED, reason="the compiled build has no calls to trace")
@pytest.mark.parametrize("way", WAYS)
def test_a_way_passes_few_files(way: str) -> None:
    _, trace = WAYS[way]
    most_files, most_switches = MOST[way]
    files = switches = sys.maxsize
    with closing(asyncio.new_event_loop()) as loop:  # other tests keep their current loop
        for _ in range(TRIES):
            found = count(loop.run_until_complete(trace()))
            files, switches = min(files, found.files), min(switches, found.switches)
            if files <= most_files and switches <= most_switches:
                return
    pytest.fail(f"{files} files, {switches} switches: python -m benchmarks.trace_calls prints them")
