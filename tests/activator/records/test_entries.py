"""The records of each revision: found by name and host, bounded; nothing else stays in memory."""

from __future__ import annotations

from math import inf

import pytest

from activator.autoscaler.concurrency import ConcurrencyReporter, RevisionLoad
from activator.plain.route_table import RouteKey, RouteTable
from activator.proxy.message.request import RequestLimits, read_request
from activator.records.entries import (
    MOST_BYTES,
    MOST_RESPONSES,
    PACE,
    Entries,
    Failed,
    Failures,
    KeptResponse,
    KeptResponses,
    WakeLease,
    revision_from_host,
)
from tests.rows import in_one_test
from throttler.errors import RevisionNotFound
from throttler.model import Revision, RevisionID, RevisionKind, ServiceRoute
from throttler.reason import Reason
from throttler.request_policies import HeaderRule, RouteRule
from throttler.revision import RevisionThrottler
from throttler.throttler import Limits, Throttler

APP = RevisionID("default", "app")
HOST = b"app.default.svc.cluster.local"


class World:
    """A throttler's entries, and the loads that were made for them."""

    def __init__(self, cluster_domain: str = "cluster.local") -> None:
        self.loads: list[RevisionID] = []
        self.throttler = Throttler(Limits(), random=lambda: 0.0)
        self.entries = Entries(self.throttler, self.load, cluster_domain)

    def load(self, revision: RevisionID) -> RevisionLoad:
        self.loads.append(revision)
        return ConcurrencyReporter(lambda _: None).load(revision)

    def revise(self) -> RevisionThrottler:
        self.throttler.set_revision(Revision(APP), 0.0)
        return self.throttler.find(*APP)


def test_find_makes_one_entry_and_one_load_per_revision() -> None:
    world = World()
    revision = world.revise()
    entry = world.entries.find(b"default", b"app")
    assert entry.throttler is revision
    assert world.entries.find(b"default", b"app") is entry
    assert world.entries.find_host(HOST) is entry
    assert list(world.entries) == [entry]
    assert world.loads == [APP]


@pytest.mark.parametrize("name", [b"other", b"\xff\xfe", b""])
def test_unknown_revisions_are_not_found_and_leave_nothing_behind(name: bytes) -> None:
    world = World()
    with pytest.raises(RevisionNotFound):
        world.entries.find(b"default", name)
    with pytest.raises(RevisionNotFound):
        world.entries.find_host(name + b".default.svc.cluster.local")
    assert not world.entries
    assert not world.loads


@pytest.mark.parametrize(
    "host",
    [b"example.com", b"", b"app.default.svc", b"app.default.pod.cluster.local", b"\xff" * 300],
)
def test_host_that_names_no_revision_is_not_found_by_the_given_name(host: bytes) -> None:
    world = World()
    world.revise()
    with pytest.raises(RevisionNotFound, match="asked-for"):
        world.entries.find_host(host, b"asked-for")


def test_hosts_know_no_case_and_may_end_with_a_dot() -> None:
    world = World()
    world.revise()
    entry = world.entries.find(b"default", b"app")
    assert world.entries.find_host(HOST.upper()) is entry
    assert world.entries.find_host(HOST + b".") is entry
    assert world.entries.find_host(HOST.title() + b".:8012") is entry
    assert world.entries.kept_hosts == 0


def test_hosts_with_ports_are_understood_and_not_kept() -> None:
    world = World()
    world.revise()
    entry = world.entries.find(b"default", b"app")
    for port in range(1000, 1100):
        assert world.entries.find_host(b"%b:%d" % (HOST, port)) is entry
    assert world.entries.kept_hosts == 0


def test_cluster_domain_is_the_one_that_is_set() -> None:
    world = World(cluster_domain="corp.test")
    world.revise()
    assert world.entries.find_host(b"app.default.svc.corp.test").throttler.revision.id == APP
    with pytest.raises(RevisionNotFound):
        world.entries.find_host(HOST)


def test_a_deleted_revision_is_removed_by_all_its_names() -> None:
    world = World()
    world.revise()
    before = world.entries.find_host(HOST)
    world.throttler.delete_revision(APP)
    assert world.entries.remove(APP)
    assert world.entries.known(APP) is None
    with pytest.raises(RevisionNotFound):
        world.entries.find_host(HOST)
    assert not world.entries.remove(APP)

    world.revise()
    assert world.entries.find_host(HOST) is not before


