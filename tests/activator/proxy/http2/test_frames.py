"""Frames that are sent: their bytes, the windows, and the payload of streams."""

from __future__ import annotations

import tracemalloc
from typing import Any, cast

import h2.config
import h2.connection
import h2.events
import pytest
from hyperframe import frame as library

from activator.proxy.http2 import frames
from activator.proxy.http2.connection import SendQueue, Stream, data_head, header_frames
from activator.proxy.http2.frame_reader import Http2Setting, write_settings
from activator.proxy.http2.frames import (
    CONNECTION_WINDOW,
    DEFAULT_WINDOW,
    LOW_WINDOW,
    MAX_31_BITS,
    STREAM_WINDOW,
    ConnectionFault,
    FlowControl,
    RateBudget,
)
from activator.proxy.http2.hpack import NO_TABLE, line
from activator.proxy.transport.peer_socket import PeerKind, UnreadBytes
from tests.rows import in_one_test, naming


def parsed(data: bytes) -> list[library.Frame]:
    found = []
    while data:
        each, length = library.Frame.parse_frame_header(memoryview(data)[:9])
        each.parse_body(memoryview(data)[9 : 9 + length])
        found.append(each)
        data = data[9 + length :]
    return found


@in_one_test(
    ("ours", "theirs"),
    [
        (frames.rst_stream(5, 8), library.RstStreamFrame(5, error_code=8)),
        (frames.SETTINGS_ACK, library.SettingsFrame(0, flags=["ACK"])),
        (
            frames.settings(write_settings([(Http2Setting.ENABLE_PUSH, 0), (4, 1 << 20)])),
            library.SettingsFrame(0, settings={2: 0, 4: 1 << 20}),
        ),
        (frames.ping(b"12345678", ack=False), library.PingFrame(0, b"12345678")),
        (frames.ping(b"12345678", ack=True), library.PingFrame(0, b"12345678", flags=["ACK"])),
        (
            frames.goaway(frames.MAX_31_BITS, 11, b"calm"),
            library.GoAwayFrame(0, (1 << 31) - 1, error_code=11, additional_data=b"calm"),
        ),
        (frames.window_update(0, 1 << 30), library.WindowUpdateFrame(0, 1 << 30)),
        (data_head(7, 3, ended=False) + b"abc", library.DataFrame(7, b"abc")),
        (
            data_head(frames.MAX_31_BITS, 0, ended=True),
            library.DataFrame((1 << 31) - 1, b"", flags=["END_STREAM"]),
        ),
        (
            header_frames(1, b"block", ended=True),
            library.HeadersFrame(1, b"block", flags=["END_STREAM", "END_HEADERS"]),
        ),
    ],
)
def test_a_frame_is_the_library_s(ours, theirs):
    assert ours == theirs.serialize()


@pytest.mark.parametrize("ended", [False, True])
def test_a_long_block_is_continued(ended):
    for size in (0, 1, 99, 100, 101, 199, 200, 201, 1000):
        with naming(size):
            is_continued(size, ended)


def is_continued(size: int, ended: bool) -> None:
    block = bytes(range(256)) * 4
    sent = parsed(header_frames(3, block[:size], ended=ended, limit=100))
    assert b"".join(cast(Any, each).data for each in sent) == block[:size]
    assert [type(each).__name__ for each in sent[1:]] == ["ContinuationFrame"] * (len(sent) - 1)
    assert {each.stream_id for each in sent} == {3}
    assert all(each.body_len <= 100 for each in sent)
    assert ["END_HEADERS" in each.flags for each in sent] == [False] * (len(sent) - 1) + [True]
    assert ("END_STREAM" in sent[0].flags) is ended


def test_a_peer_understands_a_whole_conversation():
    peer = h2.connection.H2Connection(
        h2.config.H2Configuration(client_side=False, header_encoding=False)
    )
    peer.initiate_connection()
    block = NO_TABLE + b"".join(
        line(*field)
        for field in (
            (b":method", b"POST"),
            (b":scheme", b"http"),
            (b":path", b"/"),
            (b":authority", b"pod"),
            (b"x-long", b"x" * 40_000),
        )
    )
    events = peer.receive_data(
        frames.PREFACE
        + frames.settings(write_settings([(Http2Setting.ENABLE_PUSH, 0)]))
        + frames.SETTINGS_ACK
        + frames.window_update(0, 1 << 20)
        + header_frames(1, block, ended=False)
        + data_head(1, 4, ended=True)
        + b"body"
        + frames.ping(b"12345678", ack=False)
        + header_frames(3, block, ended=False)
        + frames.rst_stream(3, 8)
        + frames.goaway(0, 0)
    )
    kinds = [type(event) for event in events]
    assert kinds == [
        h2.events.RemoteSettingsChanged,
        h2.events.SettingsAcknowledged,
        h2.events.WindowUpdated,
        h2.events.RequestReceived,
        h2.events.DataReceived,
        h2.events.StreamEnded,
        h2.events.PingReceived,
        h2.events.RequestReceived,
        h2.events.StreamReset,
        h2.events.ConnectionTerminated,
    ]
    request = events[3]
    assert isinstance(request, h2.events.RequestReceived)
    assert (b"x-long", b"x" * 40_000) in request.headers


