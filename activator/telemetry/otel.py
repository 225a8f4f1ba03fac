"""What is sent by OpenTelemetry's protocols: follows the observability ConfigMap and the settings.

Costs nothing while neither traces nor metrics are sent; OpenTelemetry's packages are not even
imported then. Knative's counterpart: knative.dev/pkg/observability and cmd/activator/main.go.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import Any

from activator.knative.configmaps.observability import ObservabilityConfig
from activator.settings.config import Settings
from activator.telemetry.destination import Endpoints, Identity
from activator.telemetry.metric_push import MetricPush
from activator.telemetry.points import Point
from activator.telemetry.trace_queue import TraceCounters
from activator.telemetry.traces import Traces, TraceSettings
from activator.telemetry.tracing import RequestTracer


class OpenTelemetry:
    """Traces and pushed metrics as the configuration wants them.

    Arguments:
        settings: what wins over the ConfigMap.
        install: takes the tracer for requests from now on, or None.
        start: runs a coroutine as a task.
        points: gives all metrics as they are.
    """

    def __init__(
        self,
        settings: Settings,
        install: Callable[[RequestTracer | None], None],
        start: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
        points: Callable[[], Iterator[Point | None]],
    ) -> None:
        self.identity = identity = Identity(
            settings.otel_service_name, settings.system_namespace, settings.pod_name
        )
        endpoints = Endpoints(
            settings.otel_exporter_otlp_endpoint or "",
            settings.otel_exporter_otlp_traces_endpoint or "",
            settings.otel_exporter_otlp_metrics_endpoint or "",
        )
        choice = TraceSettings(
            identity,
            endpoints,
            settings.otel_traces_sampler or "",
            settings.otel_traces_sampler_arg,
        )
        self._traces = Traces(choice, install, start)
        milliseconds = settings.otel_metric_export_interval
        interval = milliseconds / 1000 if milliseconds is not None else None
        self._push = MetricPush(identity, endpoints, interval, points, start)

    @property
    def traces(self) -> TraceCounters:
        """What became of the traced requests."""
        return self._traces.counters

    @property
    def pushes(self) -> Mapping[str, int]:
        """Pushes of metrics, by result."""
        return self._push.pushes

    def apply(self, config: ObservabilityConfig) -> None:
        """Do as the ConfigMap says, from now on."""
        self._traces.apply(config.tracing)
        self._push.apply(config.metrics)

    async def close(self) -> None:
        """Send what is there; takes ten seconds at most."""
        await asyncio.gather(self._traces.close(), self._push.close())
