"""Creates, changes and deletes: fields, refusals, managers and dependents."""

from __future__ import annotations

import asyncio

from activator.lab.control_plane.writes import merge
from tests.activator.lab.control_plane.world import (
    APPS,
    SERVICES,
    SLICES,
    deployment,
    service,
    slice_,
)
from tests.control_plane.validation import wrong_address
from tests.rows import naming


def test_examples_of_the_rfc():
    for target, patch, wanted in (
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a"], {"a": "b"}, {"a": "b"}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ):
        with naming(target, patch):
            assert merge(target, patch) == wanted


def test_neither_argument_changes():
    target, patch = {"a": {"b": 1}}, {"a": {"c": [2]}}
    merge(target, patch)["a"]["c"].append(3)
    assert (target, patch) == ({"a": {"b": 1}}, {"a": {"c": [2]}})


async def test_workload_without_replicas_has_one(world):
    assert (await world.send("POST", APPS, deployment(replicas=None)))["spec"]["replicas"] == 1


async def test_probe_of_a_template_is_completed(world):
    found = deployment()
    found["spec"]["template"]["spec"]["containers"] = [
        {
            "name": "c",
            "ports": [{"containerPort": 8080}],
            "readinessProbe": {"httpGet": {"port": 8080}},
        },
        {"name": "d", "readinessProbe": {"grpc": {"port": 1}, "periodSeconds": 3}},
    ]
    made = await world.send("POST", APPS, found)
    first, second = made["spec"]["template"]["spec"]["containers"]
    assert first["readinessProbe"] == {
        "httpGet": {"port": 8080, "path": "/", "scheme": "HTTP"},
        "periodSeconds": 10,
        "timeoutSeconds": 1,
        "successThreshold": 1,
        "failureThreshold": 3,
    }
    assert first["ports"] == [{"containerPort": 8080, "protocol": "TCP"}]
    assert second["readinessProbe"]["periodSeconds"] == 3
    assert second["readinessProbe"]["grpc"] == {"port": 1, "service": ""}


async def test_port_of_a_service_is_completed(world):
    made = await world.send("POST", SERVICES, service())
    assert made["spec"]["ports"] == [
        {"name": "http", "port": 80, "protocol": "TCP", "targetPort": 80}
    ]
    assert made["spec"]["type"] == "ClusterIP"


def test_lab_may_list_its_loopback_addresses():
    assert wrong_address("127.0.0.11", "IPv4", True) == ""
    assert wrong_address("169.254.1.1", "IPv4", True) != ""


async def test_write_of_the_object_names_who_set_the_replicas(world):
    await world.send("POST", APPS, deployment())
    found = await world.send("PATCH", f"{APPS}/w?fieldManager=argocd", {"spec": {"replicas": 3}})
    (entry,) = found["metadata"]["managedFields"]
    assert entry["manager"] == "argocd"
    assert entry["fieldsV1"] == {"f:spec": {"f:replicas": {}}}
    assert entry["time"] == "2026-03-01T12:00:00Z"


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
    from activator.lab.control_plane.api import DEPLOYMENTS

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


def owned_by(uid: str) -> dict[str, object]:
    owner = {"apiVersion": "v1", "kind": "Service", "name": "web", "uid": uid}
    return slice_("web-activator", "10.0.0.1", ownerReferences=[owner])


async def gone_after(world, path: str) -> float:
    """Return the seconds until an object is deleted."""
    loop = asyncio.get_running_loop()
    watch = await world.watch(f"{path}?watch=1&resourceVersion={world.plane.store.version}")
    began = loop.time()
    assert b'"DELETED"' in await anext(watch.lines())
    watch.close()
    return loop.time() - began


async def test_slice_is_deleted_half_a_second_after_its_service(world):
    made = await world.send("POST", SERVICES, service())
    await world.send("POST", SLICES, owned_by(made["metadata"]["uid"]))
    await world.send("DELETE", f"{SERVICES}/web")
    assert await gone_after(world, SLICES) == 0.5


async def test_slice_with_a_wrong_owner_is_accepted_and_deleted_within_four_seconds(world):
    await world.send("POST", SERVICES, service())
    await world.send("POST", SLICES, owned_by("old-uid"))
    assert await gone_after(world, SLICES) == 4.0


async def test_slice_stays_while_one_owner_exists(world):
    made = await world.send("POST", SERVICES, service())
    found = owned_by("old-uid")
    found["metadata"]["ownerReferences"] += owned_by(made["metadata"]["uid"])["metadata"][  # type: ignore[index] # JSON has no types
        "ownerReferences"
    ]
    await world.send("POST", SLICES, found)
    await world.send("POST", SERVICES, service("other"))
    await world.send("DELETE", f"{SERVICES}/other")
    loop = asyncio.get_running_loop()
    waiting = loop.create_future()
    loop.call_later(10, waiting.set_result, None)
    await waiting
    await world.send("GET", f"{SLICES}/web-activator")
