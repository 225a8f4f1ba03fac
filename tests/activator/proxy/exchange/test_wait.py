"""Requests in the queue: their cold starts and fields, and the response while they wait."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from hashlib import sha256
from typing import Any

import pytest

from activator.proxy.exchange.wait import WARM
from activator.proxy.message.waiting_page import Template
from tests.activator.proxy.http2.peers import Http2World
from tests.activator.proxy.world import (
    NAME,
    NAMESPACE,
    Client,
    World,
    about,
    answer_whole,
    ok,
    request,
    turns,
    until,
)
from tests.conftest import in_virtual_time
from throttler.model import AppProtocol, Policies, RevisionID
from throttler.request_policies import RequestPolicies, WaitMode, WakeRules, WhileWaiting
from throttler.throttler import Limits

TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
METRIC = rf"({TOKEN})(?:;({TOKEN})=({TOKEN}|\"[^\"\\]*\"))"
#: https://www.w3.org/TR/server-timing/#the-server-timing-header-field, without unused parts.
SERVER_TIMING = re.compile(rf"{METRIC}(, {METRIC})*")


def timing(answer):
    """Return the metrics of the activator's field: durations in seconds, descriptions."""
    (value,) = (v for k, v in answer.headers if k == b"server-timing" and b"queue;" in v)
    text = value.decode()
    assert SERVER_TIMING.fullmatch(text), text
    found = {name: said for name, _, said in re.findall(METRIC, text)}
    return {n: said if said[0] == '"' else float(said) / 1000 for n, said in found.items()}


def cold_starts(world, name=NAME):
    return world.driver.cold_starts.views(RevisionID(NAMESPACE, name))


async def waiter(world, data=None):
    before = world.waiting
    client = await world.client()
    client.send(data or request())
    await until(lambda: world.waiting == before + 1)
    return client


async def one_has_the_slot_and_one_waits(world):
    """Return the only pod, whose next response is whole, and the clients of both requests."""
    pod = await world.serving(container_concurrency=1)
    pod.on_data = lambda connection: None
    first = await world.client()
    first.send(request())
    await until(lambda: pod.requests)
    second = await waiter(world)
    pod.on_data = answer_whole
    return pod, first, second


def passes(world):
    for pod in world.revision().backends.pods.values():
        world.driver.probe_passed(pod, pod.epoch)


# -- cold starts ---------------------------------------------------------------------------------


async def test_a_cold_start_ends_with_the_first_byte_of_the_first_response(world):
    world.revise(container_concurrency=1)
    pod = await world.pod()
    pod.on_data = lambda connection: None
    clients = [await waiter(world) for _ in range(3)]
    await world.clock_moves(0.1)
    world.list(pod)
    await until(lambda: pod.requests)
    assert cold_starts(world)[0]["outcome"] is None
    await world.clock_moves(0.1)
    pod.on_data = answer_whole
    answer_whole(pod.connections[0])
    for client in clients:
        assert (await client.answer()).status == 200
    await world.idle()
    (cold_start,) = cold_starts(world)
    assert (cold_start["outcome"], cold_start["requests"], cold_start["pod"]) == (
        *("served", 3),
        pod.endpoint.address,
    )
    phases = cold_start["phases"]
    # This world's prober does not report the times of its probes, and there is no autoscaler.
    assert list(phases) == ["address", "probe-passed", "dispatched", "first-byte"]
    assert phases["address"] == about(0.1, within=0.09)
    assert phases["first-byte"] - phases["dispatched"] == about(0.1, within=0.09)
    assert world.counters().cold_starts == {"served": 1}


async def test_a_request_that_finds_a_pod_or_waits_for_a_slot_is_no_cold_start(world):
    pod, first, second = await one_has_the_slot_and_one_waits(world)
    answer_whole(pod.connections[0])
    for client in (first, second):
        assert (await client.answer()).status == 200
    assert cold_starts(world) == []
    assert world.counters().cold_starts == {}


