"""Makes the exporters of OpenTelemetry's packages, with their address and resource.

A thread imports this module once traces or metrics are on. The packages themselves read other
variables: OTEL_EXPORTER_OTLP_HEADERS, …_CERTIFICATE, …_COMPRESSION, …_TIMEOUT and
OTEL_RESOURCE_ATTRIBUTES. Knative's counterpart: knative.dev/pkg/observability.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from opentelemetry.sdk.metrics.export import MetricExporter, MetricExportResult
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SpanExporter, SpanExportResult

from activator import __version__
from activator.telemetry.destination import GRPC, STDOUT, Destination, Identity
from activator.telemetry.otlp_metrics import metrics_of
from activator.telemetry.points import Point
from activator.telemetry.spans import spans_of

if TYPE_CHECKING:
    from activator.telemetry.tracing import RecordedTrace

logger = logging.getLogger(__name__)

T = TypeVar("T")

#: Milliseconds that a push of metrics may take, as the packages' own default.
_TIMEOUT: Final = 10_000


def resource_of(identity: Identity) -> Resource:
    """Return the resource: Knative's attributes, over which OTEL_RESOURCE_ATTRIBUTES wins."""
    own = {
        "service.name": identity.service_name,
        "service.version": __version__,
        "k8s.namespace.name": identity.namespace,
        "k8s.pod.name": identity.pod_name,
    }
    environment = {
        name: value
        for name, value in OTELResourceDetector().detect().attributes.items()
        if name != "service.name"  # read with the other settings, where a flag may win over it
    }
    return Resource.create({**own, **environment})


class SpanSender:
    """Makes spans of ended requests and sends them (trace_queue.TraceExporter)."""

    def __init__(self, destination: Destination, identity: Identity) -> None:
        """Make the exporter; the packages may raise any error for a wrong environment."""
        self._destination = destination
        self._resource = resource_of(identity)
        self._complaints = complaints()
        self._exporter = _made(_span_exporter, destination)

    def export(self, traces: list[RecordedTrace]) -> str:
        """See TraceExporter."""
        self._complaints.clear()
        spans = [span for trace in traces for span in spans_of(trace, self._resource)]
        if self._exporter.export(spans) is SpanExportResult.SUCCESS:
            return ""
        return f"{self._destination}: {self._complaints.first() or 'no reason was given'}"

    def shutdown(self) -> None:
        """See TraceExporter."""
        self._exporter.shutdown()


class MetricSender:
    """Makes metrics of points and sends them."""

    def __init__(self, destination: Destination, identity: Identity) -> None:
        """Make the exporter; the packages may raise any error for a wrong environment."""
        self._destination = destination
        self._complaints = complaints()
        self._exporter = _made(_metric_exporter, destination)
        self._resource = resource_of(identity)

    def export(self, points: list[Point], since: int, now: int) -> str:
        """Send points; return the error, empty on success. Blocks until the result is known.

        Arguments: as for ``otlp_metrics.metrics_of``.
        """
        self._complaints.clear()
        data = metrics_of(points, self._resource, since, now)
        if self._exporter.export(data, timeout_millis=_TIMEOUT) is MetricExportResult.SUCCESS:
            return ""
        return f"{self._destination}: {self._complaints.first() or 'no reason was given'}"

    def shutdown(self) -> None:
        """Abort an attempt under way, and close; may be called from any thread."""
        self._exporter.shutdown()


def _made(make: Callable[[Destination], T], destination: Destination) -> T:
    """Make an exporter, and log its first complaint about the environment."""
    complaints().clear()
    exporter = make(destination)
    if complaint := complaints().first():
        logger.warning("sending to %s: %s", destination, complaint)
    return exporter


def _span_exporter(destination: Destination) -> SpanExporter:
    if destination.protocol == STDOUT:
        return ConsoleSpanExporter(
            out=sys.stdout, formatter=lambda span: span.to_json(indent=None) + "\n"
        )
    if destination.protocol == GRPC:
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as Grpc

        return Grpc(endpoint=destination.url)
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as Http

    return Http(endpoint=destination.url)


def _metric_exporter(destination: Destination) -> MetricExporter:
    if destination.protocol == GRPC:
        from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import (
            OTLPMetricExporter as Grpc,
        )

        return Grpc(endpoint=destination.url)
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter as Http

    return Http(endpoint=destination.url)


class Complaints(logging.Handler):
    """Keeps the log lines of the packages: only they say why an export failed.

    The packages log with each attempt. The activator logs one line now and then instead.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._by_thread: dict[int, str] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """See logging.Handler."""
        self._by_thread.setdefault(threading.get_ident(), record.getMessage())

    def clear(self) -> None:
        """Remove the line of this thread."""
        self._by_thread.pop(threading.get_ident(), None)

    def first(self) -> str:
        """Return the first line of this thread, or nothing; later lines repeat it."""
        return self._by_thread.get(threading.get_ident(), "")


_COMPLAINTS: Final = Complaints()


def complaints() -> Complaints:
    """Install the one handler for the log lines of the packages, and return it."""
    packages = logging.getLogger("opentelemetry")
    if _COMPLAINTS not in packages.handlers:
        packages.addHandler(_COMPLAINTS)
        packages.propagate = False
    return _COMPLAINTS
