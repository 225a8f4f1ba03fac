"""Clients of event streams: the early head, comments, the pod's stream, errors in the stream."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from activator.telemetry.request_log import RequestLog
from tests.activator.proxy.exchange.test_translation import http1_pod
from tests.activator.proxy.http2.peers import Http2World, Message, Peer
from tests.activator.proxy.observers import Records, Traces
from tests.activator.proxy.world import (
    Client,
    Pod,
    World,
    ok,
    own_world,
    request,
    until,
)
from throttler.model import Policies
from throttler.request_policies import RequestPolicies, WaitMode, WakeRules, WhileWaiting

POLICIES = Policies(requests=RequestPolicies(waiting=WhileWaiting((WaitMode.HEARTBEAT,))))
SSE = b"Accept: text/event-stream\r\n"
ASK = request(fields=SSE)
HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\n"
    b"X-Accel-Buffering: no\r\n"
)
JSON = b"Content-Type: application/json\r\n"
NO_PODS = b": waiting reason=no-endpoints\n\n"
EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nX-Pod: 1\r\n"


def stream(body: bytes = b"data: 1\n\n", fields: bytes = b"") -> bytes:
    """Return a pod's event stream of a known length."""
    return EVENTS + b"%bContent-Length: %d\r\n\r\n%b" % (fields, len(body), body)


async def beating(world: World, ask: bytes = ASK) -> Client:
    """Return a client that has an early head; no pod is listed."""
    world.revise(policies=POLICIES)
    client = await world.client()
    client.send(ask)
    await until(lambda: world.waiting == 1)
    await client.size(1)
    return client


async def pod_comes(world: World, answer: Any = None) -> Pod:
    """List a healthy pod."""
    pod = await world.pod()
    if answer is not None:
        pod.answer = answer
    world.revise(pod, policies=POLICIES)
    return pod


async def got(pod: Pod, count: int) -> None:
    """Wait until a pod has so many requests."""
    await until(lambda: len(pod.requests) == count and pod.requests[-1].whole)


def error_of(body: bytes) -> dict[str, Any]:
    """Return the error of the event at the end of a stream."""
    head, _, data = body.rpartition(b"event: error\ndata: ")
    assert data.endswith(b"\n\n"), body
    assert not head or head.replace(b"\r", b"").endswith(b"\n\n"), body
    error: dict[str, Any] = json.loads(data)["error"]
    assert set(error) == {"message", "type", "code"}
    return error


async def test_a_waiting_client_gets_the_head_and_comments(world: World) -> None:
    client = await beating(world)
    assert world.now_since_start() == 15.0
    assert client.received.startswith(HEAD)
    assert client.received.endswith(b"\r\n\r\n%x\r\n" % len(NO_PODS) + NO_PODS + b"\r\n")
    before = len(client.received)
    await client.size(before + 1)
    assert world.now_since_start() == 30.0
    assert client.received[before:] == b"%x\r\n" % len(NO_PODS) + NO_PODS + b"\r\n"
    assert world.counters().early_heads == 1

    await pod_comes(world, stream(b"data: 1\n\ndata: [DONE]\n\n"))
    answer = await client.answer()
    assert answer.body == 2 * NO_PODS + b"data: 1\n\ndata: [DONE]\n\n"
    assert answer.get(b"x-pod") is None
    assert world.counters().outcomes["served"] == 1
    assert list(world.counters().server) == [(b"GET", 1, 200)]


async def test_a_comment_promises_no_time_that_has_passed(world: World) -> None:
    world.revise(policies=POLICIES)
    world.revision().forecast.starts.add(40.0)
    client = await beating(world)
    assert b"reason=no-endpoints eta=25\n" in client.received
    await client.size(len(client.received) + 1)
    assert b"reason=no-endpoints eta=10\n" in client.received
    before = len(client.received)
    await client.size(before + 1)
    assert world.now_since_start() == 45.0
    assert NO_PODS in client.received[before:]
    client.abort()
    await world.idle()


