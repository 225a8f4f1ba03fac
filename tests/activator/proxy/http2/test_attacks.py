"""The behaviour of hostile clients, its cost for them, and that other clients pay nothing.

Each attack has a connection of its own. While it runs, and after it, another client gets a
response. In the end all counts are back at zero; the world checks that.
"""

from __future__ import annotations

import tracemalloc
from typing import NamedTuple

import pytest

from activator.proxy.http2 import frames
from activator.proxy.http2.connection import header_frames
from activator.proxy.http2.frame_reader import Http2Setting, write_settings
from activator.proxy.http2.frames import ErrorCode
from activator.proxy.http2.hpack import line
from tests.activator.proxy.client.test_http2 import (
    BEGIN,
    asked,
    block,
    cut,
    frame,
    goaways,
    raw,
    resets,
)
from tests.activator.proxy.http2.peers import answer_hello
from tests.activator.proxy.world import turns, until
from tests.conftest import in_virtual_time

#: More than any budget.
MANY = 20_000
CALM = ErrorCode.ENHANCE_YOUR_CALM
PROTOCOL = ErrorCode.PROTOCOL_ERROR
#: The bytes that an attack of one connection may cost: a few blocks, a few windows, its own bytes.
ROOM = 6 << 20


class Attack(NamedTuple):
    """What a client sends, and the code of the GOAWAY that it gets for it."""

    sends: bytes
    code: ErrorCode


def opened(number: int, payload: bytes) -> bytes:
    """A stream's HEADERS, with the rest of its block to come."""
    return frame(1, 0, number, payload)


FLOODS = {
    "20,000 CONTINUATION of nothing": Attack(opened(1, block()) + MANY * frame(9, 0, 1), CALM),
    "CONTINUATION of 16 KiB each": Attack(
        opened(1, block()) + 20 * frame(9, 0, 1, line(b"x", b"y" * 16000)), CALM
    ),
    "resets of all that was asked": Attack(
        b"".join(asked(n) + frames.rst_stream(n, 8) for n in range(1, 6001, 2)), CALM
    ),
    "PING": Attack(MANY * frame(6, 0, 0, bytes(8)), CALM),
    "answers to no PING": Attack(MANY * frame(6, 1, 0, bytes(8)), CALM),
    "SETTINGS": Attack(
        MANY * frames.settings(write_settings([(Http2Setting.INITIAL_WINDOW_SIZE, 1)])), CALM
    ),
    "acknowledgements of no SETTINGS": Attack(MANY * frames.SETTINGS_ACK, CALM),
    "GOAWAY": Attack(MANY * frames.goaway(0, 0), CALM),
    "DATA of nothing": Attack(asked(1, ended=False) + MANY * frame(0, 0, 1), CALM),
    "DATA of padding alone": Attack(
        asked(1, ended=False) + MANY * frame(0, 8, 1, b"\x01\x00"), CALM
    ),
    "PRIORITY": Attack(MANY * frame(2, 0, 1, bytes(5)), CALM),
    "unknown types": Attack(MANY * frame(0xBE, 0, 0), CALM),
    "windows that grow by 1": Attack(MANY * frames.window_update(0, 1), CALM),
    "windows of streams that grow by 1": Attack(
        asked(1, ended=False) + MANY * frames.window_update(1, 1), CALM
    ),
}

#: Frames by which the proxy resets a stream that a client opened (CVE-2025-8671), by stream.
WRONGS = {
    "a window that grows by 0": lambda n: asked(n, ended=False) + frame(8, 0, n, bytes(4)),
    "the window is too large": lambda n: (
        asked(n, ended=False) + frames.window_update(n, frames.MAX_31_BITS)
    ),
    "HEADERS behind the end": lambda n: asked(n) + header_frames(n, line(b"x", b"y"), ended=True),
    "DATA behind the end": lambda n: asked(n) + frame(0, 1, n, b"x"),
    "PRIORITY of 4 bytes": lambda n: asked(n, ended=False) + frame(2, 0, n, bytes(4)),
    "less than announced": lambda n: (
        header_frames(n, block((b"content-length", b"9")), ended=False) + frame(0, 1, n, b"x")
    ),
}
WRONG_FLOODS = {
    what: Attack(b"".join(map(wrong, range(1, 2401, 2))), CALM) for what, wrong in WRONGS.items()
}

#: Requests that get 400 at once, which costs as little as a 404. Any tenant of an ingress may send
#: them, so they are never a flood.
MALFORMED = {
    "malformed fields": lambda n: header_frames(n, block((b"connection", b"x")), ended=True),
    "no path": lambda n: header_frames(n, line(b":method", b"GET"), ended=True),
}

