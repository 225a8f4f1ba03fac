"""Converts points to OpenTelemetry's metrics, with the names of Knative's activator.

It runs in the thread that sends. Names and labels of ``families`` are OpenTelemetry's, with
underscores for dots. A collector that writes Prometheus' format restores the names of /metrics.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Final

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from activator import __version__
from activator.telemetry.families import ACTIVATOR_SCOPE, TARGET_INFO, Family, Kind
from activator.telemetry.points import Counted, Point

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
    if family.kind is Kind.HISTOGRAM:
        bounds = family.bounds
        data = Histogram([_histogram(point, bounds, since, now) for point in points], _CUMULATIVE)
    else:
        numbers = [_number(point, since, now) for point in points]
        if family.kind is Kind.COUNTER or family.updown:
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
