"""The measured lag is the delay of the loop."""

from __future__ import annotations

import asyncio

import pytest

from activator.telemetry.otel import EVERY, LoopLag
from tests.conftest import VirtualLoop


async def passes(seconds: float) -> None:
    passed = asyncio.Event()
    asyncio.get_running_loop().call_later(seconds, passed.set)
    await passed.wait()


async def test_a_loop_that_is_held_is_late_by_as_much():
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    lag = LoopLag()
    lag.start()
    await passes(10 * EVERY + 0.001)
    assert lag.seconds.counts[0] == 10
    loop.virtual_now += EVERY + 0.2  # has the effect of a computation of that length
    await passes(0.0)
    assert sum(lag.seconds.counts) == 11
    assert lag.seconds.total == pytest.approx(0.201, abs=1e-6)
    await passes(EVERY)  # and the next tick is punctual again
    assert lag.seconds.counts[0] == 11
    lag.close()


async def test_it_ends():
    lag = LoopLag()
    lag.close()
    lag.start()
    lag.close()
    await passes(3 * EVERY)
    assert sum(lag.seconds.counts) == 0