def test_a_peer_gets_all_of_its_window_again():
    flow = FlowControl()
    flow.allowed -= CONNECTION_WINDOW // 2
    assert flow.allowed == LOW_WINDOW
    assert flow.grant() == CONNECTION_WINDOW // 2
    assert flow.allowed == CONNECTION_WINDOW
    flow.allowed -= CONNECTION_WINDOW
    assert flow.grant() == CONNECTION_WINDOW


def test_more_than_the_window_is_a_fault():
    flow = FlowControl()
    flow.allowed -= CONNECTION_WINDOW + 1
    with pytest.raises(ConnectionFault, match="DATA beyond the window"):
        flow.grant()


def test_a_window_cannot_grow_without_bound():
    flow = FlowControl()
    with pytest.raises(ConnectionFault, match="too large"):
        flow.widen(MAX_31_BITS)


def test_small_increments_are_free_while_they_give_back_what_was_sent():
    flow = FlowControl()
    assert flow.widen(1)
    flow.window -= 100
    assert not flow.widen(1)
    assert not flow.widen(64)


def test_what_was_allowed_of_a_stream_may_come_late_once():
    flow = FlowControl()
    flow.late = 10
    assert flow.came_late(10)
    assert not flow.came_late(1)
    assert flow.window == DEFAULT_WINDOW


def test_a_ping_is_idle_where_nothing_was_sent_since_the_one_before():
    flow = FlowControl()
    assert not flow.is_idle_ping()
    assert flow.is_idle_ping()
    flow.window -= 1
    assert not flow.is_idle_ping()


def test_what_is_used_up_comes_back_with_time():
    budget = RateBudget(3, 2.0)
    assert [budget.take(10.0) for _ in range(4)] == [True, True, True, False]
    assert budget.take(10.5)
    assert not budget.take(10.5)


def test_no_more_comes_back_than_there_was():
    budget = RateBudget(2, 100.0)
    budget.take(0.0)
    assert [budget.take(1e6) for _ in range(3)] == [True, True, False]


def test_a_share_of_what_is_done_besides_comes_back():
    budget = RateBudget(2, 0.0, 0.5)
    assert [budget.take(0.0, 8) for _ in range(3)] == [True, True, False]
    assert [budget.take(0.0, done) for done in (9, 10, 11, 12)] == [False, True, False, True]
    assert [budget.take(0.0, 1000) for _ in range(3)] == [True, True, False]


class Line:
    """A queue; it records its reports.

    Attributes:
        wakes: how often it had a frame and no write was due.
        ended: numbers of the streams whose frames are all sent.
    """

    def __init__(self, stream_window: int = 100) -> None:
        self.wakes = 0
        self.ended: list[int] = []
        flow = FlowControl()
        flow.peer_window = stream_window
        self.queue = SendQueue(flow, UnreadBytes(), self.wake, self.end, self.end_unread)

    def wake(self) -> None:
        self.wakes += 1

    def end(self, stream: Stream) -> None:
        stream.closed = True
        self.ended.append(stream.id)

    def end_unread(self, stream: Stream) -> tuple[PeerKind, str]:
        return PeerKind.POD, f"stream {stream.id}"

    def stream(self, number: int = 1) -> Stream:
        return Stream(self.queue, number, None)

    def sent(self) -> bytes:
        """Return what was written since the last call."""
        waiting, self.queue.frames = self.queue.frames, []
        return b"".join(waiting)


def data(payload: bytes, *, stream: int = 1, ended: bool = False) -> bytes:
    return data_head(stream, len(payload), ended=ended) + payload


