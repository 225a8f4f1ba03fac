"""What config-observability means: defaults, contradictions, and wrong values."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from activator.knative.configmaps.following import ConfigMapError, Followed
from activator.knative.configmaps.observability import (
    DEFAULT_TEMPLATE,
    MetricsConfig,
    ObservabilityConfig,
    RequestLogConfig,
    TracingConfig,
    observability_reader,
)
from tests.activator.knative.configmaps.strict import strictly
from tests.rows import in_one_test


def check_template(text: str) -> None:
    """Stands for the template engine."""
    if "{{}}" in text:
        raise ValueError("1:3: missing value for command")


def parse(data: Mapping[str, str], check: Callable[[str], None]) -> ObservabilityConfig:
    return strictly(observability_reader(check), data, ObservabilityConfig())


def config(**data: str) -> ObservabilityConfig:
    return parse({name.replace("_", "-"): value for name, value in data.items()}, check_template)


def test_an_empty_one_means_nothing_but_the_prometheus_port() -> None:
    assert config() == ObservabilityConfig(
        RequestLogConfig(False, DEFAULT_TEMPLATE),
        MetricsConfig("none", "", 0.0),
        TracingConfig("none", "", 0.0),
        profiling=False,
        runtime_export_interval=15.0,
    )


def test_every_key_is_read() -> None:
    data = {
        "logging.enable-request-log": "true",
        "logging.request-log-template": "{{.TraceID}}",
        "logging.enable-probe-request-log": "true",
        "metrics-protocol": "http/protobuf",
        "metrics-endpoint": "http://collector:4318/v1/metrics",
        "metrics-export-interval": "30s",
        "runtime-profiling": "enabled",
        "runtime-export-interval": "1m",
        "tracing-protocol": "grpc",
        "tracing-endpoint": "collector:4317",
        "tracing-sampling-rate": "0.25",
    }
    assert parse(data, check_template) == ObservabilityConfig(
        RequestLogConfig(True, "{{.TraceID}}"),
        MetricsConfig("http/protobuf", "http://collector:4318/v1/metrics", 30.0),
        TracingConfig("grpc", "collector:4317", 0.25),
        profiling=True,
        runtime_export_interval=60.0,
    )


@in_one_test(
    ("key", "value"),
    [
        ("logging.enable-request-log", "yes"),
        ("logging.enable-probe-request-log", ""),
        ("metrics-protocol", "statsd"),
        ("metrics-export-interval", "30"),
        ("metrics-export-interval", "-1s"),
        ("runtime-profiling", "true"),
        ("runtime-export-interval", "soon"),
        ("tracing-protocol", "prometheus"),
        ("tracing-sampling-rate", "1.01"),
        ("tracing-sampling-rate", "-0.1"),
        ("tracing-sampling-rate", "nan"),
        ("tracing-sampling-rate", "1_0e-1"),
        ("tracing-sampling-rate", ""),
    ],
)
def test_a_wrong_value_is_named(key: str, value: str) -> None:
    with pytest.raises(ConfigMapError, match="accepted is") as caught:
        parse({key: value}, check_template)
    assert list(caught.value.problems) == [key]
    assert repr(value) in str(caught.value)


@pytest.mark.parametrize("what", ["metrics", "tracing"])
@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
def test_a_collector_needs_an_endpoint(what: str, protocol: str) -> None:
    problem = rf"{what}-endpoint: {what}-protocol is {protocol}, which needs an endpoint"
    with pytest.raises(ConfigMapError, match=problem):
        parse({f"{what}-protocol": protocol}, check_template)


@pytest.mark.parametrize(
    ("what", "protocol"),
    [
        *(("metrics", None), ("metrics", "none")),
        *(("tracing", None), ("tracing", "none"), ("tracing", "stdout")),
    ],
)
def test_an_endpoint_that_nothing_goes_to_means_nothing(what: str, protocol: str | None) -> None:
    """One word turns traces off, and the endpoint stays for the next time."""
    data = {f"{what}-endpoint": "collector:4317"}
    if protocol:
        data[f"{what}-protocol"] = protocol
    config = parse(data, check_template)
    sent = config.tracing if what == "tracing" else config.metrics
    assert (sent.protocol, sent.endpoint) == (protocol or "none", "")


@pytest.mark.parametrize("what", ["metrics", "tracing"])
def test_an_unknown_protocol_is_one_mistake_and_its_endpoint_none(what: str) -> None:
    data = {f"{what}-protocol": "zipkin", f"{what}-endpoint": "http://zipkin:9411"}
    with pytest.raises(ConfigMapError) as caught:
        parse(data, check_template)
    assert list(caught.value.problems) == [f"{what}-protocol"]


def test_prometheus_may_name_an_address_to_listen_on() -> None:
    for endpoint in ("", ":9090", "0.0.0.0:9090", "[::]:9090"):
        assert config(metrics_protocol="prometheus", metrics_endpoint=endpoint).metrics == (
            MetricsConfig("prometheus", endpoint)
        )
    with pytest.raises(ConfigMapError, match="accepted is HOST:PORT"):
        config(metrics_protocol="prometheus", metrics_endpoint="9090")


def test_sampling_rates() -> None:
    rates = {"0": 0.0, "1": 1.0, "0.5": 0.5, ".1": 0.1, "1e-3": 0.001, "1.": 1.0}
    for text, rate in rates.items():
        assert config(tracing_sampling_rate=text).tracing.sampling_rate == rate


def test_a_wrong_template_or_none_at_all_keeps_the_request_log_as_it_was() -> None:
    followed = Followed(
        "config-observability", observability_reader(check_template), ObservabilityConfig()
    )
    followed.update(
        {"logging.enable-request-log": "true", "logging.request-log-template": "{{.TraceID}}"}
    )
    before = followed.value.request_log
    followed.update({"logging.request-log-template": "{{}}", "runtime-profiling": "enabled"})
    assert followed.value.request_log == before == RequestLogConfig(True, "{{.TraceID}}")
    assert followed.value.profiling
    assert followed.problems == {
        "logging.request-log-template": (
            "'{{}}' cannot be used: 1:3: missing value for command; "
            "the previous template stays in force"
        )
    }
    followed.update({"logging.enable-request-log": "false"})
    followed.update({"logging.enable-request-log": "true", "logging.request-log-template": ""})
    assert not followed.value.request_log.enabled
    assert followed.problems == {
        "logging.request-log-template": (
            "logging.enable-request-log is true, but this is empty; the request log stays off"
        )
    }


def test_an_empty_template_turns_nothing_on() -> None:
    data = {"logging.request-log-template": ""}
    assert parse(data, check_template).request_log == RequestLogConfig(False, "")
