from __future__ import annotations

import pytest

from activator.scale.reports.load import ServiceName
from activator.scale.settings import SETTINGS, ScaleSettings, load
from activator.settings.setting import REQUIRED, ConfigError, Derived
from tests.rows import in_one_test

NAMESPACE = {"SYSTEM_NAMESPACE": "activator"}


def given(**environ: str) -> ScaleSettings:
    return load({}, {**NAMESPACE, **environ})


def test_only_the_namespace_must_be_given() -> None:
    settings = given()
    assert (settings.stat_port, settings.grpc_port) == (8080, 6000)
    assert (settings.metrics_port, settings.admin_port) == (9090, 8081)
    assert settings.bind == settings.admin_bind == "0.0.0.0"
    assert settings.activators == ServiceName("activator", "activator-service")
    assert settings.takeover_ports == range(10_000, 11_000)
    assert settings.pod_name
    with pytest.raises(ConfigError, match="system_namespace is missing"):
        load({}, {})


#: The Deployment of the KEDA HTTP add-on's scaler, as its chart has it.
ADD_ON = {
    "KEDA_HTTP_SCALER_TARGET_ADMIN_DEPLOYMENT": "keda-add-ons-http-interceptor",
    "KEDA_HTTP_SCALER_PORT": "9090",
    "KEDA_HTTP_SCALER_TARGET_ADMIN_NAMESPACE": "keda",
    "KEDA_HTTP_SCALER_TARGET_ADMIN_SERVICE": "keda-add-ons-http-interceptor-admin",
    "KEDA_HTTP_SCALER_TARGET_ADMIN_PORT": "9091",
    "KEDA_HTTP_SCALER_STREAM_INTERVAL_MS": "200",
    "OTEL_PROM_EXPORTER_ENABLED": "true",
    "OTEL_PROM_EXPORTER_PORT": "2223",
}


def test_the_variables_of_the_add_ons_scaler_are_sufficient() -> None:
    settings = load({}, ADD_ON)
    assert settings.dialect == ("keda",)
    assert settings.interceptors == ("keda", "keda-add-ons-http-interceptor-admin")
    assert (settings.interceptors_port, settings.queue_interval) == (9091, 0.5)
    assert (settings.grpc_port, settings.metrics_port) == (9090, 2223)
    assert (settings.stat_port, settings.system_namespace) == (8080, "keda")


def test_a_variable_of_this_program_wins_over_one_of_the_add_on() -> None:
    own = {"ACTIVATOR_GRPC_PORT": "7000", "ACTIVATOR_QUEUE_INTERVAL": "", "SYSTEM_NAMESPACE": "x"}
    tick = {"KEDA_HTTP_QUEUE_TICK_DURATION": "100ms", "OTEL_PROM_EXPORTER_PORT": ""}
    settings = load({"stat_port": "0"}, ADD_ON | tick | own)
    assert (settings.grpc_port, settings.metrics_port) == (7000, 2223)
    assert (settings.queue_interval, settings.system_namespace) == (0.1, "x")


def test_without_the_add_on_nothing_is_polled() -> None:
    settings = given(KEDA_HTTP_SCALER_TARGET_ADMIN_NAMESPACE="keda")
    assert (settings.dialect, settings.interceptors) == (("services",), None)


def test_a_flag_wins_over_its_variable() -> None:
    settings = load({"stat_port": "0"}, {**NAMESPACE, "ACTIVATOR_STAT_PORT": "1"})
    assert settings.stat_port == 0


def test_the_admin_address_follows_the_bind_address() -> None:
    assert given(ACTIVATOR_BIND="127.0.0.1").admin_bind == "127.0.0.1"


@in_one_test(
    ("variable", "value"),
    [
        ("ACTIVATOR_TAKEOVER_PORTS", "10000"),
        ("ACTIVATOR_TAKEOVER_PORTS", "20000-10000"),
        ("ACTIVATOR_TAKEOVER_PORTS", "80-1100"),
        ("ACTIVATOR_TAKEOVER_PORTS", "60000-70000"),
        ("ACTIVATOR_TAKEOVER_PORTS", "10000-10999x"),
        ("ACTIVATOR_ACTIVATORS", "activator-service"),
        ("ACTIVATOR_ACTIVATORS", "a/b/c"),
        ("ACTIVATOR_ACTIVATORS", "Shop/activator"),
        ("ACTIVATOR_STAT_PORT", "80x"),
        ("POD_NAME", "a/b"),
    ],
)
def test_a_wrong_value_is_named_with_its_source_and_the_accepted_form(
    variable: str, value: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        given(**{variable: value})
    (problem,) = caught.value.problems
    for part in (variable, repr(value), "accepted is"):
        assert part in problem


def test_two_equal_ports_are_refused_and_free_ones_are_not() -> None:
    with pytest.raises(ConfigError, match="grpc_port and metrics_port are both 7000"):
        given(ACTIVATOR_GRPC_PORT="7000", METRICS_PROMETHEUS_PORT="7000")
    assert given(ACTIVATOR_GRPC_PORT="0", METRICS_PROMETHEUS_PORT="0").grpc_port == 0


@pytest.mark.parametrize(
    "given_files", [{"CERT": "a"}, {"KEY": "a"}, {"CLIENT_CA": "a"}, {"KEY": "a", "CLIENT_CA": "b"}]
)
def test_half_of_a_certificate_is_refused(given_files: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="grpc_tls"):
        given(**{f"ACTIVATOR_GRPC_TLS_{name}": value for name, value in given_files.items()})


def test_each_setting_explains_itself() -> None:
    for row in SETTINGS:
        assert row.meaning.endswith(".")
        assert row.reason.endswith(".")
        default = row.default_of("scale")
        if default is not REQUIRED and not isinstance(default, Derived):
            row.kind.parse(default)
