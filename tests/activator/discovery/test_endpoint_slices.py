from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activator.discovery.endpoints import IpFamily, PrivateEndpoints, PublicEndpoints
from activator.discovery.endpoints import parse_slice as parse
from activator.objects.fields import ManifestError
from tests.activator.discovery.recording import A, slice_of
from tests.activator.discovery.test_endpoints import places, put
from tests.activator.objects.test_fields import json_values
from tests.rows import in_one_test
from throttler.model import AppProtocol, Endpoint, ListedEndpoints

HTTP1, H2C = AppProtocol.HTTP1, AppProtocol.H2C


def listed_of(obj: dict[str, Any], protocol: AppProtocol = HTTP1) -> ListedEndpoints:
    parsed = parse(obj)
    assert isinstance(parsed, PrivateEndpoints)
    assert parsed.revision_id == A
    return parsed.endpoints[protocol]


def addresses(dests: frozenset[Endpoint]) -> list[str]:
    return sorted(endpoint.address for endpoint in dests)


def with_conditions(conditions: Any, **more: Any) -> ListedEndpoints:
    obj = slice_of("10.0.0.1")
    obj["endpoints"][0] |= {"conditions": conditions, **more}
    return listed_of(obj)


READY, NOT_READY, GONE = "ready", "not ready", "gone"


@in_one_test(
    ("conditions", "state"),
    [
        ({"ready": True, "serving": True, "terminating": False}, READY),
        ({"ready": False, "serving": False, "terminating": False}, NOT_READY),
        ({"ready": False, "serving": True, "terminating": True}, GONE),
        ({"ready": False, "serving": False, "terminating": True}, GONE),
        # publishNotReadyAddresses makes a terminating pod "ready".
        ({"ready": True, "serving": True, "terminating": True}, GONE),
        # Unknown is ready, serving, and not terminating.
        ({"ready": None, "serving": None, "terminating": None}, READY),
        ({"ready": True}, READY),
        ({"ready": False}, NOT_READY),
        ({"terminating": True}, GONE),
        ({}, READY),
        (None, READY),
    ],
)
def test_conditions(conditions: Any, state: str) -> None:
    for more in ({}, {"targetRef": {"kind": "Pod", "uid": "u"}}):
        found = with_conditions(conditions, **more)
        assert addresses(found.ready) == (["10.0.0.1:8012"] if state is READY else [])
        assert addresses(found.not_ready) == (["10.0.0.1:8012"] if state is NOT_READY else [])


def test_ports_are_known_by_name() -> None:
    obj = slice_of("10.0.0.1", ports=[{"name": "http2", "port": 8013}, {"port": 9090}])
    assert listed_of(obj) == ListedEndpoints()
    assert addresses(listed_of(obj, H2C).ready) == ["10.0.0.1:8013"]


@pytest.mark.parametrize("ports", [None, [], [{"name": "http"}], [{"name": "http", "port": None}]])
def test_a_slice_without_a_port_number_has_no_pods(ports: Any) -> None:
    assert listed_of(slice_of("10.0.0.1", ports=ports)) == ListedEndpoints()


def test_ipv6_is_bracketed_and_distinguished() -> None:
    parsed = parse(slice_of("fd00::1", addressType="IPv6"))
    assert isinstance(parsed, PrivateEndpoints)
    assert addresses(parsed.endpoints[HTTP1].ready) == ["[fd00::1]:8012"]
    assert parsed.family is IpFamily.IPV6


def test_the_first_address_is_the_pods() -> None:
    obj = slice_of("10.0.0.1")
    obj["endpoints"][0]["addresses"].append("10.0.0.2")
    assert addresses(listed_of(obj).ready) == ["10.0.0.1:8012"]


def test_the_pods_uid_comes_along() -> None:
    obj = slice_of("10.0.0.1")
    obj["endpoints"][0]["targetRef"] = {"kind": "Pod", "name": "a-x", "uid": "u1"}
    assert listed_of(obj).ready == {Endpoint("10.0.0.1:8012", "u1")}


