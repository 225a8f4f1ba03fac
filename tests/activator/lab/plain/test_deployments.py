from __future__ import annotations

from activator.lab.control_plane.resources import DEPLOYMENTS


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
