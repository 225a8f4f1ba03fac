from __future__ import annotations

import pytest

from activator.lab.timeline import ScenarioOutcome, Timeline, Who


def outcome(timeline: Timeline, error: str = "") -> ScenarioOutcome:
    return ScenarioOutcome(
        3, "n", "t", "k", "o", timeline.entries, timeline.passed and not error, error, 1.23456
    )


def test_entries_are_in_the_order_of_their_times_from_the_begin():
    timeline = Timeline()
    timeline.begin(100.0)
    timeline.note(103.0, Who.CLIENT, "c")
    timeline.note(101.0, Who.POD, "a")
    timeline.note(101.0, Who.KUBERNETES, "b")
    timeline.note(99.0, Who.ACTIVATOR, "before")
    assert [(entry.at, entry.what) for entry in timeline.entries] == [
        *((0.0, "before"), (1.0, "a"), (1.0, "b"), (3.0, "c"))
    ]


@pytest.mark.parametrize(
    ("checks", "passed"), [([], False), ([True], True), ([True, False], False), ([False], False)]
)
def test_it_has_passed_if_something_was_looked_at_and_all_was_so(checks, passed):
    timeline = Timeline()
    timeline.note(0.0, Who.CLIENT, "no check")
    for check in checks:
        timeline.check(0.0, "so", check, "not so")
    assert timeline.passed is passed


def test_observations_that_differ_from_the_expected_are_shown():
    timeline = Timeline()
    timeline.check(0.0, "it is 200", True, "200")
    timeline.check(0.0, "it is 200", False, "502")
    assert [entry.what for entry in timeline.entries] == ["it is 200", "it is 200; seen: 502"]


def test_json_has_the_shape_that_the_page_describes():
    timeline = Timeline()
    timeline.note(0.12345, Who.FAULT, "f")
    timeline.check(1.0, "so", True, "")
    assert outcome(timeline, "too late").as_json() == {
        "number": 3,
        "name": "n",
        "title": "t",
        "knative": "k",
        "kubernetes": "",
        "ours": "o",
        "passed": False,
        "error": "too late",
        "seconds": 1.235,
        "timeline": [
            {"at": 0.123, "who": "fault", "what": "f"},
            {"at": 1.0, "who": "check", "what": "so", "passed": True},
        ],
    }
    assert outcome(timeline).as_json()["error"] is None


def test_what_the_activator_does_again_and_again_is_counted():
    timeline = Timeline()
    told = [timeline.note(at / 10, Who.ACTIVATOR, "tries") for at in range(10)]
    assert [entry is None for entry in told] == [False, False, *[True] * 8]
    assert timeline.note(5.0, Who.ACTIVATOR, "tries") is not None
    assert [(entry.at, entry.what) for entry in timeline.entries] == [
        *((0.0, "tries"), (0.1, "tries"), (0.9, "tries (8 times more)"), (5.0, "tries"))
    ]


def test_once_more_is_no_number():
    timeline = Timeline()
    for _ in range(3):
        timeline.note(0.0, Who.ACTIVATOR, "tries")
    assert timeline.entries[-1].what == "tries (once more)"


def test_repeated_actions_of_others_are_shown_each_time():
    timeline = Timeline()
    assert all(timeline.note(0.0, Who.CLIENT, "GET") for _ in range(5))
