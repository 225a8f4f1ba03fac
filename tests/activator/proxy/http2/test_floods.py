"""Frames that cost their sender almost nothing: the limit, and frames that never count."""

from __future__ import annotations

import contextlib

import h2.exceptions
import pytest

from activator.proxy.client.http2 import MAX_STREAMS
from activator.proxy.http2 import frames
from activator.proxy.http2.connection import RateBudget
from activator.proxy.http2.frames import ErrorCode
from activator.proxy.http2.hpack import line
from activator.proxy.http2.stream import STREAM_WINDOW
from tests.activator.proxy.client.test_http2 import (
    BEGIN,
    HEAD,
    asked,
    frame,
    goaways,
    raw,
    resets,
)
from tests.activator.proxy.http2.peers import Message, Peer, answer_hello
from tests.activator.proxy.http2.test_attacks import MALFORMED
from tests.activator.proxy.world import until
from tests.conftest import in_virtual_time

#: More than the budget allows at once.
MANY = 20_000
CALM = ErrorCode.ENHANCE_YOUR_CALM
IDLE_FRAMES = "activator.proxy.http2.connection._IDLE_FRAMES"
NO_WINDOW = frames.PREFACE + frames.settings(b"\0\4" + bytes(4))


def silent(peer: Peer, stream: int, message: Message) -> None:
    """Let a pod respond with a head and nothing else."""
    if message.ended:
        peer.headers(stream, [(b":status", b"200")])


@pytest.mark.parametrize(
    "flood",
    [
        MANY * frames.window_update(0, 1),
        MANY * frames.window_update(1, 1),
        MANY * frames.window_update(3, 1 << 14),
        MANY * frames.rst_stream(3, 8),
        MANY * frames.ping(bytes(8), ack=False),
        MANY * frames.ping(bytes(8), ack=True),
        MANY * frames.SETTINGS_ACK,
        MANY * frames.goaway(0, 0),
    ],
    ids=["room", "room-of-a-stream", "late-room", "late-reset", "ping", "pong", "ack", "goaway"],
)
async def test_a_flood_of_what_has_no_effect_ends_the_connection(http2, flood):
    pod = await http2.serving()
    pod.on_message = silent
    client = await raw(http2, BEGIN + asked(1) + asked(3) + frames.rst_stream(3, 8))
    await until(lambda: pod.requests and b"\x88" in client.received)
    client.send(flood)
    await client.ended()
    assert [code for _, code in goaways(client.received)] == [CALM]


async def test_room_given_in_crumbs_for_what_waits_is_a_flood(http2):
    """Each would cost a frame of one byte (CVE-2019-9511)."""

    def answer(peer: Peer, stream: int, message: Message) -> None:
        if message.ended:
            peer.headers(stream, [(b":status", b"200")])
            peer.data(stream, bytes(1 << 20), end=True)

    pod = await http2.serving()
    pod.on_message = answer
    client = await raw(http2, NO_WINDOW + asked(1))
    await until(lambda: b"\x88" in client.received or pod.requests)
    client.send(MANY * frames.window_update(1, 1))
    await client.ended()
    assert [code for _, code in goaways(client.received)] == [CALM]


async def test_room_on_the_connection_costs_nothing_for_streams_without(http2):
    """A frame of 13 bytes looked at all of them."""

    def answer(peer: Peer, stream: int, message: Message) -> None:
        if message.ended:
            peer.headers(stream, [(b":status", b"200")])
            peer.data(stream, bytes(500), end=True)

    pod = await http2.serving()
    pod.on_message = answer
    client = await raw(http2, NO_WINDOW + b"".join(asked(n) for n in range(1, 401, 2)))
    await until(lambda: len(pod.requests) == 200 and http2.world.in_flight == 0)
    (connection,) = http2.world.proxy.connections
    assert not connection.handler.link.queue.blocked
    client.send(1000 * frames.window_update(0, 100) + frames.ping(b"received", ack=False))
    await until(lambda: b"received" in client.received)
    client.send(frames.settings(b"\0\4\0\0\4\0"))
    await until(lambda: client.received.count(bytes(500)) == 200)


