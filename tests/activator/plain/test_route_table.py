"""What the host, the path and the header fields of a request name."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cmp_to_key
from random import Random
from time import process_time
from urllib.parse import unquote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from activator.plain.route_table import (
    Fields,
    RouteClaim,
    RouteKey,
    RouteTable,
    keys_of,
    names_of_others,
)
from tests.rows import in_one_test
from throttler.request_policies import HeaderRule, RouteRule

OLD, NEW = RouteClaim("2026-01-01T00:00:00Z", "a/old"), RouteClaim("2026-01-02T00:00:00Z", "a/new")


def found(
    table: RouteTable[str], host: str, target: bytes = b"/", fields: Fields | None = None
) -> str | None:
    return table.find(host, target, lambda: fields or {})


def hosts(**claims: str) -> RouteTable[str]:
    """Return a table of Services by name, each with its hosts separated by blanks."""
    table = RouteTable[str]()
    for name, text in claims.items():
        table.put(RouteClaim("", name), [RouteRule(tuple(text.split()))], name)
    return table


def objects(*rules: tuple[str, RouteRule]) -> RouteTable[str]:
    """Return a table of objects of the KEDA HTTP add-on, each with one rule."""
    table = RouteTable[str]()
    for number, (name, rule) in enumerate(rules):
        table.put(RouteClaim(f"2026-01-01T00:00:{number:02}Z", f"ns/{name}", False), [rule], name)
    return table


@in_one_test(
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
    assert found(table, host) == service


@pytest.mark.parametrize("rule", [RouteRule(), RouteRule(("*",)), RouteRule(("",))])
def test_a_rule_for_any_host_comes_last(rule: RouteRule) -> None:
    table = objects(("any", rule), ("wide", RouteRule(("*.com",))))
    assert [found(table, host) for host in ("a.com", "a.org", "")] == ["wide", "any", "any"]


@in_one_test(
    ("target", "name"),
    [
        (b"/api", "api"),
        (b"/api/", "api"),
        (b"/api/x?y=/api/v2", "api"),
        (b"/api/v2/x", "v2"),
        (b"/a%70i", "api"),
        (b"/api%2Fv2", "v2"),
        (b"/apix", "rest"),
        (b"/", "rest"),
        (b"/other/api", "rest"),
        (b"http://shop.com/api/x", "api"),
        (b"http://shop.com", "rest"),
        (b"*", "rest"),
        (b"/\xff%ff", "rest"),
    ],
)
def test_the_longest_path_wins_by_whole_segments(target: bytes, name: str) -> None:
    table = objects(
        ("rest", RouteRule(("shop.com",))),
        ("api", RouteRule(("shop.com",), ("/api/",))),
        ("v2", RouteRule(("shop.com",), ("api/v2",))),
    )
    assert found(table, "shop.com", target) == name


BETA, ONE, TWO = HeaderRule(b"x-beta"), HeaderRule(b"x-v", b"1"), HeaderRule(b"x-v", b"2")


@in_one_test(
    ("fields", "name"),
    [
        ({}, "plain"),
        ({b"x-v": [b"1"]}, "one"),
        ({b"x-v": [b"2", b"1"]}, "one"),
        ({b"x-v": [b"1, 2"]}, "plain"),
        ({b"x-beta": [b""]}, "beta"),
        ({b"x-beta": [b"yes"], b"x-v": [b"1"]}, "both"),
        ({b"x-beta": [b"yes"], b"x-v": [b"2"]}, "beta"),
        ({b"x-other": [b"1"]}, "plain"),
    ],
)
def test_more_headers_and_then_more_values_win(fields: Fields, name: str) -> None:
    table = objects(
        ("plain", RouteRule(("shop.com",))),
        ("beta", RouteRule(("shop.com",), (), (BETA,))),
        ("one", RouteRule(("shop.com",), (), (ONE,))),
        ("both", RouteRule(("shop.com",), (), (BETA, ONE))),
    )
    assert found(table, "shop.com", b"/", fields) == name


def test_without_matching_headers_the_next_host_is_tried_but_no_shorter_path() -> None:
    table = objects(
        ("any", RouteRule()),
        ("root", RouteRule(("shop.com",))),
        ("api", RouteRule(("shop.com",), ("api",), (ONE,))),
    )
    assert found(table, "shop.com", b"/api/x") == "any"
    assert found(table, "shop.com", b"/api/x", {b"x-v": [b"1"]}) == "api"


def test_of_two_equal_objects_the_older_and_then_the_last_by_name_wins() -> None:
    table = RouteTable[str]()
    rule = RouteRule(("shop.com",), ("api",))
    for claim in (
        RouteClaim("2026-01-02T00:00:00Z", "z/z", False),
        RouteClaim("2026-01-01T00:00:00Z", "a/a", False),
        RouteClaim("2026-01-01T00:00:00Z", "a/ab", False),
    ):
        table.put(claim, [rule], claim.name)
    assert found(table, "shop.com", b"/api") == "a/ab"
    key = RouteKey("shop.com", "api")
    assert table.claimants(key) == ["a/ab", "a/a", "z/z"]
    assert table.conflicts(RouteClaim("2026-01-01T00:00:00Z", "a/a", False)) == {key: "a/ab"}


@pytest.mark.parametrize("order", [(OLD, NEW), (NEW, OLD)])
def test_the_older_of_two_services_has_the_host(order: Sequence[RouteClaim]) -> None:
    table = RouteTable[str]()
    for claim in order:
        table.put(claim, [RouteRule(("both.com", f"{claim.name[2:]}.com"))], claim.name)
    assert found(table, "both.com") == "a/old"
    assert table.conflicts(NEW) == {RouteKey("both.com"): "a/old"}
    assert table.conflicts(OLD) == {}
    table.remove(OLD)
    assert found(table, "both.com") == "a/new"
    assert table.conflicts(NEW) == {}
    assert (found(table, "old.com"), found(table, "new.com")) == (None, "a/new")


@pytest.mark.parametrize("host", ["new.a", "new.a.svc", "new.a.svc.cluster.local"])
def test_a_name_in_the_cluster_belongs_to_its_own_service(host: str) -> None:
    """An older Service must not take the requests of another one, perhaps of another namespace."""
    table = RouteTable[str]()
    table.put(OLD, [RouteRule((host, "*.a.svc.cluster.local"))], "a/old")
    assert found(table, host) == "a/old"  # as long as there is no such Service
    table.put(NEW, [RouteRule((host,))], "a/new")
    assert found(table, host) == "a/new"
    assert table.conflicts(OLD) == {RouteKey(host): "a/new"}
    table.remove(NEW)
    assert found(table, host) == "a/old"


def test_changed_rules_replace_the_earlier_ones() -> None:
    table = hosts(a="one.com two.com")
    table.put(RouteClaim("", "a"), [RouteRule(("two.com", "three.com"))], "a")
    assert [found(table, host) for host in ("one.com", "two.com", "three.com")] == [None, "a", "a"]


def test_only_a_host_with_one_rule_for_all_requests_is_exact() -> None:
    table = objects(
        ("a", RouteRule(("one.com", "*.wide.com"))),
        ("b", RouteRule(("paths.com",), ("api",))),
        ("c", RouteRule(("headers.com",), (), (BETA,))),
        ("d", RouteRule(("headers.com",))),
    )
    assert table.is_exact("one.com")
    for host in ("x.wide.com", "paths.com", "headers.com", "other.com"):
        assert not table.is_exact(host)


def test_a_key_is_shown_as_people_write_it() -> None:
    assert str(RouteKey("shop.com", "api", (BETA, ONE))) == (
        "shop.com/api with header x-beta and x-v: 1"
    )
    assert str(RouteKey("*")) == "*"


@pytest.mark.parametrize(
    ("host", "is_other"),
    [
        ("shop.ns", False),
        ("shop.ns.svc", False),
        ("shop.ns.svc.cluster.local", False),
        ("shop.example.com", False),
        ("pay.ns.svc.cluster.local", True),
        ("*.svc.cluster.local", True),
        ("*.local", True),
    ],
)
def test_names_of_other_services_are_found(host: str, is_other: bool) -> None:
    assert names_of_others([host], "ns/shop", "cluster.local") == [host] * is_other


# -- ports ---------------------------------------------------------------------------------------

PORT = RouteRule(("10000",))
ELDER, YOUNGER = RouteClaim("2026-01", "shop/old"), RouteClaim("2026-02", "shop/young")


def test_the_older_slice_has_the_port() -> None:
    ports: RouteTable[str] = RouteTable()
    ports.put(YOUNGER, [PORT], "young")
    assert ports.winner(RouteKey("10000")) == "young"
    ports.put(ELDER, [PORT], "old")
    assert (ports.winner(RouteKey("10000")), set(ports.claimants(RouteKey("10000")))) == (
        "old",
        {"young", "old"},
    )
    assert (ports.conflicts(ELDER), ports.conflicts(YOUNGER)) == (
        {},
        {RouteKey("10000"): "shop/old"},
    )
    ports.put(ELDER, [RouteRule(("10001",))], "old")
    assert (ports.winner(RouteKey("10000")), ports.winner(RouteKey("10001"))) == ("young", "old")


@in_one_test("seed", range(10))
def test_each_port_has_one_service_whatever_happens(seed: int) -> None:
    chance = Random(seed)
    ports: RouteTable[str] = RouteTable()
    claims: dict[str, tuple[RouteClaim, str]] = {}
    for _ in range(100):
        name, port = chance.choice("abcd"), chance.choice("012")
        if name in claims:
            ports.remove(claims[name][0])
        claims[name] = RouteClaim(chance.choice("12"), name), port
        if port != "0":
            ports.put(claims[name][0], [RouteRule((port,))], name)
        for port in "12":
            rivals = [claim for claim, claimed in claims.values() if claimed == port]
            assert ports.winner(RouteKey(port)) == (min(rivals).name if rivals else None)
    for claim, _ in claims.values():
        ports.remove(claim)
    assert not any(vars(ports).values())  # nothing is left


# -- against a plain search ------------------------------------------------------------------------

_PATHS = st.sampled_from(["", "a", "/a/", "a/b", "b", "a/b/c"])
_HOSTS = st.sampled_from(["x.y", "*.y", "*.x.y", "*", "y"])
_RULES = st.builds(
    RouteRule,
    st.lists(_HOSTS, max_size=2).map(tuple),
    st.lists(_PATHS, max_size=2).map(tuple),
    st.lists(st.sampled_from([BETA, ONE, TWO]), max_size=2, unique=True).map(tuple),
)
_CLAIMS = st.builds(
    RouteClaim, st.sampled_from(["1", "2"]), st.sampled_from(["n/a", "n/ab", "n/b"]), st.booleans()
)


def plainly(
    known: dict[RouteClaim, list[RouteRule]], host: str, target: bytes, fields: Fields
) -> RouteClaim | None:
    """Search all rules, by the words of the contract."""
    wildcards = [f"*.{host.split('.', n)[n]}" for n in range(1, host.count(".") + 1)]
    path = unquote(target.partition(b"?")[0].decode()).strip("/")

    def before(one: tuple[RouteKey, RouteClaim], other: tuple[RouteKey, RouteClaim]) -> int:
        first, second = (each[1].order(each[0]) for each in (one, other))
        return -1 if first < second else 1

    for wanted in (host, *wildcards, "*"):
        rows = [
            (key, claim)
            for claim, rules in known.items()
            for key in keys_of(rules)
            if key.host == wanted and f"{path}/".startswith(f"{key.path}/" if key.path else "")
        ]
        longest = max((len(key.path) for key, _ in rows), default=0)
        rows = [row for row in rows if len(row[0].path) == longest]
        for key, claim in sorted(rows, key=cmp_to_key(before)):
            if all(
                name in fields and (value is None or value in fields[name])
                for name, value in key.headers
            ):
                return claim
    return None


@settings(max_examples=300)
@given(
    st.lists(st.tuples(_CLAIMS, st.lists(_RULES, max_size=3)), max_size=6),
    st.sampled_from(["x.y", "q.x.y", "y", "z.y", "other"]),
    st.sampled_from([b"/", b"/a", b"/a/b/c/d", b"/%61/b", b"/b?x"]),
    st.sampled_from([{}, {b"x-v": [b"1"]}, {b"x-v": [b"2"], b"x-beta": [b""]}]),
)
def test_it_finds_what_a_plain_search_finds(
    steps: list[tuple[RouteClaim, list[RouteRule]]], host: str, target: bytes, fields: Fields
) -> None:
    table, known = RouteTable[RouteClaim](), dict[RouteClaim, list[RouteRule]]()
    for claim, rules in steps:
        known.pop(claim, None)
        if rules:
            table.put(claim, rules, claim)
            known[claim] = rules
        else:
            table.remove(claim)
    assert table.find(host, target, lambda: fields) == plainly(known, host, target, fields)
    for claim in known:
        table.remove(claim)
    assert table.find(host, target, lambda: fields) is None


# -- many ------------------------------------------------------------------------------------------


def table_of(count: int, rule: str) -> RouteTable[int]:
    table = RouteTable[int]()
    for n in range(count):
        name = b"x-%d" % n
        rules = {
            "host": RouteRule((f"{n}.com",)),
            "path": RouteRule(("one.com",), (f"api/{n}",)),
            "value": RouteRule(("one.com",), (), (HeaderRule(b"x-0", name),)),
            "name": RouteRule(("one.com",), (), (HeaderRule(name),)),
            "same": RouteRule(("one.com",)),
        }
        table.put(RouteClaim(str(n), "n/a"), [rules[rule]], n)
    return table


@pytest.mark.parametrize("rule", ["host", "path", "value", "name", "same"])
def test_5000_rules_cost_a_request_what_50_do(rule: str) -> None:
    def seconds(count: int) -> float:
        table = table_of(count, rule)
        fields = {b"x-0": [b"x-7"], b"accept": [b"*/*"]}

        def once() -> float:
            began = process_time()
            for _ in range(200):
                table.find("one.com", b"/api/7/x?y", lambda: fields)
            return process_time() - began

        return min(once() for _ in range(5))

    assert seconds(5000) < 4 * seconds(50)


@pytest.mark.parametrize("rule", ["host", "path", "value", "name", "same"])
def test_10000_rules_are_read_in_a_moment(rule: str) -> None:
    began = process_time()
    table_of(10_000, rule)
    assert process_time() - began < 5
