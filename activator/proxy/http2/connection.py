"""One HTTP/2 connection, of a client or to a pod: its streams, frames, and flow control.

What a stream has to send waits here for the windows and for the transport, at most a window's
worth: its peer's sender gets room only as what it sent goes out on the other side. All that one
turn of the loop has to say goes out in one write. What frames mean is up to its side.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from math import inf
from typing import Final, cast, final

from activator.proxy.http2 import frames
from activator.proxy.http2.budget import Budget
from activator.proxy.http2.errors import ConnectionFault, ErrorCode
from activator.proxy.http2.flow import CONNECTION_WINDOW, Flow
from activator.proxy.http2.frame_reader import FrameReader
from activator.proxy.http2.hpack import MAX_LIST_BYTES, NO_TABLE, Decoder
from activator.proxy.http2.settings import Setting, write_settings
from activator.proxy.http2.stream import (
    STREAM_WINDOW,
    Stream,
    StreamConnection,
)
from activator.proxy.transport import presence
from activator.proxy.transport.unread import Peer, UnreadBytes

#: Answers to PING and SETTINGS that may wait for a peer that reads nothing (CVE-2019-9512).
_MAX_ANSWERS: Final = 1000
#: Frames without effect: at once, a second, and with each stream that is opened, which is far more
#: work. Such are PRIORITY, empty DATA, unknown types, and what crosses a stream's end.
_IDLE_FRAMES: Final = (10_000, 330.0, 8.0)
#: Bytes that may wait for the kernel besides payload, which waits for its stream.
MAX_BACKLOG: Final = 256 << 10
#: Seconds for a peer that has broken the rules to take what is written for it.
PART_SECONDS: Final = 5.0


class ConnectionSide(ABC):
    """What is different at the two ends: a client's connection, and one to a pod."""

    @abstractmethod
    def made(self) -> None:
        """The connection is there."""

    @abstractmethod
    def lost(self, exc: Exception | None) -> None:
        """The connection is no more."""

    @abstractmethod
    def on_full(self) -> None:
        """The peer does not take what has been written for it."""

    @abstractmethod
    def on_room(self) -> None:
        """It takes more again."""

    @abstractmethod
    def on_backlog(self) -> None:
        """The peer does not take even what flow control does not hold back."""

    @abstractmethod
    def on_unfinished(self, size: int) -> None:
        """What came ends in the middle of a header block, of so many bytes, or of the beginning."""

    @abstractmethod
    def on_finished(self) -> None:
        """What had begun has come to its end."""

    @abstractmethod
    def on_goaway_due(self) -> None:
        """Add GOAWAY to what is about to be written, if it still applies."""

    @abstractmethod
    def on_failed(self, fault: ConnectionFault) -> None:
        """The peer has broken a rule, and was sent GOAWAY: close."""

    @abstractmethod
    def end_unread(self) -> tuple[Peer, str]:
        """See unread.Reader: the peer takes nothing of what waits for the kernel."""

    @abstractmethod
    def end_stream_unread(self, stream: Stream) -> tuple[Peer, str]:
        """See unread.Reader: the peer takes nothing of a stream."""

    @abstractmethod
    def is_idle(self, stream: int) -> bool:
        """Return whether a stream has never begun."""

    @abstractmethod
    def on_headers(self, stream: int, block: bytes, ended: bool) -> None:
        """A whole header block came."""

    @abstractmethod
    def on_data(self, stream: Stream, payload: bytes, trailers: bytes | None) -> None:
        """Payload came; ``trailers`` is None as long as there is more to come."""

    @abstractmethod
    def on_half_closed(self, stream: Stream) -> None:
        """We have sent all on a stream on which the peer has not."""

    @abstractmethod
    def on_reset(self, stream: Stream, owner: object | None, code: int) -> None:
        """The peer has ended a stream, which was ``owner``'s and is forgotten."""

    @abstractmethod
    def on_forgotten(self, stream: Stream) -> None:
        """A stream is over."""

    @abstractmethod
    def on_stray(self, stream: int) -> None:
        """DATA or a header block came for a stream that is over."""

    @abstractmethod
    def on_settings(self) -> None:
        """Settings came."""

    @abstractmethod
    def on_max_streams(self, count: int) -> None:
        """The peer takes so many streams at a time."""

    @abstractmethod
    def on_goaway(self, last_stream: int) -> None:
        """The peer takes no more streams, and has looked at none behind ``last_stream``."""

    @abstractmethod
    def on_stream_error(self, stream: int, code: ErrorCode, reason: str) -> None:
        """See FrameHandler.stream_error."""