@in_virtual_time
async def test_clients_that_leave_and_deadlines_end_a_cold_start(world):
    world.revise(timeout=0.25)
    first, second = await waiter(world), await waiter(world)
    first.abort()
    assert (await second.answer()).status == 504
    await world.idle()
    assert [w["outcome"] for w in cold_starts(world)] == ["timed-out"]
    third = await waiter(world)
    third.abort()
    await world.idle()
    assert [w["outcome"] for w in cold_starts(world)] == ["cancelled", "timed-out"]


async def test_a_request_whose_only_pod_is_lost_for_a_moment_is_no_cold_start(world):
    pod = await world.serving()
    world.proxy.services.added_lines = WARM
    await pod.refuse()
    client = await waiter(world)
    await world.clock_moves(0.1)
    await pod.listen()
    passes(world)
    answer = await client.answer()
    assert (answer.status, answer.get(b"activator-cold-start")) == (200, b"false")
    assert cold_starts(world) == []


@in_virtual_time
async def test_a_dispatch_without_a_response_is_none(world):
    world.revise(timeout=0.25)
    pod = await world.pod()
    pod.on_data = lambda connection: None
    client = await waiter(world)
    world.list(pod)
    passes(world)
    await until(lambda: pod.requests)
    assert "dispatched" not in cold_starts(world)[0]["phases"]
    assert (await client.answer()).status == 504
    await world.idle()
    (cold_start,) = cold_starts(world)
    assert cold_start["outcome"] == "timed-out"
    assert "probe-passed" in cold_start["phases"]
    assert "dispatched" not in cold_start["phases"]


async def test_a_pod_that_refuses_after_its_probe_is_not_the_one_that_served(world):
    world.revise()
    client = await waiter(world)
    liar, other = await world.pod(), await world.pod()
    await liar.refuse()
    world.healthy = lambda tracker: False
    world.list(liar)
    passes(world)  # and refuses the request
    await turns(50)
    await until(lambda: world.counters().requeues == {"connect-failed": 1})
    await world.clock_moves(0.1)
    world.healthy = lambda tracker: tracker.endpoint == other.endpoint
    world.list(liar, other)
    assert (await client.answer()).status == 200
    (cold_start,) = cold_starts(world)
    assert (cold_start["requests"], cold_start["pod"]) == (1, other.endpoint.address)
    assert cold_start["phases"]["dispatched"] - cold_start["phases"]["probe-passed"] >= 0.09


async def test_a_revision_may_cold_start_again(world):
    for _ in range(2):
        world.revise()
        client = await waiter(world)
        world.list(pod := await world.pod())
        assert (await client.answer()).status == 200
        assert pod.requests
        await world.idle()
        world.list()
    assert [w["outcome"] for w in cold_starts(world)] == ["served", "served"]


async def test_a_web_socket_that_waited_ends_its_cold_start_with_the_101(world):
    world.proxy.services.added_lines, world.proxy.services.server_timing = WARM, True
    world.revise()
    client = await waiter(world, request(fields=b"Connection: Upgrade\r\nUpgrade: websocket\r\n"))
    pod = await world.pod()
    pod.on_data = lambda connection: connection.write(
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    )
    world.list(pod)
    await until(lambda: b"\r\n\r\n" in client.received)
    assert b"\r\nActivator-Cold-Start: true\r\n" in client.received
    assert b"\r\nServer-Timing: queue;dur=" in client.received
    assert cold_starts(world)[0]["outcome"] == "served"
    client.close()


# -- what clients see of it ----------------------------------------------------------------------


async def test_a_response_has_no_server_timing_unless_it_is_enabled(world):
    world.revise()
    client = await waiter(world)
    world.list(await world.pod())
    answer = await client.answer()
    assert answer.get(b"server-timing") is answer.get(b"activator-cold-start") is None


async def test_a_cold_response_says_where_its_time_went(world):
    world.proxy.services.server_timing = True
    world.healthy = lambda tracker: False
    world.revise()
    client = await waiter(world)
    await world.clock_moves(0.2)
    pod = await world.pod()
    pod.on_data = lambda connection: None
    world.list(pod)
    await world.clock_moves(0.1)
    passes(world)
    await until(lambda: pod.requests)
    await world.clock_moves(0.05)
    answer_whole(pod.connections[0])
    found = timing(await client.answer())
    assert list(found) == ["queue", "start", "scale", "probe", "pod"]
    assert found["start"] == '"cold"'
    assert found["scale"] == about(0.2, within=0.05)
    assert found["probe"] == about(0.1, within=0.05)
    assert found["pod"] == about(0.05, within=0.05)
    assert found["queue"] == pytest.approx(found["scale"] + found["probe"], abs=0.01)


