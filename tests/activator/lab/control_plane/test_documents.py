from __future__ import annotations

from activator.lab.control_plane.resources import SCALED_OBJECTS


async def test_plural_is_found_by_discovery(world):
    found = await world.send("GET", "/apis/apps/v1")
    kinds = {each["name"]: each["kind"] for each in found["resources"]}
    assert kinds["deployments"] == "Deployment"
    assert kinds["deployments/scale"] == "Scale"
    short = {each["name"]: each.get("shortNames") for each in found["resources"]}
    assert (short["deployments"], short["deployments/scale"]) == (["deploy"], None)
    assert found["groupVersion"] == "apps/v1"
    core = await world.send("GET", "/api/v1")
    assert "services/scale" not in {each["name"] for each in core["resources"]}


async def test_groups_come_and_go_with_their_kinds(world):
    async def groups() -> set[str]:
        return {group["name"] for group in (await world.send("GET", "/apis"))["groups"]}

    assert {"apps", "keda.sh"} <= await groups()
    assert (await world.send("GET", "/apis/keda.sh"))["preferredVersion"]["version"] == "v1alpha1"
    world.plane.resources.remove(SCALED_OBJECTS)
    assert "keda.sh" not in await groups()
    assert await world.try_("GET", "/apis/keda.sh/v1alpha1") == (404, "404 page not found\n")


async def test_version_and_health(world):
    assert (await world.send("GET", "/version"))["gitVersion"].startswith("v1.")
    assert await world.try_("GET", "/readyz") == (200, "ok")
