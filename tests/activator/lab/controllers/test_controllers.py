"""The controllers of the toy cluster, in virtual time."""

from __future__ import annotations

import json

from activator.lab.control_plane.api import DEPLOYMENTS, PODS, SERVICES, SLICES
from activator.lab.controllers import Mirror, slices_of
from activator.lab.objects import service


async def test_replicas_become_pods_and_go_again(world):
    world.create(replicas=0)
    await world.settle()
    assert world.pods == []
    world.scale(2)
    await world.settle()
    assert world.pods == ["web-1", "web-2"]
    world.report("web-1", ready=True)
    await world.settle()
    assert (world.status["replicas"], world.status["readyReplicas"]) == (2, 1)
    world.scale(1)
    await world.settle()
    assert world.pods == ["web-1"], "the pod that is not ready goes first"
    world.scale(0)
    await world.settle()
    assert world.pods == []
    assert "replicas" not in world.status


async def test_newest_of_ready_pods_goes_first(world):
    world.create(replicas=3)
    await world.settle()
    for name in world.pods:
        world.report(name, ready=True)
    world.scale(1)
    await world.settle()
    assert world.pods == ["web-1"]


async def test_deleted_pod_is_replaced(world):
    world.create(replicas=1)
    await world.settle()
    world.end("web-1")
    await world.settle()
    assert world.pods == ["web-2"]


async def test_rollout_keeps_the_wanted_number_ready(world):
    world.create(replicas=2)
    await world.settle()
    for name in world.pods:
        world.report(name, ready=True)
    world.roll_out("b")
    await world.settle()
    assert world.pods == ["web-1", "web-2", "web-3"], "one more than wanted"
    world.report("web-3", ready=True)
    await world.settle()
    assert world.pods == ["web-1", "web-3", "web-4"]
    world.report("web-4", ready=True)
    await world.settle()
    assert world.pods == ["web-3", "web-4"]
    assert world.status["updatedReplicas"] == 2


async def test_old_pod_that_is_not_ready_stays_until_the_new_one_is(world):
    world.create(replicas=1)
    await world.settle()
    world.roll_out("b")
    await world.settle()
    assert world.pods == ["web-1", "web-2"]
    world.report("web-2", ready=True)
    await world.settle()
    assert world.pods == ["web-2"]


async def test_rollout_at_zero_starts_nothing(world):
    world.create(replicas=0)
    world.roll_out("b")
    await world.settle()
    assert world.pods == []


async def test_pods_of_a_deleted_deployment_terminate(world):
    world.create(replicas=1)
    await world.settle()
    world.plane.act("delete", DEPLOYMENTS, "default", "web")
    await world.settle(10)
    assert world.pods == []


async def test_conditions_over_the_life_of_a_pod(world):
    world.create(replicas=1)
    await world.settle()
    assert (world.slice["endpoints"], world.slice["ports"]) == (None, None), "no address yet"
    world.report("web-1", ready=False)
    await world.settle()
    assert world.conditions == [(False, False, False)]
    world.report("web-1", ready=True)
    await world.settle()
    assert world.conditions == [(True, True, False)]
    world.report("web-1", ready=False)
    await world.settle()
    assert world.conditions == [(False, False, False)]
    world.report("web-1", ready=True)
    world.scale(0)
    await world.settle()
    assert world.conditions == [(False, True, True)]
    world.report("web-1", ready=False)
    await world.settle()
    assert world.conditions == [(False, False, True)]
    world.end("web-1")
    await world.settle()
    assert world.conditions == []
    assert (world.slice["endpoints"], world.slice["ports"]) == (None, None)


async def test_terminating_pod_is_ready_where_addresses_are_published_early(world):
    world.create(replicas=1)
    change = {"spec": {"publishNotReadyAddresses": True}}
    world.plane.act("patch", SERVICES, "default", "web", change)
    await world.settle()
    world.report("web-1", ready=True)
    world.scale(0)
    await world.settle()
    assert world.conditions == [(True, True, True)]


async def test_slice_names_ports_and_pods(world):
    world.create(replicas=1, port=8012)
    await world.settle()
    world.report("web-1", ready=True, address="127.0.9.7")
    await world.settle()
    found = world.slice
    assert found["ports"] == [{"name": "http", "port": 8012, "protocol": "TCP"}]
    (endpoint,) = found["endpoints"]
    assert endpoint["addresses"] == ["127.0.9.7"]
    assert endpoint["targetRef"]["name"] == "web-1"
    assert found["metadata"]["labels"]["kubernetes.io/service-name"] == "web"


async def test_slices_may_lag(world):
    world.create(replicas=1)
    await world.settle()
    world.report("web-1", ready=True)
    await world.settle()
    world.slices.hold()
    world.report("web-1", ready=False)
    await world.settle(60)
    assert world.conditions == [(True, True, False)]
    world.slices.resume()
    await world.settle()
    assert world.conditions == [(False, False, False)]


async def test_slices_of_others_are_left_alone(world):
    world.create(replicas=0)
    uid = world.plane.act("get", SERVICES, "default", "web")["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "Service", "name": "web", "uid": uid}
    labels = {"kubernetes.io/service-name": "web"}
    other = {
        "metadata": {"name": "web-activator", "labels": labels, "ownerReferences": [owner]},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.0.0.1"]}],
        "ports": [],
    }
    made = world.plane.act("create", SLICES, "default", "", other)
    await world.settle()
    world.scale(1)
    await world.settle()
    assert world.plane.act("get", SLICES, "default", "web-activator") == made


async def test_a_refused_write_is_repeated(world):
    world.create(replicas=1)
    await world.settle()
    world.plane.faults.conflict(SLICES, 3)
    world.report("web-1", ready=True)
    await world.settle()
    assert world.conditions == [(True, True, False)]


async def test_a_name_that_is_taken_keeps_no_other_service_from_its_slice(world):
    labels = {"kubernetes.io/service-name": "none"}
    taken = {"metadata": {"name": "web-1", "labels": labels}, "addressType": "IPv4"}
    world.plane.act("create", SLICES, "default", "", {**taken, "endpoints": [], "ports": []})
    world.create(replicas=0)
    made = service("zebra")
    world.plane.act("create", SERVICES, "default", "", made)
    await world.settle()
    assert world.plane.act("get", SLICES, "default", "zebra-1")["endpoints"] is None
    world.plane.act("delete", SLICES, "default", "web-1")
    await world.settle(2.5)
    found = world.plane.act("get", SLICES, "default", "web-1")
    assert found["metadata"]["labels"]["kubernetes.io/service-name"] == "web"


async def test_deleted_slice_is_written_again(world):
    world.create(replicas=0)
    await world.settle()
    world.plane.act("delete", SLICES, "default", "web-1")
    await world.settle()
    assert world.slice["metadata"]["name"] == "web-1"


def test_pods_with_different_numbers_of_a_port_are_in_different_slices():
    found = service("web")
    found["metadata"]["uid"] = "u"
    pods = [
        {
            "metadata": {"name": f"p{number}", "namespace": "default", "uid": str(number)},
            "spec": {
                "nodeName": "n",
                "containers": [{"ports": [{"name": "http", "containerPort": number}]}],
            },
            "status": {"podIP": "127.0.0.1"},
        }
        for number in (8001, 8002, 8001)
    ]
    slices = slices_of(found, pods)
    assert [(each["ports"][0]["port"], len(each["endpoints"])) for each in slices] == [
        (8001, 2),
        (8002, 1),
    ]


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
