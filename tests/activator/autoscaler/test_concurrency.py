"""The reported load of revisions, against worked examples and a brute-force model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activator.autoscaler.concurrency import ConcurrencyReporter, Stat
from activator.autoscaler.reporter import poke_of
from throttler.model import RevisionID

A = RevisionID("default", "a-00001")
B = RevisionID("default", "b-00001")


class Accounts:
    """A reporter that records its pokes."""

    def __init__(self) -> None:
        self.pokes: list[RevisionID] = []
        self.reporter = ConcurrencyReporter(self.pokes.append)

    def run(self, revision_id: RevisionID, *, enter: float, leave: float | None = None) -> None:
        load = self.reporter.load(revision_id)
        load.request_began(enter)
        if leave is not None:
            load.request_ended(leave)


@pytest.fixture
def accounts():
    return Accounts()


def test_the_first_request_pokes_at_once_and_only_the_first(accounts):
    accounts.run(A, enter=10.0)
    assert accounts.pokes == [A]
    accounts.run(A, enter=10.1)
    accounts.run(B, enter=10.2)
    assert accounts.pokes == [A, B]
    assert poke_of(A) == Stat(A, 1.0, 1)


def test_the_request_counts_already_when_the_poke_arrives():
    heard = []
    reporter = ConcurrencyReporter(lambda id: heard.append(reporter.load(id).in_flight))
    reporter.load(A).request_began(0.0)
    assert heard == [1]


def test_the_first_report_leaves_out_requests_that_the_poke_had(accounts):
    accounts.run(A, enter=0.0)
    accounts.run(A, enter=0.0)
    assert accounts.reporter.report(1.0) == [Stat(A, 1.0, 1)]
    assert accounts.reporter.report(2.0) == [Stat(A, 2.0, 0)]


def test_neither_concurrency_nor_count_falls_below_zero(accounts):
    accounts.run(A, enter=0.0, leave=0.1)
    assert accounts.reporter.report(1.0) == [Stat(A, 0.0, 0)]


def test_concurrency_is_weighted_by_time(accounts):
    accounts.run(A, enter=0.0)
    accounts.reporter.report(1.0)
    accounts.run(A, enter=1.0, leave=1.5)
    accounts.run(A, enter=1.25, leave=1.5)
    accounts.reporter.load(A).request_ended(1.75)
    assert accounts.reporter.report(2.0) == [Stat(A, 0.75 + 0.5 + 0.25, 2)]


def test_the_first_period_begins_with_the_first_request(accounts):
    accounts.run(A, enter=0.75)
    accounts.run(A, enter=0.75)
    assert accounts.reporter.report(1.0) == [Stat(A, 1.0, 1)]


def test_a_late_report_averages_over_its_real_length(accounts):
    accounts.run(A, enter=0.0)
    accounts.reporter.report(1.0)
    accounts.reporter.load(A).request_ended(2.0)
    assert accounts.reporter.report(5.0) == [Stat(A, 0.25, 0)]


def test_an_idle_revision_is_reported_with_zeros_once_more_and_then_dropped(accounts):
    accounts.run(A, enter=0.0, leave=0.5)
    accounts.reporter.report(1.0)
    assert accounts.reporter.load(A).reported
    assert accounts.reporter.report(2.0) == [Stat(A, 0.0, 0)]
    assert not accounts.reporter.load(A).reported
    assert accounts.reporter.report(3.0) == []


def test_a_dropped_revision_pokes_again(accounts):
    load = accounts.reporter.load(A)
    load.request_began(0.0)
    load.request_ended(0.5)
    accounts.reporter.report(1.0)
    accounts.reporter.report(2.0)
    load.request_began(7.0)
    assert accounts.pokes == [A, A]
    load.request_began(7.0)
    assert accounts.reporter.report(8.0) == [Stat(A, 1.0, 1)]


def test_a_held_request_keeps_its_revision_reported(accounts):
    accounts.run(A, enter=0.0)
    stats = []
    for second in range(1, 5):
        stats = accounts.reporter.report(float(second))
    assert stats == [Stat(A, 1.0, 0)]
    assert accounts.pokes == [A]


def test_requests_too_short_for_the_clock_do_not_poke_each_time(accounts):
    accounts.run(A, enter=0.0, leave=0.0)
    assert accounts.reporter.report(1.0) == [Stat(A, 0.0, 0)]
    accounts.run(A, enter=1.5, leave=1.5)
    accounts.run(A, enter=1.5, leave=1.5)
    assert accounts.reporter.report(2.0) == [Stat(A, 0.0, 2)]
    assert accounts.pokes == [A]


def test_a_report_in_the_instant_of_the_poke_loses_nothing(accounts):
    accounts.run(A, enter=1.0)
    assert accounts.reporter.report(1.0) == [Stat(A, 0.0, 0)]
    assert accounts.reporter.report(2.0) == [Stat(A, 1.0, 0)]


def test_a_report_between_lookup_and_first_request_loses_nothing(accounts):
    load = accounts.reporter.load(A)
    assert accounts.reporter.report(1.0) == []
    load.request_began(1.0)
    load.request_began(1.0)
    assert accounts.reporter.report(2.0) == [Stat(A, 1.0, 1)]


def test_a_deleted_revision_is_reported_until_its_last_request_has_left(accounts):
    load = accounts.reporter.load(A)
    load.request_began(0.0)
    accounts.reporter.report(1.0)
    accounts.reporter.remove(A)
    assert accounts.reporter.report(2.0) == [Stat(A, 1.0, 0)]
    load.request_ended(2.0)
    accounts.reporter.report(3.0)
    assert accounts.reporter.report(4.0) == []
    assert accounts.reporter.load(A) is not load


def test_a_removed_revision_leaves_nothing_behind_once_its_zeros_are_reported(accounts):
    reporter = accounts.reporter
    accounts.run(A, enter=0.0, leave=0.5)
    reporter.load(B)
    for revision in (A, B):
        reporter.remove(revision)
    assert len(reporter) == 1  # B was never reported
    assert reporter.report(1.0) == [Stat(A, 0.0, 0)]
    assert reporter.report(2.0) == [Stat(A, 0.0, 0)]
    assert len(reporter) == 0


def test_a_revision_that_is_deleted_and_created_again_has_one_load_only(accounts):
    reporter = accounts.reporter
    load = reporter.load(A)
    load.request_began(0.0)
    reporter.remove(A)
    assert reporter.load(A) is load
    reporter.load(A).request_began(0.5)
    assert reporter.report(1.0) == [Stat(A, 0.5, 1)]
    for _ in range(2):
        load.request_ended(1.0)
    reporter.report(2.0)
    assert reporter.report(3.0) == []
    assert reporter.load(A) is load  # the reporter did not remove the new account


def test_removing_an_unknown_revision_is_no_error(accounts):
    accounts.reporter.remove(A)
    assert accounts.reporter.report(1.0) == []


# The model keeps every request as an interval, and integrates over all of them at each report.


@dataclass
class Model:
    """The rules, computed without any running sum."""

    requests: list[list[Any]] = field(default_factory=list)
    period_start: float | None = None  # None: dormant
    poked: bool = False
    pokes: int = 0

    def request_began(self, now: float) -> None:
        if self.period_start is None:
            self.period_start, self.poked = now, True
            self.pokes += 1
        self.requests.append([now, None])

    def request_ended(self, now: float) -> bool:
        held = [request for request in self.requests if request[1] is None]
        if held:
            held[0][1] = now
        return bool(held)

    def report(self, now: float) -> tuple[float, int] | None:
        start = self.period_start
        if start is None:
            return None
        spans = [(begin, now if end is None else end) for begin, end in self.requests]
        weight = sum(end - max(begin, start) for begin, end in spans)
        mean = weight / (now - start) if now > start else 0.0
        count = self._arrived
        busy = bool(count or weight or any(end is None for _, end in self.requests))
        stat = max(mean - self.poked, 0.0), max(count - self.poked, 0)
        self.requests = [request for request in self.requests if request[1] is None]
        self._seen = len(self.requests)
        self.period_start, self.poked = (now if busy else None), False
        return stat

    _seen: int = 0

    @property
    def _arrived(self) -> int:
        return len(self.requests) - self._seen


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["enter", "enter", "leave", "leave", "report"]),
        st.sampled_from([A, B]),
        st.sampled_from([0.0, 0.0, 0.125, 0.25, 1.0]),  # binary fractions: sums are exact
    ),
    max_size=200,
)


@given(STEPS)
def test_any_walk_reports_what_the_brute_force_model_reports(steps):
    accounts = Accounts()
    models = {A: Model(), B: Model()}
    now = 0.0
    for action, revision_id, wait in steps:
        now += wait
        load = accounts.reporter.load(revision_id)
        if action == "enter":
            load.request_began(now)
            models[revision_id].request_began(now)
        elif action == "leave":
            if models[revision_id].request_ended(now):
                load.request_ended(now)
        else:
            reported = {stat.revision_id: stat for stat in accounts.reporter.report(now)}
            for id, model in models.items():
                expected = model.report(now)
                told = reported.pop(id, None)
                if expected is None:
                    assert told is None
                else:
                    assert told is not None
                    assert told.concurrency == pytest.approx(expected[0])
                    assert told.request_count == expected[1]
            assert not reported
    for id, model in models.items():
        assert accounts.pokes.count(id) == model.pokes
        assert accounts.reporter.load(id).reported is (model.period_start is not None)
