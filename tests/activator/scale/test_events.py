"""Events on Services: which are written, how often, and through which failures."""

from __future__ import annotations

import asyncio
import json
import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from activator.discovery.api_server import ApiResponse, ApiServer, no_response
from activator.process.timers import Tasks
from activator.scale.events import (
    BURST,
    LOOK,
    MOST_NOTE,
    MOST_REQUESTS,
    MOST_WAITING,
    REFILL,
    REPEAT,
    EventBook,
    EventsPart,
    EventWrite,
    Subject,
    shortened,
)
from activator.scale.reasons import Finding, ScaleReason
from activator.scale.reports.load import ServiceName
from tests.activator.scale.fake_api import status
from tests.activator.scale.world import Cluster, cluster, elapse, leader, scaler

HELLO = Subject("shop", "hello", "s1")
EVENTS = "/apis/events.k8s.io/v1/namespaces/shop/events"
OWNERS = Finding(ScaleReason.TWO_OWNERS, "HPA hello also scales Deployment hello")
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


class Book:
    """An EventBook with a clock."""

    def __init__(self) -> None:
        self.book = EventBook("scale-7d9f")
        self.now = 0.0

    @property
    def wall(self) -> datetime:
        return BEGIN + timedelta(seconds=self.now)

    def report(self, *notices: Finding, subject: Subject = HELLO) -> list[EventWrite]:
        return self.book.report(subject, notices, self.now, self.wall)

    def repeats(self) -> list[EventWrite]:
        return self.book.repeats(self.now, self.wall)


def body(write: EventWrite) -> Any:
    return json.loads(write.request.body)


def test_an_event_has_the_fields_that_the_api_server_requires() -> None:
    [write] = Book().report(OWNERS)
    assert write.request[:2] == ("POST", EVENTS)
    assert write.request.content_type == "application/json"
    event = body(write)
    service, _, number = event["metadata"].pop("name").partition(".")
    assert service == "hello"
    assert int(number, 16) > 0
    assert event == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"namespace": "shop"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "activator.dev/scale",
        "reportingInstance": "scale-7d9f",
        "action": "Scale",
        "reason": "two-owners",
        "type": "Warning",
        "regarding": {
            "apiVersion": "v1",
            "kind": "Service",
            "namespace": "shop",
            "name": "hello",
            "uid": "s1",
        },
        "note": "HPA hello also scales Deployment hello",
    }


def test_events_at_once_have_different_names() -> None:
    notices = [Finding(reason, "x") for reason in list(ScaleReason)[:BURST]]
    names = {body(write)["metadata"]["name"] for write in Book().report(*notices)}
    assert len(names) == BURST


def test_a_notice_that_stays_is_one_event_and_repeats_are_its_series() -> None:
    book = Book()
    [first] = book.report(OWNERS)
    for _ in range(3):
        assert book.report(OWNERS) == []
        assert book.repeats() == []
    for count in (2, 3):
        book.now += REPEAT
        [again] = book.repeats()
        assert again.request[:2] == ("PATCH", f"{EVENTS}/{body(first)['metadata']['name']}")
        assert again.request.content_type == "application/merge-patch+json"
        assert body(again) == {
            "series": {
                "count": count,
                "lastObservedTime": book.wall.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            }
        }
        assert book.repeats() == []


def test_a_notice_that_comes_and_goes_is_repeated_no_more_often() -> None:
    book = Book()
    assert len(book.report(OWNERS)) == 1
    for _ in range(20):
        book.now += REPEAT / 25
        assert book.report() == []
        assert book.report(OWNERS) == []
    book.now += REPEAT
    assert book.report() == []
    assert [write.request.method for write in book.report(OWNERS)] == ["PATCH"]


def test_a_notice_that_has_ended_is_not_repeated() -> None:
    book = Book()
    book.report(OWNERS)
    book.report()
    book.now += REPEAT
    assert book.repeats() == []


def test_another_note_is_another_event() -> None:
    book = Book()
    book.report(OWNERS)
    note = "ScaledObject hello also scales it"
    [write] = book.report(Finding(OWNERS.reason, note))
    assert (write.request.method, body(write)["note"]) == ("POST", note)


def test_notices_with_one_reason_are_one_event() -> None:
    book = Book()
    warnings = [Finding(ScaleReason.SERVICE_WARNING, text) for text in ("a", "b")]
    [write] = book.report(*warnings)
    assert body(write)["note"] == "a; b"
    assert book.report(*warnings) == []


