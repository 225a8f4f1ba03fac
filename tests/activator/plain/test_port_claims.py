"""The Service that has a port, if slices of several Services store it."""

from __future__ import annotations

from random import Random

import pytest

from activator.plain.hosts import HostClaim, HostClaims

OLD, YOUNG = HostClaim("2026-01", "shop/old"), HostClaim("2026-02", "shop/young")


def test_the_older_slice_has_the_port() -> None:
    ports: HostClaims[str] = HostClaims()
    ports.put(YOUNG, ["10000"], "young")
    assert ports.winner("10000") == "young"
    ports.put(OLD, ["10000"], "old")
    assert (ports.winner("10000"), set(ports.claimants("10000"))) == ("old", {"young", "old"})
    assert (ports.conflicts(OLD), ports.conflicts(YOUNG)) == ({}, {"10000": "shop/old"})
    ports.put(OLD, ["10001"], "old")
    assert (ports.winner("10000"), ports.winner("10001")) == ("young", "old")


@pytest.mark.parametrize("seed", range(10))
def test_each_port_has_one_service_whatever_happens(seed: int) -> None:
    chance = Random(seed)
    ports: HostClaims[str] = HostClaims()
    claims: dict[str, tuple[HostClaim, str]] = {}
    for _ in range(100):
        name, port = chance.choice("abcd"), chance.choice("012")
        if name in claims:
            ports.remove(claims[name][0])
        claims[name] = HostClaim(chance.choice("12"), name), port
        if port != "0":
            ports.put(claims[name][0], [port], name)
        for port in "12":
            rivals = [claim for claim, claimed in claims.values() if claimed == port]
            assert ports.winner(port) == (min(rivals).name if rivals else None)
    for claim, _ in claims.values():
        ports.remove(claim)
    assert not any(vars(ports).values())  # nothing is left
