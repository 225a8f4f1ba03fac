"""Spans on their way to real collectors, over both protocols."""

from __future__ import annotations

import json
import logging
from math import inf

import pytest
from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.sdk.resources import Resource

from activator import __version__
from activator.knative.configmaps.observability import GRPC, HTTP_PROTOBUF, STDOUT
from activator.telemetry import families as f
from activator.telemetry.families import FAMILIES
from activator.telemetry.metrics import Metrics
from activator.telemetry.otel import Destination, Identity
from activator.telemetry.otlp import SpanSender, metrics_of, name_and_unit, resource_of
from tests.activator.telemetry.collector import attributes, grpc_collector, http_collector
from tests.activator.telemetry.test_metrics import with_everything
from tests.activator.telemetry.tracing_world import Requests
from tests.activator.telemetry.world import World
from tests.process import PATIENCE
from tests.rows import in_one_test

IDENTITY = Identity("activator", "knative-serving", "activator-1")


def test_spans_arrive_over_http_with_resource_and_scope():
    with http_collector() as collector:
        sender = SpanSender(Destination(HTTP_PROTOBUF, collector.url + "/v1/traces"), IDENTITY)
        assert sender.export([Requests().served()]) == ""
        sender.shutdown()
        message = collector.traces.get(timeout=PATIENCE)
    (resource,) = message.resource_spans
    assert attributes(resource.resource).items() >= {
        ("service.name", "activator"),
        ("service.version", __version__),
        ("k8s.namespace.name", "knative-serving"),
        ("k8s.pod.name", "activator-1"),
    }
    (scope,) = resource.scope_spans
    assert scope.scope.name == "knative.dev/serving/pkg/activator"
    assert [span.name for span in scope.spans] == [
        *("throttler_try", "POST /buy", "activator_proxy", "POST")
    ]
    assert collector.paths == ["/v1/traces"]


def test_spans_arrive_over_grpc():
    with grpc_collector() as collector:
        sender = SpanSender(Destination(GRPC, collector.url), IDENTITY)
        assert sender.export([Requests().served()]) == ""
        assert [span.name for span in collector.spans()][-1] == "POST"
        sender.shutdown()


def test_spans_are_written_to_stdout_one_line_each(capsys):
    SpanSender(Destination(STDOUT), IDENTITY).export([Requests().served()])
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line)["name"] for line in lines] == [
        *("throttler_try", "POST /buy", "activator_proxy", "POST")
    ]


def test_a_refusal_is_reported_with_the_collectors_address_and_logged_once():
    heard: list[str] = []
    root = logging.Handler()
    root.emit = lambda record: heard.append(record.name)  # type: ignore[method-assign] # for a test
    logging.getLogger().addHandler(root)
    with http_collector() as collector:
        collector.status = 403
        sender = SpanSender(Destination(HTTP_PROTOBUF, collector.url + "/v1/traces"), IDENTITY)
        problem = sender.export([Requests().served()])
        sender.shutdown()
    assert problem.startswith(f"{collector.url}/v1/traces (http/protobuf): Failed to export")
    assert "403" in problem
    logging.getLogger().removeHandler(root)
    assert not [name for name in heard if name.startswith("opentelemetry")]


@pytest.fixture
def environment(monkeypatch):
    for name in ("OTEL_RESOURCE_ATTRIBUTES", "OTEL_SERVICE_NAME", "OTEL_EXPORTER_OTLP_HEADERS"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


def test_the_environments_resource_attributes_win_but_for_the_name_which_is_a_setting(environment):
    environment.setenv("OTEL_RESOURCE_ATTRIBUTES", "k8s.pod.name=other,team=a")
    environment.setenv("OTEL_SERVICE_NAME", "read-with-the-settings")
    assert resource_of(IDENTITY).attributes.items() >= {
        ("service.name", "activator"),
        ("k8s.pod.name", "other"),
        ("team", "a"),
    }


def test_headers_of_the_environment_are_sent(environment):
    environment.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-key=secret")
    with http_collector() as collector:
        sender = SpanSender(Destination(HTTP_PROTOBUF, collector.url + "/v1/traces"), IDENTITY)
        assert sender.export([Requests().served()]) == ""
        sender.shutdown()
    assert collector.headers[0]["x-key"] == "secret"


def test_what_the_packages_say_of_the_environment_is_passed_on(environment, caplog):
    environment.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "soon")
    SpanSender(Destination(HTTP_PROTOBUF, "http://127.0.0.1:1/v1/traces"), IDENTITY).shutdown()
    ours = [
        record.message for record in caplog.records if record.name == "activator.telemetry.otlp"
    ]
    assert len(ours) == 1
    assert ours[0].startswith("sending to http://127.0.0.1:1/v1/traces (http/protobuf): Invalid")


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


@in_one_test(
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
        total = "_total" if family.kind is f.MetricKind.COUNTER else ""
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
