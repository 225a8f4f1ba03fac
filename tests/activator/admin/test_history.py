"""The history of the last ten minutes, with requests and idle steps, in virtual time."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest

from activator.admin.application import create_app
from activator.admin.history import BLOCK, STEPS
from activator.autoscaler.concurrency import Stat
from activator.autoscaler.reporter import StatReporter
from activator.records.counters import OUTCOMES
from tests.activator.telemetry.world import World
from tests.activator.throttlers import throttler_of
from throttler.model import RevisionID
from throttler.ticket import Ticket

POD = "10.0.0.1:8012"


class Past:
    """An activator whose reporter feeds its history; the test advances the time."""

    def __init__(self) -> None:
        self.world = World()
        self.reporter = StatReporter((self.world.history,), clock=self.world.clock)

    def go_by(self, seconds: int) -> None:
        for _ in range(seconds):
            self.world.clock.now += 1
            self.reporter.report()

    def revision(self, name="hello", pods=True):
        throttler = self.world.revision(name, concurrency=2)
        if pods:
            self.world.healthy(throttler, POD)
        return throttler

    def request(self, throttler) -> tuple[Ticket, object]:
        entry = self.world.entry(throttler)
        self.reporter.loads.load(throttler.revision.id).request_began(self.world.clock.now)
        return self.world.request(throttler), entry

    def end(self, request, outcome="served") -> None:
        ticket, entry = request
        now = self.world.clock.now
        entry.counters.outcomes[outcome] += 1
        self.reporter.loads.load(ticket.config.revision.id).request_ended(now)
        self.world.driver.cancel(throttler_of(self.world.driver, ticket), ticket, now)

    def serve(self, throttler, at_once=1, outcome="served") -> None:
        for request in [self.request(throttler) for _ in range(at_once)]:
            self.end(request, outcome)

    async def asked(self, query="") -> dict[str, Any]:
        transport = httpx.ASGITransport(create_app(self.world))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as session:
            answer = await session.get(f"/api/v1/history{query}")
        assert answer.headers["content-type"] == "application/json"
        return json.loads(answer.text)

    async def of(self, name="hello") -> dict[str, Any]:
        (found,) = (await self.asked(f"?revision=default/{name}"))["revisions"]
        return found


@pytest.fixture
def past():
    return Past()


async def test_before_the_first_step_is_over_there_is_none(past):
    past.serve(past.revision())
    assert await past.asked() == {
        "revisions": [],
        "activator": {"queued": [], "inFlight": [], "outcomes": {}},
        "stepSeconds": 5,
        "steps": 120,
        "time": "1970-01-01T00:16:40.000Z",
    }


async def test_a_queue_that_was_gone_in_a_moment_is_seen(past):
    hello = past.revision()
    past.serve(hello, at_once=7)
    assert hello.idle
    past.go_by(10)
    assert await past.of() == {
        "namespace": "default",
        "name": "hello",
        "kind": "revision",
        "queued": [5, 0],
        "inFlight": [2, 0],
        "outcomes": {"served": [7, 0]},
    }


async def test_requests_that_wait_on_are_in_each_step_until_they_end(past):
    hello = past.revision(pods=False)
    waiting = [past.request(hello) for _ in range(3)]
    past.go_by(10)
    past.world.healthy(hello, POD)
    past.go_by(5)
    for request in waiting:
        past.end(request)
    past.go_by(10)
    found = await past.of()
    assert found["queued"] == [3, 3, 3, 1, 0]
    assert found["inFlight"] == [0, 0, 2, 2, 0]
    assert found["outcomes"] == {"served": [0, 0, 0, 3, 0]}


async def test_outcomes_are_counted_in_the_step_in_which_they_were_and_only_those_that_occur(past):
    hello = past.revision()
    for outcome in OUTCOMES[:3]:
        past.serve(hello, 2, outcome)
        past.go_by(5)
    outcomes = (await past.of())["outcomes"]
    assert outcomes == {
        "served": [2, 0, 0],
        "timed-out": [0, 2, 0],
        "cancelled": [0, 0, 2],
    }


async def test_requests_before_a_long_idle_time_are_not_shown_again(past):
    hello = past.revision()
    past.serve(hello, 4)
    past.go_by(5 * STEPS + 10)
    other = past.revision("other")
    past.serve(other)
    past.go_by(5)
    assert not (await past.asked("?revision=default/hello"))["revisions"]
    past.serve(hello)
    past.go_by(5)
    assert sum((await past.of())["outcomes"]["served"]) == 1


async def test_the_history_has_ten_minutes(past):
    hello = past.revision()
    for number in range(STEPS + 30):
        past.serve(hello, 1 + number % 7)
        past.go_by(5)
    found = await past.of()
    last = [1 + number % 7 for number in range(30, STEPS + 30)]
    assert found["outcomes"]["served"] == last
    assert found["inFlight"] == [min(each, 2) for each in last]
    assert found["queued"] == [max(each - 2, 0) for each in last]


@pytest.mark.parametrize("idle", [1, 2, STEPS - 2, STEPS - 1])
async def test_steps_without_requests_are_0_however_many(past, idle):
    hello = past.revision()
    past.serve(hello, 3)
    past.go_by(5)
    past.go_by(5 * idle)
    past.serve(hello, 4)
    past.go_by(5)
    served = (await past.of())["outcomes"]["served"]
    steps = min(idle + 2, STEPS)
    assert served == [3, *[0] * idle, 4][-steps:]


async def test_what_ended_ten_minutes_ago_does_not_come_back_as_new(past):
    """The ring is full of old values, and no step has overwritten them since."""
    hello = past.revision()
    for number in range(STEPS):
        past.serve(hello, 1 + number % 3)
        past.go_by(5)
    past.go_by(10)
    found = await past.of()
    assert found["outcomes"]["served"] == [*(1 + n % 3 for n in range(2, STEPS)), 0, 0]


async def test_revisions_without_requests_are_neither_listed_nor_kept(past):
    for number in range(50):
        past.revision(f"idle-{number}")
    past.serve(past.revision("busy"))
    past.go_by(5)
    assert [one["name"] for one in (await past.asked())["revisions"]] == ["busy"]
    assert [name.name for name in past.world.history.watched] == ["busy"]
    past.go_by(5 * STEPS)
    assert (await past.asked())["revisions"] == []
    assert not past.world.history.watched


async def test_revisions_are_sorted_and_the_activator_has_the_sums(past):
    for name, at_once in (("b", 3), ("c", 1), ("a", 5)):
        past.serve(past.revision(name), at_once)
    past.go_by(10)
    answer = await past.asked()
    assert [one["name"] for one in answer["revisions"]] == ["a", "b", "c"]
    assert answer["activator"] == {
        "queued": [4, 0],
        "inFlight": [5, 0],
        "outcomes": {"served": [9, 0]},
    }


async def test_some_may_be_asked_for_by_name_and_the_sums_stay_those_of_all(past):
    for name in ("a", "b", "c"):
        past.serve(past.revision(name))
    past.go_by(5)
    query = (
        "?revision=default/c&revision=default/a&revision=default/nobody&revision=default/%3Cb%3E"
    )
    answer = await past.asked(query)
    assert [one["name"] for one in answer["revisions"]] == ["a", "c"]
    assert answer["activator"]["outcomes"] == {"served": [3]}


async def test_a_revision_that_is_created_again_continues_under_its_name(past):
    hello = past.revision()
    past.serve(hello, 4)
    past.world.driver.delete_revision(hello.revision.id)
    again = past.revision()
    assert again is not hello
    past.serve(again, 3)
    past.go_by(5)
    past.serve(again, 1)
    past.go_by(5)
    found = await past.of()
    assert found["outcomes"] == {"served": [7, 1]}
    assert (found["queued"], found["inFlight"]) == ([2, 0], [2, 1])


async def test_the_last_requests_of_a_deleted_revision_are_shown(past):
    hello = past.revision()
    request = past.request(hello)
    past.go_by(5)
    past.world.driver.delete_revision(hello.revision.id)
    past.reporter.loads.remove(hello.revision.id)
    past.go_by(5)
    past.end(request, "upstream-failed")
    past.go_by(10)
    found = await past.of()
    assert found["inFlight"] == [1, 1, 1, 0]
    assert found["outcomes"] == {"upstream-failed": [0, 0, 1, 0]}


async def test_reading_neither_takes_anything_away_nor_shifts_it(past):
    hello = past.revision()
    past.serve(hello, 3)
    await past.asked()
    past.go_by(3)
    past.serve(hello, 2)
    await past.asked()
    past.go_by(2)
    assert await past.asked() == await past.asked()
    assert (await past.of())["outcomes"] == {"served": [5]}
    assert (await past.of())["queued"] == [1]


async def test_the_time_is_the_end_of_the_last_step(past):
    past.go_by(7)
    assert (await past.asked())["time"] == "1970-01-01T00:16:45.000Z"
    past.world.clock.now += 2.999
    assert (await past.asked())["time"] == "1970-01-01T00:16:45.000Z"
    past.world.clock.now += 0.001
    assert (await past.asked())["time"] == "1970-01-01T00:16:50.000Z"


async def test_a_step_that_ends_while_a_long_response_is_made_does_not_disturb_it(past):
    """The new value replaces the oldest one, which then reads 0."""
    many = [past.revision(f"r{number}") for number in range(3)]
    for _ in range(STEPS):
        for throttler in many:
            past.serve(throttler)
        past.go_by(5)
    history = past.world.history
    answer = history.revisions(history.now())
    first = next(one for one in answer if one is not None)
    for throttler in many:
        past.serve(throttler, 5)
    past.go_by(5)
    history.now()
    rest = [one for one in answer if one is not None]
    assert first["outcomes"]["served"] == [1] * STEPS
    assert [one["outcomes"]["served"] for one in rest] == [[0, *[1] * (STEPS - 1)]] * 2


@pytest.mark.parametrize(("steps", "length"), [(1, 1), (2, 2), (3, 3), (4, 4), (999_999_999, 4)])
async def test_the_last_steps_alone_are_shown_on_demand(past, steps, length):
    hello, other = past.revision(), past.revision("other")
    past.serve(other)
    for at_once in (3, 0, 4, 1):
        past.serve(hello, at_once)
        past.go_by(5)
    answer = await past.asked(f"?steps={steps}")
    found = {one["name"]: one for one in answer["revisions"]}
    assert set(found) == ({"hello", "other"} if length == 4 else {"hello"})
    assert found["hello"]["outcomes"]["served"] == [3, 0, 4, 1][-length:]
    assert found["hello"]["queued"] == [1, 0, 2, 0][-length:]
    assert answer["activator"]["inFlight"] == [3, 0, 2, 1][-length:]


@pytest.mark.parametrize("steps", ["0", "-1", "", "1.5", "x", "1" * 5000, "%D9%A3"])
async def test_a_number_of_steps_that_is_none_is_a_problem(past, steps):
    transport = httpx.ASGITransport(create_app(past.world))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as session:
        answer = await session.get(f"/api/v1/history?steps={steps}")
    assert (answer.status_code, answer.headers["content-type"]) == (400, "application/problem+json")


async def test_very_many_are_looked_at_in_turns(past):
    """The history shows a step with many busy revisions only after it has read all of them."""
    count = 4 * BLOCK
    many = [past.revision(f"r{number:04}") for number in range(count)]
    for throttler in many:
        past.serve(throttler, 3)
    past.go_by(5)
    history = past.world.history
    assert history.now() == (0, 0)
    assert len(history.left) == count - BLOCK
    for _ in range(count // BLOCK):
        await asyncio.sleep(0)
    answer = await past.asked()
    assert {tuple(one["outcomes"]["served"]) for one in answer["revisions"]} == {(3,)}
    assert len(answer["revisions"]) == count
    assert answer["activator"]["outcomes"] == {"served": [3 * count]}


async def test_a_loop_that_stood_still_for_a_step_loses_nothing(past):
    count = 4 * BLOCK
    for number in range(count):
        past.serve(past.revision(f"r{number:04}"))
    past.go_by(5)
    past.world.history.now()
    past.world.clock.now += 5
    answer = await past.asked("?revision=default/r0000")
    assert answer["revisions"][0]["outcomes"]["served"] == [1, 0]
    assert answer["activator"]["outcomes"]["served"] == [count, 0]


def test_the_last_reported_concurrency_counts_and_idle_is_0() -> None:
    history = World().history
    busy, idle = RevisionID("ns", "busy"), RevisionID("ns", "idle")
    history([Stat(busy, 1.0, 1), Stat(idle, 3.0, 1)])
    history([Stat(busy, 0.5, 1), Stat(idle, 0.0, 1)])
    assert history.reported == {busy: 0.5}


def test_revisions_that_have_become_idle_keep_no_concurrency() -> None:
    history = World().history
    for number in range(1000):
        history([Stat(RevisionID("ns", str(number)), 1.0, 1)])
        history([Stat(RevisionID("ns", str(number)), 0.0, 1)])
    assert not history.reported
