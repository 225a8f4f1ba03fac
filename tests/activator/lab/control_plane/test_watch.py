from __future__ import annotations

import asyncio
import json

from tests.activator.lab.control_plane.world import SERVICES, service

EVERYWHERE = "/api/v1/services"


async def test_bookmarks_come_to_watches_that_accept_them(world):
    path = f"{SERVICES}?watch=1&timeoutSeconds=150&resourceVersion={world.plane.store.version}"
    watch = await world.watch(f"{path}&allowWatchBookmarks=true")
    quiet = await world.watch(path)
    began = asyncio.get_running_loop().time()
    lines = [json.loads(line) async for line in watch.lines()]
    assert [line["type"] for line in lines] == ["BOOKMARK", "BOOKMARK"]
    assert lines[0]["object"]["kind"] == "Service"
    assert asyncio.get_running_loop().time() - began == 150.0
    assert [line async for line in quiet.lines()] == []


async def test_lines_come_as_objects_change(world):
    watch = await world.watch(f"{SERVICES}?watch=1")
    lines = watch.lines()
    waiting = asyncio.ensure_future(anext(lines))
    await asyncio.sleep(0)
    await world.send("POST", SERVICES, service("a"))
    assert json.loads(await waiting)["object"]["metadata"]["name"] == "a"
    watch.close()


async def test_a_silent_watch_sends_nothing_and_does_not_end_until_its_client_leaves(world):
    path = f"{SERVICES}?watch=1&timeoutSeconds=150"
    watch = await world.watch(path)
    world.plane.fall_silent()
    later = await world.watch(path)
    await world.send("POST", SERVICES, service("a"))
    asyncio.get_running_loop().call_later(1000.0, watch.close)
    began = asyncio.get_running_loop().time()
    assert [line async for line in watch.lines()] == []
    assert asyncio.get_running_loop().time() == began + 1000.0
    assert await world.events(later) == [("ADDED", "a")]
