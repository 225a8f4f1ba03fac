from __future__ import annotations

import asyncio

import pytest

from activator.lab.control_plane.plane import Call
from tests.activator.lab.control_plane.world import APPS, SERVICES, deployment, service
from tests.rows import naming

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


async def test_object_can_be_written_read_listed_changed_and_deleted(world):
    made = await world.send("POST", SERVICES, service())
    assert made["metadata"]["uid"]
    assert made["metadata"]["creationTimestamp"] == "2026-03-01T12:00:00Z"
    assert await world.send("GET", f"{SERVICES}/web") == made
    listed = await world.send("GET", "/api/v1/services")
    assert listed["kind"] == "ServiceList"
    assert [item["metadata"]["name"] for item in listed["items"]] == ["web"]
    assert "kind" not in listed["items"][0], "as Kubernetes lists kinds of its own"
    await world.send("PATCH", f"{SERVICES}/web", {"metadata": {"annotations": {"a": "b"}}})
    assert (await world.send("GET", f"{SERVICES}/web"))["metadata"]["annotations"] == {"a": "b"}
    await world.send("DELETE", f"{SERVICES}/web")
    assert await world.refused("GET", f"{SERVICES}/web") == (404, 'services "web" not found')


async def test_list_has_pages_of_one_version(world):
    for number in range(5):
        await world.send("POST", SERVICES, service(f"s{number}"))
    first = await world.send("GET", f"{SERVICES}?limit=2")
    token = first["metadata"]["continue"]
    second = await world.send("GET", f"{SERVICES}?limit=4&continue={token}")
    names = [item["metadata"]["name"] for item in first["items"] + second["items"]]
    assert names == ["s0", "s1", "s2", "s3", "s4"]
    assert first["metadata"]["resourceVersion"] == second["metadata"]["resourceVersion"]
    assert "continue" not in second["metadata"]
    world.plane.store.compact()
    await world.send("POST", SERVICES, service("s9"))
    world.plane.store.compact()
    status, _ = await world.refused("GET", f"{SERVICES}?limit=4&continue={token}")
    assert status == 410


async def test_a_list_with_a_limit_has_exactly_the_requested_version(world):
    await world.send("POST", SERVICES, service("a"))
    first = await world.send("GET", SERVICES)
    await world.send("DELETE", f"{SERVICES}/a")
    await world.send("POST", SERVICES, service("b"))
    version = first["metadata"]["resourceVersion"]
    exact = await world.send("GET", f"{SERVICES}?limit=5&resourceVersion={version}")
    assert exact == first
    newer = f"{SERVICES}?limit=5&resourceVersion={version}&resourceVersionMatch=NotOlderThan"
    for path in (newer, f"{SERVICES}?resourceVersion={version}", f"{SERVICES}?limit=5"):
        found = await world.send("GET", path)
        assert [each["metadata"]["name"] for each in found["items"]] == ["b"]


async def test_unknown_group_is_a_plain_text_page(world):
    for path in ("/apis/example.com/v1/things", "/apis/apps/v2/deployments", "/api/v1/things"):
        with naming(path):
            assert await world.try_("GET", path) == (404, "404 page not found\n")


async def test_missing_right_is_refused_before_the_object_is_missed(world):
    world.plane.faults.user = "u"
    world.plane.faults.forbid("patch", "deployments/scale", "apps")
    status, found = await world.try_("PATCH", f"{APPS}/w/scale", {"spec": {"replicas": 1}})
    assert status == 403
    assert found["message"] == (
        'deployments.apps "w" is forbidden: User "u" cannot patch resource "deployments/scale" in '
        'API group "apps" in the namespace "shop"'
    )
    assert found["reason"] == "Forbidden"
    assert found["details"] == {"name": "w", "group": "apps", "kind": "deployments"}


async def test_missing_right_to_list_everywhere_names_the_cluster(world):
    world.plane.faults.user = "u"
    world.plane.faults.forbid("list", "services", "")
    assert await world.refused("GET", "/api/v1/services") == (
        403,
        'services is forbidden: User "u" cannot list resource "services" in API group "" at the '
        "cluster scope",
    )


@pytest.mark.parametrize("allowed", [True, False])
async def test_access_review_tells_of_rights(world, allowed):
    if not allowed:
        world.plane.faults.forbid("patch", "deployments/scale", "apps")
    attributes = {
        "namespace": "shop",
        "verb": "patch",
        "group": "apps",
        "resource": "deployments",
        "subresource": "scale",
    }
    review = {"spec": {"resourceAttributes": attributes}}
    status, found = await world.try_("POST", REVIEWS, review)
    assert (status, found["status"]["allowed"]) == (201, allowed)


async def test_only_granted_rights_work(world):
    await world.send("POST", SERVICES, service())
    world.plane.faults.grant_only({Call("list", "", "services").right})
    await world.send("GET", SERVICES)
    assert (await world.refused("GET", f"{SERVICES}/web"))[0] == 403


async def test_requests_are_recorded_as_rbac_judges_them(world):
    await world.send("POST", APPS, deployment())
    await world.send("GET", f"{APPS}/w/scale")
    (await world.watch("/api/v1/services?watch=true")).close()
    assert world.plane.calls == [
        Call("create", "apps", "deployments", "shop"),
        Call("get", "apps", "deployments", "shop", "w", "scale"),
        Call("watch", "", "services"),
    ]
    assert world.plane.calls[1].right.resource == "deployments/scale"


async def test_server_that_is_away_breaks_watches_and_refuses_requests(world):
    watch = await world.watch(f"{SERVICES}?watch=true")
    world.plane.go_away()
    with pytest.raises(ConnectionError):
        await anext(watch.lines())
    with pytest.raises(ConnectionError):
        await world.send("GET", SERVICES)
    world.plane.come_back()
    await world.send("GET", SERVICES)


async def test_slow_server_responds_late(world):
    world.plane.faults.delay = 3.0
    before = asyncio.get_running_loop().time()
    await world.send("GET", SERVICES)
    assert asyncio.get_running_loop().time() - before == 3.0
