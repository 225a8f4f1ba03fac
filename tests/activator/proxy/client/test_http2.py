"""A client's HTTP/2 connection: its beginning, its end, and hostile clients."""

from __future__ import annotations

from functools import cache

import pytest

from activator.proxy.client.http2 import MAX_STREAMS
from activator.proxy.http2 import frames
from activator.proxy.http2.connection import data_head, header_frames
from activator.proxy.http2.frames import ErrorCode, FrameType
from activator.proxy.http2.hpack import line
from tests.activator.proxy.http2.peers import TO_REVISION, Message, Peer, answer_hello
from tests.activator.proxy.world import ok, request, turns, until
from tests.conftest import both_loops, in_virtual_time

BEGIN = frames.PREFACE + frames.settings(b"")
HEAD = [(b":method", b"GET"), (b":scheme", b"http"), (b":path", b"/"), (b":authority", b"h")]


@cache  # tens of thousands of requests at import
def block(*fields: tuple[bytes, bytes]) -> bytes:
    return b"".join(line(*each) for each in (*HEAD, *TO_REVISION, *fields))


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return frames.HEAD.pack(len(payload) << 8 | kind, flags, stream) + payload


def asked(stream: int, *, ended: bool = True) -> bytes:
    return header_frames(stream, block(), ended=ended)


async def raw(http2, data: bytes):
    """Return a client that sends these bytes; its peer accepts any response."""
    client = await http2.world.client()
    client.send(data)
    return client


def goaways(received: bytes) -> list[tuple[int, int]]:
    """Return last stream and code of each GOAWAY in the bytes."""
    return [
        (int.from_bytes(payload[:4], "big"), int.from_bytes(payload[4:8], "big"))
        for kind, _, payload in cut(received)
        if kind == FrameType.GOAWAY
    ]


def resets(received: bytes) -> list[tuple[int, int]]:
    """Return stream and code of each RST_STREAM in the bytes."""
    return [
        (stream, int.from_bytes(payload, "big"))
        for kind, stream, payload in cut(received)
        if kind == FrameType.RST_STREAM
    ]


def pings(received: bytes) -> list[bytes]:
    """Return the payload of each PING in the bytes."""
    return [payload for kind, _, payload in cut(received) if kind == FrameType.PING]


def cut(received: bytes) -> list[tuple[int, int, bytes]]:
    found = []
    at = 0
    while at + 9 <= len(received):
        word, _, stream = frames.HEAD.unpack_from(received, at)
        end = at + 9 + (word >> 8)
        found.append((word & 0xFF, stream, bytes(received[at + 9 : end])))
        at = end
    return found


# -- how it begins and ends ----------------------------------------------------------------------


@both_loops
@pytest.mark.parametrize("size", [1, 7, 24, 1000])
async def test_the_first_bytes_decide_however_they_are_cut(http2, size):
    await http2.serving()
    client = await http2.world.client()
    await client.drip(BEGIN + asked(1), size)
    await until(lambda: b"hello" in client.received)


async def test_a_client_of_http1_on_the_same_port_is_served_in_http1(world):
    await world.serving(answer=ok(b"one"))
    assert (await world.ask()).body == b"one"


async def test_the_preface_behind_a_request_is_no_beginning(world):
    await world.serving()
    client = await world.client()
    client.send(request())
    await client.answer()
    client.send(BEGIN)
    assert (await client.answer()).status == 505


