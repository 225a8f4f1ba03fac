"""How far apart the code of one event stands: a maintainer reads every file on the way."""

from __future__ import annotations

import asyncio
from contextlib import closing

import pytest

from activator.build import Build, running
from benchmarks.trace_calls import WAYS, count

#: The most files and switches of each way. They may only fall. The order in which a request from
#: zero meets its pod varies, so the counts of that way do too.
MOST = {"get": (15, 34), "grpc": (16, 59), "held": (45, 171), "scale": (25, 118)}


@pytest.mark.skipif(running() is Build.COMPILED, reason="the compiled build has no calls to trace")
@pytest.mark.parametrize("way", WAYS)
def test_a_way_passes_few_files(way: str) -> None:
    _, trace = WAYS[way]
    with closing(asyncio.new_event_loop()) as loop:  # other tests keep their current loop
        counts = count(loop.run_until_complete(trace()))
    files, switches = MOST[way]
    assert counts.files <= files
    assert counts.switches <= switches, "python -m benchmarks.trace_calls prints each call"
