from __future__ import annotations

import pytest

from activator.discovery.endpoints import (
    AddressFamily,
    EndpointsSource,
    PrivateEndpoints,
    choose,
    join_addresses,
    join_endpoints,
)
from tests.activator.discovery.recording import A
from throttler.model import AppProtocol, Endpoint, ListedEndpoints

HTTP1, H2C = AppProtocol.HTTP1, AppProtocol.H2C
AUTO, ENDPOINTS, SLICES = EndpointsSource.AUTO, EndpointsSource.ENDPOINTS, EndpointsSource.SLICES


def endpoints(*ready: str, not_ready: tuple[str, ...] = ()) -> dict[AppProtocol, ListedEndpoints]:
    found = ListedEndpoints(frozenset(map(Endpoint, ready)), frozenset(map(Endpoint, not_ready)))
    return {HTTP1: found, H2C: ListedEndpoints()}


def part(
    *ready: str, truncated: bool = False, family: AddressFamily = AddressFamily.IPV4
) -> PrivateEndpoints:
    return PrivateEndpoints(A, endpoints(*ready), truncated, family)


WHOLE, CUT, EMPTY = part("e"), part("e", truncated=True), part()
CUT_FOUR = part("s4", truncated=True)
FOUR, SIX = part("s4"), part("s6", family=AddressFamily.IPV6)
NO_FOUR, NO_SIX = part(), part(family=AddressFamily.IPV6)


@pytest.mark.parametrize(
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
    assert choose(endpoints, slices, source, AddressFamily.IPV4) == chosen


@pytest.mark.parametrize(
    ("family", "slices", "chosen"),
    [
        (AddressFamily.IPV4, [FOUR, SIX], [FOUR]),
        (AddressFamily.IPV6, [FOUR, SIX], [SIX]),
        (AddressFamily.IPV6, [FOUR], [FOUR]),
        (AddressFamily.IPV4, [SIX], [SIX]),
        # Kubernetes keeps an empty slice where a Service has no pods of a family.
        (AddressFamily.IPV4, [NO_FOUR, SIX], [NO_FOUR, SIX]),
        (AddressFamily.IPV6, [FOUR, NO_SIX], [FOUR, NO_SIX]),
    ],
)
def test_no_pod_counts_twice_for_its_two_addresses(
    family: AddressFamily, slices: list[PrivateEndpoints], chosen: list[PrivateEndpoints]
) -> None:
    assert choose([], slices, SLICES, family) == chosen


def test_joining_is_a_union_in_which_ready_wins() -> None:
    joined = join_endpoints(
        [endpoints("a", not_ready=("b",)), endpoints("b", not_ready=("c", "a"))]
    )
    assert joined == endpoints("a", "b", not_ready=("c",))
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