@in_virtual_time
async def test_a_server_that_stops_says_so_and_finishes_what_runs(http2):
    pod = await http2.serving()
    pod.on_message = lambda *_: None
    client = await raw(http2, BEGIN + asked(1))
    await until(lambda: pod.requests and pod.requests[0].ended)
    (connection,) = http2.world.proxy.connections
    connection.shutdown()
    await turns(20)
    assert goaways(client.received) == []  # some clients would take it for the end of stream 1

    # Streams that began before GOAWAY arrived are served. The proxy ignores later streams.
    client.send(asked(3))
    await until(lambda: goaways(client.received))
    assert goaways(client.received) == [(frames.MAX_31_BITS, ErrorCode.NO_ERROR)]
    await http2.world.clock_moves(1.1)
    await until(lambda: len(goaways(client.received)) == 2)
    assert goaways(client.received)[1] == (3, ErrorCode.NO_ERROR)
    client.send(asked(5, ended=False) + data_head(5, 2, ended=True) + b"ab")
    await turns(20)
    assert not client.eof
    for stream in (1, 3):
        pod.connections[0].headers(stream, [(b":status", b"200")], end=True)
    await client.ended()
    assert [s for kind, s, _ in cut(client.received) if kind == FrameType.HEADERS] == [1, 3]
    assert len(pod.requests) == 2
    assert len(goaways(client.received)) == 2


async def test_an_idle_client_learns_that_the_server_stops_and_has_a_second_to_go(http2):
    client = await raw(http2, BEGIN)
    await until(lambda: client.received)
    (connection,) = http2.world.proxy.connections
    connection.shutdown()
    await client.ended()
    assert [last for last, _ in goaways(client.received)] == [frames.MAX_31_BITS, 0]
    assert pings(client.received) == []


async def in_the_lame_duck(http2, *, window: int = 65535) -> Peer:
    """Return a client with one request at a time, whose server has begun to drain."""
    await http2.serving()
    client = await http2.client(window=window)
    await client.answer(client.ask())
    assert client.goaway is None
    http2.world.proxy.services.draining = True
    return client


@both_loops
async def test_in_the_lame_duck_goaway_follows_the_response_in_one_write(http2):
    """The client is the library h2, for which any frame behind GOAWAY is an error."""
    client = await in_the_lame_duck(http2)
    answer = await client.answer(client.ask())
    assert (answer.status, answer.body) == (200, b"hello")
    assert client.goaway == (frames.MAX_31_BITS, ErrorCode.NO_ERROR)


@both_loops
async def test_in_the_lame_duck_a_client_that_reads_slowly_has_all_before_goaway(http2):
    client = await in_the_lame_duck(http2, window=1)
    client.reads = False
    stream = client.ask()
    for size in range(1, 5):
        body = b"hello"[:size]
        await until(lambda body=body: body == client.messages.get(stream, Message()).body)
        assert client.goaway is None
        client.h2.increment_flow_control_window(1, stream)
        client.flush()
    assert (await client.answer(stream)).body == b"hello"
    await until(lambda: client.goaway)


@in_virtual_time
async def test_in_the_lame_duck_requests_at_a_time_are_served_without_goaway(http2):
    client = await in_the_lame_duck(http2)
    client.ask()
    streams = [client.ask() for _ in range(3)]
    for stream in streams:
        assert (await client.answer(stream)).status == 200
    await http2.world.clock_moves(5)
    assert client.goaway is None
    (connection,) = http2.world.proxy.connections
    connection.shutdown()
    await until(lambda: client.goaway == (frames.MAX_31_BITS, ErrorCode.NO_ERROR))


@in_virtual_time
async def test_when_the_server_stops_responses_to_requests_at_a_time_come_before_goaway(http2):
    pod = await http2.serving()
    pod.on_message = lambda *_: None
    client = await http2.client()
    streams = [client.ask() for _ in range(3)]
    await until(lambda: len(pod.requests) == 3)
    (connection,) = http2.world.proxy.connections
    connection.shutdown()
    for stream in streams:
        answer_hello(pod.connections[0], stream, pod.connections[0].messages[stream])
    for stream in streams:
        assert (await client.answer(stream)).body == b"hello"
    await turns(20)
    assert client.goaway is None
    await http2.world.clock_moves(1.1)
    await until(lambda: client.goaway == (frames.MAX_31_BITS, ErrorCode.NO_ERROR))
    await http2.world.clock_moves(1.1)
    await until(lambda: client.goaway == (5, ErrorCode.NO_ERROR) and client.lost)


