"""The whole program against a stand-in control plane: sockets, Lease, watches, replicas."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.activator.scale.keda.test_part import until_leader
from tests.activator.scale.world import cluster, elapse, leader, scaler, until
from tests.conftest import on_uvloop


def now() -> float:
    return asyncio.get_running_loop().time()


# -- from zero and back ---------------------------------------------------------------------------


async def test_a_request_wakes_a_workload_and_its_absence_lets_it_sleep(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with cluster(tmp_path) as kube:
        await kube.add(idle_seconds="90")
        async with leader(kube) as running, running.activator() as activator:
            await activator.report(1)
            await until(lambda: kube.replicas() == 1, "a replica", within=0.2)
            await kube.set_ready("hello", 1)
            began = now()
            await until(lambda: kube.replicas() == 0, "no replica")
            assert 85 < now() - began < 100
            view = await running.service()
    assert view["phase"] == "asleep"
    assert view["reason"] is None
    assert view["lastChange"]["before"] == 1
    assert view["lastChange"]["why"] == "idle"
    assert "Deployment hello: 0 -> 1 replicas: a request waits while there is no pod" in caplog.text
    assert "Deployment hello: 1 -> 0 replicas: no request for idle-seconds" in caplog.text


async def test_a_cold_start_is_one_patch_however_many_reports_come(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kube:
        await kube.add(initial_scale="2")
        async with leader(kube) as running, running.activator() as activator:
            for _ in range(20):
                await activator.report(5)
            await until(lambda: kube.replicas() == 2, "two replicas", within=1)
            await elapse(10)
            assert len(kube.calls("patch", "deployments", "scale")) == 1
            assert kube.replicas() == 2


async def test_a_workload_that_stays_at_zero_is_tried_every_two_seconds(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kube:
        await kube.add()
        kube.plane.faults.forbid("patch", "deployments/scale", "apps")
        async with leader(kube) as running, running.activator() as activator:
            activator.hold(1)
            await elapse(20)
            tries = len(kube.calls("patch", "deployments", "scale"))
            assert 8 <= tries <= 11
            view = await running.service()
            assert view["reason"] == "scale-forbidden"
            assert 'resources: ["deployments/scale"]' in view["detail"]
            kube.plane.faults.allow("patch", "deployments/scale", "apps")
            await until(lambda: kube.replicas() == 1, "a replica", within=5)
            await elapse(3)
            assert (await running.service())["reason"] is None


async def test_load_scales_out_and_back(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kube:
        await kube.add(target_concurrency="10", replicas=1)
        await kube.set_ready("hello", 1)
        async with leader(kube) as running, running.activator() as activator:
            activator.hold(45)
            await until(lambda: kube.replicas() == 5, "five replicas", within=30)
            await kube.set_ready("hello", 5)
            view = await running.service()
            assert view["load"]["byActivator"] == {"activator-1": 45.0}
            activator.hold(8)
            await until(lambda: kube.replicas() == 2, "half of the pods", within=200)
            await kube.set_ready("hello", 2)
            await until(lambda: kube.replicas() == 1, "one replica", within=20)


async def test_short_requests_scale_out_by_their_rate_and_back(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kube:
        await kube.add(target_rate="20", replicas=1)
        await kube.set_ready("hello", 1)
        async with leader(kube) as running, running.activator() as activator:
            activator.hold(0.05, requests=50)
            await until(lambda: kube.replicas() == 3, "three replicas", within=30)
            await kube.set_ready("hello", 3)
            view = await running.service()
            assert view["why"] == "rate"
            assert view["sentence"].startswith("the requests per second of the last 60 s need")
            assert view["load"]["rate"] == pytest.approx(50, rel=0.2)
            activator.hold(0)
            activator.hold(0.01, requests=4)
            await until(lambda: kube.replicas() == 1, "one replica", within=200)
            assert (await running.service())["why"] == "load"


async def test_min_scale_is_reached_without_a_request(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kube:
        await kube.add(min_scale="2")
        async with leader(kube):
            await until(lambda: kube.replicas() == 2, "two replicas", within=5)
            await kube.annotate(min_scale="3")
            await until(lambda: kube.replicas() == 3, "three replicas", within=5)


@pytest.mark.parametrize("owner", ["keda", "hpa", "none"])
async def test_another_owner_gets_the_first_replica_and_decides_the_rest(
    tmp_path: Path, owner: str
) -> None:
    async with cluster(tmp_path) as kube:
        await kube.add(owner=owner, idle_seconds="1")
        async with leader(kube) as running, running.activator() as activator:
            await activator.report(1)
            await until(lambda: kube.replicas() == 1, "a replica", within=1)
            await kube.set_ready("hello", 1)
            await elapse(200)
            assert kube.replicas() == 1
            assert (await running.service())["owner"] == owner


# -- which workload -------------------------------------------------------------------------------


async def test_annotations_and_workloads_are_followed_live(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kube, leader(kube) as running, running.activator() as activator:
        assert (await running.get("/api/v1/services")).json()["services"] == []
        await kube.add()
        await elapse(1)
        assert (await running.service())["target"] == "Deployment/hello"
        await kube.annotate(target="deployment/other")
        await elapse(1)
        view = await running.service()
        assert view["reason"] == "no-scalable-target"
        assert "Deployment shop/other does not exist" in view["detail"]
        await kube.deploy("other")
        await activator.report(1)
        await elapse(1)
        other = await kube.send("GET", "/apis/apps/v1/namespaces/shop/deployments/other/scale")
        assert other["spec"]["replicas"] == 1
        await kube.annotate(enabled=None)
        await elapse(1)
        assert (await running.get("/api/v1/services/shop/hello")).status_code == 404


async def test_two_services_of_one_workload_do_not_let_it_sleep_while_one_is_busy(
    tmp_path: Path,
) -> None:
    async with cluster(tmp_path) as kube:
        await kube.add(idle_seconds="1")
        metadata = {
            "name": "second",
            "namespace": "shop",
            "annotations": {"activator.dev/enabled": "true", "activator.dev/idle-seconds": "1"},
        }
        spec = {"selector": {"app": "hello"}, "ports": [{"name": "http", "port": 80}]}
        body = {"metadata": metadata, "spec": spec}
        await kube.send("POST", "/api/v1/namespaces/shop/services", body)
        async with leader(kube) as running, running.activator() as activator:
            activator.hold(1, "second")
            await until(lambda: kube.replicas() == 1, "a replica", within=2)
            await kube.set_ready("hello", 1)
            await kube.set_ready("second", 1)
            await elapse(200)
            assert kube.replicas() == 1
            activator.hold(0)
            await until(lambda: kube.replicas() == 0, "no replica")


# -- when nothing may be removed ------------------------------------------------------------------


async def test_a_new_leader_removes_nothing_for_a_minute(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kube:
        await kube.add(replicas=1, idle_seconds="1")
        await kube.set_ready("hello", 1)
        async with leader(kube) as running, running.activator():
            began = now()
            await elapse(30)
            assert kube.replicas() == 1
            assert (await running.service())["reason"] == "new-leader"
            await until(lambda: kube.replicas() == 0, "no replica")
            assert 55 < now() - began < 70


async def test_without_activators_nothing_is_removed(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kube:
        await kube.add(replicas=3, idle_seconds="1")
        await kube.set_ready("hello", 3)
        async with leader(kube) as running:
            await elapse(300)
            assert kube.replicas() == 3
            assert (await running.service())["reason"] == "activators-unreachable"
            async with running.activator():
                await until(lambda: kube.replicas() == 0, "no replica", within=20)


async def test_without_the_api_server_nothing_is_removed_and_all_goes_on_after_it(
    tmp_path: Path,
) -> None:
    async with cluster(tmp_path) as kube:
        await kube.add(replicas=1, idle_seconds="100")
        await kube.set_ready("hello", 1)
        async with leader(kube) as running, running.activator():
            await elapse(70)
            kube.plane.go_away()
            await elapse(100)
            assert not running.leads
            kube.plane.come_back()
            await until(lambda: running.leads, "a leader", within=60)
            assert kube.replicas() == 1
        assert kube.replicas() == 1


# -- fail-over ------------------------------------------------------------------------------------


async def test_after_sigterm_the_other_scaler_wakes_workloads_within_15_seconds(
    tmp_path: Path,
) -> None:
    async with cluster(tmp_path) as kube:
        await kube.add()
        async with leader(kube, "scale-1") as first, scaler(kube, "scale-2") as second:
            await elapse(5)
            await first.terminate()
            await until(lambda: second.leads, "the second leads", within=15)
            assert kube.leaders() == [kube.holder()] == ["scale-2"]
            async with second.activator() as activator:
                await activator.report(1)
                await until(lambda: kube.replicas() == 1, "a replica", within=1)


async def test_after_a_kill_the_other_scaler_wakes_workloads_within_60_seconds(
    tmp_path: Path,
) -> None:
    async with cluster(tmp_path) as kube:
        await kube.add()
        async with leader(kube, "scale-1") as first, scaler(kube, "scale-2") as second:
            await elapse(5)
            assert (await second.get("/readyz")).status_code == 503
            assert (await second.get("/healthz")).status_code == 200
            assert (await first.get("/readyz")).status_code == 200
            first.kill()
            killed = now()
            await until(lambda: second.leads, "the second leads")
            assert 5 < now() - killed <= 60
            await until(lambda: kube.leaders() == ["scale-2"], "the label", within=5)
            async with second.activator() as activator:
                await activator.report(1)
                await until(lambda: kube.replicas() == 1, "a replica", within=1)


async def test_a_follower_refuses_activators_and_writes_no_replicas(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kube:
        await kube.add(min_scale="1")
        async with leader(kube, "scale-1"), scaler(kube, "scale-2") as second:
            await elapse(5)
            with pytest.raises(Exception, match="503"):
                async with second.activator():
                    pass
            view = (await second.get("/api/v1/services")).json()
            assert view["leader"]["holder"] == "scale-1"
            assert not view["leader"]["leads"]
            assert len(kube.calls("patch", "deployments", "scale")) == 1


async def test_a_follower_knows_the_objects_before_it_leads(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kube:
        await kube.add()
        async with leader(kube, "scale-1"), scaler(kube, "scale-2"):
            await elapse(5)
            lists = kube.calls("list", "services")
            assert len(lists) == 2


@pytest.mark.untraced
@on_uvloop
async def test_a_scaler_with_all_parts_starts_leads_and_ends(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kube:
        await kube.add()
        async with scaler(kube, parts=None) as running:
            await until_leader(running)
            assert set(running.scaler.addresses) >= {"admin", "grpc", "metrics", "stat"}
