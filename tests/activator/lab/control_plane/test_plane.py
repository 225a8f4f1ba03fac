"""Requests, rights, faults and watches."""

from __future__ import annotations

import asyncio
import json

import pytest

from activator.lab.control_plane.plane import PlaneCall
from tests.activator.lab.control_plane.world import APPS, SERVICES, deployment, service

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


async def test_only_granted_rights_work(world):
    await world.send("POST", SERVICES, service())
    world.plane.faults.grant_only({PlaneCall("list", "", "services").right})
    await world.send("GET", SERVICES)
    assert (await world.refused("GET", f"{SERVICES}/web"))[0] == 403


async def test_requests_are_recorded_as_rbac_judges_them(world):
    await world.send("POST", APPS, deployment())
    await world.send("GET", f"{APPS}/w/scale")
    (await world.watch("/api/v1/services?watch=true")).close()
    assert world.plane.calls == [
        PlaneCall("create", "apps", "deployments", "shop"),
        PlaneCall("get", "apps", "deployments", "shop", "w", "scale"),
        PlaneCall("watch", "", "services"),
    ]
    assert world.plane.calls[1].right.resource == "deployments/scale"


async def test_server_that_is_away_breaks_watches_and_refuses_requests(world):
    watch = await world.watch(f"{SERVICES}?watch=true")
    world.plane.go_away()
    with pytest.raises(ConnectionError):
        await anext(watch.lines())
    with pytest.raises(ConnectionError):
        await world.send("GET", SERVICES)
    world.plane.come_back()
    await world.send("GET", SERVICES)


async def test_right_can_be_taken_and_given_back(world):
    faults = world.plane.faults
    faults.forbid("create", "services", "")
    assert (await world.refused("POST", SERVICES, service()))[0] == 403
    faults.allow("create", "services", "")
    await world.send("POST", SERVICES, service())


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
