from __future__ import annotations

import pytest

from tests.activator.lab.control_plane.world import APPS, SCALED, deployment


async def test_scale_at_zero_has_no_replicas(world):
    made = await world.send("POST", APPS, deployment())
    scale = await world.send("GET", f"{APPS}/w/scale")
    assert scale["spec"] == {}
    assert scale["kind"] == "Scale"
    assert scale["status"] == {"replicas": 0, "selector": "app=w"}
    for name in ("uid", "resourceVersion"):
        assert scale["metadata"][name] == made["metadata"][name]


async def test_scale_of_one_sets_the_replicas(world):
    await world.send("POST", APPS, deployment())
    scale = await world.send("PATCH", f"{APPS}/w/scale", {"spec": {"replicas": 1}})
    assert scale["spec"] == {"replicas": 1}
    assert (await world.send("GET", f"{APPS}/w"))["spec"]["replicas"] == 1
    scale = await world.send("PUT", f"{APPS}/w/scale", {**scale, "spec": {}})
    assert scale["spec"] == {}


@pytest.mark.parametrize("wrong", [-1, "1", 1.5, True])
async def test_wrong_replicas_are_refused(world, wrong):
    await world.send("POST", APPS, deployment())
    status, _ = await world.refused("PATCH", f"{APPS}/w/scale", {"spec": {"replicas": wrong}})
    assert status == 422


async def test_missing_target_and_unscalable_kind_are_not_found(world):
    assert await world.refused("GET", f"{APPS}/w/scale") == (404, 'deployments.apps "w" not found')
    assert (await world.refused("GET", f"{APPS}/w/other"))[0] == 404
    services = "/api/v1/namespaces/shop/services/web/scale"
    assert (await world.refused("GET", services))[0] == 404


async def test_custom_resource_without_replicas_fails_to_read_but_can_be_patched(world):
    from activator.lab.control_plane.resources import SCALED_OBJECTS

    world.plane.resources.add(SCALED_OBJECTS._replace(scalable=True))
    await world.send("POST", SCALED, {"metadata": {"name": "s"}, "spec": {}})
    status, message = await world.refused("GET", f"{SCALED}/s/scale")
    assert status == 500
    assert 'spec replicas field ".spec.replicas" does not exist' in message
    await world.send("PATCH", f"{SCALED}/s/scale", {"spec": {"replicas": 1}})
    assert (await world.send("GET", f"{SCALED}/s/scale"))["spec"] == {"replicas": 1}
