"""The life of a request: it is admitted, sent to a pod, and gets its response."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from activator.proxy.pods.pool import PoolLimits
from tests.activator.proxy.world import (
    PodConnection,
    World,
    about,
    answer_whole,
    ok,
    own_world,
    request,
    send_pieces,
    turns,
    until,
)
from tests.conftest import both_loops, in_virtual_time
from tests.rows import all_pairs
from throttler.model import AdaptiveMode, HashKey, KeyKind, Overflow, Policies

#: More than the kernel's buffers between two sockets of this machine take.
LARGE = 12 << 20


# -- a pod that fails: when a request is sent again ----------------------------------------------


@both_loops
async def test_a_refused_connection_puts_the_request_back_for_another_pod(world):
    pods = [await world.pod(), await world.pod()]
    gone, other = sorted(pods, key=lambda pod: pod.endpoint)  # the policy takes the first free pod
    other.answer = ok(b"other")
    world.revise(gone, other, container_concurrency=1)
    await until(lambda: world.revision().statistics().healthy == 2)
    await gone.refuse()

    for _ in range(4):
        assert (await world.ask(request(b"/", b"POST", body=b"x"), b"POST")).body == b"other"

    assert world.counters().requeues == {"connect-failed": 1}


async def test_a_request_that_no_pod_takes_waits_first_in_line(world):
    pod = await world.pod()
    world.revise(pod, container_concurrency=1)
    await until(lambda: world.revision().statistics().healthy == 1)
    await pod.refuse()
    first = await world.client()
    first.send(request(b"/first", b"POST", body=b"x"))
    await until(lambda: world.waiting == 1)
    second = await world.client()
    second.send(request(b"/second"))
    await until(lambda: world.waiting == 2)

    await pod.listen()
    (tracker,) = world.revision().backends.pods.values()
    world.driver.probe_passed(tracker, tracker.epoch)

    assert (await first.answer()).status == 200
    assert (await second.answer()).status == 200
    assert [seen.target for seen in pod.requests] == [b"/first", b"/second"]


@in_virtual_time
async def test_a_connect_without_a_reply_of_the_pod_times_out(new_world):
    world = await new_world(pool=PoolLimits(connect_timeout=0.2))
    hole, other = await world.unreachable(), await world.pod()
    world.revise(hole, other, container_concurrency=1)
    await until(lambda: world.revision().statistics().healthy == 2)
    clients = [await world.client() for _ in range(2)]
    started = world.now()
    for client in clients:
        client.send(request(b"/", b"POST", body=b"x"))

    for client in clients:
        assert (await client.answer()).status == 200

    assert world.now() - started == about(0.2, within=0.15)
    assert world.counters().requeues == {"connect-timeout": 1}


async def test_the_deadline_holds_while_a_connection_is_opened(new_world):
    world = await new_world(pool=PoolLimits(connect_timeout=5.0))
    hole = await world.unreachable()
    world.revise(hole, timeout=0.3)
    await until(lambda: world.revision().statistics().healthy == 1)
    client = await world.client()
    started = world.now()
    client.send(request())

    answer = await client.answer()

    assert (answer.status, answer.body) == (504, b"activator request timeout")
    assert answer.get(b"activator-reason") == b"response-late; timeoutSeconds 0.3; still connecting"
    assert world.now() - started == about(0.3, within=0.15)


@both_loops
async def test_a_client_that_leaves_while_a_connection_is_opened_frees_the_slot(new_world):
    world = await new_world(pool=PoolLimits(connect_timeout=5.0))
    hole = await world.unreachable()
    world.revise(hole, container_concurrency=1)
    await until(lambda: world.revision().statistics().healthy == 1)
    client = await world.client()
    client.send(request())
    await until(lambda: world.in_flight == 1)
    client.abort()
    await world.idle()


@both_loops
async def test_an_idle_connection_that_the_pod_has_closed_is_not_used(world):
    pod = await world.serving()
    for method in (b"POST", b"GET", b"PUT"):
        assert (await world.ask(request(b"/", method, body=b"x"), method)).status == 200
        for connection in pod.open:
            connection.close()
        # No turn of the loop in between: only the kernel knows of the close yet.
        assert (await world.ask(request(b"/", method, body=b"x"), method)).status == 200
    assert not world.counters().outcomes["upstream-failed"]


@both_loops
@pytest.mark.parametrize("end", ["close", "reset"])
async def test_a_pod_that_accepts_and_drops_has_not_seen_the_request(world, end):
    pod, drops = await world.pod(), await world.pod()
    drops.on_connect = lambda connection: getattr(connection, end)()
    world.healthy = lambda tracker: not tracker.probe.failures
    world.revise(drops, container_concurrency=1)
    await until(lambda: world.revision().statistics().healthy == 1)
    client = await world.client()
    client.send(request())
    await until(lambda: world.waiting or drops.connections)
    await turns(30)
    world.list(pod)

    answer = await client.answer()

    assert answer.status == 200
    assert len(pod.requests) == 1


REQUESTS = {
    "GET": request(b"/x"),
    "HEAD": request(b"/x", b"HEAD"),
    "OPTIONS": request(b"/x", b"OPTIONS"),
    "PUT": request(b"/x", b"PUT", body=b"small body"),
    "PUT-chunked": request(b"/x", b"PUT", fields=b"Transfer-Encoding: chunked\r\n")
    + b"5\r\nsmall\r\n0\r\n\r\n",
    "PUT-large": request(b"/x", b"PUT", body=b"b" * 200_000),
    "POST": request(b"/x", b"POST"),
    "POST-body": request(b"/x", b"POST", body=b"small body"),
    "POST-large": request(b"/x", b"POST", body=b"b" * 200_000),
    "PATCH": request(b"/x", b"PATCH", body=b"small body"),
    "FROB": request(b"/x", b"FROB"),
}
OFFSETS = ("0", "1", "in-head", "head", "in-body", "whole")


@both_loops
@pytest.mark.parametrize("name", REQUESTS)
async def test_a_pod_that_closes_anywhere_in_a_request(anyio_backend, name):
    """The proxy repeats an idempotent request while it holds all of it; otherwise it sends 502."""
    for row in all_pairs(OFFSETS, ("close", "reset"), (False, True)):
        async with own_world(*row) as world:
            await closes_in_a_request(world, name, *row)


async def closes_in_a_request(world: World, name: str, offset: str, end: str, reused: bool) -> None:
    pod = await world.serving()
    wire = REQUESTS[name]
    method = name.partition("-")[0].encode()
    if reused:
        assert (await world.ask()).status == 200
    before = len(pod.connections) - reused
    total = 0

    def cut(connection: PodConnection) -> None:
        nonlocal total
        received = connection.received[request_at(connection) :]
        head = received.find(b"\r\n\r\n") + 4
        reached = {
            "0": True,
            "1": len(received) >= 1,
            "in-head": len(received) >= 50,
            "head": head > 4,
            "in-body": len(received) > head > 4,
            "whole": connection.requests[-1].whole if connection.requests else False,
        }[offset]
        if reached or (connection.requests and connection.requests[-1].whole):
            total += 1
            pod.on_data = answer_whole
            getattr(connection, end)()

    pod.on_data = cut
    client = await world.client()
    client.send(wire)
    answer = await client.answer(method)

    client.end_sending()
    await client.ended()
    assert client.received.count(b"HTTP/1.1 ") == 1, "exactly one answer"
    seen = [s for c in pod.connections[before:] for s in c.requests if s.target == b"/x"]
    if method in (b"GET", b"HEAD", b"OPTIONS") or name in ("PUT", "PUT-chunked"):
        assert answer.status == 200
        assert sum(s.whole for s in seen) <= 2
    elif name == "PUT-large":
        assert answer.status in (200, 502)
    else:
        assert answer.status == 502
        assert len(seen) <= 1, "what may have had an effect is sent once"


def request_at(connection: PodConnection) -> int:
    """Return where the last request on a reused connection begins."""
    return max(0, connection.received.rfind(b" /x HTTP/1.1") - 10)


@both_loops
@pytest.mark.parametrize("end", ["close", "reset"])
async def test_a_pod_that_closes_anywhere_in_its_response(world, end):
    """One byte of a response proves that the pod has the request: the proxy never repeats it."""
    answer = ok(b"hello", b"X-A: b\r\n")
    for cut_at in range(1, len(answer)):
        pod = await world.serving()

        def cut(connection: PodConnection, cut_at: int = cut_at) -> None:
            connection.write(answer[:cut_at])
            world.loop.call_later(0.001, getattr(connection, end))

        pod.on_data = cut
        client = await world.client()
        client.send(request())
        await client.ended_or_answered()
        head = answer.index(b"\r\n\r\n") + 4
        if cut_at < head:
            assert (await client.answer()).status == 502, cut_at
        else:
            await client.ended()
            assert b"502" not in client.received, cut_at
        assert len(pod.requests) == 1, cut_at
        client.abort()


async def test_a_pod_that_always_closes_ends_in_502_after_some_tries(world):
    pod = await world.serving()
    world.healthy = lambda tracker: True
    pod.on_data = lambda connection: connection.close()
    client = await world.client()
    client.send(request())
    assert (await client.answer()).status == 502
    assert 1 < len(pod.requests) <= 4


@both_loops
@pytest.mark.parametrize(
    "wire",
    [
        request(b"/x"),
        request(b"/x", b"POST", body=b"small body"),
        request(b"/x", b"PUT", body=b"b" * 200_000),
        request(b"/x", fields=b"Connection: Upgrade\r\nUpgrade: websocket\r\n"),
    ],
    ids=["get", "post", "large-put", "websocket"],
)
async def test_a_connection_that_the_pod_closes_at_its_reuse_costs_no_request(world, wire):
    """The kernel knows of the close, the loop does not yet."""
    pod = await world.serving()
    assert (await world.ask()).status == 200
    (load,) = world.loads.values()
    load.calm()
    load.on_first = pod.connections[0].end_behind_the_loop
    client = await world.client()

    client.send(wire)

    assert (await client.answer()).status == 200
    assert [seen.target for seen in pod.requests] == [b"/", b"/x"]
    assert len(pod.connections) == 2


@both_loops
async def test_a_repeated_request_is_read_on_though_its_first_pod_was_full(new_world):
    world = await new_world(hold_bytes=64 << 20)
    pod = await world.pod(receive_buffer=4096)
    pod.on_connect = lambda connection: connection.transport.pause_reading()
    world.revise(pod)
    await until(lambda: world.revision().statistics().healthy == 1)
    client = await world.client()
    client.send(request(b"/", b"PUT", fields=b"Content-Length: %d\r\n" % (2 * LARGE)))
    await until(lambda: pod.connections)
    client.send(b"b" * 2 * LARGE)
    await turns(300)
    assert client.transport.get_write_buffer_size() > 0

    pod.on_connect = lambda connection: connection.widen()
    pod.connections[0].reset()

    assert (await client.answer()).status == 200
    assert len(pod.requests[-1].body) == 2 * LARGE


#: More than the kernel's buffers between two sockets of this machine take.


# -- which pod: requests with one key go to one pod ----------------------------------------------


async def test_requests_with_one_key_go_to_one_pod_whatever_their_connection(world):
    pods = [await world.pod() for _ in range(3)]
    policies = Policies("hash", HashKey(b"x-user"))
    world.revise(*pods, policies=policies)
    await until(lambda: world.revision().statistics().healthy == 3)
    for turn in range(2):
        for user in range(40):
            name = b"X-User" if turn else b"x-user"
            await world.ask(request(b"/%d" % user, fields=name + b": user-%d\r\n" % user))
    seen = [[request.target for request in pod.requests] for pod in pods]
    assert all(targets[: len(targets) // 2] * 2 == targets for targets in seen)
    assert all(seen)
    assert sum(map(len, seen)) == 80


async def test_the_policy_changes_while_the_activator_runs(world):
    pods = [await world.pod() for _ in range(2)]
    world.revise(*pods, policies=Policies("hash", HashKey(b"x-user")))
    await until(lambda: world.revision().statistics().healthy == 2)
    asking = request(fields=b"X-User: anna\r\n")
    for _ in range(4):
        await world.ask(asking)
    assert sorted(len(pod.requests) for pod in pods) == [0, 4]
    world.revise(*pods, policies=Policies("round-robin"))
    for _ in range(4):
        await world.ask(asking)
    assert sorted(len(pod.requests) for pod in pods) == [2, 6]


# -- which pod: requests of one client or session stay at one pod ---------------------------------

COOKIE = Policies(sticky=HashKey(kind=KeyKind.COOKIE))


async def sticky_pods(world, count, policies, **spec):
    """Return so many healthy pods; each responds with its number."""
    pods = [await world.pod() for _ in range(count)]
    for number, pod in enumerate(pods):
        pod.answer = ok(b"pod-%d" % number)
    world.revise(*pods, policies=policies, **spec)
    await until(lambda: world.revision().statistics().healthy == count)
    return pods


async def test_a_client_gets_a_cookie_that_leads_to_its_pod(world):
    pods = await sticky_pods(world, 3, COOKIE)
    first = await world.ask()
    cookie, *attributes = first.get(b"set-cookie").split(b"; ")
    name, _, token = cookie.partition(b"=")
    assert (name, len(token)) == (b"activator-pod", 24)
    assert attributes == [b"Path=/", b"HttpOnly", b"SameSite=Lax"]
    assert not any(pod.endpoint.address.encode() in cookie for pod in pods)
    for fields in (
        b"Cookie: %b\r\n" % cookie,
        b"Cookie: theme=dark; %b; x=y\r\n" % cookie,
        b"Cookie: theme=dark\r\nCookie: %b\r\n" % cookie,
    ):
        again = await world.ask(request(fields=fields))
        assert (again.body, again.get(b"set-cookie")) == (first.body, None)
    assert {pod.requests[0].body for pod in pods if pod.requests} == {b""}


@pytest.mark.parametrize(
    ("scheme", "secure"),
    [(b"https", True), (b"HTTPS, http", True), (b"http", False), (b"http, https", False)],
)
async def test_behind_an_ingress_with_tls_the_cookie_is_secure(world, scheme, secure):
    await sticky_pods(world, 1, COOKIE)
    first = await world.ask(request(fields=b"X-Forwarded-Proto: %b\r\n" % scheme))
    assert first.get(b"set-cookie").endswith(b"; Secure") is secure


async def test_a_cookie_for_a_pod_that_is_gone_is_replaced(world):
    pods = await sticky_pods(world, 2, COOKIE)
    first = await world.ask()
    cookie = first.get(b"set-cookie").partition(b";")[0]
    left = next(pod for number, pod in enumerate(pods) if b"pod-%d" % number != first.body)
    world.list(left)
    moved = await world.ask(request(fields=b"Cookie: %b\r\n" % cookie))
    assert (moved.status, moved.body == first.body) == (200, False)
    assert moved.get(b"set-cookie").partition(b";")[0] not in (b"", cookie)


@pytest.mark.parametrize(
    "fields",
    [
        b"Cookie: activator-pod=10.0.0.1:8012\r\n",
        b"Cookie: activator-pod=" + b"a" * 60_000 + b"\r\n",
        b"Cookie: " + b"activator-pod=;" * 4_000 + b"\r\n",
        b"Cookie: activator-pod=x\r\n" * 900,
        b"Cookie: activator-pod=\xff\xfe\r\n",
    ],
    ids=["address", "huge", "repeated pairs", "repeated fields", "bytes"],
)
async def test_a_hostile_cookie_counts_as_none(world, fields):
    await sticky_pods(world, 2, COOKIE)
    answer = await world.ask(request(fields=fields))
    assert (answer.status, answer.get(b"set-cookie")[:14]) == (200, b"activator-pod=")


@pytest.mark.parametrize("overflow", Overflow)
async def test_a_cookie_of_another_service_or_an_altered_one_is_replaced(world, overflow):
    pods = await sticky_pods(world, 2, replace(COOKIE, sticky_overflow=overflow))
    first = await world.ask()
    token = first.get(b"set-cookie").partition(b";")[0].partition(b"=")[2]
    others = (b"f" * 24, token[:-1] + (b"1" if token.endswith(b"0") else b"0"), token[::-1])
    for other in others:
        foreign = request(fields=b"Cookie: activator-pod=%b\r\n" % other)
        answers = [await world.ask(foreign) for _ in range(4)]
        assert {(each.status, each.body) for each in answers} == {(200, answers[0].body)}
        cookie = answers[0].get(b"set-cookie").partition(b";")[0]
        own = await world.ask(request(fields=b"Cookie: %b\r\n" % cookie))
        assert (own.body, own.get(b"set-cookie")) == (answers[0].body, None)
    assert sum(len(pod.requests) for pod in pods) == 1 + 5 * len(others)


async def test_a_session_that_a_pods_response_began_stays_at_that_pod(world):
    """As MCP does: the response to the first request has the header."""
    key = HashKey(b"mcp-session-id")
    pods = await sticky_pods(world, 3, Policies("round-robin", sticky=key))
    for number, pod in enumerate(pods):
        begun = b"Mcp-Session-Id: s-%d\r\n" % number
        pod.answer = lambda seen, number=number, begun=begun: ok(
            b"pod-%d" % number, b"" if seen.all(b"mcp-session-id") else begun
        )
    sessions = dict[bytes, bytes]()
    for _ in range(3):
        begun = await world.ask()
        assert begun.get(b"set-cookie") is None
        sessions[begun.get(b"mcp-session-id")] = begun.body
    assert len(sessions) == 3
    for _ in range(2):
        for session, body in sessions.items():
            again = await world.ask(request(fields=b"Mcp-Session-Id: %b\r\n" % session))
            assert again.body == body


async def test_the_address_of_a_client_leads_to_one_pod(world):
    pods = await sticky_pods(world, 3, Policies(sticky=HashKey(kind=KeyKind.CLIENT_IP)))
    for number in range(12):
        await world.ask(request(fields=b"X-Forwarded-For: 192.0.2.%d\r\n" % number))
    assert sorted(len(pod.requests) for pod in pods) == [0, 0, 12], "the peer is not trusted"


async def test_a_sticky_request_waits_for_its_own_pod_while_another_is_free(world):
    policies = replace(COOKIE, sticky_overflow=Overflow.WAIT)
    pods = await sticky_pods(world, 2, policies, container_concurrency=1)
    first = await world.ask()
    cookie = request(fields=b"Cookie: %b\r\n" % first.get(b"set-cookie").partition(b";")[0])
    own = next(pod for number, pod in enumerate(pods) if b"pod-%d" % number == first.body)
    own.answer = b""
    holding, waiting = await world.client(), await world.client()
    holding.send(cookie)
    await until(lambda: len(own.requests) == 2)
    waiting.send(cookie)
    await until(lambda: world.waiting == 1)
    assert (await world.ask()).body != first.body
    own.answer = ok(first.body)
    own.open[-1].write(ok(first.body))
    assert (await holding.answer()).body == first.body
    assert (await waiting.answer()).body == first.body


async def test_stickiness_follows_the_annotation(world):
    pods = await sticky_pods(world, 2, Policies())
    assert (await world.ask()).get(b"set-cookie") is None
    world.revise(*pods, policies=COOKIE)
    assert (await world.ask()).get(b"set-cookie")
    world.revise(*pods, policies=Policies())
    assert (await world.ask()).get(b"set-cookie") is None


async def test_a_pod_with_an_adaptive_limit_gets_no_more_requests(world):
    policies = Policies(adaptive=AdaptiveMode.ON)
    (pod,) = await sticky_pods(world, 1, policies)
    pod.answer = b""
    clients = [await world.client() for _ in range(6)]
    for client in clients:
        client.send(request())
    await until(lambda: world.waiting == 2)
    await until(lambda: len(pod.requests) == 4)
    (tracker,) = world.revision().backends.pods.values()
    assert (tracker.in_flight, tracker.limit) == (4, 4)
    pod.open[-1].write(ok())
    await until(lambda: world.waiting == 1)
    for client in clients:
        client.abort()
    await world.idle()


#: More than the kernel's buffers between two sockets of this machine take.
SIZES = pytest.mark.parametrize("size", [1, 100_000], ids=["dripped", "whole"])


@both_loops
async def test_a_body_streams_both_ways_at_once(world):
    pod = await world.serving()

    def echo(connection: PodConnection) -> None:
        if connection.answered == 0:
            connection.answered = 1
            connection.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        connection.write(b"1\r\n.\r\n")
        if connection.requests[-1].whole:
            connection.write(b"0\r\n\r\n")

    pod.on_data = echo
    client = await world.client()
    client.send(request(b"/", b"POST", fields=b"Transfer-Encoding: chunked\r\n"))
    await client.size(10)
    for _ in range(5):
        before = len(client.received)
        client.send(b"3\r\nabc\r\n")
        await client.size(before + 1)
    client.send(b"0\r\n\r\n")
    answer = await client.answer()
    assert set(answer.body) == set(b".")
    assert pod.requests[0].body == b"abc" * 5


@both_loops
async def test_a_waiting_body_is_read_up_to_a_bound_then_the_client_is_stopped(new_world):
    world = await new_world(hold_bytes=32 << 10)
    pod = await world.pod()
    world.revise()
    client = await world.client()
    client.send(request(b"/", b"POST", body=b"b" * LARGE))
    await until(lambda: world.waiting == 1)
    await turns(500)

    held = world.revision().statistics().queued_bytes
    assert held < (32 << 10) + (256 << 10) + 1000  # one read of the loop beyond the limit
    assert client.transport.get_write_buffer_size() > 0

    world.list(pod)
    assert (await client.answer()).status == 200
    assert len(pod.requests[0].body) == LARGE


@both_loops
async def test_a_pod_that_reads_slowly_stops_the_client(world):
    pod = await world.pod(receive_buffer=4096)
    pod.on_connect = lambda connection: connection.transport.pause_reading()
    world.revise(pod)
    await until(lambda: world.revision().statistics().healthy == 1)
    client = await world.client()
    client.send(request(b"/", b"POST", body=b"b" * LARGE))
    await until(lambda: pod.connections)
    await turns(500)

    assert client.transport.get_write_buffer_size() > 0
    (connection,) = world.proxy.connections
    upstream = connection.handler.exchange.pod_side
    assert upstream.transport.get_write_buffer_size() < 1 << 20

    pod.connections[0].widen()
    pod.connections[0].transport.resume_reading()
    assert (await client.answer()).status == 200
    assert len(pod.requests[0].body) == LARGE


@both_loops
async def test_an_early_response_passes_and_the_rest_of_the_body_is_not_waited_for(world):
    pod = await world.serving()

    def early(connection: PodConnection) -> None:
        if not connection.answered:
            connection.answered = 1
            connection.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nno!")

    pod.on_data = early
    client = await world.client()
    client.send(request(b"/", b"POST", fields=b"Content-Length: 1000\r\n") + b"some")

    answer = await client.answer()

    assert (answer.status, answer.body) == (413, b"no!")
    assert answer.get(b"connection") == b"close"
    await client.ended()
    await until(lambda: not pod.open)


@both_loops
async def test_an_early_response_counts_where_the_pod_resets_the_connection_behind_it(world):
    """A server that closes with unread input does so. The proxy may notice as it writes."""
    pod = await world.serving()
    client = await world.client()

    def early(connection: PodConnection) -> None:
        client.send(b"more")  # the proxy reads this before the response
        connection.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nno!")
        connection.reset()
        pod.on_data = lambda connection: None

    pod.on_data = early
    client.send(request(b"/", b"POST", fields=b"Content-Length: 1000\r\n") + b"some")
    answer = await client.answer()
    assert (answer.status, answer.body) == (413, b"no!")
    await client.ended()


@both_loops
async def test_full_duplex_keeps_a_connection_whose_response_began_first(world):
    """TestActivatorChainHandlerWithFullDuplex: echoes over connections that stay."""
    pod = await world.serving(full_duplex=True)
    pod.on_data = lambda connection: None
    client = await world.client()
    for _ in range(3):
        sent = len(pod.requests)
        client.send(request(b"/", b"POST", b"Content-Length: 6\r\n") + b"abc")
        await until(lambda sent=sent: len(pod.requests) > sent and pod.requests[-1].body == b"abc")
        connection = pod.connections[-1]
        connection.write(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nabc")
        await client.size(len(client.received) + 1)
        client.send(b"def")
        await until(lambda: pod.requests[-1].body == b"abcdef")
        connection.write(b"def")
        answer = await client.answer(b"POST")
        assert (answer.body, answer.get(b"Connection")) == (b"abcdef", None)
    assert len(pod.connections) == 1


@both_loops
async def test_full_duplex_whose_response_ends_first_ends_the_connections(world):
    pod = await world.serving(full_duplex=True)
    pod.on_data = lambda connection: connection.write(ok(b"early"))
    client = await world.client()
    client.send(request(b"/", b"POST", b"Content-Length: 6\r\n") + b"abc")
    answer = await client.answer(b"POST")
    assert (answer.body, answer.get(b"Connection")) == (b"early", b"close")
    await client.ended()
    await until(lambda: not pod.open)


@both_loops
async def test_the_rest_of_a_body_after_an_early_response_reaches_no_pod(world):
    pod = await world.serving()

    def early(connection: PodConnection) -> None:
        if not connection.answered:
            connection.answered = 1
            connection.write(ok(b"early"))

    pod.on_data = early
    client = await world.client()
    smuggled = request(b"/smuggled")
    length = b"Content-Length: %d\r\n" % (len(smuggled) + 4)
    client.send(request(b"/", b"POST", fields=length) + b"some")
    assert (await client.answer()).body == b"early"
    client.send(smuggled + smuggled)
    await client.ended()
    await turns(50)
    assert [seen.target for seen in pod.requests] == [b"/"]


EXPECT = request(b"/", b"POST", fields=b"Expect: 100-continue\r\nContent-Length: 5\r\n")


@in_virtual_time
async def test_expect_is_forwarded_and_the_pods_100_comes_back(world):
    pod = await world.serving()

    def go_on(connection: PodConnection) -> None:
        if not connection.answered and not connection.requests[0].body:
            connection.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        answer_whole(connection)

    pod.on_data = go_on
    client = await world.client()
    client.send(EXPECT)
    assert await client.take(25) == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert world.now_since_start() < 0.9
    client.send(b"hello")
    assert (await client.answer()).status == 200
    assert pod.requests[0].all(b"expect") == [b"100-continue"]
    assert not client.eof


async def test_without_the_pods_100_the_client_gets_ours_after_a_second(world):
    await world.serving()
    client = await world.client()
    client.send(EXPECT)
    assert await client.take(25) == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert world.now_since_start() == about(1.0, within=0.3)
    client.send(b"hello")
    assert (await client.answer()).status == 200
    assert client.received.count(b"100 Continue") == 1


async def test_no_100_while_no_pod_is_there(world):
    pod = await world.pod()
    world.revise()
    client = await world.client()
    client.send(EXPECT)
    await until(lambda: world.waiting == 1)
    await world.clock_moves(1.5)
    assert not client.received
    world.list(pod)
    assert await client.take(25) == b"HTTP/1.1 100 Continue\r\n\r\n"
    client.send(b"hello")
    assert (await client.answer()).status == 200


@in_virtual_time
async def test_no_100_inside_a_response_that_has_begun(world):
    """A client that waits for a 100 may never send its body after a final status."""
    pod = await world.serving()
    pod.on_data = lambda connection: connection.write(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n.\r\n"
    )
    client = await world.client()
    client.send(EXPECT)
    await until(lambda: client.received.endswith(b"\r\n.\r\n"))
    await world.clock_moves(1.5)
    pod.connections[0].write(b"0\r\n\r\n")
    answer = await client.answer()
    assert (answer.status, answer.body, answer.interim) == (200, b".", [])


@both_loops
async def test_a_final_response_without_100_closes_both_connections(world):
    pod = await world.serving()
    pod.on_data = lambda connection: connection.write(
        b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"
    )
    client = await world.client()
    client.send(EXPECT)
    answer = await client.answer()
    assert (answer.status, answer.get(b"connection")) == (401, b"close")
    await client.ended()
    await until(lambda: not pod.open)


async def test_a_client_that_does_not_wait_for_100_gets_none_from_us(world):
    await world.serving()
    client = await world.client()
    client.send(EXPECT + b"hello")
    answer = await client.answer()
    assert (answer.status, answer.interim) == (200, [])


#: More than the kernel's buffers between two sockets of this machine take.


MALFORMED = {
    "length-and-coding": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n",
    "two-lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    "length-list": b"HTTP/1.1 200 OK\r\nContent-Length: 5, 6\r\n\r\nhello",
    "bad-length": b"HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\nhello",
    "empty-length": b"HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\nhello",
    "unknown-coding": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nhello",
    "coding-in-1.0": b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "bad-chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n",
    "obs-fold": b"HTTP/1.1 200 OK\r\nX-A: b\r\n c\r\nContent-Length: 0\r\n\r\n",
    "bare-cr": b"HTTP/1.1 200 OK\r\nX-A: b\rX-C: d\r\nContent-Length: 0\r\n\r\n",
    "bad-extension": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;\r\nhello\r\n",
    "nul": b"HTTP/1.1 200 OK\r\nX-A: \0\r\nContent-Length: 0\r\n\r\n",
    "no-colon": b"HTTP/1.1 200 OK\r\nX-A\r\nContent-Length: 0\r\n\r\n",
    "space-before-colon": b"HTTP/1.1 200 OK\r\nContent-Length : 0\r\n\r\n",
    "status": b"HTTP/1.1 20 OK\r\nContent-Length: 0\r\n\r\n",
    "status-99": b"HTTP/1.1 099 OK\r\nContent-Length: 0\r\n\r\n",
    "status-text": b"HTTP/1.1 abc OK\r\nContent-Length: 0\r\n\r\n",
    "http-2": b"HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n",
    "no-http": b"hello, this is a pod\r\n\r\n",
    "tls": b"\x15\x03\x01\x00\x02\x02\x0a\r\n\r\n",
    "101-unasked": b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n",
    "endless-interim": b"HTTP/1.1 103 Early Hints\r\n\r\n" * 50,
}


@SIZES
async def test_a_malformed_response_is_a_502_and_its_connection_ends(anyio_backend, size):
    for name, method in product(MALFORMED, (b"GET", b"POST")):
        async with own_world(name, method) as world:
            await is_a_502(world, name, method, size)


async def is_a_502(world: World, name: str, method: bytes, size: int) -> None:
    pod = await world.serving()
    pod.on_data = lambda connection: send_pieces(connection, MALFORMED[name], size)
    client = await world.client()
    client.send(request(b"/", method, body=b"x"))

    if name in ("bad-chunk", "bad-extension") and size == 1:  # the head has passed before that
        await client.ended()
        assert b"0\r\n\r\n" not in client.received
    else:
        answer = await client.answer(method)
        assert answer.status == 502
        assert answer.get(b"x-a") is None
    await until(lambda: not pod.open)
    assert len(pod.requests) == 1
    pod.on_data = answer_whole
    assert (await world.ask()).status == 200


@pytest.mark.untraced
@both_loops
@pytest.mark.parametrize("end", ["fin", "rst"])
@pytest.mark.parametrize(
    "begun",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 101\r\n\r\nhalf",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n0\r\n",
    ],
)
async def test_a_response_that_breaks_off_breaks_off_for_the_client_too(world, begun, end):
    pod = await world.serving()

    def answer(connection: PodConnection) -> None:
        connection.write(begun)
        world.loop.call_later(0.01, connection.close if end == "fin" else connection.reset)

    pod.on_data = answer
    client = await world.client()
    client.send(request())
    await client.ended()

    assert client.received.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"502" not in client.received
    assert b"0\r\n\r\n" not in client.received
    with pytest.raises((AssertionError, Exception)):
        await client.answer()
    assert len(pod.requests) == 1


@both_loops
async def test_an_endless_response_head_is_cut_off(world):
    pod = await world.serving()
    sent = 0

    def flood(connection: PodConnection) -> None:
        def more() -> None:
            nonlocal sent
            if not connection.transport.is_closing():
                sent += 65536
                connection.write(b"X: " + b"a" * 65531 + b"\r\n")
                world.loop.call_soon(more)

        connection.write(b"HTTP/1.1 200 OK\r\n")
        more()

    pod.on_data = flood
    client = await world.client()
    client.send(request(b"/", b"POST", body=b"x"))
    assert (await client.answer(b"POST")).status == 502
    await until(lambda: not pod.open)
    assert sent < 100 << 20
