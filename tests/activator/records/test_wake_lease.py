"""The lease of a revision: one request of load for all clients that are expected back."""

from __future__ import annotations

from math import inf

from activator.autoscaler.concurrency import ConcurrencyReporter
from activator.records.wake_lease import WakeLease
from throttler.model import RevisionID


class Requests:
    """The load of a revision."""

    def __init__(self) -> None:
        self.now = 0
        self.ever = 0

    def request_began(self, now: float) -> None:
        self.now += 1
        self.ever += 1

    def request_ended(self, now: float) -> None:
        self.now -= 1


def test_a_lease_is_one_request_however_often_it_is_prolonged() -> None:
    load = Requests()
    lease = WakeLease(load)
    assert [lease.keep(10.0 + n, float(n)) for n in range(5)] == [True, False, False, False, False]
    assert (load.now, load.ever, lease.seconds_left(4.0)) == (1, 1, 10.0)
    assert lease.keep(30.0, 5.0)
    assert lease.on_time(14.0) == 30.0
    assert (lease.on_time(30.0), load.now, lease.seconds_left(30.0)) == (inf, 0, 0.0)
    assert lease.on_time(31.0) == inf
    assert load.now == 0


def test_the_autoscaler_sees_one_concurrent_request_until_the_lease_ends() -> None:
    pokes: list[RevisionID] = []
    reporter = ConcurrencyReporter(pokes.append)
    lease = WakeLease(reporter.load(RevisionID("default", "shop")))
    lease.keep(10.0, 0.0)
    assert pokes == [RevisionID("default", "shop")]
    reporter.report(1.0)
    assert [stat.concurrency for stat in reporter.report(2.0)] == [1.0]
    lease.on_time(10.0)
    reporter.report(10.0)
    assert [stat.concurrency for stat in reporter.report(11.0)] == [0.0]
    assert reporter.is_dormant()


def test_a_shorter_wait_does_not_shorten_a_lease() -> None:
    load = Requests()
    lease = WakeLease(load)
    lease.keep(100.0, 0.0)
    assert not lease.keep(10.0, 0.0)
    assert lease.until == 100.0


def test_a_lease_begins_again_after_its_end() -> None:
    load = Requests()
    lease = WakeLease(load)
    lease.keep(1.0, 0.0)
    lease.on_time(1.0)
    assert lease.keep(3.0, 2.0)
    assert (load.now, load.ever) == (1, 2)
