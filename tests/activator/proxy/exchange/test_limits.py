"""A revision's three time-outs: whole duration, beginning of the response, silence."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import Any

import h11
import pytest

from activator.plain.revisions import revision_of
from activator.plain.service import parse
from activator.proxy.exchange.limits import TimeLimits, name_of, seconds_to_response
from tests.activator.plain.objects import service
from tests.activator.proxy.world import (
    TO_REVISION,
    Client,
    Pod,
    World,
    about,
    ok,
    request,
    until,
)
from tests.conftest import in_virtual_time
from throttler.model import AppProtocol, Policies, Revision, RevisionID, RevisionKind
from throttler.request_policies import RequestPolicies, WaitMode, WhileWaiting

TEXT = b"activator request timeout"


def revision(**spec: Any) -> Revision:
    return replace(Revision(RevisionID("ns", "rev")), **spec)


# -- decisions -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "idle", "from_arrival", "within"),
    [
        (0.0, 0.0, False, 10.0),
        (7.0, 0.0, False, 7.0),
        (20.0, 0.0, False, 10.0),
        (0.0, 5.0, False, 10.0),
        (0.0, 5.0, True, 5.0),
        (3.0, 5.0, True, 3.0),
    ],
)
def test_a_response_must_begin_within_the_least_limit(start, idle, from_arrival, within):
    spec = revision(timeout=10.0, response_start_timeout=start, idle_timeout=idle)
    assert seconds_to_response(spec, from_arrival) == within


def test_no_time_at_all_is_a_time_too():
    assert seconds_to_response(revision(timeout=0.0, response_start_timeout=3.0), False) == 0.0


def test_silence_counts_from_the_last_sign_of_life():
    limits = TimeLimits(revision(idle_timeout=5.0))
    limits.sent(100.0, expects_continue=False)
    assert not limits.is_idle(104.9)
    limits.touch(104.9)
    assert limits.next() == 109.9
    assert not limits.is_idle(109.8)
    assert limits.is_idle(109.9)


def test_no_idle_timeout_is_no_limit():
    limits = TimeLimits(revision())
    limits.sent(0.0, expects_continue=False)
    assert limits.next() == inf
    assert not limits.is_idle(1e9)


def test_a_100_is_due_after_a_second_once():
    limits = TimeLimits(revision())
    limits.sent(10.0, expects_continue=True)
    assert limits.next() == 11.0
    assert not limits.wants_continue(10.9)
    assert limits.wants_continue(11.0)
    limits.continued()
    assert limits.next() == inf


@pytest.mark.parametrize(
    ("start", "idle", "name", "annotation"),
    [
        (0.0, False, "timeoutSeconds 10", "timeout-seconds 10"),
        (7.0, False, "responseStartTimeoutSeconds 7", "response-start-timeout-seconds 7"),
        (7.0, True, "idleTimeoutSeconds 2.5", "idle-timeout-seconds 2.5"),
        (10.0, False, "timeoutSeconds 10", "timeout-seconds 10"),
    ],
)
def test_the_limit_is_named_as_the_revision_or_the_service_has_it(start, idle, name, annotation):
    spec = revision(timeout=10.0, response_start_timeout=start, idle_timeout=2.5)
    assert name_of(spec, idle=idle) == name
    service = replace(spec, id=RevisionID("ns", "rev", RevisionKind.SERVICE))
    assert name_of(service, idle=idle) == annotation


# -- over sockets --------------------------------------------------------------------------------


def silent(pod):
    """Let a pod accept requests, and send nothing."""
    pod.on_data = lambda connection: None


async def silent_request(world: World, **limits: Any) -> tuple[Pod, Client]:
    """Return a silent pod with these limits, and the client whose request it has."""
    pod = await world.serving(**limits)
    silent(pod)
    client = await world.client()
    client.send(request())
    await until(lambda: pod.requests)
    return pod, client


@in_virtual_time
async def test_a_response_that_does_not_begin_in_time_is_a_504_that_says_which_limit(world):
    pod = await world.serving(timeout=10.0, response_start_timeout=0.2)
    silent(pod)
    answer = await world.ask()
    assert (answer.status, answer.body) == (504, TEXT)
    assert answer.get(b"Activator-Reason") == b"response-late; responseStartTimeoutSeconds 0.2"
    await until(lambda: not pod.open)


async def test_waiting_for_a_pod_uses_up_the_time_to_begin(world):
    world.revise(timeout=10.0, response_start_timeout=0.2)
    started = world.now()
    answer = await world.ask()
    assert (answer.status, answer.body) == (504, TEXT)
    assert answer.get(b"Activator-Reason") == b"no-endpoints"
    assert world.now() - started == about(0.2, within=0.05)


@in_virtual_time
@pytest.mark.parametrize(
    "begun", [b"HTTP/1.1 103 Early Hints\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"]
)
async def test_a_response_that_has_begun_is_not_late_any_more(world, begun):
    """TestResponseStartTimeoutAfterResponseStarted."""
    pod, client = await silent_request(world, timeout=10.0, response_start_timeout=0.2)
    pod.connections[0].write(begun)
    await world.clock_moves(0.4)
    pod.connections[0].write(b"hello" if b"200" in begun else ok(b"hello"))
    assert (await client.answer()).body == b"hello"


@in_virtual_time
async def test_begun_or_not_the_whole_duration_is_a_limit(world):
    pod, client = await silent_request(world, timeout=0.5, response_start_timeout=0.2)
    pod.connections[0].write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\npart")
    await client.ended()
    assert client.received.endswith(b"part")
    with pytest.raises(h11.RemoteProtocolError, match="without sending complete"):
        await client.answer()


@in_virtual_time
async def test_a_pod_that_says_nothing_for_too_long_is_a_504(world):
    pod = await world.serving(timeout=10.0, idle_timeout=0.2)
    silent(pod)
    answer = await world.ask()
    assert (answer.status, answer.body) == (504, TEXT)
    assert answer.get(b"Activator-Reason") == b"response-late; idleTimeoutSeconds 0.2"


@in_virtual_time
async def test_each_byte_of_a_response_renews_the_idle_time(world):
    """TestIdleTimeoutHandler: writes just within the limit arrive whole."""
    pod, client = await silent_request(world, timeout=10.0, idle_timeout=0.3)
    await world.clock_moves(0.2)
    pod.connections[0].write(b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n")
    for piece in (b"foo", b"bar", b"baz", b"end"):
        await world.clock_moves(0.2)
        pod.connections[0].write(piece)
    assert (await client.answer()).body == b"foobarbazend"


@in_virtual_time
@pytest.mark.parametrize("framing", [b"Content-Length: 100", b"Transfer-Encoding: chunked"])
async def test_a_response_that_falls_silent_is_broken_off_not_ended(world, framing):
    pod, client = await silent_request(world, timeout=10.0, idle_timeout=0.2)
    pod.connections[0].write(b"HTTP/1.1 200 OK\r\n%b\r\n\r\n3\r\nfoo\r\n" % framing)
    await client.ended()
    assert client.received.endswith(b"foo\r\n")
    assert TEXT not in client.received
    with pytest.raises(h11.RemoteProtocolError, match="without sending complete"):
        await client.answer()


@in_virtual_time
async def test_a_client_of_http_1_0_gets_a_reset(world):
    """The end of the connection is the only sign for the end of a response."""
    pod = await world.serving(timeout=10.0, idle_timeout=0.2)
    silent(pod)
    client = await world.client()
    client.send(request().replace(b"HTTP/1.1", b"HTTP/1.0"))
    await until(lambda: pod.requests)
    pod.connections[0].write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nfoo\r\n")
    await client.ended()
    assert client.reset


@in_virtual_time
async def test_waiting_for_a_pod_is_not_charged_to_the_idle_time(world):
    pod = await world.pod()
    world.revise(timeout=10.0, idle_timeout=0.2)
    client = await world.client()
    client.send(request())
    await until(lambda: world.waiting)
    await world.clock_moves(0.5)
    world.list(pod)
    assert (await client.answer()).status == 200


async def test_unless_it_is_to_be_as_in_knative(new_world):
    world = await new_world(idle_from_arrival=True)
    world.revise(timeout=10.0, idle_timeout=0.2)
    assert (await world.ask()).status == 504


@in_virtual_time
async def test_a_client_that_does_not_read_is_not_the_pods_silence(world):
    size = 16 << 20
    pod = await world.serving(timeout=10.0, idle_timeout=0.2, answer=ok(b"x" * size))
    client = await world.client(4096)
    client.transport.pause_reading()
    client.send(request())
    await until(lambda: any(downstream.handler.is_full() for downstream in world.proxy.connections))
    await world.clock_moves(0.5)
    client.widen()
    client.transport.resume_reading()
    await client.size(size)
    assert pod.requests


SWITCH = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n"
UPGRADE = request(fields=b"Connection: Upgrade\r\nUpgrade: echo\r\n")


async def tunnel(world, **limits):
    """Return both ends of a connection that has changed its protocol."""
    pod = await world.serving(timeout=10.0, **limits)
    pod.on_data = lambda connection: None
    client = await world.client()
    client.send(UPGRADE)
    await until(lambda: pod.connections and pod.connections[0].received)
    connection = pod.connections[0]
    connection.raw = True
    connection.write(SWITCH)
    await client.take(len(SWITCH))
    return client, connection


@in_virtual_time
async def test_a_101_is_the_beginning_of_a_response(world):
    client, connection = await tunnel(world, response_start_timeout=0.2)
    await world.clock_moves(0.5)
    connection.write(b"late")
    assert await client.take(4) == b"late"


@in_virtual_time
@pytest.mark.parametrize("sender", ["client", "pod"])
async def test_frames_in_either_direction_renew_the_idle_time(world, sender):
    client, connection = await tunnel(world, idle_timeout=0.3)
    for _ in range(4):
        await world.clock_moves(0.2)
        client.send(b"frame") if sender == "client" else connection.write(b"frame")
    await until(lambda: (connection.received + client.received).count(b"frame") == 4)
    assert not client.eof


@in_virtual_time
async def test_a_silent_tunnel_is_cut(world):
    """TestWebSocketWithTimeout."""
    client, connection = await tunnel(world, idle_timeout=0.2)
    await client.ended()
    await until(lambda: connection.closed)


# -- a limit of the wait of its own --------------------------------------------------------------


def waiting(seconds: float) -> Policies:
    return Policies(requests=RequestPolicies(wait_seconds=seconds))


async def test_the_time_out_counts_from_the_assignment(world):
    spec = {"timeout": 20.0, "policies": waiting(100.0)}
    world.revise(**spec)
    client = await world.client()
    client.send(request())
    await world.clock_moves(90)
    pod = await world.pod()
    pod.on_data = lambda connection: None
    world.revise(pod, **spec)
    answer = await client.answer()
    assert world.now_since_start() == about(110.0, 0.1)
    assert answer.get(b"activator-reason") == b"response-late; timeoutSeconds 20"


async def test_the_wait_ends_by_its_own_limit(world):
    for seconds in (5.0, 100.0):
        began = world.now()
        world.revise(timeout=20.0, policies=waiting(seconds))
        answer = await world.ask()
        assert world.now() - began == about(seconds, 0.1)
        reason = b"no-endpoints; wait-seconds %d" % seconds
        assert (answer.status, answer.get(b"activator-reason")) == (504, reason)


async def test_a_request_without_a_wait_has_the_whole_time_out(world):
    pod = await world.serving(timeout=20.0, policies=waiting(5.0))
    pod.on_data = lambda connection: None
    answer = await world.ask()
    assert world.now_since_start() == about(20.0, 0.1)
    assert answer.get(b"activator-reason") == b"response-late; timeoutSeconds 20"


async def test_a_requeue_keeps_the_limit_of_the_wait(world):
    spec = {"timeout": 20.0, "policies": waiting(10.0)}
    pod = await world.serving(**spec)
    pod.on_data = lambda connection: None
    client = await world.client()
    client.send(request())
    await until(lambda: len(pod.requests) == 1)
    await world.clock_moves(8)
    world.healthy = lambda tracker: False
    pod.connections[-1].reset()
    answer = await client.answer()
    assert world.now_since_start() == about(10.0, 0.1)
    assert answer.status == 504
    assert b"wait-seconds 10" in (answer.get(b"activator-reason") or b"")


async def test_a_requeued_request_has_the_whole_time_out_again(world):
    spec = {"timeout": 20.0, "policies": waiting(10.0)}
    pod = await world.serving(**spec)
    pod.on_data = lambda connection: None
    client = await world.client()
    client.send(request())
    await until(lambda: len(pod.requests) == 1)
    await world.clock_moves(8)
    pod.connections[-1].reset()
    answer = await client.answer()
    assert world.now_since_start() == about(28.0, 0.2)
    assert answer.get(b"activator-reason") == b"response-late; timeoutSeconds 20"


async def test_a_response_that_has_begun_has_the_time_out_from_the_assignment(world):
    spec = {"timeout": 20.0, "response_start_timeout": 5.0, "policies": waiting(100.0)}
    world.revise(**spec)
    client = await world.client()
    client.send(request())
    await world.clock_moves(50)
    pod = await world.pod()
    pod.on_data = lambda connection: None
    world.revise(pod, **spec)
    await until(lambda: len(pod.requests) == 1)
    pod.connections[-1].write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n")
    await client.ended()
    assert world.now_since_start() == about(70.0, 0.1)


async def test_a_client_of_grpc_gives_up_before_the_limit_of_the_wait(http2):
    http2.list(timeout=20.0, policies=waiting(100.0))
    client = await http2.client()
    number = client.ask(b"/", b"POST", (b"grpc-timeout", b"30S"))
    await http2.world.clock_moves(29.9)
    assert number not in client.messages
    await http2.world.clock_moves(0.2)
    assert (await client.answer(number)).status == 504


# -- the time-out of a Service ---------------------------------------------------------------------

SHOP = request().replace(TO_REVISION, b"").replace(b"example.com", b"shop")
UPGRADE_SHOP = UPGRADE.replace(TO_REVISION, b"").replace(b"example.com", b"shop")
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 12\r\n\r\n"


async def asked(world, sent=SHOP, **spec):
    """Return a client of a Service, and its request's connection to a pod that is silent."""
    pod = await world.pod()
    silent(pod)
    world.serve(pod, hosts=("shop",), **spec)
    client = await world.client()
    client.send(sent)
    await until(lambda: pod.connections and pod.connections[-1].received)
    return client, pod.connections[-1]


