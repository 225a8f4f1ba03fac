"""Requests whose client and pod speak different versions of HTTP."""

from __future__ import annotations

import pytest

from activator.proxy.http2.errors import ErrorCode
from activator.proxy.message.version import HTTP_1_1
from tests.activator.proxy.http2.peers import Http2Pod, Http2World, Message, Peer, echo
from tests.activator.proxy.world import Pod, PodConnection, Seen, World, ok, request, turns, until

LARGE = 3_000_000


def refuse_the_preface(world: World, connection: PodConnection) -> bool:
    """Do what a server of HTTP/1 does with the preface of HTTP/2; return whether it came."""
    if not connection.received.startswith(b"PRI * HTTP/2.0"):
        return False
    world.errors[:] = [each for each in world.errors if "PRI *" not in each]
    if not connection.transport.is_closing():
        connection.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        connection.close()
    return True


def asked(pod: Pod) -> list[Seen]:
    """The requests that a pod of HTTP/1 has understood."""
    return [seen for seen in pod.requests if seen.method != b"PRI"]


async def http2_pod(http2: Http2World) -> Http2Pod:
    """A pod that speaks HTTP/2 alone, as the proxy knows by now."""
    pod = await http2.serving()
    world = http2.world
    assert (await world.ask()).body == b"hello"
    await turns(20)  # the library objects to the request in HTTP/1, if it has read that
    world.errors[:] = [each for each in world.errors if "Invalid HTTP/2 preamble" not in each]
    return pod


async def http1_pod(http2: Http2World, answer: bytes = b"", on_data=None):
    """A pod that speaks HTTP/1 alone, and that a revision lists."""
    world = http2.world
    pod = await world.pod()
    pod.answer = answer or ok()
    usual = on_data or pod.on_data

    def data(connection: PodConnection) -> None:
        if not refuse_the_preface(world, connection):
            usual(connection)

    pod.on_data = data
    http2.list(pod)
    return pod


# -- HTTP/2 to HTTP/1 -------------------------------------------------------------------------


async def test_a_pod_of_http1_gets_a_request_of_http2(http2):
    pod = await http1_pod(http2, ok(b"hello", b"X-Answer: a\r\nKeep-Alive: 5\r\nDate: then\r\n"))
    client = await http2.client()
    more = ((b"x-asked", b"b"), (b"cookie", b"c=1"), (b"cookie", b"d=2"), (b"te", b"trailers"))
    answer = await client.answer(client.ask(b"/a?b", b"GET", *more))
    assert (answer.status, answer.body) == (200, b"hello")
    assert answer.all(b"x-answer") == [b"a"]
    assert answer.all(b"date") == [b"then"]
    assert answer.all(b"content-length") == [b"5"]
    assert not answer.all(b"keep-alive")
    (seen,) = asked(pod)
    assert (seen.method, seen.target, seen.version) == (b"GET", b"/a?b", b"1.1")
    assert seen.all(b"x-asked") == [b"b"]
    assert seen.all(b"cookie") == [b"c=1; d=2"]
    assert seen.all(b"k-original-host") == [b"example.com"]
    assert seen.all(b"x-forwarded-for") == [b"127.0.0.1"]
    assert seen.all(b"te") == [b"trailers"]
    assert not seen.all(b"knative-serving-revision")


async def test_what_a_pod_speaks_is_remembered(http2):
    pod = await http1_pod(http2)
    client = await http2.client()
    for _ in range(3):
        assert (await client.answer(client.ask())).status == 200
    assert sum(each.received.startswith(b"PRI") for each in pod.connections) == 1
    assert {version for _, _, version, _ in http2.world.counters().client} == {HTTP_1_1}


async def test_grpc_gets_no_translation_but_the_truth(http2):
    pod = await http1_pod(http2)
    client = await http2.client()
    for _ in range(2):
        answer = await client.answer(
            client.ask(b"/", b"POST", (b"content-type", b"application/grpc"))
        )
        assert answer.all(b"grpc-status") == [b"14"]
        why = f"upstream-failed; {pod.dest.address}: the pod does not speak HTTP/2"
        assert answer.all(b"grpc-message") == [why.encode()]
    assert not asked(pod)


