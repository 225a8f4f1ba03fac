"""What both sides of the relay have in common: one connection, its streams, and flow control.

What a stream has to send waits here for the windows and for the transport, at most a window's
worth: its peer's sender is told of room only as what it sent goes out on the other side. All that
one turn of the loop has to say goes out in one write.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections import deque
from typing import TYPE_CHECKING, Final, cast

from activator.proxy.http2 import frames
from activator.proxy.http2.budget import Budget
from activator.proxy.http2.errors import ConnectionFault, ErrorCode
from activator.proxy.http2.frame_reader import FrameReader
from activator.proxy.http2.hpack import NO_TABLE, Decoder
from activator.proxy.http2.settings import Setting, write_settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from activator.proxy.http2.exchange import Http2Exchange

#: Bytes that a peer may send on a stream beyond what has gone out on the other side.
STREAM_WINDOW: Final = 64 << 10
#: The same of a connection. Streams are bounded each by itself, so that one that nobody reads
#: does not stop the others; this bounds what comes in one turn.
CONNECTION_WINDOW: Final = 1 << 20
#: Share of a window that is gone before its peer is told of room.
_TELL_AFTER: Final = 2
#: Answers to PING and SETTINGS that may wait for a peer that reads nothing (CVE-2019-9512).
_MAX_ANSWERS: Final = 1000
#: Frames without effect: at once, and a second (PRIORITY, empty DATA, unknown types).
_IDLE_FRAMES: Final = (10_000, 330.0)
#: Bytes of a window below which being told of it is worth nothing, but for so many times for each
#: frame of DATA: Go before 1.20 tells of each read, for the stream and for the connection.
_SMALL_INCREMENT: Final = 64
_GRANTS: Final = 2
#: Seconds for a peer that has broken the rules to take what is written for it.
PART_SECONDS: Final = 5.0


class Stream:
    """One stream of one connection.

    Attributes:
        exchange: whose it is; None once that has ended, or takes no more of what comes.
        answered: on a pod's side: the head of the final answer has come.
        window: bytes that may be sent on it, may be negative (RFC 9113 section 6.9.2).
        unsent: payload that waits to be sent, if any; ends: what ends it behind that: a block of
            trailers, empty for none, None as long as there is more to come.
        on_sent: is told how many bytes of payload have gone out.
        allowed: bytes that the peer may still send; owed: that it may send once it is told.
        closed: it was ended by our side; peer_closed: by the other side.
        missing: bytes of payload that were announced and have not come; -1 for not known.
        late: its answer was there, and not taken, when its connection was last looked at.
    """

    __slots__ = (
        "allowed",
        "answered",
        "closed",
        "connection",
        "ends",
        "exchange",
        "id",
        "late",
        "missing",
        "on_sent",
        "owed",
        "peer_closed",
        "unsent",
        "window",
    )

    def __init__(self, connection: Connection, stream: int, exchange: Http2Exchange | None) -> None:
        self.connection = connection
        self.id = stream
        self.exchange = exchange
        self.answered = False
        self.window = connection.peer_window
        self.unsent: deque[bytes] | None = None  # few streams need one, and it takes 0.6 KiB
        self.ends: bytes | None = None
        self.on_sent: Callable[[int], None] | None = None
        self.allowed = STREAM_WINDOW
        self.owed = 0
        self.closed = False
        self.peer_closed = False
        self.missing = -1
        self.late = False

    def send(self, payload: bytes, trailers: bytes | None) -> None:
        """Send payload, and end the stream where ``trailers`` is not None."""
        if self.closed:
            return
        if payload and self.connection.send_whole(self, payload, ended=trailers == b""):
            if not trailers:
                return
        elif payload:
            if self.unsent is None:
                self.unsent = deque()
            self.unsent.append(payload)
        self.ends = trailers
        self.connection.pump(self)

    def came(self, length: int) -> bool:
        """Count payload that came; return whether it was allowed."""
        self.allowed -= length
        return self.allowed >= 0

    def credit(self, length: int) -> None:
        """Let the peer send so much more."""
        self.owed += length
        if self.owed * _TELL_AFTER >= STREAM_WINDOW and not self.peer_closed:
            self.connection.write(frames.window_update(self.id, self.owed))
            self.allowed += self.owed
            self.owed = 0


class Connection(asyncio.Protocol):
    """One connection; a frame_reader.FrameHandler.

    Attributes:
        streams: those that are not over, by number.
        full: the peer does not take what has been written for it.
        peer_window: bytes that may be sent on a new stream.
    """

    def __init__(self, clock: Callable[[], float], *, server: bool) -> None:
        self._reader = FrameReader(self, preface=server)
        self._decoder = Decoder()
        self._clock = clock
        self._out: list[bytes] = []
        self._scheduled = False
        self._reading = False
        self._answers = 0
        self._idle_frames = Budget(*_IDLE_FRAMES)
        self._window = frames.DEFAULT_WINDOW
        self._allowed = CONNECTION_WINDOW
        self._owed = 0
        self._max_frame = frames.DEFAULT_MAX_FRAME
        self._grants = 0  # small increments that DATA of ours accounts for
        self._blocked: dict[int, Stream] = {}
        self._begun = False  # the first header block is written
        self.peer_window = frames.DEFAULT_WINDOW
        self.full = False
        self.ending = False
        self.streams: dict[int, Stream] = {}

    transport: asyncio.Transport

    def begin(self, *values: tuple[int, int]) -> None:
        """Write what each side begins with, behind the preface."""
        own = ((Setting.INITIAL_WINDOW_SIZE, STREAM_WINDOW), *values)
        self.write(
            frames.settings(write_settings(own))
            + frames.window_update(0, CONNECTION_WINDOW - frames.DEFAULT_WINDOW)
        )

    # -- for the loop ---------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        self.transport = cast(asyncio.Transport, transport)

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
        self._flush()

    def pause_writing(self) -> None:
        """See asyncio.Protocol."""
        self.full = True

    def resume_writing(self) -> None:
        """See asyncio.Protocol."""
        self.full = False
        self._answers = 0
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
        if self._out and not self.transport.is_closing():
            data = self._out[0] if len(self._out) == 1 else b"".join(self._out)
            self._out = []
            self.transport.write(data)

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
        self._grants += _GRANTS
        self.write(frames.data_head(stream.id, size, ended=ended) + payload)
        if stream.on_sent is not None:
            stream.on_sent(size)
        if ended:
            self._sent_all(stream)
        return True

    def pump(self, stream: Stream) -> None:
        """Send what windows and transport allow of a stream; the rest waits."""
        if stream.id in self._blocked:
            return
        while stream.unsent:
            if not self._send_piece(stream, stream.unsent):
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
        self._window -= size
        self._grants += _GRANTS
        ended = stream.ends == b"" and not unsent
        self.write(frames.data_head(stream.id, size, ended=ended) + piece)
        if stream.on_sent is not None:
            stream.on_sent(size)
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
            moved = False
            for stream in list(self._blocked.values()):
                if stream.id not in self._blocked:
                    continue
                if stream.unsent and not self._send_piece(stream, stream.unsent):
                    continue
                moved = True
                if not stream.unsent:
                    self._blocked.pop(stream.id, None)
                    self._send_end(stream)
            if not moved:
                return

    def _sent_all(self, stream: Stream) -> None:
        stream.closed = True
        if stream.peer_closed:
            self.forget(stream)
        else:
            self.on_half_closed(stream)

    def on_half_closed(self, stream: Stream) -> None:
        """We have sent all on a stream on which the peer has not."""

    def reset(self, stream: int, code: int) -> None:
        """See FrameHandler."""
        found = self._known(stream)
        if found is not None:
            self.forget(found)
            self.on_reset(found, code)

    def end(self, stream: Stream, code: int) -> None:
        """End a stream by RST_STREAM, unless it is over."""
        if stream.id in self.streams:
            self.write(frames.rst_stream(stream.id, code))
            self.forget(stream)

    def forget(self, stream: Stream) -> None:
        """A stream is over."""
        stream.closed = stream.peer_closed = True
        stream.unsent = stream.ends = None
        self._blocked.pop(stream.id, None)
        self.streams.pop(stream.id, None)

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
        if self._owed * _TELL_AFTER >= CONNECTION_WINDOW:
            self.write(frames.window_update(0, self._owed))
            self._allowed += self._owed
            self._owed = 0
        found = self._known(stream)
        if found is None:
            self.idle_frame(0)
            return
        if not payload and not ended:
            self.idle_frame(0)
        if found.peer_closed:
            self.stream_error(stream, ErrorCode.STREAM_CLOSED, "DATA behind the end")
            return
        if not found.came(length):
            self.stream_error(stream, ErrorCode.FLOW_CONTROL_ERROR, "more than the window")
            return
        if not self._fits(found, len(payload), ended):
            self.stream_error(stream, ErrorCode.PROTOCOL_ERROR, "not as long as announced")
            return
        found.peer_closed = ended
        if length > len(payload):
            found.credit(length - len(payload))
        self.on_data(found, payload, b"" if ended else None)
        if ended and found.closed:
            self.forget(found)

    def _fits(self, stream: Stream, size: int, ended: bool) -> bool:
        """Count payload against content-length (RFC 9113 section 8.1.1)."""
        if stream.missing < 0:
            return True
        stream.missing -= size
        return stream.missing == 0 if ended else stream.missing >= 0

    def _peer_ended(self, stream: Stream) -> None:
        stream.peer_closed = True
        if stream.closed:
            self.forget(stream)

    def settings(self, values: list[tuple[int, int]]) -> None:
        """See FrameHandler."""
        for identifier, value in values:
            if identifier == Setting.INITIAL_WINDOW_SIZE:
                self._resize(value - self.peer_window)
                self.peer_window = value
            elif identifier == Setting.MAX_FRAME_SIZE:
                self._max_frame = min(value, frames.DEFAULT_MAX_FRAME)
            elif identifier == Setting.MAX_CONCURRENT_STREAMS:
                self.on_max_streams(value)
        self._answer(frames.SETTINGS_ACK)
        self._pump_all()

    def _resize(self, by: int) -> None:
        for stream in self.streams.values():
            stream.window += by
            if stream.window > frames.MAX_31_BITS:
                raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "a window too large")

    def settings_acknowledged(self) -> None:
        """See FrameHandler."""
        self.idle_frame(0)

    def ping(self, opaque: bytes, ack: bool) -> None:
        """See FrameHandler."""
        if ack:
            self.idle_frame(0)
        else:
            self._answer(frames.ping(opaque, ack=True))

    def _answer(self, data: bytes) -> None:
        self.idle_frame(0)
        if self.full:
            self._answers += 1
            if self._answers > _MAX_ANSWERS:
                raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "answers that nobody reads")
        self.write(data)

    def window_update(self, stream: int, increment: int) -> None:
        """See FrameHandler."""
        if not stream:
            self._window += increment
            if self._window > frames.MAX_31_BITS:
                raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "a window too large")
            if self._blocked:
                self._pump_all()
            elif increment < _SMALL_INCREMENT:
                self._granted()
            return
        found = self._known(stream)
        if found is None:
            return
        found.window += increment
        if found.window > frames.MAX_31_BITS:
            self.stream_error(stream, ErrorCode.FLOW_CONTROL_ERROR, "a window too large")
        elif found.id in self._blocked and not self.full:
            del self._blocked[found.id]
            self.pump(found)
        elif increment < _SMALL_INCREMENT:
            self._granted()

    def _granted(self) -> None:
        """Room was granted that is not worth a frame, unless each small message is read at once."""
        if self._grants:
            self._grants -= 1
        else:
            self.idle_frame(0)

    def idle_frame(self, kind: int) -> None:
        """See FrameHandler."""
        if not self._idle_frames.take(self._clock()):
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "too many frames without effect")

    # -- what a side makes of it ----------------------------------------------------------------

    last_stream = 0

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
