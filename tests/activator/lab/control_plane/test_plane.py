from __future__ import annotations

import asyncio

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


async def test_slow_server_responds_late(world):
    world.plane.faults.delay = 3.0
    before = asyncio.get_running_loop().time()
    await world.send("GET", SERVICES)
    assert asyncio.get_running_loop().time() - before == 3.0
