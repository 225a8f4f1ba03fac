"""What one stream may send and take, apart from its connection."""

from __future__ import annotations

import tracemalloc

from activator.proxy.http2 import frames
from activator.proxy.http2.stream import STREAM_WINDOW, Stream
from activator.proxy.transport.unread import UnreadBytes


class Line:
    """As much of a connection as a stream has a use for.

    Attributes:
        free: whether payload goes out at once; sent: what did; said: other frames.
        pumped: how often the stream asked to have sent what waits.
    """

    def __init__(self) -> None:
        self.unread = UnreadBytes()
        self.free = True
        self.sent: list[tuple[bytes, bool]] = []
        self.said: list[bytes] = []
        self.pumped = 0

    def send_whole(self, stream: Stream, payload: bytes, *, ended: bool) -> bool:
        if self.free:
            self.sent.append((payload, ended))
        return self.free

    def pump(self, stream: Stream) -> None:
        self.pumped += 1

    def write(self, data: bytes) -> None:
        self.said.append(data)


def stream_on(line: Line) -> Stream:
    return Stream(line, 1, 100, None)  # type: ignore[arg-type] # see Line


def test_its_peer_is_told_of_room_by_the_half_window():
    line = Line()
    stream = stream_on(line)
    assert stream.came(STREAM_WINDOW)
    stream.credit(STREAM_WINDOW // 2 - 1)
    assert line.said == []
    assert not stream.came(1)
    stream.credit(1)
    assert line.said == [frames.window_update(1, STREAM_WINDOW // 2)]
    assert stream.came(STREAM_WINDOW // 2 - 1)


def test_a_peer_that_has_sent_all_is_told_nothing():
    line = Line()
    stream = stream_on(line)
    stream.came(STREAM_WINDOW)
    stream.peer_closed = True
    stream.credit(STREAM_WINDOW)
    assert line.said == []


def test_what_has_no_room_waits_in_order_with_its_end_behind_it():
    line = Line()
    stream = stream_on(line)
    line.free = False
    stream.send(b"first", None)
    stream.send(b"second", b"")
    assert stream.left == len(b"firstsecond")
    assert b"".join(stream.unsent or ()) == b"firstsecond"
    assert stream.ends == b""
    assert line.pumped == 2


def test_payload_that_goes_out_at_once_leaves_its_trailers_alone_to_be_sent():
    line = Line()
    stream = stream_on(line)
    stream.send(b"all", b"trailers")
    assert line.sent == [(b"all", False)]
    assert (stream.left, stream.ends, line.pumped) == (0, b"trailers", 1)


def test_nothing_is_sent_on_a_stream_that_is_ended():
    line = Line()
    stream = stream_on(line)
    stream.closed = True
    stream.send(b"late", b"")
    assert (line.sent, stream.left, line.pumped) == ([], 0, 0)


def test_a_window_in_frames_of_two_bytes_takes_hardly_more_than_one_in_large_ones():
    line = Line()
    stream = stream_on(line)
    line.free = False
    tracemalloc.start()
    for number in range(STREAM_WINDOW // 2):
        stream.send(b"%02d" % (number % 100), None)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert stream.left == STREAM_WINDOW
    assert taken < 1.5 * STREAM_WINDOW
