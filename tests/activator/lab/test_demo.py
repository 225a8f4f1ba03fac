from __future__ import annotations

import asyncio
import json
import re
import socket
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from activator.lab import programs
from activator.lab.demo import (
    MAX_RESPONSES_PER_SECOND,
    Demo,
    DemoEvent,
    DemoService,
    Narrator,
    guide,
)
from activator.lab.programs import fetch
from tests.process import PATIENCE, addresses, until
from tests.rows import in_one_test


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
        await demo.start()
        names = {path.name for path in demo.manifests.iterdir()}
        assert names >= {"default.hello.revision.json", "default.hello-private.endpoints.json"}
        running = asyncio.ensure_future(demo.run("127.0.0.1:1234", "127.0.0.1:5678", take))
        async with asyncio.timeout(PATIENCE):
            await guided.wait()
        demo.on_stats([(("default", "other"), 9.0, 9.0), (("default", "hello"), 1.0, 1.0)])
        async with asyncio.timeout(PATIENCE):
            await listening.wait()
        # The address that the guide names for toggling the readiness.
        (switches,) = re.findall(r"its switches are at (http://\S+/)", "\n".join(lines))
        async with httpx.AsyncClient(trust_env=False) as client:
            assert (await client.get(f"{switches}toggleReady")).status_code == 200
        for name in ("other", "web"):
            demo.on_queue(("default", name), "no-endpoints")
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
    assert "curl http://127.0.0.1:8014/\n" in text, "the TCP Service"
    assert "http://127.0.0.1:3/api/v1/services" in text, "the scaler"
    web = "explain web --admin-url http://127.0.0.1:2 --scaler-admin-url http://127.0.0.1:3\n"
    assert web in text, "the scaler's part of the page"
    assert " 'http://127.0.0.1:1/sleep?ms=1000' &" in text
    assert "'Host: parked.default.svc.cluster.local' http://127.0.0.1:1/" in text
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
        "curl -H",
        "make the pod not ready",
        "curl -H",
        "make it ready again",
        "curl http://SWITCHES/toggleReady",
    ]
    assert all(kind in line for kind, line in zip(kinds, lines[start + 1 :], strict=False))


def test_guide_says_what_becomes_of_the_parked_pod(tmp_path):
    text = "\n".join(guide("127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3", Path("k"), tmp_path, 99))
    assert "paused 15 s after its last request: nothing deletes it" in text
    assert "hello-1" not in text, "that pod is soon gone"
    assert "curl http://127.0.0.1:99/\n" in text


async def test_a_second_demo_names_a_free_port_of_the_tcp_service():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        plain = [DemoService("tcp", listen_port=port)]
        with Demo([], plain=plain, addresses=addresses()) as demo:
            lines: list[str] = []
            running = asyncio.ensure_future(demo.run(print=lines.append))
            await running
    (curl,) = (line for line in lines if re.fullmatch(r"  curl http://127\.0\.0\.1:\d+/", line))
    assert not curl.endswith(f":{port}/")


async def test_scaler_knows_the_service_and_the_folder_has_it():
    with Demo([], plain=[DemoService("web", idle=7.0)], addresses=addresses()) as demo:
        await demo.start()
        assert demo.scaler_url.startswith("ws://127.0.0.1:")
        host, _, port = demo.scaler_admin.partition(":")

        async def knows() -> bool:
            response = await fetch(host, int(port), "/api/v1/services")
            found = json.loads(response.body)["services"]
            return [(each["name"], each["replicas"]["present"]) for each in found] == [("web", 0)]

        await until(knows, "the scaler knows the Service")
        service = json.loads((demo.manifests / "default.web.service.json").read_text())
        assert service["metadata"]["annotations"]["activator.dev/idle-seconds"] == "7"
        await demo.stop()
    with pytest.raises(OSError, match="refused"):
        await fetch(host, int(port), "/healthz")


async def test_scaler_that_does_not_start_is_an_error(monkeypatch):
    monkeypatch.setattr(programs, "SCALER_OPTIONS", ("--stat-port", "many"))
    with Demo([], addresses=addresses()) as demo:
        with pytest.raises(OSError, match=r"the scaler ended: .*many"):
            await demo.start()
        await demo.stop()