#: A field is put into the table once, and named 20 times in each of 1,200 requests. Each reference
#: yields 78 KB from 30 bytes.
LARGE = b"\x40" + line(b"x", b"y" * 3900)[1:]
BOMBS = {
    "header lists that are too large": Attack(
        header_frames(1, block() + LARGE, ended=True)
        + b"".join(header_frames(n, block() + 20 * b"\xbe", ended=True) for n in range(3, 2401, 2)),
        CALM,
    )
}

FAULTS = {
    "a frame inside of a block": Attack(opened(1, block()) + frame(0, 0, 1, b"x"), PROTOCOL),
    "another stream inside of a block": Attack(opened(1, block()) + asked(3), PROTOCOL),
    "CONTINUATION of another stream": Attack(opened(1, block()) + frame(9, 4, 3), PROTOCOL),
    "CONTINUATION of nothing": Attack(frame(9, 4, 1, block()), PROTOCOL),
    "an even stream": Attack(asked(2), PROTOCOL),
    "a stream whose number goes back": Attack(asked(5) + asked(3), PROTOCOL),
    "HEADERS on stream 0": Attack(header_frames(0, block(), ended=True), PROTOCOL),
    "RST_STREAM of a stream that never was": Attack(frames.rst_stream(9, 8), PROTOCOL),
    "a window of a stream that never was": Attack(frames.window_update(9, 9), PROTOCOL),
    "a push": Attack(frame(5, 4, 1, bytes(4) + block()), PROTOCOL),
    "a setting that cannot be": Attack(
        frames.settings(write_settings([(Http2Setting.MAX_FRAME_SIZE, 1)])), PROTOCOL
    ),
    "an initial window beyond 31 bits": Attack(
        frames.settings(write_settings([(Http2Setting.INITIAL_WINDOW_SIZE, 1 << 31)])),
        ErrorCode.FLOW_CONTROL_ERROR,
    ),
    "a table larger than we said": Attack(
        header_frames(1, b"\x3f\xff\xff\xff\x0f" + block(), ended=True),
        ErrorCode.COMPRESSION_ERROR,
    ),
    "an index of nothing": Attack(
        header_frames(1, b"\xff\xff\x0f", ended=True), ErrorCode.COMPRESSION_ERROR
    ),
    "a number without end": Attack(
        header_frames(1, b"\xff" + b"\xff" * 5000, ended=True), ErrorCode.COMPRESSION_ERROR
    ),
    "a frame of 16 MiB": Attack(frame(0, 0, 1, bytes((1 << 24) - 1))[:1000], ErrorCode(6)),
}


def rows(table: dict[str, Attack]) -> list[object]:
    return [pytest.param(attack, id=what) for what, attack in table.items()]


@pytest.mark.parametrize("attack", rows(FLOODS | WRONG_FLOODS | BOMBS | FAULTS))
async def test_attacks_that_cost_the_connection_cost_no_other(http2, attack):
    await http2.serving(container_concurrency=1)
    good = await http2.client()
    # In pieces, so that others have their turns between.
    client = await http2.world.client()
    client.send(BEGIN)
    answers = []
    for at in range(0, len(attack.sends), 64 << 10):
        client.send(attack.sends[at : at + (64 << 10)])
        answers.append(good.ask())
        await turns(2)
    for stream in answers:
        assert (await good.answer(stream)).body == b"hello"
    await client.ended()
    assert [code for _, code in goaways(client.received)] == [attack.code]
    client.close()
    await until(lambda: not http2.world.in_flight)
    assert (await good.answer(good.ask())).body == b"hello"


@pytest.mark.parametrize(
    "wrong", [pytest.param(w, id=what) for what, w in (WRONGS | MALFORMED).items()]
)
async def test_what_is_done_once_costs_its_stream_alone(http2, wrong):
    pod = await http2.serving()
    client = await raw(http2, BEGIN + wrong(1) + asked(3))
    await until(lambda: b"hello" in client.received)
    if b"400 Bad Request" not in client.received:
        assert [stream for stream, _ in resets(client.received)] == [1]
    assert goaways(client.received) == []
    await until(lambda: all(message.over for message in pod.requests))


async def test_one_that_is_far_too_large_is_refused_and_no_other(http2):
    await http2.serving()
    client = await raw(http2, BEGIN)
    large = block() + line(b"x", b"y" * (200 << 10))
    client.send(header_frames(1, large, ended=True) + asked(3))
    await until(lambda: b"hello" in client.received)
    assert line(b":status", b"431") in client.received
    assert (resets(client.received), goaways(client.received)) == ([], [])


