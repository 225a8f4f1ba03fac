"""Spans on their way to real collectors, over both protocols."""

from __future__ import annotations

import json
import logging

import pytest

from activator import __version__
from activator.telemetry.destination import GRPC, HTTP, STDOUT, Destination, Identity
from activator.telemetry.otlp import SpanSender, resource_of
from tests.activator.telemetry.collector import attributes, grpc_collector, http_collector
from tests.activator.telemetry.tracing_world import Requests
from tests.process import PATIENCE

IDENTITY = Identity("activator", "knative-serving", "activator-1")


def test_spans_arrive_over_http_with_resource_and_scope():
    with http_collector() as collector:
        sender = SpanSender(Destination(HTTP, collector.url + "/v1/traces"), IDENTITY)
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
        sender = SpanSender(Destination(HTTP, collector.url + "/v1/traces"), IDENTITY)
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
        sender = SpanSender(Destination(HTTP, collector.url + "/v1/traces"), IDENTITY)
        assert sender.export([Requests().served()]) == ""
        sender.shutdown()
    assert collector.headers[0]["x-key"] == "secret"


def test_what_the_packages_say_of_the_environment_is_passed_on(environment, caplog):
    environment.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "soon")
    SpanSender(Destination(HTTP, "http://127.0.0.1:1/v1/traces"), IDENTITY).shutdown()
    ours = [
        record.message for record in caplog.records if record.name == "activator.telemetry.otlp"
    ]
    assert len(ours) == 1
    assert ours[0].startswith("sending to http://127.0.0.1:1/v1/traces (http/protobuf): Invalid")
