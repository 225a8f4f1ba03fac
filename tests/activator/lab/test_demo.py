from __future__ import annotations

import asyncio
import re
from pathlib import Path

import httpx

from activator.lab.cluster import DemoService
from activator.lab.demo import Demo, guide
from tests.process import PATIENCE, addresses


async def test_demo_tells_of_a_start_from_zero_and_cleans_up():
    lines: list[str] = []
    guided, listening = asyncio.Event(), asyncio.Event()

    def take(line: str) -> None:
        lines.append(line)
        if line == "Events:":
            guided.set()
        if line.endswith("listens"):
            listening.set()

    service = DemoService("hello", start_after=0.0)
    with Demo([service], addresses=addresses()) as demo:
        assert len(list(demo.manifests.iterdir())) == 2
        await demo.start()
        running = asyncio.ensure_future(demo.run("127.0.0.1:1234", "127.0.0.1:5678", take))
        async with asyncio.timeout(PATIENCE):
            await guided.wait()
        demo.on_stats([(("default", "hello"), 1.0, 1.0)])
        async with asyncio.timeout(PATIENCE):
            await listening.wait()
        # The address that the guide names for toggling the readiness.
        (switches,) = re.findall(r"its switches are at (http://\S+/)", "\n".join(lines))
        async with httpx.AsyncClient(trust_env=False) as client:
            assert (await client.get(f"{switches}toggleReady")).status_code == 200
        demo.on_queue(("default", "web"), "no-endpoints")
        running.cancel()
        await asyncio.wait([running])
        await demo.stop()
    assert not demo.manifests.exists()
    assert any("http://127.0.0.1:1234/" in line for line in lines)
    queued = [line.split()[1] for line in lines if "the activator queues it" in line]
    assert queued == ["hello", "web"]


def test_guide_names_each_way_to_a_revision(tmp_path):
    text = "\n".join(guide("127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3", Path("k"), tmp_path))
    assert "'Host: hello.default.svc.cluster.local' http://127.0.0.1:1/" in text
    assert "Knative-Serving-Revision: slow" in text
    assert "'Host: web.default.svc.cluster.local' http://127.0.0.1:1/" in text
    assert "http://127.0.0.1:3/api/v1/services" in text, "the scaler"
    web = "explain web --admin-url http://127.0.0.1:2 --scaler-admin-url http://127.0.0.1:3\n"
    assert web in text, "the scaler's part of the page"
    assert " 'http://127.0.0.1:1/sleep?ms=1000' &" in text
    assert "kubectl --kubeconfig k get deployments" in text
    assert "status --admin-url http://127.0.0.1:2" in text
    assert "explain hello --admin-url http://127.0.0.1:2" in text
    assert "\n  http://127.0.0.1:2/\n" in text, "the dashboard"
    assert str(tmp_path) in text
    assert "activator demo --log-level info" in text


def test_guide_gives_the_steps_to_make_a_pod_not_ready_and_ready(tmp_path):
    lines = guide("127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3", Path("k"), tmp_path)
    start = next(n for n, line in enumerate(lines) if "ready for Kubernetes as well" in line)
    kinds = [
        "make the pod not ready",
        "curl -H",
        "make it ready again",
        "curl http://SWITCHES/toggleReady",
    ]
    assert all(kind in line for kind, line in zip(kinds, lines[start + 1 :], strict=False))
