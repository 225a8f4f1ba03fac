"""The parts of ``activator explain`` about pods and policies."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from activator.admin.api import (
    authorization_view,
    kept_awake_view,
    queue_order_view,
    wake_rules_view,
    while_waiting_view,
)
from activator.console import explain
from activator.console.client import parse
from activator.console.screen import Table
from activator.records.entries import Agents
from tests.activator.console.explained import OTHER, POD, shown, view
from tests.activator.telemetry.world import World
from throttler.model import AdaptiveMode, FlowKey, HashKey, Policies, QueueOrder
from throttler.reason import NO_SERVER
from throttler.request_policies import (
    Authorization,
    RequestPolicies,
    WaitMode,
    WakeRules,
    WhileWaiting,
)


@pytest.fixture
def world():
    return World()


def test_pods_that_have_requests_and_begin_no_response(world):
    throttler = world.revision()
    world.healthy(throttler, *(f"10.0.0.{number}:8012" for number in range(1, 8)))
    for _ in range(2):
        world.request(throttler)
        world.clock.now += 7
    assert [line for line in shown(view(world, throttler)) if "begun no response" in line] == [
        "Silent     10.0.0.1:8012 has had 2 requests and begun no response for 14.0s"
    ]
    for _ in range(9):
        world.request(throttler)
    world.clock.now += 5
    lines = shown(view(world, throttler))
    first = next(n for n, line in enumerate(lines) if line.startswith("Silent"))
    assert lines[first].endswith("10.0.0.1:8012 has had 2 requests and begun no response for 19.0s")
    assert lines[first + 4].endswith("has had 2 requests and begun no response for 5.0s")
    assert lines[first + 5].strip() == "and 1 more pod"


def test_pods_are_coloured_by_what_follows(world):
    throttler = world.revision()
    world.healthy(throttler, POD)
    world.pods(throttler, POD, not_ready=(OTHER,))
    page = explain.page(parse(json.dumps(view(world, throttler))))
    (table,) = [part for part in page if isinstance(part, Table)]
    assert table.styles == ("green", "yellow")


def test_the_zone_of_a_pod_is_shown_if_it_is_known():
    world = World(zone="eu-1a")
    throttler = world.revision()
    third = "10.0.0.9:80"
    world.healthy(throttler, POD, OTHER, third, zones={POD: "eu-1a", OTHER: "eu-1b"})
    page = explain.page(parse(json.dumps(view(world, throttler))))
    (table,) = [part for part in page if isinstance(part, Table)]
    assert [row[0] for row in table.rows] == [
        f"{POD} (zone eu-1a, own)",
        f"{OTHER} (zone eu-1b)",
        third,
    ]


def test_which_pod_gets_a_request_as_annotated(world):
    throttler = world.revision()
    policies = Policies("round-robin", HashKey(b"x-user"))
    world.driver.set_revision(replace(throttler.revision, policies=policies))
    assert "Balancing  round-robin, hash key header:x-user" in shown(view(world, throttler))


def test_the_order_of_the_queue_as_annotated(world):
    order = QueueOrder(has_classes=True, trusts_header=True, fair_by=FlowKey(b"x-tenant"))
    throttler = world.revision(policies=Policies(order=order))
    for _ in range(2):
        world.request(throttler)
    answer = view(world, throttler, queueOrder=queue_order_view(throttler))
    lines = [" ".join(line.split()) for line in shown(answer)]
    at = lines.index("Order by class: normal unless Activator-Priority selects another")
    assert lines[at + 1 : at + 4] == [
        "0 high, 2 normal, 0 low",
        "fair by header:x-tenant: 1 flow",
        "2 of (none)",
    ]


def test_what_wakes_it_and_keeps_it_awake(world):
    wake = WakeRules((b"GET",), (b"prometheus",), (b"/health", b"/metrics"), b"authorization", 204)
    server = Authorization("http://auth.example.svc/check?secret", cache_seconds=5.0)
    requests = RequestPolicies(wake=wake, authorization=server)
    throttler = world.revision(policies=Policies(requests=requests))
    agents = Agents()
    for number in range(12):
        agents.record(b"Prometheus/3.5.0", 5.0 * number)
    answer = view(
        world,
        throttler,
        wakeRules=wake_rules_view(throttler.revision),
        authorization=authorization_view(throttler.revision),
        keptAwakeBy=kept_awake_view(agents, 60.0),
    )
    lines = [" ".join(line.split()) for line in shown(answer)]
    at = lines.index("Wake rules only by the methods GET")
    assert lines[at + 1 : at + 7] == [
        "not by the User-Agents prometheus",
        "not by the paths, and those below, /health, /metrics",
        "only with the header authorization",
        "other requests get 204 while no pod is usable",
        "Authorization requests that would wait, by http://auth.example.svc/check, cached for 5 s",
        "Kept awake by Prometheus, 12 requests a minute",
    ]


def test_a_wrong_authorization_server_has_no_address(world):
    requests = RequestPolicies(authorization=Authorization(""))
    throttler = world.revision(policies=Policies(requests=requests))
    server = authorization_view(throttler.revision)
    lines = shown(view(world, throttler, authorization=server, nextReason="no-endpoints"))
    (line,) = (line for line in lines if line.startswith("Authorization"))
    assert line.endswith(
        "requests that would wait: 503, since an annotation activator.dev/auth-* has a wrong value"
    )
    assert [" ".join(line.split()) for line in lines].count(f"What to do {NO_SERVER}") == 1


def test_the_clients_of_waiting_requests(world):
    waiting = WhileWaiting(
        (WaitMode.PAGE, WaitMode.REFUSE), page_after=2.5, page_template="shop.html"
    )
    throttler = world.revision(policies=Policies(requests=RequestPolicies(waiting=waiting)))
    world.request(throttler)
    entry = world.entry(throttler)
    entry.lease.keep(world.clock.now + 8, world.clock.now)
    whole = view(
        world, throttler, whileWaiting=while_waiting_view(throttler, entry, world.clock.now)
    )
    lines = [" ".join(line.split()) for line in shown(whole)]
    at = lines.index("Waiting page, else refuse; a page after 2.5s by the template shop.html")
    assert lines[at + 1 : at + 3] == [
        "1 hold, 0 page, 0 heartbeat, 0 refuse",
        "open pages or refused clients count as one request for 8.0s",
    ]


def test_profile_and_limit_of_the_wait_are_facts(world):
    lines = [
        " ".join(line.split())
        for line in shown(view(world, world.revision(), profile="openai", waitSeconds=600.0))
    ]
    assert "Profile openai" in lines
    assert "Wait at most 600 s for a pod; the time-out counts from then" in lines


@pytest.mark.parametrize(
    ("keep_awake", "meaning"),
    [("connections", "each open one"), ("bytes", "only a connection on which bytes pass")],
)
def test_the_connections_that_are_load_are_a_fact(world, keep_awake, meaning):
    lines = shown(view(world, world.revision(), keepAwake=keep_awake))
    assert f"Keep awake  {keep_awake}: {meaning} is load" in map(str.strip, lines)


def test_policies_of_requests_and_pods_are_shown(world):
    policies = Policies(sticky=HashKey(b"x-session"), adaptive=AdaptiveMode.OBSERVE)
    throttler = world.revision(concurrency=0, policies=policies)
    world.healthy(throttler, POD)
    lines = shown(view(world, throttler))
    counts = "0 kept, 0 hashed, 0 overflowed, 0 waited"
    assert f"Sticky     by header:x-session, overflow other: {counts}" in lines
    assert f"Adaptive   observe, limits that are not applied: {POD} 4" in lines
