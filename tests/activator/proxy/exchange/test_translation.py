"""Requests whose client and pod speak different versions of HTTP."""

from __future__ import annotations

from typing import Any, cast

import pytest

from activator.proxy.http2.frames import ErrorCode
from activator.proxy.message.fields import HTTP_1_1
from tests.activator.proxy.http2.peers import (
    Http2Pod,
    Http2World,
    Message,
    Peer,
    answer_hello,
    echo,
)
from tests.activator.proxy.world import Pod, PodConnection, Seen, World, ok, request, turns, until
from tests.conftest import both_loops

LARGE = 3_000_000


def refuse_the_preface(world: World, connection: PodConnection) -> bool:
    """Respond to the preface of HTTP/2 as a server of HTTP/1; return whether it came."""
    if not connection.received.startswith(b"PRI * HTTP/2.0"):
        return False
    world.errors[:] = [each for each in world.errors if "PRI *" not in each]
    if not connection.transport.is_closing():
        connection.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        connection.close()
    return True


def asked(pod: Pod) -> list[Seen]:
    """Return the requests that a pod of HTTP/1 has parsed."""
    return [seen for seen in pod.requests if seen.method != b"PRI"]


async def http2_pod(http2: Http2World) -> Http2Pod:
    """Return a pod that speaks HTTP/2 alone; the proxy knows that already."""
    pod = await http2.serving()
    world = http2.world
    assert (await world.ask()).body == b"hello"
    await turns(20)  # the library rejects the request in HTTP/1, if it reads that
    world.errors[:] = [each for each in world.errors if "Invalid HTTP/2 preamble" not in each]
    return pod


async def http1_pod(http2: Http2World, answer: bytes = b"", on_data=None):
    """Return a pod that speaks HTTP/1 alone, and that a revision lists."""
    world = http2.world
    pod = await world.pod()
    pod.answer = answer or ok()
    usual = on_data or pod.on_data

    def data(connection: PodConnection) -> None:
        if not refuse_the_preface(world, connection):
            usual(connection)

    pod.on_data = data
    http2.list(cast(Any, pod))  # listed by its address alone
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


def refuse_upload(peer: Peer, stream: int, message: Message) -> None:
    """Respond to an upload before its end."""
    if not message.ended and not message.body:
        peer.headers(stream, [(b":status", b"413")])
        peer.data(stream, b"too large", end=True)


@pytest.mark.parametrize("pod", ["HTTP/2", "HTTP/1", "none"])
async def test_a_client_may_send_the_rest_of_its_upload_at_once_behind_an_early_response(
    http2, pod
):
    """httpx reads a response only after the whole request, and fails if its stream is reset."""
    if pod == "HTTP/2":
        (await http2.serving()).on_message = refuse_upload
    elif pod == "HTTP/1":
        refusal = ok(b"too large").replace(b"200 OK", b"413 Content Too Large")
        await http1_pod(http2, on_data=lambda connection: connection.write(refusal))
    client = await http2.client()
    nobody = ((b"knative-serving-revision", b"nobody"),) if pod == "none" else ()
    stream = client.ask(b"/", b"POST", *nobody, end=False)
    client.data(stream, bytes(100))
    await until(lambda: stream in client.messages and client.messages[stream].over)
    started = http2.world.now()

    client.data(stream, bytes(LARGE), end=True)

    await until(lambda: stream not in client.unsent)
    assert (await client.answer(client.ask())).status == (404 if pod == "none" else 413)
    assert client.messages[stream].reset is None
    assert http2.world.now() - started < 0.1


async def test_what_a_pod_speaks_is_remembered(http2):
    pod = await http1_pod(http2)
    client = await http2.client()
    for _ in range(3):
        assert (await client.answer(client.ask())).status == 200
    assert sum(each.received.startswith(b"PRI") for each in pod.connections) == 1
    assert {version for _, _, version, _ in http2.world.counters().client} == {HTTP_1_1}


