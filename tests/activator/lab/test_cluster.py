"""A whole toy cluster, with processes as pods."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from activator.lab import kubelet
from activator.lab.cluster import ToyCluster
from activator.lab.control_plane.api import DEPLOYMENTS, PODS, SERVICES
from activator.lab.kubelet import Probes, ask
from activator.lab.objects import HTTP_PROBE, TCP_PROBE, deployment, revision, service
from activator.lab.programs import fetch
from tests.conftest import on_uvloop
from tests.process import PATIENCE, addresses

pytestmark = on_uvloop


@pytest.fixture(autouse=True)
def patient_kubelet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubelet, "TIMEOUT", PATIENCE)


class Town:
    """A cluster with the service web, and the history of its endpoints."""

    def __init__(self, tasks: asyncio.TaskGroup) -> None:
        self.events: list[str] = []
        self.listed: list[tuple[list[str], list[str], list[str]]] = []
        self._changed = asyncio.Event()
        self.cluster = ToyCluster(addresses(), tasks, self._tell, pace=0.005)
        # The end of a pod that no slice has listed changes no slice.
        self.cluster.plane.store.listen(lambda change: self._changed.set())

    def _tell(self, kind: str, pod: str = "", **details: Any) -> None:
        self.events.append(f"{pod} {kind}")
        if kind == "listed in slices":
            self.listed.append((details["ready"], details["not_ready"], details["terminating"]))
        self._changed.set()

    async def until(self, is_so: Callable[[], object]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not is_so():
                self._changed.clear()
                await self._changed.wait()

    async def until_listed(self, *wanted: list[str]) -> None:
        await self.until(lambda: self.listed and self.listed[-1] == wanted)

    def create(self, replicas: int, **settings: Any) -> None:
        self.cluster.create(DEPLOYMENTS, deployment("web", replicas=replicas, **settings))
        self.cluster.create(SERVICES, service("web"))


@asynccontextmanager
async def town() -> AsyncIterator[Town]:
    async with asyncio.TaskGroup() as tasks:
        found = Town(tasks)
        await found.cluster.start()
        try:
            yield found
        finally:
            await found.cluster.close()


async def test_pod_is_listed_over_its_life():
    async with town() as here:
        here.create(1, probe=HTTP_PROBE, arguments=["--quiet-period=0.05"])
        await here.until_listed(["web-1"], [], [])
        pod = here.cluster.pods["web-1"]
        options = pod.options
        assert (await fetch(options.address, options.port, "/")).status == 200
        await ask(options.address, options.admin_port, "/toggleReady")
        await here.until_listed([], ["web-1"], [])
        await ask(options.address, options.admin_port, "/toggleReady")
        await here.until_listed(["web-1"], [], [])
        here.cluster.scale("web", 0)
        await here.until_listed([], [], [])
        order = [entry for n, entry in enumerate(here.listed) if entry != here.listed[n - 1]]
        assert order[:2] == [([], ["web-1"], []), (["web-1"], [], [])]
        assert order[-2:] == [([], [], ["web-1"]), ([], [], [])]
        assert here.cluster.pods == {}


async def test_killed_process_is_started_again_at_its_address():
    async with town() as here:
        here.create(1, probe=TCP_PROBE)
        await here.until_listed(["web-1"], [], [])
        address = here.cluster.pods["web-1"].options.address
        here.cluster.pods["web-1"].kill()
        await here.until_listed([], ["web-1"], [])
        await here.until_listed(["web-1"], [], [])
        assert here.cluster.pods["web-1"].options.address == address


async def test_rollout_replaces_pods_one_by_one():
    async with town() as here:
        here.create(1, probe=TCP_PROBE, arguments=["--quiet-period=0.01"])
        await here.until_listed(["web-1"], [], [])
        change = {"spec": {"template": {"metadata": {"labels": {"version": "b"}}}}}
        here.cluster.patch(DEPLOYMENTS, "web", change)
        await here.until_listed(["web-2"], [], [])
        ready = [entry[0] for entry in here.listed[here.listed.index((["web-1"], [], [])) :]]
        assert all(ready), "one pod was ready at each moment"


async def test_pod_without_a_probe_is_ready_before_it_listens():
    async with town() as here:
        here.create(1, arguments=["--start-after=60"])
        await here.until_listed(["web-1"], [], [])
        assert "web-1 listening" not in here.events


async def test_pod_may_be_deleted_before_it_listens():
    async with town() as here:
        here.create(1, probe=TCP_PROBE, arguments=["--start-after=60"])
        await here.until(lambda: here.cluster.pods)
        here.cluster.scale("web", 0)
        await here.until(lambda: not here.cluster.pods)


# -- revisions of Knative -----------------------------------------------------------------------


class Village:
    """A cluster with the revision app, and the history of pods in its Endpoints."""

    def __init__(self, tasks: asyncio.TaskGroup, folder: Path) -> None:
        self.folder = folder
        self.listed: list[tuple[list[str], list[str]]] = []
        self._told = asyncio.Event()
        self.cluster = ToyCluster(addresses(), tasks, self._tell, folder=folder)
        self.cluster.plane.store.listen(lambda change: self._told.set())
        self.cluster.add_revision(revision("app"), Probes(0.02), {"quiet_period": 0.01})

    def _tell(self, kind: str, pod: str = "", **details: Any) -> None:
        if kind == "listed":
            self.listed.append((details["ready"], details["not_ready"]))
            self._told.set()

    async def until(self, *listed: list[str]) -> None:
        async with asyncio.timeout(PATIENCE):
            while self.listed[-1] != listed:
                self._told.clear()
                await self._told.wait()

    async def until_gone(self) -> None:
        async with asyncio.timeout(PATIENCE):
            while self.cluster.pods:
                self._told.clear()
                await self._told.wait()

    def subsets(self) -> Any:
        found = json.loads((self.folder / "default.app-private.endpoints.json").read_text())
        return found.get("subsets")


async def test_endpoints_say_what_kubelet_says(tmp_path):
    async with asyncio.TaskGroup() as tasks:
        here = Village(tasks, tmp_path)
        assert (tmp_path / "default.app.revision.json").exists()
        assert here.subsets() is None
        here.cluster.start_pods("app", 2)
        await here.until([], ["app-1", "app-2"])
        await here.until(["app-1", "app-2"], [])
        assert here.listed[:2] == [([], []), ([], ["app-1", "app-2"])]
        known = {each["ip"] for each in here.subsets()[0]["addresses"]}
        assert known == {pod.options.address for pod in here.cluster.pods.values()}
        here.cluster.stop_pod("app-2")
        await here.until(["app-1"], [])
        here.cluster.stop_pod("app-1")
        await here.until([], [])
        assert here.cluster.running("app") == []
        await here.until_gone()
        await here.cluster.close()


async def test_an_unchanged_state_is_not_reported_twice(tmp_path):
    async with asyncio.TaskGroup() as tasks:
        here = Village(tasks, tmp_path)
        here.cluster.start_pods("app", 0)
        await asyncio.sleep(0)
        assert here.listed == [([], [])]
        await here.cluster.close()


async def test_a_pod_with_very_little_cpu_is_stopped_and_continues() -> None:
    async with town() as here:
        resources = {"limits": {"cpu": "1"}}
        made = deployment("web", replicas=1, probe=TCP_PROBE)
        made["spec"]["template"]["spec"]["containers"][0]["resources"] = resources
        here.cluster.create(DEPLOYMENTS, made)
        here.cluster.create(SERVICES, service("web"))
        await here.until_listed(["web-1"], [], [])
        pod = here.cluster.pods["web-1"]
        where = pod.options.address, pod.options.port

        def resize(cpu: str) -> None:
            change = {"containers": [{"name": "app", "resources": {"limits": {"cpu": cpu}}}]}
            here.cluster.plane.act("patch", PODS, "default", "web-1", {"spec": change}, "resize")

        resize("10m")
        waiting = asyncio.ensure_future(fetch(*where, "/"))
        done, _ = await asyncio.wait([waiting], timeout=0.2)
        assert not done
        resize("1")
        assert (await waiting).status == 200
