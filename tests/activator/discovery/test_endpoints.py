"""Tests."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activator.discovery import endpoints
from activator.discovery.endpoints import (
    EndpointsSource,
    IpFamily,
    PrivateEndpoints,
    PublicEndpoints,
    choose,
    join_addresses,
    join_endpoints,
)
from activator.objects.fields import ManifestError
from tests.activator.discovery.recording import A, private, public
from tests.activator.objects.test_fields import json_values
from tests.rows import in_one_test
from throttler.model import AppProtocol, Endpoint, ListedEndpoints

HTTP1, H2C = AppProtocol.HTTP1, AppProtocol.H2C


def listed_of(obj: dict[str, Any], protocol: AppProtocol = HTTP1) -> ListedEndpoints:
    parsed = endpoints.parse(obj)
    assert isinstance(parsed, PrivateEndpoints)
    return parsed.endpoints[protocol]


def test_ready_and_not_ready_addresses_are_kept_apart() -> None:
    found = listed_of(private("10.0.0.1", not_ready=("10.0.0.2",)))
    assert found == ListedEndpoints(
        ready=frozenset({Endpoint("10.0.0.1:8012")}),
        not_ready=frozenset({Endpoint("10.0.0.2:8012")}),
    )


def test_the_revision_is_named_by_the_label_and_not_by_the_object() -> None:
    parsed = endpoints.parse(private("10.0.0.1", of="a", name="whatever-x7f"))
    assert parsed is not None
    assert parsed.revision_id == A


def test_ipv6_is_bracketed() -> None:
    assert listed_of(private("fd00::1")).ready == {Endpoint("[fd00::1]:8012")}


def test_the_pods_uid_comes_along() -> None:
    obj = private("10.0.0.1")
    obj["subsets"][0]["addresses"][0]["targetRef"] = {"kind": "Pod", "uid": "u1"}
    assert listed_of(obj).ready == {Endpoint("10.0.0.1:8012", "u1")}


def test_each_protocol_sees_the_first_port_of_its_name_in_each_subset() -> None:
    obj = private("10.0.0.1")
    obj["subsets"][0]["ports"] = [
        {"name": "http2", "port": 8013},
        {"name": "http", "port": 8012},
        {"name": "http", "port": 9999},
    ]
    obj["subsets"].append({"addresses": [{"ip": "10.0.0.2"}], "ports": [{"port": 80}]})
    assert listed_of(obj).ready == {Endpoint("10.0.0.1:8012")}
    assert listed_of(obj, H2C).ready == {Endpoint("10.0.0.1:8013")}


def test_an_address_in_both_lists_is_ready_once() -> None:
    obj = private("10.0.0.1", "10.0.0.1", not_ready=("10.0.0.1",))
    assert listed_of(obj) == ListedEndpoints(ready=frozenset({Endpoint("10.0.0.1:8012")}))


def test_an_address_in_two_subsets_is_ready_if_it_is_in_one() -> None:
    obj = private(not_ready=("10.0.0.1",))
    obj["subsets"] += private("10.0.0.1")["subsets"]
    assert listed_of(obj) == ListedEndpoints(ready=frozenset({Endpoint("10.0.0.1:8012")}))


def test_no_subsets_are_no_pods() -> None:
    obj = private()
    obj["subsets"] = None
    assert listed_of(obj) == ListedEndpoints()


def test_public_endpoints_are_the_addresses_by_protocol() -> None:
    parsed = endpoints.parse(public("10.1.0.1", "10.1.0.2"))
    assert parsed == PublicEndpoints(
        A, {HTTP1: frozenset({"10.1.0.1", "10.1.0.2"}), H2C: frozenset()}
    )


def test_other_endpoints_are_ignored_however_broken() -> None:
    obj = private("nonsense")
    del obj["metadata"]["labels"]["serving.knative.dev/revisionUID"]
    assert endpoints.parse(obj) is None
    assert endpoints.parse({"metadata": {"name": "kubernetes"}, "subsets": 5}) is None


def test_truncation_is_seen() -> None:
    obj = private("10.0.0.1")
    obj["metadata"]["annotations"] = {"endpoints.kubernetes.io/over-capacity": "truncated"}
    parsed = endpoints.parse(obj)
    assert isinstance(parsed, PrivateEndpoints)
    assert parsed.truncated


@in_one_test(
    ("path", "value", "message"),
    [
        (("addresses", 0, "ip"), 5, r"subsets[0].addresses[0].ip: expected a string, got 5"),
        (("addresses", 0, "ip"), "pod", r"addresses[0].ip: expected an IP address, got 'pod'"),
        (("addresses", 0, "ip"), None, r"addresses[0].ip: expected an IP address, got nothing"),
        (("addresses", 0), "10.0.0.1", r"addresses[0]: expected an object, got '10.0.0.1'"),
        (("addresses", 0, "targetRef"), {"uid": 1}, r"[0].targetRef.uid: expected a string, got 1"),
        (("addresses",), {}, r"subsets[0].addresses: expected a list, got an object"),
        (("ports", 1, "port"), 70000, r"ports[1].port: expected an integer from 1 to 65535"),
        (("ports", 1, "port"), True, r"ports[1].port: expected an integer"),
        (("ports", 0, "name"), 1, r"ports[0].name: expected a string, got 1"),
    ],
)
def test_a_broken_field_is_named(path: tuple[Any, ...], value: Any, message: str) -> None:
    obj = private("10.0.0.1", name="foo")
    put(obj["subsets"][0], path, value)
    with pytest.raises(ManifestError) as caught:
        endpoints.parse(obj)
    assert str(caught.value).startswith("Endpoints default/foo: subsets[0].")
    assert message in str(caught.value)


def test_private_endpoints_without_a_revision_are_an_error() -> None:
    obj = private("10.0.0.1")
    del obj["metadata"]["labels"]["serving.knative.dev/revision"]
    with pytest.raises(ManifestError, match="expected a name, got nothing"):
        endpoints.parse(obj)


def put(obj: Any, path: tuple[Any, ...], value: Any) -> None:
    for step in path[:-1]:
        obj = obj[step]
    obj[path[-1]] = value


def places(obj: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Yield the path to every value inside an object."""
    steps = obj.items() if isinstance(obj, dict) else enumerate(obj) if type(obj) is list else ()
    return [p for step, inner in steps for p in ((*path, step), *places(inner, (*path, step)))]


