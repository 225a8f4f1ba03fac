"""Reasons of decisions, which of them are new, and their log lines."""

from __future__ import annotations

from typing import Any

import pytest

from activator.kpa.decision import Why
from activator.scale.decisions.conclusions import conclude, log_reason
from activator.scale.decisions.plan import Hold, Phase, Plan
from activator.scale.reports.load import Name
from activator.scale.workloads.actuator import Result
from activator.scale.workloads.subresource import Problem
from tests.activator.scale.decisions.records import record

PLAN = Plan(None, Why.IDLE, Hold.NONE, False, False, Phase.AWAKE, 10.0)
FAILED = Result(None, Problem.FORBIDDEN, "its role lacks a rule")
NAME = Name("shop", "hello")


@pytest.mark.parametrize(
    ("facts", "failed", "plan", "reason"),
    [
        ({}, None, PLAN, ("", "")),
        ({}, None, None, ("replicas-unknown", "")),
        ({"reason": "no-workload", "detail": "none"}, None, None, ("no-workload", "none")),
        ({}, None, PLAN._replace(hold=Hold.STALE), ("stale-state", "")),
        ({}, FAILED, PLAN._replace(replicas=2), ("scale-forbidden", FAILED.detail)),
        ({}, FAILED, PLAN, ("", "")),  # nothing is wanted any more, and pods run
        ({"replicas": 0, "ready": 0}, FAILED, PLAN, ("scale-forbidden", FAILED.detail)),
    ],
)
def test_a_decision_has_one_reason(facts: Any, failed: Any, plan: Any, reason: Any) -> None:
    known = record(**facts)
    known.failed = failed
    decided = conclude(known, plan)
    assert decided is not None
    assert (decided.reason, decided.detail) == reason
    assert known.decided is decided


def test_two_owners_name_the_other_one() -> None:
    known = record()
    known.other_owner = "HPA shop/hello"
    decided = conclude(known, PLAN._replace(hold=Hold.TWO_OWNERS))
    assert decided is not None
    assert decided.reason == "two-owners"
    assert decided.detail.startswith("HPA shop/hello scales the same workload")


def test_a_decision_that_differs_in_its_time_alone_is_no_new_one() -> None:
    known = record()
    assert conclude(known, PLAN)
    assert conclude(known, PLAN._replace(next=20.0)) is None
    known.facts = known.facts._replace(lease=60.0)  # no effect reads it
    assert conclude(known, PLAN) is None
    known.facts = known.facts._replace(ready=2)
    assert conclude(known, PLAN)


def test_a_reason_is_logged_once_and_so_is_its_end(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    known = record()
    for hold in (Hold.CLOSING, Hold.STALE, Hold.STALE, Hold.NONE, Hold.CLOSING):
        before = known.decided
        if decided := conclude(known, PLAN._replace(hold=hold)):
            log_reason(NAME, before, decided)
    assert [(each.levelname, each.getMessage()) for each in caplog.records] == [
        (
            "WARNING",
            "Service shop/hello: stale-state: the watch of the API server fails, so no replica is "
            "removed",
        ),
        ("INFO", "Service shop/hello: scaled again"),
    ]
