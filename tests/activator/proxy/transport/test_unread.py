"""Bytes that wait for peers that do not read: their limit, and which peer must close."""

from __future__ import annotations

import asyncio
import logging
import socket

import pytest

from activator.proxy.transport.peer_socket import SMALL_WINDOW, WINDOW, PeerKind, UnreadBytes
from tests.activator.proxy.http2.peers import Http2World
from tests.activator.proxy.world import TO_REVISION, answer_whole, ok, request, turns, until
from tests.conftest import both_loops, on_uvloop

pytestmark = both_loops

KIB, MIB = 1 << 10, 1 << 20
#: Of a client's kernel: small, so that the activator has most bytes.
SMALL_BUFFER = 4096
LARGE_BUFFER = 200_000
#: More than all kernels on the way take.
LARGE = 8 * MIB
BODY = bytes(range(256)) * (LARGE // 256)
#: What one unread response may take here.
EACH = 96 * KIB
#: RFC 9113 section 7.
ENHANCE_YOUR_CALM = 0xB

#: A small window is probed by timers of the kernel, for which virtual time does not wait.


class _Reader:
    """A peer that does not read; it closes on demand."""

    def __init__(self, name: str, peer: PeerKind = PeerKind.CLIENT) -> None:
        self.peer = peer, name
        self.ended = 0

    def end_unread(self) -> tuple[PeerKind, str]:
        self.ended += 1
        return self.peer


@pytest.fixture
def readers() -> list[_Reader]:
    return [_Reader(name) for name in "abc"]


async def test_the_bytes_of_all_add_up_and_go_with_their_readers(readers):
    unread = UnreadBytes(100)
    for number, reader in enumerate(readers, 1):
        unread.hold(reader, 10 * number)
    assert unread.bytes == 60
    unread.hold(readers[0], 20)
    unread.hold(readers[2], 5)
    assert unread.bytes == 45
    for reader in readers:
        unread.hold(reader, 0)
        unread.hold(reader, 0)
    assert unread.bytes == 0


async def test_room_is_scarce_beyond_half_of_it(readers):
    unread = UnreadBytes(100)
    unread.hold(readers[0], 50)
    assert not unread.scarce
    unread.hold(readers[0], 51)
    assert unread.scarce
    unread.hold(readers[0], 0)
    assert not unread.scarce


async def test_beyond_the_bound_those_end_that_have_waited_longest(readers):
    unread = UnreadBytes(100)
    ended = []
    unread.on_ended = lambda *who: ended.append(who)
    for reader in readers:
        unread.hold(reader, 30)
    unread.hold(readers[0], 20)  # it has read some
    unread.hold(readers[2], 70)
    assert [reader.ended for reader in readers] == [0, 0, 0]  # the caller is in a write
    await turns()
    assert [reader.ended for reader in readers] == [0, 1, 0]
    assert ended == [(PeerKind.CLIENT, "b")]
    assert unread.bytes == 90
    assert unread.ended == {"client": 1, "pod": 0}
    unread.hold(readers[0], 120)
    await turns()
    assert [reader.ended for reader in readers] == [1, 1, 1]
    assert unread.bytes == 0


async def test_all_may_wait_where_there_is_no_bound(readers):
    unread = UnreadBytes()
    unread.hold(readers[0], 1 << 60)
    await turns()
    assert not readers[0].ended
    assert not unread.scarce


# -- HTTP/1 ---------------------------------------------------------------------------------------


async def _whole(client):
    """Wait until a client has all of BODY."""
    await until(lambda: len(client.received) >= LARGE)
    await until(lambda: client.received.endswith(BODY))


async def _deaf(world, data=None, buffer=SMALL_BUFFER):
    """Return a client that requests and reads nothing, once the response makes no progress."""
    client = await world.client(buffer)
    client.transport.pause_reading()
    before = len(world.pods[0].requests)
    client.send(data or request())
    await until(lambda: len(world.pods[0].requests) > before)
    await turns(100)
    return client


def _held(world):
    """Bytes that wait for each client in this process."""
    return [each.transport.get_write_buffer_size() for each in world.proxy.connections]


@pytest.mark.parametrize("framing", ["length", "chunked", "close"])
async def test_an_unread_response_takes_little_memory(world, framing):
    pod = await world.serving()
    fields = {
        "length": b"Content-Length: %d\r\n" % LARGE,
        "chunked": b"Transfer-Encoding: chunked\r\n",
        "close": b"Connection: close\r\n",
    }[framing]
    chunked = b"%x\r\n%b\r\n0\r\n\r\n" % (LARGE, BODY)
    body = chunked if framing == "chunked" else BODY
    pod.answer = b"HTTP/1.1 200 OK\r\n%b\r\n%b" % (fields, body)
    client = await _deaf(world)
    assert pod.connections[0].transport.get_write_buffer_size() > 0
    (held,) = _held(world)
    if framing == "length":  # passes within the kernel; what is in the pipe counts
        assert not held
        assert 0 < world.proxy.unread.bytes <= 256 * KIB
    else:
        assert 0 < held < EACH
        assert world.proxy.unread.bytes == held
    client.abort()
    await world.idle()


@on_uvloop
async def test_who_reads_again_gets_all_of_it(world):
    pod = await world.serving(answer=ok(BODY))
    client = await _deaf(world, buffer=LARGE_BUFFER)
    assert world.proxy.unread.bytes > 0
    for _ in range(2):
        client.received.clear()
        client.transport.resume_reading()
        await _whole(client)
        assert world.proxy.unread.bytes == 0
        client.send(request())
    assert len(pod.connections) == 1
    await _whole(client)


@on_uvloop
async def test_who_reads_a_little_at_a_time_is_not_ended_for_those_that_do_not(new_world):
    world = await new_world(unread_bytes=4 * WINDOW)
    await world.serving(answer=ok(BODY))
    loop = asyncio.get_running_loop()
    with socket.socket() as slow:
        slow.setblocking(False)
        await loop.sock_connect(slow, ("127.0.0.1", world.port))
        await loop.sock_sendall(slow, request())
        received = b""
        while not received.endswith(BODY):
            if world.proxy.unread.ended["client"] < 5:
                await _deaf(world)
            assert world.proxy.unread.bytes <= 4 * WINDOW
            # More than the kernel's buffers: so the activator has noticed progress.
            enough = len(received) + 2 * WINDOW
            while len(received) < enough and not received.endswith(BODY):
                data = await loop.sock_recv(slow, WINDOW)
                assert data
                received += data
    assert world.proxy.unread.ended["client"] >= 5


async def test_many_that_do_not_read_stay_within_the_bound_and_others_are_served(new_world, caplog):
    caplog.set_level(logging.WARNING, logger="activator")
    world = await new_world(unread_bytes=8 * WINDOW)
    await world.serving(answer=ok(BODY))
    unread = world.proxy.unread
    deaf = [await _deaf(world)]
    while not unread.ended["client"]:
        deaf.append(await _deaf(world))
        assert unread.bytes <= unread.most
        assert len(deaf) < 60
    assert len(deaf) > 8  # later ones get less while memory is short
    reader = await world.client()
    reader.send(request())
    await _whole(reader)
    assert unread.bytes <= unread.most
    (line,) = [each.getMessage() for each in caplog.records if "unread" in each.getMessage()]
    assert line.startswith(
        f"unread bytes reached the limit of {8 * WINDOW}: ended a response to client 127.0.0.1:"
    )
    assert ", which had not read for the longest time (and 0 others" in line
    first = deaf[0]
    first.transport.resume_reading()
    await first.ended()
    assert first.reset
    for client in deaf:
        client.abort()
    await world.idle()
    assert not unread.scarce


async def test_a_response_in_pieces_holds_less_while_room_is_scarce(new_world):
    world = await new_world(unread_bytes=8 * WINDOW)
    await world.serving(answer=ok(BODY))
    while not world.proxy.unread.scarce:
        await _deaf(world)
    before = world.proxy.unread.bytes
    await _deaf(world)
    assert world.proxy.unread.bytes - before <= SMALL_WINDOW


@on_uvloop
async def test_responses_behind_each_other_are_counted_too(world):
    """Each response is complete and small; their client reads none."""
    await world.serving(answer=ok(b"x" * 50_000))
    client = await world.client(LARGE_BUFFER)
    client.transport.pause_reading()
    client.send(request() * 150)
    await until(lambda: world.proxy.unread.bytes)
    await turns(500)
    assert world.proxy.unread.bytes == sum(_held(world)) < EACH
    client.transport.resume_reading()
    await until(lambda: client.received.count(b"x") == 150 * 50_000)
    assert world.proxy.unread.bytes == 0


# -- requests -------------------------------------------------------------------------------------


def _upload() -> bytes:
    head = b"POST / HTTP/1.1\r\nHost: h\r\n%bContent-Length: %d\r\n\r\n" % (TO_REVISION, 3 * LARGE)
    return head + 3 * BODY


@on_uvloop
async def test_a_request_that_its_pod_does_not_read_is_counted(world):
    pod = await world.serving()
    pod.on_data = lambda connection: connection.transport.pause_reading()
    client = await world.client()
    client.send(_upload())
    await until(lambda: world.proxy.unread.bytes)
    await turns(500)
    assert client.transport.get_write_buffer_size() > 0
    assert world.proxy.unread.bytes < 340 * KIB  # what one read brings, behind 64 KiB
    (connection,) = pod.connections
    pod.on_data = answer_whole
    connection.widen()
    connection.transport.resume_reading()
    assert (await client.answer(b"POST")).status == 200
    assert pod.requests[-1].body == 3 * BODY
    assert world.proxy.unread.bytes == 0


async def test_a_request_that_its_pod_does_not_read_ends_at_the_bound(new_world):
    world = await new_world(unread_bytes=4 * KIB)
    pod = await world.serving()
    pod.on_data = lambda connection: connection.transport.pause_reading()
    client = await world.client()
    client.send(_upload())
    answer = await client.answer(b"POST")
    assert answer.status == 502
    assert b"the pod did not read the request" in answer.body
    assert world.proxy.unread.ended == {"client": 0, "pod": 1}
    assert len(pod.requests) == 1
    client.abort()
    await world.idle()


# -- tunnels --------------------------------------------------------------------------------------

WEBSOCKET = b"Connection: Upgrade\r\nUpgrade: websocket\r\n"
SWITCHED = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"


async def _tunnel(world, buffer=SMALL_BUFFER):
    def answer(seen):
        world.pods[0].connections[-1].raw = True
        return SWITCHED

    pod = await world.serving(answer=answer)
    client = await world.client(buffer)
    client.send(request(fields=WEBSOCKET))
    await client.take(len(SWITCHED))
    return pod, client


@on_uvloop
async def test_a_tunnel_that_its_client_does_not_read_takes_little(world):
    pod, client = await _tunnel(world, LARGE_BUFFER)
    client.transport.pause_reading()
    pod.connections[0].write(BODY)
    await until(lambda: world.proxy.unread.bytes)
    await turns(100)
    assert world.proxy.unread.bytes < EACH
    client.transport.resume_reading()
    await _whole(client)
    assert world.proxy.unread.bytes == 0


@pytest.mark.parametrize("side", ["client", "pod"])
async def test_a_tunnel_that_is_not_read_ends_at_the_bound(new_world, side):
    world = await new_world(unread_bytes=4 * KIB)
    pod, client = await _tunnel(world)
    if side == "client":
        client.transport.pause_reading()
        pod.connections[0].write(BODY)
    else:
        pod.connections[0].transport.pause_reading()
        client.send(BODY)
    await until(lambda: world.proxy.unread.ended[side])
    client.transport.resume_reading()
    pod.connections[0].transport.resume_reading()
    await client.ended()
    await world.idle()


# -- HTTP/2 ---------------------------------------------------------------------------------------


@pytest.fixture
def http2():
    made = []

    def make(world):
        made.append(Http2World(world))
        return made[-1]

    yield make
    for each in made:
        each.close()


def _large(peer, stream, message):
    if message.ended and message.reset is None:
        peer.headers(stream, [(b":status", b"200")])
        peer.data(stream, BODY[:MIB], end=True)


async def _quiet(world):
    """Let callbacks run until the number of waiting bytes stays the same."""
    before = -1
    while world.proxy.unread.bytes != before:
        before = world.proxy.unread.bytes
        await turns(200)


async def _streams(http2, count, **settings):
    client = await http2.client(**settings)
    client.reads = False
    streams = [client.ask() for _ in range(count)]
    await until(lambda: len(http2.pods[0].requests) >= count)
    await _quiet(http2.world)
    return client, streams


async def test_streams_that_are_not_read_take_a_window_each(world, http2):
    http2 = http2(world)
    (await http2.serving()).on_message = _large
    client, streams = await _streams(http2, 20)
    assert 0 < world.proxy.unread.bytes <= 20 * WINDOW
    client.reads = True
    for stream in streams:
        came = len(client.messages[stream].body) if stream in client.messages else 0
        if came:
            client.h2.acknowledge_received_data(came, stream)
    client.flush()
    for stream in streams:
        assert (await client.answer(stream)).body == BODY[:MIB]
    assert world.proxy.unread.bytes == 0


async def test_a_connection_that_is_not_read_takes_a_window_for_each_stream(world, http2):
    """However wide the client's windows are: its kernel takes nothing."""
    http2 = http2(world)
    pod = await http2.serving()

    def endless(peer, stream, message):
        if message.ended:
            peer.headers(stream, [(b":status", b"200")])
            peer.data(stream, BODY, end=True)

    pod.on_message = endless
    client = await http2.client(window=(1 << 31) - 1)
    client.h2.increment_flow_control_window((1 << 31) - 1 - 65535)
    client.flush()
    await turns(20)
    client.transport.pause_reading()
    client.ask()
    await until(lambda: world.proxy.unread.bytes)
    await _quiet(world)
    assert world.proxy.unread.bytes < EACH
    client.transport.resume_reading()
    assert (await client.answer(1)).body == BODY
    assert world.proxy.unread.bytes == 0


async def test_many_streams_that_are_not_read_stay_within_the_bound(new_world, http2):
    world = await new_world(unread_bytes=10 * WINDOW)
    http2 = http2(world)
    (await http2.serving()).on_message = _large
    client, streams = await _streams(http2, 60)
    unread = world.proxy.unread
    assert unread.bytes <= unread.most
    reset = [s for s in streams if client.messages.get(s) and client.messages[s].reset is not None]
    assert len(reset) == unread.ended["client"] > 0
    assert {client.messages[stream].reset for stream in reset} == {ENHANCE_YOUR_CALM}
    assert not client.goaway

    other = await http2.client()
    stream = other.ask()
    assert (await other.answer(stream)).body == BODY[:MIB]
    assert unread.bytes <= unread.most
    client.transport.abort()
    await world.idle()


async def test_streams_hold_less_while_room_is_scarce(new_world, http2):
    world = await new_world(unread_bytes=5 * WINDOW)
    http2 = http2(world)
    (await http2.serving()).on_message = _large
    await _streams(http2, 4)
    before = world.proxy.unread.bytes
    assert world.proxy.unread.scarce
    # The client's window takes 64 KiB; meanwhile the pod's shrinks.
    client, (stream,) = await _streams(http2, 1)
    assert not world.proxy.unread.ended["client"]
    assert 0 < world.proxy.unread.bytes - before <= SMALL_WINDOW
    client.reads = True
    client.h2.acknowledge_received_data(len(client.messages[stream].body), stream)
    client.flush()
    assert (await client.answer(stream)).body == BODY[:MIB]


async def test_a_request_in_http2_that_its_pod_does_not_read_ends_at_the_bound(new_world, http2):
    world = await new_world(unread_bytes=WINDOW)
    http2 = http2(world)
    pod = await http2.serving()
    pod.on_message = lambda *_: None
    clients = []
    for _ in range(3):
        client = await http2.client()
        stream = client.ask(b"/", b"POST", end=False)
        client.data(stream, BODY[:MIB], end=True)
        await turns(20)
        for peer in pod.connections:
            peer.reads = False
        clients.append((client, stream))
    await until(lambda: world.proxy.unread.ended["pod"])
    await _quiet(world)
    assert world.proxy.unread.bytes <= WINDOW
    ended = [c for c, s in clients if c.messages.get(s) and c.messages[s].headers]
    assert len(ended) == world.proxy.unread.ended["pod"]
    for client, stream in clients:
        if client in ended:
            assert client.messages[stream].status == 502
        client.transport.abort()


async def test_an_event_stream_reaches_its_reader_while_others_read_nothing(new_world):
    world = await new_world(unread_bytes=2 * WINDOW)
    pod = await world.serving(answer=ok(BODY))
    for _ in range(6):
        await _deaf(world)
    pod.answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    client = await world.client()
    client.send(request())
    await until(lambda: client.received)
    for number in range(50):
        pod.connections[-1].write(b"3\r\n%03d\r\n" % number)
        await until(lambda number=number: b"%03d" % number in client.received)
    assert world.proxy.unread.bytes <= 2 * WINDOW
    pod.connections[-1].write(b"0\r\n\r\n")
    await client.answer()
