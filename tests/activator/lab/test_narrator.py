from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from activator.lab.cluster import DemoEvent, DemoService
from activator.lab.narrator import MAX_RESPONSES_PER_SECOND, Narrator

NOON = datetime(2026, 1, 2, 12, 0, 0, 7000)
APP = DemoService("app", start_after=2)


def told(narrator: Narrator, at: float, kind: str, **details: Any) -> list[str]:
    return narrator.lines(DemoEvent(at, APP, kind, "app-1", details), NOON)


def answered(narrator: Narrator, at: float) -> list[str]:
    return told(narrator, at, "responded", path="/x", status=200, took=0.0123)


def test_line_has_time_service_and_text():
    assert told(Narrator(), 0, "listening") == ["12:00:00.007  app      pod app-1 listens"]


def test_queued_request_is_shown_once_and_its_response_with_the_time_it_took():
    narrator = Narrator()
    assert "the activator queues it" in told(narrator, 10, "queued", concurrency=1)[0]
    assert told(narrator, 11, "queued", concurrency=1) == []
    assert "app-1 responds to the first queued request, 2,345 ms" in answered(narrator, 12.345)[0]
    assert answered(narrator, 12.4)[0].endswith("app-1 responds to /x with 200 in 12 ms")
    assert told(narrator, 13, "queued", concurrency=1) != []


def test_request_that_waits_for_a_pod_that_is_not_ready_is_shown_with_its_response():
    narrator = Narrator()
    assert "responds to /x" in answered(narrator, 9)[0]
    assert told(narrator, 10, "queued", reason="pods-not-ready")[0].endswith(
        "a request arrives and no pod can take it: the activator queues it"
    )
    assert "app-1 responds to the first queued request, 1,500 ms" in answered(narrator, 11.5)[0]


def test_many_responses_are_shown_together():
    narrator = Narrator()
    lines = [line for number in range(20) for line in answered(narrator, number / 100)]
    assert len(lines) == MAX_RESPONSES_PER_SECOND
    later = answered(narrator, 2.0)
    assert [line.partition("app      ")[2] for line in later] == [
        f"… and {20 - MAX_RESPONSES_PER_SECOND} more responses",
        "app-1 responds to /x with 200 in 12 ms",
    ]


@pytest.mark.parametrize(
    ("kind", "details"),
    [
        ("scaled", {"pods": 0, "wanted": 2}),
        ("started", {"address": "127.0.0.1:1", "switches": "127.0.0.1:2"}),
        ("probe passed", {}),
        ("probe failed", {"status": 503}),
        ("ready", {}),
        ("not ready", {}),
        ("draining", {"in_flight": 1}),
        ("stopped", {}),
        ("ended by itself", {"status": 1}),
    ],
)
def test_each_kind_of_event_has_one_line(kind, details):
    (line,) = told(Narrator(), 0, kind, **details)
    assert all(str(value) in line for key, value in details.items() if key != "in_flight")


def test_unknown_kind_is_passed_over():
    assert told(Narrator(), 0, "news") == []
