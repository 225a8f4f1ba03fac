"""The settings in the Deployment of the KEDA HTTP add-on's interceptor."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from activator.settings import setting
from activator.settings.config import SETTINGS, Settings, load
from activator.settings.setting import ConfigError

NOWHERE = Path("/nowhere/resolv.conf")

#: What the add-on's chart sets, version 0.16.
CHART = {
    "KEDA_HTTP_PROXY_PORT": "8080",
    "KEDA_HTTP_ADMIN_PORT": "9090",
    "KEDA_HTTP_MAX_IDLE_CONNS": "1000",
    "KEDA_HTTP_MAX_IDLE_CONNS_PER_HOST": "200",
    "KEDA_HTTP_DIRECT_POD_ROUTING": "true",
    "KEDA_HTTP_COLD_START_MAX_PENDING_REQUESTS": "0",
    "KEDA_HTTP_SHUTDOWN_DELAY": "5s",
    "KEDA_HTTP_DRAIN_TIMEOUT": "30s",
    "KEDA_HTTP_TLS_SKIP_VERIFY": "false",
}
#: What config/interceptor/deployment.yaml of version 0.12.1 sets.
OLD = {
    "KEDA_HTTP_CURRENT_NAMESPACE": "keda",
    "KEDA_HTTP_PROXY_PORT": "8080",
    "KEDA_HTTP_ADMIN_PORT": "9090",
    "KEDA_HTTP_CONNECT_TIMEOUT": "500ms",
    "KEDA_HTTP_KEEP_ALIVE": "1s",
    "KEDA_RESPONSE_HEADER_TIMEOUT": "500ms",
    "KEDA_CONDITION_WAIT_TIMEOUT": "20s",
    "KEDA_HTTP_ENDPOINTS_CACHE_POLLING_INTERVAL_MS": "1000",
    "KEDA_HTTP_FORCE_HTTP2": "false",
    "KEDA_HTTP_MAX_IDLE_CONNS": "100",
    "KEDA_HTTP_IDLE_CONN_TIMEOUT": "90s",
    "KEDA_HTTP_TLS_HANDSHAKE_TIMEOUT": "10s",
    "KEDA_HTTP_EXPECT_CONTINUE_TIMEOUT": "1s",
}


def run(more: Mapping[str, str] = {}, *, base: dict[str, str] = CHART, **flags: str) -> Settings:
    return load("run", flags, base | dict(more), resolv_conf=NOWHERE)


def test_the_charts_environment_alone_starts_run():
    settings = run()
    assert settings.dialect == ("keda",)
    ports = settings.http_port, settings.admin_port, settings.metrics_port, settings.https_port
    assert ports == (8080, 9090, 2223, 8443)
    assert settings.h2c_port is settings.profiling_port is None
    assert (settings.bind, settings.admin_bind, settings.metrics_bind) == ("0.0.0.0",) * 3
    assert (settings.lame_duck, settings.drain_timeout, settings.connect_timeout) == (5, 30, 0.5)
    assert settings.pod_name
    assert settings.pod_ip
    limits = settings.keda_readiness_timeout, settings.keda_request_timeout
    assert limits == (0, 0), "the add-on has no limit by default"
    assert settings.keda_response_header_timeout == 300
    assert settings.keda_cold_start_header
    assert (settings.autoscaler_url, settings.scaler_url) == ("", "")


def test_the_environment_of_0_12_starts_run_and_fits_its_grace_period_of_10_s():
    settings = run(base=OLD)
    assert settings.system_namespace == "keda"
    assert settings.keda_readiness_timeout == 20
    assert settings.keda_response_header_timeout == 0.5
    assert settings.max_idle_proxy_conns == 100
    assert settings.lame_duck + settings.drain_timeout < 9, "1 s is for the last responses"


def test_the_namespace_is_that_of_the_service_account(tmp_path, monkeypatch):
    file = tmp_path / "namespace"
    file.write_text("apps\n")
    monkeypatch.setattr(setting, "SERVICE_ACCOUNT_NAMESPACE", file)
    assert run().system_namespace == "apps"
    file.unlink()
    assert run().system_namespace == "keda"


@pytest.mark.parametrize("name", ["READINESS", "RESPONSE_HEADER"])
def test_an_old_name_wins_unless_it_is_zero(name):
    old = {"READINESS": "KEDA_CONDITION_WAIT_TIMEOUT"}.get(name, "KEDA_RESPONSE_HEADER_TIMEOUT")

    def seconds(**more: str) -> float:
        found = run({f"KEDA_HTTP_{name}_TIMEOUT": "3s", **more})
        return float(getattr(found, f"keda_{name.lower()}_timeout"))

    assert seconds() == 3
    assert seconds(**{old: "0s"}) == 3
    assert seconds(**{old: "1m"}) == 60
    assert seconds(**{old: "1m", f"ACTIVATOR_KEDA_{name}_TIMEOUT": "0s"}) == 0


def test_the_own_variable_and_the_flag_win():
    assert run({"ACTIVATOR_HTTP_PORT": "1234"}).http_port == 1234
    assert run({"ACTIVATOR_HTTP_PORT": "1234"}, http_port="99").http_port == 99
    assert run({"ACTIVATOR_LAME_DUCK": "1s"}).lame_duck == 1
    assert (
        run({"OTEL_PROM_EXPORTER_PORT": "3000", "METRICS_PROMETHEUS_PORT": "3001"}).metrics_port
        == 3001
    )
    assert run({"OTEL_PROM_EXPORTER_PORT": "3000"}).metrics_port == 3000


def test_zero_means_what_it_means_for_the_add_on():
    assert run({"KEDA_HTTP_DRAIN_TIMEOUT": "0"}).drain_timeout > 600, "until the grace period ends"
    assert run({"ACTIVATOR_DRAIN_TIMEOUT": "0"}).drain_timeout == 0
    assert run({"KEDA_HTTP_REQUEST_TIMEOUT": "0s"}).keda_request_timeout == 0
    assert run({"KEDA_HTTP_MAX_IDLE_CONNS_PER_HOST": "0"}).max_idle_proxy_conns_per_host == 2


def test_tls_variables_have_two_names():
    for name in ("KEDA_HTTP_TLS_MIN_VERSION", "KEDA_HTTP_PROXY_TLS_MIN_VERSION"):
        assert run({name: "1.3"}).tls_min_version == "1.3"
    assert run().tls_min_version == "1.2", "Go's default"


def test_a_wrong_value_names_the_variable_of_the_add_on():
    with pytest.raises(ConfigError, match="environment variable KEDA_HTTP_ADMIN_PORT"):
        run({"KEDA_HTTP_ADMIN_PORT": "many"})


def test_unknown_variables_of_the_add_on_are_ignored():
    assert run({"KEDA_HTTP_NEW": "x", "OTEL_NEW": "y"}) == run()


def test_the_dialect_alone_turns_the_variables_on():
    other = {"POD_NAME": "a", "POD_IP": "10.0.0.9", "SYSTEM_NAMESPACE": "k"}
    settings = run({**other, "ACTIVATOR_DIALECT": "knative"})
    assert (settings.http_port, settings.metrics_port) == (8012, 9090)
    both = run({"ACTIVATOR_DIALECT": "services,keda"})
    assert (both.http_port, both.metrics_port, both.dialect) == (8080, 2223, ("services", "keda"))
    own = load("run", {}, other | {"ACTIVATOR_DIALECT": "services,keda"}, resolv_conf=NOWHERE)
    assert (own.http_port, own.h2c_port, own.lame_duck) == (8012, 8013, 45)
    link = {"KEDA_HTTP_PROXY_PORT": "tcp://10.0.0.1:80"}  # a Service named keda-http-proxy
    assert load("run", {}, other | link, resolv_conf=NOWHERE).dialect == ("knative",)


def test_each_variable_of_the_add_on_belongs_to_one_setting():
    names = [name for row in SETTINGS for name in row.add_on.split()]
    assert len(set(names)) == len(names)
