"""One request in HTTP/1 and its response: what pods see, what clients see, bodies."""

from __future__ import annotations

from itertools import product

import pytest

from tests.activator.proxy.world import (
    PodConnection,
    World,
    about,
    answer_whole,
    ok,
    own_world,
    request,
    turns,
    until,
)
from tests.conftest import both_loops, in_virtual_time

#: More than the kernel's buffers between two sockets of this machine take.
LARGE = 12 << 20
SIZES = pytest.mark.parametrize("size", [1, 100_000], ids=["dripped", "whole"])


# -- what pods see, what clients see -------------------------------------------------------------


async def test_a_pod_sees_the_request_as_knative_would_send_it(world):
    pod = await world.serving()
    await world.ask(
        b"POST //a%2f..%2Fb/../c?d=%20&e HTTP/1.1\r\nHost: shop.example.com\r\n"
        b"User-Agent: me\r\nX-Forwarded-For: 10.1.1.1\r\nX-Forwarded-Proto: https\r\n"
        b"accept: */*\r\nKnative-Serving-Namespace: ns\r\nKnative-Serving-Revision: rev\r\n"
        b"Knative-Serving-Tag: t\r\nTraceparent: 00-1-2-01\r\nContent-Length: 2\r\n\r\nhi"
    )

    assert pod.connections[0].received == (
        b"POST //a%2f..%2Fb/../c?d=%20&e HTTP/1.1\r\n"
        b"Host: " + pod.endpoint.address.encode() + b"\r\n"
        b"K-Proxy-Request: activator\r\n"
        b"K-Original-Host: shop.example.com\r\n"
        b"X-Forwarded-For: 10.1.1.1, 127.0.0.1\r\n"
        b"User-Agent: me\r\n"
        b"X-Forwarded-Proto: https\r\n"
        b"accept: */*\r\n"
        b"Knative-Serving-Tag: t\r\n"
        b"Traceparent: 00-1-2-01\r\n"
        b"Content-Length: 2\r\n\r\nhi"
    )


async def test_a_host_that_was_mapped_before_the_activator_is_kept(world):
    pod = await world.serving()
    await world.ask(request(fields=b"K-Original-Host: mapped.example.com\r\n"))
    assert pod.requests[0].all(b"k-original-host") == [b"mapped.example.com"]


@pytest.mark.parametrize("host", [b"rev.ns.svc.cluster.local", b"rev.ns.svc.cluster.local:80"])
async def test_the_revision_is_found_by_host_where_no_header_names_it(world, host):
    await world.serving()
    answer = await world.ask(b"GET / HTTP/1.1\r\nHost: %b\r\n\r\n" % host)
    assert answer.status == 200


async def test_an_unknown_revision_gets_the_response_of_knative(world):
    client = await world.client()
    client.send(
        b"GET / HTTP/1.1\r\nHost: h\r\nKnative-Serving-Namespace: ns\r\n"
        b"Knative-Serving-Revision: nope\r\n\r\n"
    )
    answer = await client.answer()
    assert answer.status == 404
    assert answer.body == (
        b'Error getting active endpoint: revision.serving.knative.dev "nope" not found\n'
    )
    assert answer.get(b"content-type") == b"text/plain; charset=utf-8"
    assert answer.get(b"x-content-type-options") == b"nosniff"


@both_loops
async def test_a_response_passes_byte_for_byte(world):
    raw = (
        b"HTTP/1.1 201 Made Up\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\nx-a: b\r\nX-A: caf\xe9\r\n"
        b"Set-Cookie: a=b\r\nSet-Cookie: c=d\r\nContent-Length: 3\r\n\r\nabc"
    )
    await world.serving(answer=raw)
    client = await world.client()
    client.send(request())
    await client.answer()
    assert bytes(client.received) == raw


#: Reason phrases of pods, and the client's status line.
REASONS = (
    (b" O\x01K\x7f", b" OK"),
    (b" \0", b" "),
    (b" a\tb \x1b[31mred\x0b", b" a\tb [31mred"),
    (b" caf\xe9 \x80", b" caf\xe9 \x80"),
)


@SIZES
async def test_control_characters_of_a_reason_phrase_stay_here(anyio_backend, size):
    for reason, expected in REASONS:
        async with own_world(reason) as world:
            await passes_as(world, reason, expected, size)


async def passes_as(world: World, reason: bytes, expected: bytes, size: int) -> None:
    pod = await world.serving()
    wire = ok(b"hello", b"Date: x\r\n").replace(b" OK", reason, 1)
    pod.on_data = lambda connection: send_pieces(connection, wire, size)
    client = await world.client()
    client.send(request())
    await until(lambda: client.received.endswith(b"hello"))
    assert bytes(client.received).partition(b"\r\n")[0] == b"HTTP/1.1 200" + expected
    interim = b"HTTP/1.1 103" + reason + b"\r\n\r\n"
    pod.on_data = lambda connection: send_pieces(connection, interim + wire, size)
    client.received.clear()
    client.send(request())
    await until(lambda: client.received.endswith(b"hello"))
    assert bytes(client.received).startswith(b"HTTP/1.1 103" + expected + b"\r\n\r\n")


