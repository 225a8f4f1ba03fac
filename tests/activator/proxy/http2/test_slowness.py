"""How long an HTTP/2 client may take: to begin, to send a request, to read responses."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from activator.proxy.client.connection import LONGEST_SECONDS, MAX_BYTES, MAX_SECONDS
from activator.proxy.http2 import frames
from activator.proxy.http2.connection import MAX_BACKLOG, data_head, header_frames
from activator.proxy.http2.frames import STREAM_WINDOW, ErrorCode, FrameType
from activator.proxy.http2.hpack import line
from tests.activator.proxy.client.test_http2 import (
    BEGIN,
    HEAD,
    asked,
    block,
    cut,
    frame,
    goaways,
    pings,
    raw,
    resets,
)
from tests.activator.proxy.http2.peers import Http2World, Message, Peer
from tests.activator.proxy.world import World, until
from tests.conftest import in_virtual_time

LIMIT = 1.0
HEADERS, CONTINUATION = 1, 9
CALM = [(0, ErrorCode.ENHANCE_YOUR_CALM)]

#: A request whose response is a head alone.
NOWHERE = b"".join(line(*field) for field in ((b":method", b"HEAD"), *HEAD[1:], (b"host", b"h")))


@pytest.fixture
async def http2(anyio_backend: Any) -> AsyncIterator[Http2World]:
    """A proxy that waits a second for heads."""
    world = World()
    await world.start(header_timeout=LIMIT)
    made = Http2World(world)
    yield made
    made.close()
    await world.close()


async def ends_after(http2: Http2World, client: Any) -> float:
    """Wait for the end; return when it came."""
    started = http2.world.now()
    await client.ended()
    return http2.world.now() - started


async def resets_it(http2: Http2World, client: Any, code: ErrorCode, *, after: float) -> None:
    """Wait until the client's stream is reset, which ends nothing else."""
    started = http2.world.now()
    while not resets(client.received):
        await http2.world.clock_moves(0.01)
    assert resets(client.received) == [(1, code)]
    assert http2.world.now() - started == pytest.approx(after, abs=0.3)
    assert not client.eof


@pytest.mark.parametrize(
    "beginning",
    [
        frames.PREFACE,
        frames.PREFACE + frames.settings(bytes(6))[:12],
        BEGIN + frame(HEADERS, 0, 1, block()),
        BEGIN + asked(1)[:30],
    ],
    ids=["preface", "half-settings", "block-without-end", "half-a-frame"],
)
@in_virtual_time
async def test_what_begins_has_to_come_to_its_end_in_time(http2, beginning):
    client = await raw(http2, beginning)
    assert await ends_after(http2, client) == pytest.approx(LIMIT, abs=0.3)
    assert goaways(client.received) == CALM


@pytest.mark.parametrize("how", ["bytes", "frames"])
@in_virtual_time
async def test_dripping_a_head_does_not_win_time(http2, how):
    client = await raw(http2, BEGIN + frame(HEADERS, 0, 1, block()))
    piece = frame(CONTINUATION, 0, 1, bytes(20))
    started = http2.world.now()
    for number in range(60):
        if client.eof:
            break
        client.send(piece if how == "frames" else piece[number % 29 : number % 29 + 1])
        await http2.world.clock_moves(0.05)
    assert goaways(client.received) == CALM
    assert http2.world.now() - started < LIMIT + 0.4


