"""Peeks of waiting pages, and how far the start of a revision is."""

from __future__ import annotations

import pytest

from activator.proxy.exchange.wait import phase_of, start_of
from activator.proxy.message.waiting_page import StartPhase
from tests.activator.authorization.servers import (
    ALLOW,
    FORBIDDEN,
    UNAUTHORIZED,
    auth_server,
    authorizing,
)
from tests.activator.proxy.exchange.test_wait import NAVIGATION, PAGE, field, policies
from tests.activator.proxy.http2.peers import Http2World
from tests.activator.proxy.world import World, answer_whole, ok, request, until
from tests.conftest import in_virtual_time
from throttler.model import Policies
from throttler.request_policies import (
    Authorization,
    RequestPolicies,
    WaitMode,
    WakeRules,
    WhileWaiting,
)

PEEK = request(method=b"HEAD", fields=b"Activator-Peek: 1\r\n")


@in_virtual_time
async def test_a_peek_says_whether_a_request_would_be_served_now(world: World) -> None:
    world.revise(policies=policies(PAGE))
    asleep = await world.ask(PEEK, b"HEAD")
    assert asleep.status == 503
    assert field(asleep, b"activator-phase") == b"asked"
    assert field(asleep, b"cache-control") == b"no-store"
    pod = await world.pod()
    world.list(pod)
    await until(lambda: world.revision().has_free_slot)
    awake = await world.ask(PEEK, b"HEAD")
    assert (awake.status, field(awake, b"activator-phase")) == (200, b"")
    assert not pod.requests
    assert world.counters().outcomes["peek"] == 2
    await world.clock_moves(76)


@in_virtual_time
async def test_a_peek_is_never_queued_and_all_open_pages_are_one_request_of_load(
    world: World,
) -> None:
    world.revise(policies=policies(PAGE, page_after=0))
    assert (await world.ask(request(fields=NAVIGATION))).status == 503
    (load,) = world.loads.values()
    for _ in range(10):
        assert load.now == 1
        await world.clock_moves(2)
        assert (await world.ask(PEEK, b"HEAD")).status == 503
        assert world.waiting == 0
    assert load.ever == 2  # the request for the page, and the lease
    await world.clock_moves(74)  # a hidden tab peeks once a minute
    assert load.now == 1
    await world.clock_moves(2)
    assert load.now == 0


@pytest.mark.untraced
@in_virtual_time
@pytest.mark.parametrize(
    "fields",
    [
        b"Activator-Peek: 1\r\nActivator-Peek: 1\r\n",
        b"Activator-Peek: 11\r\n",
        b"Activator-Peek:\r\n",
        b"Activator-Peek: " + 60_000 * b"1" + b"\r\n",
        b"Activator_Peek: 1\r\n",
        b"X-Activator-Peek: 1\r\n",
    ],
)
async def test_a_forged_peek_is_a_request_like_any_other(world: World, fields: bytes) -> None:
    world.revise(policies=policies(PAGE))
    client = await world.client()
    client.send(request(method=b"HEAD", fields=fields))
    await until(lambda: world.waiting == 1)
    client.abort()
    await world.idle()


@in_virtual_time
@pytest.mark.parametrize("method", [b"GET", b"POST", b"OPTIONS"])
async def test_only_head_requests_peek(world: World, method: bytes) -> None:
    world.revise(policies=policies(PAGE))
    client = await world.client()
    client.send(request(method=method, fields=b"Activator-Peek: 1\r\n"))
    await until(lambda: world.waiting == 1)
    client.abort()
    await world.idle()


@pytest.mark.parametrize("chosen", [Policies(), policies(WaitMode.REFUSE), policies(WaitMode.HOLD)])
async def test_a_service_without_pages_gets_the_field_itself(
    world: World, chosen: Policies
) -> None:
    pod = await world.serving(answer=ok(b""), policies=chosen)
    assert (await world.ask(PEEK, b"HEAD")).status == 200
    assert pod.requests[0].all(b"activator-peek") == [b"1"]