async def test_a_client_that_gives_room_for_each_crumb_it_got_is_no_flood(http2):
    """Nor is one that asks with each how long its way is, as gRPC does."""

    def answer(peer: Peer, stream: int, message: Message) -> None:
        if message.ended and not message.body:
            peer.headers(stream, [(b":status", b"200")])
            message.body = b"begun"

    pod = await http2.serving()
    pod.on_message = answer
    client = await raw(http2, BEGIN + asked(1))
    await until(lambda: pod.requests and pod.requests[0].body)
    (peer,) = pod.connections
    (connection,) = http2.world.proxy.connections
    connection.handler.link.idle_frames = RateBudget(10, 0.0)
    for number in range(1, 101):
        for _ in range(3):
            peer.h2.send_data(1, b"12345678")
        peer.flush()
        await until(lambda number=number: client.received.count(b"12345678") == 3 * number)
        room = frames.window_update(0, 8) + frames.window_update(1, 8)
        client.send(3 * room + frames.ping(b"%08d" % number, ack=False))
    await until(lambda: b"%08d" % 100 in client.received)
    assert not goaways(client.received)


async def test_frames_that_cross_the_end_of_their_streams_are_no_flood(http2, monkeypatch):
    monkeypatch.setattr(IDLE_FRAMES, (10, 0.0, 8.0))
    await http2.serving()
    client = await raw(http2, BEGIN)
    for stream in range(1, 201, 2):
        client.send(asked(stream))
        await until(lambda stream=stream: client.received.count(b"hello") == (stream + 1) // 2)
        client.send(frames.window_update(stream, 5) + frames.rst_stream(stream, 8))
    client.send(frames.ping(b"received", ack=False))
    await until(lambda: b"received" in client.received)
    assert not goaways(client.received)


# -- what crosses the end of its stream ----------------------------------------------------------


@pytest.fixture
def no_budget(monkeypatch):
    """Any counted frame soon ends the connection."""
    monkeypatch.setattr(IDLE_FRAMES, (10, 0.0, 0.0))


def nobody(stream: int) -> bytes:
    """Return a POST to a revision that does not exist; its body follows."""
    block = b"".join(line(*each) for each in HEAD)
    return frames.headers(stream, block, ended=False)


def crumbs(stream: int, count: int, size: int = 1) -> bytes:
    return count * frame(0, 0, stream, bytes(size))


@pytest.mark.usefixtures("no_budget")
async def test_bodies_of_requests_with_an_early_response_are_no_flood(http2):
    client = await raw(http2, BEGIN)
    for stream in range(1, 401, 2):
        client.send(nobody(stream) + crumbs(stream, 3) + frame(0, 1, stream, b"x"))
    client.send(frames.ping(b"received", ack=False))
    await until(lambda: b"received" in client.received)
    assert http2.world.proxy.counters.unknown_revisions == 200
    assert not goaways(client.received)


@pytest.mark.parametrize("ends", [frame(0, 1, 0), frame(1, 5, 0, line(b"x", b"y"))])
async def test_ends_of_requests_with_an_early_response_are_no_flood(http2, monkeypatch, ends):
    """Clients end by an empty DATA or by trailers; a client that wants no more response also
    resets.
    """
    monkeypatch.setattr(IDLE_FRAMES, (10, 0.0, 8.0))
    client = await raw(http2, BEGIN)
    for stream in range(1, 401, 2):
        number = stream.to_bytes(4, "big")
        client.send(nobody(stream) + ends[:5] + number + ends[9:] + frames.rst_stream(stream, 8))
    client.send(frames.ping(b"received", ack=False))
    await until(lambda: b"received" in client.received)
    assert not goaways(client.received)


async def test_more_than_the_windows_of_streams_that_are_over_is_a_flood(http2):
    """Such a window costs nothing, with frames of any size."""
    client = await raw(http2, BEGIN)
    malformed = frames.headers(1, line(b":method", b"POST"), ended=False)  # gets no more window
    client.send(malformed + crumbs(1, MANY, STREAM_WINDOW // MANY))
    client.send(crumbs(1, 1, STREAM_WINDOW % MANY) + frames.ping(b"received", ack=False))
    await until(lambda: b"received" in client.received)
    assert not goaways(client.received)
    client.send(crumbs(1, MANY))
    await client.ended()
    assert [code for _, code in goaways(client.received)] == [CALM]


async def test_a_large_number_of_a_stream_is_no_leave_for_a_flood(http2):
    http2.list()
    last = frames.MAX_31_BITS
    client = await raw(http2, BEGIN + asked(last) + MANY * frames.rst_stream(last, 8))
    await client.ended()
    assert [code for _, code in goaways(client.received)] == [CALM]


async def test_a_pod_that_responds_early_and_resets_costs_no_other_anything(http2, monkeypatch):
    """A server may refuse the body of an unknown caller (RFC 9113 section 8.1)."""
    monkeypatch.setattr(IDLE_FRAMES, (10, 0.0, 8.0))
    answered = set()

    def early(peer: Peer, stream: int, message: Message) -> None:
        if stream > 1 and stream not in answered:
            answered.add(stream)
            peer.headers(stream, [(b":status", b"401")], end=True)
            peer.transport.write(frames.rst_stream(stream, ErrorCode.NO_ERROR))

    pod = await http2.serving()
    pod.on_message = early
    client = await http2.client()
    waits = client.ask()
    await until(lambda: pod.requests)
    for _ in range(100):
        assert (await client.answer(client.ask(method=b"POST", end=False))).status == 401
    answer_hello(pod.connections[0], 1, pod.requests[0])
    assert (await client.answer(waits)).body == b"hello"


@pytest.mark.parametrize("behind", [b"", frame(1, 5, 3, line(b"x", b"y"))])
async def test_late_frames_of_a_pod_for_a_gone_client_cost_no_other(http2, monkeypatch, behind):
    monkeypatch.setattr(IDLE_FRAMES, (10, 0.0, 8.0))
    pod = await http2.serving()
    pod.on_message = lambda *_: None
    client, other = await http2.client(), await http2.client()
    waits = other.ask(method=b"POST", end=False)
    await until(lambda: pod.requests)
    gone = client.ask()
    await until(lambda: len(pod.requests) == 2)
    (peer,) = pod.connections
    client.h2.reset_stream(gone)
    client.flush()
    await until(lambda: pod.requests[1].reset is not None)
    peer.transport.write(frames.headers(3, b"\x88", ended=False) + crumbs(3, 5400, 12) + behind)
    peer.headers(1, [(b":status", b"200")])
    peer.data(1, b"there", end=True)
    assert (await other.answer(waits)).body == b"there"
    assert not peer.lost


@pytest.mark.parametrize(
    "flood",
    [
        crumbs(1, 5, STREAM_WINDOW // 4) + crumbs(1, MANY),
        MANY * frames.headers(1, b"\x88", ended=True),
    ],
    ids=["data", "answers"],
)
async def test_a_pod_that_floods_what_is_over_loses_its_connection(http2, flood):
    pod = await http2.serving()
    client = await http2.client()
    assert (await client.answer(client.ask())).status == 200
    (peer,) = pod.connections
    peer.transport.write(flood)
    await until(lambda: peer.goaway)
    assert peer.goaway[1] == CALM


# -- resets --------------------------------------------------------------------------------------


def reset_all(client: Peer, streams: list[int]) -> None:
    for stream in streams:
        client.h2.reset_stream(stream, ErrorCode.CANCEL)
    client.flush()


@in_virtual_time
async def test_time_outs_of_all_that_wait_for_a_cold_revision_cost_no_other(http2):
    """Again and again, as clients of little patience do."""
    http2.list()
    client = await http2.client()
    waits = client.ask()
    for _ in range(4):
        streams = [client.ask() for _ in range(MAX_STREAMS - 1)]
        await until(lambda: http2.world.waiting == MAX_STREAMS)
        await http2.world.clock_moves(0.2)
        reset_all(client, streams)
        await until(lambda: http2.world.waiting == 1)
    await http2.serving()
    assert (await client.answer(waits)).body == b"hello"


@in_virtual_time
async def test_all_that_is_open_may_be_cancelled_at_once_and_half_of_all_for_ever(http2):
    def answer(peer: Peer, stream: int, message: Message) -> None:
        with contextlib.suppress(h2.exceptions.ProtocolError):  # it may be cancelled already
            answer_hello(peer, stream, message)

    http2.list()
    client = await http2.client()
    waits = client.ask()
    reset_all(client, [client.ask() for _ in range(MAX_STREAMS - 1)])
    await until(lambda: http2.world.waiting == 1)
    pod = await http2.serving()
    pod.on_message = answer
    assert (await client.answer(waits)).body == b"hello"
    for _ in range(10):
        streams = [client.ask() for _ in range(100)]
        reset_all(client, streams[:50])
        for stream in streams[50:]:
            assert (await client.answer(stream)).body == b"hello"
    assert client.goaway is None
    assert len(pod.connections) == 1


def reset_young(begin: int, end: int) -> bytes:
    """Send requests, and reset each at once."""
    return b"".join(asked(n) + frames.rst_stream(n, 8) for n in range(begin, end, 2))


async def running_in_a_flood(http2):
    """Return a pod with a request in flight, and its client, which floods and got GOAWAY."""
    pod = await http2.serving()
    pod.on_message = lambda *_: None
    client = await raw(http2, BEGIN + asked(1))
    await until(lambda: pod.requests)
    client.send(reset_young(3, 2003))
    await until(lambda: goaways(client.received))
    return pod, client


async def test_a_flood_of_resets_costs_the_others_on_its_connection_their_next_requests_alone(
    http2,
):
    pod, client = await running_in_a_flood(http2)
    ((last, code),) = goaways(client.received)
    assert code == CALM
    await until(lambda: http2.world.in_flight == 1)
    assert len(pod.requests) <= (last + 1) / 2 < 600
    client.send(asked(2003))
    answer_hello(pod.connections[0], 1, pod.requests[0])
    await until(lambda: b"hello" in client.received)
    await client.ended()
    assert client.received.count(b"hello") == 1
    assert len(goaways(client.received)) == 1


@pytest.mark.parametrize(
    "flood",
    [reset_young(2003, 2003 + MANY), MANY * (frames.HEAD.pack(4 << 8 | 8, 0, 3) + bytes(4))],
    ids=["resets", "errors"],
)
async def test_a_client_that_floods_on_after_goaway_loses_its_requests(http2, flood):
    _, client = await running_in_a_flood(http2)
    client.send(flood)
    await client.ended()
    assert [code for _, code in goaways(client.received)] == [CALM, CALM]
    assert not http2.world.in_flight


@pytest.mark.parametrize("malformed", [pytest.param(m, id=w) for w, m in MALFORMED.items()])
async def test_malformed_requests_of_one_tenant_cost_the_others_nothing(http2, malformed):
    pod = await http2.serving()
    pod.on_message = lambda *_: None
    client = await raw(http2, BEGIN + frames.window_update(0, 1 << 20) + asked(1))
    await until(lambda: pod.requests)
    for begin in range(3, 2003, 200):
        client.send(b"".join(malformed(n) for n in range(begin, begin + 200, 2)))
    await until(lambda: client.received.count(b"400 Bad Request") == 1000)
    answer_hello(pod.connections[0], 1, pod.requests[0])
    await until(lambda: b"hello" in client.received)
    await until(lambda: len(resets(client.received)) == 1000)
    assert resets(client.received) == [(n, ErrorCode.PROTOCOL_ERROR) for n in range(3, 2003, 2)]
    assert goaways(client.received) == []