async def test_the_connection_serves_the_next_request(world: World) -> None:
    client = await beating(world)
    await pod_comes(world, stream())
    await client.answer()
    client.send(ASK)  # the pod is there: its own head
    assert (await client.answer()).get(b"x-pod") == b"1"
    assert world.counters().early_heads == 1


async def test_a_pod_in_time_sends_its_own_head(world: World) -> None:
    world.revise(policies=POLICIES)
    client = await world.client()
    client.send(ASK)
    await world.clock_moves(14.9)
    await pod_comes(world, stream())
    answer = await client.answer()
    assert (answer.get(b"x-pod"), answer.body) == (b"1", b"data: 1\n\n")
    assert not world.counters().early_heads


async def test_framings_of_the_pod() -> None:
    body = b"data: 1\n\ndata: 2\n\n"
    rows = {
        "length": stream(body),
        "chunked": EVENTS + b"Transfer-Encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n9\r\n"
        b"data: 2\n\n\r\n0\r\nX-Trailer: 1\r\n\r\n",
        "until the end": EVENTS + b"Connection: close\r\n\r\n" + body,
        "nothing": stream(b""),
    }
    for name, response in rows.items():
        for size in (0, 1):
            async with own_world(name, size) as world:
                client = await beating(world)
                pod = await pod_comes(world)
                pod.on_data = lambda connection: None
                await got(pod, 1)
                connection = pod.connections[-1]
                for piece in [response] if not size else [bytes((x,)) for x in response]:
                    connection.write(piece)
                    if size:
                        await until(lambda: True)
                if name == "until the end":
                    connection.close()
                answer = await client.answer()
                assert answer.body == NO_PODS + (b"" if name == "nothing" else body)
                assert not answer.trailers
                assert answer.get(b"transfer-encoding") == b"chunked"
                if name != "until the end":
                    client.send(ASK)
                    await got(pod, 2)
                    pod.connections[-1].write(stream())
                    await client.answer()


async def test_comments_go_on_until_the_pod_responds(world: World) -> None:
    client = await beating(world)
    pod = await pod_comes(world)
    pod.on_data = lambda connection: None
    await until(lambda: len(pod.requests) == 1)
    before = len(client.received)
    await client.size(before + 1)
    assert world.now_since_start() == 30.0
    assert client.received[before:] == b"23\r\n: waiting reason=response-pending\n\n\r\n"
    pod.connections[-1].write(EVENTS + b"\r\n")
    await world.clock_moves(40)
    pod.connections[-1].write(b"data: 1\n\n")
    pod.connections[-1].close()
    assert (await client.answer()).body.endswith(b"response-pending\n\ndata: 1\n\n")


async def test_retries_go_on_behind_the_early_head(world: World) -> None:
    client = await beating(world)
    bad = await pod_comes(world)
    bad.on_data = lambda connection: connection.reset()
    await until(lambda: len(bad.requests) == 1 and world.waiting == 1)
    good = await world.pod()
    good.answer = stream()
    world.revise(bad, good, policies=POLICIES)
    answer = await client.answer()
    assert answer.body.endswith(b"data: 1\n\n")
    assert b"error" not in answer.body
    assert world.counters().outcomes["served"] == 1


#: What each request of an MCP client says. Its server may choose either form.
MCP = b"Accept: application/json, text/event-stream\r\n"


