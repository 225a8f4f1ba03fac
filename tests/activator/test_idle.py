"""An activator without traffic sleeps nearly all the time."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from activator.runtime import Runtime
from activator.servers import Servers
from activator.settings.config import load
from tests.conftest import VirtualLoop

#: Virtual seconds.
MINUTE = 60.0


async def passes(seconds: float) -> None:
    passed = asyncio.Event()
    asyncio.get_running_loop().call_later(seconds, passed.set)
    await passed.wait()


async def test_an_idle_activator_sets_at_most_three_timers_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ports = dict.fromkeys(("http_port", "h2c_port", "admin_port", "metrics_port"), "0")
    flags = {"manifests": str(tmp_path), "bind": "127.0.0.1", "profiling_port": "0", **ports}
    servers = Servers(Runtime(load("local", flags, {})))
    await servers.start()
    watching = asyncio.ensure_future(servers.failed())
    await passes(MINUTE)

    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    timers, call_at = 0, loop.call_at

    def counted(*args: Any, **context: Any) -> asyncio.TimerHandle:
        nonlocal timers
        timers += 1
        return call_at(*args, **context)

    monkeypatch.setattr(loop, "call_at", counted)
    await passes(MINUTE)
    assert timers <= 3 * MINUTE

    watching.cancel()
    await servers.stop_data(1.0)
    await servers.stop()