async def test_a_later_request_gets_its_own_time_alone(world):
    world.proxy.services.server_timing = True
    world.healthy = lambda tracker: False
    world.revise()
    first = await waiter(world)
    await world.clock_moves(0.2)
    world.list(await world.pod())
    second = await waiter(world)
    await world.clock_moves(0.1)
    passes(world)
    await first.answer()
    found = timing(await second.answer())
    assert list(found) == ["queue", "start", "probe", "pod"]
    assert found["queue"] == about(0.1, within=0.05)


async def test_a_wait_for_room_is_warm_and_one_that_did_not_wait_says_nothing(world):
    world.proxy.services.server_timing = True
    pod, first, second = await one_has_the_slot_and_one_waits(world)
    await world.clock_moves(0.1)
    answer_whole(pod.connections[0])
    assert (await first.answer()).get(b"server-timing") is None
    found = timing(await second.answer())
    assert list(found) == ["queue", "start", "pod"]
    assert found["start"] == '"warm"'
    assert found["queue"] == about(0.1, within=0.05)


async def test_the_pods_own_server_timing_stays_beside_ours(world):
    world.proxy.services.server_timing = True
    world.revise()
    client = await waiter(world)
    pod = await world.pod()
    pod.answer = ok(fields=b"Server-Timing: db;dur=53\r\n")
    world.list(pod)
    answer = await client.answer()
    fields = [v for k, v in answer.headers if k == b"server-timing"]
    assert len(fields) == 2
    assert fields[0] == b"db;dur=53"
    assert timing(answer)["start"] == '"cold"'


async def test_own_responses_say_it_as_well(world):
    world.proxy.services.added_lines, world.proxy.services.server_timing = WARM, True
    world.revise(timeout=0.25)
    answer = await (await waiter(world)).answer()
    assert (answer.status, answer.get(b"activator-cold-start")) == (504, b"true")
    found = timing(answer)
    assert list(found) == ["queue", "start"]
    assert found["queue"] == about(0.25, within=0.1)


@pytest.mark.parametrize("version", [b"1.1", b"1.0"])
async def test_every_response_says_whether_it_was_cold(world, version):
    world.proxy.services.added_lines = WARM
    data = request().replace(b"HTTP/1.1", b"HTTP/" + version)
    world.revise()
    client = await waiter(world, data)
    world.list(await world.pod())
    assert (await client.answer()).get(b"activator-cold-start") == b"true"
    assert (await world.ask(data)).get(b"activator-cold-start") == b"false"


async def test_a_request_that_may_not_wait_was_not_cold(new_world):
    world = await new_world(queue=Limits(queue_depth=1))
    world.proxy.services.added_lines, world.proxy.services.server_timing = WARM, True
    world.revise()
    await waiter(world)
    answer = await world.ask()
    assert (answer.status, answer.get(b"activator-cold-start")) == (503, b"false")
    assert answer.get(b"server-timing") is None
    (cold_start,) = cold_starts(world)
    assert cold_start["requests"] == 1
    world.clients[0].abort()


NAVIGATION = b"Sec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\n"
PAGE, REFUSE, HOLD = WaitMode.PAGE, WaitMode.REFUSE, WaitMode.HOLD


def policies(*modes: WaitMode, **more: Any) -> Policies:
    return Policies(requests=RequestPolicies(waiting=WhileWaiting(modes, **more)))


def field(answer: Any, name: bytes) -> bytes:
    """Return the only value of a field; empty without one."""
    values = [value for key, value in answer.headers if key.lower() == name]
    assert len(values) <= 1
    return values[0] if values else b""