async def test_which_requests_get_heartbeats() -> None:
    body = b'{"model":"m","stream":true}'
    post: tuple[bytes, bytes] = (b"/", b"POST")
    rows = [
        (request(fields=b"Accept: text/event-stream;q=0.5, */*\r\n"), True),
        (request(fields=b"Accept: text/event-stream;q=0\r\n"), False),
        (request(fields=b"Accept: text/*\r\n"), False),
        (request(fields=b"Accept: application/json;q=0.9\r\nAccept: TEXT/Event-Stream\r\n"), True),
        (request(fields=b"Accept: application/json\r\nAccept: text/event-stream\r\n"), False),
        (request(*post, MCP + JSON, b'{"jsonrpc":"2.0","method":"initialize"}'), False),
        (request(*post, MCP + JSON, body), True),
        (request(fields=b"Accept: " + b"a/b," * 50_000 + b"text/event-stream\r\n"), False),
        (request(fields=b"Accept: text/plain\r\n" * 100 + SSE), False),
        (request(*post, JSON, body), True),
        (request(*post, b"", body), True),
        (request(*post, b"Content-Type: text/plain\r\n", body), False),
        (request(*post, b"Content-Type: application/grpc\r\n" + SSE, body), False),
        (request(*post, JSON, b'{"a":"\\"stream\\":true","stream":false}'), False),
        (request(*post, JSON, b'{"a":"' + b"x" * 70_000 + b'","stream":true}'), False),
        (request(*post, JSON, b'{"stream":true,"a":"' + b"x" * 300_000 + b'"}'), True),
        (request(*post, JSON, b"[" * 100_000), False),
        (request(*post, JSON, b"\xef\xbb\xbf" + body), True),
        (request(*post, JSON, b'{"a":"\xff\xfe","stream":true}'), True),
        (request(b"/", b"HEAD", SSE), False),
        (request(fields=SSE).replace(b"HTTP/1.1", b"HTTP/1.0"), False),
        (request(fields=SSE + b"Connection: upgrade\r\nUpgrade: websocket\r\n"), False),
        (request(fields=b""), False),
    ]
    for data, beats in rows:
        async with own_world(data[:300], data[-40:]) as world:
            world.revise(policies=POLICIES)
            client = await world.client()
            client.send(data)
            await world.clock_moves(100)
            assert bool(client.received) == beats
            client.abort()
            await world.in_time(lambda: not world.busy)


async def test_a_body_that_arrives_byte_by_byte(world: World) -> None:
    world.revise(policies=POLICIES)
    client = await world.client()
    await client.drip(request(b"/", b"POST", JSON, b'{"stream": true}'))
    await client.size(1)
    assert client.received.startswith(HEAD)
    client.abort()


async def test_a_body_that_is_late(world: World) -> None:
    world.revise(policies=POLICIES)
    client = await world.client()
    data = request(b"/", b"POST", JSON, b'{"stream": true}')
    client.send(data[:-5])
    await world.clock_moves(10)
    client.send(data[-5:])
    await client.size(1)
    assert 15.0 <= world.now_since_start() <= 20.0
    client.abort()


async def test_errors_become_the_last_event() -> None:
    """Each ending of a request that has no event stream of a pod, and the last event."""

    async def answers(world: World, data: bytes, *, then: str = "") -> None:
        pod = await pod_comes(world)
        pod.on_data = lambda connection: None
        await until(lambda: len(pod.requests) == 1)
        connection = pod.connections[-1]
        connection.write(data)
        if then == "close":
            connection.close()

    async def html(world: World) -> None:
        page = b"<p>" * 10_000
        await answers(
            world, b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n" + page, then="close"
        )

    async def json_error(world: World) -> None:
        body = b'{"error":{"message":"no such model","type":"not_found","code":"nope","param":1}}'
        await answers(
            world,
            b"HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n%b" % (len(body), body),
        )

    async def plain_500(world: World) -> None:
        await answers(world, b"HTTP/1.1 500 Oops\r\nContent-Length: 3\r\n\r\nbad")

    async def gzipped(world: World) -> None:
        await answers(world, stream(b"xyz", b"Content-Encoding: gzip\r\n"))

    async def no_content(world: World) -> None:
        await answers(world, b"HTTP/1.1 204 No Content\r\n\r\n")

    async def malformed(world: World) -> None:
        await answers(world, b"nonsense\r\n\r\n")

    async def drained(world: World) -> None:
        for connection in list(world.proxy.connections):
            connection.drain()

    async def expired(world: World) -> None:
        pass

    rows: dict[str, tuple[Any, str, str, str]] = {
        "html": (html, "no-event-stream", "200 text/html", "upstream-failed"),
        "json error": (json_error, "nope", "no such model", "served"),
        "500": (plain_500, "no-event-stream", "500 without", "upstream-failed"),
        "gzip": (gzipped, "no-event-stream", "text/event-stream, gzip", "served"),
        "204": (no_content, "no-event-stream", "204 without", "served"),
        "malformed": (malformed, "upstream-failed", "malformed", "upstream-failed"),
        "drain": (drained, "draining", "no pod was free in time", "draining"),
        "time-out": (expired, "no-endpoints", "lists no pod", "timed-out"),
    }
    for name, (happens, code, text, ended) in rows.items():
        async with own_world(name) as world:
            records = Records()
            world.proxy.services.request_log = cast(RequestLog, records)
            client = await beating(world)
            await happens(world)
            answer = await client.answer()
            error = error_of(answer.body)
            assert error["code"] == code
            assert text in error["message"]
            assert answer.status == 200
            assert world.counters().outcomes[ended] == 1
            assert list(world.counters().server) == [(b"GET", 1, 200)]
            assert [each.status for each in records] == [200]
            assert world.failures().last.reason.value in (code, "no-event-stream")
            await world.idle()


