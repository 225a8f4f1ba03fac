"""When the link dials again: in virtual time, with dials that all fail."""

import asyncio
from types import SimpleNamespace

import pytest

from activator.autoscaler.link import AutoscalerLink, LinkTimings


async def after(seconds):
    """Let virtual time pass."""
    passed = asyncio.Event()
    asyncio.get_running_loop().call_later(seconds, passed.set)
    await passed.wait()


class Dials:
    """Record when the link dials; fail each dial after ``takes`` seconds."""

    def __init__(self, stop_after, takes=0.0):
        self._stop_after = stop_after
        self._takes = takes
        self.times = []
        self.enough = asyncio.Event()

    async def __call__(self):
        self.times.append(asyncio.get_running_loop().time())
        if len(self.times) == self._stop_after:
            self.enough.set()
        await after(self._takes)
        raise OSError("no route to host")

    @property
    def waits(self):
        return [later - earlier for earlier, later in zip(self.times, self.times[1:], strict=False)]


async def no_socket(_host, _port):
    """Look up no name: virtual time would not wait for it."""


async def dial(monkeypatch, times, chance, frames_at=(), takes=0.0):
    """Return the dials of a link that gets frames at the loop's times ``frames_at``."""
    dials = Dials(times, takes)
    link = AutoscalerLink("ws://autoscaler:8080")
    monkeypatch.setattr("activator.autoscaler.link.connected", no_socket)
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


async def test_a_report_to_send_is_a_reason_to_dial_now(monkeypatch):
    """A cold start begins while the link waits for seconds: the autoscaler may be back."""
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


class Connection:
    """A connection that the link only aborts or closes."""

    transport = SimpleNamespace(abort=lambda: None)

    async def close(self, _code):
        pass


async def test_time_without_the_autoscaler_counts_from_the_last_connection_that_was_one(
    monkeypatch,
):
    """A peer that accepts connections and ends them at once counts as absent."""
    lives = iter([5.0, 0.01, 0.01, 0.01, 2.0, 0.01])
    link = AutoscalerLink("ws://autoscaler:8080")
    lost_for = []

    async def dial_once():
        lost_for.append(link.lost_for())
        return Connection()

    async def serve(_connection):
        link._up()
        await after(next(lives, 3600.0))
        assert link.lost_for() == 0.0
        link.connected = False

    monkeypatch.setattr(link, "dial", dial_once)
    monkeypatch.setattr(link, "_serve", serve)
    monkeypatch.setattr("activator.autoscaler.link.random.random", lambda: 0.0)
    run = asyncio.ensure_future(link.run())
    await after(600.0)
    run.cancel()
    await asyncio.wait([run])
    # Never connected; just lost; one, two, three that ended at once; lost again, twice.
    assert lost_for == pytest.approx([0.0, 0.0, 0.0, 0.11, 0.25, 0.0, 0.0])