async def test_when_the_server_stops_a_client_that_resets_its_last_stream_gets_goaway(http2):
    pod = await http2.serving()
    pod.on_message = lambda *_: None
    client = await raw(http2, BEGIN + asked(1))
    await until(lambda: pod.requests)
    (connection,) = http2.world.proxy.connections
    connection.shutdown()
    client.send(frames.rst_stream(1, ErrorCode.CANCEL))
    await until(lambda: not connection.handler.link.streams)
    await client.ended()
    assert [last for last, _ in goaways(client.received)] == [frames.MAX_31_BITS, 1]


@both_loops
async def test_a_connection_that_is_cut_names_the_last_stream(http2):
    pod = await http2.serving()
    pod.on_message = lambda *_: None
    client = await raw(http2, BEGIN + asked(1))
    await until(lambda: pod.requests)
    (connection,) = http2.world.proxy.connections
    connection.shutdown()
    connection.force_end()
    await client.ended()
    assert b"draining" in client.received
    assert goaways(client.received)[-1] == (1, ErrorCode.NO_ERROR)


@both_loops
async def test_a_client_that_leaves_frees_its_places(http2):
    pod = await http2.serving()
    pod.on_message = lambda *_: None
    client = await http2.client()
    for _ in range(3):
        client.ask()
    await until(lambda: len(pod.requests) == 3)
    client.transport.abort()
    await until(lambda: all(seen.reset == ErrorCode.CANCEL for seen in pod.requests))
    assert http2.world.in_flight == 0


async def test_draining_tells_who_waits(http2):
    http2.list()
    client = await http2.client()
    stream = client.ask()
    await until(lambda: http2.world.waiting == 1)
    http2.world.proxy.drain()
    answer = await client.answer(stream)
    assert (answer.status, answer.body) == (503, b"draining\n")


async def test_what_is_only_the_beginning_of_the_preface_is_turned_away(http2):
    client = await raw(http2, b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n" + request())
    await client.ended()
    assert [code for _, code in goaways(client.received)] == [ErrorCode.PROTOCOL_ERROR]


# -- hostile clients -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        (
            [
                header_frames(1, block((b"content-length", b"3")), ended=False),
                data_head(1, 2, ended=True) + b"ab",
            ],
            ErrorCode.PROTOCOL_ERROR,
        ),
        ([asked(1, ended=False), frames.window_update(1, (1 << 31) - 1)], None),
        ([asked(1, ended=False), asked(1, ended=False)], ErrorCode.PROTOCOL_ERROR),
        ([asked(1, ended=False), frame(8, 0, 1, bytes(4))], ErrorCode.PROTOCOL_ERROR),
    ],
)
async def test_what_is_wrong_on_a_stream_costs_that_stream_alone(http2, bad, code):
    pod = await http2.serving()
    client = await raw(http2, BEGIN + b"".join(bad) + asked(3))
    await until(lambda: b"hello" in client.received)
    expected = ErrorCode.FLOW_CONTROL_ERROR if code is None else code
    assert (1, expected) in resets(client.received)
    await until(lambda: not [m for m in pod.requests if not m.over])


