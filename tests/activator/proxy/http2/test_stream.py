"""What streams may send and receive, and which parts wait; without a transport."""

from __future__ import annotations

import tracemalloc

import pytest

from activator.proxy.http2 import frames
from activator.proxy.http2.frames import ConnectionFault
from activator.proxy.http2.stream import STREAM_WINDOW, FlowControl, SendQueue, Stream
from activator.proxy.transport.peer_socket import Peer, UnreadBytes


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

    def end_unread(self, stream: Stream) -> tuple[Peer, str]:
        return Peer.POD, f"stream {stream.id}"

    def stream(self, number: int = 1) -> Stream:
        return Stream(self.queue, number, None)

    def sent(self) -> bytes:
        """Return what was written since the last call."""
        waiting, self.queue.frames = self.queue.frames, []
        return b"".join(waiting)


def data(payload: bytes, *, stream: int = 1, ended: bool = False) -> bytes:
    return frames.data_head(stream, len(payload), ended=ended) + payload


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
    assert line.sent() == data(b"all") + frames.headers(1, b"trailers", ended=True)
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
    stream.on_sent = passed.append
    stream.send(b"four", None)
    assert passed == []
    line.queue.report_passed()
    line.queue.report_passed()
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