@in_virtual_time
async def test_each_head_has_its_own_time(http2):
    await http2.serving()
    client = await raw(http2, BEGIN)
    for stream in (1, 3, 5):
        await http2.world.clock_moves(0.6 * LIMIT)
        head = asked(stream)
        client.send(head[:40])
        await http2.world.clock_moves(0.6 * LIMIT)
        client.send(head[40:])
        await until(lambda stream=stream: client.received.count(b"hello") == (stream + 1) // 2)
    assert not goaways(client.received)


@in_virtual_time
async def test_a_body_has_the_time_of_its_request(http2):
    """As in HTTP/1: only heads have a header timeout."""
    pod = await http2.serving()
    client = await raw(http2, BEGIN + asked(1, ended=False) + data_head(1, 4, ended=True))
    await http2.world.clock_moves(2 * LIMIT)
    client.send(b"body")
    await until(lambda: b"hello" in client.received)
    assert pod.requests[0].body == b"body"


@in_virtual_time
async def test_a_client_that_asks_for_nothing_is_kept(http2):
    await http2.serving()
    client = await raw(http2, BEGIN)
    await http2.world.clock_moves(5 * LIMIT)
    client.send(asked(1))
    await until(lambda: b"hello" in client.received)


def large(size: int) -> Callable[[Peer, int, Message], None]:
    """Return a pod's response of that many bytes."""

    def answer(peer: Peer, stream: int, message: Message) -> None:
        if message.ended:
            peer.headers(stream, [(b":status", b"200")])
            peer.data(stream, bytes(size), end=True)

    return answer


@in_virtual_time
async def test_an_unread_response_is_dropped_after_the_header_timeout(http2):
    pod = await http2.serving()
    pod.on_message = large(1000)
    client = await raw(http2, frames.PREFACE + frames.settings(b"\0\4" + bytes(4)) + asked(1))
    await until(lambda: pod.requests and pod.requests[0].ended and http2.world.in_flight == 0)
    await resets_it(http2, client, ErrorCode.CANCEL, after=LIMIT)


@in_virtual_time
async def test_a_client_that_reads_a_response_slowly_has_unlimited_time(http2):
    pod = await http2.serving()
    pod.on_message = large(1000)
    client = await raw(http2, frames.PREFACE + frames.settings(b"\0\4" + bytes(4)) + asked(1))
    await until(lambda: pod.requests and pod.requests[0].ended and http2.world.in_flight == 0)
    for _ in range(10):
        await http2.world.clock_moves(0.6 * LIMIT)
        client.send(frames.window_update(1, 100))
    await until(lambda: client.received.count(b"\0" * 100) >= 10)
    assert not resets(client.received)


@in_virtual_time
async def test_a_client_that_asks_and_does_not_read_is_not_listened_to_and_then_dropped(http2):
    """No window limits heads: responses without a body would pile up without limit."""
    await http2.serving()
    client = await http2.world.client(receive_buffer=4096)
    client.transport.pause_reading()
    client.send(BEGIN)
    largest = full = 0
    stream = 1
    for _ in range(1000):
        numbers = range(stream, stream + 40, 2)
        client.send(b"".join(header_frames(n, NOWHERE, ended=True) for n in numbers))
        stream += 40
        await http2.world.clock_moves(0.0)
        if client.transport.get_write_buffer_size() or largest > MAX_BACKLOG:
            full += 1
            if full == 30:
                break
        (connection,) = http2.world.proxy.connections
        largest = max(largest, connection.transport.get_write_buffer_size())
    assert MAX_BACKLOG < largest < 2 * MAX_BACKLOG
    started = http2.world.now()
    while http2.world.proxy.connections:
        await http2.world.clock_moves(0.05)
        assert http2.world.now() - started < 3 * LIMIT
    client.abort()


# -- a request that continues behind its response ------------------------------------------------

#: A request that gets 404 at once, and is longer than its head.
UNFINISHED = header_frames(1, NOWHERE, ended=False)


async def answered_early(http2: Http2World) -> Any:
    """Return a client that has its response, and has not ended its request."""
    client = await raw(http2, BEGIN + UNFINISHED)
    await until(lambda: any(kind == HEADERS for kind, _, _ in cut(client.received)))
    return client


async def test_a_short_request_ends_by_itself_behind_its_response(http2):
    """A reset beside the response takes the response away from clients that are about to send."""
    client = await answered_early(http2)
    assert not resets(client.received)
    client.send(data_head(1, 4, ended=True) + b"body" + frames.ping(b"is it ok", ack=False))
    await until(lambda: pings(client.received) == [b"is it ok"])
    (connection,) = http2.world.proxy.connections
    assert not connection.handler.link.streams
    assert not resets(client.received)


async def test_a_request_without_end_is_discarded_up_to_a_limit_behind_its_response(http2):
    client = await answered_early(http2)
    piece = data_head(1, 16_000, ended=False) + bytes(16_000)
    room, sent = STREAM_WINDOW, 0
    while count := room // 16_000:
        client.received.clear()
        client.send(count * piece + frames.ping(b"is it ok", ack=False))
        sent += count * 16_000
        await until(lambda: pings(client.received))
        got = [each for each in cut(client.received) if each[:2] == (FrameType.WINDOW_UPDATE, 1)]
        room += sum(int.from_bytes(each[2], "big") for each in got) - count * 16_000
    assert MAX_BYTES - STREAM_WINDOW <= sent <= MAX_BYTES + STREAM_WINDOW
    await resets_it(http2, client, ErrorCode.NO_ERROR, after=MAX_SECONDS)


@in_virtual_time
async def test_a_request_that_ends_slowly_behind_its_response_has_some_minutes(http2):
    client = await answered_early(http2)
    started = http2.world.now()
    while not resets(client.received):
        client.send(data_head(1, 1, ended=False) + b"x")
        await http2.world.clock_moves(MAX_SECONDS / 4)
        assert http2.world.now() < started + LONGEST_SECONDS + 5
    assert http2.world.now() > started + LONGEST_SECONDS - 5
    assert not goaways(client.received)


@in_virtual_time
async def test_a_request_that_does_not_end_behind_its_response_is_ended(http2):
    client = await answered_early(http2)
    await resets_it(http2, client, ErrorCode.NO_ERROR, after=MAX_SECONDS)
