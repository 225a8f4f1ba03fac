"""What the clients of waiting requests get: a page, a refusal, or nothing until a pod responds."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from hashlib import sha256
from typing import Any

import pytest

from activator.proxy.message.waiting_page import Template
from tests.activator.proxy.http2.peers import Http2World
from tests.activator.proxy.world import Client, World, about, answer_whole, ok, request, until
from tests.conftest import in_virtual_time
from throttler.model import AppProtocol, Policies
from throttler.request_policies import RequestPolicies, WaitMode, WakeRules, WhileWaiting

NAVIGATION = b"Sec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\n"
PAGE, REFUSE, HOLD = WaitMode.PAGE, WaitMode.REFUSE, WaitMode.HOLD


def policies(*modes: WaitMode, **more: Any) -> Policies:
    return Policies(requests=RequestPolicies(waiting=WhileWaiting(modes, **more)))


def field(answer: Any, name: bytes) -> bytes:
    """Return the only value of a field; empty without one."""
    values = [value for key, value in answer.headers if key.lower() == name]
    assert len(values) <= 1
    return values[0] if values else b""


async def waiter(world: World, data: bytes) -> Client:
    before = world.waiting
    client = await world.client()
    client.send(data)
    await until(lambda: world.waiting == before + 1)
    return client


def cold_starts(world: World) -> list[dict[str, Any]]:
    return world.driver.cold_starts.views(world.revision().revision.id)


def modes(world: World) -> dict[str, int]:
    """Return the waiting requests by mode."""
    return {mode: count for mode, count in world.counters().waiting.items() if count}


# -- page ----------------------------------------------------------------------------------------


@in_virtual_time
async def test_a_browser_gets_a_page_after_a_second_of_waiting(world: World) -> None:
    world.revise(service="shop", policies=policies(PAGE))
    client = await waiter(world, request(fields=NAVIGATION))
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
    client = await waiter(world, data)
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
    assert cold_starts(world) == []
    pod = await world.pod()
    world.list(pod)
    await until(lambda: world.revision().statistics().healthy == 1)
    assert (await world.ask(request(fields=NAVIGATION + fields))).status == 200


@in_virtual_time
async def test_without_the_page_a_prefetch_waits_as_ever(world: World) -> None:
    world.revise(policies=policies(HOLD))
    client = await waiter(world, request(fields=NAVIGATION + b"Sec-Purpose: prefetch\r\n"))
    client.abort()


@in_virtual_time
async def test_a_pod_in_time_serves_the_browser(world: World) -> None:
    world.revise(policies=policies(PAGE))
    client = await waiter(world, request(fields=NAVIGATION))
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
    browser = await waiter(world, request(b"/page", fields=NAVIGATION))
    later = await waiter(world, request(b"/later"))
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
    browser = await waiter(world, request(fields=NAVIGATION))
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
    (tracker,) = world.revision().pods()
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
    client = await waiter(world, request(fields=NAVIGATION))
    await world.clock_moves(5)
    assert bytes(client.received) == b""
    client.abort()
    await world.clock_moves(76)


@in_virtual_time
async def test_open_pages_and_a_pod_are_one_cold_start(world: World) -> None:
    world.revise(policies=policies(PAGE))
    for _ in range(3):
        client = await waiter(world, request(fields=NAVIGATION))
        assert (await client.answer()).status == 503
        client.close()
        await world.clock_moves(3)
    assert cold_starts(world)[0]["outcome"] is None
    pod = await world.pod()
    world.list(pod)
    await until(lambda: world.revision().has_free_slot)
    (cold_start,) = cold_starts(world)
    assert (cold_start["outcome"], cold_start["requests"]) == ("page", 3)
    assert list(cold_start["phases"]) == ["address", "probe-passed"]
    assert cold_start["seconds"] == about(12.0, within=0.5)
    await world.clock_moves(76)


@in_virtual_time
async def test_a_cold_start_ends_when_its_clients_do_not_return(world: World) -> None:
    world.revise(policies=policies(REFUSE))
    assert (await world.ask()).status == 503
    await world.clock_moves(13)
    assert [each["outcome"] for each in cold_starts(world)] == [None]
    await world.clock_moves(2)
    assert [each["outcome"] for each in cold_starts(world)] == ["wait-refused"]


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