@pytest.mark.parametrize(
    ("malformed", "why"),
    [
        (line(b":method", b"GET"), b"pseudo fields are missing, or behind other fields"),
        (block((b"connection", b"x")), b"a field of a connection, or of another kind of section"),
        (block((b"te", b"gzip")), b"te has other values than trailers"),
        (block((b"X", b"y")), b""),
        (block((b"x", b"a\r\nb: c")), b""),
        (block((b"host", b"other")), b"Host and :authority differ"),
        (block((b"content-length", b"5")), b"the body does not have its content-length"),
    ],
)
async def test_a_malformed_request_gets_the_reason_and_reaches_no_pod(http2, malformed, why):
    pod = await http2.serving()
    begin = header_frames(1, malformed, ended=True)
    unended = header_frames(3, malformed, ended=False)
    client = await raw(
        http2, BEGIN + begin + unended * (why != b"the body does not have its content-length")
    )
    client.send(asked(5))
    await until(lambda: b"hello" in client.received)
    assert b"400 Bad Request: " + why in client.received
    assert line(b":status", b"400") in client.received
    assert b"bad-request" in client.received
    assert goaways(client.received) == []
    assert len(pod.requests) == 1
    # The whole response comes first, so that a client that reads it has it.
    begun = [kind for kind, stream, _ in cut(client.received) if stream == 1]
    assert begun == [FrameType.HEADERS, FrameType.DATA, FrameType.RST_STREAM]
    assert (1, ErrorCode.PROTOCOL_ERROR) in resets(client.received)
    assert http2.world.counters().outcomes["served"] == 1


@pytest.mark.parametrize("more", [(b"te", b"gzip"), (b"host", b"other"), (b"content-length", b"5")])
async def test_a_malformed_head_request_gets_an_error_without_a_body(http2, more):
    """Clients treat DATA behind the response to a HEAD as a connection error."""
    head = b"".join(line(*field) for field in ((b":method", b"HEAD"), *HEAD[1:], more))
    client = await raw(http2, BEGIN + header_frames(1, head, ended=True))
    await until(lambda: line(b":status", b"400") in client.received)
    client.send(frames.ping(b"is it ok", ack=False))
    await until(lambda: pings(client.received) == [b"is it ok"])
    assert FrameType.DATA not in [kind for kind, _, _ in cut(client.received)]
    assert resets(client.received) == [(1, ErrorCode.PROTOCOL_ERROR)]
    (connection,) = http2.world.proxy.connections
    assert not connection.handler.link.streams


@in_virtual_time
@pytest.mark.parametrize("ends", [True, False])
async def test_a_malformed_request_that_goes_on_is_reset_behind_its_end(http2, ends):
    """Clients lose a response if a reset comes while they send."""
    client = await raw(http2, BEGIN + header_frames(1, block((b"te", b"gzip")), ended=False))
    await until(lambda: b"400 Bad Request" in client.received)
    await turns(20)
    assert resets(client.received) == []
    if ends:
        client.send(data_head(1, 2, ended=True) + b"ab")
    else:
        await http2.world.clock_moves(2.1)
    await until(lambda: resets(client.received) == [(1, ErrorCode.PROTOCOL_ERROR)])


@pytest.mark.parametrize("window", [0, 1, 10, 65535])
async def test_a_malformed_request_has_its_response_before_the_reset_whatever_the_window(
    http2, window
):
    client = await http2.client(window=window)
    stream = client.ask(b"/", b"GET", (b"te", b"gzip"))
    await until(lambda: stream in client.messages)
    if not client.messages[stream].ended:
        client.h2.increment_flow_control_window(65535, stream)
        client.flush()
    answer = await client.answer(stream)
    assert (answer.status, answer.ended) == (400, True)
    assert answer.body.startswith(b"400 Bad Request: te has other values")


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        (data_head(0, 1, ended=False) + b"a", ErrorCode.PROTOCOL_ERROR),
        (data_head(7, 1, ended=False) + b"a", ErrorCode.PROTOCOL_ERROR),
        (asked(2), ErrorCode.PROTOCOL_ERROR),
        (frame(5, 4, 1, bytes(4) + block()), ErrorCode.PROTOCOL_ERROR),
        (frame(0, 0, 1, bytes(16385)), ErrorCode.FRAME_SIZE_ERROR),
        (header_frames(1, b"\xff\xff\xff", ended=True), ErrorCode.COMPRESSION_ERROR),
        (frames.window_update(0, (1 << 31) - 1), ErrorCode.FLOW_CONTROL_ERROR),
        (frame(1, 0, 1) + 100 * frame(9, 0, 1), ErrorCode.ENHANCE_YOUR_CALM),
        (20_000 * frame(2, 0, 1, bytes(5)), ErrorCode.ENHANCE_YOUR_CALM),
        (20_000 * frame(6, 0, 0, bytes(8)), ErrorCode.ENHANCE_YOUR_CALM),
        (20_000 * frames.settings(b""), ErrorCode.ENHANCE_YOUR_CALM),
        (
            asked(1, ended=False) + 20_000 * data_head(1, 0, ended=False),
            ErrorCode.ENHANCE_YOUR_CALM,
        ),
    ],
)
async def test_what_breaks_the_connection_is_said_by_goaway(http2, bad, code):
    http2.list()
    client = await raw(http2, BEGIN + bad)
    await client.ended()
    assert [found for _, found in goaways(client.received)] == [code]