def test_a_slice_without_endpoints_has_no_pods() -> None:
    assert listed_of(slice_of(endpoints=None)) == ListedEndpoints()


def test_a_public_slice_is_the_ready_addresses_by_protocol() -> None:
    obj = slice_of(
        "10.1.0.1",
        "10.1.0.2",
        not_ready=("10.1.0.3",),
        terminating=("10.1.0.4",),
        service_type="Public",
    )
    assert parse(obj) == PublicEndpoints(
        A,
        {HTTP1: frozenset({"10.1.0.1", "10.1.0.2"}), H2C: frozenset()},
        family=IpFamily.IPV4,
        original=True,
    )


def test_other_slices_are_ignored_however_broken() -> None:
    obj = slice_of("nonsense")
    del obj["metadata"]["labels"]["serving.knative.dev/revisionUID"]
    assert parse(obj) is None
    assert parse({"metadata": {"name": "kubernetes-x"}, "endpoints": 5}) is None


@in_one_test(
    ("path", "value", "message"),
    [
        (("addressType",), "FQDN", "addressType: expected IPv4 or IPv6, got 'FQDN'"),
        (("addressType",), None, "addressType: expected IPv4 or IPv6, got nothing"),
        (("endpoints",), {}, "endpoints: expected a list, got an object"),
        (("endpoints", 0), "10.0.0.1", "endpoints[0]: expected an object, got '10.0.0.1'"),
        (
            ("endpoints", 0, "addresses"),
            [],
            "endpoints[0].addresses: expected at least one address, got a list",
        ),
        (
            ("endpoints", 0, "addresses"),
            None,
            "endpoints[0].addresses: expected at least one address, got nothing",
        ),
        (
            ("endpoints", 0, "addresses", 0),
            "pod",
            "endpoints[0].addresses[0]: expected an IP address, got 'pod'",
        ),
        (
            ("endpoints", 0, "conditions", "ready"),
            "yes",
            "endpoints[0].conditions.ready: expected true or false, got 'yes'",
        ),
        (
            ("endpoints", 0, "conditions", "terminating"),
            0,
            "endpoints[0].conditions.terminating: expected true or false, got 0",
        ),
        (
            ("endpoints", 0, "targetRef"),
            {"uid": 1},
            "endpoints[0].targetRef.uid: expected a string, got 1",
        ),
        (
            ("ports", 1, "port"),
            70000,
            "ports[1].port: expected an integer from 1 to 65535, got 70000",
        ),
    ],
)
def test_a_broken_field_is_named(path: tuple[Any, ...], value: Any, message: str) -> None:
    obj = slice_of("10.0.0.1", name="foo")
    obj["endpoints"][0]["targetRef"] = {"kind": "Pod", "uid": "u"}
    put(obj, path, value)
    with pytest.raises(ManifestError) as caught:
        parse(obj)
    assert str(caught.value) == f"EndpointSlice default/foo: {message}"


def test_a_private_slice_without_a_revision_is_an_error() -> None:
    obj = slice_of("10.0.0.1")
    del obj["metadata"]["labels"]["serving.knative.dev/revision"]
    with pytest.raises(ManifestError, match="expected a name, got nothing"):
        parse(obj)


def whole() -> dict[str, Any]:
    obj = slice_of("10.0.0.1", not_ready=("10.0.0.2",), terminating=("10.0.0.3",))
    obj["endpoints"][0]["targetRef"] = {"uid": "u"}
    return obj


@given(st.sampled_from(places(whole())), json_values, st.booleans())
@pytest.mark.untraced  # long when traced
def test_any_value_anywhere_gives_dests_or_the_typed_error(
    path: tuple[Any, ...], value: object, is_public: bool
) -> None:
    obj = copy.deepcopy(whole())
    if is_public:
        obj["metadata"]["labels"]["networking.internal.knative.dev/serviceType"] = "Public"
    put(obj, path, value)
    try:
        parsed = parse(obj)
    except ManifestError:
        return
    if isinstance(parsed, PrivateEndpoints):
        for dests in parsed.endpoints.values():
            assert not {d.address for d in dests.ready} & {d.address for d in dests.not_ready}
