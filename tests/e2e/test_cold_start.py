"""One cold start with an autoscaler that starts the pod: its phases in the response and the API."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.activator.discovery.recording import config_map
from tests.e2e.knative import ApiServer, Autoscaler, Deployment
from tests.process import ANY_PORTS, Activator, activator, until

pytestmark = pytest.mark.e2e

PHASES = ["stat-sent", "address", "probe", "probe-passed", "dispatched", "first-byte"]
FIELDS = ("--server-timing", "true", "--cold-start-header", "true")


async def no_ingress() -> bool:
    return True


async def fetch(running: Activator, name: str) -> dict[str, str]:
    """Send one request; return the header fields of the response."""
    reader, writer = await asyncio.open_connection(*await running.address("http"))
    host = f"{name}.default.svc.cluster.local"
    writer.write(f"GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
    head, _, _ = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    status, *lines = head.decode().split("\r\n")
    assert "200" in status, head
    return {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines)}


async def test_all_phases_of_a_cold_start_are_seen_in_their_order(tmp_path: Path) -> None:
    async with ApiServer() as api:
        for name in ("config-network", "config-logging", "config-observability"):
            api.put(config_map(name))
        async with (
            Deployment(api, "sleeper", 2) as deployment,
            Autoscaler(deployment, 2.0, no_ingress) as autoscaler,
            activator(
                "run",
                *ANY_PORTS,
                *FIELDS,
                environment={
                    "POD_NAME": "activator-1",
                    "POD_IP": "10.0.0.11",
                    "SYSTEM_NAMESPACE": "knative-serving",
                    "KUBECONFIG": api.kubeconfig(tmp_path),
                    "ACTIVATOR_AUTOSCALER_URL": autoscaler.url,
                },
            ) as running,
        ):
            await running.logged("autoscaler connected")
            deployment.kubelet.clear()
            cold = await fetch(running, "sleeper")
            warm = await fetch(running, "sleeper")
            deployment.kubelet.set()
            path = "/api/v1/revisions/default/sleeper"

            async def listed() -> bool:
                _, body = await running.get(path, listener="admin")
                return bool(json.loads(body)["coldStarts"][0]["probeAheadSeconds"] is not None)

            await until(listed, "Kubernetes lists the pod as ready")
            (cold_start,) = json.loads((await running.get(path, listener="admin"))[1])["coldStarts"]
            _, metrics = await running.get("/metrics", listener="admin")
    assert list(cold_start["phases"]) == PHASES
    times = list(cold_start["phases"].values())
    assert times == sorted(times)
    assert (cold_start["outcome"], cold_start["requests"]) == ("served", 1)
    assert cold_start["seconds"] == times[-1]
    assert cold["activator-cold-start"] == "true"
    assert cold["server-timing"].startswith("queue;dur=")
    assert warm["activator-cold-start"] == "false"
    assert "server-timing" not in warm
    for phase in PHASES:
        assert f'activator_cold_start_phase_seconds_count{{phase="{phase}"}} 1\n' in metrics
    assert "activator_cold_start_seconds_count{} 1\n" in metrics
    assert "activator_probe_ahead_seconds_count{} 1\n" in metrics
