"""What the scaler keeps of a Service, and how a decision is concluded, logged and counted."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from activator.kpa.decision import Why
from activator.objects.fields import ObjectKey
from activator.plain import service as services
from activator.scale.decisions.plan import Observed, Plan, Planner, WorkloadPhase
from activator.scale.decisions.record import (
    EngineCounters,
    Facts,
    Record,
    ReplicaChange,
    Workload,
    read_facts,
)
from activator.scale.reasons import ScaleReason
from activator.scale.reports.load import ServiceName
from activator.scale.workloads.replicas import KNOWN, Result, ScalableKind, ScaleTarget
from activator.scale.workloads.services import EnabledServices, Joined
from tests.activator.plain.objects import deployment, service
from tests.activator.scale.decisions.records import facts, record


def test_a_new_record_has_decided_nothing_and_is_due() -> None:
    known = Record(NAME, facts(), Planner(5.0))
    assert (known.decided, known.workload.change) == (None, None)
    assert known.quiet_until < 5.0
    assert known.renew_at > 5.0


def test_counters_begin_empty() -> None:
    counters = EngineCounters()
    assert counters.changes == counters.failures == {}
    assert sum(counters.ticks.counts) == sum(counters.cold_starts.counts) == 0


def test_new_facts_keep_the_replicas_that_no_watch_follows() -> None:
    known = record(replicas=3, is_watched=False)
    known.not_before = 9.0
    known.renew(facts(replicas=None, is_watched=False), 5.0)
    assert (known.facts.replicas, known.not_before) == (3, 9.0)


def test_another_workload_begins_without_the_failures_of_the_last_one() -> None:
    known = record(replicas=3, is_watched=False)
    known.note(Result(None, ScaleReason.SCALE_FORBIDDEN), 9.0)
    known.look_at = 9.0
    other = ScaleTarget(KNOWN["deployment"], "shop", "other")
    known.renew(facts(target=other, replicas=None, is_watched=False), 5.0)
    assert (known.facts.replicas, known.failed, known.not_before) == (None, None, float("-inf"))
    assert known.look_at < 0


def test_a_change_shows_that_the_missing_right_is_there() -> None:
    known = record(reason="scale-forbidden", detail="its role lacks a rule")
    known.note(Result(1), 0.0)
    assert known.facts.reason == "scale-forbidden"
    known.note(Result(1, changed_from=0), 0.0)
    assert (known.facts.reason, known.facts.detail, known.failed) == ("", "", None)


def test_facts_stay_until_an_object_changes_unless_something_is_wrong() -> None:
    assert facts().is_settled
    assert not facts(reason="no-workload").is_settled
    assert not facts(asks={"route": "takeover"}).is_settled


ROLLOUT = "argoproj.io/v1alpha1/Rollout/web"
ROLLOUTS = ScalableKind("argoproj.io", "v1alpha1", "Rollout", "rollouts")


class KnownRights:
    """Rights with prepared results."""

    def __init__(self, resource: ScalableKind | str | None = None, missing: str = "") -> None:
        self._resource = resource
        self._missing = missing

    def resource(self, wanted: object) -> ScalableKind | str | None:
        return self._resource

    def problem(self, target: ScaleTarget) -> str:
        return self._missing


def known_facts(rights: Any, **annotations: str) -> Facts:
    found = services.parse(service(annotations))
    assert found is not None
    known = EnabledServices()
    known.workloads.put(ObjectKey("Deployment", "shop", "hello"), deployment(replicas=2))
    return read_facts(Joined(found, known.workloads.find(found), 1), rights)


def test_a_workload_is_found_with_its_replicas() -> None:
    found = known_facts(KnownRights())
    assert found.target == ScaleTarget(KNOWN["deployment"], "shop", "hello")
    assert (found.replicas, found.ready, found.reason) == (2, 1, "")
    assert found.is_watched


def test_a_missing_right_is_a_reason_and_the_target_stays() -> None:
    found = known_facts(KnownRights(missing="its role lacks a rule"))
    assert (found.reason, found.detail) == ("scale-forbidden", "its role lacks a rule")
    assert found.target is not None


@pytest.mark.parametrize(
    ("resource", "reason"),
    [(None, "replicas-unknown"), ("has no kind Rollout", "unknown-target-kind")],
)
def test_a_kind_that_is_not_known_gives_no_target(resource: Any, reason: str) -> None:
    found = known_facts(KnownRights(resource), target=ROLLOUT)
    assert (found.target, found.reason) == (None, reason)
    if resource:
        assert resource in found.detail
        assert ROLLOUT in found.detail


def test_a_kind_that_was_looked_up_is_not_watched() -> None:
    found = known_facts(KnownRights(ROLLOUTS), target=ROLLOUT)
    assert found.target == ScaleTarget(ROLLOUTS, "shop", "web")
    assert (found.replicas, found.is_watched) == (None, False)


def plan(**more: Any) -> Plan:
    """Return a plan for an idle Service that is awake."""
    idle: dict[str, Any] = {
        "replicas": None,
        "why": Why.IDLE,
        "hold": None,
        "takes_over": False,
        "active": False,
        "phase": WorkloadPhase.AWAKE,
        "next": 10.0,
    }
    return Plan(**idle | more)


PLAN = plan()
FAILED = Result(None, ScaleReason.SCALE_FORBIDDEN, "its role lacks a rule")
NAME = ServiceName("shop", "hello")


@pytest.mark.parametrize(
    ("facts", "failed", "plan", "reason"),
    [
        ({}, None, PLAN, ("", "")),
        ({}, None, None, ("replicas-unknown", "")),
        ({"reason": "no-workload", "detail": "none"}, None, None, ("no-workload", "none")),
        ({}, None, plan(hold=ScaleReason.STALE_STATE), ("stale-state", "")),
        ({}, FAILED, plan(replicas=2), ("scale-forbidden", FAILED.detail)),
        ({}, FAILED, PLAN, ("", "")),  # nothing is wanted any more, and pods run
        ({"replicas": 0, "ready": 0}, FAILED, PLAN, ("scale-forbidden", FAILED.detail)),
    ],
)
def test_a_decision_has_one_reason(facts: Any, failed: Any, plan: Any, reason: Any) -> None:
    known = record(**facts)
    known.failed = failed
    decided = known.conclude(plan)
    assert decided is not None
    assert (decided.reason, decided.detail) == reason
    assert known.decided is decided


def test_two_owners_name_the_other_one() -> None:
    known = record()
    known.other_owner = "HPA shop/hello"
    decided = known.conclude(plan(hold=ScaleReason.TWO_OWNERS))
    assert decided is not None
    assert decided.reason == "two-owners"
    assert decided.detail.startswith("HPA shop/hello scales the same workload")


def test_a_decision_that_differs_in_its_time_alone_is_no_new_one() -> None:
    known = record()
    assert known.conclude(PLAN)
    assert known.conclude(plan(next=20.0)) is None
    known.facts = facts(lease=60.0)  # no part reads it
    assert known.conclude(PLAN) is None
    known.facts = facts(ready=2)
    assert known.conclude(PLAN)


def test_a_reason_is_logged_once_and_so_is_its_end(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    known = record()
    for hold in (
        ScaleReason.TAKING_OVER,
        ScaleReason.STALE_STATE,
        ScaleReason.STALE_STATE,
        None,
        ScaleReason.TAKING_OVER,
    ):
        known.conclude(plan(hold=hold))
    assert [(each.levelname, each.getMessage()) for each in caplog.records] == [
        (
            "WARNING",
            "Service shop/hello: stale-state: the watch of the API server fails, so no replica is "
            "removed",
        ),
        ("INFO", "Service shop/hello: scaled again"),
    ]


NEVER, FOREVER = float("-inf"), float("inf")


def asleep(**more: Any) -> Plan:
    """Return a plan for an idle Service that is asleep."""
    return plan(**{"phase": WorkloadPhase.ASLEEP, "next": FOREVER} | more)


def idle(**more: Any) -> Observed:
    """Return a Service without load."""
    none: dict[str, Any] = {"current": 0, "stable": 0, "panic": 0, "last_busy": NEVER}
    return Observed(**none | {"frozen": None, "replicas": 0, "ready": 0} | more)


@pytest.mark.parametrize(
    ("plan", "seen"),
    [
        ({}, {"current": 1.0}),
        ({}, {"stable": 0.1}),
        ({"replicas": 0}, {}),
        ({"hold": ScaleReason.STALE_STATE}, {}),
        ({"why": Why.COLD_START}, {}),
    ],
)
def test_a_service_with_load_or_a_pending_change_is_decided_each_tick(
    plan: dict[str, Any], seen: dict[str, Any]
) -> None:
    assert record().rest_until(asleep(**plan), idle(**seen)) == NEVER


def test_a_sleeping_service_is_quiet_until_the_next_time_of_its_plan_or_its_facts() -> None:
    known = record(replicas=0, ready=0)
    assert known.rest_until(asleep(), idle()) == FOREVER
    assert known.rest_until(asleep(next=40.0), idle()) == 40.0
    known.renew_at = 30.0
    assert known.rest_until(asleep(next=40.0), idle()) == 30.0


def test_an_idle_service_with_replicas_is_quiet_until_it_may_sleep() -> None:
    known = record(asks={"idle_seconds": "50"})
    assert known.rest_until(asleep(), idle(replicas=1)) == 50.0


def test_a_workload_without_a_watch_is_quiet_until_it_is_read_again() -> None:
    known = record(is_watched=False)
    known.look_at = 10.0
    assert known.rest_until(asleep(), idle()) == 10.0


NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def test_a_cold_start_is_recorded_counted_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    counters, known = EngineCounters(), record(replicas=0)
    known.conclude(plan(replicas=1, why=Why.COLD_START, active=True, next=20.0))
    known.cold_since = 11.5
    known.workload.records = (known,)
    counters.changed(known.workload, Result(1, changed_from=0), 12.0, NOON)
    assert known.workload.change == ReplicaChange(NOON, 0, 1, "cold-start")
    assert known.cold_since is None
    assert (counters.changes, counters.cold_starts.total) == ({"cold-start": 1}, 0.5)
    (line,) = caplog.records
    assert line.getMessage().startswith("Service shop/hello: Deployment hello: 0 -> 1 replicas: ")


def test_a_change_whose_decision_is_gone_has_no_rule() -> None:
    counters = EngineCounters()
    counters.changed(Workload(records=(record(),)), Result(1, changed_from=2), 12.0, NOON)
    assert counters.changes == {"unknown": 1}


def test_failures_are_counted_by_their_reason() -> None:
    counters = EngineCounters()
    for problem in (None, ScaleReason.CONFLICT, ScaleReason.CONFLICT):
        counters.failed(Result(1, problem))
    assert counters.failures == {"conflict": 2}