SERVICE = RevisionID("default", "app", RevisionKind.SERVICE)


class Plain(World):
    """A world with the hosts of plain Services."""

    def __init__(self) -> None:
        super().__init__()
        self.entries = Entries(self.throttler, self.load, "cluster.local", RouteTable[RevisionID]())

    def serve(self, *hosts: str, id: RevisionID = SERVICE, created: str = "2026-01-01") -> None:
        self.throttler.set_revision(Revision(id, behind_queue_proxy=False), 0.0)
        self.entries.set_route(id, ServiceRoute(created, (RouteRule(hosts),)))

    def host(self, host: bytes) -> RevisionID:
        return self.entries.find_host(host).throttler.revision.id


def test_each_rule_of_a_service_belongs_to_it_or_to_an_older_one() -> None:
    world, younger = Plain(), RevisionID("default", "new", RevisionKind.SERVICE)
    world.serve("a.example.com", "*.b.example.com")
    world.serve("a.example.com", "c.example.com", id=younger, created="2026-02-01")
    a, b, c = (RouteKey(f"{host}.example.com") for host in ("a", "*.b", "c"))
    assert world.entries.owners_of(younger) == {a: SERVICE, c: younger}
    assert world.entries.owners_of(SERVICE) == {a: SERVICE, b: SERVICE}
    world.entries.set_route(SERVICE, ServiceRoute())
    assert world.entries.owners_of(younger) == {a: younger, c: younger}


def test_the_text_for_an_unknown_host_is_not_knatives_where_services_are_read() -> None:
    with pytest.raises(RevisionNotFound) as caught:
        Plain().entries.find_host(b"typo.default")
    assert caught.value.host == "typo.default"


def test_path_and_fields_count_only_where_a_rule_asks_for_them() -> None:
    world, other = Plain(), RevisionID("default", "other", RevisionKind.HTTP_ROUTE)
    world.serve("a.example.com", "b.example.com")
    world.throttler.set_revision(Revision(other, behind_queue_proxy=False), 0.0)
    headers = (HeaderRule(b"x-v", b"1"),)
    rule = RouteRule(("a.example.com",), ("api",), headers)
    world.entries.set_route(other, ServiceRoute("2026-02-01", (rule,)))

    def find(host: bytes, *lines: bytes) -> RevisionID:
        head = b"GET /api/x HTTP/1.1\r\nHost: %b\r\n%b\r\n" % (host, b"".join(lines))
        request = read_request(head, RequestLimits())
        return world.entries.find_host(host, b"", request).throttler.revision.id

    assert find(b"a.example.com", b"X-V: 1\r\n") == other
    assert find(b"b.example.com", b"X-V: 1\r\n") == SERVICE
    assert world.entries.kept_hosts == 1, "the host without paths needs no search"
    with pytest.raises(RevisionNotFound):
        find(b"a.example.com", b"X-V: 2\r\n")  # no shorter path of that host is tried


def test_the_error_for_an_unknown_host_names_what_it_could_be() -> None:
    world = World()
    for kind in (RevisionKind.SERVICE, RevisionKind.HTTP_ROUTE):
        table = RouteTable[RevisionID]()
        entries = Entries(world.throttler, world.load, table=table, unknown=kind)
        with pytest.raises(RevisionNotFound) as caught:
            entries.find_host(b"typo.example.com:80")
        assert (caught.value.kind, caught.value.host) == (kind, "typo.example.com")


def test_a_service_is_found_by_its_name_and_its_hosts() -> None:
    world = Plain()
    world.serve("web.example.com", "*.shop.example.com")
    entry = world.entries.find_service(b"default/app")
    assert entry.throttler.revision.id == SERVICE
    assert world.entries.find_service(b"default/app") is entry
    for host in (b"web.example.com", b"WEB.example.com.:8080", b"a.b.shop.example.com"):
        assert world.entries.find_host(host) is entry
        assert world.entries.find_host(host) is entry
    with pytest.raises(RevisionNotFound):
        world.host(b"shop.example.com")
    assert list(world.entries) == [entry]
    assert world.entries.known(SERVICE) is entry
    assert world.entries.known(APP) is None


