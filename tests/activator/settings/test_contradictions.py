"""Settings that are valid alone, and contradict each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from activator.settings.config import Settings, load
from activator.settings.setting import ConfigError
from tests.rows import in_one_test

NOWHERE = Path("/nowhere/resolv.conf")


def local(flags) -> Settings:
    return load("local", {"manifests": "/"} | flags, {}, resolv_conf=NOWHERE)


def test_two_listeners_on_one_port_are_refused():
    with pytest.raises(ConfigError, match="http_port and admin_port are both 8080"):
        local({"http_port": "8080"})
    with pytest.raises(ConfigError, match="h2c_port and metrics_port"):
        local({"h2c_port": "9000", "metrics_port": "9000"})
    with pytest.raises(ConfigError, match="h2c_port and admit_port"):
        local({"h2c_port": "9000", "admit_port": "9000"})


def test_one_port_on_two_addresses_and_two_free_ones_are_fine():
    local({"http_port": "8080", "bind": "127.0.0.1", "admin_bind": "127.0.0.2"})
    local({"http_port": "0", "h2c_port": "0", "metrics_port": "0", "admin_port": "0"})


def test_a_request_must_fit_into_the_budgets():
    with pytest.raises(ConfigError, match="larger than hold_bytes_per_revision"):
        local({"hold_bytes": "65MiB"})


def test_the_largest_headers_must_fit_into_what_is_kept_of_all():
    with pytest.raises(ConfigError, match="three quarters of unfinished_header_bytes"):
        local({"unfinished_header_bytes": "1MiB"})
    local({"unfinished_header_bytes": "1MiB", "max_header_bytes": "768KiB"})


@in_one_test(
    ("flags", "problem"),
    [
        ({"tls_min_version": "1.3", "tls_max_version": "1.2"}, "no version is left"),
        ({"metrics_tls_max_version": "1.2"}, "metrics_tls_min_version (1.3) is above"),
        ({"metrics_tls_cert": "a"}, "give both or neither"),
        ({"metrics_tls_key": "a"}, "give both or neither"),
        ({"metrics_tls_client_auth": "require"}, "need TLS on the metrics port"),
        ({"metrics_tls_client_ca_file": "a"}, "need TLS on the metrics port"),
        (
            {"metrics_tls_cert": "a", "metrics_tls_key": "b", "metrics_tls_client_auth": "require"},
            "is empty: give the certificate authorities",
        ),
        (
            {"metrics_tls_cert": "a", "metrics_tls_key": "b", "metrics_tls_client_ca_file": "c"},
            "set it to optional or require",
        ),
    ],
)
def test_tls_that_contradicts_itself_is_refused(flags, problem):
    with pytest.raises(ConfigError) as caught:
        local(flags)
    assert problem in str(caught.value)
