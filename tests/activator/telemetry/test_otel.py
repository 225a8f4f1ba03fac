"""From ConfigMap and environment to what is sent."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
import uvloop

from activator.config import load
from activator.configmaps.observability import HTTP_PROTOBUF, ObservabilityConfig, TracingConfig
from activator.telemetry.otel import OpenTelemetry
from activator.telemetry.tracing import RequestTracer
from tests.activator.telemetry.collector import attributes, http_collector

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def anyio_backend():
    """Threads send; the loop of production alone."""
    return "asyncio", {"loop_factory": uvloop.new_event_loop}


async def test_settings_name_the_collector_the_sender_and_the_share():
    with http_collector() as collector:
        environ = {
            "OTEL_SERVICE_NAME": "edge",
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": collector.url + "/own",
            "OTEL_TRACES_SAMPLER": "always_on",
            "POD_NAME": "activator-7",
        }
        settings = load("local", {"manifests": "/"}, environ)
        tracers: list[RequestTracer | None] = []
        otel = OpenTelemetry(settings, tracers.append, asyncio.ensure_future, lambda: iter(()))
        otel.apply(ObservabilityConfig(tracing=TracingConfig(HTTP_PROTOBUF, "http://no", 0.0)))
        tracer = tracers[-1]
        assert tracer is not None
        tracer.begin(b"GET", b"/", b"h", 1, b"", False).ended(404, "unknown-revision")
        await otel.close()
        assert tracers[-1] is None
        message = collector.traces.get(timeout=10)
    assert collector.paths == ["/own"]
    resource = attributes(message.resource_spans[0].resource)
    assert (resource["service.name"], resource["k8s.pod.name"]) == ("edge", "activator-7")
    assert otel.traces.exported == 1


IDLE = """
import asyncio, sys
from activator.config import load
from activator.runtime import Runtime

async def main():
    async with Runtime(load("local", {"manifests": sys.argv[1]}, {})).lifespan():
        pass

asyncio.run(main())
print(*sys.modules)
"""


def test_nothing_is_imported_while_nothing_is_sent(tmp_path):
    ended = subprocess.run(
        [sys.executable, "-c", IDLE, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    loaded = {name.partition(".")[0] for name in ended.stdout.split()}
    assert "activator" in loaded
    assert not loaded & {"opentelemetry", "grpc", "requests", "google"}
