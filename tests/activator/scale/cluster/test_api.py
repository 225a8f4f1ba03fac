"""Writes of objects, one at a time for each."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta, timezone

from activator.process.timers import Tasks
from activator.scale.cluster.api import KeyedWriter, micro_time

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def test_times_have_six_decimals_in_any_zone() -> None:
    assert micro_time(NOON.astimezone(timezone(timedelta(hours=2)))) == (
        "2026-01-01T12:00:00.000000Z"
    )


class Writes:
    """A writer of numbers to names, whose writes wait until the test lets them end."""

    def __init__(self, most: float = float("inf"), spare: tuple[str, ...] = ()) -> None:
        self.tasks = Tasks()
        self.begun: list[tuple[str, int]] = []
        self.may_end = asyncio.Event()
        self.spare = list(spare)
        self.writer = KeyedWriter[str, int](self.tasks.start, self._write, most, self._refill)

    async def _write(self, name: str, number: int) -> None:
        self.begun.append((name, number))
        await self.may_end.wait()

    def _refill(self) -> None:
        if self.spare and self.writer.has_room:
            self.writer.put(self.spare.pop(), 0)

    async def end(self) -> list[tuple[str, int]]:
        self.may_end.set()
        await self.tasks.finish(5)
        return self.begun


async def test_one_write_of_an_object_is_under_way_and_the_newest_wish_follows() -> None:
    writes = Writes()
    writes.writer.put("a", 1)
    writes.writer.put("a", 2)
    await asyncio.sleep(0)
    for number in (3, 4):
        writes.writer.put("a", number)
    writes.writer.put("b", 5)
    await asyncio.sleep(0)
    assert writes.begun == [("a", 2), ("b", 5)]
    assert writes.writer.is_busy("a")
    assert writes.writer.waiting == 1
    assert await writes.end() == [("a", 2), ("b", 5), ("a", 4)]
    assert not writes.writer.is_busy("a")


async def test_a_few_objects_are_written_at_a_time() -> None:
    writes = Writes(most=2, spare=("z",))
    for name in "abc":
        writes.writer.put(name, 0)
    await asyncio.sleep(0)
    assert [name for name, _ in writes.begun] == ["a", "b"]
    assert not writes.writer.has_room
    assert [name for name, _ in await writes.end()] == ["a", "b", "c", "z"]


async def test_wishes_that_have_not_begun_can_be_removed() -> None:
    writes = Writes(most=1)
    for name in "abc":
        writes.writer.put(name, 1)
    await asyncio.sleep(0)
    writes.writer.put("a", 2)
    assert writes.writer.waiting == 3
    writes.writer.clear()
    assert await writes.end() == [("a", 1)]


async def test_a_cancelled_write_does_not_block_its_object() -> None:
    writes = Writes(most=1)
    writes.writer.put("a", 1)
    await asyncio.sleep(0)
    await writes.tasks.close()
    writes.writer.put("a", 2)
    assert await writes.end() == [("a", 1), ("a", 2)]
