"""Other components that scale a workload, as the whole program treats them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.activator.scale.world import Cluster, Running, cluster, elapse, leader, until

HPAS = "/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers"
OBJECTS = "/apis/keda.sh/v1alpha1/namespaces/shop/scaledobjects"
REF = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "hello"}


async def add_hpa(kube: Cluster) -> None:
    spec = {"scaleTargetRef": REF, "minReplicas": 1, "maxReplicas": 9}
    await kube.send("POST", HPAS, {"metadata": {"name": "h", "namespace": "shop"}, "spec": spec})


async def add_scaled_object(kube: Cluster, **annotations: str) -> None:
    spec = {"scaleTargetRef": REF, "triggers": [{"type": "cron", "metadata": {}}]}
    metadata = {"name": "s", "namespace": "shop", "annotations": annotations}
    body = {"metadata": metadata, "spec": spec}
    await kube.send(
        "POST", OBJECTS, {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject"} | body
    )


async def findings(running: Running) -> dict[str, str]:
    return {each["reason"]: each["note"] for each in (await running.service())["findings"]}


@pytest.mark.parametrize(
    ("add", "path", "name"),
    [
        (add_hpa, f"{HPAS}/h", "HorizontalPodAutoscaler h"),
        (add_scaled_object, f"{OBJECTS}/s", "ScaledObject s"),
    ],
)
async def test_a_workload_of_another_component_is_not_scaled_down(
    tmp_path: Path, add: Any, path: str, name: str
) -> None:
    async with cluster(tmp_path) as kube:
        await add(kube)
        await kube.add(replicas=1, idle_seconds="1")
        await kube.set_ready("hello", 1)
        async with leader(kube) as running, running.activator():
            await elapse(150)
            assert kube.replicas() == 1
            view = await running.service()
            assert view["reason"] == "two-owners"
            assert view["cause"] is None  # its first request starts a pod
            assert name in view["detail"]
            assert name in (await findings(running))["two-owners"]
            await kube.send("DELETE", path)
            await until(lambda: kube.replicas() == 0, "no replica", within=10)
            assert "two-owners" not in await findings(running)


@pytest.mark.parametrize("which", ["paused", "paused-replicas", "paused-scale-out"])
async def test_no_pod_starts_while_keda_is_paused(tmp_path: Path, which: str) -> None:
    async with cluster(tmp_path) as kube:
        await kube.add(owner="keda")
        await add_scaled_object(kube, **{f"autoscaling.keda.sh/{which}": "1"})
        async with leader(kube) as running, running.activator() as activator:
            await activator.report(1)
            await elapse(1)
            assert (await running.service())["reason"] == "scaled-object-paused"
            await elapse(10)
            assert kube.replicas() == 0
            note = (await findings(running))["scaled-object-paused"]
            assert f"the annotation autoscaling.keda.sh/{which}: KEDA" in note
            annotations = {f"autoscaling.keda.sh/{which}": None}
            await kube.send("PATCH", f"{OBJECTS}/s", {"metadata": {"annotations": annotations}})
            await activator.report(1)
            await until(lambda: kube.replicas() == 1, "a replica", within=5)
            await elapse(1)
            assert (await running.service())["reason"] is None


async def test_keda_that_keeps_replicas_lets_a_request_start_one(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kube:
        await kube.add(owner="keda")
        await add_scaled_object(kube, **{"autoscaling.keda.sh/paused-scale-in": "true"})
        async with leader(kube) as running, running.activator() as activator:
            await activator.report(1)
            await until(lambda: kube.replicas() == 1, "a replica", within=1)
            assert "scale-in-paused" in await findings(running)


async def test_a_named_owner_is_missed_and_found(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kube:
        await kube.add(owner="hpa")
        async with leader(kube) as running:
            await elapse(1)
            assert "hpa-missing" in await findings(running)
            await add_hpa(kube)
            await elapse(1)
            assert "hpa-cannot-wake" in await findings(running)


@pytest.mark.parametrize(
    ("owner", "group", "plural"),
    [
        ("hpa", "autoscaling", "horizontalpodautoscalers"),
        ("keda", "keda.sh", "scaledobjects"),
    ],
)
async def test_an_owner_that_cannot_be_read_is_not_called_missing(
    tmp_path: Path, owner: str, group: str, plural: str
) -> None:
    async with cluster(tmp_path) as kube:
        kube.plane.faults.forbid("list", plural, group)
        await kube.add(owner=owner)
        async with leader(kube) as running:
            await elapse(1)
            found = await findings(running)
            assert list(found) == ["owner-unreadable"]
            rule = f'{{apiGroups: ["{group}"], resources: ["{plural}"], verbs: ["list", "watch"]}}'
            assert rule in found["owner-unreadable"]


async def test_a_component_that_undoes_a_cold_start_is_named(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kube:
        await kube.add()
        async with leader(kube) as running, running.activator() as activator:
            activator.hold(1)
            await until(lambda: kube.replicas() == 1, "a replica", within=2)
            path = "/apis/apps/v1/namespaces/shop/deployments/hello"
            await kube.send("PATCH", path, {"spec": {"replicas": 0}})
            await elapse(1)
            assert "test" in (await findings(running))["replicas-reset"]
            await until(lambda: kube.replicas() == 1, "a replica again", within=5)


async def test_a_cluster_without_keda_is_fine(tmp_path: Path) -> None:
    async with cluster(tmp_path, keda=False) as kube:
        await kube.add()
        async with leader(kube) as running, running.activator() as activator:
            await activator.report(1)
            await until(lambda: kube.replicas() == 1, "a replica", within=2)
