"""What the admin port shows of two running scalers."""

from __future__ import annotations

from pathlib import Path

from tests.activator.scale.world import cluster, elapse, leader, scaler


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
