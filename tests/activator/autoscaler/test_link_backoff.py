"""When the link dials again: in virtual time, with dials that all fail."""

import asyncio

import pytest

from activator.autoscaler.link import AutoscalerLink, LinkTimings


@pytest.fixture
def anyio_backend(virtual_time):
    return virtual_time


class Dials:
    """Notes when a dial is made, and lets it fail."""

    def __init__(self, stop_after):
        self._stop_after = stop_after
        self.times = []
        self.enough = asyncio.Event()

    async def __call__(self):
        self.times.append(asyncio.get_running_loop().time())
        if len(self.times) == self._stop_after:
            self.enough.set()
        raise OSError("no route to host")

    @property
    def waits(self):
        return [later - earlier for earlier, later in zip(self.times, self.times[1:], strict=False)]


async def dial(monkeypatch, times, chance):
    dials = Dials(times)
    link = AutoscalerLink("ws://autoscaler:8080")
    monkeypatch.setattr(link, "_dial_once", dials)
    monkeypatch.setattr("activator.autoscaler.link.random.random", lambda: chance)
    run = asyncio.ensure_future(link.run())
    await dials.enough.wait()
    run.cancel()
    await asyncio.wait([run])
    assert run.cancelled()
    return dials


async def test_the_waits_grow_by_three_tenths_and_start_again_after_twenty(monkeypatch):
    dials = await dial(monkeypatch, times=42, chance=0.0)
    round_of_waits = [0.1 * 1.3**step for step in range(20)]
    assert dials.waits == pytest.approx([*round_of_waits, *round_of_waits, 0.1])


async def test_a_wait_is_lengthened_by_half_at_most(monkeypatch):
    dials = await dial(monkeypatch, times=3, chance=1.0)
    assert dials.waits == pytest.approx([0.15, 0.195])


async def test_the_jitter_spreads_activators_that_fail_together():
    timings = LinkTimings()
    assert timings.delay(5, 0.0) < timings.delay(5, 0.3) < timings.delay(5, 0.9)
