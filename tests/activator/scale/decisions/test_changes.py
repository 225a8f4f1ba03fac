"""Changes of replicas: records, counts and log lines."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from activator.kpa.decision import Why
from activator.scale.decisions.changes import Changes
from activator.scale.decisions.conclusions import conclude
from activator.scale.decisions.effects import Change
from activator.scale.decisions.plan import Hold, Phase, Plan
from activator.scale.decisions.record import Counters
from activator.scale.reports.load import Name
from activator.scale.workloads.actuator import Result
from activator.scale.workloads.subresource import Problem
from tests.activator.scale.decisions.records import HELLO, record

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
NAME = Name("shop", "hello")


def changes() -> tuple[Changes, Counters]:
    counters = Counters()
    return Changes(counters, lambda: 12.0, lambda: NOON), counters


def test_a_cold_start_is_recorded_counted_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    found, counters = changes()
    known = record(replicas=0)
    conclude(known, Plan(1, Why.COLD_START, Hold.NONE, False, True, Phase.ASLEEP, 20.0))
    known.cold_since = 11.5
    found.note(NAME, known, HELLO, 0, 1)
    assert known.change == Change(NOON, 0, 1, "cold-start")
    assert known.cold_since is None
    assert (counters.changes, counters.cold_starts.total) == ({"cold-start": 1}, 0.5)
    (line,) = caplog.records
    assert line.getMessage().startswith("Service shop/hello: Deployment hello: 0 -> 1 replicas: ")


def test_a_change_whose_decision_is_gone_has_no_rule() -> None:
    found, counters = changes()
    found.note(NAME, record(), HELLO, 2, 1)
    assert counters.changes == {"unknown": 1}


def test_failures_are_counted_by_their_reason() -> None:
    found, counters = changes()
    for problem in (None, Problem.CONFLICT, Problem.CONFLICT):
        found.count_failure(Result(1, problem))
    assert counters.failures == {"conflict": 2}
