"""The tables of pods, and pods that begin no response."""

from __future__ import annotations

import json

import pytest

from activator.console import explain
from activator.console.responses import parse
from activator.console.screen import Table
from tests.activator.console.explained import OTHER, POD, shown, view
from tests.activator.telemetry.world import World


@pytest.fixture
def world():
    return World()


def test_pods_that_have_requests_and_begin_no_response(world):
    throttler = world.revision()
    world.healthy(throttler, *(f"10.0.0.{number}:8012" for number in range(1, 8)))
    for _ in range(2):
        world.request(throttler)
        world.clock.now += 7
    assert [line for line in shown(view(world, throttler)) if "begun no response" in line] == [
        "Silent     10.0.0.1:8012 has had 2 requests and begun no response for 14.0s"
    ]
    for _ in range(9):
        world.request(throttler)
    world.clock.now += 5
    lines = shown(view(world, throttler))
    first = next(n for n, line in enumerate(lines) if line.startswith("Silent"))
    assert lines[first].endswith("10.0.0.1:8012 has had 2 requests and begun no response for 19.0s")
    assert lines[first + 4].endswith("has had 2 requests and begun no response for 5.0s")
    assert lines[first + 5].strip() == "and 1 more pod"


def test_pods_are_coloured_by_what_follows(world):
    throttler = world.revision()
    world.healthy(throttler, POD)
    world.pods(throttler, POD, not_ready=(OTHER,))
    page = explain.page(parse(json.dumps(view(world, throttler))))
    (table,) = [part for part in page if isinstance(part, Table)]
    assert table.styles == ("green", "yellow")
