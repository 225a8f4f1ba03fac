"""The objects of a cluster: their versions, their views, and the watches that bring them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from activator.discovery.api_server import ApiServer
from activator.discovery.backoff import Timings
from activator.discovery.rejections import Effect
from activator.objects.fields import ObjectKey, root
from activator.scale.cluster.watch import NEEDED, ClusterObjects, ClusterWatch
from activator.scale.part import views
from activator.scale.workloads.services import EnabledServices
from tests.activator.scale.world import Cluster, cluster, elapse, until

KIND = "Deployment"


class Names:
    """A view that records the value of each object."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}

    def put(self, key: ObjectKey, obj: object) -> None:
        self.values[key.name] = root(obj, key.kind)["value"].text()

    def remove(self, key: ObjectKey) -> None:
        self.values.pop(key.name, None)


def deployment(name: str = "a", version: int = 1, value: Any = "x", uid: str = "u") -> Any:
    metadata = {"name": name, "namespace": "shop", "resourceVersion": str(version), "uid": uid}
    return {"kind": KIND, "metadata": metadata, "value": value}


class World:
    """Objects with one view."""

    def __init__(self) -> None:
        self.view = Names()
        self.objects = ClusterObjects({KIND: [self.view]})

    def replace(self, *objects: Any) -> None:
        for _ in self.objects.replacing(KIND, objects):
            pass


def test_an_object_is_added_changed_and_removed() -> None:
    world = World()
    world.objects.apply(deployment(value="x"))
    world.objects.apply(deployment(version=2, value="y"))
    assert world.view.values == {"a": "y"}
    assert world.objects.counts == {KIND: 1}
    world.objects.remove(KIND, "shop", "a", "u")
    world.objects.remove(KIND, "shop", "a", "u")
    assert world.view.values == {}
    assert world.objects.counts == {KIND: 0}


def test_an_outdated_event_is_ignored() -> None:
    world = World()
    world.objects.apply(deployment(version=10, value="new"))
    world.objects.apply(deployment(version=9, value="old"))
    assert world.view.values == {"a": "new"}
    world.objects.remove(KIND, "shop", "a", uid="another object")
    assert world.view.values == {"a": "new"}


def test_a_list_removes_all_others_and_may_be_older() -> None:
    world = World()
    world.objects.apply(deployment("a", version=10, value="new"))
    world.objects.apply(deployment("b", version=11))
    world.replace(deployment("a", version=5, value="restored"), deployment("c"))
    assert world.view.values == {"a": "restored", "c": "x"}
    assert world.objects.counts == {KIND: 2}


def test_a_broken_object_keeps_its_last_state_and_is_reported_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World()
    world.objects.apply(deployment(value="good"))
    world.objects.apply(deployment(version=2, value=5))
    world.objects.apply(deployment(version=3, value=5))
    world.replace(deployment(version=3, value=5))
    assert world.view.values == {"a": "good"}
    (line,) = caplog.messages
    assert "shop/a" in line
    assert line.endswith(f"; {Effect.KEPT}")
    assert len(world.objects.rejected) == 1
    world.objects.apply(deployment(version=4, value="well"))
    assert world.view.values == {"a": "well"}
    assert not world.objects.rejected


def test_objects_of_other_kinds_and_noise_are_ignored() -> None:
    world = World()
    for noise in (None, 5, {}, {"kind": "Pod"}, {"kind": ["x"]}, {"kind": KIND}):
        world.objects.apply(noise)
    assert world.view.values == {}


@asynccontextmanager
async def watching(kube: Cluster) -> AsyncIterator[tuple[ClusterWatch, EnabledServices]]:
    services = EnabledServices()
    server = ApiServer(kube.kubeconfig, Timings(), {})
    watch = ClusterWatch(server, ClusterObjects(views(services.views(), [])), Timings())
    task = asyncio.ensure_future(watch.run())
    try:
        await watch.wait_synced()
        yield watch, services
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await server.close()


def is_stale(watch: ClusterWatch) -> bool:
    return watch.is_stale(asyncio.get_running_loop().time())


async def test_objects_are_listed_and_followed(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kube:
        await kube.add("one")
        async with watching(kube) as (watch, services):
            assert len(list(services)) == 1
            assert watch.synced
            await kube.add("two")
            await until(lambda: len(list(services)) == 2, "the second Service", within=1)
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
