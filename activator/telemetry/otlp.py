"""Makes spans and metrics of OpenTelemetry's packages, and the exporters that send them.

A thread imports this module once traces or metrics are on. The packages themselves read other
variables: OTEL_EXPORTER_OTLP_HEADERS, …_CERTIFICATE, …_COMPRESSION, …_TIMEOUT and
OTEL_RESOURCE_ATTRIBUTES. Knative's counterpart: knative.dev/pkg/observability.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterable
from itertools import groupby
from typing import TYPE_CHECKING, Final, Generic, TypeVar

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
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SpanExporter, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags, TraceState

from activator import __version__
from activator.knative.configmaps.observability import GRPC, STDOUT
from activator.knative.words import http_version
from activator.telemetry.families import ACTIVATOR_SCOPE, METHODS, TARGET_INFO, Family, MetricKind
from activator.telemetry.metric_writers import Counted, Point
from activator.telemetry.tracing import RecordedTrace, What, new_id

if TYPE_CHECKING:
    from activator.telemetry.otel import Destination, Identity

logger = logging.getLogger(__name__)

# -- the steps of a request as spans --------------------------------------------------------------

# The tree of spans equals the tree of Knative's activator. A server span has the method as its
# name. Its children are ``throttler_try`` for each wait and ``activator_proxy`` for each pod. The
# latter has a client span for each attempt. Attributes follow OpenTelemetry's semantic
# conventions for HTTP. Spans leave out queries, which may contain secrets. Sources: Knative
# pkg/activator/handler/handler.go; https://opentelemetry.io/docs/specs/semconv/http/http-spans/.

_SCOPE: Final = InstrumentationScope(ACTIVATOR_SCOPE, __version__)
_SAMPLED: Final = TraceFlags(TraceFlags.SAMPLED)
_UNSET: Final = Status(StatusCode.UNSET)
#: Outcomes that are no failure: the client got a response, or cancelled the request.
_NO_FAILURE: Final = ("served", "admitted", "cancelled", "unknown-revision")

Attributes = dict[str, str | int]


def spans_of(trace: RecordedTrace, resource: Resource) -> list[ReadableSpan]:
    """Return the spans of a request that has ended, in the order of their ends."""
    return _Spans(trace, resource).all()


def _failed(text: str) -> Status:
    return Status(StatusCode.ERROR, text)


class _Spans:
    """Walks through the steps of one request; keeps the state of open spans."""

    def __init__(self, trace: RecordedTrace, resource: Resource) -> None:
        self._trace = trace
        self._resource = resource
        self._done: list[ReadableSpan] = []
        state = trace.parent.state.decode() if trace.parent is not None else ""
        self._state = TraceState.from_header([state]) if state else None
        self._server = self._context(trace.span_id)
        self._path = trace.head.target.partition(b"?")[0].decode("utf-8", "replace")
        # The starts of the open spans of a wait, a pod and an attempt; 0 for none.
        self._wait_since = self._pod_since = self._sent_since = 0
        self._reasons: list[Event] = []
        self._reason = ""
        self._pod = self._server
        self._address = self._origin = ""
        self._client = self._server
        self._status = 0
        self._error = ""

    def all(self) -> list[ReadableSpan]:
        for what, at, detail, origin in self._trace.steps:
            match what:
                case What.FOUND:
                    self._wait_since = at
                case What.NO_POD:
                    self._reason = str(detail)
                    reason = {"activator.reason": self._reason}
                    self._reasons.append(Event("waiting", reason, timestamp=self._wall(at)))
                case What.ASSIGNED:
                    self._end_wait(at, _UNSET)
                    self._address = str(detail)
                    if not self._pod_since:
                        self._pod_since = at
                        self._pod = self._context(new_id(64))
                case What.SENDING:
                    self._sent_since, self._origin = at, origin
                    self._status, self._error = 0, ""
                    self._client = self._context(int(detail))
                case What.RESPONDED:
                    self._status = int(detail)
                case What.FAILED:
                    self._error = str(detail)
                    self._end_sending(at, self._error)
                case What.WAITING:
                    self._end_pod(at)
                    self._wait_since = at
        self._end(self._trace.ended_at, self._trace.outcome)
        return self._done

    # -- spans ----------------------------------------------------------------------------------

    def _end_wait(self, at: int, status: Status) -> None:
        if not self._wait_since:
            return
        attributes: Attributes = {"activator.reason": self._reason} if self._reasons else {}
        self._add(
            "throttler_try",
            *(self._context(new_id(64)), self._server),
            *(self._wait_since, at),
            attributes,
            status=status,
            events=self._reasons,
        )
        self._wait_since = 0
        self._reasons = []

    def _end_sending(self, at: int, error: str) -> None:
        if not self._sent_since:
            return
        head = self._trace.head
        host, _, port = self._origin.partition("://")[2].rpartition(":")
        attributes = self._method()
        attributes |= {
            "url.full": f"{self._origin}{self._path}",
            "server.address": host.strip("[]"),
            "server.port": int(port) if port.isdigit() else 0,
            "network.protocol.version": http_version(head.minor or 1),
        }
        if self._status:
            attributes["http.response.status_code"] = self._status
        is_failed = bool(error) or self._status >= 400
        if is_failed:
            attributes["error.type"] = "_OTHER" if error else str(self._status)
        status = _failed(error) if is_failed else _UNSET
        name = f"{METHODS.get(head.method, 'HTTP')} {self._path}"
        self._add(
            name,
            *(self._client, self._pod),
            *(self._sent_since, at),
            attributes,
            kind=SpanKind.CLIENT,
            status=status,
        )
        self._sent_since = 0

    def _end_pod(self, at: int) -> None:
        if not self._pod_since:
            return
        status = _failed(self._error) if self._error else _UNSET
        self._add(
            "activator_proxy",
            *(self._pod, self._server),
            *(self._pod_since, at),
            {"server.address": self._address.rpartition(":")[0].strip("[]")},
            status=status,
        )
        self._pod_since = 0

    def _end(self, at: int, outcome: str) -> None:
        broken = "" if outcome in ("served", "admitted", "unknown-revision") else outcome
        self._end_wait(at, _failed(outcome))
        if broken and not self._error:
            self._error = broken
        self._end_sending(at, broken)
        self._end_pod(at)
        self._end_server(at)

    def _end_server(self, at: int) -> None:
        trace, head = self._trace, self._trace.head
        attributes = self._method()
        attributes |= {
            "url.scheme": "https" if head.secure else "http",
            "url.path": self._path,
            "network.protocol.version": http_version(head.minor),
            "http.response.status_code": trace.status,
            "activator.outcome": trace.outcome,
        }
        attributes |= _host(head.host.decode("latin-1"))
        if head.user_agent:
            attributes["user_agent.original"] = head.user_agent.decode("utf-8", "replace")
        if self._reason:
            attributes["activator.reason"] = self._reason
        if trace.revision is not None:
            attributes |= {
                "kn.service.name": trace.revision.service,
                "kn.configuration.name": trace.revision.configuration,
                "kn.revision.name": trace.revision.id.name,
                "k8s.namespace.name": trace.revision.id.namespace,
            }
        status = _UNSET
        if trace.status >= 500 or trace.outcome not in _NO_FAILURE:
            status = _failed("" if trace.outcome in _NO_FAILURE else trace.outcome)
            attributes["error.type"] = str(trace.status)
        parent = None
        if trace.parent is not None:
            parent = self._context(trace.parent.span_id, is_remote=True)
        self._add(
            METHODS.get(head.method, "HTTP"),
            *(self._server, parent),
            *(trace.began, at),
            attributes,
            kind=SpanKind.SERVER,
            status=status,
        )

    def _method(self) -> Attributes:
        method = self._trace.head.method
        if method in METHODS:
            return {"http.request.method": METHODS[method]}
        original = method.decode("latin-1")
        return {"http.request.method": "_OTHER", "http.request.method_original": original}

    def _context(self, span_id: int, is_remote: bool = False) -> SpanContext:
        return SpanContext(self._trace.number, span_id, is_remote, _SAMPLED, self._state)

    def _wall(self, at: int) -> int:
        """Return nanoseconds since 1970.

        The wall clock is read once for each request, since it may be set during a request.
        """
        return self._trace.wall + at - self._trace.began

    def _add(
        self,
        name: str,
        context: SpanContext,
        parent: SpanContext | None,
        since: int,
        until: int,
        attributes: Attributes,
        *,
        kind: SpanKind = SpanKind.INTERNAL,
        status: Status = _UNSET,
        events: list[Event] | None = None,
    ) -> None:
        self._done.append(
            ReadableSpan(
                name,
                context,
                parent,
                self._resource,
                attributes,
                events or (),
                kind=kind,
                status=status,
                start_time=self._wall(since),
                end_time=self._wall(until),
                instrumentation_scope=_SCOPE,
            )
        )


def _host(host: str) -> Attributes:
    """Return the attributes of a Host field: the address, and the port if the field has one."""
    name, colon, port = host.rpartition(":")
    if not colon or not port.isdigit() or host.endswith("]"):
        return {"server.address": host} if host else {}
    return {"server.address": name, "server.port": int(port)}


# -- exporters ------------------------------------------------------------------------------------

X = TypeVar("X", SpanExporter, MetricExporter)

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


class _Complaints(logging.Handler):
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


_COMPLAINTS: Final = _Complaints()


class _Sender(Generic[X]):
    """Sends with one exporter, and says why it failed.

    Arguments:
        make: makes the exporter; the packages may raise any error for a wrong environment.
    """

    def __init__(
        self, destination: Destination, identity: Identity, make: Callable[[Destination], X]
    ) -> None:
        packages = logging.getLogger("opentelemetry")
        if _COMPLAINTS not in packages.handlers:
            packages.addHandler(_COMPLAINTS)
            packages.propagate = False
        self._destination = destination
        self._resource = resource_of(identity)
        _COMPLAINTS.clear()
        self._exporter: X = make(destination)
        if complaint := _COMPLAINTS.first():
            logger.warning("sending to %s: %s", destination, complaint)

    def shutdown(self) -> None:
        """Abort an attempt under way, and close; may be called from any thread."""
        self._exporter.shutdown()

    def _problem(self) -> str:
        return f"{self._destination}: {_COMPLAINTS.first() or 'no reason was given'}"


class SpanSender(_Sender[SpanExporter]):
    """Makes spans of ended requests and sends them.

    Only one thread uses it, except for ``shutdown``.
    """

    def __init__(self, destination: Destination, identity: Identity) -> None:
        super().__init__(destination, identity, _span_exporter)

    def export(self, traces: list[RecordedTrace]) -> str:
        """Send requests; return the error, empty on success. May block without limit."""
        _COMPLAINTS.clear()
        spans = [span for trace in traces for span in spans_of(trace, self._resource)]
        is_sent = self._exporter.export(spans) is SpanExportResult.SUCCESS
        return "" if is_sent else self._problem()


class MetricSender(_Sender[MetricExporter]):
    """Makes metrics of points and sends them."""

    def __init__(self, destination: Destination, identity: Identity) -> None:
        super().__init__(destination, identity, _metric_exporter)

    def export(self, points: list[Point], since: int, now: int) -> str:
        """Send points; return the error, empty on success. Blocks until the result is known.

        Arguments: as for ``metrics_of``.
        """
        _COMPLAINTS.clear()
        data = metrics_of(points, self._resource, since, now)
        result = self._exporter.export(data, timeout_millis=_TIMEOUT)
        return "" if result is MetricExportResult.SUCCESS else self._problem()


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


# -- points as OpenTelemetry's metrics ------------------------------------------------------------

# Names and labels of ``families`` are OpenTelemetry's, with underscores for dots. A collector that
# writes Prometheus' format restores the names of /metrics.

_CUMULATIVE: Final = AggregationTemporality.CUMULATIVE
_SCOPE_LABEL: Final = "otel_scope_name"
#: Scope of the metrics that Knative does not have.
OWN_SCOPE: Final = "activator"
_UNITS: Final = (("_seconds", "s"), ("_bytes", "By"))
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
        found.setdefault(dict(point.labels).get(_SCOPE_LABEL, OWN_SCOPE), []).append(point)
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
        if name != _SCOPE_LABEL
    }


def _attribute(name: str) -> str:
    if name == "http_response_status_code":
        return "http.response.status_code"
    dotted = ("kn_", "k8s_", "http_", "url_", "server_", "network_")
    return name.replace("_", ".") if name.startswith(dotted) else name
