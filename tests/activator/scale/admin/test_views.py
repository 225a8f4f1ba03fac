"""The responses of the API, as the names and types that clients rely on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.activator.scale.world import cluster, elapse, leader


@pytest.mark.untraced
async def test_a_service_shows_who_scales_it_and_why_not(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kube:
        await kube.add(replicas=1, idle_seconds="5")
        await kube.set_ready("hello", 1)
        async with leader(kube) as running, running.activator() as activator:
            await activator.report(3)
            await elapse(20)
            view = await running.service()
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
        | {"byActivator": {"activator-1": 3.0}},
        "lastChange": None,
        "findings": [],
    }


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
