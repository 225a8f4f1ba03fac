"""Where traces and metrics go."""

from __future__ import annotations

import pytest

from activator.knative.configmaps.observability import GRPC, HTTP_PROTOBUF, STDOUT
from activator.telemetry.otel import Destination, Endpoints


@pytest.mark.parametrize(
    ("configured", "http", "grpc"),
    [
        ("http://c:4318", "http://c:4318/v1/traces", "http://c:4318"),
        ("http://c:4318/", "http://c:4318/", "http://c:4318/"),
        ("https://c/otlp/v1/traces", "https://c/otlp/v1/traces", "https://c/otlp/v1/traces"),
        ("c:4318", "https://c:4318/v1/traces", "https://c:4318"),
    ],
)
def test_the_config_maps_endpoint_gets_the_usual_path_where_it_has_none(configured, http, grpc):
    nobody = Endpoints()
    assert nobody.destination("traces", HTTP_PROTOBUF, configured) == Destination(
        HTTP_PROTOBUF, http
    )
    assert nobody.destination("traces", GRPC, configured) == Destination(GRPC, grpc)


def test_the_environment_wins_and_its_endpoint_for_one_signal_most():
    both = Endpoints(general="http://g:1/base/", traces="http://t:2", metrics="")
    assert both.destination("traces", HTTP_PROTOBUF, "http://no").url == "http://t:2"
    assert (
        both.destination("metrics", HTTP_PROTOBUF, "http://no").url == "http://g:1/base/v1/metrics"
    )
    assert both.destination("metrics", GRPC, "http://no").url == "http://g:1/base/"


def test_stdout_is_no_address():
    destination = Endpoints(general="http://g").destination("traces", STDOUT, "")
    assert (destination.url, str(destination)) == ("", "stdout")
    assert str(Destination(GRPC, "http://c:4317")) == "http://c:4317 (grpc)"
