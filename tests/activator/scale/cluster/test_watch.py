"""The watches of the scaler against a stand-in control plane."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from activator.discovery.api_server import ApiServer
from activator.discovery.backoff import Timings
from activator.scale.cluster.objects import Objects
from activator.scale.cluster.watch import NEEDED, Watch
from activator.scale.part import views
from activator.scale.workloads.services import Services
from tests.activator.scale.world import Cluster, cluster, elapse, until


@asynccontextmanager
async def watching(kube: Cluster) -> AsyncIterator[tuple[Watch, Services]]:
    services = Services()
    server = ApiServer(kube.kubeconfig, Timings(), {})
    watch = Watch(server, Objects(views(services, [])), Timings())
    task = asyncio.ensure_future(watch.run())
    try:
        await watch.wait_synced()
        yield watch, services
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await server.close()


def is_stale(watch: Watch) -> bool:
    return watch.is_stale(asyncio.get_running_loop().time())


async def test_objects_are_listed_and_followed(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kube:
        await kube.add("one")
        async with watching(kube) as (watch, services):
            assert len(services) == 1
            assert watch.synced
            await kube.add("two")
            await until(lambda: len(services) == 2, "the second Service", within=1)
            assert watch.errors() == {}
            assert set(watch.ages(0)) == {resource.kind for resource in NEEDED}


async def test_an_idle_cluster_is_not_stale(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kube, watching(kube) as (watch, _):
        for _ in range(20):
            await elapse(30)
            assert not is_stale(watch)


async def test_a_server_that_is_away_or_silent_makes_the_state_stale(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kube, watching(kube) as (watch, _):
        kube.plane.go_away()
        await elapse(5)
        assert is_stale(watch)
        assert set(watch.errors()) == {resource.kind for resource in NEEDED}
        kube.plane.come_back()
        await until(lambda: not is_stale(watch), "a fresh state", within=60)
        assert watch.errors() == {}


async def test_a_waiting_request_shortens_the_pause_after_a_failure(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kube, watching(kube) as (watch, _):
        kube.plane.go_away()
        await elapse(120)
        kube.plane.come_back()
        watch.hurry()
        await until(lambda: not is_stale(watch), "a fresh state", within=4)
