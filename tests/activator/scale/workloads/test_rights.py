"""Look-ups of kinds, and checks of rights, against a stand-in control plane."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from activator.lab.control_plane.plane import ControlPlane
from activator.lab.control_plane.resources import BUILT_IN, SCALED_OBJECTS, ApiKind
from activator.plain.annotations import Target as Wanted
from activator.process.tasks import Tasks
from activator.scale.workloads import subresource
from activator.scale.workloads.actuator import Target
from activator.scale.workloads.rights import AGAIN, Rights
from tests.activator.scale.world import elapse
from tests.control_plane import InProcessClient

ROLLOUTS = ApiKind("argoproj.io", "v1alpha1", "rollouts", "Rollout", scalable=True, is_custom=True)
DEPLOYMENT = Target(subresource.KNOWN["deployment"], "shop", "w")


class World:
    """Rights on a control plane."""

    def __init__(self) -> None:
        self.plane = ControlPlane((*BUILT_IN, SCALED_OBJECTS, ROLLOUTS))
        self.tasks = Tasks()
        self.changed: list[str] = []
        self.rights = Rights(
            InProcessClient(self.plane),
            self.tasks.start,
            asyncio.get_running_loop().time,
            self.changed.append,
        )

    async def resource(self, kind: str, group: str = "argoproj.io") -> Any:
        wanted = Wanted(group, "v1alpha1", kind, "web")
        self.rights.resource(wanted)
        await self.tasks.finish(5)
        return self.rights.resource(wanted)

    async def problem(self, target: Target = DEPLOYMENT) -> str:
        self.rights.problem(target)
        await self.tasks.finish(5)
        self.rights.problem(target)
        await self.tasks.finish(5)
        return self.rights.problem(target)


@pytest.mark.parametrize("kind", ["Rollout", "rollout"])
async def test_a_kind_is_found_with_its_plural(kind: str) -> None:
    found = await World().resource(kind)
    assert (found.group, found.version, found.plural) == ("argoproj.io", "v1alpha1", "rollouts")


async def test_a_look_up_is_made_once() -> None:
    world = World()
    wanted = Wanted("argoproj.io", "v1alpha1", "Rollout", "web")
    for _ in range(5):
        assert world.rights.resource(wanted) is None
    await world.tasks.finish(5)
    await world.resource("Rollout")
    assert world.changed == [""]


@pytest.mark.parametrize(
    ("kind", "group", "text"),
    [
        ("Gadget", "argoproj.io", "argoproj.io/v1alpha1 has no kind Gadget"),
        ("ScaledObject", "keda.sh", "has no scale subresource"),
        ("Rollout", "nowhere.example", "has no API nowhere.example/v1alpha1"),
    ],
)
async def test_a_kind_that_cannot_be_scaled_is_a_text(kind: str, group: str, text: str) -> None:
    assert text in await World().resource(kind, group)


async def test_a_failed_look_up_is_made_again_later() -> None:
    world = World()
    world.plane.go_away()
    assert await world.resource("Rollout") is None
    world.plane.come_back()
    assert await world.resource("Rollout") is not None


async def test_an_unknown_kind_is_looked_up_again_after_a_while() -> None:
    world = World()
    assert isinstance(await world.resource("Gadget"), str)
    before = len(world.changed)
    await elapse(AGAIN)
    await world.resource("Gadget")
    assert len(world.changed) > before


async def test_rights_in_all_namespaces_need_one_check() -> None:
    world = World()
    assert await world.problem() == ""
    other = Target(DEPLOYMENT.resource, "elsewhere", "x")
    assert await world.problem(other) == ""
    reviews = [call for call in world.plane.calls if call.resource == "selfsubjectaccessreviews"]
    assert len(reviews) == 2  # one for each verb
    assert world.changed == []


async def test_a_missing_right_is_named_with_the_rule_and_noticed_when_it_comes() -> None:
    world = World()
    world.plane.faults.forbid("patch", "deployments/scale", "apps")
    problem = await world.problem()
    for part in ("namespace shop", 'resources: ["deployments/scale"]', 'verbs: ["patch"]'):
        assert part in problem
    assert 'verbs: ["get"]' not in problem
    world.plane.faults.allow("patch", "deployments/scale", "apps")
    await elapse(AGAIN)
    assert await world.problem() == ""
    assert set(world.changed) == {"", "shop"}


async def test_without_the_right_to_check_nothing_is_wrong() -> None:
    world = World()
    world.plane.faults.forbid("create", "selfsubjectaccessreviews", "authorization.k8s.io")
    assert await world.problem() == ""