async def test_a_pod_that_fails_behind_its_first_byte() -> None:
    rows = [
        (b"data: 1\n\n", b"data: 1\n\n"),
        (b"data: 1\r\n\r\n", b"data: 1\r\n\r\n"),
        (b"data: 1\n", b"data: 1\nevent: incomplete\n\n"),
        (b"data: 1", b"data: 1\nevent: incomplete\n\n"),
        (b"", b""),
    ]
    for sent, kept in rows:
        async with own_world(sent) as world:
            client = await beating(world)
            pod = await pod_comes(world)
            pod.on_data = lambda connection: None
            await got(pod, 1)
            connection = pod.connections[-1]
            connection.write(EVENTS + b"Transfer-Encoding: chunked\r\n\r\n")
            if sent:
                connection.write(b"%x\r\n%b\r\n" % (len(sent), sent))
            await until(lambda: not world.busy.get("waiting") and world.in_flight == 1)
            await world.clock_moves(1)
            connection.reset()
            answer = await client.answer()
            body = answer.body.removeprefix(NO_PODS)
            assert body.startswith(kept + b"event: error\ndata: ")
            assert error_of(answer.body)["code"] == "upstream-failed"
            assert world.counters().outcomes["upstream-failed"] == 1
            client.send(ASK)  # the connection is kept
            await got(pod, 2)
            pod.connections[-1].write(stream())
            assert (await client.answer()).body == b"data: 1\n\n"


async def test_a_client_that_leaves_is_cancelled(world: World) -> None:
    client = await beating(world)
    client.abort()
    await until(lambda: world.waiting == 0)
    assert world.counters().outcomes["cancelled"] == 1


async def test_a_client_that_ended_its_side_gets_no_interim_response(world: World) -> None:
    client = await beating(world)
    client.end_sending()
    await world.clock_moves(20)
    await pod_comes(world, stream())
    answer = await client.answer()
    assert (answer.interim, answer.body.endswith(b"data: 1\n\n")) == ([], True)


async def test_interim_responses_of_the_pod_are_dropped(world: World) -> None:
    client = await beating(world)
    await pod_comes(world, b"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n" + stream())
    answer = await client.answer()
    assert (answer.interim, answer.body) == ([], NO_PODS + b"data: 1\n\n")


async def test_a_malformed_rest_of_the_body_aborts(world: World) -> None:
    fields = SSE + JSON + b"Transfer-Encoding: chunked\r\n"
    client = await beating(world, request(b"/", b"POST", fields) + b"2\r\n{}\r\n")
    client.send(b"nonsense\r\n")
    await client.ended()
    assert b"400" not in client.received
    assert world.counters().outcomes["cancelled"] == 1


async def test_the_pod_gets_the_whole_body_and_may_not_encode(world: World) -> None:
    body = b'{"stream":true,"a":"' + b"x" * 300_000 + b'"}'
    client = await beating(
        world, request(b"/", b"POST", JSON + b"accept-ENCODING: gzip, br\r\nA: b\r\n", body)
    )
    pod = await pod_comes(world, stream())
    assert (await client.answer()).body.endswith(b"data: 1\n\n")
    seen = pod.requests[0]
    assert seen.body == body
    assert seen.all(b"accept-encoding") == [b"identity"]
    assert seen.all(b"a") == [b"b"]


