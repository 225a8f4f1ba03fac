"""The slices that the scaler writes, and the requests that write them."""

from __future__ import annotations

from typing import Any

import pytest

from activator.objects.fields import root
from activator.plain.service import PROXY_LABEL
from activator.plain.service import parse as parse_service
from activator.plain.slices import parse as parse_slice
from activator.scale.reports.load import ServiceName
from activator.scale.takeover.slices import (
    MOST_ENDPOINTS,
    ActivatorAddress,
    Leave,
    SliceFamily,
    Stored,
    key_of,
    name_parts,
    slice_name,
    slice_object,
    stored,
    write_of,
)
from tests.activator.plain.objects import service

A, B = ActivatorAddress("10.1.0.1", "node-1"), ActivatorAddress("10.1.0.2", "")


def made(*activators: ActivatorAddress, name: str = "http", labels: Any = None) -> Any:
    ports = [{"name": name, "port": 80, "targetPort": 8080}]
    obj = service({"route": "takeover"}, ports=ports)
    obj["metadata"]["labels"] = labels
    found = parse_service(obj)
    assert found is not None
    return slice_object(found, SliceFamily.IPV4, 10_007, activators)


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
    assert made(labels={PROXY_LABEL: "cilium"})["metadata"]["labels"][PROXY_LABEL] == "cilium"


def test_a_slice_has_no_more_endpoints_than_the_api_server_takes() -> None:
    many = [ActivatorAddress(f"10.1.{n // 250}.{n % 250}", "") for n in range(MOST_ENDPOINTS + 5)]
    assert len(made(*many)["endpoints"]) == MOST_ENDPOINTS


def test_each_family_has_a_slice_of_its_own_and_no_name_is_too_long() -> None:
    names = {slice_name("x" * 300, family) for family in SliceFamily}
    assert len(names) == 2
    assert all(len(name) <= 253 for name in names)


@pytest.mark.parametrize("name", ["hello", "a-activator", "b-activator-ipv6", "x-ipv6"])
@pytest.mark.parametrize("family", SliceFamily)
def test_the_name_of_a_slice_names_its_service_and_its_family(
    name: str, family: SliceFamily
) -> None:
    assert name_parts(slice_name(name, family)) == (name, family)


@pytest.mark.parametrize("name", ["", "hello", "hello-x7k2p", "-activator", "-activator-ipv6"])
def test_other_names_are_no_takeover_slices(name: str) -> None:
    assert name_parts(name) is None


def test_what_a_slice_stores_is_read_again() -> None:
    obj = made(A, B)
    content = stored(obj).content
    created = "2026-01-01T00:00:00Z"
    obj["metadata"] |= {"resourceVersion": "5", "creationTimestamp": created, "uid": "e1"}
    assert stored(obj) == (10_007, {"10.1.0.1", "10.1.0.2"}, "5", created, "e1", content)


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


KEY = key_of(ServiceName("shop", "hello"), SliceFamily.IPV4)


def wanted(*activators: ActivatorAddress) -> Any:
    found = parse_service(service({"route": "takeover"}))
    assert found is not None
    return slice_object(found, SliceFamily.IPV4, 10_007, activators)


def seen(obj: Any) -> Stored:
    metadata = obj["metadata"] | {"uid": "u1", "resourceVersion": "7"}
    return stored(root(obj | {"metadata": metadata}, "EndpointSlice").value)


EMPTY, FULL = wanted(), wanted(ActivatorAddress("10.1.0.1", "node-1"))


@pytest.mark.parametrize(
    ("present", "target", "method"),
    [
        (None, FULL, "POST"),
        (EMPTY, FULL, "PATCH"),
        (FULL, FULL, None),
        (FULL, Leave.ABSENT, "DELETE"),
        (None, Leave.ABSENT, None),
        (FULL, Leave.AS_IS, None),
        (None, Leave.AS_IS, None),
    ],
)
def test_a_slice_is_written_if_it_differs(present: Any, target: Any, method: str | None) -> None:
    write = write_of(KEY, present and seen(present), target)
    assert (write and write.request.method) == method
    if write is not None:
        assert write.key == KEY == ("shop", "hello-activator")
        assert (write.content is None) is (method == "DELETE")