async def test_the_pod_of_a_retry_may_speak_another_version_too(http2):
    """Each pod is tried in both versions; it has understood no byte of the first one."""
    world = http2.world
    pods = [await http1_pod(http2) for _ in range(2)]
    for pod in pods:
        usual = pod.on_data

        def lost(connection: PodConnection, usual: Any = usual) -> None:
            if connection.received.startswith(b"GET") and sum(map(len, map(asked, pods))) == 1:
                connection.transport.abort()
            else:
                usual(connection)

        pod.on_data = lost
    http2.list(*cast(Any, pods))
    await until(lambda: world.revision().statistics().healthy == 2)
    client = await http2.client()
    answer = await client.answer(client.ask())
    assert (answer.status, answer.all(b"activator-attempts")) == (200, [b"2"])
    assert [[seen.method for seen in asked(pod)] for pod in pods] == [[b"GET"]] * 2


async def test_grpc_gets_no_translation_but_the_truth(http2):
    pod = await http1_pod(http2)
    client = await http2.client()
    for _ in range(2):
        answer = await client.answer(
            client.ask(b"/", b"POST", (b"content-type", b"application/grpc"))
        )
        assert answer.all(b"grpc-status") == [b"14"]
        why = f"upstream-failed; {pod.endpoint.address}: the pod does not speak HTTP/2"
        assert answer.all(b"grpc-message") == [why.encode()]
    assert not asked(pod)


@pytest.mark.untraced
@both_loops
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


