"""The gauge has the last value that the autoscaler got; idle revisions have none."""

from __future__ import annotations

from typing import NamedTuple

from activator.telemetry.concurrency import ReportedConcurrency
from tests.activator.telemetry.world import World
from throttler.model import RevisionID


class Stat(NamedTuple):
    revision_id: RevisionID
    concurrency: float
    request_count: int = 1


def test_the_last_value_counts_and_idle_is_0():
    world = World()
    busy, idle = (world.entry(world.revision(name)) for name in ("busy", "idle"))
    reported = ReportedConcurrency()
    assert reported.of(busy) == 0
    reported([Stat(busy.throttler.revision.id, 1.0), Stat(idle.throttler.revision.id, 3.0)])
    reported([Stat(busy.throttler.revision.id, 0.5), Stat(idle.throttler.revision.id, 0.0)])
    assert (reported.of(busy), reported.of(idle)) == (0.5, 0)


def test_revisions_that_have_become_idle_cost_nothing():
    reported = ReportedConcurrency()
    for number in range(1000):
        reported([Stat(RevisionID("ns", str(number)), 1.0)])
        reported([Stat(RevisionID("ns", str(number)), 0.0)])
    assert not reported._last
