from __future__ import annotations

from tests.activator.lab.control_plane.world import APPS, deployment


async def test_write_of_the_object_names_who_set_the_replicas(world):
    await world.send("POST", APPS, deployment())
    found = await world.send("PATCH", f"{APPS}/w?fieldManager=argocd", {"spec": {"replicas": 3}})
    (entry,) = found["metadata"]["managedFields"]
    assert entry["manager"] == "argocd"
    assert entry["fieldsV1"] == {"f:spec": {"f:replicas": {}}}
    assert entry["time"] == "2026-03-01T12:00:00Z"
