"""Defaults that depend on the machine and on other settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from activator.settings.config import Settings, load

KNATIVE = {"POD_NAME": "activator-x", "POD_IP": "10.0.0.9", "SYSTEM_NAMESPACE": "knative-serving"}
NOWHERE = Path("/nowhere/resolv.conf")


def run(resolv_conf=NOWHERE, **environ) -> Settings:
    return load("run", {}, KNATIVE | environ, resolv_conf=resolv_conf)


@pytest.mark.parametrize(
    ("lines", "domain"),
    [
        ("search default.svc.example.org svc.example.org example.org\n", "example.org"),
        ("nameserver 10.0.0.1\nsearch svc.corp.\n", "corp"),
        ("search example.org\n", "cluster.local"),
        ("#search svc.no.org\n", "cluster.local"),
        ("search svc. svc.!! svc.b\n", "b"),
        ("", "cluster.local"),
        ("\udcff", "cluster.local"),
    ],
)
def test_the_cluster_domain_is_what_the_kubelet_wrote(tmp_path, lines, domain):
    path = tmp_path / "resolv.conf"
    path.write_bytes(lines.encode(errors="surrogateescape"))
    assert run(resolv_conf=path).cluster_domain == domain
    assert run(resolv_conf=path).autoscaler_url.endswith(f".svc.{domain}:8080")


def test_the_environment_names_the_domain_even_without_resolv_conf():
    assert run(CLUSTER_DOMAIN="corp.example.").cluster_domain == "corp.example"
