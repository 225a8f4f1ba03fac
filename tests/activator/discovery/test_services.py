from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from activator.discovery.endpoints import parse_private_service as parse
from activator.objects.fields import ManifestError
from tests.activator.discovery.recording import service
from tests.activator.objects.test_fields import json_values
from throttler.model import AppProtocol

HTTP1, H2C = AppProtocol.HTTP1, AppProtocol.H2C


def test_a_service_is_its_cluster_ip_and_the_ports_of_each_protocol() -> None:
    assert parse(service()) == {HTTP1: "10.96.0.1:80", H2C: "10.96.0.1:81"}


def test_ports_are_known_by_their_names_and_not_by_what_is_behind_them() -> None:
    obj = service()
    obj["spec"]["ports"] = [
        {"name": "http-autoscaling", "port": 9090},
        {"name": "http2", "port": 8080, "targetPort": "any"},
        {"name": "http2", "port": 9999},
    ]
    assert parse(obj) == {H2C: "10.96.0.1:8080"}


def test_of_two_families_the_first_is_used() -> None:
    obj = service(cluster_ip="fd00::1")
    obj["spec"]["clusterIPs"] = ["fd00::1", "10.96.0.1"]
    assert parse(obj)[HTTP1] == "[fd00::1]:80"


@pytest.mark.parametrize("cluster_ip", ["None", "", None])
def test_a_service_without_a_cluster_ip_says_nothing(cluster_ip: Any) -> None:
    assert parse(service(cluster_ip=cluster_ip)) == {}


def test_a_service_without_a_port_of_a_known_name_says_nothing() -> None:
    obj = service()
    obj["spec"]["ports"] = [{"port": 80}]
    assert parse(obj) == {}


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"clusterIP": "none"}, "spec.clusterIP: expected an IP address, got 'none'"),
        ({"clusterIP": 5}, "spec.clusterIP: expected a string, got 5"),
        ({"ports": {}}, "spec.ports: expected a list, got an object"),
        (
            {"ports": [{"name": "http", "port": "80"}]},
            "spec.ports[0].port: expected an integer from 1 to 65535, got '80'",
        ),
    ],
)
def test_a_broken_field_is_named(spec: dict[str, Any], message: str) -> None:
    obj = service()
    obj["spec"] |= spec
    with pytest.raises(ManifestError) as caught:
        parse(obj)
    assert str(caught.value) == f"Service default/a-private: {message}"


@pytest.mark.untraced
@given(json_values)
def test_any_value_gives_addresses_or_the_typed_error(value: Any) -> None:
    for obj in (value, {"spec": value}, {"spec": {"clusterIP": "10.0.0.1", "ports": value}}):
        try:
            assert all(":" in address for address in parse(obj).values())
        except ManifestError:
            continue
