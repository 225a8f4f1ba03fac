"""The ports of Services with route takeover: how each gets one, keeps it and loses it."""

from __future__ import annotations

import contextlib
import random
from math import inf

import pytest

from activator.scale.reasons import ScaleReason
from activator.scale.reports.load import Name
from activator.scale.takeover.ports import REST, PortClaim, Ports, PortsExhausted, PortShares

#: Every port that was released at 0 may be allotted again.
NOW = REST


def test_each_service_gets_a_port_and_keeps_it() -> None:
    ports = Ports(range(10, 20))
    assert [ports.allot(name, NOW) for name in ("a", "b", "a")] == [10, 11, 10]


def test_a_restart_keeps_all_ports() -> None:
    ports = Ports(range(10, 13))
    ports.put(PortClaim("2026", "a"), 11, 0)
    ports.put(PortClaim("2026", "b"), 5000, 0)
    assert (ports.of("a"), ports.of("b"), ports.of("c")) == (11, 5000, None)
    assert [ports.allot(name, NOW) for name in ("a", "b", "c", "d")] == [11, 5000, 10, 12]


def test_a_released_port_is_used_last() -> None:
    ports = Ports(range(10, 13))
    ports.allot("a", NOW)
    ports.remove("a", 0)
    assert [ports.allot(name, NOW) for name in ("b", "c", "d")] == [11, 12, 10]


def test_an_exhausted_range_is_an_error_that_says_what_to_do() -> None:
    ports = Ports(range(10, 12))
    ports.allot("a", NOW), ports.allot("b", NOW)
    with pytest.raises(PortsExhausted, match="all 2 ports from 10 to 11 are allotted; widen"):
        ports.allot("c", NOW)
    ports.remove("a", 0)
    assert ports.allot("c", NOW) == 10


def test_a_released_port_rests_before_another_service_gets_it() -> None:
    ports = Ports(range(10, 12))
    ports.allot("a", 0), ports.allot("b", 0)
    ports.remove("a", 100)
    with pytest.raises(PortsExhausted) as caught:
        ports.allot("c", 100 + REST - 0.1)
    assert caught.value.until == 100 + REST
    assert ports.allot("a", 101) == 10
    ports.remove("a", 102)
    assert ports.allot("c", 102 + REST) == 10


@pytest.mark.parametrize("order", [1, -1])
def test_of_two_slices_with_one_port_the_older_has_it(order: int) -> None:
    ports = Ports(range(10, 13))
    for claim in [PortClaim("2026-02", "young"), PortClaim("2026-01", "old")][::order]:
        ports.put(claim, 10, 0)
    assert (ports.of("old"), ports.of("young")) == (10, None)
    assert ports.contested() == [10]
    assert ports.allot("young", NOW, "2026-02") == 11
    assert ports.contested() == []


@pytest.mark.parametrize("seed", range(10))
def test_no_two_services_ever_have_one_port(seed: int) -> None:
    chance = random.Random(seed)
    ports, names = Ports(range(10, 16)), "abcdefgh"
    for _ in range(500):
        name = chance.choice(names)
        match chance.randrange(3):
            case 0:
                ports.remove(name, 0)
            case 1:
                ports.put(PortClaim(str(chance.randrange(4)), name), chance.randrange(8, 18), 0)
            case _:
                with contextlib.suppress(PortsExhausted):
                    assert ports.allot(name, NOW) == ports.of(name)
        used = [port for each in names if (port := ports.of(each)) is not None]
        assert len(used) == len(set(used))
    for each in names:
        ports.remove(each, 0)
    assert sorted(ports.allot(each, NOW) for each in names[:6]) == list(range(10, 16))


def test_the_claims_to_a_port_begin_with_the_one_that_wins() -> None:
    ports = Ports()
    old, young = PortClaim("2026-01-01T00:00:00Z", "b/b"), PortClaim("2026-01-02T00:00:00Z", "a/a")
    for claim in (young, old):
        ports.put(claim, 10_005, 0)
    assert ports.claims(10_005) == [old, young]
    assert ports.claims(10_006) == []


A, B = Name("shop", "a"), Name("shop", "b")


def reasons(shares: PortShares, name: Name) -> list[ScaleReason]:
    return [finding.reason for finding in shares.findings(name)]


def test_the_younger_of_two_slices_loses_the_port_until_that_is_settled() -> None:
    shares = PortShares(Ports())
    assert shares.put(B, "2026-02-01T00:00:00Z", 10_000, now=0.0) == []
    assert shares.put(A, "2026-01-01T00:00:00Z", 10_000, now=0.0) == [B]
    assert (shares.of(A), shares.of(B)) == (10_000, None)
    assert shares.allot(B, 0.0, "2026-02-01T00:00:00Z") == 10_001
    assert reasons(shares, A) == []
    assert reasons(shares, B) == [ScaleReason.PORT_CONFLICT]
    shares.remove_findings(B)
    assert reasons(shares, B) == []
    assert shares.of(B) == 10_001


def test_a_new_leader_finds_the_conflicts_that_the_slices_store() -> None:
    shares = PortShares(Ports())
    for name, created in ((A, "2026-01-01T00:00:00Z"), (B, "2026-02-01T00:00:00Z")):
        shares.put(name, created, 10_000, now=0.0)
    shares.clear_findings()
    assert reasons(shares, B) == []
    shares.note_conflicts()
    assert reasons(shares, B) == [ScaleReason.PORT_CONFLICT]


def test_a_service_lacks_a_port_until_one_is_released_and_has_rested() -> None:
    shares = PortShares(Ports(range(10_000, 10_001)))
    assert shares.allot(A, 0.0, "") == 10_000
    assert shares.allot(B, 0.0, "") is None
    assert reasons(shares, B) == [ScaleReason.PORTS_EXHAUSTED]
    assert shares.lacks_until(B) == inf
    assert shares.release(A, 1.0) == [B]
    assert shares.allot(B, 1.0, "") is None
    assert shares.lacks_until(B) == 1 + REST
    assert shares.allot(B, 1 + REST, "") == 10_000
    assert (shares.lacks_until(B), reasons(shares, B)) == (None, [])
