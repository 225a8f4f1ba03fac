from __future__ import annotations

import json

from activator.lab.control_plane.resources import DEPLOYMENTS, PODS, SERVICES
from activator.lab.controllers import Mirror


async def test_folder_has_the_objects_of_these_kinds(world, tmp_path):
    mirror = Mirror(world.plane.store, tmp_path, (DEPLOYMENTS, SERVICES))
    world.create(replicas=1)
    await world.settle()
    assert {path.name for path in tmp_path.iterdir()} == {
        "default.web.deployment.json",
        "default.web.service.json",
    }
    assert world.plane.store.select(PODS, "", lambda each: True)
    world.scale(3)
    found = json.loads((tmp_path / "default.web.deployment.json").read_text())
    assert found["spec"]["replicas"] == 3
    world.plane.act("delete", SERVICES, "default", "web")
    assert not (tmp_path / "default.web.service.json").exists()
    mirror.close()
    world.plane.act("delete", DEPLOYMENTS, "default", "web")
    assert (tmp_path / "default.web.deployment.json").exists()
