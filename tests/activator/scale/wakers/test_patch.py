"""The waker ``patch``: its reads, its patches, and its texts for each failure."""

from __future__ import annotations

from typing import Any

import pytest

from activator.discovery.api_server import ApiResponse
from activator.lab.control_plane.writes import merge
from activator.plain.annotations import NamedCondition
from activator.process.timers import Tasks
from activator.scale.reasons import ScaleReason
from activator.scale.wakers.patch import PatchWaker, holds
from activator.scale.workloads.replicas import (
    Actuator,
    Result,
    ScalableKind,
    ScaleTarget,
    Wish,
)
from tests.activator.scale.fake_api import OneObject, status
from tests.activator.scale.world import elapse

SANDBOX = ScalableKind("agents.x-k8s.io", "v1beta1", "Sandbox", "sandboxes", has_scale=False)
PATH = "/apis/agents.x-k8s.io/v1beta1/namespaces/shop/sandboxes/box"
SUSPEND, RUN = '{"spec":{"operatingMode":"Suspended"}}', '{"spec":{"operatingMode":"Running"}}'


class World:
    def __init__(self, api: OneObject, condition: NamedCondition | None = None) -> None:
        self.target = ScaleTarget(SANDBOX, "shop", "box", PatchWaker(SUSPEND, RUN, condition))
        self.results: list[Result] = []
        self.tasks = Tasks()
        self.actuator = Actuator(api, self.tasks.start, lambda _, each: self.results.append(each))

    async def result(self, wish: Wish | None) -> Result:
        self.actuator.put(self.target, wish)
        await self.tasks.finish(30)
        return self.results[-1]


@pytest.mark.parametrize(
    ("spec", "replicas"),
    [({"operatingMode": "Suspended"}, 0), ({"operatingMode": "Running"}, 1), ({}, 1), (None, 1)],
)
async def test_an_object_sleeps_while_it_has_the_values_of_the_sleep_patch(
    spec: Any, replicas: int
) -> None:
    assert await World(OneObject(PATH, spec=spec)).result(None) == Result(replicas)


async def test_a_patch_is_for_one_object_and_keeps_its_own_metadata() -> None:
    api = OneObject(PATH, spec={})
    sleep = '{"metadata":{"annotations":{"cnpg.io/hibernation":"on"}}}'
    world = World(api)
    world.target = world.target._replace(waker=PatchWaker(sleep, RUN))
    assert await world.result(Wish(1, 0)) == Result(0, changed_from=1)
    metadata = {"annotations": {"cnpg.io/hibernation": "on"}, "uid": "u"}
    assert api.patches == [{"metadata": metadata}]


async def test_a_change_by_another_component_stays_and_delays_nothing() -> None:
    api = OneObject(PATH, spec={"operatingMode": "Suspended"})
    api.script.extend([None, lambda: api.change({"spec": {"image": "new"}})])
    assert await World(api).result(Wish(0, 1)) == Result(1, changed_from=0)
    assert api.object["spec"] == {"operatingMode": "Running", "image": "new"}
    assert len(api.patches) == 1


async def test_an_object_that_another_component_has_started_is_left_alone() -> None:
    api = OneObject(PATH, spec={"operatingMode": "Running"})
    assert await World(api).result(Wish(0, 1)) == Result(1)
    assert api.patches == []


READY = NamedCondition("Ready", "True")


async def test_an_object_counts_as_awake_with_its_condition() -> None:
    api = OneObject(PATH, spec={"operatingMode": "Suspended"})
    world = World(api, READY)
    world.actuator.put(world.target, Wish(0, 1))
    await elapse(3.0)
    assert (len(api.patches), world.results) == (1, [])
    api.change({"status": {"conditions": [{"type": "Ready", "status": "True"}]}})
    await elapse(1.0)
    assert world.results == [Result(1, changed_from=0)]


@pytest.mark.parametrize(
    ("conditions", "detail"),
    [
        ([], "condition Ready is missing, not True"),
        ([{"type": "Ready", "status": "Unknown"}], "condition Ready is Unknown, not True"),
        (
            [{"type": "Ready", "status": "False", "message": "no node"}],
            "condition Ready is False, not True: no node",
        ),
    ],
)
async def test_an_object_that_does_not_confirm_is_named_and_patched_once(
    conditions: Any, detail: str
) -> None:
    api = OneObject(PATH, spec={"operatingMode": "Suspended"}, status={"conditions": conditions})
    world = World(api, READY)
    for _ in range(2):
        result = await world.result(Wish(0, 1))
        assert result == Result(0, ScaleReason.NOT_AWAKE_YET, detail)
    assert len(api.patches) == 1
    # A read leaves the decision to the caller, who knows whether it was awake before.
    assert await world.result(None) == Result(1, ScaleReason.NOT_AWAKE_YET, detail)


@pytest.mark.parametrize(
    ("step", "problem", "detail"),
    [
        (
            status(403, "forbidden: no"),
            ScaleReason.SCALE_FORBIDDEN,
            '403: forbidden: no; the ClusterRole lacks {apiGroups: ["agents.x-k8s.io"], '
            'resources: ["sandboxes"], verbs: ["get", "patch"]}',
        ),
        (
            status(404, "no such object"),
            ScaleReason.SCALE_TARGET_MISSING,
            "Sandbox shop/box does not exist (404: no such object)",
        ),
        (
            ApiResponse(200, b'{"metadata": 5}'),
            ScaleReason.API_SERVER_UNAVAILABLE,
            "Sandbox default/?: metadata: expected an object, got 5",
        ),
    ],
)
async def test_a_failure_names_the_problem_and_what_to_do(
    step: ApiResponse, problem: ScaleReason, detail: str
) -> None:
    api = OneObject(PATH)
    api.script.append(step)
    assert await World(api).result(Wish(0, 1)) == Result(None, problem, detail)


async def test_a_forbidden_patch_names_its_verb_alone() -> None:
    api = OneObject(PATH, spec={"operatingMode": "Suspended"})
    api.script.extend([None, status(403, "no")])
    assert 'verbs: ["patch"]}' in (await World(api).result(Wish(0, 1))).detail


@pytest.mark.parametrize(
    ("patch", "value", "expected"),
    [
        ({"a": 1}, {"a": 1, "b": 2}, True),
        ({"a": 1}, {"a": True}, False),
        ({"a": None}, {}, True),
        ({"a": None}, {"a": 1}, False),
        ({"a": {"b": None}}, {"a": {}}, True),
        ({"a": {"b": None}}, {}, False),
        ({"a": [1]}, {"a": [1, 2]}, False),
    ],
)
def test_an_object_holds_a_patch_that_would_not_change_it(
    patch: Any, value: Any, expected: bool
) -> None:
    assert holds(patch, value) is expected
    assert (merge(value, patch) == value) is expected or value == {"a": True}
