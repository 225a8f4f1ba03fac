"""Parked pods by the whole program: the mark, the wake, and a pod that cannot be parked."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from activator.lab.control_plane.api import PODS
from tests.activator.scale.takeover.test_front import add_front, addresses
from tests.activator.scale.wakers.pods import cpu
from tests.activator.scale.world import Cluster, cluster, elapse, leader, until

SERVICE = "/api/v1/namespaces/shop/services/hello"


async def add(kube: Cluster, resources: Any, *, is_front: bool = False) -> None:
    """Create the Deployment shop/hello with a pod that is ready, and its Service."""
    if is_front:
        await add_front(kube, 1, waker="resize", idle_seconds="10")
    else:
        await kube.add("hello", 1, waker="resize", idle_seconds="10")
    containers = [{"name": "c", "resources": resources}]
    path = "/apis/apps/v1/namespaces/shop/deployments/hello"
    template = {"template": {"spec": {"containers": containers}}}
    made = await kube.send("PATCH", path, {"spec": template})
    owner = {"name": "hello", "uid": made["metadata"]["uid"]}
    metadata: Any = {"name": "hello-1", "namespace": "shop", "labels": {"app": "hello"}}
    body = {
        "metadata": {**metadata, "ownerReferences": [owner]},
        "spec": {"containers": containers},
    }
    pod = await kube.send("POST", "/api/v1/namespaces/shop/pods", body)
    status = {"conditions": [{"type": "Ready", "status": "True"}], "qosClass": "Burstable"}
    kube.plane.store.put(PODS, {**pod, "status": status})
    await kube.set_ready("hello-pods" if is_front else "hello", 1)


def limit(kube: Cluster) -> str:
    found = kube.plane.store.get(PODS, "shop", "hello-1")
    assert found is not None
    return str(found["spec"]["containers"][0]["resources"]["limits"]["cpu"])


async def mark(kube: Cluster) -> Any:
    return (await kube.send("GET", SERVICE))["metadata"]["annotations"].get("activator.dev/asleep")


async def has_mark(kube: Cluster) -> bool:
    return await mark(kube) is not None


async def until_true(condition: Callable[[], Awaitable[bool]]) -> float:
    """Wait for a condition; return when it was first true."""
    while not await condition():
        await elapse(0.05)
    return asyncio.get_running_loop().time()


async def test_a_pod_that_kubernetes_lists_as_ready_sleeps_and_wakes(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kube:
        await add(kube, cpu("500m", "1"))
        async with leader(kube) as running, running.activator() as activator:
            await activator.report(1)
            await until(lambda: limit(kube) == "10m", "the pod is parked", within=200)
            assert await mark(kube) == '{"waker":"resize"}'
            await elapse(30)
            view = await running.service()
            assert (view["phase"], view["reason"], limit(kube)) == ("asleep", None, "10m")
            saved = view["savings"]  # the pod stays, with its memory
            assert (saved["podSeconds"], saved["memoryByteSeconds"]) == (0, 0)
            assert saved["cpuCoreSeconds"] >= 15  # half a core for 30 s
            await activator.report(1)
            await until(lambda: limit(kube) == "1000m", "it has its CPU back", within=0.3)
            await elapse(0.3)
            assert await mark(kube) is None
            assert kube.replicas() == 1


async def test_a_front_leads_to_a_pod_only_while_it_is_awake(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kube:
        await add(kube, cpu("500m", "1"), is_front=True)
        async with leader(kube) as running, running.activator() as activator:
            await activator.report(1)
            await elapse(5)
            assert await addresses(kube) == ["10.0.0.1"]

            async def has_left() -> bool:
                return await addresses(kube) == ["10.1.0.1"]

            left = asyncio.ensure_future(until_true(has_left))
            await until(lambda: limit(kube) == "10m", "the pod is parked", within=200)
            assert asyncio.get_running_loop().time() - await left >= 2
            await elapse(30)
            assert await addresses(kube) == ["10.1.0.1"]
            await activator.report(1)
            await until(lambda: limit(kube) == "1000m", "it has its CPU back", within=0.3)
            assert await addresses(kube) == ["10.1.0.1"]
            await elapse(5)
            assert await addresses(kube) == ["10.0.0.1"]


async def test_a_scaler_that_ends_in_the_middle_leaves_no_mark_on_a_pod_that_is_awake(
    tmp_path: Path,
) -> None:
    async with cluster(tmp_path) as kube:
        await add(kube, cpu("500m", "1"))
        async with leader(kube, "scale-1") as running, running.activator() as activator:
            await activator.report(1)
            await until_true(lambda: has_mark(kube))
        assert (limit(kube), bool(await mark(kube))) == ("1", True)
        async with leader(kube, "scale-2"):
            await elapse(5)
            assert (limit(kube), await mark(kube)) == ("1", None)


async def test_a_parked_pod_wakes_when_its_service_opts_out(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kube:
        await add(kube, cpu("500m", "1"))
        async with leader(kube) as running, running.activator() as activator:
            await activator.report(1)
            await until(lambda: limit(kube) == "10m", "the pod is parked", within=200)
            await kube.annotate(enabled=None)
            await until(lambda: limit(kube) == "1000m", "it has its CPU back", within=10)
            await elapse(5)
            assert await mark(kube) is None


async def test_a_workload_stays_awake_whose_services_have_different_wakers(tmp_path: Path) -> None:
    """The second Service has no asleep mark, so its requests would reach the parked pod."""
    async with cluster(tmp_path) as kube:
        await add(kube, cpu("500m", "1"))
        async with leader(kube) as running, running.activator() as activator:
            await activator.report(1)
            await until(lambda: limit(kube) == "10m", "the pod is parked", within=200)
            await kube.add("other", target="deployment/hello")
            await kube.set_ready("other", 1)
            await until(lambda: limit(kube) == "1000m", "it has its CPU back", within=10)
            await elapse(60)
            assert (await mark(kube), limit(kube)) == (None, "1000m")
            for name, differs in (("hello", "other"), ("other", "hello")):
                view = await running.service(name)
                assert (view["phase"], view["reason"]) == ("awake", "two-owners")
                assert view["detail"] == (
                    f"the waker of Service shop/{differs} differs, and both have the same "
                    f"workload, so it does not sleep; give both the same annotations of a waker, "
                    f"or remove activator.dev/enabled from one"
                )
            await kube.annotate("other", waker="resize")
            await until(lambda: limit(kube) == "10m", "the pod is parked again", within=60)


async def test_a_pod_that_cannot_be_parked_ends_and_the_reason_says_why(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kube:
        await add(kube, {"requests": {"memory": "1Gi"}})
        async with leader(kube) as running, running.activator() as activator:
            await activator.report(1)
            await until(lambda: kube.replicas() == 0, "it ends", within=200)
            kube.plane.store.delete(PODS, "shop", "hello-1")
            await kube.set_ready("hello", 0)
            await elapse(30)
            view = await running.service()
            assert (view["phase"], view["reason"]) == ("asleep", "cannot-resize")
            assert view["detail"] == (
                "Pod hello-1 has no container with more CPU than it would keep: it cannot be "
                "parked, so it ends"
            )
            await activator.report(1)
            await until(lambda: kube.replicas() == 1, "it starts", within=0.3)
            await elapse(5)
            assert (await running.service())["reason"] is None
