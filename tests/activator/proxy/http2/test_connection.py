"""Flow control of a connection: shares among streams, settings that change, acknowledgements."""

from __future__ import annotations

import gc

import h2.settings
import pytest

from activator.proxy.client.http2 import ClientStream
from activator.proxy.exchange.exchange import Exchange
from activator.proxy.http2 import frames
from activator.proxy.http2.frame_reader import Http2Setting, write_settings
from activator.proxy.http2.frames import ErrorCode
from tests.activator.proxy.client.test_http2 import asked, goaways, raw
from tests.activator.proxy.http2.peers import Message, Peer, echo
from tests.activator.proxy.world import until
from tests.conftest import both_loops


@both_loops
async def test_an_unread_stream_does_not_starve_another(http2):
    def large(peer: Peer, stream: int, message: Message) -> None:
        if message.ended:
            peer.headers(stream, [(b":status", b"200")])
            peer.data(stream, bytes(100_000), end=True)

    pod = await http2.serving()
    pod.on_message = large
    client = await http2.client(window=16384)
    first = [client.ask() for _ in range(4)]
    for stream in first:
        assert len((await client.answer(stream)).body) == 100_000


async def test_a_window_that_shrinks_and_grows_again_loses_nothing(http2):
    def large(peer: Peer, stream: int, message: Message) -> None:
        if message.ended:
            peer.headers(stream, [(b":status", b"200")])
            peer.data(stream, bytes(range(256)) * 1000, end=True)

    pod = await http2.serving()
    pod.on_message = large
    client = await http2.client()
    client.reads = False
    stream = client.ask()
    await until(lambda: len(client.messages.get(stream, Message()).body) >= 65535)
    size = h2.settings.SettingCodes.INITIAL_WINDOW_SIZE
    client.h2.update_settings({size: 10})
    client.flush()
    client.h2.update_settings({size: 1 << 20})
    client.h2.increment_flow_control_window(1 << 20)
    client.flush()
    assert (await client.answer(stream)).body == bytes(range(256)) * 1000


@pytest.mark.parametrize("padded", ["client", "pod"])
async def test_padding_uses_up_no_window_of_a_body(http2, padded):
    """Padding counts in flow control (RFC 9113 section 6.1), and no reader takes it."""

    def answer(peer: Peer, stream: int, message: Message) -> None:
        peer.padding = 200 if padded == "pod" else 0
        echo(peer, stream, message)

    body = bytes(range(256)) * 1000  # with as much padding, more than all windows
    pod = await http2.serving()
    pod.on_message = answer
    client = await http2.client()
    client.padding = 200 if padded == "client" else 0
    stream = client.ask(b"/", b"POST", end=False)
    client.data(stream, body, end=True)
    assert (await client.answer(stream)).body == body
    assert pod.requests[0].body == body


async def test_of_a_setting_that_one_frame_has_often_the_last_value_holds(http2):
    """The proxy applies no other value: 2,730 values at 250 streams took 60 ms, for a frame of 16
    KiB.
    """
    size, most = Http2Setting.INITIAL_WINDOW_SIZE, Http2Setting.MAX_CONCURRENT_STREAMS
    pod = await http2.serving()
    pod.greeting = frames.settings(write_settings([(most, 0), (most, 100)]))
    none = frames.settings(write_settings([(size, value % 2) for value in range(2001)]))
    client = await raw(http2, frames.PREFACE + none)
    for stream in range(1, 7, 2):
        client.send(asked(stream))
        await until(lambda stream=stream: len(pod.requests) == (stream + 1) // 2)
    await until(lambda: not http2.world.in_flight)
    assert b"hello" not in client.received
    client.send(frames.settings(write_settings([(size, value) for value in (0, 100)])))
    await until(lambda: client.received.count(b"hello") == 3)
    assert len(pod.connections) == 1


async def test_a_value_that_another_of_its_frame_replaces_is_never_applied(http2):
    """The first would be too much for a window that is wider already (RFC 9113 section 6.9.2)."""
    size = Http2Setting.INITIAL_WINDOW_SIZE
    pod = await http2.serving()
    pod.on_message = lambda *_: None
    client = await raw(http2, frames.PREFACE + frames.settings(b"") + asked(1))
    await until(lambda: pod.requests)
    replaced = frames.settings(write_settings([(size, frames.MAX_31_BITS), (size, 100)]))
    client.send(frames.window_update(1, 1 << 20) + replaced)
    client.send(frames.ping(b"received", ack=False))
    await until(lambda: b"received" in client.received)
    assert not goaways(client.received)
    client.send(frames.settings(write_settings([(size, frames.MAX_31_BITS)])))
    await client.ended()
    assert [code for _, code in goaways(client.received)] == [ErrorCode.FLOW_CONTROL_ERROR]


async def test_a_ping_gets_its_acknowledgement(http2):
    client = await http2.world.client()
    client.send(frames.PREFACE + frames.settings(b"") + frames.ping(b"01234567", ack=False))
    await until(lambda: frames.ping(b"01234567", ack=True) in client.received)


async def test_who_tells_of_each_small_message_that_it_is_read_is_no_flood(http2):
    """As Go before 1.20: for the connection and for the stream, with each read."""
    pod = await http2.serving()
    pod.on_message = lambda *_: None
    client = await http2.client()
    stream = client.ask(b"/", b"POST", end=False)
    await until(lambda: pod.requests)
    (peer,) = pod.connections
    for number in range(60):
        for _ in range(100):
            client.data(stream, b"x")
        await until(lambda: len(pod.requests[0].body) == 100 * (number + 1))  # noqa: B023 # awaited in its turn
        peer.transport.write(100 * (frames.window_update(0, 1) + frames.window_update(1, 1)))
    peer.headers(1, [(b":status", b"200")], end=True)
    assert (await client.answer(stream)).status == 200
    assert not peer.lost


@both_loops
async def test_a_request_that_is_over_leaves_nothing_to_the_garbage_collector(http2):
    """A collector that has hardly anything to do is set to look seldom."""
    await http2.serving()
    client = await http2.client()
    await client.answer(client.ask())
    gc.collect()
    gc.disable()
    try:
        for _ in range(10):
            await client.answer(client.ask())
            upload = client.ask(b"/", b"POST", end=False)
            client.data(upload, b"body", end=True)
            await client.answer(upload)
        left = [each for each in gc.get_objects() if isinstance(each, (ClientStream, Exchange))]
    finally:
        gc.enable()
    assert left == []
