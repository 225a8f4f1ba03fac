"""What both sides of the relay have in common: one connection, its streams, and flow control.

What a stream has to send waits here for the windows and for the transport, at most a window's
worth: its peer's sender is told of room only as what it sent goes out on the other side. All that
one turn of the loop has to say goes out in one write.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from math import inf
from typing import TYPE_CHECKING, Final, cast

from activator.proxy.http2 import frames
from activator.proxy.http2.budget import Budget
from activator.proxy.http2.errors import ConnectionFault, ErrorCode
from activator.proxy.http2.frame_reader import FrameReader
from activator.proxy.http2.hpack import MAX_LIST_BYTES, NO_TABLE, Decoder
from activator.proxy.http2.settings import Setting, write_settings
from activator.proxy.http2.stream import STREAM_WINDOW, TELL_AFTER
from activator.proxy.transport import presence

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable

    from activator.proxy.http2.stream import Stream
    from activator.proxy.transport.unread import Peer, UnreadBytes

#: Bytes that a peer may send on all streams beyond what has come. Streams are bounded each by
#: itself, so that one that nobody reads does not stop the others; this bounds what comes in one
#: turn.
CONNECTION_WINDOW: Final = 1 << 20
#: Answers to PING and SETTINGS that may wait for a peer that reads nothing (CVE-2019-9512).
_MAX_ANSWERS: Final = 1000
#: Frames without effect: at once, a second, and with each stream that is opened, which is far more
#: work. Such are PRIORITY, empty DATA, unknown types, and what crosses a stream's end.
_IDLE_FRAMES: Final = (10_000, 330.0, 8.0)
#: Bytes of room below which being told of it is work and no room, and has what waits go out in
#: crumbs (CVE-2019-9511), unless the peer gives back what it got in such pieces. Larger ones come
#: as a client reads, and are less work than a request.
_SMALL_INCREMENT: Final = 64
#: Bytes that may wait for the kernel besides payload, which waits for its stream.
MAX_BACKLOG: Final = 256 << 10
#: Seconds for a peer that has broken the rules to take what is written for it.
PART_SECONDS: Final = 5.0


class Connection(asyncio.Protocol):
    """One connection; a frame_reader.FrameHandler.

    Attributes:
        streams: those that are not over, by number.
        opened: how many have begun; last_stream: the last of the peer's, which a pod has none of.
        full: the peer does not take what has been written for it.
        peer_window: bytes that may be sent on a new stream.
        goaway_due: the next write ends with GOAWAY, unless a stream has begun by then.
        late_at: when what has begun has to be complete: a header block, or the connection itself.
    """

    # With more than 30 attributes (SHARED_KEYS_MAX_SIZE in CPython 3.11) each object would have a
    # dict of its own, and every call of a method would be looked up anew.
    __slots__ = (
        "_allowed",
        "_answers",
        "_begun",
        "_blocked",
        "_clock",
        "_crumbs",
        "_decoder",
        "_granted",
        "_idle_frames",
        "_late",
        "_max_frame",
        "_out",
        "_owed",
        "_passed",
        "_reader",
        "_reading",
        "_scheduled",
        "_sent_at_ping",
        "_window",
        "ending",
        "full",
        "goaway_due",
        "last_stream",
        "late_at",
        "opened",
        "peer_window",
        "streams",
        "transport",
        "unread",
    )

    def __init__(self, clock: Callable[[], float], unread: UnreadBytes, *, server: bool) -> None:
        self.unread = unread
        self._reader = FrameReader(self, preface=server)
        self._decoder = Decoder()
        self._clock = clock
        self._out: list[bytes] = []
        self._scheduled = False
        self._reading = False
        self._answers = 0
        self._idle_frames = Budget(*_IDLE_FRAMES)
        self._window = self._granted = frames.DEFAULT_WINDOW
        self._sent_at_ping = -1
        self._crumbs = [0, 0]  # bytes of small increments: of the connection, of streams
        self._late = 0  # payload that may still come for streams that are over
        self._allowed = CONNECTION_WINDOW
        self._owed = 0
        self._max_frame = frames.DEFAULT_MAX_FRAME
        self._blocked: dict[int, Stream] = {}
        # Payload in ``_out``, or in a transport that is full: who is to know when it has gone.
        self._passed: list[tuple[Callable[[int], None], int]] = []
        self._begun = False  # the first header block is written
        self.peer_window = frames.DEFAULT_WINDOW
        self.late_at = inf
        self.full = False
        self.ending = False
        self.goaway_due = False
        self.streams: dict[int, Stream] = {}
        self.opened = 0
        self.last_stream = 0

    transport: asyncio.Transport

    def begin(self, *values: tuple[int, int]) -> None:
        """Write what each side begins with, behind the preface."""
        own = (
            (Setting.INITIAL_WINDOW_SIZE, STREAM_WINDOW),
            (Setting.MAX_HEADER_LIST_SIZE, MAX_LIST_BYTES),
            *values,
        )
        self.write(
            frames.settings(write_settings(own))
            + frames.window_update(0, CONNECTION_WINDOW - frames.DEFAULT_WINDOW)
        )

    # -- for the loop ---------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        self.transport = cast(asyncio.Transport, transport)
        presence.notice_slow_reader(self.transport)

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        if self.ending:
            return
        self._reading = True
        try:
            self._reader.feed(data)
        except ConnectionFault as fault:
            self.fail(fault)
        self._reading = False
        if self._reader.unfinished:
            self.on_unfinished()
        elif self.late_at != inf:
            self.on_finished()
        self._flush()

    def pause_writing(self) -> None:
        """See asyncio.Protocol."""
        self.full = True

    def resume_writing(self) -> None:
        """See asyncio.Protocol."""
        self.full = False
        self._answers = 0
        self.unread.hold(self, 0)
        self._report_passed()
        self._pump_all()

    # -- writing --------------------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        """Have frames sent, with all others of this turn of the loop."""
        self._out.append(data)
        if not self._scheduled and not self._reading:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._scheduled = False
        out, transport = self._out, self.transport
        if out and not transport.is_closing():
            if self.goaway_due:
                self.on_goaway_due()
            self._out = []
            transport.write(out[0] if len(out) == 1 else b"".join(out))
            if self.full:
                self._is_full()
                return
        if self._passed and not self.full:  # as _report_passed, without the call
            passed, self._passed = self._passed, []
            for on_sent, size in passed:
                on_sent(size)

    def _is_full(self) -> None:
        """Count what waits for the kernel."""
        if not self.transport.is_closing():
            self.unread.hold(self, presence.count_held(self.transport))
        if self.transport.get_write_buffer_size() > MAX_BACKLOG:
            self.on_backlog()

    def _report_passed(self) -> None:
        """Have the senders of payload that the kernel took send more."""
        passed, self._passed = self._passed, []
        for on_sent, size in passed:
            on_sent(size)

    def write_headers(self, stream: Stream, block: bytes, *, ended: bool) -> None:
        """Send a header block. ``ended``: nothing follows on the stream."""
        if not self._begun:
            self._begun = True
            block = NO_TABLE + block
        self.write(frames.headers(stream.id, block, ended=ended, limit=self._max_frame))
        if ended:
            self._sent_all(stream)

    def send_whole(self, stream: Stream, payload: bytes, *, ended: bool) -> bool:
        """Send payload in one frame if nothing is in its way, as nearly always; return whether it
        was. Through the queue it would cost twice as much."""
        size = len(payload)
        if (
            stream.unsent
            or self.full
            or size > stream.window
            or size > self._window
            or size > self._max_frame
        ):
            return False
        stream.window -= size
        self._window -= size
        self.write(frames.data_head(stream.id, size, ended=ended) + payload)
        if ended:  # what came has ended too: its sender needs no more room
            self._sent_all(stream)
        elif stream.on_sent is not None:
            self._passed.append((stream.on_sent, size))
        return True

    def pump(self, stream: Stream) -> None:
        """Send what windows and transport allow of a stream; the rest waits."""
        if stream.id in self._blocked:
            return
        while stream.unsent:
            if not self._send_piece(stream, stream.unsent):
                if stream.window > 0:  # else its own window has to come first
                    self._blocked[stream.id] = stream
                return
        self._send_end(stream)

    def _send_piece(self, stream: Stream, unsent: deque[bytes]) -> bool:
        """Send one frame of a stream; return whether there was room for it."""
        piece = unsent[0]
        room = min(stream.window, self._window, self._max_frame)
        if room <= 0 or self.full:
            return False
        if len(piece) > room:
            unsent[0] = piece[room:]
            piece = piece[:room]
        else:
            unsent.popleft()
        size = len(piece)
        stream.window -= size
        stream.left -= size
        self.unread.hold(stream, stream.left)
        self._window -= size
        ended = stream.ends == b"" and not unsent
        self.write(frames.data_head(stream.id, size, ended=ended) + piece)
        if stream.on_sent is not None:
            self._passed.append((stream.on_sent, size))
        if ended:
            stream.ends = None
            self._sent_all(stream)
        return True

    def _send_end(self, stream: Stream) -> None:
        trailers, stream.ends = stream.ends, None
        if trailers is None or stream.closed:
            return
        if trailers:
            self.write_headers(stream, trailers, ended=True)
        else:
            self.write(frames.data_head(stream.id, 0, ended=True))
            self._sent_all(stream)

    def _pump_all(self) -> None:
        """Send what waits, a frame of each stream in turn, so that none starves another."""
        while self._blocked and not self.full and self._window > 0:
            stream = next(iter(self._blocked.values()))
            del self._blocked[stream.id]
            if stream.window <= 0 or (
                stream.unsent and not self._send_piece(stream, stream.unsent)
            ):
                continue
            if stream.unsent:
                self._blocked[stream.id] = stream
            else:
                self._send_end(stream)

    def _sent_all(self, stream: Stream) -> None:
        stream.closed = True
        if not stream.peer_closed:
            self.on_half_closed(stream)
        elif stream.fault:
            self.end(stream, stream.fault)
        else:
            self.forget(stream)

    def on_half_closed(self, stream: Stream) -> None:
        """We have sent all on a stream on which the peer has not."""

    def reset(self, stream: int, code: int) -> None:
        """See FrameHandler."""
        found = self._known(stream)
        if found is None:
            self.idle_frame()
            return
        found.peer_closed = True
        self.forget(found)
        self.on_reset(found, code)

    def end(self, stream: Stream, code: int) -> None:
        """End a stream by RST_STREAM, unless it is over."""
        if stream.id in self.streams:
            self.write(frames.rst_stream(stream.id, code))
            self.forget(stream)

    def forget(self, stream: Stream) -> None:
        """A stream is over."""
        if not stream.peer_closed:
            self.expect_late(stream.allowed)
        stream.closed = stream.peer_closed = True
        stream.unsent = stream.ends = None
        if stream.left:
            stream.left = 0
            self.unread.hold(stream, 0)
        self._blocked.pop(stream.id, None)
        self.streams.pop(stream.id, None)

    def expect_late(self, size: int) -> None:
        """So much payload may have been sent before the peer learns that its stream is over."""
        self._late += max(size, 0)

    def fail(self, fault: ConnectionFault) -> None:
        """Say what is wrong, and close."""
        self.ending = True
        self._out.append(frames.goaway(self.last_stream, fault.code, fault.reason.encode()))
        self._flush()
        self.part()

    def part(self) -> None:
        """Close, but for what a peer that reads nothing does not take."""
        self.transport.close()
        asyncio.get_running_loop().call_later(PART_SECONDS, self.transport.abort)

    # -- frames ---------------------------------------------------------------------------------

    def _known(self, stream: int) -> Stream | None:
        """Return a stream; None for one that is over.

        Raises:
            ConnectionFault: it has never begun (RFC 9113 section 5.1).
        """
        found = self.streams.get(stream)
        if found is None and self.is_idle(stream):
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, f"stream {stream} is idle")
        return found

    def data(self, stream: int, payload: bytes, length: int, ended: bool) -> None:
        """See FrameHandler."""
        self._allowed -= length
        self._owed += length
        if self._allowed < 0:
            raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "more than the window")
        if self._owed * TELL_AFTER >= CONNECTION_WINDOW:
            self.write(frames.window_update(0, self._owed))
            self._allowed += self._owed
            self._owed = 0
        found = self.streams.get(stream)
        if found is None:
            self._late_data(stream, length)
            return
        if not payload and not ended:
            self.idle_frame()
        if found.peer_closed:
            self.stream_error(stream, ErrorCode.STREAM_CLOSED, "DATA behind the end")
            return
        if not found.came(length):
            self.stream_error(stream, ErrorCode.FLOW_CONTROL_ERROR, "more than the window")
            return
        if found.missing >= 0 and not self._fits(found, len(payload), ended):
            self.stream_error(stream, ErrorCode.PROTOCOL_ERROR, "not as long as announced")
            return
        found.peer_closed = ended
        if length > len(payload):
            found.credit(length - len(payload))
        self.on_data(found, payload, b"" if ended else None)
        if ended and found.closed:
            if found.fault:
                self.end(found, found.fault)
            else:
                self.forget(found)

    def _late_data(self, stream: int, length: int) -> None:
        """DATA came for a stream that is over. What its window allowed is free, however small its
        frames are: as much as if the stream had gone on."""
        self._known(stream)
        if 0 < length <= self._late:
            self._late -= length
        else:
            self.on_stray(stream)

    def _fits(self, stream: Stream, size: int, ended: bool) -> bool:
        """Count payload against the content-length that was said (RFC 9113 section 8.1.1)."""
        stream.missing -= size
        return stream.missing == 0 if ended else stream.missing >= 0

    def _peer_ended(self, stream: Stream) -> None:
        stream.peer_closed = True
        if not stream.closed:
            return
        if stream.fault:
            self.end(stream, stream.fault)
        else:
            self.forget(stream)

    def on_stray(self, stream: int) -> None:
        """Handle DATA or a header block for a stream that is over."""
        self.idle_frame()

    def settings(self, values: list[tuple[int, int]]) -> None:
        """See FrameHandler. Of a setting that a frame says often the last value holds: each change
        of the window would look at all streams, and a frame has room for 2,730."""
        for identifier, value in dict(values).items():
            if identifier == Setting.INITIAL_WINDOW_SIZE:
                self._resize(value - self.peer_window)
                self.peer_window = value
            elif identifier == Setting.MAX_FRAME_SIZE:
                self._max_frame = min(value, frames.DEFAULT_MAX_FRAME)
            elif identifier == Setting.MAX_CONCURRENT_STREAMS:
                self.on_max_streams(value)
        self.idle_frame()
        self._answer(frames.SETTINGS_ACK)
        self._pump_all()

    def _resize(self, by: int) -> None:
        for stream in self.streams.values():
            stream.window += by
            if stream.window > frames.MAX_31_BITS:
                raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "a window too large")
            if stream.unsent and stream.window > 0:
                self._blocked[stream.id] = stream

    def settings_acknowledged(self) -> None:
        """See FrameHandler."""
        self.idle_frame()

    def ping(self, opaque: bytes, ack: bool) -> None:
        """See FrameHandler. A peer that receives may ask as often as something comes: gRPC finds
        out so how wide the way is, thousands of times a second."""
        sent = self._granted - self._window
        if ack or sent == self._sent_at_ping:
            self.idle_frame()
        self._sent_at_ping = sent
        if not ack:
            self._answer(frames.ping(opaque, ack=True))

    def _answer(self, data: bytes) -> None:
        if self.full:
            self._answers += 1
            if self._answers > _MAX_ANSWERS:
                raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "answers that nobody reads")
        self.write(data)

    def window_update(self, stream: int, increment: int) -> None:
        """See FrameHandler."""
        if not stream:
            self._widen(increment)
            return
        found = self._known(stream)
        if found is None:
            self.idle_frame()
            return
        if increment < _SMALL_INCREMENT:
            self._count_crumb(1, increment)
        found.window += increment
        if found.window > frames.MAX_31_BITS:
            self.stream_error(stream, ErrorCode.FLOW_CONTROL_ERROR, "a window too large")
        elif found.unsent:
            self._blocked.pop(stream, None)
            self.pump(found)

    def _widen(self, increment: int) -> None:
        if increment < _SMALL_INCREMENT:
            self._count_crumb(0, increment)
        self._granted += increment
        self._window += increment
        if self._window > frames.MAX_31_BITS:
            raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "a window too large")
        self._pump_all()

    def _count_crumb(self, kind: int, size: int) -> None:
        """Count a small increment: free as long as the peer gives back what it got."""
        self._crumbs[kind] += size
        if self._crumbs[kind] > self._granted - self._window:
            self.idle_frame()

    def on_unfinished(self) -> None:
        """What came ends in the middle of a header block, or of the beginning."""

    def on_finished(self) -> None:
        """What had begun has come to its end."""
        self.late_at = inf

    def on_goaway_due(self) -> None:
        """Add GOAWAY to what is about to be written, if it still applies."""

    def on_backlog(self) -> None:
        """The peer does not take even what flow control does not hold back."""

    def idle_frame(self) -> None:
        """See FrameHandler."""
        if not self._idle_frames.take(self._clock(), self.opened):
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "too many frames without effect")

    @abstractmethod
    def end_unread(self) -> tuple[Peer, str]:
        """See unread.Reader: the peer takes nothing of what waits for the kernel."""

    @abstractmethod
    def end_stream_unread(self, stream: Stream) -> tuple[Peer, str]:
        """See unread.Reader: the peer takes nothing of a stream."""

    # -- what a side makes of it ----------------------------------------------------------------

    @abstractmethod
    def is_idle(self, stream: int) -> bool:
        """Whether a stream has never begun."""

    @abstractmethod
    def headers(self, stream: int, block: bytes, ended: bool) -> None:
        """See FrameHandler."""

    @abstractmethod
    def on_data(self, stream: Stream, payload: bytes, trailers: bytes | None) -> None:
        """Payload came; ``trailers`` is None as long as there is more to come."""

    @abstractmethod
    def on_reset(self, stream: Stream, code: int) -> None:
        """The peer has ended a stream; it is forgotten."""

    @abstractmethod
    def on_max_streams(self, count: int) -> None:
        """The peer takes so many streams at a time."""

    @abstractmethod
    def goaway(self, last_stream: int, code: int, reason: bytes) -> None:
        """See FrameHandler."""

    @abstractmethod
    def stream_error(self, stream: int, code: ErrorCode, reason: str) -> None:
        """See FrameHandler."""