@pytest.mark.untraced
async def test_a_slow_client_stops_the_pod(world: World) -> None:
    world.revise(policies=POLICIES)
    client = await world.client(receive_buffer=4096)
    client.send(ASK)
    await client.size(1)
    client.transport.pause_reading()
    pod = await pod_comes(world)
    pod.on_data = lambda connection: None
    await until(lambda: len(pod.requests) == 1)
    connection = pod.connections[-1]
    connection.write(EVENTS + b"\r\n" + b":" * (12 << 20))
    await world.clock_moves(1)
    assert connection.transport.get_write_buffer_size() > 4 << 20
    assert world.proxy.unread.bytes < 2 << 20
    client.transport.resume_reading()
    client.widen()
    await client.size(12 << 20)
    connection.close()
    await client.change()


async def test_traces_and_log_show_the_status_of_the_client(
    world: World, traces: Traces, records: Records
) -> None:
    client = await beating(world)
    answer = await client.answer()  # the time-out of the revision
    assert error_of(answer.body)["type"] == "server_error"
    assert traces.told[-1] == ("ended", 200, "timed-out")
    assert [each.status for each in records] == [200]
    assert records[0].why.startswith("no-endpoints")


async def test_a_changed_annotation_counts_for_the_next_request(world: World) -> None:
    await beating(world)
    world.revise()
    client = await world.client()
    client.send(ASK)
    await world.clock_moves(60)
    assert not client.received
    for each in world.clients:
        each.abort()


async def test_a_request_that_does_not_fit_gets_the_next_mode(world: World) -> None:
    waiting = WhileWaiting((WaitMode.HEARTBEAT, WaitMode.HOLD), heartbeat_every=2.0)
    world.revise(policies=Policies(requests=RequestPolicies(waiting=waiting)))
    client = await world.client()
    client.send(ASK)
    await client.size(1)
    assert world.now_since_start() == 2.0
    client.abort()


async def test_a_request_with_a_pod_has_no_next_mode(world: World) -> None:
    waiting = WhileWaiting((WaitMode.HEARTBEAT, WaitMode.REFUSE))
    policies = Policies(requests=RequestPolicies(waiting=waiting))
    world.revise(policies=policies)
    client = await world.client()
    data = request(b"/", b"POST", JSON, b"{} ")
    client.send(data[:-1])
    await until(lambda: world.waiting == 1)
    pod = await world.pod()
    pod.on_data = lambda connection: None
    world.revise(pod, policies=policies)
    await until(lambda: world.in_flight == 1)
    client.send(data[-1:])
    await got(pod, 1)
    await world.clock_moves(1)  # its mode looks at the body again
    assert not any(world.counters().waiting.values())
    pod.connections[-1].write(ok())
    assert (await client.answer()).status == 200


async def test_a_stream_ends_with_an_error_if_its_request_may_start_no_pod() -> None:
    for status in (200, 204, 503):
        async with own_world(status) as world:
            wake = WakeRules(not_paths=(b"/health",), asleep_status=status)
            waiting = WhileWaiting((WaitMode.HEARTBEAT,))
            policies = Policies(requests=RequestPolicies(waiting=waiting, wake=wake))
            pod = await world.serving(container_concurrency=1, policies=policies)
            pod.on_data = lambda connection: None
            clients = [await world.client() for _ in range(2)]
            for client in clients:
                client.send(request(b"/health", fields=SSE))
                await until(lambda: world.in_flight == 1)  # awaited in its turn
            await clients[1].size(1)
            pod.connections[-1].write(ok(fields=b"Connection: close\r\n"))
            await got(pod, 2)
            world.healthy = lambda tracker: False
            pod.connections[-1].reset()
            assert error_of((await clients[1].answer()).body)["code"] == "asleep"
            assert world.counters().outcomes["asleep"] == 1
            assert [each[2] for each in world.counters().server] == [200]


# -- HTTP/2 ---------------------------------------------------------------------------------------


def waits(http2: Http2World) -> None:
    http2.list(policies=POLICIES)


async def early(http2: Http2World, client: Peer, number: int) -> None:
    """Let time pass until the client has the first comment."""
    await http2.world.clock_moves(15)
    await until(lambda: client.messages.get(number, Message()).body)


