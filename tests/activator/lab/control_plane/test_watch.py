from __future__ import annotations

import asyncio
import json

from tests.activator.lab.control_plane.world import SERVICES, service

EVERYWHERE = "/api/v1/services"


async def test_watch_begins_with_all_objects_without_a_version(world):
    await world.send("POST", SERVICES, service("a"))
    watch = await world.watch(f"{SERVICES}?watch=true")
    await world.send("POST", SERVICES, service("b"))
    await world.send("DELETE", f"{SERVICES}/a")
    events = [("ADDED", "a"), ("ADDED", "b"), ("DELETED", "a")]
    assert await world.events(watch) == events


async def test_watch_begins_after_its_version(world):
    await world.send("POST", SERVICES, service("a"))
    version = (await world.send("GET", EVERYWHERE))["metadata"]["resourceVersion"]
    await world.send("PATCH", f"{SERVICES}/a", {"metadata": {"labels": {"x": "y"}}})
    watch = await world.watch(f"{EVERYWHERE}?watch=1&resourceVersion={version}")
    assert await world.events(watch) == [("MODIFIED", "a")]


async def test_watch_of_a_compacted_version_ends_with_410(world):
    version = world.plane.store.version
    await world.send("POST", SERVICES, service("a"))
    world.plane.store.compact()
    watch = await world.watch(f"{EVERYWHERE}?watch=1&resourceVersion={version}")
    (line,) = [json.loads(line) async for line in watch.lines()]
    assert (line["type"], line["object"]["code"]) == ("ERROR", 410)
    assert line["object"]["reason"] == "Expired"


async def test_object_that_leaves_the_selection_is_deleted_for_the_watch(world):
    path = f"{SERVICES}?watch=1&labelSelector=app%3Dx"
    watch = await world.watch(path)
    await world.send("POST", SERVICES, service("a", labels={"app": "x"}))
    await world.send("POST", SERVICES, service("b"))
    await world.send("PATCH", f"{SERVICES}/a", {"metadata": {"labels": {"app": "y"}}})
    await world.send("PATCH", f"{SERVICES}/b", {"metadata": {"labels": {"app": "x"}}})
    assert await world.events(watch) == [("ADDED", "a"), ("DELETED", "a"), ("ADDED", "b")]


async def test_watch_of_one_object_and_of_one_namespace(world):
    one = await world.watch(f"{EVERYWHERE}?watch=1&fieldSelector=metadata.name%3Db")
    other = await world.watch("/api/v1/namespaces/other/services?watch=1")
    for name in ("a", "b"):
        await world.send("POST", SERVICES, service(name))
    assert await world.events(one) == [("ADDED", "b")]
    assert await world.events(other) == []


async def test_bookmarks_come_to_watches_that_accept_them(world):
    watch = await world.watch(f"{SERVICES}?watch=1&allowWatchBookmarks=true&timeoutSeconds=150")
    quiet = await world.watch(f"{SERVICES}?watch=1&timeoutSeconds=150")
    began = asyncio.get_running_loop().time()
    lines = [json.loads(line) async for line in watch.lines()]
    assert [line["type"] for line in lines] == ["BOOKMARK", "BOOKMARK"]
    assert lines[0]["object"]["kind"] == "Service"
    assert asyncio.get_running_loop().time() - began == 150.0
    assert [line async for line in quiet.lines()] == []


async def test_initial_events_end_with_a_bookmark(world):
    await world.send("POST", SERVICES, service("a"))
    query = "watch=1&sendInitialEvents=true&allowWatchBookmarks=true"
    watch = await world.watch(f"{SERVICES}?{query}&resourceVersionMatch=NotOlderThan")
    watch.close()
    added, end = [json.loads(line) async for line in watch.lines()]
    assert added["type"] == "ADDED"
    assert end["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


async def test_lines_come_as_objects_change(world):
    watch = await world.watch(f"{SERVICES}?watch=1")
    lines = watch.lines()
    waiting = asyncio.ensure_future(anext(lines))
    await asyncio.sleep(0)
    await world.send("POST", SERVICES, service("a"))
    assert json.loads(await waiting)["object"]["metadata"]["name"] == "a"
    watch.close()


async def test_a_silent_watch_sends_nothing_and_does_not_end_until_its_client_leaves(world):
    path = f"{SERVICES}?watch=1&allowWatchBookmarks=true&timeoutSeconds=150"
    watch = await world.watch(path)
    world.plane.fall_silent()
    later = await world.watch(path)
    await world.send("POST", SERVICES, service("a"))
    asyncio.get_running_loop().call_later(1000.0, watch.close)
    began = asyncio.get_running_loop().time()
    assert [line async for line in watch.lines()] == []
    assert asyncio.get_running_loop().time() == began + 1000.0
    assert await world.events(later) == [("ADDED", "a")]