def whole() -> dict[str, Any]:
    obj = private("10.0.0.1", not_ready=("fd00::1",))
    obj["subsets"][0]["addresses"][0]["targetRef"] = {"uid": "u"}
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
        parsed = endpoints.parse(obj)
    except ManifestError:
        return
    if isinstance(parsed, PrivateEndpoints):
        for dests in parsed.endpoints.values():
            ready = {endpoint.address for endpoint in dests.ready}
            assert not ready & {endpoint.address for endpoint in dests.not_ready}


HTTP1, H2C = AppProtocol.HTTP1, AppProtocol.H2C
AUTO, ENDPOINTS, SLICES = EndpointsSource.AUTO, EndpointsSource.ENDPOINTS, EndpointsSource.SLICES


def listed_by_endpoints(
    *ready: str, not_ready: tuple[str, ...] = ()
) -> dict[AppProtocol, ListedEndpoints]:
    found = ListedEndpoints(frozenset(map(Endpoint, ready)), frozenset(map(Endpoint, not_ready)))
    return {HTTP1: found, H2C: ListedEndpoints()}


def part(
    *ready: str, truncated: bool = False, family: IpFamily = IpFamily.IPV4
) -> PrivateEndpoints:
    return PrivateEndpoints(A, listed_by_endpoints(*ready), truncated, family)


WHOLE, CUT, EMPTY = part("e"), part("e", truncated=True), part()
CUT_FOUR = part("s4", truncated=True)
FOUR, SIX = part("s4"), part("s6", family=IpFamily.IPV6)
NO_FOUR, NO_SIX = part(), part(family=IpFamily.IPV6)


@in_one_test(
    ("source", "endpoints", "slices", "chosen"),
    [
        (AUTO, [WHOLE], [FOUR], [WHOLE]),
        (AUTO, [EMPTY], [FOUR], [EMPTY]),
        (AUTO, [CUT], [FOUR], [FOUR]),
        (AUTO, [WHOLE, CUT], [FOUR, FOUR], [FOUR, FOUR]),
        (AUTO, [CUT], [], [CUT]),
        (AUTO, [CUT], [CUT_FOUR], [CUT]),
        (AUTO, [], [CUT_FOUR], [CUT_FOUR]),
        (AUTO, [], [FOUR], [FOUR]),
        (AUTO, [], [], []),
        (ENDPOINTS, [CUT], [FOUR], [CUT]),
        (ENDPOINTS, [], [FOUR], []),
        (SLICES, [WHOLE], [FOUR], [FOUR]),
        (SLICES, [WHOLE], [], []),
    ],
)
def test_which_objects_count(
    source: EndpointsSource,
    endpoints: list[PrivateEndpoints],
    slices: list[PrivateEndpoints],
    chosen: list[PrivateEndpoints],
) -> None:
    assert choose(endpoints, slices, source, IpFamily.IPV4) == chosen


@pytest.mark.parametrize(
    ("family", "slices", "chosen"),
    [
        (IpFamily.IPV4, [FOUR, SIX], [FOUR]),
        (IpFamily.IPV6, [FOUR, SIX], [SIX]),
        (IpFamily.IPV6, [FOUR], [FOUR]),
        (IpFamily.IPV4, [SIX], [SIX]),
        # Kubernetes keeps an empty slice where a Service has no pods of a family.
        (IpFamily.IPV4, [NO_FOUR, SIX], [NO_FOUR, SIX]),
        (IpFamily.IPV6, [FOUR, NO_SIX], [FOUR, NO_SIX]),
    ],
)
def test_no_pod_counts_twice_for_its_two_addresses(
    family: IpFamily, slices: list[PrivateEndpoints], chosen: list[PrivateEndpoints]
) -> None:
    assert choose([], slices, SLICES, family) == chosen


def test_joining_is_a_union_in_which_ready_wins() -> None:
    joined = join_endpoints(
        [listed_by_endpoints("a", not_ready=("b",)), listed_by_endpoints("b", not_ready=("c", "a"))]
    )
    assert joined == listed_by_endpoints("a", "b", not_ready=("c",))
    assert join_endpoints([]) == {HTTP1: ListedEndpoints(), H2C: ListedEndpoints()}


def test_of_two_uids_under_one_address_always_the_same_is_taken() -> None:
    one, other = ({HTTP1: ListedEndpoints(frozenset({Endpoint("a", uid)}))} for uid in ("u1", "u2"))
    assert join_endpoints([one, other]) == join_endpoints([other, one])
    assert join_endpoints([one, other])[HTTP1].ready == {Endpoint("a", "u1")}


def test_joining_addresses_is_a_union() -> None:
    one = {HTTP1: frozenset({"a", "b"}), H2C: frozenset[str]()}
    other = {HTTP1: frozenset({"b", "c"}), H2C: frozenset({"d"})}
    assert join_addresses([one, other]) == {HTTP1: {"a", "b", "c"}, H2C: {"d"}}
    assert join_addresses([]) == {HTTP1: frozenset(), H2C: frozenset()}