def events(peer: Peer, stream: int, message: Message) -> None:
    """Respond with an event stream and trailers."""
    if message.ended:
        fields = [(b":status", b"200"), (b"content-type", b"text/event-stream"), (b"x", b"y")]
        peer.headers(stream, fields)
        peer.data(stream, b"data: 1\n\n")
        peer.headers(stream, [(b"t", b"1")], end=True)


async def test_http2_clients_and_pods(http2: Http2World) -> None:
    waits(http2)
    client = await http2.client()
    number = client.ask(
        b"/", b"GET", (b"accept", b"text/event-stream"), (b"accept-encoding", b"gzip")
    )
    await early(http2, client, number)
    message = client.messages[number]
    assert dict(message.headers)[b"content-type"] == b"text/event-stream"
    assert dict(message.headers)[b"cache-control"] == b"no-store"
    assert dict(message.headers)[b":status"] == b"200"
    pod = await http2.pod()
    pod.on_message = events
    http2.list(pod, policies=POLICIES)
    answer = await client.answer(number)
    assert answer.body == NO_PODS + b"data: 1\n\n"
    assert (answer.ended, answer.trailers) == (True, [])
    assert pod.requests[0].all(b"accept-encoding") == [b"identity"]
    again = client.ask(b"/", b"GET", (b"accept", b"text/event-stream"))
    assert (await client.answer(again)).all(b"x") == [b"y"]


async def test_http2_errors(http2: Http2World) -> None:
    def html(peer: Peer, stream: int, message: Message) -> None:
        if message.ended:
            peer.headers(stream, [(b":status", b"200"), (b"content-type", b"text/html")])
            peer.data(stream, b"<p>" * 10_000)

    waits(http2)
    client = await http2.client()
    body = b'{"stream":true}'
    number = client.ask(b"/", b"POST", (b"content-type", b"application/json"), end=False)
    client.data(number, body, end=True)
    await early(http2, client, number)
    pod = await http2.pod()
    pod.on_message = html
    http2.list(pod, policies=POLICIES)
    answer = await client.answer(number)
    assert (answer.ended, answer.reset) == (True, None)
    assert error_of(answer.body)["code"] == "no-event-stream"
    await until(lambda: pod.requests[0].reset is not None)


async def test_http2_windows_count_only_the_bytes_of_the_pod(http2: Http2World) -> None:
    def large(peer: Peer, stream: int, message: Message) -> None:
        if message.ended:
            peer.headers(stream, [(b":status", b"200"), (b"content-type", b"text/event-stream")])
            peer.data(stream, b"data: 1\n\n" * 100_000, end=True)

    waits(http2)
    client = await http2.client()
    number = client.ask(b"/", b"GET", (b"accept", b"text/event-stream"))
    await early(http2, client, number)
    pod = await http2.pod()
    pod.on_message = large
    http2.list(pod, policies=POLICIES)
    answer = await client.answer(number)
    assert answer.body == NO_PODS + b"data: 1\n\n" * 100_000


async def test_http2_client_of_an_http1_pod(http2: Http2World) -> None:
    body = b"data: 1\n\n" * 100_000
    world = http2.world
    pod = await http1_pod(http2, stream(body))
    client = await http2.client()
    await client.answer(client.ask())  # the proxy knows which version the pod speaks
    world.revise(policies=POLICIES)
    number = client.ask(b"/", b"GET", (b"accept", b"text/event-stream"))
    await early(http2, client, number)
    world.revise(pod, policies=POLICIES)
    answer = await client.answer(number)
    assert answer.body == NO_PODS + body


async def test_http1_client_of_an_http2_pod(http2: Http2World) -> None:
    waits(http2)
    pod = await http2.pod()
    client = await http2.world.client()
    client.send(ASK)
    await client.size(1)
    pod.on_message = events
    http2.list(pod, policies=POLICIES)
    answer = await client.answer()
    assert (answer.body, answer.trailers) == (NO_PODS + b"data: 1\n\n", [])
    http2.world.errors.clear()  # the library rejects HTTP/1, which the proxy tries first
