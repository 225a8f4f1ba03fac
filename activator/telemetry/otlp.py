"""Makes the exporters of OpenTelemetry's packages, with their address and resource.

A thread imports this module once traces or metrics are on. The packages themselves read other
variables: OTEL_EXPORTER_OTLP_HEADERS, …_CERTIFICATE, …_COMPRESSION, …_TIMEOUT and
OTEL_RESOURCE_ATTRIBUTES. Knative's counterpart: knative.dev/pkg/observability.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Final, TypeVar

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricExporter,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SpanExporter, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from activator import __version__
from activator.telemetry.destination import GRPC, STDOUT, Destination, Identity
from activator.telemetry.families import ACTIVATOR_SCOPE, TARGET_INFO, Family, MetricKind
from activator.telemetry.metric_writers import Counted, Point
from activator.telemetry.spans import spans_of

if TYPE_CHECKING:
    from activator.telemetry.tracing import RecordedTrace


# Converts points to OpenTelemetry's metrics, with the names of Knative's activator.
#
# It runs in the thread that sends. Names and labels of ``families`` are OpenTelemetry's, with
# underscores for dots. A collector that writes Prometheus' format restores the names of /metrics.

_CUMULATIVE: Final = AggregationTemporality.CUMULATIVE
_SCOPE: Final = "otel_scope_name"
#: Scope of the metrics that Knative does not have.
OWN_SCOPE: Final = "activator"
_UNITS: Final = (("_seconds", "s"), ("_bytes", "By"))
#: Labels whose OpenTelemetry names have underscores.
_ATTRIBUTES: Final[Mapping[str, str]] = {"http_response_status_code": "http.response.status_code"}
#: The activator keeps no minimum and no maximum. The encoder leaves out None.
_UNKNOWN: Final[float] = None  # type: ignore[assignment] # optional on the wire, not in the type
#: Labels whose attributes are numbers.
_NUMBERS: Final = frozenset(("http_response_status_code", "server_port"))


def metrics_of(points: Iterable[Point], resource: Resource, since: int, now: int) -> MetricsData:
    """Return the message for a collector.

    Arguments:
        points: all points of a metric follow each other.
        resource: identifies this activator.
        since: when counting began, now: when the points were taken; nanoseconds since 1970.
    """
    scopes: dict[str, list[Metric]] = {}
    for family, group in groupby(points, key=lambda point: point.family):
        if family is TARGET_INFO:
            continue  # the resource has the same attributes
        for scope, members in _by_scope(group).items():
            scopes.setdefault(scope, []).append(_metric(family, members, since, now))
    return MetricsData(
        [
            ResourceMetrics(
                resource,
                [
                    ScopeMetrics(InstrumentationScope(scope, _version(scope)), metrics, "")
                    for scope, metrics in scopes.items()
                ],
                "",
            )
        ]
    )


def name_and_unit(family: Family) -> tuple[str, str]:
    """Return the name and the unit of a metric in OpenTelemetry."""
    name = family.name.removesuffix("_total")
    unit = f"{{{family.counts}}}" if family.counts else ""
    for ending, its_unit in _UNITS:
        if name.endswith(ending):
            name, unit = name.removesuffix(ending), its_unit
    if name.startswith(("kn_", "http_")):
        return name.replace("_", "."), unit
    return name.replace("_", ".", 1), unit  # activator.…, process.…, python.…


def _by_scope(points: Iterable[Point]) -> dict[str, list[Point]]:
    found: dict[str, list[Point]] = {}
    for point in points:
        found.setdefault(dict(point.labels).get(_SCOPE, OWN_SCOPE), []).append(point)
    return found


def _version(scope: str) -> str | None:
    return __version__ if scope in (ACTIVATOR_SCOPE, OWN_SCOPE) else None


def _metric(family: Family, points: list[Point], since: int, now: int) -> Metric:
    name, unit = name_and_unit(family)
    data: Gauge | Sum | Histogram
    if family.kind is MetricKind.HISTOGRAM:
        bounds = family.bounds
        data = Histogram([_histogram(point, bounds, since, now) for point in points], _CUMULATIVE)
    else:
        numbers = [_number(point, since, now) for point in points]
        if family.kind is MetricKind.COUNTER or family.updown:
            data = Sum(numbers, _CUMULATIVE, is_monotonic=not family.updown)
        else:
            data = Gauge(numbers)
    return Metric(name, family.meaning, unit, data)


def _number(point: Point, since: int, now: int) -> NumberDataPoint:
    assert not isinstance(point.value, Counted)
    return NumberDataPoint(_attributes(point), since, now, point.value)


def _histogram(point: Point, bounds: tuple[float, ...], since: int, now: int) -> HistogramDataPoint:
    assert isinstance(point.value, Counted)
    counts, total = point.value
    return HistogramDataPoint(
        _attributes(point),
        *(since, now),
        count=sum(counts),
        sum=total,
        bucket_counts=counts,
        explicit_bounds=bounds,
        min=_UNKNOWN,
        max=_UNKNOWN,
    )


def _attributes(point: Point) -> dict[str, str | int]:
    """Return a point's attributes: a closed set of words, without bytes of clients."""
    return {
        _attribute(name): int(value) if name in _NUMBERS and value.isdigit() else value
        for name, value in point.labels
        if name != _SCOPE
    }


def _attribute(name: str) -> str:
    known = _ATTRIBUTES.get(name)
    if known is not None:
        return known
    dotted = ("kn_", "k8s_", "http_", "url_", "server_", "network_")
    return name.replace("_", ".") if name.startswith(dotted) else name


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
    """Makes spans of ended requests and sends them.

    Only one thread uses it, except for ``shutdown``.
    """

    def __init__(self, destination: Destination, identity: Identity) -> None:
        """Make the exporter; the packages may raise any error for a wrong environment."""
        self._destination = destination
        self._resource = resource_of(identity)
        self._complaints = complaints()
        self._exporter = _made(_span_exporter, destination)

    def export(self, traces: list[RecordedTrace]) -> str:
        """Send requests; return the error, empty on success. May block without limit."""
        self._complaints.clear()
        spans = [span for trace in traces for span in spans_of(trace, self._resource)]
        if self._exporter.export(spans) is SpanExportResult.SUCCESS:
            return ""
        return f"{self._destination}: {self._complaints.first() or 'no reason was given'}"

    def shutdown(self) -> None:
        """Abort an attempt under way, and close; may be called from any thread."""
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
