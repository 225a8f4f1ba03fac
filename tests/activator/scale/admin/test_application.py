"""The admin and the metrics port of a running scaler."""

from __future__ import annotations

from pathlib import Path

import httpx

from tests.activator.scale.world import cluster, elapse, leader


async def test_pages_and_errors(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kube, leader(kube) as running:
        index = await running.get("/")
        assert "scale-1" in index.text
        assert "/api/v1/services" in index.text
        assert (await running.get("/healthz")).text == "ok\n"
        assert (await running.get("/readyz")).text == "leader\n"
        missing = await running.get("/api/v1/services/shop/missing")
        assert (missing.status_code, missing.json()["status"]) == (404, 404)
        assert "No Service shop/missing opts in." in missing.json()["detail"]
        assert (await running.get("/nothing")).status_code == 404


async def test_a_foreign_host_name_is_refused(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kube, leader(kube) as running:
        url = f"http://{running.scaler.addresses['admin']}/api/v1/services"
        async with httpx.AsyncClient(timeout=None) as client:
            refused = await client.get(url, headers={"Host": "evil.example"})
            assert refused.status_code == 421
            assert (await client.post(url)).status_code == 405


async def test_services_can_be_selected_by_namespace(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kube:
        await kube.add("b")
        await kube.add("a")
        async with leader(kube) as running:
            await elapse(1)
            found = (await running.get("/api/v1/services?namespace=shop")).json()
            assert [each["name"] for each in found["services"]] == ["a", "b"]
            other = (await running.get("/api/v1/services?namespace=other")).json()
            assert other["services"] == []


async def test_the_metrics_port_has_metrics_only(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kube, leader(kube) as running:
        url = f"http://{running.scaler.addresses['metrics']}"
        async with httpx.AsyncClient(timeout=None) as client:
            metrics = await client.get(f"{url}/metrics")
            assert "activator_scale_leader 1" in metrics.text
            assert metrics.headers["content-type"].startswith("text/plain; version=0.0.4")
            assert (await client.get(f"{url}/api/v1/services")).status_code == 404
        assert (await running.get("/metrics")).status_code == 200