@pytest.mark.parametrize("name", [b"", b"/", b"app", b"default/", b"default/other", b"\xff/\xfe"])
def test_unknown_services_are_not_found_and_leave_nothing_behind(name: bytes) -> None:
    world = Plain()
    world.revise()
    with pytest.raises(RevisionNotFound):
        world.entries.find_service(name)
    assert not world.entries


def test_a_revision_and_a_service_with_one_name_have_an_entry_each() -> None:
    world = Plain()
    world.serve("app.default.svc.cluster.local", "app.default")
    assert world.host(HOST) == SERVICE
    world.revise()
    rule = RouteRule(("app.default", HOST.decode()))
    world.entries.set_route(SERVICE, ServiceRoute("2026-01-01", (rule,)))
    assert world.host(HOST) == APP, "the names of revisions come first"
    assert world.host(b"app.default") == SERVICE
    assert world.entries.find(b"default", b"app").throttler.revision.id == APP
    assert world.loads == [SERVICE, APP]


def test_invented_hosts_below_a_wildcard_take_no_memory() -> None:
    world = Plain()
    world.serve("*.example.com")
    for number in range(100):
        assert world.host(b"%d.example.com" % number) == SERVICE
    assert world.entries.kept_hosts == 0


def test_hosts_are_followed_live_and_the_older_service_has_them() -> None:
    world = Plain()
    younger = RevisionID("default", "younger", RevisionKind.SERVICE)
    world.serve("web.example.com", id=younger, created="2026-02-01")
    assert world.host(b"web.example.com") == younger
    world.serve("web.example.com")
    assert world.host(b"web.example.com") == SERVICE
    world.entries.set_route(SERVICE, ServiceRoute())
    assert world.host(b"web.example.com") == younger


def test_a_deleted_service_is_removed_by_all_its_names() -> None:
    world = Plain()
    world.serve("web.example.com")
    world.host(b"web.example.com")
    world.entries.find_service(b"default/app")
    world.throttler.delete_revision(SERVICE)
    assert world.entries.remove(SERVICE)
    with pytest.raises(RevisionNotFound):
        world.host(b"web.example.com")
    with pytest.raises(RevisionNotFound):
        world.entries.find_service(b"default/app")


def test_without_plain_services_routes_have_no_effect() -> None:
    world = World()
    world.entries.set_route(SERVICE, ServiceRoute("", (RouteRule(("web.example.com",)),)))
    with pytest.raises(RevisionNotFound):
        world.entries.find_host(b"web.example.com")


def failed(at: float, reason: Reason = Reason.UPSTREAM_FAILED) -> Failed:
    return Failed(at, 502, reason, f"at {at}")


def test_the_last_one_is_kept_and_all_are_counted_by_reason() -> None:
    failures = Failures()
    assert (failures.last, failures.by_reason) == (None, {})
    for one in (failed(1.0), failed(2.0, Reason.QUEUE_FULL), failed(3.0)):
        failures.record(one)
    assert failures.last == failed(3.0)
    assert failures.by_reason == {Reason.UPSTREAM_FAILED: 2, Reason.QUEUE_FULL: 1}


def test_the_first_is_logged_at_once_and_a_burst_once_a_second() -> None:
    failures = Failures()
    assert failures.record(failed(10.0)) == 1
    assert [failures.record(failed(10.0 + n / 1000)) for n in range(1, 500)] == [0] * 499
    assert failures.record(failed(10.0 + PACE)) == 500
    assert failures.record(failed(20.0)) == 1


def test_the_last_response_of_a_key_counts():
    kept = KeptResponses()
    assert kept.get(b"a") is None
    kept.put(b"a", KeptResponse(b"1", 1.0))
    kept.put(b"a", KeptResponse(b"22", 2.0))
    assert kept.get(b"a") == KeptResponse(b"22", 2.0)
    assert kept.size == 2


