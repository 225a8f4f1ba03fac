"""The pods that an EndpointSlice of a plain Service lists, and their conditions."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from activator.objects.fields import ManifestError
from activator.plain.slices import Condition, ListedPod, Slice, join, parse
from tests.activator.objects.test_fields import json_values
from tests.rows import in_one_test


def obj(*endpoints: Any, ports: Any = None, family: str = "IPv4", **labels: str) -> Any:
    """Return an EndpointSlice of the Service hello."""
    names = {"kubernetes.io/service-name": "hello"} | labels
    return {
        "metadata": {"name": "hello-1", "namespace": "shop", "labels": names},
        "addressType": family,
        "ports": [{"name": "http", "port": 8080}] if ports is None else ports,
        "endpoints": list(endpoints),
    }


def endpoint(ip: str = "10.0.0.1", uid: str = "u1", **conditions: bool) -> Any:
    """Return an endpoint with these conditions."""
    return {"addresses": [ip], "conditions": conditions, "targetRef": {"uid": uid}}


@in_one_test(
    ("conditions", "expected"),
    [
        ({"ready": True, "serving": True, "terminating": False}, Condition.READY),
        ({"ready": False, "serving": False, "terminating": False}, Condition.NOT_READY),
        ({"ready": False, "serving": True, "terminating": True}, Condition.DRAINING),
        ({"ready": False, "serving": False, "terminating": True}, Condition.ENDING),
        # publishNotReadyAddresses
        ({"ready": True, "serving": True, "terminating": True}, Condition.DRAINING),
        ({"ready": True, "serving": False, "terminating": True}, Condition.ENDING),
        # written by others: what is absent
        ({}, Condition.READY),
        ({"ready": False}, Condition.NOT_READY),
        ({"terminating": True}, Condition.DRAINING),
    ],
)
def test_conditions(conditions: dict[str, Any], expected: Condition) -> None:
    found = parse(obj(endpoint(**conditions)))
    assert found == Slice("hello", False, {"http": 8080}, (ListedPod("10.0.0.1", "u1", expected),))


@pytest.mark.parametrize(
    "foreign",
    [
        obj(**{"kubernetes.io/service-name": ""}),
        obj(**{"endpointslice.kubernetes.io/managed-by": "activator.dev"}),
        obj(family="FQDN"),
    ],
    ids=["of no Service", "our own", "of names"],
)
def test_other_slices_are_left_alone(foreign: Any) -> None:
    assert parse(foreign) is None


@pytest.mark.parametrize("ports", [None, [], [{"name": "http"}]])
def test_a_slice_without_ports_has_none(ports: Any) -> None:
    found = parse({**obj(endpoint()), "ports": ports})
    assert found is not None
    assert found.ports == {}
    assert join([found], "http", ipv6=False) == {}


def test_a_nameless_port_has_the_empty_name() -> None:
    found = parse(obj(endpoint(), ports=[{"port": 80}]))
    assert found is not None
    assert list(join([found], "", ipv6=False)) == ["10.0.0.1:80"]


@in_one_test(
    "broken",
    [
        obj({"addresses": []}),
        obj({"addresses": ["nobody"]}),
        *(
            obj(endpoint(ip), family="IPv6" if ":" in ip else "IPv4")
            for ip in (
                "0.0.0.0",
                "169.254.1.1",
                "224.0.0.1",
                "239.1.2.3",
                "::",
                "fe80::1",
                "ff02::1",
            )
        ),
        *(obj(endpoint(f"::ffff:{ip}"), family="IPv6") for ip in ("0.0.0.0", "169.254.1.1")),
        obj(endpoint("0.0.0.0", ready=True, serving=True, terminating=False)),
        obj({"addresses": ["10.0.0.1"], "conditions": {"ready": "yes"}}),
        obj(endpoint(ready=True, serving=True, terminating=False) | {"zone": 7}),
        obj(ports=[{"port": 70000}]),
        obj(ports="http"),
    ],
)
def test_a_broken_field_is_an_error_that_names_it(broken: Any) -> None:
    with pytest.raises(ManifestError, match=r"^EndpointSlice shop/hello-1: (endpoints|ports)"):
        parse(broken)


@pytest.mark.parametrize("terminating", [False, True])
@pytest.mark.parametrize(
    ("fields", "zone"), [({"zone": "eu-1a"}, "eu-1a"), ({"zone": None}, ""), ({}, "")]
)
def test_the_zone_of_a_pod(fields: dict[str, Any], zone: str, terminating: bool) -> None:
    found = parse(obj(endpoint(ready=True, serving=True, terminating=terminating) | fields))
    assert found is not None
    assert [each.zone for each in found.endpoints] == [zone]


def test_a_loopback_address_is_that_of_a_local_pod() -> None:
    for ip, family in (("127.0.0.11", "IPv4"), ("::1", "IPv6"), ("fd00::1", "IPv6")):
        found = parse(obj(endpoint(ip), family=family))
        assert found is not None
        assert [each.ip for each in found.endpoints] == [ip]


def slice_of(*endpoints: ListedPod, ipv6: bool = False, port: int = 8080) -> Slice:
    return Slice("hello", ipv6, {"http": port}, endpoints)


READY, NOT_READY = Condition.READY, Condition.NOT_READY


def test_named_ports_differ_between_slices() -> None:
    old = slice_of(ListedPod("10.0.0.1", "a", READY), port=8080)
    new = slice_of(ListedPod("10.0.0.2", "b", READY), port=9090)
    assert list(join([old, new], "http", ipv6=False)) == ["10.0.0.1:8080", "10.0.0.2:9090"]
    assert join([old, new], "grpc", ipv6=False) == {}


@pytest.mark.parametrize("order", [1, -1])
def test_a_pod_that_moves_between_slices_counts_once_with_the_better_condition(order: int) -> None:
    both = [slice_of(ListedPod("10.0.0.1", "a", each)) for each in (NOT_READY, READY)]
    assert join(both[::order], "http", ipv6=False) == {
        "10.0.0.1:8080": ListedPod("10.0.0.1", "a", READY)
    }


@pytest.mark.parametrize("ipv6", [True, False])
def test_a_pod_with_two_addresses_is_one_pod(ipv6: bool) -> None:
    four = slice_of(ListedPod("10.0.0.1", "a", READY), ListedPod("10.0.0.2", "b", READY))
    six = slice_of(ListedPod("fd00::1", "a", READY), ListedPod("fd00::3", "c", READY), ipv6=True)
    found = join([four, six], "http", ipv6=ipv6)
    assert sorted(each.uid for each in found.values()) == ["a", "b", "c"]
    assert ("[fd00::1]:8080" in found) is ipv6


def test_the_other_family_serves_where_there_is_no_address_of_the_own() -> None:
    six = slice_of(ListedPod("fd00::1", "", READY), ipv6=True)
    assert list(join([six], "http", ipv6=False)) == ["[fd00::1]:8080"]


@given(json_values)
def test_any_value_is_read_or_refused(value: Any) -> None:
    for broken in (value, {**obj(), "endpoints": value}, {**obj(), "ports": value}):
        try:
            parse(broken)
        except ManifestError as error:
            text = str(error)
        else:
            text = "EndpointSlice"
        assert text.startswith("EndpointSlice")
