from __future__ import annotations

from tests.activator.lab.control_plane.world import (
    APPS,
    SERVICES,
    deployment,
    service,
)
from tests.rows import naming

MODIFIED = (
    'Operation cannot be fulfilled on deployments.apps "w": the object has been modified; please '
    "apply your changes to the latest version and try again"
)


async def test_name_may_be_generated(world):
    found = service()
    found["metadata"] = {"generateName": "web-"}
    made = await world.send("POST", SERVICES, found)
    assert made["metadata"]["name"].startswith("web-")
    assert made["metadata"]["namespace"] == "shop"


async def test_other_patches_are_refused(world):
    await world.send("POST", SERVICES, service())
    for kind in ("application/json-patch+json", "application/apply-patch+yaml"):
        with naming(kind):
            assert (await world.refused("PATCH", f"{SERVICES}/web", {}, kind))[0] == 415


async def test_conflicts_may_be_switched_on(world):
    from activator.lab.control_plane.resources import DEPLOYMENTS

    await world.send("POST", APPS, deployment())
    world.plane.faults.conflict(DEPLOYMENTS, 2)
    patch = {"spec": {"replicas": 1}}
    statuses = [(await world.try_("PATCH", f"{APPS}/w/scale", patch))[0] for _ in range(3)]
    assert statuses == [409, 409, 200]


async def test_pod_on_a_node_terminates_until_kubelet_deletes_it(world):
    pods = "/api/v1/namespaces/shop/pods"
    pod = {"metadata": {"name": "p"}, "spec": {"nodeName": "n", "containers": [{"name": "c"}]}}
    await world.send("POST", pods, pod)
    found = await world.send("DELETE", f"{pods}/p")
    assert found["metadata"]["deletionTimestamp"] == "2026-03-01T12:00:00Z"
    assert found["metadata"]["deletionGracePeriodSeconds"] == 30
    await world.send("DELETE", f"{pods}/p", {"gracePeriodSeconds": 0})
    assert (await world.refused("GET", f"{pods}/p"))[0] == 404


async def test_object_with_a_finalizer_stays_until_the_finalizer_is_removed(world):
    await world.send("POST", SERVICES, service(finalizers=["example.com/f"]))
    await world.send("DELETE", f"{SERVICES}/web")
    assert "deletionTimestamp" in (await world.send("GET", f"{SERVICES}/web"))["metadata"]
    await world.send("PATCH", f"{SERVICES}/web", {"metadata": {"finalizers": None}})
    assert (await world.refused("GET", f"{SERVICES}/web"))[0] == 404


async def test_openshift_demands_a_right_for_changed_addresses(world):
    from tests.activator.lab.control_plane.world import SLICES, slice_

    world.plane.faults.forbid("create", "endpointslices/restricted", "discovery.k8s.io")
    assert (await world.refused("POST", SLICES, slice_("a", "10.0.0.1")))[0] == 403
    await world.send("POST", SLICES, slice_("a"))
    labels = {"metadata": {"labels": {"a": "b"}}}
    await world.send("PATCH", f"{SLICES}/a", labels)
    changed = {"endpoints": [{"addresses": ["10.0.0.1"]}]}
    assert (await world.refused("PATCH", f"{SLICES}/a", changed))[0] == 403
