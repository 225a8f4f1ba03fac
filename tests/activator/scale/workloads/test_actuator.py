"""Changes of replicas, beside other writers and through failures."""

from __future__ import annotations

import pytest

from activator.process.tasks import Tasks
from activator.scale.cluster.api import ApiResponse, ApiUnreachable
from activator.scale.workloads.actuator import ATTEMPTS, Actuator, Result, Target, Wish
from activator.scale.workloads.subresource import KNOWN, Problem
from tests.activator.scale.fake_api import FakeApi, path_of, status

HELLO = Target(KNOWN["deployment"], "shop", "hello")
OTHER = Target(KNOWN["deployment"], "shop", "other")
COLD_START = Wish(0, 1)


async def carry_out(api: FakeApi, *wishes: Wish, target: Target = HELLO) -> list[Result]:
    """Have wishes carried out that come at once, and return the results."""
    results: list[Result] = []
    tasks = Tasks()
    actuator = Actuator(api, tasks.start, lambda _, result: results.append(result))
    for wish in wishes:
        actuator.scale(target, wish)
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
    assert (result.problem, len(api.patches)) == (Problem.CONFLICT, ATTEMPTS)


async def test_wishes_that_come_at_once_are_one_request_each_and_the_newest_counts() -> None:
    api = FakeApi(hello=0)
    assert await carry_out(api, *[COLD_START] * 50, Wish(0, 2)) == [Result(2, changed_from=0)]
    assert len(api.patches) == 1


async def test_a_wish_that_comes_while_another_is_under_way_is_carried_out_after_it() -> None:
    api = FakeApi(hello=0)
    results: list[Result] = []
    tasks = Tasks()
    actuator = Actuator(api, tasks.start, lambda _, result: results.append(result))
    api.script.append(lambda: actuator.scale(HELLO, Wish(1, 4)))
    actuator.scale(HELLO, COLD_START)
    await tasks.finish(5)
    assert results == [Result(1, changed_from=0), Result(4, changed_from=1)]


async def test_a_cancelled_wish_is_not_sent() -> None:
    api = FakeApi(hello=0)
    tasks = Tasks()
    actuator = Actuator(api, tasks.start, lambda *_: None)
    actuator.scale(HELLO, COLD_START)
    actuator.cancel(HELLO)
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
            Problem.FORBIDDEN,
            'resources: ["deployments/scale"], verbs',
        ),
        (status(404, "no such object"), Problem.MISSING, "Deployment shop/hello does not exist"),
        (ApiResponse(404, b"404 page not found\n"), Problem.MISSING, "404 page not found"),
        (status(422, "Invalid value: 5"), Problem.REFUSED, "422: Invalid value: 5"),
        (status(500, "etcd"), Problem.UNAVAILABLE, "500: etcd"),
        (
            *(status(401, "Unauthorized"), Problem.UNAVAILABLE),
            "401: Unauthorized; the API server does not accept the token of the scaler's Service",
        ),
        (ApiResponse(200, b'{"spec": 5}'), Problem.UNAVAILABLE, "expected an object"),
        (ApiUnreachable("connection refused"), Problem.UNAVAILABLE, "connection refused"),
        (ApiResponse(200, b"not JSON"), Problem.UNAVAILABLE, "no Scale object"),
        (ApiResponse(200, b"\xff" * 9), Problem.UNAVAILABLE, "no Scale object"),
    ],
)
async def test_a_failure_names_the_problem_and_what_to_do(
    step: ApiResponse | ApiUnreachable, problem: Problem, detail: str, requests_before: int
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
    results: dict[Target, Result] = {}
    tasks = Tasks()
    actuator = Actuator(api, tasks.start, results.__setitem__)
    for target in (HELLO, OTHER):
        actuator.scale(target, COLD_START)
    await tasks.finish(5)
    assert results[HELLO].problem is Problem.MISSING
    assert results[OTHER] == Result(1, changed_from=0)