@pytest.mark.parametrize("length", [True, False])
async def test_a_body_passes_both_ways(http2, length):
    def echoed(connection: PodConnection) -> None:
        seen = connection.requests[-1]
        if seen.whole and connection.answered < len(connection.requests):
            connection.answered += 1
            head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n"
            body = b"%x\r\n%b\r\n" % (len(seen.body), seen.body)
            connection.write(head + body + b"0\r\nX-Sum: 7\r\n\r\n")

    pod = await http1_pod(http2, on_data=echoed)
    client = await http2.client()
    body = bytes(range(256)) * (LARGE // 256)
    fields = ((b"content-length", b"%d" % len(body)),) if length else ()
    stream = client.ask(b"/", b"PUT", *fields, (b"te", b"trailers"), end=False)
    client.data(stream, body, end=True)
    answer = await client.answer(stream)
    assert (answer.status, answer.body) == (200, body)
    assert answer.trailers == [(b"x-sum", b"7")]
    (seen,) = asked(pod)
    assert seen.all(b"transfer-encoding") == ([] if length else [b"chunked"])


async def test_trailers_of_a_request_pass(http2):
    pod = await http1_pod(http2)
    client = await http2.client()
    assert (await client.answer(client.ask())).status == 200
    stream = client.ask(b"/", b"POST", (b"trailer", b"x-sum"), end=False)
    client.data(stream, b"body")
    client.headers(stream, [(b"x-sum", b"7")], end=True)
    assert (await client.answer(stream)).status == 200
    assert asked(pod)[1].body == b"body"
    assert asked(pod)[1].trailers == [(b"x-sum", b"7")]


async def test_an_interim_response_passes(http2):
    hints = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
    await http1_pod(http2, hints + ok())
    client = await http2.client()
    answer = await client.answer(client.ask())
    assert [dict(each) for each in answer.interim] == [{b":status": b"103", b"link": b"</a>"}]
    assert answer.body == b"hello"


async def test_a_pod_that_dies_in_its_body_breaks_the_stream(http2):
    def die(connection: PodConnection) -> None:
        connection.write(b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhalf")
        connection.close()

    await http1_pod(http2, on_data=die)
    client = await http2.client()
    answer = await client.answer(client.ask())
    assert (answer.status, answer.reset) == (200, ErrorCode.INTERNAL_ERROR)


async def test_a_client_that_resets_its_stream_ends_the_pods_connection(http2):
    pod = await http1_pod(http2, on_data=lambda _: None)
    client = await http2.client()
    stream = client.ask()
    await until(lambda: asked(pod))
    client.h2.reset_stream(stream, ErrorCode.CANCEL)
    client.flush()
    await until(lambda: pod.connections[-1].closed)
    assert http2.world.counters().outcomes["cancelled"] == 1


async def test_a_client_that_reads_nothing_stops_a_pod_of_http1(http2):
    sent = 0

    def pour(connection: PodConnection) -> None:
        nonlocal sent
        sent = LARGE
        connection.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % sent)
        connection.write(bytes(sent))

    await http1_pod(http2, on_data=pour)
    client = await http2.client(window=0)
    stream = client.ask()
    await until(lambda: sent)
    await turns(500)
    assert http2.world.proxy.unread.bytes < 1 << 19
    client.h2.increment_flow_control_window(sent)
    client.h2.increment_flow_control_window(sent, stream)
    client.flush()
    assert len((await client.answer(stream)).body) == sent


# -- HTTP/1 to HTTP/2 -------------------------------------------------------------------------


async def test_a_pod_of_http2_gets_a_request_of_http1(http2):
    pod = await http2_pod(http2)
    world = http2.world
    fields = b"X-Asked: b\r\nConnection: keep-alive, X-Hop\r\nX-Hop: 1\r\nAuthorization: s\r\n"
    for _ in range(2):
        answer = await world.ask(request(b"/a?b", fields=fields))
        assert (answer.status, answer.body) == (200, b"hello")
        names = [name.lower() for name, _ in answer.headers]
        assert (names.count(b"content-length"), names.count(b"date")) == (1, 1)
    seen = pod.requests[1]
    assert seen.all(b":method") == [b"GET"]
    assert seen.all(b":path") == [b"/a?b"]
    assert seen.all(b":authority") == [pod.dest.address.encode()]
    assert seen.all(b"x-asked") == [b"b"]
    assert seen.all(b"authorization") == [b"s"]
    assert seen.all(b"k-original-host") == [b"example.com"]
    for name in (b"connection", b"keep-alive", b"x-hop", b"host", b"knative-serving-revision"):
        assert not seen.all(name)


async def test_bodies_and_trailers_pass_to_a_pod_of_http2(http2):
    def with_trailers(peer: Peer, stream: int, message: Message) -> None:
        if message.ended:
            peer.headers(stream, [(b":status", b"200")])
            peer.data(stream, message.body)
            peer.headers(stream, [(b"x-sum", b"7")], end=True)

    pod = await http2_pod(http2)
    world = http2.world
    pod.on_message = with_trailers
    chunks = b"4\r\nbody\r\n0\r\nX-Sum: 5\r\n\r\n"
    fields = b"Transfer-Encoding: chunked\r\nTrailer: X-Sum\r\nTE: trailers\r\n"
    answer = await world.ask(request(b"/", b"POST", fields) + chunks)
    assert (answer.status, answer.body) == (200, b"body")
    assert answer.trailers == [(b"x-sum", b"7")]
    assert pod.requests[1].trailers == [(b"x-sum", b"5")]


async def test_large_bodies_pass_to_a_pod_of_http2(http2):
    pod = await http2_pod(http2)
    world = http2.world
    pod.on_message = echo
    body = bytes(range(256)) * (LARGE // 256)
    answer = await world.ask(request(b"/", b"PUT", body=body))
    assert (answer.status, answer.body) == (200, body)


async def test_a_client_of_http1_that_reads_nothing_stops_a_pod_of_http2(http2):
    pod = await http2_pod(http2)
    world = http2.world

    def pour(peer: Peer, stream: int, message: Message) -> None:
        if message.ended:
            peer.headers(stream, [(b":status", b"200")])
            peer.data(stream, bytes(LARGE), end=True)

    pod.on_message = pour
    client = await world.client(receive_buffer=4096)
    client.transport.pause_reading()
    client.send(request())
    await until(lambda: pod.connections[-1].unsent)
    await turns(2000)
    assert pod.connections[-1].unsent
    assert world.proxy.unread.bytes < 1 << 19
    client.transport.resume_reading()
    assert len((await client.answer()).body) == LARGE


async def test_a_pod_of_http2_that_resets_its_stream_breaks_the_connection(http2):
    def stop(peer: Peer, stream: int, message: Message) -> None:
        if message.ended:
            peer.headers(stream, [(b":status", b"200")])
            peer.data(stream, b"half")
            peer.h2.reset_stream(stream, ErrorCode.INTERNAL_ERROR)
            peer.flush()

    pod = await http2_pod(http2)
    world = http2.world
    pod.on_message = stop
    client = await world.client()
    client.send(request())
    await client.ended()
    assert b"0\r\n\r\n" not in client.received


async def test_a_client_of_http1_that_leaves_resets_the_pods_stream(http2):
    pod = await http2_pod(http2)
    world = http2.world
    pod.on_message = lambda *_: None
    client = await world.client()
    client.send(request())
    await until(lambda: len(pod.requests) == 2)
    client.abort()
    await until(lambda: pod.requests[1].reset == ErrorCode.CANCEL)


async def test_no_protocol_is_changed_to_one_of_a_pod_of_http2(http2):
    await http2_pod(http2)
    world = http2.world
    fields = b"Connection: Upgrade\r\nUpgrade: websocket\r\n"
    answer = await world.ask(request(fields=fields))
    assert answer.status == 502
    assert dict(answer.headers)[b"activator-reason"].endswith(b"the pod speaks HTTP/2 alone")
    world.errors.clear()  # the library objects to the request in HTTP/1


async def test_a_pod_that_understands_neither_is_not_tried_for_ever(http2):
    world = http2.world
    pod = await world.pod()
    pod.on_connect = lambda connection: setattr(connection, "raw", True)
    settings = bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))

    def neither(connection: PodConnection) -> None:
        is_http2 = connection.received.startswith(b"PRI")
        connection.write(b"HTTP/1.1 400 no\r\n\r\n" if is_http2 else settings)

    pod.on_data = neither
    http2.list(pod)
    client = await http2.client()
    assert (await client.answer(client.ask())).status == 502
    assert (await world.ask()).status == 502
