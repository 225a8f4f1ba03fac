"""The Service that has a port, if slices of several Services store it."""

from __future__ import annotations

from random import Random

import pytest

from activator.plain.allotments import PortClaims


def test_the_older_slice_has_the_port() -> None:
    ports: PortClaims[str] = PortClaims()
    assert ports.put("young", ("2026-02", "shop/young"), 10_000) == set()
    assert ports.granted("young") == 10_000
    assert ports.put("old", ("2026-01", "shop/old"), 10_000) == {"young"}
    assert (ports.granted("old"), ports.refused("old")) == (10_000, (0, ""))
    assert (ports.granted("young"), ports.refused("young")) == (0, (10_000, "shop/old"))
    assert ports.put("old", ("2026-01", "shop/old"), 10_001) == {"young"}
    assert (ports.granted("young"), ports.granted("old")) == (10_000, 10_001)


@pytest.mark.parametrize("seed", range(10))
def test_each_port_has_one_service_whatever_happens(seed: int) -> None:
    chance = Random(seed)
    ports: PortClaims[str] = PortClaims()
    claims: dict[str, tuple[tuple[str, str], int]] = {}
    for _ in range(100):
        name, port = chance.choice("abcd"), chance.choice((0, 1, 2))
        claims[name] = (chance.choice("12"), name), port
        ports.put(name, *claims[name])
        for port in (1, 2):
            rivals = [age for age, claimed in claims.values() if claimed == port]
            having = [name for name in claims if ports.granted(name) == port]
            assert having == ([min(rivals)[1]] if rivals else [])
    for name in claims:
        ports.put(name, ("", name), 0)
    assert not any(vars(ports).values())  # nothing is left
