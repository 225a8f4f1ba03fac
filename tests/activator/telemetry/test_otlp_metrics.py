"""Metrics as a collector gets them: names, units, kinds and attributes of Knative's activator."""

from __future__ import annotations

from math import inf

import pytest
from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.sdk.resources import Resource

from activator.telemetry import families as f
from activator.telemetry.families import FAMILIES
from activator.telemetry.metrics import Metrics
from activator.telemetry.otlp_metrics import metrics_of, name_and_unit
from tests.activator.telemetry.collector import attributes
from tests.activator.telemetry.test_metrics import with_everything
from tests.activator.telemetry.world import World

SERVICE = {
    "kn.service.name": "svc",
    "kn.configuration.name": "cfg",
    "kn.revision.name": "hello",
    "k8s.namespace.name": "default",
}


@pytest.fixture
def world():
    return World()


def encoded(world):
    """Return the metrics on the wire, by (scope, name)."""
    points = [point for point in Metrics(world).points() if point is not None]
    message = encode_metrics(metrics_of(points, Resource({"service.name": "a"}), 1, 2))
    (resource,) = message.resource_metrics
    found = {}
    for scope in resource.scope_metrics:
        for metric in scope.metrics:
            assert (scope.scope.name, metric.name) not in found
            found[scope.scope.name, metric.name] = metric
    return found


def points_of(metric):
    return getattr(metric, metric.WhichOneof("data")).data_points


@pytest.mark.parametrize(
    ("family", "name", "unit"),
    [
        (f.KN_CONCURRENCY, "kn.revision.request.concurrency", "{request}"),
        (f.KN_QUEUED, "kn.revision.request.queued", "{request}"),
        (f.KN_ACTIVE, "kn.revision.request.active", "{request}"),
        (f.CONN_REACHABLE, "kn.activator.stats.conn.reachable", "{reachable}"),
        (f.CONN_ERRORS, "kn.activator.stats.conn.errors", "{error}"),
        (f.SERVER_DURATION, "http.server.request.duration", "s"),
        (f.SERVER_REQUEST_SIZE, "http.server.request.body.size", "By"),
        (f.SERVER_RESPONSE_SIZE, "http.server.response.body.size", "By"),
        (f.CLIENT_DURATION, "http.client.request.duration", "s"),
        (f.CLIENT_REQUEST_SIZE, "http.client.request.body.size", "By"),
        (f.WAIT, "activator.request_wait", "s"),
        (f.REQUESTS, "activator.requests", ""),
    ],
)
def test_names_and_units(family, name, unit):
    assert name_and_unit(family) == (name, unit)


def test_a_collector_that_writes_prometheus_format_gets_our_names_back():
    endings = {"s": "_seconds", "By": "_bytes"}
    for family in FAMILIES:
        name, unit = name_and_unit(family)
        total = "_total" if family.kind is f.Kind.COUNTER else ""
        assert name.replace(".", "_") + endings.get(unit, "") + total == family.name


def test_kinds_are_those_of_knative(world):
    with_everything(world)
    found = encoded(world)
    ours = "knative.dev/serving/pkg/activator"
    queued = found[ours, "kn.revision.request.queued"]
    assert queued.WhichOneof("data") == "sum"
    assert not queued.sum.is_monotonic
    assert found[ours, "kn.revision.request.concurrency"].WhichOneof("data") == "gauge"
    assert found[ours, "kn.activator.stats.conn.reachable"].WhichOneof("data") == "gauge"
    errors = found[ours, "kn.activator.stats.conn.errors"]
    assert errors.sum.is_monotonic
    assert errors.sum.aggregation_temporality == 2  # cumulative
    assert attributes(errors.sum.data_points[0]) == {"peer": "autoscaler"}


def test_a_histogram_keeps_its_buckets_and_its_status_is_a_number(world):
    _, counters = with_everything(world)
    counters.server_of((b"GET", 1, 200)).duration.observe(99)
    duration = encoded(world)[f.HTTP_SCOPE, "http.server.request.duration"]
    (point,) = duration.histogram.data_points
    assert (point.count, point.sum) == (2, pytest.approx(99.3))
    assert list(point.explicit_bounds) == list(f.SERVER_DURATION.bounds)
    assert [n for n in point.bucket_counts if n] == [1, 1]
    assert not point.HasField("min")
    assert (point.start_time_unix_nano, point.time_unix_nano) == (1, 2)
    assert attributes(point) == SERVICE | {
        "http.request.method": "GET",
        "url.scheme": "http",
        "server.address": "hello.default",
        "network.protocol.name": "http",
        "network.protocol.version": "1.1",
        "http.response.status_code": 200,
    }


def test_a_pods_port_is_a_number(world):
    with_everything(world)
    duration = encoded(world)[f.HTTP_SCOPE, "http.client.request.duration"]
    sent = attributes(duration.histogram.data_points[0])
    assert (sent["server.address"], sent["server.port"]) == ("10.0.0.1", 8012)


def test_our_own_and_those_of_the_process_come_in_a_scope_of_our_own(world):
    throttler = world.revision(concurrency=0)
    world.healthy(throttler, "10.0.0.1:8012")
    found = encoded(world)
    capacity = found["activator", "activator.revision_capacity"]
    assert [point.as_double for point in points_of(capacity)] == [inf]
    assert points_of(found["activator", "process.resident_memory"])[0].as_double > 0
    assert found["activator", "process.cpu"].sum.is_monotonic
    assert ("activator", "target.info") not in found  # the resource has that attribute