@in_virtual_time
async def test_a_peek_passes_the_rules_of_the_request_that_the_page_replaced(world: World) -> None:
    waiting = WhileWaiting((PAGE,))
    rules = WakeRules(methods=(b"GET",), required_header=b"authorization")
    world.revise(policies=Policies(requests=RequestPolicies(waiting=waiting, wake=rules)))
    denied = await world.ask(PEEK, b"HEAD")
    assert field(denied, b"activator-reason").startswith(b"asleep")
    assert world.busy == {}
    allowed = PEEK.replace(b"\r\n\r\n", b"\r\nAuthorization: a\r\n\r\n")
    assert field(await world.ask(allowed, b"HEAD"), b"activator-phase") == b"asked"
    assert world.busy == {"loads": 1}
    await world.clock_moves(76)


@in_virtual_time
async def test_a_peek_in_http2(world: World) -> None:
    http2 = Http2World(world)
    http2.list(policies=policies(PAGE))
    client = await http2.client()
    answer = await client.answer(client.ask(b"/", b"HEAD", (b"activator-peek", b"1")))
    assert (answer.status, answer.all(b"activator-phase")) == (503, [b"asked"])
    http2.close()
    await world.clock_moves(76)


@in_virtual_time
async def test_a_peek_needs_the_permission_of_the_authorization_server(world: World) -> None:
    async with auth_server() as server, authorizing(world.now) as authorizer:
        world.proxy.services.authorizer = authorizer
        allowed = RequestPolicies(
            waiting=WhileWaiting((PAGE,)), authorization=Authorization(server.url)
        )
        world.revise(policies=Policies(requests=allowed))
        server.answer = FORBIDDEN
        assert (await world.ask(PEEK, b"HEAD")).status == 403
        assert world.busy == {}
        server.answer = UNAUTHORIZED
        denied = await world.ask(PEEK, b"HEAD")
        assert denied.status == 403
        assert b"www-authenticate" not in dict(denied.headers)
        server.answer = ALLOW
        answer = await world.ask(PEEK, b"HEAD")
        assert field(answer, b"activator-phase") == b"asked"
        assert (world.waiting, world.busy) == (0, {"loads": 1})
        await world.clock_moves(76)


@pytest.mark.untraced
@in_virtual_time
async def test_the_pages_of_a_start_that_fails_end_at_the_time_out(world: World) -> None:
    """A service that never starts: no endless reload, and the reason."""
    world.revise(policies=policies(PAGE, page_after=0), timeout=300.0)
    assert (await world.ask(request(fields=NAVIGATION))).status == 503
    for _ in range(149):
        await world.clock_moves(2)
        assert (await world.ask(PEEK, b"HEAD")).status == 503
    await world.clock_moves(3)
    ended = await world.ask(PEEK, b"HEAD")
    assert (ended.status, field(ended, b"activator-phase")) == (504, b"failed")
    assert field(ended, b"activator-reason").startswith(b"no-endpoints")
    again = await world.ask(request(fields=NAVIGATION))
    assert again.status == 504
    assert b"did not start in time (no-endpoints)" in again.body
    assert world.counters().outcomes["timed-out"] == 1
    assert world.driver.cold_starts.failed(world.revision()) == 1
    await world.clock_moves(76)
    assert (await world.ask(request(fields=NAVIGATION))).status == 503, "a new start"
    await world.clock_moves(76)
    assert world.driver.cold_starts.failed(world.revision()) == 2


async def test_the_phase_follows_the_start(world: World) -> None:
    world.healthy = lambda pod: False
    world.revise(container_concurrency=1, service="shop")
    throttler = world.revision()
    assert phase_of(throttler) is StartPhase.ASKED
    pod = await world.pod()
    world.list(pod)
    assert phase_of(throttler) is StartPhase.LISTED
    (tracker,) = throttler.backends.pods.values()
    world.driver.probe_failed(tracker, tracker.epoch, "refused")
    assert phase_of(throttler) is StartPhase.PROBED
    start = start_of(world.driver, throttler, world.now())
    assert (start.name, start.namespace, start.reason.value) == ("shop", "ns", "probe-failing")
    world.driver.probe_passed(tracker, tracker.epoch)
    pod.on_data = lambda connection: None
    client = await world.client()
    client.send(request())
    await until(lambda: pod.requests)
    assert phase_of(throttler) is StartPhase.BUSY
    answer_whole(pod.connections[0])
    assert (await client.answer()).status == 200
