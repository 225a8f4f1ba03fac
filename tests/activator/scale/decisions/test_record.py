from __future__ import annotations

from activator.plain import service as services
from activator.scale.decisions.plan import Phase
from activator.scale.decisions.record import Counters, Facts, Record
from tests.activator.plain.objects import service


def test_a_new_record_has_decided_nothing_and_is_due() -> None:
    found = services.parse(service())
    assert found is not None
    record = Record(Facts(found, None, None, 0), now=5.0)
    assert (record.decided, record.change) == (None, None)
    assert record.planner.phase is Phase.ASLEEP
    assert record.quiet_until < 5.0
    assert record.renew_at > 5.0


def test_counters_begin_empty() -> None:
    counters = Counters()
    assert counters.changes == counters.failures == {}
    assert sum(counters.ticks.counts) == sum(counters.cold_starts.counts) == 0
