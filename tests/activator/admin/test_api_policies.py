"""Values of the API about policies and sources: queue, waiting clients, wake rules, ages."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from activator.admin.api import (
    MOST_AGENTS,
    authorization_view,
    autoscaler_view,
    flow_name,
    keep_awake_view,
    kept_awake_view,
    manifests_view,
    profile_view,
    queue_order_view,
    wake_rules_view,
    warnings_of,
    warnings_view,
    watches_view,
    while_waiting_view,
)
from activator.autoscaler.concurrency import ConcurrencyReporter
from activator.proxy.exchange.placement import bounded
from activator.records.counters import RevisionCounters
from activator.records.entries import Agents, Entry
from activator.records.source_status import (
    NO_SOURCE,
    FilesStatus,
    KindStatus,
    MissedEvents,
    ObjectWarning,
    SourceStatus,
    WatchCounters,
)
from tests.throttler.world import OWNER, One, revision
from throttler.model import FlowKey, Policies, QueueOrder, RevisionID, RevisionKind
from throttler.request_policies import (
    HIGH,
    LOW,
    Authorization,
    ConnectionPolicies,
    Profile,
    RequestPolicies,
    WaitMode,
    WakeRules,
    WhileWaiting,
)
from throttler.ticket import Ticket

FAIR = QueueOrder(fair_by=FlowKey(b"x-tenant"))


def queued(order: QueueOrder | None, *places: tuple[int, bytes]) -> One:
    """Return a revision with a queued request for each class and flow."""
    one = One()
    one.throttler.set_revision(replace(revision(), policies=Policies(order=order)), 0.0)
    for priority, flow in places:
        ticket = Ticket(OWNER, 60.0)
        ticket.priority, ticket.flow = priority, flow
        one.throttler.admit(ticket, 0.0)
    return one


def test_the_order_of_arrival_has_no_view() -> None:
    assert queue_order_view(queued(None).throttler) is None


def test_classes_are_counted() -> None:
    order = QueueOrder(has_classes=True, priority=LOW, trusts_header=True)
    one = queued(order, (HIGH, b""), (LOW, b""), (LOW, b""))
    assert queue_order_view(one.throttler) == {
        "priority": "low",
        "trustsHeader": True,
        "queuedByClass": {"high": 1, "normal": 0, "low": 2},
        "fairBy": None,
        "flows": 0,
        "largestFlows": [],
    }


def test_the_five_largest_flows_are_shown() -> None:
    flows = [(1, b"%c" % letter) for letter in b"abcdefgg"]
    order = replace(FAIR, shows_names=True)
    view = queue_order_view(queued(order, *flows).throttler)
    assert view is not None
    assert (view["fairBy"], view["flows"]) == ("header:x-tenant", 7)
    assert [(each["flow"], each["queued"]) for each in view["largestFlows"]] == [
        *(("g", 2), ("a", 1), ("b", 1), ("c", 1), ("d", 1)),
    ]


def test_names_are_hashed_unless_an_annotation_shows_them() -> None:
    view = queue_order_view(queued(FAIR, (1, b"secret")).throttler)
    assert "secret" not in str(view)
    hashed = {flow_name(b"secret", FAIR, salt) for salt in (b"", b"uid-1", b"uid-2")}
    assert len(hashed) == 3, "two revisions have different hashes"
    assert {len(each) for each in hashed} == {12}


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (b"", "(none)"),
        (b"\xff", "\ufffd"),
        (200 * b"a", 64 * "a"),
    ],
)
def test_odd_names(name: bytes, shown: str) -> None:
    assert flow_name(name, replace(FAIR, shows_names=True), b"") == shown


def test_a_name_that_cannot_be_printed_is_hashed() -> None:
    shows = replace(FAIR, shows_names=True)
    for name in (bounded(300 * b"a"), b"a\tb"):
        assert flow_name(name, shows, b"uid") == flow_name(name, FAIR, b"uid")


WAITING = WhileWaiting((WaitMode.PAGE, WaitMode.REFUSE), page_template="shop.html")


def test_nothing_without_the_annotation() -> None:
    assert while_waiting_view(One().throttler, None, 0.0) is None


def test_modes_and_the_lease_of_a_revision() -> None:
    throttler = One().throttler
    spec = replace(revision(), policies=Policies(requests=RequestPolicies(waiting=WAITING)))
    throttler.set_revision(spec, 0.0)
    load = ConcurrencyReporter(lambda _: None).load(throttler.revision.id)
    entry = Entry(throttler, RevisionCounters(), load)
    entry.counters.waiting["page"] = 0
    entry.counters.early_heads = 3
    entry.lease.keep(12.34, 0.0)
    assert while_waiting_view(throttler, entry, 2.0) == {
        "modes": ["page", "refuse"],
        "pageAfterSeconds": 1.0,
        "pageTemplate": "shop.html",
        "heartbeatSeconds": 15.0,
        "earlyHeads": 3,
        "queuedByMode": {"hold": 0, "page": 0, "heartbeat": 0, "refuse": 0},
        "leaseSeconds": 10.3,
    }
    before = while_waiting_view(throttler, None, 0.0)
    assert before is not None
    assert before["leaseSeconds"] == 0.0


@pytest.mark.parametrize(
    ("connections", "shown"),
    [
        (None, None),
        (ConnectionPolicies(), "connections"),
        (ConnectionPolicies(by_bytes=True), "bytes"),
    ],
)
def test_the_connections_that_are_load(
    connections: ConnectionPolicies | None, shown: str | None
) -> None:
    policies = Policies(connections=connections)
    assert keep_awake_view(replace(revision(), policies=policies)) == shown


def test_profile_and_limit_of_the_wait() -> None:
    throttler = One().throttler
    assert profile_view(throttler) == {"profile": None, "waitSeconds": None}
    for requests, profile, seconds in (
        (RequestPolicies(profile=Profile.OPENAI), "openai", None),
        (RequestPolicies(wait_seconds=600.0), None, 600.0),
    ):
        throttler.set_revision(replace(revision(), policies=Policies(requests=requests)), 0.0)
        assert profile_view(throttler) == {"profile": profile, "waitSeconds": seconds}


def test_without_annotations_there_is_nothing() -> None:
    bare = replace(revision(), policies=Policies(requests=RequestPolicies(wait_seconds=5)))
    for each in (revision(), bare):
        assert wake_rules_view(each) is None
        assert authorization_view(each) is None


def test_the_annotations_are_shown_without_secrets() -> None:
    wake = WakeRules(not_user_agents=(b"prometheus",), asleep_status=200)
    server = Authorization("https://auth/check?token=secret", always=True, cache_seconds=5)
    policies = Policies(requests=RequestPolicies(wake=wake, authorization=server))
    annotated = replace(revision(), policies=policies)
    assert wake_rules_view(annotated) == {
        "methods": [],
        "notUserAgents": ["prometheus"],
        "notPaths": [],
        "requiredHeader": None,
        "asleepStatus": 200,
    }
    shown = {"url": "https://auth/check", "always": True, "cacheSeconds": 5}
    assert authorization_view(annotated) == shown


def test_the_clients_with_the_most_requests_are_shown() -> None:
    agents = Agents()
    for number in range(60):
        agents.record(b"%c" % b"abcddd"[number % 6], float(number))
    view = kept_awake_view(agents, 60.0)
    assert len(view) == MOST_AGENTS
    assert view[0] == {"agent": "d", "requestsPerMinute": 30}


def test_watches_are_shown_by_kind_with_their_errors() -> None:
    source = SourceStatus(
        kind="test",
        name="test",
        kinds={
            "Revision": KindStatus(age=3.25, watch=WatchCounters()),
            "Endpoints": KindStatus(age=75.0004, watch=WatchCounters(), error="500"),
            # A role may deny slices: a missing optional kind has no age.
            "EndpointSlice": KindStatus(watch=WatchCounters()),
            "Secret": KindStatus(in_force=1),
        },
        missed=MissedEvents(found={"Revision": 2}),
    )
    assert watches_view(source) == {
        "Revision": {"ageSeconds": 3.25, "error": None, "drifted": 2},
        "Endpoints": {"ageSeconds": 75.0, "error": "500", "drifted": 0},
        "EndpointSlice": {"ageSeconds": None, "error": None, "drifted": 0},
    }
    assert manifests_view(source) is None


def test_files_are_shown_with_their_ages() -> None:
    source = SourceStatus("test", "test", {}, FilesStatus("/m", age=1.23456, changed_age=60.0))
    assert manifests_view(source) == {
        "folder": "/m",
        "ageSeconds": 1.235,
        "lastChangeSecondsAgo": 60.0,
    }
    assert watches_view(source) == {}


def test_a_link_tells_of_its_last_sign_of_life_and_last_word() -> None:
    link: Any = SimpleNamespace(
        connected=True, last_error="", age=lambda: 1.5, last_sent_age=lambda: None
    )
    assert autoscaler_view(link) == {
        "connected": True,
        "ageSeconds": 1.5,
        "lastSentSecondsAgo": None,
        "lastError": None,
    }
    link.connected, link.last_error = False, "dial failed: refused"
    view = autoscaler_view(link)
    assert view is not None
    assert (view["connected"], view["lastError"]) == (False, "dial failed: refused")


def test_what_there_is_none_of_says_nothing() -> None:
    assert watches_view(NO_SOURCE) == {}
    assert manifests_view(NO_SOURCE) is None
    assert autoscaler_view(None) is None


def test_warnings_of_a_revision_are_about_objects_that_may_be_meant_for_it() -> None:
    warnings = (
        ObjectWarning("Revision", "default", "hello", "hello", "one"),
        ObjectWarning("Endpoints", "default", "nameless", "", "two"),
        ObjectWarning("Endpoints", "default", "other-private", "other", "three"),
        ObjectWarning("Endpoints", "elsewhere", "nameless", "", "four"),
        ObjectWarning(
            "Service", "default", "hello", "hello", "five", "host-conflict", RevisionKind.SERVICE
        ),
    )
    source = SourceStatus("test", "test", {}, warnings=warnings)
    revision = RevisionID("default", "hello")

    def texts(*, has_pods: bool) -> list[str]:
        return [each["warning"] for each in warnings_of(source, revision, has_pods=has_pods)]

    assert texts(has_pods=True) == ["one"]
    assert texts(has_pods=False) == ["one", "two"]
    assert [each["warning"] for each in warnings_view(source)] == [
        *("one", "two", "three", "four", "five")
    ]
    many = SourceStatus("test", "test", {}, warnings=warnings * 50)
    assert len(warnings_view(many)) == 100
    service = RevisionID("default", "hello", RevisionKind.SERVICE)
    found = warnings_of(source, service, has_pods=True)
    assert [(each["warning"], each["reason"]) for each in found] == [
        ("one", None),  # of an unknown kind
        ("five", "host-conflict"),
    ]
    of_pods = ObjectWarning("EndpointSlice", "default", "odd", "pods", "six", "invalid")
    unused = ObjectWarning("Service", "default", "pods", "pods", "seven")
    source = SourceStatus("test", "test", {}, warnings=(of_pods, unused))
    found = warnings_of(source, service, has_pods=True, pods="pods")
    assert [each["warning"] for each in found] == ["six"]
    assert warnings_of(source, service, has_pods=False) == []
    assert warnings_view(NO_SOURCE) == warnings_of(NO_SOURCE, revision, has_pods=False) == []
