"""The EndpointSlice by which the activators take over a Service."""

from __future__ import annotations

from typing import Any

import pytest

from activator.plain.service import parse as parse_service
from activator.plain.slices import parse as parse_slice
from activator.scale.takeover import (
    MOST_ENDPOINTS,
    PROXY_LABEL,
    Activator,
    Family,
    slice_name,
    slice_object,
    stored,
)
from tests.activator.plain.objects import service

A, B = Activator("10.1.0.1", "node-1"), Activator("10.1.0.2", "")


def made(*activators: Activator, name: str = "http", **more: Any) -> Any:
    ports = [{"name": name, "port": 80, "targetPort": 8080}]
    found = parse_service(service({"route": "takeover"}, ports=ports))
    assert found is not None
    return slice_object(found, Family.IPV4, 10_007, activators, **more)


def test_the_slice_of_a_service_that_sleeps() -> None:
    conditions = {"ready": True, "serving": True, "terminating": False}
    assert made(B, A, A) == {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": "hello-activator",
            "namespace": "shop",
            "labels": {
                "kubernetes.io/service-name": "hello",
                "endpointslice.kubernetes.io/managed-by": "activator.dev",
            },
            "annotations": {"activator.dev/port": "10007"},
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Service", "name": "hello", "uid": "s1"}
            ],
        },
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 10_007, "protocol": "TCP"}],
        "endpoints": [
            {"addresses": ["10.1.0.1"], "conditions": conditions, "nodeName": "node-1"},
            {"addresses": ["10.1.0.2"], "conditions": conditions},
        ],
    }


def test_the_slice_of_a_service_that_is_awake_keeps_its_port() -> None:
    empty = made()
    assert empty["endpoints"] == []
    assert stored(empty).port == 10_007


def test_a_nameless_port_has_the_empty_name() -> None:
    assert made(name="")["ports"][0]["name"] == ""


def test_the_label_of_another_proxy_is_copied() -> None:
    assert made(proxy_label="cilium")["metadata"]["labels"][PROXY_LABEL] == "cilium"


def test_a_slice_has_no_more_endpoints_than_the_api_server_takes() -> None:
    many = [Activator(f"10.1.{n // 250}.{n % 250}", "") for n in range(MOST_ENDPOINTS + 5)]
    assert len(made(*many)["endpoints"]) == MOST_ENDPOINTS


def test_each_family_has_a_slice_of_its_own_and_no_name_is_too_long() -> None:
    names = {slice_name("x" * 300, family) for family in Family}
    assert len(names) == 2
    assert all(len(name) <= 253 for name in names)


def test_what_a_slice_stores_is_read_again() -> None:
    obj = made(A, B)
    obj["metadata"] |= {"resourceVersion": "5", "creationTimestamp": "2026-01-01T00:00:00Z"}
    assert stored(obj) == (
        *("hello", 10_007, {"10.1.0.1", "10.1.0.2"}, "5", "2026-01-01T00:00:00Z"),
    )


@pytest.mark.parametrize("text", [None, "", "0", "70000", "80a", "²", " 80"])
def test_a_wrong_stored_port_is_none(text: str | None) -> None:
    obj = made(A)
    obj["metadata"]["annotations"]["activator.dev/port"] = text
    assert stored(obj).port == 0


@pytest.mark.parametrize("endpoints", [None, []])
def test_an_empty_slice_may_come_back_without_the_list(endpoints: Any) -> None:
    assert stored({**made(A), "endpoints": endpoints}).addresses == frozenset()


def test_the_dialect_leaves_the_slice_alone() -> None:
    assert parse_slice(made(A)) is None
