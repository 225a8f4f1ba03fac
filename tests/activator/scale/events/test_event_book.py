"""Which Events are written about a Service, and when one is repeated."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from activator.scale.events.event_book import (
    BURST,
    MOST_NOTE,
    REFILL,
    REPEAT,
    EventBook,
    EventWrite,
    Notice,
    Subject,
    shortened,
)

HELLO = Subject("shop", "hello", "s1")
EVENTS = "/apis/events.k8s.io/v1/namespaces/shop/events"
OWNERS = Notice("two-owners", "HPA hello also scales Deployment hello")
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


class Book:
    """An EventBook with a clock."""

    def __init__(self) -> None:
        self.book = EventBook("scale-7d9f")
        self.now = 0.0

    @property
    def wall(self) -> datetime:
        return BEGIN + timedelta(seconds=self.now)

    def report(self, *notices: Notice, subject: Subject = HELLO) -> list[EventWrite]:
        return self.book.report(subject, notices, self.now, self.wall)

    def repeats(self) -> list[EventWrite]:
        return self.book.repeats(self.now, self.wall)


def body(write: EventWrite) -> Any:
    return json.loads(write.body)


def test_an_event_has_the_fields_that_the_api_server_requires() -> None:
    [write] = Book().report(OWNERS)
    assert write[:2] == ("POST", EVENTS)
    assert write.content_type == "application/json"
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
    notices = [Notice(f"reason-{n}", "x") for n in range(BURST)]
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
        assert again[:2] == ("PATCH", f"{EVENTS}/{body(first)['metadata']['name']}")
        assert again.content_type == "application/merge-patch+json"
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
    assert [write.method for write in book.report(OWNERS)] == ["PATCH"]


def test_a_notice_that_has_ended_is_not_repeated() -> None:
    book = Book()
    book.report(OWNERS)
    book.report()
    book.now += REPEAT
    assert book.repeats() == []


def test_another_note_is_another_event() -> None:
    book = Book()
    book.report(OWNERS)
    [write] = book.report(OWNERS._replace(note="ScaledObject hello also scales it"))
    assert (write.method, body(write)["note"]) == ("POST", "ScaledObject hello also scales it")


def test_notices_with_one_reason_are_one_event() -> None:
    book = Book()
    warnings = [Notice("service-warning", text) for text in ("a", "b")]
    [write] = book.report(*warnings)
    assert body(write)["note"] == "a; b"
    assert book.report(*warnings) == []


def test_the_type_of_an_event() -> None:
    [write] = Book().report(Notice("scaled", "0 -> 1", is_warning=False))
    assert body(write)["type"] == "Normal"


def test_a_note_that_never_stays_the_same_cannot_flood_the_cluster() -> None:
    book = Book()
    written = 0
    for n in range(1000):
        written += len(book.report(Notice("two-owners", f"note {n}")))
    assert written == BURST
    book.now += REFILL
    assert len(book.report(Notice("two-owners", "another"))) == 1
    # Other Services have their own limit.
    assert len(book.report(OWNERS, subject=Subject("shop", "other", "s2"))) == 1


def test_an_event_that_was_not_written_is_written_with_the_next_repeats() -> None:
    book = Book()
    [write] = book.report(OWNERS)
    book.book.lost(write, again=True)
    assert [each.method for each in book.repeats()] == ["POST"]
    book.now += REPEAT
    [write] = book.repeats()
    book.book.lost(write, again=False)
    assert book.repeats() == []
    book.now += REPEAT
    assert [each.method for each in book.repeats()] == ["POST"]


def test_a_service_without_notices_costs_nothing() -> None:
    book = Book()
    assert book.report() == []
    assert not book.book._pages
    book.report(OWNERS)
    book.report()
    book.now += REPEAT
    book.repeats()
    assert not book.book._pages
    [write] = book.report(OWNERS)
    book.book.remove(HELLO)
    book.book.lost(write, again=True)
    assert not book.book._pages


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
