"""When the reporter sends the load to its listeners; in virtual time, to the exact second."""

import asyncio
import contextlib
import subprocess
import sys
from typing import cast

from activator.autoscaler.concurrency import Stat
from activator.autoscaler.reporter import StatReporter
from tests.conftest import VirtualLoop
from throttler.model import RevisionID

A = RevisionID("default", "a-00001")
B = RevisionID("default", "b-00001")


class Listener:
    """A sink that records reports with their times, in seconds since the test began."""

    def __init__(self):
        self._loop = asyncio.get_running_loop()
        self._start = self._loop.time()
        self.heard = []

    def __call__(self, stats):
        self.heard.append((round(self._loop.time() - self._start, 6), stats))


@contextlib.asynccontextmanager
async def reporting(*sinks):
    reporter = StatReporter(sinks, clock=asyncio.get_running_loop().time)
    async with asyncio.TaskGroup() as tasks:
        run = tasks.create_task(reporter.run())
        yield reporter
        run.cancel()


def now():
    return asyncio.get_running_loop().time()


async def test_a_poke_arrives_before_enter_returns():
    listener = Listener()
    async with reporting(listener) as reporter:
        reporter.loads.load(A).request_began(now())
        assert listener.heard == [(0.0, [Stat(A, 1.0, 1)])]


async def test_a_report_comes_every_second_while_something_is_busy():
    listener = Listener()
    async with reporting(listener) as reporter:
        reporter.loads.load(A).request_began(now())
        reporter.loads.load(A).request_began(now())
        await asyncio.sleep(3.5)
    assert listener.heard[1:] == [
        (1.0, [Stat(A, 1.0, 1)]),
        (2.0, [Stat(A, 2.0, 0)]),
        (3.0, [Stat(A, 2.0, 0)]),
    ]


async def test_silence_while_everything_is_idle():
    listener = Listener()
    async with reporting(listener) as reporter:
        reporter.loads.load(A)
        await asyncio.sleep(10.5)
        assert listener.heard == []
        reporter.loads.load(A).request_began(now())
        reporter.loads.load(A).request_ended(now())
        await asyncio.sleep(10)
    assert [time for time, _ in listener.heard] == [10.5, 11.0, 12.0]
    assert listener.heard[-1][1] == [Stat(A, 0.0, 0)]


async def test_one_batch_speaks_of_all_busy_revisions():
    listener = Listener()
    async with reporting(listener) as reporter:
        reporter.loads.load(A).request_began(now())
        reporter.loads.load(B).request_began(now())
        await asyncio.sleep(1)
        await asyncio.sleep(0)
    assert listener.heard[-1] == (1.0, [Stat(A, 0.0, 0), Stat(B, 0.0, 0)])


async def test_a_busy_loop_delays_a_report_but_does_not_pile_them_up():
    listener = Listener()
    async with reporting(listener) as reporter:
        reporter.loads.load(A).request_began(now())
        await asyncio.sleep(0.5)
        cast(
            VirtualLoop, asyncio.get_running_loop()
        ).virtual_now += 3.0  # as if something had blocked the loop
        await asyncio.sleep(1.0)
    assert [time for time, _ in listener.heard] == [0.0, 3.5, 4.0]


async def test_a_failing_listener_harms_neither_the_request_nor_the_others(caplog):
    listener = Listener()

    def broken(stats):
        raise RuntimeError("boom")

    async with reporting(broken, listener) as reporter:
        reporter.loads.load(A).request_began(now())
        await asyncio.sleep(3.5)
    assert len(listener.heard) == 4
    assert [line.message for line in _lines(caplog)] == [
        "a sink of load reports failed; it lost this batch"
    ]


async def test_a_listener_that_recovers_and_fails_again_is_news_again(caplog):
    faults = [RuntimeError("one"), None, RuntimeError("two")]

    def moody(stats):
        fault = faults.pop(0)
        if fault:
            raise fault

    async with reporting(moody) as reporter:
        reporter.loads.load(A).request_began(now())
        await asyncio.sleep(2.5)
    assert len(_lines(caplog)) == 2


async def test_a_deleted_revision_is_removed():
    async with reporting() as reporter:
        load = reporter.loads.load(A)
        reporter.loads.remove(A)
        assert reporter.loads.load(A) is not load


def test_counting_needs_neither_websockets_nor_protobuf():
    check = (
        "import sys, activator.autoscaler.reporter;"
        "sys.exit(any(name.split('.')[0] in {'websockets', 'google', 'tenacity'}"
        " for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0


def _lines(caplog):
    """Return the records of the module under test."""
    return [each for each in caplog.records if each.name == "activator.autoscaler.reporter"]


async def test_a_revision_whose_requests_another_activator_gets_has_only_the_load_of_its_pods():
    """The other one reports the rest."""
    listener = Listener()
    kept, times = {A: 0}, [0.0]
    reporter = StatReporter((listener,), clock=lambda: times[-1], kept=kept.get)
    reporter.loads.load(A).request_began(0.0)
    reporter.loads.load(B).request_began(0.0)
    assert [stats for _, stats in listener.heard] == [[Stat(A, 0.0, 0)], [Stat(B, 1.0, 1)]]
    kept[B] = 1
    for second in (1.0, 2.0):
        times.append(second)
        reporter.report()
    assert Stat(B, 1.0, 0) in listener.heard[-1][1]
