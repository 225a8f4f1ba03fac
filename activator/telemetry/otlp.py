"""The exporters of OpenTelemetry's packages: which one, to which address, in whose name.

Imported in a thread, once traces or metrics are to be sent. What is not said here the packages
read from the environment themselves: OTEL_EXPORTER_OTLP_HEADERS, …_CERTIFICATE, …_COMPRESSION,
…_TIMEOUT and OTEL_RESOURCE_ATTRIBUTES. Knative's counterpart: knative.dev/pkg/observability.
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
    """Return who sends: Knative's attributes, over which OTEL_RESOURCE_ATTRIBUTES wins."""
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
        """Raises whatever the packages do when the environment tells them nonsense."""
        self._destination = destination
        self._resource = resource_of(identity)
        self._complaints = complaints()
        self._exporter = _made(_span_exporter, destination)

    def export(self, traces: list[RecordedTrace]) -> str:
        """See TraceExporter."""
        self._complaints.forget()
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
        """Raises whatever the packages do when the environment tells them nonsense."""
        self._destination = destination
        self._complaints = complaints()
        self._exporter = _made(_metric_exporter, destination)
        self._resource = resource_of(identity)

    def export(self, points: list[Point], since: int, now: int) -> str:
        """Send them; return why that failed, or nothing. Blocks until it is known.

        Arguments: as for ``otlp_metrics.metrics_of``.
        """
        self._complaints.forget()
        data = metrics_of(points, self._resource, since, now)
        if self._exporter.export(data, timeout_millis=_TIMEOUT) is MetricExportResult.SUCCESS:
            return ""
        return f"{self._destination}: {self._complaints.first() or 'no reason was given'}"

    def shutdown(self) -> None:
        """Give up what is being tried, and close; may be called from any thread."""
        self._exporter.shutdown()


def _made(make: Callable[[Destination], T], destination: Destination) -> T:
    """Make an exporter, and tell what it has to say of the environment."""
    complaints().forget()
    exporter = make(destination)
    if said := complaints().first():
        logger.warning("sending to %s: %s", destination, said)
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
    """What the packages log: the only place where they say why something was not sent.

    It comes with each attempt, and goes into one line of ours now and then instead.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._by_thread: dict[int, str] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """See logging.Handler."""
        self._by_thread.setdefault(threading.get_ident(), record.getMessage())

    def forget(self) -> None:
        """Begin anew, for this thread."""
        self._by_thread.pop(threading.get_ident(), None)

    def first(self) -> str:
        """Return what was said first in this thread, if anything: what follows repeats it."""
        return self._by_thread.get(threading.get_ident(), "")


_COMPLAINTS: Final = Complaints()


def complaints() -> Complaints:
    """Return the one handler, which from now on takes what the packages log."""
    packages = logging.getLogger("opentelemetry")
    if _COMPLAINTS not in packages.handlers:
        packages.addHandler(_COMPLAINTS)
        packages.propagate = False
    return _COMPLAINTS
