"""What a plan gets: the load of one Service, or of all that share a workload."""

from __future__ import annotations

from typing import Any

import pytest

from activator.scale.decisions.observing import Observer
from activator.scale.decisions.plan import Hold, Seen
from activator.scale.decisions.record import Record
from activator.scale.decisions.sharing import Sharing
from activator.scale.reports.load import Loads, Name, Report
from tests.activator.scale.decisions.engines import NoGuard
from tests.activator.scale.decisions.records import HELLO, record

ONE, TWO = Name("shop", "one"), Name("shop", "two")


class Slices(NoGuard):
    """A guard with a takeover slice for each Service."""

    def slice_since(self, name: Name, now: float) -> float | None:
        return 5.0


def seen(records: dict[Name, Record], name: Name, **loads: float) -> Seen:
    known, sharing = Loads(), Sharing()
    known.connected(1)
    reports = [Report(Name("shop", service), load, 1.0) for service, load in loads.items()]
    known.record(1, "activator-1", reports, 10.0)
    for each in records:
        sharing.move(each, None, HELLO)
    observer = Observer(records, known, sharing, Slices())
    return observer.seen(name, records[name].facts, 11.0, Hold.STALE)


def test_a_service_without_a_report_has_no_load() -> None:
    found = seen({ONE: record(replicas=3, ready=2, lease=7.0)}, ONE)
    assert (found.current, found.stable, found.panic, found.last_busy) == (0, 0, 0, float("-inf"))
    assert (found.replicas, found.ready, found.lease, found.frozen) == (3, 2, 7.0, Hold.STALE)
    assert (found.other_owner, found.decides, found.slice_since) == ("", True, None)


def test_services_with_one_workload_add_their_loads_and_the_oldest_decides() -> None:
    records = {TWO: record(), ONE: record()}
    first = seen(records, ONE, one=2.0, two=3.0)
    assert (first.current, first.last_busy, first.decides) == (5.0, 10.0, True)
    second = seen(records, TWO, one=2.0, two=3.0)
    assert (second.current, second.stable) == (5.0, first.stable)
    assert (second.decides, second.other_owner) == (False, "Service shop/one")


@pytest.mark.parametrize(("asks", "since"), [({}, None), ({"route": "takeover"}, 5.0)])
def test_a_slice_counts_with_the_route_takeover_alone(asks: Any, since: float | None) -> None:
    assert seen({ONE: record(asks=asks)}, ONE).slice_since == since