@pytest.mark.parametrize("spec", [{}, {"idle_timeout": 1000.0}, {"response_start_timeout": 5.0}])
@pytest.mark.parametrize(("sent", "begun"), [(SHOP, STREAM), (UPGRADE_SHOP, SWITCH)])
async def test_the_time_out_of_a_service_ends_with_the_first_byte(world, sent, begun, spec):
    client, pod = await asked(world, sent, timeout=10.0, **spec)
    pod.raw = begun is SWITCH
    pod.write(begun)
    await client.size(len(begun))
    await world.clock_moves(900)
    pod.write(b"data: late\n\n")
    await until(lambda: client.received.endswith(b"data: late\n\n"))


async def test_the_idle_time_out_of_a_service_goes_on(world):
    client, pod = await asked(world, timeout=10.0, idle_timeout=5.0)
    pod.write(STREAM)
    await client.ended()
    assert world.now_since_start() == about(5.0, 0.1)


async def test_an_interim_response_does_not_end_the_time_out_of_a_service(world):
    client, pod = await asked(world, timeout=10.0, response_start_timeout=5.0)
    pod.write(b"HTTP/1.1 103 Early Hints\r\n\r\n")
    assert (await client.answer()).status == 504
    assert world.now_since_start() == about(10.0, 0.1)


