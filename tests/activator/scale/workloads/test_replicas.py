"""Changes of replicas beside other writers and through failures, and the rights to make them."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from activator.discovery.api_server import ApiResponse, no_response
from activator.lab.control_plane.api import BUILT_IN, SCALED_OBJECTS, ApiKind
from activator.objects.fields import ManifestError
from activator.plain.annotations import NamedTarget as Wanted
from activator.plain.workloads import SHORT_KINDS
from activator.process.timers import Tasks
from activator.scale.reasons import ScaleReason
from activator.scale.wakers.scale import SCALE, Scale
from activator.scale.workloads import replicas
from activator.scale.workloads.replicas import (
    AGAIN,
    ATTEMPTS,
    KNOWN,
    Actuator,
    Result,
    Rights,
    ScalableKind,
    ScaleTarget,
    Wish,
)
from tests.activator.scale.fake_api import FakeApi, path_of, status
from tests.activator.scale.world import elapse
from tests.control_plane.client import InProcessClient
from tests.control_plane.strict import StrictControlPlane


def scale(spec: Any, **metadata: str) -> Any:
    return {"metadata": {"name": "hello", "namespace": "shop", **metadata}, "spec": spec}


def test_the_activator_knows_the_same_short_kinds() -> None:
    assert set(KNOWN) == SHORT_KINDS


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        (scale({"replicas": 3}, resourceVersion="7", uid="d1"), Scale(3, "7", "d1")),
        (scale({}, resourceVersion="7", uid="d1"), Scale(0, "7", "d1")),
        (scale(None), Scale(0, "", "")),
    ],
)
def test_absent_replicas_are_zero(obj: Any, expected: Scale) -> None:
    assert Scale.of(obj) == expected


@pytest.mark.parametrize("replicas", ["3", -1, 1.5, True])
def test_broken_replicas_are_an_error(replicas: Any) -> None:
    where = re.escape("Scale shop/hello: spec.replicas: expected an integer")
    with pytest.raises(ManifestError, match=f"^{where}"):
        Scale.of(scale({"replicas": replicas}))


def test_a_patch_sends_version_and_uid() -> None:
    assert json.loads(Scale(0, "7", "d1").patch(2)) == {
        "metadata": {"resourceVersion": "7", "uid": "d1"},
        "spec": {"replicas": 2},
    }


def test_a_patch_of_an_object_that_was_never_read_sends_neither() -> None:
    assert json.loads(Scale(0, "", "").patch(1)) == {"metadata": {}, "spec": {"replicas": 1}}


@pytest.mark.parametrize(
    ("resource", "path"),
    [
        (KNOWN["deployment"], "/apis/apps/v1/namespaces/shop/deployments/hello"),
        (
            ScalableKind("", "v1", "ReplicationController", "replicationcontrollers"),
            "/api/v1/namespaces/shop/replicationcontrollers/hello",
        ),
    ],
)
def test_the_path_of_a_workload(resource: ScalableKind, path: str) -> None:
    assert ScaleTarget(resource, "shop", "hello").path == path


def test_the_missing_rule_can_be_pasted_into_a_role() -> None:
    assert SCALE.rules(HELLO.resource)[0].lacking("patch") == (
        '{apiGroups: ["apps"], resources: ["deployments/scale"], verbs: ["patch"]}'
    )


HELLO = ScaleTarget(KNOWN["deployment"], "shop", "hello")
OTHER = ScaleTarget(KNOWN["deployment"], "shop", "other")
COLD_START = Wish(0, 1)


async def carry_out(api: FakeApi, *wishes: Wish, target: ScaleTarget = HELLO) -> list[Result]:
    """Have wishes carried out that come at once, and return the results."""
    results: list[Result] = []
    tasks = Tasks()
    actuator = Actuator(api, tasks.start, lambda _, result: results.append(result))
    for wish in wishes:
        actuator.put(target, wish)
    await tasks.finish(5)
    return results


async def test_a_workload_is_scaled_from_zero() -> None:
    api = FakeApi(hello=0)
    assert await carry_out(api, COLD_START) == [Result(1, changed_from=0)]
    assert api.requests == [("GET", path_of("hello")), ("PATCH", path_of("hello"))]
    assert api.patches == [
        {"metadata": {"resourceVersion": "1", "uid": "u"}, "spec": {"replicas": 1}}
    ]


async def test_a_workload_that_has_other_replicas_is_left_alone() -> None:
    api = FakeApi(hello=3)
    assert await carry_out(api, COLD_START) == [Result(3)]
    assert api.patches == []


async def test_a_change_by_another_component_is_read_again() -> None:
    api = FakeApi(hello=0)
    api.script.extend([lambda: None, lambda: api.set(path_of("hello"), 0)])
    assert await carry_out(api, COLD_START) == [Result(1, changed_from=0)]
    assert [method for method, _ in api.requests] == ["GET", "PATCH", "GET", "PATCH"]


async def test_another_component_that_scales_first_has_done_the_work() -> None:
    api = FakeApi(hello=0)
    api.script.extend([lambda: None, lambda: api.set(path_of("hello"), 5)])
    assert await carry_out(api, COLD_START) == [Result(5)]


async def test_conflicts_without_end_are_a_problem() -> None:
    api = FakeApi(hello=0)
    for _ in range(ATTEMPTS):
        api.script.extend([lambda: None, status(409, "modified")])
    [result] = await carry_out(api, COLD_START)
    assert (result.problem, len(api.patches)) == (ScaleReason.CONFLICT, ATTEMPTS)


async def test_wishes_that_come_at_once_are_one_request_each_and_the_newest_counts() -> None:
    api = FakeApi(hello=0)
    assert await carry_out(api, *[COLD_START] * 50, Wish(0, 2)) == [Result(2, changed_from=0)]
    assert len(api.patches) == 1


async def test_a_wish_that_comes_while_another_is_under_way_is_carried_out_after_it() -> None:
    api = FakeApi(hello=0)
    results: list[Result] = []
    tasks = Tasks()
    actuator = Actuator(api, tasks.start, lambda _, result: results.append(result))
    api.script.append(lambda: actuator.put(HELLO, Wish(1, 4)))
    actuator.put(HELLO, COLD_START)
    await tasks.finish(5)
    assert results == [Result(1, changed_from=0), Result(4, changed_from=1)]


async def test_a_cancelled_wish_is_not_sent() -> None:
    api = FakeApi(hello=0)
    tasks = Tasks()
    actuator = Actuator(api, tasks.start, lambda *_: None)
    actuator.put(HELLO, COLD_START)
    actuator.clear()
    await tasks.finish(5)
    assert api.requests == []


async def test_an_object_that_never_had_replicas_is_scaled_without_a_version() -> None:
    api = FakeApi(hello=0)
    api.script.append(status(500, 'the spec replicas field ".spec.replicas" does not exist'))
    assert await carry_out(api, COLD_START) == [Result(1, changed_from=0)]
    assert api.patches == [{"metadata": {}, "spec": {"replicas": 1}}]


@pytest.mark.parametrize("requests_before", [0, 1], ids=["GET", "PATCH"])
@pytest.mark.parametrize(
    ("step", "problem", "detail"),
    [
        (
            status(403, "forbidden: no"),
            ScaleReason.SCALE_FORBIDDEN,
            'resources: ["deployments/scale"], verbs',
        ),
        (
            status(404, "no such object"),
            ScaleReason.SCALE_TARGET_MISSING,
            "Deployment shop/hello does not exist",
        ),
        (
            ApiResponse(404, b"404 page not found\n"),
            ScaleReason.SCALE_TARGET_MISSING,
            "404 page not found",
        ),
        (status(422, "Invalid value: 5"), ScaleReason.SCALE_REFUSED, "422: Invalid value: 5"),
        (status(500, "etcd"), ScaleReason.API_SERVER_UNAVAILABLE, "500: etcd"),
        (
            *(status(401, "Unauthorized"), ScaleReason.API_SERVER_UNAVAILABLE),
            "401: Unauthorized; the API server does not accept the token of the scaler's Service",
        ),
        (
            ApiResponse(200, b'{"spec": 5}'),
            ScaleReason.API_SERVER_UNAVAILABLE,
            "expected an object",
        ),
        (
            no_response("connection refused"),
            ScaleReason.API_SERVER_UNAVAILABLE,
            "connection refused",
        ),
        (ApiResponse(200, b"not JSON"), ScaleReason.API_SERVER_UNAVAILABLE, "no Scale object"),
        (ApiResponse(200, b"\xff" * 9), ScaleReason.API_SERVER_UNAVAILABLE, "no Scale object"),
    ],
)
async def test_a_failure_names_the_problem_and_what_to_do(
    step: ApiResponse, problem: ScaleReason, detail: str, requests_before: int
) -> None:
    api = FakeApi(hello=0)
    api.script.extend([*[lambda: None] * requests_before, step])
    [result] = await carry_out(api, COLD_START)
    assert (result.replicas, result.problem) == (None, problem)
    assert detail in result.detail
    # The next wish is carried out.
    assert await carry_out(api, COLD_START) == [Result(1, changed_from=0)]


@pytest.mark.parametrize(
    ("requests_before", "verbs"), [(0, '["get", "patch"]'), (1, '["patch"]')], ids=["GET", "PATCH"]
)
async def test_a_forbidden_request_names_all_verbs_that_may_be_missing(
    requests_before: int, verbs: str
) -> None:
    api = FakeApi(hello=0)
    api.script.extend([*[lambda: None] * requests_before, status(403, "forbidden: no")])
    [result] = await carry_out(api, COLD_START)
    assert f"verbs: {verbs}" in result.detail


async def test_a_workload_that_fails_does_not_hold_up_others() -> None:
    api = FakeApi(other=0)
    results: dict[ScaleTarget, Result] = {}
    tasks = Tasks()
    actuator = Actuator(api, tasks.start, results.__setitem__)
    for target in (HELLO, OTHER):
        actuator.put(target, COLD_START)
    await tasks.finish(5)
    assert results[HELLO].problem is ScaleReason.SCALE_TARGET_MISSING
    assert results[OTHER] == Result(1, changed_from=0)


ROLLOUTS = ApiKind("argoproj.io", "v1alpha1", "rollouts", "Rollout", scalable=True, is_custom=True)
DEPLOYMENT = ScaleTarget(replicas.KNOWN["deployment"], "shop", "w")


class World:
    """Rights on a control plane."""

    def __init__(self) -> None:
        self.plane = StrictControlPlane((*BUILT_IN, SCALED_OBJECTS, ROLLOUTS))
        self.tasks = Tasks()
        self.changed: list[str] = []
        self.rights = Rights(
            InProcessClient(self.plane),
            self.tasks.start,
            self.changed.append,
        )

    async def resource(self, kind: str, group: str = "argoproj.io") -> Any:
        wanted = Wanted(group, "v1alpha1", kind, "web")
        self.rights.resource(wanted)
        await self.tasks.finish(5)
        return self.rights.resource(wanted)

    async def problem(self, target: ScaleTarget = DEPLOYMENT) -> str:
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
        ("Rollout", "nowhere.example", "has no API nowhere.example/v1alpha1"),
    ],
)
async def test_a_kind_that_cannot_be_scaled_is_a_text(kind: str, group: str, text: str) -> None:
    assert text in await World().resource(kind, group)


async def test_a_kind_without_the_subresource_is_known_as_such() -> None:
    assert (await World().resource("ScaledObject", "keda.sh")).has_scale is False


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
    other = ScaleTarget(DEPLOYMENT.resource, "elsewhere", "x")
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


async def test_a_check_without_a_response_proves_nothing_and_is_made_again() -> None:
    world = World()
    world.plane.faults.forbid("patch", "deployments/scale", "apps")
    world.plane.go_away()
    assert await world.problem() == ""
    world.plane.come_back()
    assert "may not scale deployments in namespace shop" in await world.problem()
