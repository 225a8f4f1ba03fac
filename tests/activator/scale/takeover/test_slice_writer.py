"""The requests that write takeover slices, over an API server that may be slow or away."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from activator.process.tasks import Tasks
from activator.scale.cluster.api import ApiUnreachable
from activator.scale.reports.load import Name
from activator.scale.takeover.slice_writer import MOST_REQUESTS, SliceWriter
from activator.scale.takeover.slices import Family
from activator.scale.takeover.takeovers import Takeovers
from tests.activator.scale.fake_api import status
from tests.activator.scale.takeover.slice_api import SliceApi
from tests.activator.scale.takeover.test_takeovers import A, parsed


class World:
    """A writer in virtual time."""

    def __init__(self, services: int = 1) -> None:
        self.api = SliceApi()
        self.tasks = Tasks()
        self.takeovers = Takeovers()
        self.takeovers.set_activators({Family.IPV4: (A,)})
        for n in range(services):
            self.takeovers.put(parsed(f"s{n}"), 0.0, takes_over=True)
        self.changed: list[Name] = []
        self.news = asyncio.Event()
        self.leads = True
        self.clock = asyncio.get_running_loop().time
        self.writer = SliceWriter(
            *(self.api, self.takeovers, self.tasks.start, self.clock, lambda: self.leads),
            self._changed,
        )
        self.takeovers.start()

    def _changed(self, name: Name) -> None:
        self.changed.append(name)
        self.news.set()

    async def written(self, slices: int) -> None:
        """Wait until so many slices exist."""
        while len(self.api.slices) < slices:
            self.news.clear()
            await self.news.wait()


async def test_slices_are_written_and_each_write_is_reported() -> None:
    world = World(3)
    world.writer.poke()
    await world.tasks.finish(5)
    assert {name for _, name in world.api.slices} == {f"s{n}-activator" for n in range(3)}
    assert sorted(world.changed) == [Name("shop", f"s{n}") for n in range(3)]


async def test_a_change_of_all_slices_is_a_few_requests_at_a_time() -> None:
    world = World(100)
    at_once = most = 0

    async def pause() -> None:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0)
        at_once -= 1

    world.api.pause = pause
    world.writer.poke()
    await world.written(100)
    assert most == MOST_REQUESTS


@pytest.mark.parametrize(
    "failure", [ApiUnreachable("connection refused"), status(500, "etcd"), status(403, "forbidden")]
)
async def test_a_failed_write_is_repeated_without_another_event(failure: Any) -> None:
    world = World()
    world.api.script.extend([failure, failure])
    world.writer.poke()
    await world.written(1)
    assert world.clock() == 0.5 + 1
    assert world.changed == [Name("shop", "s0")] * 3


async def test_the_log_names_the_slice_and_the_failure(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.api.script.append(status(403, "endpointslices is forbidden"))
    with caplog.at_level(logging.INFO):
        world.writer.poke()
        await world.written(1)
        await world.tasks.finish(5)
    assert caplog.messages == [
        "EndpointSlice shop/s0-activator: POST failed: endpointslices is forbidden",
        "EndpointSlice shop/s0-activator: POST",
    ]


async def test_a_process_that_does_not_lead_writes_nothing() -> None:
    world = World()
    world.leads = False
    world.writer.poke()
    await world.tasks.finish(5)
    assert world.api.requests == []
    world.leads = True
    world.writer.poke()
    await world.tasks.finish(5)
    assert len(world.api.slices) == 1


async def test_a_closed_writer_repeats_nothing() -> None:
    world = World()
    world.api.script.append(status(500))
    world.writer.poke()
    await world.tasks.finish(5)
    world.writer.close()
    await asyncio.sleep(0)
    assert len(world.api.requests) == 1


async def test_a_cancelled_request_does_not_block_its_slice() -> None:
    world = World()
    world.api.pause = asyncio.Event().wait  # type: ignore[assignment] # never responds
    world.writer.poke()
    await asyncio.sleep(0)
    await world.tasks.close()
    world.api.pause = None
    world.writer.poke()
    await world.written(1)
