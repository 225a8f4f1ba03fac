"""Deadlines that move later share one loop timer."""

from __future__ import annotations

import asyncio
from math import inf
from random import Random

import pytest

from activator.process.timers import Timers


class Timed:
    """An object with a deadline; ``answers`` are the results of its looks, then infinity."""

    def __init__(self, *answers: float) -> None:
        self.armed = inf
        self.looks: list[float] = []
        self._answers = list(answers)

    def on_time(self, now: float) -> float:
        self.looks.append(now)
        return self._answers.pop(0) if self._answers else inf


def now() -> float:
    return asyncio.get_running_loop().time()


async def passes(seconds: float) -> None:
    passed = asyncio.Event()
    asyncio.get_running_loop().call_later(seconds, passed.set)
    await passed.wait()


@pytest.fixture
def timers():
    return Timers(now)


async def test_something_is_looked_at_when_it_is_due(timers):
    timed = Timed()
    timers.arm(timed, 3.0)

    await passes(10)

    assert timed.looks == [3.0]
    assert timed.armed == inf
    assert len(timers) == 0


async def test_a_deadline_that_moved_is_looked_at_again_when_it_is_due(timers):
    timed = Timed(5.0, 9.0)
    timers.arm(timed, 3.0)

    await passes(20)

    assert timed.looks == [3.0, 5.0, 9.0]


async def test_a_deadline_that_moved_earlier_is_looked_at_once(timers):
    timed = Timed()
    timers.arm(timed, 8.0)
    timers.arm(timed, 3.0)

    await passes(20)

    assert timed.looks == [3.0]


async def test_deadlines_that_moved_earlier_again_and_again_leave_little_behind(timers):
    timed = Timed()
    for number in range(1000):
        timers.arm(timed, 5000.0 - number)
    assert len(timers) < 100

    await passes(6000)

    assert timed.looks == [4001.0]
    assert len(timers) == 0


@pytest.mark.parametrize(
    "times",
    [(5.9, 5.2), (5.9, 5.5, 5.2), (7.5, 5.2), (5.2, 5.0), (9.0, 5.0, 4.9), (60.7, 60.3, 5.2)],
)
async def test_a_deadline_that_moved_earlier_in_the_same_second_is_looked_at_once(timers, times):
    timed = Timed()
    timers.arm(Timed(), 5.1)
    for when in times:
        timers.arm(timed, when)

    await passes(100)

    assert timed.looks == [times[-1]]
    assert len(timers) == 0


async def test_a_timer_that_is_removed_and_armed_for_the_same_second_fires_once(timers):
    timed = Timed()
    for when in (5.2, 5.9, 5.5, 5.5):
        timers.arm(timed, when)
        timers.disarm(timed)
    timers.arm(timed, 5.7)

    await passes(10)

    assert timed.looks == [5.7]
    assert len(timers) == 0


async def test_one_that_moves_earlier_in_the_same_second_again_and_again_does_not_pile_up(timers):
    timed = Timed()
    for number in range(10_000):
        timers.arm(timed, 60.9 - number * 1e-6)
        assert len(timers) <= 66
    timers.arm(timed, 60.5)

    await passes(70)

    assert timed.looks == [60.5]
    assert len(timers) == 0


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.untraced  # long when traced
async def test_each_is_looked_at_when_it_is_due_and_never_else(timers, seed):
    """Compare with a plain record of the armed timers."""
    random = Random(seed)
    due: dict[Timed, float] = {}
    looks: list[tuple[float, float]] = []

    class Checked(Timed):
        def on_time(self, now: float) -> float:
            looks.append((due.pop(self), now))
            if random.random() < 0.5:
                return inf
            due[self] = now + random.choice((0.25, 1.0, 3.5, 40.0)) * random.randrange(1, 9)
            return due[self]

    everything = [Checked() for _ in range(100)]
    for _ in range(2_000):
        timed = random.choice(everything)
        when = now() + random.randrange(1, 800) / 8
        if random.random() < 0.3:
            timers.disarm(timed)
            due.pop(timed, None)
        elif timed.armed > when:
            timers.arm(timed, when)
            due[timed] = when
        if random.random() < 0.1:
            await passes(random.randrange(1, 20) / 8)
        assert {timed: timed.armed for timed in everything if timed.armed < inf} == due
        assert len(due) <= len(timers) <= 2 * len(due) + 65

    assert len(looks) > 100
    assert all(when == looked for when, looked in looks)
    assert [when for when, _ in looks] == sorted(when for when, _ in looks)


async def test_all_that_are_due_are_looked_at_in_order(timers):
    order: list[str] = []

    class Named(Timed):
        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

        def on_time(self, now: float) -> float:
            order.append(self.name)
            return super().on_time(now)

    for name, when in (("b", 2.0), ("c", 3.0), ("a", 1.0), ("d", 3.0)):
        timers.arm(Named(name), when)

    await passes(5)

    assert order == ["a", "b", "c", "d"]


async def test_what_is_armed_while_it_is_looked_at_stays_armed(timers):
    class Rearming(Timed):
        def on_time(self, now: float) -> float:
            if not self.looks:
                timers.arm(self, now + 1)
            super().on_time(now)
            return now + 7 if len(self.looks) == 1 else inf

    timed = Rearming()
    timers.arm(timed, 1.0)

    await passes(20)

    assert timed.looks == [1.0, 2.0]


async def test_a_deadline_in_the_past_is_looked_at_at_once(timers):
    timed = Timed()
    timers.arm(timed, now() - 5)

    await passes(0.001)

    assert len(timed.looks) == 1


async def test_a_removed_timer_does_not_fire(timers):
    timed = Timed()
    timers.arm(timed, 3.0)
    timers.disarm(timed)
    timers.disarm(timed)

    await passes(10)

    assert timed.looks == []


async def test_removed_timers_do_not_pile_up(timers):
    staying = [Timed() for _ in range(50)]
    for timed in staying:
        timers.arm(timed, 60.0)
    for _ in range(10_000):
        timed = Timed()
        timers.arm(timed, 60.0)
        timers.disarm(timed)
        assert len(timers) <= 2 * len(staying) + 64

    await passes(61)

    assert all(timed.looks == [60.0] for timed in staying)


async def test_one_loop_timer_serves_requests_whose_deadlines_follow_each_other(timers):
    """The deadline of a connection that is in use moves later: no work per request."""
    timed = Timed()
    timers.arm(timed, 300.0)
    for deadline in range(301, 1301):
        if timed.armed > deadline:
            timers.arm(timed, float(deadline))

    assert len(timers) == 1


async def test_after_closing_nothing_is_looked_at(timers):
    timed = Timed()
    timers.arm(timed, 3.0)
    timers.close()

    await passes(10)

    assert timed.looks == []


async def test_a_loop_timer_that_is_early_does_not_wake_the_process_again_and_again(
    timers, monkeypatch
):
    """uvloop counts milliseconds: a timer may be early by more than one."""
    loop = asyncio.get_running_loop()
    call_later = loop.call_later
    wakes = 0

    def early(delay, *args):
        nonlocal wakes
        wakes += 1
        assert wakes < 10, "it spins until the time has come"
        return call_later(max(0.0, int(delay * 1000 - 1) / 1000), *args)

    monkeypatch.setattr(loop, "call_later", early)
    timed = Timed(3.0105, 4.0)
    timers.arm(timed, 3.0005)
    done = asyncio.Event()
    loop.call_at(10.0, done.set)
    await done.wait()

    assert timed.looks == [3.0005, 3.0105, 4.0]
    assert wakes == 3