NOON = datetime(2026, 1, 2, 12, 0, 0, 7000)
APP = DemoService("app", start_after=2)


def told(narrator: Narrator, at: float, kind: str, **details: Any) -> list[str]:
    return narrator.lines(DemoEvent(at, APP, kind, "app-1", details), NOON)


def answered(narrator: Narrator, at: float) -> list[str]:
    return told(narrator, at, "responded", path="/x", status=200, took=0.0123)


def test_line_has_time_service_and_text():
    assert told(Narrator(), 0, "listening") == ["12:00:00.007  app      pod app-1 listens"]


def test_a_parked_pod_is_told():
    narrator = Narrator()
    assert told(narrator, 0, "parked")[0].endswith(
        "pod app-1 is parked: it keeps its memory, and gives its CPU away"
    )
    assert told(narrator, 0, "continues")[0].endswith("pod app-1 has its CPU back")


def test_queued_request_is_shown_once_and_its_response_with_the_time_it_took():
    narrator = Narrator()
    assert "the activator queues it" in told(narrator, 10, "queued", concurrency=1)[0]
    assert told(narrator, 11, "queued", concurrency=1) == []
    assert "app-1 responds to the first queued request, 2,345 ms" in answered(narrator, 12.345)[0]
    assert answered(narrator, 12.4)[0].endswith("app-1 responds to /x with 200 in 12 ms")
    assert told(narrator, 13, "queued", concurrency=1) != []


def test_request_that_waits_for_a_pod_that_is_not_ready_is_shown_with_its_response():
    narrator = Narrator()
    assert "responds to /x" in answered(narrator, 9)[0]
    assert told(narrator, 10, "queued", reason="pods-not-ready")[0].endswith(
        "a request arrives and no pod can take it: the activator queues it"
    )
    assert "app-1 responds to the first queued request, 1,500 ms" in answered(narrator, 11.5)[0]


def test_the_lines_of_a_tcp_service_are_about_connections():
    narrator, tcp = Narrator(), DemoService("tcp", listen_port=8014)
    events: list[tuple[str, dict[str, object]]] = [
        ("queued", {"concurrency": 1}),
        ("responded", {"path": "/request", "status": 200, "took": 0.1}),
        ("queued", {"reason": "pods-not-ready"}),
        ("draining", {}),
    ]
    lines = [
        line
        for kind, details in events
        for line in narrator.lines(DemoEvent(1.0, tcp, kind, "tcp-1", details), NOON)
    ]
    assert [line.partition("  ")[2] for line in lines] == [
        "tcp      a connection arrives and there is no pod: the activator queues it",
        "tcp      tcp-1 responds to the first queued connection, 0 ms after its arrival",
        "tcp      a connection arrives and no pod can take it: the activator queues it",
        "tcp      pod tcp-1 stops: it finishes its connections",
    ]


def test_many_responses_are_shown_together():
    narrator = Narrator()
    lines = [line for number in range(20) for line in answered(narrator, number / 100)]
    assert len(lines) == MAX_RESPONSES_PER_SECOND
    later = answered(narrator, 2.0)
    assert [line.partition("app      ")[2] for line in later] == [
        f"… and {20 - MAX_RESPONSES_PER_SECOND} more responses",
        "app-1 responds to /x with 200 in 12 ms",
    ]


@in_one_test(
    ("kind", "details"),
    [
        ("scaled", {"pods": 0, "wanted": 2}),
        ("started", {"address": "127.0.0.1:1", "switches": "127.0.0.1:2"}),
        ("probe passed", {}),
        ("probe failed", {"status": 503}),
        ("ready", {}),
        ("not ready", {}),
        ("draining", {"in_flight": 1}),
        ("stopped", {}),
        ("ended by itself", {"status": 1}),
    ],
)
def test_each_kind_of_event_has_one_line(kind, details):
    (line,) = told(Narrator(), 0, kind, **details)
    assert all(str(value) in line for key, value in details.items() if key != "in_flight")


def test_unknown_kind_is_passed_over():
    assert told(Narrator(), 0, "news") == []
