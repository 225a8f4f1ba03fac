"""``activator scale --wake-all``: it wakes what sleeps, and says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from activator.scale.wake_all import wake_all
from tests.activator.scale.test_app import settings
from tests.activator.scale.test_asleep import world
from tests.activator.scale.world import cluster, leader


async def test_all_workloads_are_awake_at_the_end(tmp_path: Path) -> None:
    async with world(tmp_path) as of:
        words = '{"target":"agents.x-k8s.io/v1beta1/Sandbox/box"}'
        await of.add("Suspended", asleep=words)
        await of.kube.add("sleeps")
        await of.kube.add("of-keda", owner="keda")
        await of.kube.add("runs", replicas=2)
        lines, status = await wake_all(settings(of.kube))
        assert status == 0
        assert lines == [f"shop/{name}: awake" for name in ("hello", "of-keda", "sleeps")]
        assert (of.mode(), of.mark()) == ("Running", None)
        names = ("sleeps", "of-keda", "runs")
        assert [of.kube.replicas(name) for name in names] == [1, 1, 2]
        assert of.kube.holder() == ""
        assert await wake_all(settings(of.kube)) == (["no workload sleeps"], 0)


@pytest.mark.untraced
async def test_a_workload_that_does_not_wake_is_named(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kube:
        await kube.add("good")
        await kube.add("lost", target="deployment/gone")
        lines, status = await wake_all(settings(kube))
    assert status == 1
    assert lines == [
        "shop/good: awake",
        "shop/lost: not awake: annotation activator.dev/target: Deployment shop/gone does not "
        "exist",
    ]


async def test_beside_another_scaler_nothing_is_done(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kube:
        await kube.add()
        async with leader(kube, "scale-2"):
            lines, status = await wake_all(settings(kube))
        assert (status, kube.replicas()) == (1, 0)
    assert lines == [
        "nothing is done: not the leader; the leader is scale-2; stop the scalers first"
    ]
