"""Starts and stops traces and metric pushes, as the observability ConfigMap and the settings say.

It costs nothing while neither is on: OpenTelemetry's packages are not even imported then. Knative's
counterpart: knative.dev/pkg/observability and cmd/activator/main.go.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from activator.knative.configmaps.observability import ObservabilityConfig
from activator.process.outputs import Outputs
from activator.records.loop_lag import LoopLag
from activator.settings.config import Settings
from activator.telemetry.destination import Endpoints, Identity
from activator.telemetry.metric_push import MetricPush
from activator.telemetry.metric_writers import Point
from activator.telemetry.request_log import RequestLog
from activator.telemetry.traces import TraceCounters, Traces, TraceSettings
from activator.telemetry.tracing import RequestTracer
from activator.tls.certificates import Certificates


class OpenTelemetry:
    """Traces and pushed metrics, as configured.

    Arguments:
        settings: they win over the ConfigMap.
        install: called with the tracer for the next requests, or None.
        start: runs a coroutine as a task.
        points: yields all metrics as they are now.
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
        """Counters of exported and dropped traces."""
        return self._traces.counters

    @property
    def pushes(self) -> Mapping[str, int]:
        """Pushes of metrics, by result."""
        return self._push.pushes

    def apply(self, config: ObservabilityConfig) -> None:
        """Apply the ConfigMap."""
        self._traces.apply(config.tracing)
        self._push.apply(config.metrics)

    async def close(self) -> None:
        """Send the remaining traces and metrics; takes ten seconds at most."""
        await asyncio.gather(self._traces.close(), self._push.close())


@dataclass(frozen=True, slots=True)
class Observers:
    """The parts of one activator that observe the others, and print or send the observations.

    Each part works alone. Metrics read their counters.

    Attributes:
        otel: traces and pushed metrics.
        request_log: a line for each request, if a ConfigMap asks for lines.
        outputs: stdout gets the request log, as with Knative; stderr gets the process log.
        loop_lag: the delay of the event loop.
        certificates: the certificates of the listeners.
    """

    otel: OpenTelemetry
    request_log: RequestLog
    outputs: Outputs
    loop_lag: LoopLag = field(default_factory=LoopLag)
    certificates: Certificates = field(default_factory=Certificates)

    def apply(self, config: ObservabilityConfig) -> RequestLog | None:
        """Apply the observability ConfigMap.

        Returns:
            The request log; None if requests get no line.
        """
        self.otel.apply(config)
        return self.request_log if self.request_log.configure(config.request_log) else None
