"""The metrics of a running scaler."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from activator.scale.families import FAMILIES
from tests.activator.scale.world import Running, cluster, elapse, leader


async def samples(running: Running) -> dict[tuple[str, ...], float]:
    """Return all samples of the scaler, by name and values of labels."""
    text = (await running.get("/metrics")).text
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def test_metrics_follow_a_cold_start(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kube:
        await kube.add()
        async with leader(kube) as running, running.activator() as activator:
            activator.hold(2)
            await elapse(5)
            found = await samples(running)
            assert found["activator_scale_leader",] == 1
            assert found["activator_scale_activators",] == 1
            assert found["activator_scale_services", "self"] == 1
            assert found["activator_scale_replicas", "shop", "hello"] == 1
            assert found["activator_scale_ready_pods", "shop", "hello"] == 0
            assert found["activator_scale_load", "shop", "hello"] == 2
            assert found["activator_scale_changes_total", "cold-start"] == 1
            assert found["activator_scale_cold_start_seconds_count",] == 1
            assert found["activator_scale_tick_seconds_count",] >= 1
            assert found["process_resident_memory_bytes",] > 0


@pytest.mark.parametrize(
    ("annotations", "reason"),
    [
        pytest.param({"target": "deployment/missing"}, "no-scalable-target", id="a problem"),
        pytest.param({"owner": "hpa"}, "hpa-missing", id="a finding"),
        pytest.param({"max_scale": "many"}, "service-warning", id="a warning"),
    ],
)
async def test_each_reason_is_a_metric(tmp_path: Path, annotations: Any, reason: str) -> None:
    async with cluster(tmp_path) as kube:
        await kube.add(**annotations)
        async with leader(kube) as running:
            await elapse(5)
            found = await samples(running)
            assert found["activator_scale_problem", "shop", "hello", reason] == 1


async def test_replicas_are_wanted_as_long_as_requests_wait_for_them(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kube:
        await kube.add()
        kube.plane.faults.forbid("patch", "deployments/scale", "apps")
        async with leader(kube) as running, running.activator() as activator:
            activator.hold(1)
            await elapse(5)
            for _ in range(4):
                await elapse(0.7)  # the scaler tries again every 2 s
                found = await samples(running)
                assert found["activator_scale_wanted_replicas", "shop", "hello"] == 1
                assert found["activator_scale_ready_pods", "shop", "hello"] == 0


@pytest.mark.untraced
async def test_each_declared_metric_is_there(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kube, leader(kube) as running:
        text = (await running.get("/metrics")).text
        for family in FAMILIES:
            assert f"# TYPE {family.name} {family.kind.value}\n" in text
