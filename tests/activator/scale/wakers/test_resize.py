"""The waker ``resize``: pods keep their memory and give their CPU away, and get it back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from activator.discovery.api_server import ApiResponse
from activator.plain.annotations import Cpu
from activator.process.timers import Tasks
from activator.scale.reasons import ScaleReason
from activator.scale.wakers.resize import ResizeWaker
from activator.scale.workloads.replicas import KNOWN, Actuator, Result, ScaleTarget, Wish
from tests.activator.scale.fake_api import status
from tests.activator.scale.wakers.pods import Pods, cpu
from tests.activator.scale.world import elapse


class World:
    def __init__(self, api: Pods) -> None:
        self.target = ScaleTarget(KNOWN["deployment"], "shop", "hello", ResizeWaker(Cpu(1, 10)))
        self.results: list[Result] = []
        self.tasks = Tasks()
        self.actuator = Actuator(api, self.tasks.start, lambda _, each: self.results.append(each))

    async def result(self, wish: Wish | None) -> Result:
        self.actuator.put(self.target, wish)
        await self.tasks.finish(60)
        return self.results[-1]


@pytest.mark.parametrize(
    ("resources", "qos", "parked", "awake"),
    [
        (cpu("500m", "2"), "Burstable", ("1m", "10m"), ("500m", "2000m")),
        (cpu("500m"), "Burstable", ("1m", None), ("500m", None)),
        (cpu(limit="1.5"), "Burstable", ("1m", "10m"), ("1500m", "1500m")),
        (cpu("1", "1"), "Guaranteed", ("10m", "10m"), ("1000m", "1000m")),
        (cpu("5m", "1"), "Burstable", ("1m", "10m"), ("5m", "1000m")),
    ],
)
async def test_a_pod_is_parked_and_gets_the_values_of_the_template_back(
    resources: Any, qos: str, parked: Any, awake: Any
) -> None:
    api = Pods(resources, qos=qos)
    if "cpu" not in resources["requests"]:  # as the API server fills in a pod
        api.pods["hello-0"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "1.5"
    world = World(api)
    assert await world.result(None) == Result(1)
    assert await world.result(Wish(1, 0)) == Result(0, changed_from=1)
    assert await world.result(None) == Result(0)
    assert await world.result(Wish(0, 1)) == Result(1, changed_from=0)
    assert api.patches == [("hello-0", *parked), ("hello-0", *awake)]
    [container] = api.pods["hello-0"]["spec"]["containers"]
    assert container["resources"]["limits"]["memory"] == "2Gi"
    assert api.deployment["spec"]["replicas"] == 1


async def test_several_pods_end_before_the_last_one_is_parked() -> None:
    api = Pods(cpu("1", "2"), replicas=3)
    world = World(api)
    world.actuator.put(world.target, Wish(3, 0))
    await elapse(0.25)
    assert (api.deployment["spec"]["replicas"], api.patches) == (1, [])
    api.pods["hello-0"]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    del api.pods["hello-2"]
    await elapse(0.2)
    assert world.results == [Result(0, changed_from=3)]
    assert api.patches == [("hello-1", "1m", "10m")]
    # More replicas than before are scaled as usual.
    assert await world.result(Wish(0, 2)) == Result(2, changed_from=0)
    assert api.deployment["spec"]["replicas"] == 2


async def test_pods_that_do_not_end_in_time_are_parked_too() -> None:
    api = Pods(cpu("1", "2"), replicas=2)
    assert await World(api).result(Wish(2, 0)) == Result(0, changed_from=2)
    assert len(api.patches) == 2


async def test_a_wake_is_confirmed_by_the_node() -> None:
    api = Pods(cpu("1", "2"))
    world = World(api)
    await world.result(Wish(1, 0))
    api.applies = False
    world.actuator.put(world.target, Wish(0, 1))
    await elapse(3.0)
    assert len(world.results) == 1
    api.apply("hello-0")
    await elapse(1.0)
    assert world.results[1:] == [Result(1, changed_from=0)]


@pytest.mark.parametrize(
    ("kind", "fields", "detail"),
    [
        (
            "PodResizeInProgress",
            {"message": "waiting"},
            "Pod hello-0: PodResizeInProgress: waiting",
        ),
        ("", {}, "Pod hello-0: the node has not applied its CPU yet"),
    ],
)
async def test_a_resize_that_the_node_does_not_finish_is_named_and_sent_once(
    kind: str, fields: Any, detail: str
) -> None:
    api = Pods(cpu("1", "2"))
    world = World(api)
    await world.result(Wish(1, 0))
    api.applies = bool(kind)
    if kind:
        api.set_condition("hello-0", kind, **fields)
    for _ in range(2):
        result = await world.result(Wish(0, 1))
        assert result == Result(0, ScaleReason.NOT_AWAKE_YET, detail)
    assert len(api.patches) == 2


async def test_a_pod_whose_node_has_no_room_is_replaced() -> None:
    api = Pods(cpu("1", "2"))
    world = World(api)
    await world.result(Wish(1, 0))
    api.applies = False
    api.set_condition("hello-0", "PodResizePending", reason="Deferred", message="no CPU left")
    text = "Pod hello-0: PodResizePending: Deferred: no CPU left"
    first = await world.result(Wish(0, 1))
    assert first == Result(0, ScaleReason.NOT_AWAKE_YET, text)
    second = await world.result(Wish(0, 1))
    why = f"{text}: the workload starts another pod instead"
    assert second == Result(None, ScaleReason.CANNOT_RESIZE, why)
    assert api.deployment["spec"]["replicas"] == 0
    del api.pods["hello-0"]
    assert await world.result(Wish(0, 1)) == Result(1, changed_from=0)


async def test_a_pod_that_replaces_a_parked_one_is_awake_and_is_parked_when_it_is_ready() -> None:
    api = Pods(cpu("1", "2"))
    world = World(api)
    await world.result(Wish(1, 0))
    del api.pods["hello-0"]
    api.add("hello-1", ready=False)
    assert await world.result(None) == Result(1)
    why = "Pod hello-1 is not ready, and needs its CPU until it is"
    assert await world.result(Wish(1, 0)) == Result(None, ScaleReason.CANNOT_RESIZE, why)
    api.pods["hello-1"]["status"]["conditions"][0]["status"] = "True"
    assert await world.result(Wish(1, 0)) == Result(0, changed_from=1)


async def test_a_workload_with_one_pod_parked_and_one_awake_is_not_awake_yet() -> None:
    api = Pods(cpu("1", "2"))
    world = World(api)
    await world.result(Wish(1, 0))
    api.deployment["spec"]["replicas"] = 2
    api.add("hello-1")
    detail = "Pod hello-0 is parked"
    assert await world.result(None) == Result(2, ScaleReason.NOT_AWAKE_YET, detail)
    assert await world.result(Wish(0, 2)) == Result(2, changed_from=0)


async def test_pods_of_another_workload_with_the_same_labels_are_left_alone() -> None:
    api = Pods(cpu("1", "2"))
    api.add("canary-1", "canary-77")
    await World(api).result(Wish(1, 0))
    assert [name for name, *_ in api.patches] == ["hello-0"]


# -- pods that cannot be parked --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("resources", "found", "why"),
    [
        (cpu(), None, "Pod hello-0 has no container with more CPU than it would keep"),
        (cpu("1m", "10m"), None, "Pod hello-0 has no container with more CPU than it would keep"),
        (
            cpu("1", "2"),
            status(422, "Pod QOS Class may not change as a result of resizing"),
            "Pod hello-0: 422: Pod QOS Class may not change as a result of resizing",
        ),
        (
            cpu("1", "2"),
            status(403, 'pods "hello-0" is forbidden: minimum cpu usage per Container is 50m'),
            'Pod hello-0: 403: pods "hello-0" is forbidden: minimum cpu usage per Container is 50m',
        ),
        (
            cpu("1", "2"),
            status(404, "the server could not find the requested resource"),
            "Pod hello-0: 404: the server could not find the requested resource",
        ),
    ],
)
async def test_a_pod_that_cannot_be_parked_ends_as_usual_with_a_reason(
    resources: Any, found: ApiResponse | None, why: str
) -> None:
    api = Pods(resources)
    api.script.extend([None, None, found])
    expected = Result(0, changed_from=1, instead=f"{why}: it cannot be parked, so it ends")
    assert await World(api).result(Wish(1, 0)) == expected
    assert api.deployment["spec"]["replicas"] == 0
    api.pods.clear()
    assert await World(api).result(Wish(0, 1)) == Result(1, changed_from=0)


# -- failures --------------------------------------------------------------------------------------

RBAC = 'pods "hello-0" is forbidden: User "s" cannot patch resource "pods/resize"'


@pytest.mark.parametrize(
    ("steps", "problem", "detail"),
    [
        (
            [status(403, "no")],
            ScaleReason.SCALE_FORBIDDEN,
            '403: no; the ClusterRole lacks {apiGroups: ["apps"], resources: ["deployments"], '
            'verbs: ["get"]}',
        ),
        (
            [status(404, "gone")],
            ScaleReason.SCALE_TARGET_MISSING,
            "Deployment shop/hello does not exist, or has no scale subresource (404: gone)",
        ),
        (
            [None, status(403, "no")],
            ScaleReason.SCALE_FORBIDDEN,
            '403: no; the ClusterRole lacks {apiGroups: [""], resources: ["pods"], '
            'verbs: ["list"]}',
        ),
        (
            [None, None, status(403, RBAC)],
            ScaleReason.SCALE_FORBIDDEN,
            f'403: {RBAC}; the ClusterRole lacks {{apiGroups: [""], resources: ["pods/resize"], '
            f'verbs: ["patch"]}}',
        ),
        (
            [None, None, status(503, "busy")],
            ScaleReason.API_SERVER_UNAVAILABLE,
            "503: busy",
        ),
        (
            [ApiResponse(200, b'{"spec": 5}')],
            ScaleReason.API_SERVER_UNAVAILABLE,
            "Scale default/?: spec: expected an object, got 5",
        ),
    ],
)
async def test_a_failure_names_the_problem_and_the_rule(
    steps: Any, problem: ScaleReason, detail: str
) -> None:
    api = Pods(cpu("1", "2"))
    api.script.extend(steps)
    assert await World(api).result(Wish(1, 0)) == Result(None, problem, detail)
    assert api.deployment["spec"]["replicas"] == 1


async def test_a_refused_wake_is_named() -> None:
    api = Pods(cpu("1", "2"))
    world = World(api)
    await world.result(Wish(1, 0))
    api.script.extend([None, None, status(403, "exceeded quota: team")])
    why = "Pod hello-0: 403: exceeded quota: team"
    assert await world.result(Wish(0, 1)) == Result(None, ScaleReason.SCALE_REFUSED, why)


@pytest.mark.parametrize(
    "change",
    [
        lambda selector: selector.update(matchLabels={}),
        lambda selector: selector.update(matchExpressions=[{"key": "a", "operator": "Exists"}]),
    ],
)
async def test_a_selector_that_no_list_can_use_is_named(change: Callable[[Any], None]) -> None:
    api = Pods(cpu("1", "2"))
    change(api.deployment["spec"]["selector"])
    why = "Deployment shop/hello needs a selector with matchLabels alone"
    assert await World(api).result(None) == Result(None, ScaleReason.CANNOT_RESIZE, why)


@pytest.mark.parametrize("replicas", [1, 3])
async def test_a_workload_that_another_component_scales_meanwhile_is_read_again(
    replicas: int,
) -> None:
    api = Pods(cpu(), replicas=replicas)
    modify: dict[str, str] = {"resourceVersion": "7"}
    api.script.extend([None, None, lambda: api.deployment["metadata"].update(modify)])
    result = await World(api).result(Wish(replicas, 0))
    assert (result.replicas, result.changed_from) == (0, replicas)
