from __future__ import annotations

from tests.activator.lab.control_plane.world import (
    APPS,
    LEASES,
    SERVICES,
    deployment,
    lease,
    service,
)
from tests.rows import naming

MODIFIED = (
    'Operation cannot be fulfilled on deployments.apps "w": the object has been modified; please '
    "apply your changes to the latest version and try again"
)


async def test_patch_of_another_version_conflicts(world):
    made = await world.send("POST", APPS, deployment())
    version = int(made["metadata"]["resourceVersion"])

    def patch(number: int) -> dict[str, object]:
        return {"metadata": {"resourceVersion": str(number)}, "spec": {"replicas": 1}}

    for other in (version - 1, version + 1):  # stale, and of the future
        with naming(other):
            for path in (f"{APPS}/w", f"{APPS}/w/scale"):
                assert await world.refused("PATCH", path, patch(other)) == (409, MODIFIED)
    await world.send("PATCH", f"{APPS}/w/scale", patch(version))


async def test_patch_with_a_version_that_is_no_number_fails(world):
    await world.send("POST", APPS, deployment())
    for wrong, status in (("abc", 500), (7, 422)):
        for path in (f"{APPS}/w", f"{APPS}/w/scale"):
            with naming(wrong, path):
                patch = {"metadata": {"resourceVersion": wrong}, "spec": {"replicas": 1}}
                assert (await world.refused("PATCH", path, patch))[0] == status


async def test_patch_of_another_uid_conflicts(world):
    await world.send("POST", APPS, deployment())
    patch = {"metadata": {"uid": "other"}, "spec": {"replicas": 1}}
    status, message = await world.refused("PATCH", f"{APPS}/w/scale", patch)
    assert status == 409
    assert "Precondition failed: UID in precondition: other, UID in object meta: " in message


async def test_patch_without_a_version_always_works(world):
    await world.send("POST", LEASES, lease())
    await world.send("PATCH", f"{LEASES}/leader", {"spec": {"holderIdentity": "b"}})
    found = await world.send("PATCH", f"{LEASES}/leader", {"spec": {"holderIdentity": "c"}})
    assert found["spec"]["holderIdentity"] == "c"


async def test_write_that_changes_nothing_makes_no_version(world):
    made = await world.send("POST", APPS, deployment())
    found = await world.send("PATCH", f"{APPS}/w", {"spec": {"replicas": 0}})
    assert found == made


async def test_put_needs_the_version_of_some_kinds(world):
    await world.send("POST", LEASES, lease())
    assert (await world.refused("PUT", f"{LEASES}/leader", lease()))[0] == 422
    made = await world.send("POST", SERVICES, service())
    changed = service(labels={"a": "b"})
    found = await world.send("PUT", f"{SERVICES}/web", changed)
    assert found["metadata"]["uid"] == made["metadata"]["uid"]


async def test_put_of_a_missing_object_creates_some_kinds(world):
    assert (await world.try_("PUT", f"{LEASES}/leader", lease()))[0] == 201
    assert await world.refused("PUT", f"{APPS}/w", deployment()) == (
        404,
        'deployments.apps "w" not found',
    )


async def test_object_is_created_once_and_without_a_version(world):
    await world.send("POST", LEASES, lease())
    assert await world.refused("POST", LEASES, lease()) == (
        409,
        'leases.coordination.k8s.io "leader" already exists',
    )
    versioned = {"metadata": {"name": "x", "resourceVersion": "5"}, "spec": {}}
    assert (await world.refused("POST", LEASES, versioned))[0] == 500


async def test_name_may_be_generated(world):
    found = service()
    found["metadata"] = {"generateName": "web-"}
    made = await world.send("POST", SERVICES, found)
    assert made["metadata"]["name"].startswith("web-")
    assert made["metadata"]["namespace"] == "shop"


async def test_body_that_contradicts_the_path_is_a_bad_request(world):
    other = service(namespace="other")
    assert (await world.refused("POST", SERVICES, other))[0] == 400
    await world.send("POST", SERVICES, service())
    assert (await world.refused("PUT", f"{SERVICES}/web", service("b")))[0] == 400
    assert (await world.refused("POST", APPS, {**deployment(), "kind": "Pod"}))[0] == 400


async def test_other_patches_are_refused(world):
    await world.send("POST", SERVICES, service())
    for kind in ("application/json-patch+json", "application/apply-patch+yaml"):
        with naming(kind):
            assert (await world.refused("PATCH", f"{SERVICES}/web", {}, kind))[0] == 415


async def test_generation_counts_changes_of_the_spec(world):
    await world.send("POST", APPS, deployment())
    labelled = await world.send("PATCH", f"{APPS}/w", {"metadata": {"labels": {"a": "b"}}})
    scaled = await world.send("PATCH", f"{APPS}/w", {"spec": {"replicas": 2}})
    assert [each["metadata"]["generation"] for each in (labelled, scaled)] == [1, 2]


async def test_conflicts_may_be_switched_on(world):
    from activator.lab.control_plane.resources import DEPLOYMENTS

    await world.send("POST", APPS, deployment())
    world.plane.faults.conflict(DEPLOYMENTS, 2)
    patch = {"spec": {"replicas": 1}}
    statuses = [(await world.try_("PATCH", f"{APPS}/w/scale", patch))[0] for _ in range(3)]
    assert statuses == [409, 409, 200]


async def test_delete_may_demand_a_uid(world):
    made = await world.send("POST", SERVICES, service())
    wrong = {"preconditions": {"uid": "other"}}
    assert (await world.refused("DELETE", f"{SERVICES}/web", wrong))[0] == 409
    right = {"preconditions": {"uid": made["metadata"]["uid"]}}
    found = await world.send("DELETE", f"{SERVICES}/web", right)
    assert found["status"] == "Success"


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
