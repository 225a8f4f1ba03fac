"""The event feed: what each reader gets, what slow readers lose, and how readers resume."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from activator.admin.event_feed import LINGER, PIECE, EventFeed, EventReader, TooManyReaders
from activator.records.narration import EventKind, Events
from throttler.model import RevisionID, RevisionKind

HELLO, OTHER = RevisionID("default", "hello"), RevisionID("default", "other")
BEGAN, ENDED = EventKind.QUEUE_BEGAN, EventKind.QUEUE_ENDED


@pytest.fixture
def events() -> Events:
    return Events()


def feed_of(events: Events, kept: int = 10, most_readers: int = 3) -> EventFeed:
    return EventFeed(events, lambda: 1_700_000_000.25, kept, most_readers)


def publish(events: Events, *numbers: int, revision: RevisionID = HELLO) -> None:
    for number in numbers:
        events.publish(BEGAN, revision, {"n": number})


def parse(text: bytes) -> list[tuple[str, str, dict[str, Any]]]:
    """Return the events of a stream: id, kind, data."""
    found = []
    for block in text.decode().split("\n\n")[:-1]:
        fields = dict(line.split(": ", 1) for line in block.split("\n"))
        found.append((fields["id"], fields["event"], json.loads(fields["data"])))
    return found


def numbers(reader: EventReader) -> list[Any]:
    """Return the numbers of the events that a reader reads now, and other events by name."""
    return [
        data["n"] if "n" in data else (kind, data.get("events"))
        for _, kind, data in parse(reader.piece())
    ]


def last_id(text: bytes) -> str:
    return parse(text)[-1][0]


async def test_a_new_reader_gets_a_greeting_and_later_events(events: Events) -> None:
    feed = feed_of(events)
    feed.join({})
    publish(events, 1)
    reader = feed.join({"podName": "activator-1"})
    text = reader.piece()
    assert text.startswith(b"retry: 2000\n")
    ((_, kind, data),) = parse(text)
    assert (kind, data) == ("hello", {"podName": "activator-1"})
    assert reader.piece() == b""
    publish(events, 2)
    assert reader.behind
    ((_, kind, data),) = parse(reader.piece())
    assert kind == "queue-began"
    assert data == {"time": "2023-11-14T22:13:20.250Z", "revision": "default/hello", "n": 2}
    assert not reader.behind


async def test_text_from_outside_ends_no_line(events: Events) -> None:
    feed = feed_of(events)
    reader = feed.join({})
    reader.piece()
    why = "a\n\nevent: lost\ndata: {}\r\n\u2028\ud800"
    events.publish(EventKind.POD_CHANGED, HELLO, {"why": why})
    ((_, kind, data),) = parse(reader.piece())
    assert (kind, data["why"]) == ("pod-changed", why)


async def test_filters_choose_by_revision_and_kind(events: Events) -> None:
    feed = feed_of(events)
    hello = feed.join({}, revisions=["default/hello"])
    ends = feed.join({}, kinds=[ENDED])
    hello.piece()
    ends.piece()
    publish(events, 1)
    publish(events, 2, revision=OTHER)
    events.publish(ENDED, OTHER, {"n": 3})
    assert numbers(hello) == [1]
    assert numbers(ends) == [3]


async def test_an_event_of_a_service_has_its_kind(events: Events) -> None:
    reader = feed_of(events).join({})
    reader.piece()  # hello
    publish(events, 1)
    publish(events, 2, revision=RevisionID("default", "hello", RevisionKind.SERVICE))
    found = [data for _, _, data in parse(reader.piece())]
    assert [each["revision"] for each in found] == ["default/hello"] * 2
    assert [each.get("revisionKind") for each in found] == [None, "service"]


async def test_a_slow_reader_loses_the_oldest_and_gets_their_number(events: Events) -> None:
    feed = feed_of(events, kept=4)
    slow, quick = feed.join({}), feed.join({})
    slow.piece()
    quick.piece()
    for number in range(1, 10):
        publish(events, number)
        assert numbers(quick) == [number]
    assert numbers(slow) == [("lost", 5), 6, 7, 8, 9]
    publish(events, 10)
    assert numbers(slow) == [10]


async def test_a_piece_is_bounded_and_the_rest_comes_next(events: Events) -> None:
    feed = feed_of(events)
    reader = feed.join({})
    reader.piece()
    for _ in range(5):
        events.publish(BEGAN, HELLO, {"why": "x" * (PIECE // 2)})
    pieces = [parse(reader.piece()) for _ in range(4)]
    assert [len(piece) for piece in pieces] == [2, 2, 1, 0]


async def test_a_reader_that_resumes_gets_the_events_since(events: Events) -> None:
    feed = feed_of(events)
    reader = feed.join({})
    publish(events, 1)
    known = last_id(reader.piece())
    feed.leave(reader)
    publish(events, 2, 3)
    assert numbers(feed.join({}, known)) == [("hello", None), 2, 3]


async def test_a_reader_that_resumes_too_late_gets_the_number_of_lost_events(
    events: Events,
) -> None:
    feed = feed_of(events, kept=2)
    reader = feed.join({})
    known = last_id(reader.piece())
    feed.leave(reader)
    publish(events, 1, 2, 3)
    assert numbers(feed.join({}, known)) == [("hello", None), ("lost", 1), 2, 3]


@pytest.mark.parametrize(
    "known",
    ["1", "deadbeef-1", "{}-99", "{}--1", "{}-", "{}-٣", "{}-" + "9" * 5000, "-0", "x"],
)
async def test_an_id_that_is_not_ours_means_that_anything_may_be_lost(
    events: Events, known: str
) -> None:
    feed = feed_of(events)
    session = last_id(feed.join({}).piece()).partition("-")[0]
    publish(events, 1)
    back = feed.join({}, known.format(session))
    assert numbers(back) == [("hello", None), ("lost", None)]
    publish(events, 2)
    assert numbers(back) == [2]


async def test_events_are_made_while_there_is_a_reader_and_a_minute_longer(events: Events) -> None:
    feed = feed_of(events)
    assert not events.listeners
    reader = feed.join({})
    known = last_id(reader.piece())
    feed.leave(reader)
    await feed.pause(LINGER - 1)
    back = feed.join({}, known)
    assert numbers(back) == [("hello", None)]
    await feed.pause(LINGER)
    assert events.listeners
    feed.leave(back)
    await feed.pause(LINGER + 1)
    assert not events.listeners
    # The reader must learn that it missed events.
    assert numbers(feed.join({}, known)) == [("hello", None), ("lost", None)]


async def test_readers_are_bounded(events: Events) -> None:
    feed = feed_of(events, most_readers=2)
    reader = feed.join({})
    feed.join({})
    with pytest.raises(TooManyReaders):
        feed.join({})
    feed.leave(reader)
    feed.leave(reader)
    feed.join({})
    assert feed.readers == 2


async def test_sleepers_wake_one_by_one_with_the_first_event(events: Events) -> None:
    feed = feed_of(events)
    feed.join({})
    loop = asyncio.get_running_loop()
    awake: list[int] = []

    async def doze(number: int) -> None:
        await feed.news(100.0)
        await feed.turn()
        awake.append(number)

    tasks = [loop.create_task(doze(number)) for number in range(5)]
    await asyncio.sleep(0)
    tasks[1].cancel()
    await asyncio.sleep(0)
    publish(events, 1, 2)
    turns = []
    while len(awake) < 4:
        turns.append(len(awake))
        await asyncio.sleep(0)
    assert awake == [0, 2, 3, 4]
    assert {1, 2, 3} <= set(turns)
    assert loop.time() == 0.0


async def test_readers_whose_pause_ends_together_take_turns(events: Events) -> None:
    feed = feed_of(events)
    first, awake = asyncio.Event(), list[int]()

    async def read(number: int) -> None:
        await feed.pause(0.1)
        await feed.turn()
        awake.append(number)
        first.set()

    loop = asyncio.get_running_loop()
    tasks = [loop.create_task(read(number)) for number in range(4)]
    await first.wait()
    turns = []
    while len(awake) < len(tasks):
        turns.append(len(awake))
        await asyncio.sleep(0)
    assert {1, 2, 3} <= set(turns)


async def test_silence_and_the_end_wake_as_well(events: Events) -> None:
    feed = feed_of(events)
    feed.join({})
    loop = asyncio.get_running_loop()
    await feed.news(15.0)
    assert loop.time() == 15.0
    loop.call_later(1.0, feed.close)
    await asyncio.gather(feed.news(15.0), feed.pause(15.0))
    assert loop.time() == 16.0
    assert feed.closed
    assert not events.listeners


@pytest.mark.untraced
async def test_a_flood_costs_an_append_an_event_with_any_number_of_readers(events: Events) -> None:
    feed = feed_of(events, kept=1000, most_readers=100)
    readers = [feed.join({}) for _ in range(100)]
    publish(events, *range(10_000))
    assert len(list(feed.since(feed.oldest))) == 1000
    # The feed renders no event until the first reader reads it, and then once for all readers.
    assert not any(told.made for told in feed.since(feed.oldest))
    texts = {id(told) for told in feed.since(feed.oldest)}
    for reader in readers:
        assert numbers(reader)[1:3] == [("lost", 9000), 9000]
    assert {id(told) for told in feed.since(feed.oldest)} == texts