def test_the_oldest_leaves_for_a_new_one():
    kept = KeptResponses()
    for key in (b"a", b"b", b"c"):
        kept.put(key, KeptResponse(bytes(MOST_BYTES // 3), 0.0))
    kept.put(b"d", KeptResponse(bytes(MOST_BYTES // 2), 0.0))
    assert [kept.get(key) is None for key in (b"a", b"b", b"c", b"d")] == [True, True, False, False]
    assert kept.size <= MOST_BYTES


def test_a_response_beyond_the_limit_replaces_nothing_but_its_own():
    kept = KeptResponses()
    kept.put(b"a", KeptResponse(b"1", 0.0))
    kept.put(b"b", KeptResponse(b"2", 0.0))
    kept.put(b"a", KeptResponse(bytes(MOST_BYTES + 1), 0.0))
    assert kept.get(b"a") is None
    assert kept.get(b"b") is not None
    assert kept.size == 1


def test_the_number_of_responses_is_limited():
    kept = KeptResponses()
    for number in range(2 * MOST_RESPONSES):
        kept.put(b"%d" % number, KeptResponse(b"", 0.0))
    found = [kept.get(b"%d" % number) is not None for number in range(2 * MOST_RESPONSES)]
    assert found == [False] * MOST_RESPONSES + [True] * MOST_RESPONSES


def load_of(revision: RevisionID) -> RevisionLoad:
    return ConcurrencyReporter(lambda _: None).load(revision)


def test_a_lease_is_one_request_however_often_it_is_prolonged() -> None:
    load = load_of(RevisionID("default", "shop"))
    lease = WakeLease(load)
    assert [lease.keep(10.0 + n, float(n)) for n in range(5)] == [True, False, False, False, False]
    assert (load.in_flight, lease.seconds_left(4.0)) == (1, 10.0)
    assert lease.keep(30.0, 5.0)
    assert lease.on_time(14.0) == 30.0
    assert (lease.on_time(30.0), load.in_flight, lease.seconds_left(30.0)) == (inf, 0, 0.0)
    assert lease.on_time(31.0) == inf
    assert load.in_flight == 0


def test_the_autoscaler_sees_one_concurrent_request_until_the_lease_ends() -> None:
    pokes: list[RevisionID] = []
    reporter = ConcurrencyReporter(pokes.append)
    lease = WakeLease(reporter.load(RevisionID("default", "shop")))
    lease.keep(10.0, 0.0)
    assert pokes == [RevisionID("default", "shop")]
    reporter.report(1.0)
    assert [stat.concurrency for stat in reporter.report(2.0)] == [1.0]
    lease.on_time(10.0)
    reporter.report(10.0)
    assert [stat.concurrency for stat in reporter.report(11.0)] == [0.0]
    assert reporter.is_dormant()


def test_a_shorter_wait_does_not_shorten_a_lease() -> None:
    load = load_of(RevisionID("default", "shop"))
    lease = WakeLease(load)
    lease.keep(100.0, 0.0)
    assert not lease.keep(10.0, 0.0)
    assert lease.until == 100.0


def test_a_lease_begins_again_after_its_end() -> None:
    load = load_of(RevisionID("default", "shop"))
    lease = WakeLease(load)
    lease.keep(1.0, 0.0)
    lease.on_time(1.0)
    assert lease.keep(3.0, 2.0)
    assert load.in_flight == 1


@in_one_test(
    ("host", "found"),
    [
        ("hello.default.svc.cluster.local", ("default", "hello")),
        ("hello.default.svc.cluster.local:8012", ("default", "hello")),
        ("hello.default.svc.cluster.local:", ("default", "hello")),
        ("hello.default.svc", None),
        ("hello.default", None),
        ("", None),
        ("hello.default.pod.cluster.local", None),
        ("hello.default.svc.cluster.example", None),
        ("www.hello.default.svc.cluster.local", None),
        ("10.0.0.1:8012", None),
        ("[fd00::1]:8012", None),
    ],
)
def test_a_host_may_name_a_revision(host: str, found: tuple[str, str] | None) -> None:
    assert revision_from_host(host, "cluster.local") == (RevisionID(*found) if found else None)


def test_the_clusters_own_domain_counts() -> None:
    assert revision_from_host("a.b.svc.corp", "corp") == RevisionID("b", "a")
    assert revision_from_host("a.b.svc.cluster.local", "corp") is None
