from __future__ import annotations

from activator.scale.decisions.plan import Phase
from activator.scale.decisions.record import Counters, Record
from activator.scale.workloads.actuator import Result
from activator.scale.workloads.subresource import Problem
from tests.activator.scale.decisions.records import HELLO, facts, record


def test_a_new_record_has_decided_nothing_and_is_due() -> None:
    known = Record(facts(), now=5.0)
    assert (known.decided, known.change) == (None, None)
    assert known.planner.phase is Phase.ASLEEP
    assert known.quiet_until < 5.0
    assert known.renew_at > 5.0


def test_counters_begin_empty() -> None:
    counters = Counters()
    assert counters.changes == counters.failures == {}
    assert sum(counters.ticks.counts) == sum(counters.cold_starts.counts) == 0


def test_new_facts_keep_the_replicas_that_no_watch_follows() -> None:
    known = record(replicas=3, is_watched=False)
    known.not_before = 9.0
    known.renew(facts(replicas=None, is_watched=False))
    assert (known.facts.replicas, known.not_before) == (3, 9.0)


def test_another_workload_begins_without_the_failures_of_the_last_one() -> None:
    known = record(replicas=3, is_watched=False)
    known.note(Result(None, Problem.FORBIDDEN), 9.0)
    known.look_at = 9.0
    other = HELLO._replace(name="other")
    known.renew(facts(target=other, replicas=None, is_watched=False))
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
