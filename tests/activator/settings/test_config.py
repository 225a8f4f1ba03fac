"""The program's settings: the table, its defaults, and refusals at start."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from activator.settings.config import SETTINGS, Settings, load, settings_of
from activator.settings.setting import COMMANDS, REQUIRED, ConfigError, Derived
from tests.activator.settings.reference import PAGE, written_page

KNATIVE = {"POD_NAME": "activator-x", "POD_IP": "10.0.0.9", "SYSTEM_NAMESPACE": "knative-serving"}
NOWHERE = Path("/nowhere/resolv.conf")


def run(flags=None, resolv_conf=NOWHERE, **environ) -> Settings:
    return load("run", flags or {}, KNATIVE | environ, resolv_conf=resolv_conf)


def local(flags=None, **environ) -> Settings:
    return load("local", {"manifests": "/"} | (flags or {}), environ, resolv_conf=NOWHERE)


def test_knatives_environment_alone_starts_run():
    settings = run()
    assert (settings.http_port, settings.h2c_port, settings.https_port) == (8012, 8013, 8112)
    assert (settings.admin_port, settings.metrics_port) == (8080, 9090)
    assert (settings.bind, settings.admin_bind) == ("0.0.0.0", "127.0.0.1")
    assert (settings.pod_name, settings.pod_ip) == ("activator-x", "10.0.0.9")
    assert (settings.probe_timeout, settings.probe_frequency) == (0.3, 0.2)
    assert (settings.lame_duck, settings.drain_timeout) == (45.0, 525.0)
    assert settings.autoscaler_url == "ws://autoscaler.knative-serving.svc.cluster.local:8080"
    assert settings.kubernetes_min_version == "v1.34.0"
    assert settings.manifests is None


def test_lame_duck_and_drain_end_within_the_pods_grace():
    assert run().lame_duck + run().drain_timeout < 600


def test_local_needs_only_a_folder(tmp_path):
    settings = load("local", {"manifests": str(tmp_path)}, {}, resolv_conf=NOWHERE)
    assert settings.manifests == tmp_path
    assert settings.pod_name
    assert settings.pod_ip == settings.bind == "0.0.0.0"
    assert settings.autoscaler_url == ""
    assert (settings.lame_duck, settings.drain_timeout) == (0.0, 30.0)


def test_demo_needs_nothing_and_stays_on_this_machine():
    settings = load("demo", {}, {}, resolv_conf=NOWHERE)
    assert (settings.bind, settings.admin_bind) == ("127.0.0.1", "127.0.0.1")
    assert settings.log_level == "warning", "its narration has each event already"
    asked = load("demo", {"log_level": "info"}, {}, resolv_conf=NOWHERE)
    assert asked.log_level == "info"


def test_status_ignores_what_only_servers_read():
    environ = {"ACTIVATOR_HTTP_PORT": "nonsense", "ACTIVATOR_ADMIN_URL": "http://127.0.0.1:1"}
    assert load("status", {}, environ).admin_url == "http://127.0.0.1:1"


@pytest.mark.parametrize(
    ("environ", "port"),
    [
        ({}, 8080),
        ({"ACTIVATOR_ADMIN_PORT": ""}, 8080),
        ({"KEDA_HTTP_ADMIN_PORT": "9090"}, 9090),
        ({"KEDA_HTTP_ADMIN_PORT": "0"}, 8080),
        ({"KEDA_HTTP_ADMIN_PORT": "http"}, 8080),
        ({"KEDA_HTTP_ADMIN_PORT": "99999"}, 8080),
        ({"KEDA_HTTP_ADMIN_PORT": "9090", "ACTIVATOR_ADMIN_PORT": "7070"}, 7070),
    ],
)
def test_a_command_in_the_pod_of_an_activator_asks_it(environ, port):
    assert load("status", {}, environ).admin_url == f"http://127.0.0.1:{port}"


def test_a_pod_with_an_ipv6_address_listens_on_both_families():
    base = {"POD_NAME": "a", "SYSTEM_NAMESPACE": "k", "POD_IP": "10.0.0.1"}
    for more, address in (
        ({}, "0.0.0.0"),
        ({"POD_IPS": "10.0.0.1"}, "0.0.0.0"),
        ({"POD_IPS": "10.0.0.1,fd00::1"}, "::"),
        ({"POD_IP": "fd00::1"}, "::"),
        ({"POD_IP": "fd00::1", "ACTIVATOR_BIND": "10.0.0.1"}, "10.0.0.1"),
    ):
        settings = load("run", {}, base | more, resolv_conf=NOWHERE)
        assert (settings.bind, settings.metrics_bind) == (address, address), more


def test_all_wrong_and_missing_settings_are_reported_at_once():
    environ = {"POD_IP": "here", "PROBE_TIMEOUT": "300", "POD_NAME": "a"}
    with pytest.raises(ConfigError) as caught:
        load("run", {"http_port": "80x"}, environ, resolv_conf=NOWHERE)
    starts = [problem.split(":")[0] for problem in caught.value.problems]
    assert starts == [
        "http_port (from flag --http-port)",
        "pod_ip (from environment variable POD_IP)",
        "system_namespace is missing",
        "probe_timeout (from environment variable PROBE_TIMEOUT)",
    ]


@pytest.mark.parametrize("port", ["1", "80", "1023", "65536"])
def test_the_metrics_port_is_free_or_unprivileged(port):
    assert run(METRICS_PROMETHEUS_PORT="0").metrics_port == 0
    with pytest.raises(ConfigError, match="METRICS_PROMETHEUS_PORT"):
        run(METRICS_PROMETHEUS_PORT=port)


def test_an_empty_autoscaler_url_turns_it_off():
    assert run(ACTIVATOR_AUTOSCALER_URL="").autoscaler_url == ""
    assert run({"autoscaler_url": ""}).autoscaler_url == ""


def test_settings_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        run().http_port = 1  # the assignment must fail: the class is frozen


def test_names_variables_and_flags_are_unique():
    for attribute in ("name", "variable", "flag"):
        found = [getattr(row, attribute) for row in SETTINGS]
        assert len(set(found)) == len(found)


def test_each_setting_explains_itself_and_belongs_to_a_command():
    for row in SETTINGS:
        assert row.meaning.endswith(".")
        assert row.reason.endswith(".")
        assert row.kind.accepts
        assert set(row.commands) <= set(COMMANDS)
        assert row.commands


@pytest.mark.parametrize("command", COMMANDS)
def test_written_defaults_are_values_of_their_setting(command):
    for row in settings_of(command):
        default = row.default_of(command)
        if default is not REQUIRED and not isinstance(default, Derived):
            row.kind.parse(default)


def test_the_reference_shows_these_very_tables():
    page = PAGE.read_text()
    assert written_page(page) == page, "python -m tests.activator.settings.reference"
