"""Until when a Service needs no decision."""

from __future__ import annotations

from typing import Any

import pytest

from activator.kpa.decision import Why
from activator.scale.decisions.plan import Hold, Phase, Plan, Seen
from activator.scale.decisions.quiet import quiet_until
from tests.activator.scale.decisions.records import record

NEVER, FOREVER = float("-inf"), float("inf")
IDLE = Plan(None, Why.IDLE, Hold.NONE, False, False, Phase.ASLEEP, FOREVER)
SEEN = Seen(0, 0, 0, NEVER, Hold.NONE, 0, 0)


@pytest.mark.parametrize(
    ("plan", "seen"),
    [
        ({}, {"current": 1.0}),
        ({}, {"stable": 0.1}),
        ({"replicas": 0}, {}),
        ({"hold": Hold.STALE}, {}),
        ({"why": Why.COLD_START}, {}),
    ],
)
def test_a_service_with_load_or_a_pending_change_is_decided_each_tick(
    plan: dict[str, Any], seen: dict[str, Any]
) -> None:
    assert quiet_until(record(), IDLE._replace(**plan), SEEN._replace(**seen)) == NEVER


def test_a_sleeping_service_is_quiet_until_the_next_time_of_its_plan_or_its_facts() -> None:
    known = record(replicas=0, ready=0)
    assert quiet_until(known, IDLE, SEEN) == FOREVER
    assert quiet_until(known, IDLE._replace(next=40.0), SEEN) == 40.0
    known.renew_at = 30.0
    assert quiet_until(known, IDLE._replace(next=40.0), SEEN) == 30.0


def test_an_idle_service_with_replicas_is_quiet_until_it_may_sleep() -> None:
    known = record(asks={"idle_seconds": "50"})
    assert quiet_until(known, IDLE, SEEN._replace(replicas=1)) == 50.0


def test_a_workload_without_a_watch_is_quiet_until_it_is_read_again() -> None:
    known = record(is_watched=False)
    known.look_at = 10.0
    assert quiet_until(known, IDLE, SEEN) == 10.0