def test_a_note_that_never_stays_the_same_cannot_flood_the_cluster() -> None:
    book = Book()
    written = 0
    for n in range(1000):
        written += len(book.report(Finding(ScaleReason.TWO_OWNERS, f"note {n}")))
    assert written == BURST
    book.now += REFILL
    assert len(book.report(Finding(ScaleReason.TWO_OWNERS, "another"))) == 1
    # Other Services have their own limit.
    assert len(book.report(OWNERS, subject=Subject("shop", "other", "s2"))) == 1


def test_an_event_that_was_not_written_is_written_with_the_next_repeats() -> None:
    book = Book()
    [write] = book.report(OWNERS)
    book.book.lost(write, again=True)
    assert [each.request.method for each in book.repeats()] == ["POST"]
    book.now += REPEAT
    [write] = book.repeats()
    book.book.lost(write, again=False)
    assert book.repeats() == []
    book.now += REPEAT
    assert [each.request.method for each in book.repeats()] == ["POST"]


def test_a_service_without_notices_costs_nothing() -> None:
    book = Book()
    assert book.report() == []
    assert len(book.book) == 0
    book.report(OWNERS)
    book.report()
    book.now += REPEAT
    book.repeats()
    assert len(book.book) == 0
    [write] = book.report(OWNERS)
    book.book.remove(HELLO[:2])
    book.book.lost(write, again=True)
    assert len(book.book) == 0


@pytest.mark.parametrize("letter", ["a", "ß", "€", "😀"])
@pytest.mark.parametrize("length", [1, 255, 256, 340, 341, 342, 1024, 1025, 3000])
def test_a_note_has_no_more_bytes_than_the_api_server_takes(letter: str, length: int) -> None:
    note = shortened(letter * length)
    assert len(note.encode()) <= MOST_NOTE
    if len(letter.encode()) * length <= MOST_NOTE:
        assert note == letter * length
    else:
        assert note.endswith("...")
        assert len(note.encode()) > MOST_NOTE - 4


def test_names_within_the_limits() -> None:
    subject = Subject("shop", "x" * 253, "u")
    [write] = EventBook("p" * 300).report(subject, [OWNERS], 0, BEGIN)
    assert len(body(write)["metadata"]["name"]) <= 253
    assert len(body(write)["reportingInstance"]) == 128