async def test_hop_by_hop_fields_of_a_response_stay_here(world):
    await world.serving(
        answer=ok(
            fields=b"Connection: close, X-Mine\r\nKeep-Alive: timeout=5\r\nX-Mine: 1\r\n"
            b"Proxy-Authenticate: Basic\r\nUpgrade: h2c\r\nTrailer: X\r\nX-Kept: 1\r\n"
        )
    )
    client = await world.client()
    client.send(request())
    answer = await client.answer()
    for name in (b"connection", b"keep-alive", b"x-mine", b"proxy-authenticate", b"upgrade"):
        assert answer.get(name) is None, name
    assert answer.get(b"x-kept") == b"1"
    assert answer.get(b"date") is not None
    assert not client.eof


async def test_a_response_in_chunks_passes_with_its_trailers(world):
    await world.serving(
        answer=b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        b'3;x="y"\r\nabc\r\n2\r\nde\r\n0\r\nGrpc-Status: 0\r\nContent-Length: 9\r\n\r\n'
    )
    for size in (1, 100_000):
        client = await world.client()
        await client.drip(request(), size)
        answer = await client.answer()
        assert answer.body == b"abcde"
        assert answer.trailers == [(b"grpc-status", b"0")]
        assert not client.eof


@both_loops
async def test_a_response_that_ends_with_its_connection_is_chunked_for_the_client(world):
    pod = await world.serving()

    def answer(connection: PodConnection) -> None:
        connection.write(b"HTTP/1.0 200 OK\r\n\r\nall of it")
        connection.close()

    pod.on_data = answer
    client = await world.client()
    client.send(request())
    assert (await client.answer()).body == b"all of it"
    assert not client.eof
    pod.on_data = answer_whole
    client.send(request())
    assert (await client.answer()).status == 200


@both_loops
async def test_a_response_that_its_connection_should_end_is_not_ended_by_a_reset(world):
    pod = await world.serving()
    pod.on_data = lambda connection: connection.write(b"HTTP/1.0 200 OK\r\n\r\nhalf of it")
    client = await world.client()
    client.send(request())
    await until(lambda: b"half of it" in client.received)
    (connection,) = pod.open
    connection.reset()
    await client.ended()
    assert client.received.endswith(b"half of it\r\n")  # and no last chunk


@both_loops
async def test_a_reset_by_a_pod_is_reported_in_words(world):
    pod = await world.serving()
    pod.on_data = lambda connection: connection.reset()
    answer = await world.ask(request(b"/", b"POST"))
    assert answer.get(b"activator-reason") == (
        b"upstream-failed; %b: connection reset by peer" % pod.endpoint.address.encode()
    )


#: Methods, and heads of responses that have no body.
BODILESS = (
    (b"HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n"),
    (b"HEAD", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
    (b"HEAD", b"HTTP/1.1 200 OK\r\n\r\n"),
    (b"GET", b"HTTP/1.1 204 No Content\r\nContent-Length: 11\r\n\r\n"),
    (b"GET", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 11\r\n\r\n"),
    (b"GET", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
)


@pytest.mark.parametrize("stray", [b"", b"stray bytes"])
async def test_a_response_without_a_body_has_none(anyio_backend, stray):
    for method, head in BODILESS:
        async with own_world(method, head) as world:
            pod = await world.serving()
            pod.answer = head + stray
            client = await world.client()
            client.send(request(method=method) + request(b"/next"))
            answer = await client.answer(method)
            assert answer.body == b""
            await until(lambda pod=pod: len(pod.requests) == 2)
            assert len(pod.connections) == (2 if stray else 1)
            assert b"stray" not in client.received
            client.abort()


async def test_bytes_behind_a_response_belong_to_no_response(world):
    pod = await world.serving()
    pod.answer = ok(b"first") + ok(b"poison")
    client = await world.client()
    client.send(request() + request())
    assert (await client.answer()).body == b"first"
    assert (await client.answer()).body == b"first"
    assert len(pod.connections) == 2


@both_loops
async def test_bytes_that_come_without_a_request_end_the_connection(world):
    pod = await world.serving()
    assert (await world.ask()).status == 200
    pod.connections[0].write(ok(b"poison"))
    await until(lambda: pod.connections[0].closed)
    assert (await world.ask()).body == b"hello"


@pytest.mark.parametrize(
    "interim",
    [
        b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n",
        b"HTTP/1.1 102 Processing\r\n\r\n" * 3,
        b"HTTP/1.1 103 Early Hints\r\nContent-Length: 5\r\n\r\n",
    ],
)
async def test_interim_responses_pass_but_not_to_http_1_0(world, interim):
    pod = await world.serving()
    pod.answer = interim + ok()
    for client_version, count in ((b"HTTP/1.1", interim.count(b"HTTP/1.1")), (b"HTTP/1.0", 0)):
        client = await world.client()
        client.send(request().replace(b"HTTP/1.1", client_version))
        answer = await client.answer()
        assert len(answer.interim) == count
        assert answer.body == b"hello"
        assert b"HTTP/1.1 103 Early Hints\r\nContent" not in client.received


async def test_an_unexpected_100_does_not_pass(world):
    pod = await world.serving()
    pod.answer = b"HTTP/1.1 100 Continue\r\n\r\n" + ok()
    assert (await world.ask()).interim == []


# -- pods that misbehave -------------------------------------------------------------------------

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


def send_pieces(connection: PodConnection, data: bytes, size: int) -> None:
    """Write pieces one by one, as the loop turns."""
    import asyncio

    loop = asyncio.get_running_loop()

    def send(at: int) -> None:
        if at < len(data) and not connection.transport.is_closing():
            connection.write(data[at : at + size])
            loop.call_soon(loop.call_soon, send, at + size)

    send(0)


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


# -- bodies --------------------------------------------------------------------------------------


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
