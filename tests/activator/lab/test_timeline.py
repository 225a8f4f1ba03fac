"""The timeline and its texts."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from activator.lab.application import Switches
from activator.lab.environment import Environment
from activator.lab.programs import ClientResponse
from activator.lab.scenario import Scenario, ScenarioOutcome
from activator.lab.timeline import (
    SWITCHES,
    Timeline,
    Who,
    of_activator_event,
    of_pod_event,
    of_response,
    of_value,
    of_view,
)
from tests.rows import in_one_test


def outcome(timeline: Timeline, error: str = "") -> ScenarioOutcome:
    scenario = Scenario(3, "n", "t", "o", _script, "k")
    passed = timeline.passed and not error
    return ScenarioOutcome(scenario, timeline.entries, passed, error, 1.23456)


async def _script(environment: Environment) -> None:
    """Do nothing."""


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
        "outcome": "failed",
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


@in_one_test(
    ("kind", "details", "who", "what"),
    [
        ("started", {"address": "127.0.0.11:1"}, Who.KUBERNETES, "starts p at 127.0.0.11:1"),
        (
            "listed",
            {"revision": "app", "ready": ["p", "q"], "not_ready": []},
            Who.KUBERNETES,
            "Endpoints of app: addresses p, q; notReadyAddresses none",
        ),
        ("killing", {"container": "it"}, Who.KUBERNETES, "p: liveness failed; kills it"),
        ("restarted", {"container": "it"}, Who.KUBERNETES, "p: started it again"),
        (
            "switched",
            {"ready": False, "live": True, "new": True},
            Who.POD,
            "p: its readiness probe fails, its liveness probe passes",
        ),
        ("listening", {}, Who.POD, "p: listens"),
        ("probe passed", {"status": 200}, Who.POD, "p: responds to the activator's probe with 200"),
        ("probe failed", {"status": 503}, Who.POD, "p: responds to the activator's probe with 503"),
        ("draining", {"in_flight": 2}, Who.POD, "p: drains, 2 requests in flight"),
        ("draining", {"in_flight": 1}, Who.POD, "p: drains, 1 request in flight"),
        ("stopped", {"status": 0}, Who.POD, "p: stopped, status 0"),
        ("ended by itself", {"status": 1}, Who.POD, "p: ended by itself, status 1"),
    ],
)
def test_each_event_has_its_words(kind, details, who, what):
    assert of_pod_event(kind, "p", details) == (who, what)


def test_lines_that_clients_get_in_any_case_are_left_out():
    assert of_pod_event("responded", "p", {"status": 200}) is None


def test_each_switch_of_a_pod_has_words():
    assert set(SWITCHES) == set(asdict(Switches()))


@pytest.mark.parametrize(
    ("response", "line"),
    [
        (ClientResponse(200, {}, "Hello\nyou", 1.5), "GET /: 200 after 1,500 ms: Hello"),
        (ClientResponse(204, {}, "", 0.001), "GET /: 204 after 1 ms: no body"),
        (ClientResponse(200, {}, "x" * 80, 0.0), f"GET /: 200 after 0 ms: {'x' * 70}…"),
        (
            ClientResponse(504, {"activator-reason": "no-endpoints"}, "late", 2.0),
            "GET /: 504 after 2,000 ms: late (Activator-Reason: no-endpoints)",
        ),
        (ClientResponse(0, {}, "refused", 0.002), "GET /: no response after 2 ms: refused"),
    ],
)
def test_a_response_is_one_line(response, line):
    assert of_response("GET", "/", response) == line


def test_the_activators_state_is_one_line():
    pod = {"address": "a:1", "kubernetes": "ready", "probe": "passed", "inFlight": 2}
    pod |= {"decision": "use", "decidedBy": "probe-passed"}
    line = "a:1: Kubernetes ready, activator's probe passed, use (probe-passed), 2 in flight"
    view = {"queued": 1, "reason": "at-capacity", "pods": [pod]}
    assert of_view(view) == f"1 queued, reason at-capacity; pods: {line}"
    assert of_view({"queued": 0, "reason": None, "pods": []}).endswith("pods: none")
    assert of_view({}) == "nothing"


@pytest.mark.parametrize(
    ("kind", "data", "line"),
    [
        (
            "pod-changed",
            {"address": "a:1", "was": None, "state": "probing", "ready": False, "why": "w"},
            "app: a:1 new -> probing (Kubernetes: not ready): w",
        ),
        (
            "pod-changed",
            {"address": "a:1", "was": "healthy", "state": "healthy", "ready": True, "why": "w"},
            "app: a:1 is healthy (Kubernetes: ready): w",
        ),
        ("capacity-changed", {"was": None, "capacity": 0}, "app: capacity without limit -> 0"),
        (
            "queue-began",
            {"reason": "at-capacity", "detail": "2/2"},
            "app: requests begin to wait: at-capacity; 2/2",
        ),
        ("queue-began", {"reason": "no-endpoints"}, "app: requests begin to wait: no-endpoints"),
        ("queue-ended", {"seconds": 0.25}, "app: no request waits any more, after 0.250 s"),
        ("something-new", {}, None),
    ],
)
def test_events_of_the_activator_have_their_words(kind, data, line):
    assert of_activator_event(kind, {"revision": "default/app", **data}) == line


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (ClientResponse(502, {"date": "today"}, "no\n", 1.0), r"502 'no\n'"),
        ([ClientResponse(200, {}, ""), ClientResponse(0, {}, "refused")], "[200 '', 0 'refused']"),
        ({200: 3}, "{200: 3}"),
    ],
)
def test_observations_are_short(value, words):
    assert of_value(value) == words


def test_slices_are_told_by_the_states_of_their_endpoints():
    details = {"service": "web", "ready": ["a"], "not_ready": [], "terminating": ["b", "c"]}
    assert of_pod_event("listed in slices", "", details) == (
        Who.KUBERNETES,
        "EndpointSlices of web: ready a; terminating b, c",
    )
    empty = {"service": "web", "ready": [], "not_ready": [], "terminating": []}
    assert of_pod_event("listed in slices", "", empty) == (
        Who.KUBERNETES,
        "EndpointSlices of web: no endpoint",
    )
