"""More CPU while pods start: the annotation ``startup-cpu``, by the whole program."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from activator.lab.control_plane.api import PODS as POD_KIND
from activator.scale.startup import MOST
from tests.activator.scale.wakers.pods import cpu
from tests.activator.scale.world import Cluster, cluster, elapse, leader, until

PODS: Final = "/api/v1/namespaces/shop/pods"


class World:
    """The Deployment shop/hello, whose pod a test starts."""

    def __init__(self, kube: Cluster) -> None:
        self.kube = kube

    async def add(self, resources: Any, replicas: int = 1, **annotations: str) -> None:
        await self.kube.add("hello", replicas, **annotations)
        spec = {"template": {"spec": {"containers": [{"name": "c", "resources": resources}]}}}
        path = "/apis/apps/v1/namespaces/shop/deployments/hello"
        made = await self.kube.send("PATCH", path, {"spec": spec})
        self.owner = {"name": "hello", "uid": made["metadata"]["uid"]}

    async def start_pod(self, resources: Any, **status: Any) -> None:
        metadata = {
            "name": "hello-1",
            "namespace": "shop",
            "labels": {"app": "hello"},
            "ownerReferences": [self.owner],
        }
        spec = {"containers": [{"name": "c", "resources": resources}]}
        await self.kube.send("POST", PODS, {"metadata": metadata, "spec": spec})
        await self.set_ready(False, **status)

    async def set_ready(self, ready: bool, **status: Any) -> None:
        conditions = [{"type": "Ready", "status": str(ready)}]
        found = self._pod()
        found["status"] = {**found.get("status", {}), **status, "conditions": conditions}
        self.kube.plane.store.put(POD_KIND, found)
        await self.kube.set_ready("hello", int(ready))

    def _pod(self) -> Any:
        found = self.kube.plane.store.get(POD_KIND, "shop", "hello-1")
        assert found is not None
        return found

    def cpu(self) -> Any:
        """Return the CPU of the pod, as requests and limits."""
        resources = self._pod()["spec"]["containers"][0]["resources"]
        return tuple(resources[kind].get("cpu") for kind in ("requests", "limits"))


@asynccontextmanager
async def world(folder: Path) -> AsyncIterator[World]:
    async with cluster(folder) as kube:
        yield World(kube)


@pytest.mark.untraced
@pytest.mark.parametrize(
    ("resources", "qos", "raised", "after"),
    [
        (cpu("100m", "500m"), "Burstable", ("100m", "2000m"), ("100m", "500m")),
        (cpu("500m", "500m"), "Guaranteed", ("2000m", "2000m"), ("500m", "500m")),
    ],
)
async def test_a_pod_has_more_cpu_until_it_is_ready(
    tmp_path: Path, resources: Any, qos: str, raised: Any, after: Any
) -> None:
    async with world(tmp_path) as of:
        await of.add(resources, 0, startup_cpu="2")
        async with leader(of.kube) as running, running.activator() as activator:
            await activator.report(1)
            await until(lambda: of.kube.replicas() == 1, "a pod is asked for", within=1)
            await of.start_pod(resources, qosClass=qos)
            await until(lambda: of.cpu() == raised, "more CPU", within=1)
            await elapse(20)
            assert of.cpu() == raised
            await of.set_ready(True)
            await until(lambda: of.cpu() == after, "the CPU of the template", within=6)
            calls = len(of.kube.calls("list", "pods"))
            await elapse(60)
            assert len(of.kube.calls("list", "pods")) <= calls + 3


@pytest.mark.untraced
@pytest.mark.parametrize("resources", [cpu("100m"), cpu(), cpu("1", "4")])
async def test_a_container_without_a_smaller_limit_stays_as_it_is(
    tmp_path: Path, resources: Any
) -> None:
    async with world(tmp_path) as of:
        await of.add(resources, startup_cpu="2")
        await of.start_pod(resources)
        before = of.cpu()
        async with leader(of.kube):
            await elapse(10)
            assert of.cpu() == before
            assert not of.kube.calls("patch", "pods", "resize")


async def test_a_scaler_that_starts_finds_pods_that_got_more_cpu(tmp_path: Path) -> None:
    async with world(tmp_path) as of:
        await of.add(cpu("100m", "500m"), startup_cpu="2")
        await of.start_pod(cpu("100m", "2"))
        await of.set_ready(True)
        async with leader(of.kube):
            await until(lambda: of.cpu() == ("100m", "500m"), "the CPU of the template", within=5)


@pytest.mark.untraced
async def test_pods_that_never_become_ready_keep_no_other_workload_waiting(tmp_path: Path) -> None:
    async with world(tmp_path) as of:
        for number in range(2 * MOST):
            await of.kube.add(f"broken-{number}", 1, startup_cpu="2")
        async with leader(of.kube):
            await elapse(5)  # all of them wait for their pods by now
            await of.add(cpu("100m", "500m"), startup_cpu="2")
            await of.start_pod(cpu("100m", "500m"))
            await until(lambda: of.cpu() == ("100m", "2000m"), "more CPU", within=10)


async def test_a_missing_right_is_a_finding_and_is_tried_again(tmp_path: Path) -> None:
    async with world(tmp_path) as of:
        await of.add(cpu("100m", "500m"), startup_cpu="2")
        await of.start_pod(cpu("100m", "500m"))
        of.kube.plane.faults.forbid("list", "pods", "")
        async with leader(of.kube) as running:
            await elapse(4)
            [finding] = (await running.service())["findings"]
            assert finding["reason"] == "cannot-resize"
            assert finding["note"].startswith("activator.dev/startup-cpu: 403: ")
            assert finding["note"].endswith(
                '{apiGroups: [""], resources: ["pods"], verbs: ["list"]}'
            )
            of.kube.plane.faults.allow("list", "pods", "")
            await until(lambda: of.cpu() == ("100m", "2000m"), "more CPU", within=10)
            await elapse(1)
            assert (await running.service())["findings"] == []


async def test_a_refused_change_is_a_finding(tmp_path: Path) -> None:
    async with world(tmp_path) as of:
        await of.add(cpu("100m", "500m"), startup_cpu="2")
        await of.start_pod(cpu("100m", "500m"))
        of.kube.plane.faults.forbid("patch", "pods/resize", "")
        async with leader(of.kube) as running:
            await elapse(4)
            [finding] = (await running.service())["findings"]
            assert finding["note"].startswith("activator.dev/startup-cpu: Pod hello-1: 403: ")
            await of.kube.annotate(startup_cpu=None)
            await elapse(8)
            assert (await running.service())["findings"] == []


async def test_no_pod_keeps_the_cpu_of_an_annotation_that_is_removed(tmp_path: Path) -> None:
    async with world(tmp_path) as of:
        await of.add(cpu("100m", "500m"), startup_cpu="2")
        await of.start_pod(cpu("100m", "500m"))
        async with leader(of.kube):
            await until(lambda: of.cpu() == ("100m", "2000m"), "more CPU", within=5)
            await of.kube.annotate(startup_cpu=None)
            await until(lambda: of.cpu() == ("100m", "500m"), "the CPU of the template", within=8)