class Server(ApiServer):
    """Records Events; ``failures`` are the responses to the next requests."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, Any]] = []
        self.failures: list[ApiResponse] = []
        self.at_once = self.most = 0

    async def send(
        self, method: str, path: str, body: bytes = b"", content_type: str = "application/json"
    ) -> ApiResponse:
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        await asyncio.sleep(0)
        self.at_once -= 1
        self.requests.append((method, json.loads(body)))
        return self.failures.pop(0) if self.failures else ApiResponse(201, b"{}")


async def later(seconds: float) -> None:
    """Return when the virtual clock is so much later."""
    reached = asyncio.Event()
    asyncio.get_running_loop().call_later(seconds, reached.set)
    await reached.wait()


class World:
    def __init__(self) -> None:
        self.server, self.tasks = Server(), Tasks()
        self.events = EventsPart(self.server, self.tasks.start, "scale-7d9f")

    async def report(self, *notices: Finding, subject: Subject = HELLO) -> None:
        self.events.report(subject, notices)
        await self.tasks.finish(5)

    @property
    def methods(self) -> list[str]:
        return [method for method, _ in self.server.requests]


async def test_a_notice_is_written_and_repeated_while_it_stays() -> None:
    world = World()
    await world.report(OWNERS)
    await world.report(OWNERS)
    assert world.methods == ["POST"]
    await later(REPEAT + LOOK)
    assert world.methods == ["POST", "PATCH"]
    await world.report()
    await later(2 * REPEAT)
    assert world.methods == ["POST", "PATCH"]
    assert world.events.failed == 0
    world.events.stop(0.0)


@pytest.mark.parametrize("failure", [no_response("refused"), status(500), status(409)])
async def test_a_failure_is_made_up_for_a_minute_later(failure: Any) -> None:
    world = World()
    world.server.failures = [failure]
    await world.report(OWNERS)
    assert world.events.failed == 1
    await later(LOOK + 1)
    assert world.methods == ["POST", "POST"]
    assert world.events.failed == 1
    world.events.stop(0.0)


async def test_a_missing_right_is_logged_once_with_the_rule(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World()
    world.server.failures = [status(403, "events.events.k8s.io is forbidden")] * 3
    with caplog.at_level(logging.INFO):
        for n in range(3):
            await world.report(Finding(ScaleReason.TWO_OWNERS, f"note {n}"))
    assert world.events.failed == 3
    [line] = caplog.messages
    assert line.startswith("Service shop/hello: the Event two-owners could not be written: 403:")
    assert 'resources: ["events"], verbs: ["create", "patch"]' in line
    world.events.stop(0.0)


async def test_many_events_are_few_requests_at_a_time_and_bounded_memory() -> None:
    world = World()
    for n in range(MOST_WAITING + 50):
        world.events.report(Subject("shop", f"s{n}", "u"), [OWNERS])
    await world.tasks.finish(5)
    assert world.server.most == MOST_REQUESTS
    assert len(world.methods) == MOST_WAITING
    # The dropped ones follow.
    await later(LOOK + 1)
    assert len(world.methods) == MOST_WAITING + 50
    world.events.stop(0.0)


async def test_closed_events_write_nothing_more() -> None:
    world = World()
    await world.report(OWNERS)
    world.events.stop(0.0)
    world.events.stop(0.0)
    await later(2 * REPEAT)
    assert world.methods == ["POST"]


async def test_a_deleted_service_is_not_repeated() -> None:
    world = World()
    await world.report(OWNERS)
    world.events.leave(ServiceName("shop", "hello"), 0.0)
    await later(2 * REPEAT)
    assert world.methods == ["POST"]
    world.events.stop(0.0)


async def events(kube: Cluster) -> dict[str, Any]:
    """Return the Events by reason; each reason may be there once."""
    found = (await kube.send("GET", EVENTS))["items"]
    by_reason = {each["reason"]: each for each in found}
    assert len(by_reason) == len(found)
    return by_reason


async def test_a_missing_right_is_an_event_on_the_service(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kube:
        kube.plane.faults.forbid("patch", "deployments/scale", "apps")
        await kube.add()
        async with leader(kube), scaler(kube, "scale-2"):
            await elapse(60)
            event = (await events(kube))["scale-forbidden"]
            assert event["regarding"]["name"] == "hello"
            assert event["regarding"]["uid"]
            assert "deployments/scale" in event["note"]


async def test_wrong_annotations_are_events_whether_there_was_a_good_state_or_not(
    tmp_path: Path,
) -> None:
    async with cluster(tmp_path) as kube:
        await kube.add("hello")
        await kube.add("never", port="No!")
        async with leader(kube) as running:
            await elapse(1)
            assert "port" in (await events(kube))["service-refused"]["note"]
            await kube.annotate("hello", min_scale="few")
            await elapse(1)
            note = (await events(kube))["service-warning"]["note"]
            assert "min-scale" in note
            assert note.endswith("; its last good state stays in force")
            view = await running.service("never")
            assert view["reason"] == "service-refused"


async def test_a_wrong_policy_at_the_start_is_an_event_and_the_service_is_scaled(
    tmp_path: Path,
) -> None:
    async with cluster(tmp_path) as kube:
        await kube.add(while_waiting="banner", route="next-version")
        async with leader(kube) as running, running.activator() as activator:
            await activator.report(1)
            await elapse(3)
            note = (await events(kube))["service-warning"]["note"]
            assert "[activator.dev/while-waiting]: expected" in note
            assert "[activator.dev/route]: expected" in note
            assert note.endswith(
                "; it has no last good state, so each wrong annotation has a safe default"
            )
            assert kube.replicas() == 1


async def test_a_healthy_service_has_no_events(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kube:
        await kube.add()
        async with leader(kube) as running, running.activator() as activator:
            await activator.report(1)
            await elapse(30)
            assert await events(kube) == {}


async def test_a_second_service_of_a_workload_has_an_event_that_names_the_first(
    tmp_path: Path,
) -> None:
    async with cluster(tmp_path) as kube:
        await kube.add("hello", replicas=1, idle_seconds="5")
        await kube.add("other", idle_seconds="5", target="Deployment/hello")
        async with leader(kube) as running, running.activator() as activator:
            await activator.report(1)
            await elapse(90)
            found = (await events(kube))["two-owners"]
            assert found["regarding"]["name"] == "other"
            assert "Service shop/hello" in found["note"]
