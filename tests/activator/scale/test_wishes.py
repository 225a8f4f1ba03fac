"""Awake hours, chains of Services, trial runs, and the savings of sleep."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from activator.scale.decisions import engine
from tests.activator.scale.world import Cluster, Running, cluster, elapse, leader, until

IDLE: dict[str, Any] = {"idle_seconds": "10"}


async def request(running: Running, name: str = "hello") -> None:
    """Report one request that comes and goes."""
    async with running.activator() as activator:
        await activator.report(1, name)
        await elapse(1)
        await activator.report(0, name)


async def asleep(kube: Cluster, name: str = "hello") -> None:
    await until(lambda: kube.replicas(name) == 0, f"{name} sleeps")
    await kube.set_ready(name, 0)


# -- awake hours -----------------------------------------------------------------------------------


async def test_a_workload_is_awake_in_its_hours_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin: list[float] = []

    def wall() -> datetime:
        """Follow virtual time, from a Monday at 07:59."""
        now = asyncio.get_running_loop().time()
        begin.append(now)
        return datetime(2026, 1, 5, 7, 59, tzinfo=UTC) + timedelta(seconds=now - begin[0])

    monkeypatch.setattr(engine, "time_of_day", wall)
    async with cluster(tmp_path) as kube:
        await kube.add(awake="Mon 08:00-08:10", **IDLE)
        async with leader(kube) as running, running.activator() as activator:
            await activator.report(0, "other")
            await elapse(30)
            assert kube.replicas() == 0
            await until(lambda: kube.replicas() == 1, "the hours begin", within=40)
            await kube.set_ready("hello", 1)
            view = await running.service()
            assert view["sentence"] == "the annotation awake has these hours"
            await elapse(300)
            assert kube.replicas() == 1
            await until(lambda: kube.replicas() == 0, "the hours end", within=330)


async def test_a_wrong_time_zone_is_named_and_the_rest_works(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kube:
        await kube.add(awake="Mon-Fri 08:00-18:00 Mars/Base")
        async with leader(kube) as running:
            view = await running.service()
    assert view["phase"] == "asleep"
    assert "unknown time zone 'Mars/Base'" in view["findings"][0]["note"]


async def test_a_workload_that_was_never_used_is_not_said_to_have_had_a_request(
    tmp_path: Path,
) -> None:
    async with cluster(tmp_path) as kube:
        await kube.add(replicas=1, idle_seconds="90")
        await kube.set_ready("hello", 1)
        async with leader(kube) as running, running.activator() as activator:
            await activator.report(0, "other")
            await elapse(70)
            assert (await running.service())["sentence"] == (
                "idle-seconds have not passed since the last request, or since the scaler began to "
                "watch the workload"
            )


# -- Services with one workload --------------------------------------------------------------------


async def test_all_services_of_a_workload_show_its_last_change(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kube:
        await kube.add("two", **IDLE)
        await kube.add("two-b", target="deployment/two", **IDLE)
        async with leader(kube) as running, running.activator() as activator:

            async def changes() -> list[tuple[int, str]]:
                """Return the last change as both Services show it: replicas, and the sentence."""
                views = [await running.service(name) for name in ("two", "two-b")]
                return [
                    (each["lastChange"]["after"], each["lastChange"]["sentence"]) for each in views
                ]

            waits = "a request waits while there is no pod"
            for name in ("two-b", "two"):
                await activator.report(1, name)
                await until(lambda: kube.replicas("two") == 1, "it wakes", within=2)
                await elapse(1)
                assert await changes() == [(1, waits)] * 2
                for each in ("two", "two-b"):
                    await kube.set_ready(each, 1)
                await activator.report(0, name)
                await until(lambda: kube.replicas("two") == 0, "it sleeps")
                await elapse(1)
                assert await changes() == [(0, "no request for idle-seconds")] * 2
                for each in ("two", "two-b"):
                    await kube.set_ready(each, 0)


# -- chains ----------------------------------------------------------------------------------------


async def test_one_request_wakes_a_chain(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kube:
        await kube.add("a", wake_with="b", **IDLE)
        await kube.add("b", wake_with="c, a", **IDLE)
        await kube.add("c", **IDLE)
        async with leader(kube) as running, running.activator() as activator:
            await activator.report(1, "a")
            await until(lambda: kube.replicas("c") == 1, "the chain wakes", within=0.5)
            assert (kube.replicas("a"), kube.replicas("b")) == (1, 1)
            view = await running.service("c")
            assert view["lastChange"]["sentence"] == (
                "a Service that names this one in wake-with has a cold start"
            )
            for name in "abc":
                await kube.set_ready(name, 1)
            await activator.report(0, "a")
            for name in "abc":  # without a request, the others sleep again
                await asleep(kube, name)


async def test_a_service_that_cannot_be_woken_is_named(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kube:
        await kube.add("a", wake_with="missing,bank/vault")
        async with leader(kube) as running:
            view = await running.service("a")
    assert view["findings"] == [
        {
            "reason": "wake-with-unknown",
            "note": f"annotation activator.dev/wake-with: Service {name} does not exist, or has no "
            f"activator.dev/enabled",
        }
        for name in ("shop/missing", "bank/vault")
    ]


async def test_another_namespace_must_allow_it(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kube:
        await kube.add("a", wake_with="bank/vault")
        body: dict[str, Any] = {
            "metadata": {
                "name": "vault",
                "namespace": "bank",
                "annotations": {"activator.dev/enabled": "true"},
            },
            "spec": {"selector": {"app": "vault"}, "ports": [{"port": 80}]},
        }
        path = "/api/v1/namespaces/bank/services"
        await kube.send("POST", path, body)
        async with leader(kube) as running:
            note = (await running.service("a"))["findings"][0]["note"]
            assert note.endswith("bank/vault needs the annotation activator.dev/wake-from: shop")
            allowed = {"metadata": {"annotations": {"activator.dev/wake-from": "shop"}}}
            await kube.send("PATCH", f"{path}/vault", allowed)
            await elapse(31)
            assert (await running.service("a"))["findings"] == []


# -- trial runs and savings ------------------------------------------------------------------------


async def test_a_trial_run_changes_nothing_and_counts(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kube:
        await kube.add(replicas=2, dry_run="true", **IDLE)
        await kube.set_ready("hello", 2)
        async with leader(kube) as running, running.activator() as activator:
            await activator.report(0, "other")
            await elapse(100)
            view = await running.service()
            assert (view["phase"], view["reason"]) == ("awake", "dry-run")
            assert view["detail"].startswith("a trial run: the scaler changes no replicas")
            assert view["savings"]["asleep"]
            assert view["active"]
            assert not kube.calls("patch", "deployments", "scale")
            await activator.report(3)
            await elapse(0.2)  # at once: the request may be over at the next tick
            view = await running.service()
            assert not view["savings"]["asleep"]
            assert view["savings"]["podSeconds"] == pytest.approx(80, abs=10)
            assert view["savings"]["sentence"].startswith("A trial run: sleep would have saved")
            assert view["savings"]["sentence"].endswith("would have waited for a first pod: 3")
            await kube.annotate(dry_run=None)
            await activator.report(0)
            await asleep(kube)


async def test_a_request_that_waits_long_is_counted_once(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kube:
        await kube.add()
        kube.plane.faults.forbid("patch", "deployments/scale", "apps")
        async with leader(kube) as running, running.activator() as activator:
            activator.hold(2)
            await elapse(30)
            assert (await running.service())["reason"] == "scale-forbidden"
            assert (await running.service())["savings"]["waited"] == 2


async def test_a_trial_run_still_wakes_what_sleeps(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kube:
        await kube.add(dry_run="true")
        async with leader(kube) as running, running.activator() as activator:
            await activator.report(1)
            await until(lambda: kube.replicas() == 1, "it wakes", within=1)


async def test_savings_are_pods_times_their_requests(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kube:
        await kube.add(replicas=2, **IDLE)
        await kube.set_ready("hello", 2)
        resources = {"requests": {"cpu": "500m", "memory": "1Gi"}}
        template = {"spec": {"containers": [{"name": "c", "resources": resources}]}}
        path = "/apis/apps/v1/namespaces/shop/deployments/hello"
        await kube.send("PATCH", path, {"spec": {"template": template}})
        async with leader(kube) as running, running.activator() as activator:
            await activator.report(0, "other")
            await asleep(kube)
            before = (await running.service())["savings"]
            await elapse(100)
            after = (await running.service())["savings"]
    assert after["podSeconds"] - before["podSeconds"] == pytest.approx(200, abs=4)
    assert after["cpuCoreSeconds"] == pytest.approx(after["podSeconds"] * 0.5)
    assert after["memoryByteSeconds"] == pytest.approx(after["podSeconds"] * 2**30)


# -- activation scale ------------------------------------------------------------------------------


async def test_two_pods_awake_and_none_asleep(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kube:
        await kube.add(activation_scale="2", **IDLE)
        async with leader(kube) as running, running.activator() as activator:
            await activator.report(1)
            await until(lambda: kube.replicas() == 2, "two pods", within=1)
            await kube.set_ready("hello", 2)
            activator.hold(1)
            await elapse(150)
            assert kube.replicas() == 2
            assert (await running.service())["why"] == "activation-scale"
            activator.hold(0)
            await asleep(kube)