async def test_the_time_out_of_a_service_goes_on_behind_an_early_head(world):
    policies = Policies(requests=RequestPolicies(waiting=WhileWaiting((WaitMode.HEARTBEAT,))))
    spec = {"timeout": 40.0, "policies": policies}
    world.serve(hosts=("shop",), **spec)
    client = await world.client()
    client.send(SHOP.replace(b"\r\n\r\n", b"\r\nAccept: text/event-stream\r\n\r\n"))
    await world.in_time(lambda: b": waiting" in client.received)
    pod = await world.pod()
    silent(pod)
    world.serve(pod, hosts=("shop",), **spec)
    await world.in_time(lambda: b"event: error" in client.received)
    assert world.now_since_start() == about(40.0, 0.1)


@pytest.mark.parametrize("spec", [{}, {"idle_timeout": 1000.0}])
async def test_a_stream_of_grpc_has_the_deadline_of_its_client_alone(http2, spec):
    def begin(peer, stream, message):
        if message.ended:
            peer.headers(stream, [(b":status", b"200")])

    world, pod = http2.world, await http2.pod()
    pod.on_message = begin
    world.serve(pod, hosts=("shop",), protocol=AppProtocol.H2C, timeout=10.0, **spec)
    client = await http2.client()
    head = [(b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/s/m")]
    head += [(b":authority", b"shop"), (b"content-type", b"application/grpc")]
    client.headers(1, head, end=True)
    client.headers(3, [*head, (b"grpc-timeout", b"500S")], end=True)
    await world.in_time(lambda: 3 in client.messages and client.messages[3].over)
    assert world.now_since_start() == about(500.0, 0.1)
    assert dict(client.messages[3].trailers)[b"grpc-status"] == b"4"
    pod.connections[0].headers(1, [(b"grpc-status", b"0")], end=True)
    assert dict((await client.answer(1)).trailers)[b"grpc-status"] == b"0"


async def test_a_time_out_of_zero_is_no_limit_for_a_service(world):
    found: Any = parse(service({"timeout_seconds": "0"}))
    client, pod = await asked(world, timeout=revision_of(found, found.port, None).timeout)
    await world.clock_moves(1_000_000)
    pod.write(ok(b"late"))
    assert (await client.answer()).body == b"late"