async def test_a_flood_of_resets_ends_the_connection_and_reaches_no_pod_for_long(http2):
    pod = await http2.serving()
    flood = b"".join(asked(n) + frames.rst_stream(n, 8) for n in range(1, 6001, 2))
    client = await raw(http2, BEGIN + flood)
    await client.ended()
    assert [found for _, found in goaways(client.received)] == [ErrorCode.ENHANCE_YOUR_CALM]
    assert len(pod.requests) <= 2 * MAX_STREAMS + 1
    assert http2.world.in_flight == 0


async def test_resets_by_the_proxy_count_as_well(http2):
    await http2.serving()
    flood = b"".join(asked(n, ended=False) + frame(8, 0, n, bytes(4)) for n in range(1, 6001, 2))
    client = await raw(http2, BEGIN + flood)
    await client.ended()
    assert [found for _, found in goaways(client.received)] == [ErrorCode.ENHANCE_YOUR_CALM]


async def test_streams_beyond_the_bound_are_refused_and_the_others_go_on(http2):
    http2.list()
    data = b"".join(asked(n) for n in range(1, 2 * MAX_STREAMS + 1201, 2))
    client = await raw(http2, BEGIN + data)
    await until(lambda: len(resets(client.received)) == 600)
    assert {code for _, code in resets(client.received)} == {ErrorCode.REFUSED_STREAM}
    assert goaways(client.received) == []  # it may not have known
    assert http2.world.waiting == MAX_STREAMS


@both_loops
async def test_a_client_gets_no_more_than_a_window_ahead_of_the_pod(http2):
    def deaf(peer: Peer, stream: int, message: Message) -> None:
        peer.reads = False

    pod = await http2.serving()
    pod.on_message = deaf
    client = await http2.client()
    stream = client.ask(b"/", b"POST", end=False)
    await until(lambda: pod.requests)
    pod.connections[0].reads = False
    client.data(stream, bytes(1 << 20), end=True)
    await until(lambda: len(pod.requests[0].body) >= 65535)
    await turns(50)
    sent = (1 << 20) - len(client.unsent[stream][0])
    assert sent <= 65535 + (64 << 10)
    client.transport.abort()


@pytest.mark.parametrize("ended", [True, False])
@pytest.mark.parametrize("accept", [b"text/plain", b"application/json"])
async def test_connect_gets_the_response_that_it_gets_in_http1(http2, ended, accept):
    client = await http2.client()
    fields = [(b":method", b"CONNECT"), (b":authority", b"h:1"), (b"accept", accept)]
    client.headers(1, fields, end=ended)
    answer = await client.answer(1)
    assert (answer.status, answer.ended) == (405, True)
    assert answer.all(b"activator-reason") == [b"bad-request; CONNECT is not supported"]
    http1 = await http2.world.client()
    http1.send(b"CONNECT h:1 HTTP/1.1\r\nHost: h:1\r\nAccept: %b\r\n\r\n" % accept)
    same = await http1.answer()
    assert (same.status, same.body) == (answer.status, answer.body)
    assert answer.all(b"content-type") == [same.get(b"content-type")]