def test_its_peer_gets_room_by_the_half_window():
    line = Line()
    stream = line.stream()
    stream.allowed -= STREAM_WINDOW
    stream.credit(STREAM_WINDOW // 2 - 1)
    assert (line.sent(), stream.allowed) == (b"", 0)
    stream.credit(1)
    assert line.sent() == frames.window_update(1, STREAM_WINDOW // 2)
    assert stream.allowed == STREAM_WINDOW // 2


def test_a_peer_that_has_sent_all_gets_no_more_room():
    line = Line()
    stream = line.stream()
    stream.peer_closed = True
    stream.credit(STREAM_WINDOW)
    assert line.sent() == b""


def test_payload_without_room_waits_in_order_with_its_end_behind_it():
    line = Line(stream_window=0)
    stream = line.stream()
    stream.send(b"first", None)
    stream.send(b"second", b"")
    assert (line.sent(), stream.left, line.ended) == (b"", len(b"firstsecond"), [])
    assert line.queue.unread.bytes == stream.left
    line.queue.widen(stream, 100)
    line.queue.pump_all()
    assert line.sent() == data(b"firstsecond", ended=True)
    assert (stream.left, line.ended, line.queue.unread.bytes) == (0, [1], 0)


def test_payload_that_goes_out_at_once_leaves_its_trailers_alone_to_be_sent():
    line = Line()
    line.stream().send(b"all", b"trailers")
    assert line.sent() == data(b"all") + header_frames(1, b"trailers", ended=True)
    assert line.ended == [1]


def test_nothing_is_sent_on_a_stream_that_is_ended():
    line = Line()
    stream = line.stream()
    stream.send(b"all", b"")
    assert line.sent() == data(b"all", ended=True)
    stream.send(b"late", b"")
    assert (line.sent(), stream.left, line.ended) == (b"", 0, [1])


def test_one_write_takes_all_frames_of_a_turn():
    line = Line()
    line.stream(1).send(b"one", None)
    line.stream(3).send(b"two", None)
    assert line.wakes == 1
    line.sent()
    line.queue.is_due = False
    line.stream(5).send(b"three", None)
    assert line.wakes == 2


def test_a_transport_that_is_full_holds_payload_back_and_no_other_frame():
    line = Line()
    line.queue.full = True
    stream = line.stream()
    stream.send(b"late", b"")
    line.queue.write(frames.ping(bytes(8), ack=True))
    assert line.sent() == frames.ping(bytes(8), ack=True)
    line.queue.full = False
    line.queue.pump_all()
    assert line.sent() == data(b"late", ended=True)


def test_streams_that_wait_for_the_connection_s_window_take_turns():
    line = Line(stream_window=1 << 20)
    line.queue.flow.window = 0
    size = line.queue.flow.max_frame
    for number in (1, 3):
        line.stream(number).send(bytes(2 * size), b"")
    assert list(line.queue.blocked) == [1, 3]
    line.queue.flow.window = 4 * size
    line.queue.pump_all()
    turns = [(1, False), (3, False), (1, True), (3, True)]
    expected = [data(bytes(size), stream=number, ended=ended) for number, ended in turns]
    assert line.sent() == b"".join(expected)
    assert line.ended == [1, 3]


def test_a_stream_without_a_window_of_its_own_waits_for_that_first():
    """A connection window does not scan such streams: 13 bytes would scan all of them."""
    line = Line(stream_window=0)
    stream = line.stream()
    stream.send(b"late", b"")
    assert not line.queue.blocked
    stream.window = 2
    line.queue.retry(stream)
    assert line.sent() == data(b"la")
    assert not line.queue.blocked


def test_a_stream_that_is_over_leaves_nothing_behind():
    line = Line()
    line.queue.full = True
    stream = line.stream()
    stream.send(b"late", b"")
    line.queue.discard(stream)
    line.queue.full = False
    line.queue.pump_all()
    assert (line.sent(), stream.left, line.queue.unread.bytes) == (b"", 0, 0)
    assert not line.queue.blocked


def test_a_sender_learns_of_its_payload_when_the_kernel_has_it():
    line = Line()
    stream = line.stream()
    passed: list[int] = []
    stream.on_accepted = passed.append
    stream.send(b"four", None)
    assert passed == []
    line.queue.report_accepted()
    line.queue.report_accepted()
    assert passed == [4]


def test_a_window_that_grows_too_large_is_a_fault():
    line = Line()
    with pytest.raises(ConnectionFault, match="too large"):
        line.queue.widen(line.stream(), frames.MAX_31_BITS)


def test_a_window_in_frames_of_two_bytes_takes_hardly_more_than_one_in_large_ones():
    line = Line(stream_window=0)
    stream = line.stream()
    tracemalloc.start()
    for number in range(STREAM_WINDOW // 2):
        stream.send(b"%02d" % (number % 100), None)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert stream.left == STREAM_WINDOW
    assert taken < 1.5 * STREAM_WINDOW