async def waiter_with_mode(world: World, data: bytes) -> Client:
    before = world.waiting
    client = await world.client()
    client.send(data)
    await until(lambda: world.waiting == before + 1)
    return client


def cold_starts_with_modes(world: World) -> list[dict[str, Any]]:
    return world.driver.cold_starts.views(world.revision().revision.id)


def modes(world: World) -> dict[str, int]:
    """Return the waiting requests by mode."""
    return {mode: count for mode, count in world.counters().waiting.items() if count}


# -- page ----------------------------------------------------------------------------------------


@in_virtual_time
async def test_a_browser_gets_a_page_after_a_second_of_waiting(world: World) -> None:
    world.revise(service="shop", policies=policies(PAGE))
    client = await waiter_with_mode(world, request(fields=NAVIGATION))
    assert modes(world) == {"page": 1}
    page = await client.answer()
    assert world.now_since_start() == about(1.0, within=0.1)
    assert page.status == 503
    assert field(page, b"retry-after") == b"2"
    assert field(page, b"cache-control") == b"no-store"
    assert field(page, b"content-type") == b"text/html; charset=utf-8"
    assert field(page, b"activator-reason") == b"no-endpoints"
    assert len(page.body) <= 8192
    assert b"shop is starting" in page.body
    assert b"A new instance is requested." in page.body
    assert modes(world) == {}
    assert world.counters().outcomes["page"] == 1
    await world.clock_moves(76)


