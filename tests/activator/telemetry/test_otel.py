"""From ConfigMap and environment to the bytes that are sent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from activator.knative.configmaps.observability import (
    HTTP_PROTOBUF,
    STDOUT,
    ObservabilityConfig,
    RequestLogConfig,
    TracingConfig,
)
from activator.process.outputs import Outputs
from activator.settings.config import Settings, load
from activator.telemetry.otel import Observers
from activator.telemetry.tracing import RequestTracer
from tests.activator.telemetry.collector import attributes, http_collector
from tests.conftest import on_uvloop
from tests.process import PATIENCE

pytestmark = on_uvloop  # threads send in real time


def observers(settings: Settings, install: Callable[[RequestTracer | None], None]) -> Observers:
    return Observers(settings, install, asyncio.ensure_future, lambda: iter(()), Outputs())


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
        otel = observers(settings, tracers.append)
        otel.apply(ObservabilityConfig(tracing=TracingConfig(HTTP_PROTOBUF, "http://no", 0.0)))
        tracer = tracers[-1]
        assert tracer is not None
        tracer.begin(b"GET", b"/", b"h", 1, b"", False).ended(404, "unknown-revision")
        await otel.close()
        assert tracers[-1] is None
        message = collector.traces.get(timeout=PATIENCE)
    assert collector.paths == ["/own"]
    resource = attributes(message.resource_spans[0].resource)
    assert (resource["service.name"], resource["k8s.pod.name"]) == ("edge", "activator-7")
    assert otel.traces.counters.exported == 1


@pytest.mark.parametrize("enabled", [True, False])
async def test_requests_get_lines_while_the_configmap_enables_them(enabled: bool) -> None:
    tracers: list[RequestTracer | None] = []
    made = observers(load("local", {"manifests": "/"}, {}), tracers.append)
    log = RequestLogConfig(enabled, "{{.TraceID}}")
    config = ObservabilityConfig(request_log=log, tracing=TracingConfig(STDOUT))
    assert made.apply(config) is (made.request_log if enabled else None)
    assert isinstance(tracers[-1], RequestTracer)
    await made.close()