@both_loops
async def test_a_pod_that_dies_in_its_body_breaks_the_stream(http2):
    def die(connection: PodConnection) -> None:
        connection.write(b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhalf")
        connection.close()

    await http1_pod(http2, on_data=die)
    client = await http2.client()
    answer = await client.answer(client.ask())
    assert (answer.status, answer.reset) == (200, ErrorCode.INTERNAL_ERROR)


@both_loops
async def test_a_client_that_resets_its_stream_ends_the_pods_connection(http2):
    pod = await http1_pod(http2, on_data=lambda _: None)
    client = await http2.client()
    stream = client.ask()
    await until(lambda: asked(pod))
    client.h2.reset_stream(stream, ErrorCode.CANCEL)
    client.flush()
    await until(lambda: pod.connections[-1].closed)
    assert http2.world.counters().outcomes["cancelled"] == 1


@both_loops
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


def in_steps(answer: bytes, size: int):
    """Have a pod of HTTP/1 send its response in pieces of that size, each in a read of its own."""

    def data(connection: PodConnection) -> None:
        if connection.answered < len(connection.requests) and connection.requests[-1].whole:
            connection.answered += 1
            connection.pod.world.tasks.start(drip(connection))

    async def drip(connection: PodConnection) -> None:
        for at in range(0, len(answer), size):
            connection.write(answer[at : at + size])
            await turns(4)

    return data


@pytest.mark.parametrize("size", [1, 1000], ids=["byte-by-byte", "whole"])
async def test_trailers_of_a_chunked_response_pass(http2, size):
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n"
    answer = head + b"4\r\nbody\r\n0\r\nX-Sum: 7\r\nContent-Length: 9\r\n\r\n"
    await http1_pod(http2, on_data=in_steps(answer, size))
    client = await http2.client()
    for _ in range(2):
        got = await client.answer(client.ask())
        assert (got.status, got.body, got.reset) == (200, b"body", None)
        assert got.trailers == [(b"x-sum", b"7")]


@pytest.mark.untraced
@pytest.mark.parametrize("size", [1, 1000], ids=["byte-by-byte", "whole"])
@pytest.mark.parametrize(
    ("method", "answer"),
    [
        (b"HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"),
        (b"HEAD", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
        (b"GET", b"HTTP/1.1 204 No Content\r\n\r\n"),
        (b"GET", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n"),
        (b"GET", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
    ],
    ids=["head", "head-chunked", "204", "304", "empty"],
)
async def test_a_response_of_http1_without_a_body_ends_with_its_head(http2, method, answer, size):
    await http1_pod(http2, on_data=in_steps(answer, size))
    client = await http2.client()
    for _ in range(2):
        got = await client.answer(client.ask(b"/", method))
        assert (b"%d" % got.status) == answer[9:12]
        assert (got.body, got.ended, got.reset) == (b"", True, None)


@both_loops
async def test_a_response_that_ends_with_its_connection_ends_its_stream(http2):
    def until_the_end(connection: PodConnection) -> None:
        connection.write(b"HTTP/1.0 200 OK\r\n\r\nall of it")
        connection.close()

    await http1_pod(http2, on_data=until_the_end)
    client = await http2.client()
    answer = await client.answer(client.ask())
    assert (answer.status, answer.body, answer.ended) == (200, b"all of it", True)


async def test_more_than_a_pod_of_http1_announced_reaches_no_client(http2):
    pod = await http1_pod(http2, ok(b"hello") + b"and more")
    client = await http2.client()
    for _ in range(2):
        answer = await client.answer(client.ask())
        assert (answer.body, answer.ended) == (b"hello", True)
    assert len(asked(pod)) == 2
    assert all(len(each.requests) == 1 for each in pod.connections), "none is used again"


async def test_a_pod_of_http1_that_changes_its_protocol_unasked_gets_no_more(http2):
    switching = b"HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"
    pod = await http1_pod(http2, switching)
    client = await http2.client()
    assert (await client.answer(client.ask())).status == 502
    await until(lambda: pod.connections[-1].closed)


async def test_a_client_of_http2_that_waits_for_100_gets_it_from_a_pod_of_http1(http2):
    def on_data(connection: PodConnection) -> None:
        seen = connection.requests[-1]
        if seen.whole:
            connection.write(ok(seen.body))
        elif not connection.answered:
            connection.answered += 1
            assert seen.all(b"expect") == [b"100-continue"]
            connection.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    await http1_pod(http2, on_data=on_data)
    client = await http2.client()
    fields = ((b"expect", b"100-continue"), (b"content-length", b"4"))
    stream = client.ask(b"/", b"PUT", *fields, end=False)
    await until(lambda: stream in client.messages and client.messages[stream].interim)
    assert dict(client.messages[stream].interim[0]) == {b":status": b"100"}
    client.data(stream, b"body", end=True)
    answer = await client.answer(stream)
    assert (answer.status, answer.body, len(answer.interim)) == (200, b"body", 1)


@both_loops
@pytest.mark.parametrize("sent", [b"", b"half"])
async def test_a_client_of_http2_that_resets_in_its_body_ends_the_pods_connection(http2, sent):
    pod = await http1_pod(http2)
    client = await http2.client()
    stream = client.ask(b"/", b"POST", (b"content-length", b"8"), end=False)
    client.data(stream, sent)
    await until(lambda: asked(pod) and asked(pod)[0].body == sent)
    client.h2.reset_stream(stream, ErrorCode.CANCEL)
    client.flush()
    await until(lambda: pod.connections[-1].closed)
    assert not asked(pod)[0].whole
    assert (await client.answer(client.ask())).body == b"hello", "its other streams go on"


@pytest.mark.untraced
@both_loops
async def test_a_pod_of_http1_that_reads_nothing_stops_a_client_of_http2(http2):
    world = http2.world
    pod = await http1_pod(http2)
    usual = pod.on_data

    def stop_reading(connection: PodConnection) -> None:
        usual(connection)
        if asked(pod) and not asked(pod)[0].whole and not stopped:
            connection.transport.pause_reading()
            stopped.append(connection)

    stopped: list[PodConnection] = []
    pod.on_data = stop_reading
    client = await http2.client()
    stream = client.ask(b"/", b"POST", end=False)
    await until(lambda: stopped)
    client.data(stream, bytes(4 * LARGE), end=True)
    await turns(500)
    assert len(client.unsent[stream][0]) > LARGE
    assert world.proxy.unread.bytes < 1 << 20
    client.h2.reset_stream(stream, ErrorCode.CANCEL)
    client.flush()
    await world.idle()


@pytest.mark.parametrize("pieces", [[b"body" * 100], [b"body"] * 100], ids=["whole", "in-pieces"])
async def test_a_body_of_http2_that_a_pod_already_has_costs_no_budget(http2, pieces):
    world = http2.world
    pod = await http1_pod(http2, on_data=lambda _: None)
    client = await http2.client()
    stream = client.ask(b"/", b"POST", end=False)
    for piece in pieces:
        client.data(stream, piece)
        await turns(3)
    await until(lambda: asked(pod) and asked(pod)[0].body == b"".join(pieces))
    assert world.driver.throttler.total.bytes == 0
    assert set(world.busy) == {"loads", "in flight", pod.endpoint.address}
    client.data(stream, b"", end=True)
    await until(lambda: asked(pod)[0].whole)
    pod.connections[-1].write(ok())
    assert (await client.answer(stream)).status == 200


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
    assert seen.all(b":authority") == [pod.endpoint.address.encode()]
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


@pytest.mark.parametrize("framing", ["length", "chunks"])
async def test_the_first_request_to_a_pod_of_http2_may_have_a_body(http2, framing):
    """The proxy does not know the pod yet: it sends the request in HTTP/1, and then in HTTP/2."""
    pod = await http2.serving()
    pod.on_message = echo
    world = http2.world
    asked = request(b"/", b"POST", body=b"body")
    if framing == "chunks":
        chunks = b"4\r\nbody\r\n0\r\n\r\n"
        asked = request(b"/", b"POST", b"Transfer-Encoding: chunked\r\n") + chunks
    answer = await world.ask(asked)
    assert (answer.status, answer.body) == (200, b"body")
    await turns(20)
    world.errors[:] = [each for each in world.errors if "Invalid HTTP/2 preamble" not in each]


@pytest.mark.untraced
@both_loops
async def test_large_bodies_pass_to_a_pod_of_http2(http2):
    pod = await http2_pod(http2)
    world = http2.world
    pod.on_message = echo
    body = bytes(range(256)) * (LARGE // 256)
    answer = await world.ask(request(b"/", b"PUT", body=body))
    assert (answer.status, answer.body) == (200, body)


@both_loops
async def test_a_client_of_http1_that_reads_nothing_stops_a_pod_of_http2(http2):
    size = 2 * LARGE  # more than the largest buffers of the kernel, of 4 MiB and 256 KiB
    pod = await http2_pod(http2)
    world = http2.world

    def pour(peer: Peer, stream: int, message: Message) -> None:
        if message.ended:
            peer.headers(stream, [(b":status", b"200")])
            peer.data(stream, bytes(size), end=True)

    pod.on_message = pour
    client = await world.client(receive_buffer=1 << 18)
    client.transport.pause_reading()
    client.send(request())
    await until(lambda: pod.connections[-1].unsent)
    await turns(2000)
    assert pod.connections[-1].unsent
    assert world.proxy.unread.bytes < 1 << 19
    client.transport.resume_reading()
    assert len((await client.answer()).body) == size


@both_loops
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


@both_loops
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
    pod = await http2_pod(http2)
    world = http2.world
    fields = b"Connection: Upgrade\r\nUpgrade: websocket\r\n"
    answer = await world.ask(request(fields=fields))
    text = f"{pod.endpoint.address}: the pod speaks only HTTP/2, which has no Upgrade".encode()
    assert (answer.status, answer.body) == (501, text + b"\n")
    assert answer.get(b"activator-reason") == b"no-upgrade; " + text
    assert world.counters().outcomes["refused"] == 1
    assert world.revision().statistics().healthy == 1
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
    http2.list(cast(Any, pod))  # listed by its address alone
    client = await http2.client()
    assert (await client.answer(client.ask())).status == 502
    assert (await world.ask()).status == 502


@pytest.mark.parametrize(
    ("method", "status", "more", "said"),
    [
        (b"HEAD", b"200", [], None),
        (b"HEAD", b"200", [(b"content-length", b"5")], b"5"),
        (b"GET", b"204", [], None),
        (b"GET", b"304", [], None),
        (b"GET", b"304", [(b"content-length", b"5")], b"5"),
    ],
)
async def test_a_response_of_http2_without_a_body_ends_with_its_head(
    http2, method, status, more, said
):
    def bare(peer: Peer, stream: int, message: Message) -> None:
        if message.ended:
            peer.headers(stream, [(b":status", status), *more], end=True)

    pod = await http2_pod(http2)
    pod.on_message = bare
    client = await http2.world.client()
    client.send(request(method=method) * 2)
    for _ in range(2):
        answer = await client.answer(method)
        assert (b"%d" % answer.status, answer.body) == (status, b"")
        assert answer.get(b"content-length") == said
        assert answer.get(b"transfer-encoding") is None
    assert not client.unread
    assert bytes(client.received).count(b"\r\n\r\n") == 2


async def test_each_cookie_of_a_pod_of_http2_is_a_line_of_its_own(http2):
    def with_cookies(peer: Peer, stream: int, message: Message) -> None:
        if message.ended:
            cookies = [(b"set-cookie", b"a=1; Expires=Mon, 01 Jan"), (b"set-cookie", b"b=2")]
            peer.headers(stream, [(b":status", b"200"), *cookies], end=True)

    pod = await http2_pod(http2)
    pod.on_message = with_cookies
    answer = await http2.world.ask()
    cookies = [value for name, value in answer.headers if name == b"set-cookie"]
    assert cookies == [b"a=1; Expires=Mon, 01 Jan", b"b=2"]


@pytest.mark.parametrize(
    ("target", "path"), [(b"http://example.com/a?b", b"/a?b"), (b"http://example.com", b"/")]
)
async def test_a_target_in_absolute_form_becomes_a_path(http2, target, path):
    pod = await http2_pod(http2)
    assert (await http2.world.ask(request(target))).status == 200
    assert pod.requests[1].all(b":path") == [path]


async def test_a_client_of_http1_that_waits_for_100_gets_it_from_a_pod_of_http2(http2):
    def on_message(peer: Peer, stream: int, message: Message) -> None:
        if not message.body and not message.ended:
            assert message.all(b"expect") == [b"100-continue"]
            peer.headers(stream, [(b":status", b"100")])
        echo(peer, stream, message)

    pod = await http2_pod(http2)
    pod.on_message = on_message
    client = await http2.world.client()
    head, _, _ = request(b"/", b"PUT", b"Expect: 100-continue\r\n", b"body").rpartition(b"body")
    client.send(head)
    await client.size(25)
    assert client.received == b"HTTP/1.1 100 Continue\r\n\r\n"
    client.send(b"body")
    answer = await client.answer()
    assert (answer.status, answer.body, answer.interim) == (200, b"body", [100])


async def test_an_interim_response_of_http2_passes(http2):
    def hint(peer: Peer, stream: int, message: Message) -> None:
        if message.ended:
            peer.headers(stream, [(b":status", b"103"), (b"link", b"</a>")])
            peer.headers(stream, [(b":status", b"200"), (b"content-length", b"5")])
            peer.data(stream, b"hello", end=True)

    pod = await http2_pod(http2)
    pod.on_message = hint
    client = await http2.world.client()
    client.send(request())
    answer = await client.answer()
    assert (answer.body, answer.interim) == (b"hello", [103])
    assert client.received.startswith(b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n")
    old = await http2.world.client()
    old.send(request().replace(b"HTTP/1.1", b"HTTP/1.0"))
    answer = await old.answer()
    assert (answer.body, answer.interim) == (b"hello", []), "HTTP/1.0 knows none"


@pytest.mark.parametrize("length", [b"9", b"3"])
async def test_a_pod_of_http2_that_sends_not_what_it_announced_breaks_the_connection(http2, length):
    def lie(peer: Peer, stream: int, message: Message) -> None:
        if message.ended:
            peer.headers(stream, [(b":status", b"200"), (b"content-length", length)])
            peer.data(stream, b"hello", end=True)

    pod = await http2_pod(http2)
    pod.on_message = lie
    client = await http2.world.client()
    client.send(request())
    await client.ended()
    assert b"hello" not in client.received or length == b"9"
    assert client.received.count(b"HTTP/1.1 ") <= 1


@both_loops
async def test_a_pod_of_http2_whose_connection_ends_in_a_body_breaks_the_response(http2):
    def die(peer: Peer, stream: int, message: Message) -> None:
        if message.ended:
            peer.headers(stream, [(b":status", b"200")])
            peer.data(stream, b"half")
            peer.transport.close()

    pod = await http2_pod(http2)
    pod.on_message = die
    client = await http2.world.client()
    client.send(request())
    await client.ended()
    assert b"0\r\n\r\n" not in client.received
    assert http2.world.counters().outcomes["upstream-failed"] == 1


@pytest.mark.untraced
@pytest.mark.parametrize("size", [1, 1000], ids=["byte-by-byte", "whole"])
@pytest.mark.parametrize("how", ["refused", "goaway"])
@pytest.mark.parametrize("method", [b"GET", b"POST"])
async def test_what_a_pod_of_http2_has_not_looked_at_goes_out_again(http2, method, how, size):
    refusals = 0

    def refuse(peer: Peer, stream: int, message: Message) -> None:
        nonlocal refusals
        if not message.ended or message.reset is not None:
            return
        if refusals:
            echo(peer, stream, message)
            return
        refusals += 1
        if how == "refused":
            peer.h2.reset_stream(stream, ErrorCode.REFUSED_STREAM)
        else:
            peer.h2.close_connection(last_stream_id=stream - 2)
        peer.flush()

    pod = await http2_pod(http2)
    pod.on_message = refuse
    client = await http2.world.client()
    body = b"" if method == b"GET" else b"small body"
    await client.drip(request(b"/", method, body=body), size)
    answer = await client.answer()
    assert (answer.status, answer.body, refusals) == (200, body, 1)
    assert answer.get(b"activator-attempts") == b"2"


@both_loops
async def test_a_client_of_http1_that_leaves_in_its_body_resets_the_pods_stream(http2):
    pod = await http2_pod(http2)
    client = await http2.world.client()
    client.send(request(b"/", b"POST", b"Content-Length: 8\r\n") + b"half")
    await until(lambda: len(pod.requests) == 2 and pod.requests[1].body == b"half")
    client.abort()
    await until(lambda: pod.requests[1].reset == ErrorCode.CANCEL)


@both_loops
async def test_a_pod_of_http2_that_reads_nothing_stops_a_client_of_http1(http2):
    pod = await http2_pod(http2)
    world = http2.world
    client = await world.client()
    client.send(request(b"/", b"POST", b"Content-Length: %d\r\n" % (4 * LARGE)))
    await until(lambda: len(pod.requests) == 2)
    peer = pod.connections[-1]
    peer.reads = False
    client.send(bytes(4 * LARGE))
    await turns(500)
    assert client.transport.get_write_buffer_size() > LARGE
    assert world.proxy.unread.bytes < 1 << 20
    peer.h2.reset_stream(max(peer.messages), ErrorCode.CANCEL)
    peer.flush()
    assert (await client.answer()).status == 502
    client.abort()


@pytest.mark.parametrize("size", [1, 1000], ids=["byte-by-byte", "whole"])
async def test_a_body_of_http1_that_a_pod_already_has_costs_no_budget(http2, size):
    world = http2.world
    pod = await http2_pod(http2)
    pod.on_message = lambda *_: None
    client = await world.client()
    await client.drip(request(b"/", b"POST", body=b"body" * 50), size)
    await until(lambda: len(pod.requests) == 2 and pod.requests[1].ended)
    assert pod.requests[1].body == b"body" * 50
    assert world.driver.throttler.total.bytes == 0
    assert set(world.busy) == {"loads", "in flight", pod.endpoint.address}
    answer_hello(pod.connections[-1], 3, pod.requests[1])
    assert (await client.answer()).body == b"hello"
