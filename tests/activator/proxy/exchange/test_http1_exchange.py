"""One request in HTTP/1 and its response: what pods see, what clients see."""

from __future__ import annotations

import pytest

from tests.activator.proxy.world import (
    PodConnection,
    World,
    answer_whole,
    ok,
    own_world,
    request,
    send_pieces,
    until,
)
from tests.conftest import both_loops

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


@pytest.mark.untraced
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