@in_virtual_time
async def test_the_page_has_no_resource_and_its_policy_allows_its_own_code_alone(
    world: World,
) -> None:
    world.revise(policies=policies(PAGE, page_after=0))
    page = await world.ask(request(fields=NAVIGATION))
    policy = field(page, b"content-security-policy").decode()
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    assert policy.endswith("; frame-ancestors 'none'")
    for tag in ("script", "style"):
        (text,) = re.findall(f"<{tag}>(.*?)</{tag}>", page.body.decode(), re.DOTALL)
        digest = b64encode(sha256(text.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert not re.search(rb"(src|href|url)\s*[=(](?!\"data:,\")", page.body)
    await world.clock_moves(76)


@in_virtual_time
@pytest.mark.parametrize(
    "data",
    [
        request(fields=b"Accept: text/html, */*;q=0.8\r\n"),
        request(fields=b"accept: text/html,application/json;q=0.9\r\nsec-fetch-mode: navigate\r\n"),
    ],
)
async def test_requests_of_people_get_the_page(world: World, data: bytes) -> None:
    world.revise(policies=policies(PAGE, page_after=0))
    assert (await world.ask(data)).status == 503
    await world.clock_moves(76)


@in_virtual_time
@pytest.mark.parametrize(
    "data",
    [
        request(),
        request(fields=b"Accept: */*\r\n"),
        request(fields=b"Accept: application/json, text/html;q=0.9\r\n"),
        request(fields=b"Accept: text/html;q=0\r\n"),
        request(fields=b"Accept: text/html\r\nSec-Fetch-Mode: cors\r\n"),
        request(fields=b"Accept: text/html\r\nSec-Fetch-Mode: navigate, navigate\r\n"),
        request(fields=b"Accept: text/html\r\nSec-Fetch-Site: same-origin\r\n"),
        request(fields=NAVIGATION + b"Sec-Fetch-Mode: cors\r\n"),
        request(fields=b"Accept: text/html, */*; q=0.01\r\nX-Requested-With: XMLHttpRequest\r\n"),
        request(fields=b"Accept: text/html\r\nHX-Request: true\r\n"),
        request(method=b"POST", fields=NAVIGATION, body=b"a=b"),
        request(method=b"HEAD", fields=NAVIGATION),
        request(method=b"OPTIONS", fields=NAVIGATION),
        request(fields=NAVIGATION, body=b"x"),
        request(fields=NAVIGATION + b"Connection: upgrade\r\nUpgrade: websocket\r\n"),
        request(fields=NAVIGATION).replace(b"HTTP/1.1", b"HTTP/1.0"),
    ],
)
async def test_other_requests_wait_as_ever(world: World, data: bytes) -> None:
    world.revise(policies=policies(PAGE))
    client = await waiter_with_mode(world, data)
    await world.clock_moves(2)
    assert (modes(world), bytes(client.received)) == ({}, b"")
    pod = await world.pod()
    pod.answer = ok(b"hello")
    world.list(pod)
    await until(lambda: pod.requests)
    answer = await client.answer(data.partition(b" ")[0])
    assert answer.status == 200
    client.close()


@in_virtual_time
@pytest.mark.parametrize(
    "fields", [b"Sec-Purpose: prefetch;prerender\r\n", b"Purpose: Prefetch\r\n"]
)
async def test_a_page_that_nobody_has_opened_yet_wakes_nothing(world: World, fields: bytes) -> None:
    waiting = WhileWaiting((PAGE,), page_after=0)
    wake = WakeRules(asleep_status=200)  # a browser would show that empty page
    world.revise(policies=Policies(requests=RequestPolicies(waiting=waiting, wake=wake)))
    answer = await world.ask(request(fields=NAVIGATION + fields))
    assert (answer.status, field(answer, b"activator-reason")) == (503, b"asleep")
    assert cold_starts_with_modes(world) == []
    pod = await world.pod()
    world.list(pod)
    await until(lambda: world.revision().statistics().healthy == 1)
    assert (await world.ask(request(fields=NAVIGATION + fields))).status == 200


@in_virtual_time
async def test_without_the_page_a_prefetch_waits_as_ever(world: World) -> None:
    world.revise(policies=policies(HOLD))
    client = await waiter_with_mode(
        world, request(fields=NAVIGATION + b"Sec-Purpose: prefetch\r\n")
    )
    client.abort()


@in_virtual_time
async def test_a_pod_in_time_serves_the_browser(world: World) -> None:
    world.revise(policies=policies(PAGE))
    client = await waiter_with_mode(world, request(fields=NAVIGATION))
    await world.clock_moves(0.5)
    pod = await world.pod()
    pod.on_data = lambda connection: None
    world.list(pod)
    await until(lambda: pod.requests)
    assert modes(world) == {}
    answer_whole(pod.connections[0])
    assert (await client.answer()).status == 200
    await world.clock_moves(2)
    assert bytes(client.unread) == b""


@in_virtual_time
async def test_a_browser_keeps_its_place_while_pods_are_busy(world: World) -> None:
    """Behind requests that never leave a slot free, a page would never be served."""
    pod = await world.serving(policies=policies(PAGE), container_concurrency=1)
    answer, pod.on_data = pod.on_data, lambda connection: None
    busy = await world.client()
    busy.send(request(b"/busy"))
    await until(lambda: world.in_flight == 1)
    browser = await waiter_with_mode(world, request(b"/page", fields=NAVIGATION))
    later = await waiter_with_mode(world, request(b"/later"))
    await world.clock_moves(30)
    peek = await world.ask(request(method=b"HEAD", fields=b"Activator-Peek: 1\r\n"), b"HEAD")
    assert (peek.status, field(peek, b"activator-phase")) == (503, b"busy")
    assert (browser.received, modes(world)) == (b"", {"page": 1})
    pod.on_data = answer
    answer(pod.connections[-1])
    for client in (busy, browser, later):
        assert (await client.answer()).status == 200
    assert [each.target for each in pod.requests] == [b"/busy", b"/page", b"/later"]
    await world.clock_moves(76)


@in_virtual_time
async def test_a_browser_gets_the_page_when_the_last_busy_pod_is_lost(world: World) -> None:
    pod = await world.serving(policies=policies(PAGE), container_concurrency=1)
    pod.on_data = lambda connection: None
    busy = await world.client()
    busy.send(request(b"/busy"))
    await until(lambda: world.in_flight == 1)
    browser = await waiter_with_mode(world, request(fields=NAVIGATION))
    await world.clock_moves(30)
    world.list()
    page = await browser.answer()
    assert (page.status, field(page, b"content-type")[:9]) == (503, b"text/html")
    busy.abort()
    await world.clock_moves(76)


@in_virtual_time
async def test_the_page_says_how_far_the_start_is(world: World) -> None:
    world.revise(policies=policies(PAGE, page_after=0))
    assert b"A new instance is requested." in (await world.ask(request(fields=NAVIGATION))).body
    pod = await world.pod()
    world.healthy = lambda pod: False
    world.list(pod)
    assert b"An instance is starting." in (await world.ask(request(fields=NAVIGATION))).body
    (tracker,) = world.revision().backends.pods.values()
    world.driver.probe_failed(tracker, tracker.epoch, "refused")
    page = await world.ask(request(fields=NAVIGATION))
    assert b"An instance runs. It does not respond yet." in page.body
    assert field(page, b"activator-reason").startswith(b"probe-failing; ")
    await world.clock_moves(76)


@in_virtual_time
async def test_nothing_of_a_request_is_in_the_page(world: World) -> None:
    world.revise(policies=policies(PAGE, page_after=0))
    mark = b"<script>alert(1)</script>"
    fields = NAVIGATION + b"X-Mark: " + mark + b"\r\nCookie: a=" + mark + b"\r\n"
    data = request(b"/?q=%22" + mark, fields=fields).replace(b"example.com", b"alert.example")
    page = await world.ask(data)
    assert page.status == 503
    assert b"alert" not in page.body
    assert not any(b"alert" in value for _, value in page.headers)
    await world.clock_moves(76)


@in_virtual_time
async def test_a_template_of_the_operator_replaces_the_page_and_its_values_are_escaped(
    world: World,
) -> None:
    world.revise(service="a<b>", policies=policies(PAGE, page_after=0, page_template="shop"))
    template = Template("<!doctype html><title>x</title>{{polling}}<p id=mine>{{ name }} {{phase}}")
    world.proxy.services.templates = {"shop": template}
    page = await world.ask(request(fields=NAVIGATION))
    assert b"<p id=mine>a&lt;b&gt; asked" in page.body
    world.proxy.services.templates = {}
    assert b"a&lt;b&gt; is starting" in (await world.ask(request(fields=NAVIGATION))).body
    await world.clock_moves(76)


@in_virtual_time
async def test_a_browser_in_http2_gets_the_page(world: World) -> None:
    http2 = Http2World(world)
    http2.list(policies=policies(PAGE))
    client = await http2.client()
    stream = client.ask(b"/", b"GET", (b"sec-fetch-mode", b"navigate"))
    await until(lambda: modes(world) == {"page": 1})
    await world.clock_moves(1)
    page = await client.answer(stream)
    assert page.status == 503
    assert page.all(b"retry-after") == [b"2"]
    assert page.all(b"content-type") == [b"text/html; charset=utf-8"]
    assert b"</html>" in page.body
    http2.close()
    await world.clock_moves(76)


@in_virtual_time
async def test_a_changed_annotation_counts_for_the_next_request(world: World) -> None:
    world.revise(policies=policies(PAGE, page_after=0))
    assert (await world.ask(request(fields=NAVIGATION))).status == 503
    world.revise(policies=policies(HOLD))
    client = await waiter_with_mode(world, request(fields=NAVIGATION))
    await world.clock_moves(5)
    assert bytes(client.received) == b""
    client.abort()
    await world.clock_moves(76)


@in_virtual_time
async def test_open_pages_and_a_pod_are_one_cold_start(world: World) -> None:
    world.revise(policies=policies(PAGE))
    for _ in range(3):
        client = await waiter_with_mode(world, request(fields=NAVIGATION))
        assert (await client.answer()).status == 503
        client.close()
        await world.clock_moves(3)
    assert cold_starts_with_modes(world)[0]["outcome"] is None
    pod = await world.pod()
    world.list(pod)
    await until(lambda: world.revision().has_free_slot)
    (cold_start,) = cold_starts_with_modes(world)
    assert (cold_start["outcome"], cold_start["requests"]) == ("page", 3)
    assert list(cold_start["phases"]) == ["address", "probe-passed"]
    assert cold_start["seconds"] == about(12.0, within=0.5)
    await world.clock_moves(76)


@in_virtual_time
async def test_a_cold_start_ends_when_its_clients_do_not_return(world: World) -> None:
    world.revise(policies=policies(REFUSE))
    assert (await world.ask()).status == 503
    await world.clock_moves(13)
    assert [each["outcome"] for each in cold_starts_with_modes(world)] == [None]
    await world.clock_moves(2)
    assert [each["outcome"] for each in cold_starts_with_modes(world)] == ["wait-refused"]


# -- refuse --------------------------------------------------------------------------------------


@in_virtual_time
async def test_a_request_that_would_wait_is_refused_at_once_and_the_demand_stays(
    world: World,
) -> None:
    world.revise(policies=policies(REFUSE))
    refusal = await world.ask(request(method=b"POST", body=b"x"))
    assert world.now_since_start() == about(0.0, within=0.1)
    assert refusal.status == 503
    assert field(refusal, b"activator-reason") == b"wait-refused; no-endpoints"
    seconds = int(field(refusal, b"retry-after"))
    assert seconds == 4  # 5 s without a forecast, less the jitter of this world
    (load,) = world.loads.values()
    assert load.now == 1
    assert (await world.ask()).status == 503
    assert load.now == 1  # one lease for all clients
    await world.clock_moves(seconds + 9)
    assert load.now == 1
    await world.clock_moves(2)
    assert load.now == 0
    assert world.counters().outcomes["wait-refused"] == 2
    assert world.failures().last is None


@in_virtual_time
async def test_a_refused_client_finds_a_pod_when_it_is_back(world: World) -> None:
    world.revise(policies=policies(REFUSE))
    assert (await world.ask()).status == 503
    hurried = world.prober.hurried
    assert hurried >= 1
    pod = await world.pod()
    pod.answer = ok(b"hello")
    world.list(pod)
    await until(lambda: world.revision().has_free_slot)
    assert (await world.ask()).body == b"hello"
    await world.clock_moves(76)


@in_virtual_time
async def test_a_json_client_gets_the_refusal_as_problem_details(world: World) -> None:
    world.revise(policies=policies(REFUSE))
    refusal = await world.ask(request(fields=b"Accept: application/json\r\n"))
    assert json.loads(refusal.body)["reason"] == "wait-refused"
    await world.clock_moves(76)


@in_virtual_time
@pytest.mark.parametrize(("mode", "outcome"), [(PAGE, "page"), (REFUSE, "wait-refused")])
async def test_a_request_whose_only_pod_fails_gets_its_mode_then(
    world: World, mode: WaitMode, outcome: str
) -> None:
    pod = await world.serving(policies=policies(mode, page_after=0))
    world.healthy = lambda pod: False
    pod.on_data = lambda connection: connection.reset()
    assert (await world.ask(request(fields=NAVIGATION))).status == 503
    assert len(pod.requests) == 1
    assert world.counters().outcomes[outcome] == 1
    await world.clock_moves(76)


@in_virtual_time
async def test_the_first_mode_that_fits_counts(world: World) -> None:
    world.revise(policies=policies(PAGE, REFUSE, page_after=0))
    assert b"<html" in (await world.ask(request(fields=NAVIGATION))).body
    assert b"<html" not in (await world.ask()).body
    world.revise(policies=policies(REFUSE, PAGE))
    assert b"<html" not in (await world.ask(request(fields=NAVIGATION))).body
    await world.clock_moves(76)


@in_virtual_time
async def test_a_grpc_client_is_refused_with_its_status_and_never_gets_a_page(world: World) -> None:
    http2 = Http2World(world)
    http2.list(policies=policies(PAGE, REFUSE, page_after=0))
    client = await http2.client()
    fields = (b"content-type", b"application/grpc"), (b"sec-fetch-mode", b"navigate")
    answer = await client.answer(client.ask(b"/a.B/C", b"POST", *fields))
    assert answer.all(b"grpc-status") == [b"14"]
    http2.close()
    await world.clock_moves(76)


async def test_a_service_that_opts_in_has_the_same_modes(world: World) -> None:
    world.serve(hosts=("a.example",), policies=policies(REFUSE), protocol=AppProtocol.HTTP1)
    data = b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n"
    assert (await world.ask(data)).status == 503
    world.expect_idle = False
