"""Takeover by the whole program: the slice follows the pods, and comes before sleep."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from activator.discovery.api_server import no_response
from activator.lab.http1 import HttpRequest
from activator.process.timers import Tasks
from activator.scale.part import PartContext
from activator.scale.reports.load import Loads, ServiceName
from activator.scale.settings import load
from activator.scale.takeover.part import MOST_REQUESTS, TakeoverPart
from activator.scale.takeover.slices import SliceFamily
from activator.scale.workloads.services import EnabledServices
from tests.activator.scale.fake_api import status
from tests.activator.scale.takeover.slice_api import SliceApi
from tests.activator.scale.takeover.test_takeovers import A, parsed
from tests.activator.scale.world import Cluster, cluster, elapse, leader, scaler, until


class World:
    """A writer in virtual time."""

    def __init__(self, services: int = 1) -> None:
        self.api = SliceApi()
        self.tasks = Tasks()
        self.clock = asyncio.get_running_loop().time
        self.writer = TakeoverPart(
            PartContext(
                settings=load({}, {"SYSTEM_NAMESPACE": "activator-system", "POD_NAME": "scale-1"}),
                api=self.api,
                services=EnabledServices(),
                loads=Loads(),
                record=lambda name: None,
                sharing=lambda target: (),
                start=self.tasks.start,
                clock=self.clock,
                is_leader=lambda: self.leads,
                changed=self._changed,
                missing_rule=lambda kind: "",
            )
        )
        self.takeovers = self.writer.takeovers
        self.takeovers.set_activators({SliceFamily.IPV4: (A,)})
        for n in range(services):
            self.takeovers.put(parsed(f"s{n}"), 0.0, takes_over=True)
        self.changed: list[ServiceName] = []
        self.news = asyncio.Event()
        self.leads = True
        self.takeovers.start()

    def _changed(self, names: Iterable[ServiceName]) -> None:
        self.changed += names
        self.news.set()

    async def written(self, slices: int) -> None:
        """Wait until so many slices exist."""
        while len(self.api.slices) < slices:
            self.news.clear()
            await self.news.wait()


async def test_slices_are_written_and_each_write_is_reported() -> None:
    world = World(3)
    world.writer.poke()
    await world.tasks.finish(5)
    assert {name for _, name in world.api.slices} == {f"s{n}-activator" for n in range(3)}
    assert sorted(world.changed) == [ServiceName("shop", f"s{n}") for n in range(3)]


async def test_a_change_of_all_slices_is_a_few_requests_at_a_time() -> None:
    world = World(100)
    at_once = most = 0

    async def pause() -> None:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0)
        at_once -= 1

    world.api.pause = pause
    world.writer.poke()
    await world.written(100)
    assert most == MOST_REQUESTS


@pytest.mark.parametrize(
    "failure", [no_response("connection refused"), status(500, "etcd"), status(403, "forbidden")]
)
async def test_a_failed_write_is_repeated_without_another_event(failure: Any) -> None:
    world = World()
    world.api.script.extend([failure, failure])
    world.writer.poke()
    await world.written(1)
    assert world.clock() == 0.5 + 1
    assert world.changed == [ServiceName("shop", "s0")] * 3


async def test_the_log_names_the_slice_and_the_failure(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.api.script.append(status(403, "endpointslices is forbidden"))
    with caplog.at_level(logging.INFO):
        world.writer.poke()
        await world.written(1)
        await world.tasks.finish(5)
    assert caplog.messages == [
        "EndpointSlice shop/s0-activator: POST failed: endpointslices is forbidden",
        "EndpointSlice shop/s0-activator: POST",
    ]


async def test_a_process_that_does_not_lead_writes_nothing() -> None:
    world = World()
    world.leads = False
    world.writer.poke()
    await world.tasks.finish(5)
    assert world.api.requests == []
    world.leads = True
    world.writer.poke()
    await world.tasks.finish(5)
    assert len(world.api.slices) == 1


async def test_a_closed_writer_repeats_nothing() -> None:
    world = World()
    world.api.script.append(status(500))
    world.writer.poke()
    await world.tasks.finish(5)
    world.writer.stop(world.clock())
    await asyncio.sleep(0)
    assert len(world.api.requests) == 1


async def test_a_cancelled_request_does_not_block_its_slice() -> None:
    world = World()
    world.api.pause = asyncio.Event().wait  # type: ignore[assignment] # never responds
    world.writer.poke()
    await asyncio.sleep(0)
    await world.tasks.close()
    world.api.pause = None
    world.writer.poke()
    await world.written(1)


SLICES = "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices"


async def find(kube: Cluster, name: str = "hello") -> Any:
    """Return a takeover slice; None if it does not exist."""
    found = (await kube.send("GET", SLICES))["items"]
    return next((each for each in found if each["metadata"]["name"] == f"{name}-activator"), None)


async def addresses(kube: Cluster) -> list[str]:
    """Return the endpoints of the takeover slice."""
    found = await find(kube)
    endpoints = (found or {}).get("endpoints") or []
    return [address for each in endpoints for address in each["addresses"]]


async def test_the_activators_take_over_while_no_pod_is_ready(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kube:
        await kube.list_activators("10.1.0.1", "10.1.0.2")
        await kube.add(route="takeover", idle_seconds="10")
        async with leader(kube) as running, running.activator() as activator:
            await elapse(2)
            assert await addresses(kube) == ["10.1.0.1", "10.1.0.2"]
            slice_ = await find(kube)
            assert slice_["metadata"]["annotations"] == {"activator.dev/port": "10000"}
            assert slice_["ports"] == [{"name": "http", "port": 10000, "protocol": "TCP"}]
            await activator.report(1)
            await until(lambda: kube.replicas() == 1, "a replica", within=2)
            await kube.set_ready("hello", 1)
            await elapse(5)
            assert await addresses(kube) == []
            assert (await find(kube))["metadata"]["annotations"]["activator.dev/port"] == "10000"
            assert (await running.service())["takesOver"] is False

            taken = asyncio.ensure_future(since_taken(kube))
            await until(lambda: kube.replicas() == 0, "no replica")
            asleep = asyncio.get_running_loop().time()
            assert asleep - await taken >= 2


async def test_the_slice_stays_during_a_cold_start_if_the_route_changes(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kube:
        await kube.list_activators("10.1.0.1")
        await kube.add(route="takeover")
        async with leader(kube) as running, running.activator() as activator:
            await activator.report(1)
            await until(lambda: kube.replicas() == 1, "a replica", within=4)
            await kube.annotate(route="shared")
            await elapse(10)
            assert await addresses(kube) == ["10.1.0.1"]
            await kube.set_ready("hello", 1)
            await elapse(2)
            assert await find(kube) is None


async def since_taken(kube: Cluster) -> float:
    """Return when the slice lists activators again."""
    while not await addresses(kube):
        await elapse(0.1)
    return asyncio.get_running_loop().time()


async def test_without_a_slice_the_last_pod_stays_and_the_reason_is_shown(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kube:
        await kube.add(replicas=1, route="takeover", idle_seconds="1")
        await kube.set_ready("hello", 1)
        async with leader(kube) as running, running.activator():
            await elapse(200)
            assert kube.replicas() == 1
            view = await running.service()
            assert view["reason"] == "takeover-not-in-place"
            assert "no-activators" in {each["reason"] for each in view["findings"]}


async def test_a_restart_keeps_the_port_and_removes_the_slice_of_a_former_service(
    tmp_path: Path,
) -> None:
    async with cluster(tmp_path) as kube:
        await kube.list_activators("10.1.0.1")
        await kube.add("first", route="takeover")
        await kube.add("hello", route="takeover")
        async with leader(kube, "scale-1"):
            await elapse(2)
            port = (await find(kube))["ports"][0]["port"]
        await kube.annotate("first", route="shared")
        async with leader(kube, "scale-2"):
            await elapse(30)
            assert (await find(kube))["ports"][0]["port"] == port
            assert await find(kube, "first") is None


async def test_a_follower_writes_no_slice_and_a_leader_repairs_one(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kube:
        await kube.list_activators("10.1.0.1")
        async with leader(kube, "scale-1"), scaler(kube, "scale-2"):
            await kube.add(route="takeover")
            await elapse(5)
            assert len(kube.calls("create", "endpointslices")) == 2  # one by this test
            await kube.plane.send(HttpRequest("DELETE", f"{SLICES}/hello-activator"))
            await elapse(5)
            assert await addresses(kube) == ["10.1.0.1"]


@pytest.mark.parametrize("annotation", ["enabled", "route"])
async def test_a_service_that_opts_out_loses_its_slice(tmp_path: Path, annotation: str) -> None:
    async with cluster(tmp_path) as kube:
        await kube.list_activators("10.1.0.1")
        await kube.add(route="takeover")
        async with leader(kube):
            await elapse(2)
            assert await find(kube)
            await kube.annotate(**{annotation: None})
            await elapse(30)
            assert await find(kube) is None


async def test_a_change_of_the_leader_leaves_a_sleeping_service_its_endpoints(
    tmp_path: Path,
) -> None:
    async with cluster(tmp_path) as kube:
        await kube.list_activators("10.1.0.1")
        for name in ("hello", "other"):
            await kube.add(name, route="takeover")
        async with leader(kube, "scale-1"):
            await elapse(5)
            assert await addresses(kube) == ["10.1.0.1"]
            written = len(kube.calls("patch", "endpointslices"))
        # The next one leads twice: it loses the Lease for a while.
        async with leader(kube, "scale-2") as running:
            await elapse(60)
            running.scaler.engine.stop(asyncio.get_running_loop().time())
            await elapse(60)
            list(running.scaler.engine.starting(asyncio.get_running_loop().time()))
            await elapse(60)
        assert kube.calls("delete", "endpointslices") == []
        assert len(kube.calls("patch", "endpointslices")) == written
        assert await addresses(kube) == ["10.1.0.1"]


@pytest.mark.parametrize("wrong", [{"route": "next-version"}, {"port": "No!"}])
async def test_a_service_that_cannot_be_read_after_a_restart_keeps_its_slice(
    wrong: dict[str, str], tmp_path: Path
) -> None:
    async with cluster(tmp_path) as kube:
        await kube.list_activators("10.1.0.1")
        await kube.add(route="takeover")
        async with leader(kube, "scale-1"):
            await elapse(5)
        await kube.annotate(**wrong)
        async with leader(kube, "scale-2") as running:
            await elapse(60)
            assert await addresses(kube) == ["10.1.0.1"]
            assert next(iter(wrong)) in str(await running.service())
            await kube.annotate(**{**dict.fromkeys(wrong, ""), "route": "shared"})
            await elapse(5)
            assert await find(kube) is None
