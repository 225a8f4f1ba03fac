"""When the link dials again: in virtual time, with dials that all fail."""

import asyncio

import pytest

from activator.autoscaler.link import AutoscalerLink, LinkTimings


@pytest.fixture
def anyio_backend(virtual_time):
    return virtual_time


class Dials:
    """Notes when a dial is made, and lets it fail after ``takes`` seconds."""

    def __init__(self, stop_after, takes=0.0):
        self._stop_after = stop_after
        self._takes = takes
        self.times = []
        self.enough = asyncio.Event()

    async def __call__(self):
        self.times.append(asyncio.get_running_loop().time())
        if len(self.times) == self._stop_after:
            self.enough.set()
        await asyncio.sleep(self._takes)
        raise OSError("no route to host")

    @property
    def waits(self):
        return [later - earlier for earlier, later in zip(self.times, self.times[1:], strict=False)]


async def dial(monkeypatch, times, chance, frames_at=(), takes=0.0):
    """The dials of a link that is given frames at the loop's times ``frames_at``."""
    dials = Dials(times, takes)
    link = AutoscalerLink("ws://autoscaler:8080")
    monkeypatch.setattr("activator.autoscaler.link._Connect", lambda *_args, **_options: dials())
    monkeypatch.setattr("activator.autoscaler.link.random.random", lambda: chance)
    loop = asyncio.get_running_loop()
    start = loop.time()
    for at in frames_at:
        loop.call_at(start + at, link.send, b"frame")
    run = asyncio.ensure_future(link.run())
    await dials.enough.wait()
    run.cancel()
    await asyncio.wait([run])
    assert run.cancelled()
    dials.times = [time - start for time in dials.times]
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


async def test_what_has_to_be_told_is_a_reason_to_dial_now(monkeypatch):
    """A request wakes a service while the link waits for seconds: the autoscaler may be back."""
    waits = [0.1 * 1.3**step for step in range(20)]
    tenth = sum(waits[:9])
    assert waits[9] > 1.0
    dials = await dial(monkeypatch, times=11, chance=0.0, frames_at=[tenth + 0.5])
    assert dials.times[9:] == pytest.approx([tenth, tenth + 0.5])


async def test_a_thousand_frames_are_not_a_thousand_dials(monkeypatch):
    frames_at = [number / 1000 for number in range(1000)]
    dials = await dial(monkeypatch, times=11, chance=0.0, frames_at=frames_at)
    assert dials.times == pytest.approx([number / 10 for number in range(11)], abs=0.002)


async def test_what_arose_during_a_dial_that_fails_asks_for_the_next(monkeypatch):
    tenth = 9 * 3.0 + sum(0.1 * 1.3**step for step in range(9))
    dials = await dial(monkeypatch, times=11, chance=0.0, takes=3.0, frames_at=[tenth + 1.0])
    assert dials.times[9:] == pytest.approx([tenth, tenth + 3.0 + 0.1])