async def test_a_small_block_that_means_megabytes_is_refused_before_it_costs_any(http2):
    await http2.serving()
    large = b"x" * 3900
    # Put into the table once, and named 16,000 times: 62 MB.
    bomb = block() + b"\x40" + line(b"x", large)[1:] + 16_000 * b"\xbe"
    client = await raw(http2, BEGIN)
    await until(lambda: client.received)
    tracemalloc.start()
    client.send(header_frames(1, bomb, ended=True))
    await until(lambda: b"431 Request Header Fields Too Large" in client.received)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < ROOM
    assert line(b":status", b"431") in client.received
    assert (resets(client.received), goaways(client.received)) == ([], [])
    # The table is in order: what was put there can be used.
    client.send(header_frames(3, block() + b"\xbe", ended=True))
    await until(lambda: b"hello" in client.received)


async def test_a_table_as_large_as_a_client_likes_is_not_kept_for_it(http2):
    pod = await http2.serving()
    pod.on_message = answer_hello
    large = frames.settings(write_settings([(Http2Setting.HEADER_TABLE_SIZE, (1 << 32) - 1)]))
    client = await raw(http2, frames.PREFACE + large + asked(1))
    await until(lambda: b"hello" in client.received)


async def test_a_stream_that_depends_on_itself_reaches_no_pod(http2):
    """RFC 7540 section 5.3.1; whatever else stands in the frame is well-formed."""
    pod = await http2.serving()
    itself = (1).to_bytes(4, "big") + b"\x10"
    client = await raw(http2, BEGIN + frame(1, 0x25, 1, itself + block()) + asked(3))
    await client.ended()
    assert goaways(client.received) == [(0, PROTOCOL)]
    assert not pod.requests


async def test_a_priority_that_depends_on_itself_costs_its_stream_alone(http2):
    pod = await http2.serving()
    pod.on_message = lambda *_: None
    client = await raw(http2, BEGIN + asked(1) + asked(3))
    await until(lambda: len(pod.requests) == 2)
    client.send(frame(2, 0, 1, (1).to_bytes(4, "big") + b"\x10"))
    await until(lambda: resets(client.received) == [(1, PROTOCOL)])
    await until(lambda: pod.requests[0].reset is not None)
    answer_hello(pod.connections[0], 3, pod.requests[1])
    await until(lambda: b"hello" in client.received)
    assert goaways(client.received) == []


async def test_a_stream_that_is_over_does_not_begin_again_and_its_trailers_may_come_late(http2):
    pod = await http2.serving()
    client = await raw(http2, BEGIN + asked(5) + asked(7))
    await until(lambda: client.received.count(b"hello") == 2)
    client.send(header_frames(5, line(b"x", b"late"), ended=True) + asked(9))
    await until(lambda: client.received.count(b"hello") == 3)
    assert goaways(client.received) == []
    client.send(asked(5))
    await client.ended()
    assert goaways(client.received) == [(9, PROTOCOL)]
    assert len(pod.requests) == 3


@in_virtual_time
async def test_responses_without_a_window_hold_no_places_and_end(http2):
    none = frames.settings(write_settings([(Http2Setting.INITIAL_WINDOW_SIZE, 0)]))
    pod = await http2.serving(container_concurrency=1)
    client = await raw(http2, frames.PREFACE + none + b"".join(map(asked, range(1, 201, 2))))
    await until(lambda: len(pod.requests) == 100)
    await until(lambda: not http2.world.in_flight)
    assert b"hello" not in client.received
    good = await http2.client()
    assert (await good.answer(good.ask())).body == b"hello"
    await http2.world.clock_moves(3 * http2.world.proxy.header_timeout)
    await until(lambda: len(resets(client.received)) == 100)
    assert {code for _, code in resets(client.received)} == {ErrorCode.CANCEL}


@in_virtual_time
@pytest.mark.parametrize("sends", [frame(6, 0, 0, bytes(8)), frames.settings(b"")])
async def test_who_asks_and_never_reads_is_left(http2, sends):
    await http2.serving()
    client = await raw(http2, BEGIN)
    await until(lambda: client.received)
    client.transport.pause_reading()
    for _ in range(100):
        client.send(1000 * sends)
        await turns(2)
    good = await http2.client()
    assert (await good.answer(good.ask())).body == b"hello"
    await http2.world.clock_moves(10)
    assert len(http2.world.proxy.connections) == 1


async def test_windows_are_kept_by_streams_that_grow_one_byte_at_a_time(http2):
    small = frames.settings(write_settings([(Http2Setting.INITIAL_WINDOW_SIZE, 1)]))
    await http2.serving()
    client = await raw(http2, frames.PREFACE + small + asked(1))
    for size in range(1, 6):
        await until(lambda: len(payload(client.received)) == size)  # noqa: B023 # awaited in its turn
        client.send(frames.window_update(1, 1))
    assert payload(client.received) == b"hello"


def payload(received: bytes) -> bytes:
    return b"".join(data for kind, _, data in cut(received) if kind == 0)
