"""Which Service a host names."""

from __future__ import annotations

import random
from random import Random

import pytest

from activator.plain.hosts import HostClaim, HostClaims

OLD, NEW = HostClaim("2026-01-01T00:00:00Z", "a/old"), HostClaim("2026-01-02T00:00:00Z", "a/new")


def hosts(**claims: str) -> HostClaims[str]:
    """Return a table of Services by name, each with its hosts separated by blanks."""
    table = HostClaims[str]()
    for name, text in claims.items():
        table.put(HostClaim("", name), text.split(), name)
    return table


@pytest.mark.parametrize(
    ("host", "service"),
    [
        ("shop.example.com", "exact"),
        ("SHOP.Example.COM.", "exact"),
        ("www.example.com", "wide"),
        ("a.b.example.com", "wide"),
        ("x.api.example.com", "longer"),
        ("api.example.com", "wide"),
        ("example.com", None),
        (".example.com", None),
        ("notexample.com", None),
        ("", None),
        (".", None),
        ("*.example.com", "wide"),
        ("a" * 300 + ".example.com", None),
    ],
)
def test_the_best_host_wins(host: str, service: str | None) -> None:
    table = hosts(wide="*.example.com", exact="shop.example.com", longer="*.api.example.com")
    assert table.find(host) == service


@pytest.mark.parametrize("order", [(OLD, NEW), (NEW, OLD)])
def test_the_older_of_two_services_has_the_host(order: tuple[HostClaim, HostClaim]) -> None:
    table = HostClaims[str]()
    for claim in order:
        table.put(claim, ["both.com", f"{claim.name[2:]}.com"], claim.name)
    assert table.find("both.com") == "a/old"
    assert table.conflicts(NEW) == {"both.com": "a/old"}
    assert table.conflicts(OLD) == {}
    table.remove(OLD)
    assert table.find("both.com") == "a/new"
    assert table.conflicts(NEW) == {}
    assert (table.find("old.com"), table.find("new.com")) == (None, "a/new")


@pytest.mark.parametrize("host", ["new.a", "new.a.svc", "new.a.svc.cluster.local"])
def test_a_name_in_the_cluster_belongs_to_its_own_service(host: str) -> None:
    """An older Service must not take the requests of another one, perhaps of another namespace."""
    table = HostClaims[str]()
    table.put(OLD, [host, "*.a.svc.cluster.local"], "a/old")
    assert table.find(host) == "a/old"  # as long as there is no such Service
    table.put(NEW, [host], "a/new")
    assert table.find(host) == "a/new"
    assert table.conflicts(OLD) == {host: "a/new"}
    assert table.conflicts(NEW) == {}
    table.remove(NEW)
    assert table.find(host) == "a/old"


def test_changed_hosts_replace_the_earlier_ones() -> None:
    table = hosts(a="one.com two.com")
    table.put(HostClaim("", "a"), ["two.com", "three.com"], "a")
    found = [table.find(host) for host in ("one.com", "two.com", "three.com")]
    assert found == [None, "a", "a"]


@pytest.mark.parametrize("seed", range(5))
def test_any_changes_leave_the_table_of_a_new_one(seed: int) -> None:
    chance = random.Random(seed)
    names = ["a.com", "*.a.com", "b.a.com", "*.b.a.com", "c.b.a.com"]
    table, model = HostClaims[str](), dict[HostClaim, list[str]]()
    for _ in range(300):
        claim = HostClaim(str(chance.randrange(3)), chance.choice("xyz"))
        if chance.random() < 0.3:
            table.remove(claim)
            model.pop(claim, None)
        else:
            model[claim] = chance.sample(names, chance.randrange(4))
            table.put(claim, model[claim], claim.name)
        fresh = HostClaims[str]()
        for each, of in model.items():
            fresh.put(each, of, each.name)
        asked = [*names, "x.c.b.a.com", "com"]
        assert [table.find(host) for host in asked] == [fresh.find(host) for host in asked]
        assert all(table.conflicts(each) == fresh.conflicts(each) for each in model)


ELDER, YOUNGER = HostClaim("2026-01", "shop/old"), HostClaim("2026-02", "shop/young")


def test_the_older_slice_has_the_port() -> None:
    ports: HostClaims[str] = HostClaims()
    ports.put(YOUNGER, ["10000"], "young")
    assert ports.winner("10000") == "young"
    ports.put(ELDER, ["10000"], "old")
    assert (ports.winner("10000"), set(ports.claimants("10000"))) == ("old", {"young", "old"})
    assert (ports.conflicts(ELDER), ports.conflicts(YOUNGER)) == ({}, {"10000": "shop/old"})
    ports.put(ELDER, ["10001"], "old")
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