@final
class Connection(StreamConnection):
    """One connection: the loop's protocol object, and a frame_reader.FrameHandler.

    Attributes:
        side: what is different at this end.
        streams: those that are not over, by number.
        opened: how many have begun; last_stream: the last of the peer's, which a pod has none of.
        full: the peer does not take what has been written for it.
        ending: nothing that comes is read any more.
        goaway_due: the next write ends with GOAWAY, unless a stream has begun by then.
        late_at: when what has begun has to be complete: a header block, or the connection itself.
    """

    __slots__ = (
        "_answers",
        "_begun",
        "_blocked",
        "_clock",
        "_idle_frames",
        "_out",
        "_passed",
        "_reader",
        "_reading",
        "_scheduled",
        "decoder",
        "ending",
        "flow",
        "full",
        "goaway_due",
        "last_stream",
        "late_at",
        "opened",
        "side",
        "streams",
        "transport",
        "unread",
    )

    def __init__(
        self,
        side: ConnectionSide,
        clock: Callable[[], float],
        unread: UnreadBytes,
        *,
        server: bool,
    ) -> None:
        self.side = side
        self.unread = unread
        self.flow = Flow()
        self._reader = FrameReader(self, preface=server)
        self.decoder = Decoder()
        self._clock = clock
        self._out: list[bytes] = []
        self._scheduled = False
        self._reading = False
        self._answers = 0
        self._idle_frames = Budget(*_IDLE_FRAMES)
        self._blocked: dict[int, Stream] = {}
        # Payload in ``_out``, or in a transport that is full: who is to know when it has gone.
        self._passed: list[tuple[Callable[[int], None], int]] = []
        self._begun = False  # the first header block is written
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
        self.side.made()

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        self.ending = True
        self.unread.hold(self, 0)
        self.side.lost(exc)

    def eof_received(self) -> bool:
        """See asyncio.Protocol: nobody half-closes HTTP/2 (RFC 9113 section 9.1)."""
        return False

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
            self.side.on_unfinished(self._reader.block_size)
        elif self.late_at != inf:
            self.late_at = inf
            self.side.on_finished()
        self.flush()

    def pause_writing(self) -> None:
        """See asyncio.Protocol."""
        self.full = True
        self.side.on_full()

    def resume_writing(self) -> None:
        """See asyncio.Protocol."""
        self.full = False
        self._answers = 0
        self.unread.hold(self, 0)
        self._report_passed()
        self._pump_all()
        self.side.on_room()

    # -- writing --------------------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        """Have frames sent, with all others of this turn of the loop."""
        self._out.append(data)
        if not self._scheduled and not self._reading:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self.flush)

    def flush(self) -> None:
        """Write what is to be sent."""
        self._scheduled = False
        out, transport = self._out, self.transport
        if out and not transport.is_closing():
            if self.goaway_due:
                self.side.on_goaway_due()
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
            self.side.on_backlog()

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
        self.write(frames.headers(stream.id, block, ended=ended, limit=self.flow.max_frame))
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
            or size > self.flow.window
            or size > self.flow.max_frame
        ):
            return False
        stream.window -= size
        self.flow.window -= size
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
        room = min(stream.window, self.flow.window, self.flow.max_frame)
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
        self.flow.window -= size
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
        while self._blocked and not self.full and self.flow.window > 0:
            stream = next(iter(self._blocked.values()))
            del self._blocked[stream.id]
            unsent = stream.unsent
            if stream.window <= 0 or (unsent and not self._send_piece(stream, unsent)):
                continue
            if unsent:
                self._blocked[stream.id] = stream
            else:
                self._send_end(stream)

    def _sent_all(self, stream: Stream) -> None:
        stream.closed = True
        if not stream.peer_closed:
            self.side.on_half_closed(stream)
        elif stream.fault:
            self.end(stream, stream.fault)
        else:
            self.forget(stream)

    def reset(self, stream: int, code: int) -> None:
        """See FrameHandler."""
        found = self.known(stream)
        if found is None:
            self.idle_frame()
            return
        owner = found.owner
        found.peer_closed = True
        self.forget(found)
        self.side.on_reset(found, owner, code)

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
        self.side.on_forgotten(stream)

    def expect_late(self, size: int) -> None:
        """So much payload may have been sent before the peer learns that its stream is over."""
        self.flow.late += max(size, 0)

    def fail(self, fault: ConnectionFault) -> None:
        """Say what is wrong, and close."""
        self.ending = True
        self._out.append(frames.goaway(self.last_stream, fault.code, fault.reason.encode()))
        self.flush()
        self.side.on_failed(fault)

    # -- frames ---------------------------------------------------------------------------------

    def known(self, stream: int) -> Stream | None:
        """Return a stream; None for one that is over.

        Raises:
            ConnectionFault: it has never begun (RFC 9113 section 5.1).
        """
        found = self.streams.get(stream)
        if found is None and self.side.is_idle(stream):
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, f"stream {stream} is idle")
        return found

    def data(self, stream: int, payload: bytes, length: int, ended: bool) -> None:
        """See FrameHandler."""
        owed = self.flow.came(length)
        if owed:
            self.write(frames.window_update(0, owed))
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
        self.side.on_data(found, payload, b"" if ended else None)
        if ended and found.closed:
            self.peer_ended(found)

    def _late_data(self, stream: int, length: int) -> None:
        """DATA came for a stream that is over. What its window allowed is free, however small its
        frames are: as much as if the stream had gone on."""
        self.known(stream)
        if not self.flow.came_late(length):
            self.stray(stream)

    def _fits(self, stream: Stream, size: int, ended: bool) -> bool:
        """Count payload against the content-length that was said (RFC 9113 section 8.1.1)."""
        stream.missing -= size
        return stream.missing == 0 if ended else stream.missing >= 0

    def peer_ended(self, stream: Stream) -> None:
        """The peer has sent all on a stream."""
        stream.peer_closed = True
        if not stream.closed:
            return
        if stream.fault:
            self.end(stream, stream.fault)
        else:
            self.forget(stream)

    def stray(self, stream: int) -> None:
        """Handle DATA or a header block for a stream that is over."""
        self.idle_frame()
        self.side.on_stray(stream)

    def settings(self, values: list[tuple[int, int]]) -> None:
        """See FrameHandler. Of a setting that a frame says often the last value holds: each change
        of the window would look at all streams, and a frame has room for 2,730."""
        self.side.on_settings()
        for identifier, value in dict(values).items():
            if identifier == Setting.INITIAL_WINDOW_SIZE:
                self._resize(value - self.flow.peer_window)
                self.flow.peer_window = value
            elif identifier == Setting.MAX_FRAME_SIZE:
                self.flow.max_frame = min(value, frames.DEFAULT_MAX_FRAME)
            elif identifier == Setting.MAX_CONCURRENT_STREAMS:
                self.side.on_max_streams(value)
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
        """See FrameHandler."""
        if self.flow.is_idle_ping() or ack:
            self.idle_frame()
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
        found = self.known(stream)
        if found is None:
            self.idle_frame()
            return
        if self.flow.is_crumb(1, increment):
            self.idle_frame()
        found.window += increment
        if found.window > frames.MAX_31_BITS:
            self.stream_error(stream, ErrorCode.FLOW_CONTROL_ERROR, "a window too large")
        elif found.unsent:
            self._blocked.pop(stream, None)
            self.pump(found)

    def _widen(self, increment: int) -> None:
        if self.flow.widen(increment):
            self.idle_frame()
        self._pump_all()

    def idle_frame(self) -> None:
        """See FrameHandler."""
        if not self._idle_frames.take(self._clock(), self.opened):
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "too many frames without effect")

    def end_unread(self) -> tuple[Peer, str]:
        """See unread.Reader."""
        return self.side.end_unread()

    def end_stream_unread(self, stream: Stream) -> tuple[Peer, str]:
        """See StreamConnection."""
        return self.side.end_stream_unread(stream)

    def headers(self, stream: int, block: bytes, ended: bool) -> None:
        """See FrameHandler."""
        self.side.on_headers(stream, block, ended)

    def goaway(self, last_stream: int, code: int, reason: bytes) -> None:
        """See FrameHandler."""
        self.idle_frame()
        self.side.on_goaway(last_stream)

    def stream_error(self, stream: int, code: ErrorCode, reason: str) -> None:
        """See FrameHandler."""
        self.side.on_stream_error(stream, code, reason)
