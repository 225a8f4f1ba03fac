"""What the API of a scaler responds: Services, the scaler itself, and who leads."""

from __future__ import annotations

from pathlib import Path

import pytest

from activator.objects.fields import ObjectKey
from activator.scale.admin.status import unusable
from tests.activator.console.explained import SERVICE
from tests.activator.scale.world import cluster, elapse, leader, scaler, until


@pytest.mark.untraced
async def test_a_service_shows_who_scales_it_and_why_not(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kube:
        await kube.add(replicas=1, idle_seconds="5")
        await kube.set_ready("hello", 1)
        async with leader(kube) as running, running.activator() as activator:
            await activator.report(3)
            await elapse(20)
            view = await running.service()
    assert {*view} >= {*SERVICE}  # the tests of the console have these fields
    assert view == {
        "namespace": "shop",
        "name": "hello",
        "kind": "service",
        "target": "Deployment/hello",
        "owner": "self",
        "route": "shared",
        "phase": "awake",
        "replicas": {"present": 1, "wanted": 1, "ready": 1},
        "active": view["active"],
        "takesOver": False,
        "why": "idle",
        "sentence": "no request for idle-seconds",
        "reason": "new-leader",
        "detail": "this scaler has led for less than 60 s, so no replica is removed",
        "cause": None,
        "load": {"current": 0.0, "stable": view["load"]["stable"], "panic": 0.0}
        | {"rate": view["load"]["stable"], "byActivator": {"activator-1": 3.0}},
        "lastChange": None,
        "savings": {
            "dryRun": False,
            "asleep": False,
            "podSeconds": 0.0,
            "cpuCoreSeconds": 0.0,
            "memoryByteSeconds": 0,
            "waited": 0,
            "sentence": "Sleep has saved 0.00 pod-hours, 0.00 CPU-hours and 0.00 GiB-hours; "
            "requests that waited for a first pod: 0",
        },
        "findings": [],
    }


async def test_the_texts_about_a_tcp_service_speak_of_connections(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with cluster(tmp_path) as kube:
        tcp = {"protocol": "tcp", "listen_port": "6379"}
        await kube.add(replicas=0, idle_seconds="5", **tcp)
        async with leader(kube) as running, running.activator() as activator:
            await activator.report(1)
            await until(lambda: kube.replicas() == 1, "the first replica")
            await elapse(1)
            view = await running.service()
    assert view["lastChange"]["sentence"] == "a connection waits while there is no pod"
    assert view["savings"]["sentence"].endswith("; connections that waited for a first pod: 1")
    assert "0 -> 1 replicas: a connection waits while there is no pod" in caplog.text
    assert "request" not in f"{view}"


async def test_a_service_without_a_workload_has_nulls_and_a_reason(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kube:
        await kube.add(target="deployment/missing", hots="x")
        async with leader(kube) as running:
            await elapse(1)
            view = await running.service()
    assert (view["target"], view["phase"], view["why"]) == (None, None, None)
    assert view["replicas"] == {"present": None, "wanted": None, "ready": 0}
    assert view["reason"] == view["cause"] == "no-scalable-target"
    assert "did you mean activator.dev/hosts?" in view["findings"][0]["note"]


async def test_the_state_shows_which_activators_report_and_since_when(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kube, leader(kube) as running:
        async with running.activator("activator-1") as activator, running.activator():
            await elapse(5)
            await activator.report(1)
            await elapse(3)
            silent, known = (await running.get("/api/v1/scaler")).json()["activators"]
        await until(
            lambda: (
                not any(each["connected"] for each in running.scaler.status.state()["activators"])
            ),
            "closed connections",
        )
        await elapse(2)
        (lost,) = (await running.get("/api/v1/scaler")).json()["activators"]
    assert (silent["name"], silent["address"], silent["lastReportSeconds"]) == (
        "",
        "127.0.0.1",
        None,
    )
    assert (known["name"], known["connected"]) == ("activator-1", True)
    assert 8 <= known["connectedSeconds"] < 9
    assert 3 <= known["lastReportSeconds"] < 4
    assert (lost["name"], lost["connected"], lost["connectedSeconds"]) == (
        "activator-1",
        False,
        None,
    )
    assert 2 <= lost["lostSeconds"] < 4


async def test_the_state_shows_the_leader_and_broken_objects(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kube:
        await kube.add("broken", min_scale="many")
        async with (
            leader(kube, dashboard_url="https://dash.example/a") as first,
            scaler(kube, "scale-2") as second,
        ):
            await elapse(5)
            state = (await first.get("/api/v1/scaler")).json()
            other = (await second.get("/api/v1/scaler")).json()
    assert (state["leader"]["leads"], state["notReadyReason"]) == (True, None)
    assert (state["namespace"], state["dashboard"]) == (
        "activator-system",
        "https://dash.example/a",
    )
    assert [(each["kind"], each["name"]) for each in state["objects"]] == [("Service", "broken")]
    assert "min-scale" in state["objects"][0]["problem"]
    assert state["objectsTotal"] == 1
    assert state["watches"]["Service"]["error"] == ""
    assert other["leader"] == {"pod": "scale-2", "leads": False, "holder": "scale-1", "error": ""}
    assert "the leader is scale-1" in other["notReadyReason"]
    assert other["dashboard"] is None


def test_a_long_list_of_objects_is_cut() -> None:
    known = {ObjectKey("Service", "shop", f"s{number:03}"): "no" for number in range(300)}
    found = unusable(known)
    assert [each["name"] for each in found] == [f"s{number:03}" for number in range(100)]


async def test_a_follower_names_the_leader(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kube:
        await kube.add()
        async with leader(kube, "scale-1"), scaler(kube, "scale-2") as second:
            await elapse(5)
            ready = await second.get("/readyz")
            assert (ready.status_code, "the leader is scale-1" in ready.text) == (503, True)
            gone = await second.get("/api/v1/services/shop/hello")
            assert gone.status_code == 503
            assert "The leader is scale-1." in gone.json()["detail"]
