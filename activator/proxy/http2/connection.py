"""One HTTP/2 connection, of a client or to a pod: its protocol object, states and streams.

``SendQueue`` holds the payload that streams have to send. The connection writes all frames of one
turn of the loop at once. Its side (``ConnectionSide``) handles the meaning of frames.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from enum import Enum
from functools import partial
from math import inf
from typing import Final, cast, final

from activator.proxy.http2 import frames
from activator.proxy.http2.frame_reader import FrameReader, Http2Setting, write_settings
from activator.proxy.http2.frames import (
    CONNECTION_WINDOW,
    DEFAULT_MAX_FRAME,
    END_HEADERS,
    END_STREAM,
    HEAD,
    LOW_WINDOW,
    MAX_31_BITS,
    STREAM_WINDOW,
    WINDOW_SHARE,
    ConnectionFault,
    ErrorCode,
    FlowControl,
    FrameType,
    RateBudget,
)
from activator.proxy.http2.hpack import MAX_LIST_BYTES, NO_TABLE, Decoder
from activator.proxy.message.grammar import pile
from activator.proxy.transport import peer_socket
from activator.proxy.transport.peer_socket import SMALL_WINDOW, PeerKind, UnreadBytes


class ConnectionState(Enum):
    """The state of a connection.

    OPEN: streams may begin. GOAWAY_DUE: the next write ends with GOAWAY, unless a stream begins
    before. ENDING: the activator reads no more; written frames still go out. CLOSED: it is lost.
    """

    OPEN = "open"
    GOAWAY_DUE = "goaway-due"
    ENDING = "ending"
    CLOSED = "closed"


#: The members as plain names: an attribute of an enum class costs a function call.
OPEN: Final = ConnectionState.OPEN
GOAWAY_DUE: Final = ConnectionState.GOAWAY_DUE
ENDING: Final = ConnectionState.ENDING
CLOSED: Final = ConnectionState.CLOSED


class ConnectionSide:
    """One kind of connection. This class itself is the side of a lost one: it does nothing."""

    __slots__ = ()

    # -- the connection -------------------------------------------------------------------------

    def lost(self, exc: Exception | None) -> None:
        """Handle the end of the connection."""

    def on_full(self) -> None:
        """Handle a peer that does not read payload: the transport is full."""

    def on_backlog(self) -> None:
        """Handle a peer that does not read even control frames."""

    def on_failed(self, fault: ConnectionFault) -> None:
        """Close: the peer broke a rule, and GOAWAY is written."""

    def end_unread(self) -> tuple[PeerKind, str]:
        """End the connection to free its unread bytes; return its side and its peer's address."""
        return PeerKind.CLIENT, ""

    # -- its streams ----------------------------------------------------------------------------

    def is_idle(self, stream: int) -> bool:
        """Return whether a stream has never begun."""
        return False

    def on_headers(self, stream: int, block: bytes, ended: bool) -> None:
        """Handle a whole header block."""

    def on_data(self, stream: Stream, payload: bytes, trailers: bytes | None) -> None:
        """Handle payload.

        Arguments:
            trailers: None unless the payload is the last; then the header block of trailers.
        """

    def on_reset(self, stream: Stream, owner: object | None, code: int) -> None:
        """Handle RST_STREAM of the peer; ``owner`` had the stream, which has ended."""

    def on_stream_error(self, stream: int, code: ErrorCode, reason: str) -> None:
        """End a stream because of a wrong frame; the connection stays open."""

    def on_stream_removed(self, stream: Stream) -> None:
        """Handle the removal of a stream, however it ended."""

    def end_stream_unread(self, stream: Stream) -> tuple[PeerKind, str]:
        """End a stream to free its unread bytes; return its side and its peer's address."""
        return PeerKind.CLIENT, ""

    # -- connections of clients -----------------------------------------------------------------

    def on_room(self) -> None:
        """Continue: the transport accepts payload again."""

    def on_incomplete_head(self, size: int) -> None:
        """Handle a header block in progress, of ``size`` bytes so far, or an incomplete preface."""

    def on_complete_head(self) -> None:
        """Handle the end of a header block that was in progress."""

    def on_goaway_due(self) -> None:
        """Add GOAWAY to the frames of this turn, if it still applies."""

    def on_half_closed(self, stream: Stream) -> None:
        """Handle a stream that this side has ended and the peer has not."""

    def on_stray(self, stream: int) -> None:
        """Handle DATA or a header block for a stream that has ended."""

    # -- connections to pods --------------------------------------------------------------------

    def made(self) -> None:
        """Send the first frames: the connection is open."""

    def on_broken(self) -> None:
        """Read the bytes that the peer sent before it broke the connection."""

    def on_settings(self) -> None:
        """Record that the peer speaks HTTP/2."""

    def on_max_streams(self, count: int) -> None:
        """Limit the streams that are open at a time."""

    def on_max_header_list(self, size: int) -> None:
        """Limit header sections to ``size`` bytes, counted as in RFC 9113 section 6.5.2."""

    def on_goaway(self, last_stream: int) -> None:
        """Open no more streams; requeue requests on streams after ``last_stream``."""


#: The side of each lost connection.
GONE: Final = ConnectionSide()

#: Acknowledgements of PING and SETTINGS that a peer may leave unread (CVE-2019-9512).
_MAX_UNREAD_ACKS: Final = 1000
#: Frames without effect that a peer may send: at once, per second, and per opened stream (which is
#: far more work). They are PRIORITY, empty DATA, unknown types, and frames for ended streams.
_IDLE_FRAMES: Final = (10_000, 330.0, 8.0)
#: Bytes that may wait for the kernel without payload, which has a limit per stream.
MAX_BACKLOG: Final = 256 << 10
#: Seconds until the connection to a peer that broke a rule is aborted, after its GOAWAY.
CLOSE_SECONDS: Final = 5.0
_DATA: Final = int(FrameType.DATA)
_HEADERS: Final = int(FrameType.HEADERS)
_CONTINUATION: Final = int(FrameType.CONTINUATION)


@final
class Http2Connection:
    """One connection: the loop's protocol object, and a frame_reader.FrameHandler.

    Arguments:
        side: handles the frames; clients and pods have one each.
        clock: returns the time in seconds, monotonic.
        unread: the budget of bytes that peers do not read.
        server: whether the peer is a client, whose first bytes are the preface.

    Attributes:
        side: see the argument.
        state: see ConnectionState.
        queue: frames and payload to send; flow: the windows.
        decoder: reads the peer's header blocks.
        headers: handles a header block; see FrameHandler.
        idle_frames: the budget of frames without effect.
        streams: the streams that have not ended, by number.
        opened: number of streams that have begun.
        last_stream: the peer's last stream; 0 for a pod.
        late_at: time at which a header block, or the connection's preface, has to be complete.
    """

    __slots__ = (
        "_clock",
        "_front",
        "_reader",
        "_unread",
        "_unread_acks",
        "decoder",
        "flow",
        "headers",
        "idle_frames",
        "last_stream",
        "late_at",
        "opened",
        "queue",
        "side",
        "state",
        "streams",
        "transport",
    )

    __deletable__ = ("_reader",)  # read by mypyc

    transport: asyncio.Transport

    def __init__(
        self,
        side: ConnectionSide,
        clock: Callable[[], float],
        unread: UnreadBytes,
        *,
        server: bool,
    ) -> None:
        self.side: ConnectionSide = side
        self.state = OPEN
        self.flow = FlowControl()
        flush_soon = partial(asyncio.get_running_loop().call_soon, self.flush)
        self.queue = SendQueue(
            self.flow, unread, flush_soon, self._sent_all, side.end_stream_unread
        )
        self.decoder = Decoder()
        # A handler of the reader, bound to the side: this saves a call for each block.
        self.headers: Callable[[int, bytes, bool], None] = side.on_headers
        self.streams: dict[int, Stream] = {}
        self.opened = 0
        self.last_stream = 0
        self.late_at = inf
        self._reader = FrameReader(self, preface=server)
        self._unread = unread
        self._clock = clock
        self.idle_frames = RateBudget(*_IDLE_FRAMES)
        self._unread_acks = 0  # acknowledgements that the peer has not read
        self._front = NO_TABLE  # the first bytes of the next header block

    def begin(self, *values: tuple[int, int]) -> None:
        """Write the first frames of this side: SETTINGS and a WINDOW_UPDATE.

        Arguments:
            values: settings of this side only, as identifier and value.
        """
        own = (
            (Http2Setting.INITIAL_WINDOW_SIZE, STREAM_WINDOW),
            (Http2Setting.MAX_HEADER_LIST_SIZE, MAX_LIST_BYTES),
            *values,
        )
        self.queue.write(
            frames.settings(write_settings(own))
            + frames.window_update(0, CONNECTION_WINDOW - frames.DEFAULT_WINDOW)
        )

    # -- for the loop ---------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin a connection to a pod; a client's has begun in HTTP/1."""
        self.transport = cast(asyncio.Transport, transport)
        peer_socket.notice_slow_reader(self.transport)
        self.side.made()

    def connection_lost(self, exc: Exception | None) -> None:
        """Release the connection, and let the side end its streams."""
        if exc is not None:
            self.side.on_broken()
        self.move(CLOSED)
        self._unread.hold(self, 0)
        self.side.lost(exc)
        self.release()

    def release(self) -> None:
        """Break the reference cycles of this connection, so that no garbage is left to collect."""
        self.side = GONE
        self.headers = GONE.on_headers
        self.queue.close()
        del self._reader

    def eof_received(self) -> bool:
        """Close: HTTP/2 has no half-closed connections (RFC 9113 section 9.1)."""
        return False

    def data_received(self, data: bytes) -> None:
        """Read frames, and write at once what they lead to."""
        if self.state is ENDING or self.state is CLOSED:
            return
        queue, reader = self.queue, self._reader
        queue.is_due = True  # this method flushes below
        try:
            reader.feed(data)
        except ConnectionFault as fault:
            self.fail(fault)
        if reader.incomplete:
            self.side.on_incomplete_head(reader.block.size())
        elif self.late_at != inf:
            self.late_at = inf
            self.side.on_complete_head()
        queue.is_due = False
        if queue.frames or queue.accepted:
            self.flush()

    def pause_writing(self) -> None:
        """Send no payload, because the peer does not read."""
        self.queue.full = True
        self.side.on_full()

    def resume_writing(self) -> None:
        """Send the payload that waits."""
        queue = self.queue
        queue.full = False
        self._unread_acks = 0
        self._unread.hold(self, 0)
        queue.report_accepted()
        queue.pump_all()
        self.side.on_room()

    # -- states and errors ----------------------------------------------------------------------

    def move(self, state: ConnectionState) -> None:
        """Enter a state; do nothing if the connection is ending, unless it is CLOSED now."""
        if state is CLOSED or not self.is_ending():
            self.state = state

    def is_ending(self) -> bool:
        """Return whether the connection reads no more frames."""
        return self.state is ENDING or self.state is CLOSED

    def fail(self, fault: ConnectionFault) -> None:
        """Send GOAWAY because the peer broke a rule, and let the side close."""
        self.move(ENDING)
        self.queue.frames.append(frames.goaway(self.last_stream, fault.code, fault.reason.encode()))
        self.flush()
        self.side.on_failed(fault)

    def end_unread(self) -> tuple[PeerKind, str]:
        """End the connection to free its unread bytes; return its side and its peer's address."""
        return self.side.end_unread()

    # -- writing --------------------------------------------------------------------------------

    def flush(self) -> None:
        """Write the frames of this turn."""
        queue, transport = self.queue, self.transport
        queue.is_due = False
        if queue.frames and not transport.is_closing():
            if self.state is GOAWAY_DUE:
                self.side.on_goaway_due()
            waiting, queue.frames = queue.frames, []
            transport.write(waiting[0] if len(waiting) == 1 else b"".join(waiting))
            if queue.full:
                self._is_full()
                return
        if queue.accepted and not queue.full:
            queue.report_accepted()

    def _is_full(self) -> None:
        """Count the bytes that wait for the kernel."""
        if not self.transport.is_closing():
            self._unread.hold(self, peer_socket.count_held(self.transport))
        if self.transport.get_write_buffer_size() > MAX_BACKLOG:
            self.side.on_backlog()

    def write_headers(self, stream: Stream, block: bytes, *, ended: bool) -> None:
        """Send a header block.

        Arguments:
            ended: whether it ends the stream.
        """
        if self._front:
            block = self._front + block
            self._front = b""
        limit = self.flow.max_frame
        self.queue.write(header_frames(stream.id, block, ended=ended, limit=limit))
        if ended:
            self._sent_all(stream)

    # -- its streams ----------------------------------------------------------------------------

    def add_stream(self, number: int, *, ended: bool) -> Stream:
        """Return a new stream that the peer has opened, and whose side it has ``ended`` or not."""
        stream = self.streams[number] = Stream(self.queue, number, None)
        stream.peer_closed = ended
        return stream

    # -- the ends of streams --------------------------------------------------------------------

    def _sent_all(self, stream: Stream) -> None:
        """Close this side of a stream, after all of it is sent."""
        stream.closed = True
        if not stream.peer_closed:
            self.side.on_half_closed(stream)
        elif stream.fault:
            self.end(stream, stream.fault)
        else:
            self.remove_stream(stream)

    def peer_ended(self, stream: Stream) -> None:
        """Close the peer's side of a stream."""
        stream.peer_closed = True
        if not stream.closed:
            return
        if stream.fault:
            self.end(stream, stream.fault)
        else:
            self.remove_stream(stream)

    def reset(self, stream: int, code: int) -> None:
        """Handle RST_STREAM of the peer."""
        found = self.known(stream)
        if found is None:
            self.idle_frame()
            return
        owner = found.owner
        found.peer_closed = True
        self.remove_stream(found)
        self.side.on_reset(found, owner, code)

    def end(self, stream: Stream, code: int) -> None:
        """End a stream by RST_STREAM, unless it has ended.

        Arguments:
            code: an error code of RFC 9113 section 7.
        """
        if stream.id in self.streams:
            self.queue.write(frames.rst_stream(stream.id, code))
            self.remove_stream(stream)

    def remove_stream(self, stream: Stream) -> None:
        """Remove a stream that has ended; do nothing the second time.

        A side may end a stream while the connection handles the peer's end of it.
        """
        if stream.id not in self.streams:
            return
        del self.streams[stream.id]
        if not stream.peer_closed:
            self.expect_late(stream.allowed)
        stream.closed = stream.peer_closed = True
        if stream.unsent is not None or stream.ends is not None:
            self.queue.discard(stream)
        self.side.on_stream_removed(stream)

    def expect_late(self, size: int) -> None:
        """Allow so many bytes of payload that the peer sends before it learns of a stream's end."""
        self.flow.late += max(size, 0)

    # -- frames ---------------------------------------------------------------------------------

    def known(self, stream: int) -> Stream | None:
        """Return a stream; None if it has ended.

        Raises:
            ConnectionFault: the stream has never begun (RFC 9113 section 5.1).
        """
        found = self.streams.get(stream)
        if found is None and self.side.is_idle(stream):
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, f"stream {stream} is idle")
        return found

    def data(self, stream: int, payload: bytes, length: int, ended: bool) -> None:
        """Handle payload, within the windows of the stream and of the connection."""
        flow = self.flow
        flow.allowed -= length
        if flow.allowed <= LOW_WINDOW:
            self.queue.write(frames.window_update(0, flow.grant()))
        found = self.streams.get(stream)
        if found is None:
            self._late_data(stream, length)
            return
        if not payload and not ended:
            self.idle_frame()
        if found.peer_closed:
            self.stream_error(stream, ErrorCode.STREAM_CLOSED, "DATA after the end")
            return
        found.allowed -= length
        if found.allowed < 0:
            self.stream_error(stream, ErrorCode.FLOW_CONTROL_ERROR, "DATA beyond the window")
            return
        if found.missing >= 0:  # the rest of the content-length (RFC 9113 section 8.1.1)
            found.missing -= len(payload)
            if found.missing < 0 or (ended and found.missing):
                self.stream_error(
                    stream, ErrorCode.PROTOCOL_ERROR, "the body does not have its content-length"
                )
                return
        found.peer_closed = ended
        if length > len(payload):
            found.credit(length - len(payload))
        self.side.on_data(found, payload, b"" if ended else None)
        if ended and found.closed:
            self.peer_ended(found)

    def _late_data(self, stream: int, length: int) -> None:
        """Count DATA for a stream that has ended.

        Frames within the stream's old window do not count as idle, however small they are.
        """
        self.known(stream)
        if not self.flow.came_late(length):
            self.stray(stream)

    def stray(self, stream: int) -> None:
        """Handle DATA or a header block for a stream that has ended."""
        self.idle_frame()
        self.side.on_stray(stream)

    def settings(self, values: list[tuple[int, int]]) -> None:
        """Apply settings. If a frame repeats a setting, only the last value counts.

        Each change of the window visits all streams, and a frame can have 2,730 settings.
        """
        self.side.on_settings()
        for identifier, value in dict(values).items():
            if identifier == Http2Setting.INITIAL_WINDOW_SIZE:
                self._resize(value)
            elif identifier == Http2Setting.MAX_FRAME_SIZE:
                self.flow.max_frame = min(value, DEFAULT_MAX_FRAME)
            elif identifier == Http2Setting.MAX_CONCURRENT_STREAMS:
                self.side.on_max_streams(value)
            elif identifier == Http2Setting.MAX_HEADER_LIST_SIZE:
                self.side.on_max_header_list(value)
        self.idle_frame()
        self._acknowledge(frames.SETTINGS_ACK)
        self.queue.pump_all()

    def _resize(self, window: int) -> None:
        by = window - self.flow.peer_window
        self.flow.peer_window = window
        for stream in self.streams.values():
            self.queue.widen(stream, by)

    def ping(self, opaque: bytes, ack: bool) -> None:
        """Acknowledge a PING, and count it."""
        if self.flow.is_idle_ping() or ack:
            self.idle_frame()
        if not ack:
            self._acknowledge(frames.ping(opaque, ack=True))

    def _acknowledge(self, data: bytes) -> None:
        if self.queue.full:
            self._unread_acks += 1
            if self._unread_acks > _MAX_UNREAD_ACKS:
                raise ConnectionFault(
                    ErrorCode.ENHANCE_YOUR_CALM, "acknowledgements that the peer does not read"
                )
        self.queue.write(data)

    def window_update(self, stream: int, increment: int) -> None:
        """Widen the window of a stream, or of the connection (0), by bytes."""
        if not stream:
            if self.flow.widen(increment):
                self.idle_frame()
            self.queue.pump_all()
            return
        found = self.known(stream)
        if found is None:
            self.idle_frame()
            return
        if self.flow.is_too_small(1, increment):
            self.idle_frame()
        found.window += increment
        if found.window > MAX_31_BITS:
            self.stream_error(stream, ErrorCode.FLOW_CONTROL_ERROR, "the window is too large")
        elif found.unsent:
            self.queue.retry(found)

    def idle_frame(self) -> None:
        """Count a frame without effect. Only floods matter."""
        if not self.idle_frames.take(self._clock(), self.opened):
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "too many frames without effect")

    def goaway(self, last_stream: int, code: int, reason: bytes) -> None:
        """Let the side open no more streams."""
        self.idle_frame()
        self.side.on_goaway(last_stream)

    def stream_error(self, stream: int, code: ErrorCode, reason: str) -> None:
        """End a stream because of a wrong frame; the connection stays open."""
        self.side.on_stream_error(stream, code, reason)


@final
class Stream:
    """One stream of one connection.

    ``closed`` and ``peer_closed`` are its state (RFC 9113 section 5.1). If neither is set,
    the stream is open. If only ``closed`` is set, it is half-closed (local). If only
    ``peer_closed`` is set, it is half-closed (remote).

    Attributes:
        queue: sends the frames of its connection.
        owner: the side of an exchange that handles received frames; None once that has ended.
        window: bytes that may be sent on it; may be negative (RFC 9113 section 6.9.2).
        unsent: queued payload, if any; left: its bytes.
        ends: the trailers after the queued payload, as a header block, empty for none. None while
            more payload follows.
        on_accepted: called with a number of bytes of payload once the kernel has them.
        allowed: bytes that the peer may still send; owed: bytes that it may send, and
            that no WINDOW_UPDATE has announced.
        closed: whether this side has ended; peer_closed: whether the peer's side has.
        missing: bytes of announced payload that have not arrived; -1 if unknown.
        fault: error code of the RST_STREAM to send when both sides have ended; 0 for none.
    """

    __slots__ = (
        "allowed",
        "closed",
        "ends",
        "fault",
        "id",
        "left",
        "missing",
        "on_accepted",
        "owed",
        "owner",
        "peer_closed",
        "queue",
        "unsent",
        "window",
    )

    def __init__(self, queue: SendQueue, stream: int, owner: object | None) -> None:
        self.queue = queue
        self.id = stream
        self.owner = owner
        self.window = queue.flow.peer_window
        self.unsent: deque[bytes] | None = None  # few streams need one, of 0.6 KiB
        self.left = 0
        self.ends: bytes | None = None
        self.on_accepted: Callable[[int], None] | None = None
        self.allowed = STREAM_WINDOW
        self.owed = 0
        self.closed = False
        self.peer_closed = False
        self.missing = -1
        self.fault = 0

    def send(self, payload: bytes, trailers: bytes | None) -> None:
        """Send payload; end the stream if ``trailers`` is not None."""
        if self.closed:
            return
        queue = self.queue
        if payload and queue.send_whole(self, payload, trailers == b""):
            if not trailers:
                return
        elif payload:
            if self.unsent is None:
                self.unsent = deque()
            pile(self.unsent, payload)
            self.left += len(payload)
        self.ends = trailers
        queue.pump(self)
        if self.left:
            queue.unread.hold(self, self.left)

    def end_unread(self) -> tuple[PeerKind, str]:
        """End the stream to free its unread payload; return its side and its peer's address."""
        return self.queue.on_unread(self)

    def credit(self, length: int) -> None:
        """Let the peer send ``length`` more bytes, unless it has ended the stream."""
        if self.peer_closed:
            return
        self.owed = room = self.owed + length
        window = STREAM_WINDOW
        if self.queue.unread.scarce:
            # The window shrinks as bytes pass. Later credits restore it.
            room, window = room - (STREAM_WINDOW - SMALL_WINDOW), SMALL_WINDOW
        if room * WINDOW_SHARE >= window:
            self.queue.write(frames.window_update(self.id, room))
            self.allowed += room
            self.owed -= room


@final
class SendQueue:
    """The frames and the payload that one connection has to send.

    Arguments:
        flow: the windows of the connection.
        unread: the budget of bytes that peers do not read.
        wake: called when a frame is queued and no write is due.
        on_ended: called with a stream when all of it is sent, before its last frame is written.
        on_unread: ends a stream whose payload has waited for longest; see peer_socket.UnreadHolder.

    Attributes:
        frames: the frames of the next write.
        accepted: payload in ``frames``, or in a full transport. Each item has its number of bytes,
            and a callback for the moment at which the transport accepts more.
        blocked: streams with payload and an open window of their own, in the order of their turns.
        is_due: whether a flush follows: it is scheduled, or ``data_received`` ends with one.
        full: whether the transport accepts no payload.
    """

    __slots__ = (
        "_on_ended",
        "_wake",
        "accepted",
        "blocked",
        "flow",
        "frames",
        "full",
        "is_due",
        "on_unread",
        "unread",
    )

    def __init__(
        self,
        flow: FlowControl,
        unread: UnreadBytes,
        wake: Callable[[], object],
        on_ended: Callable[[Stream], None],
        on_unread: Callable[[Stream], tuple[PeerKind, str]],
    ) -> None:
        self.flow = flow
        self.unread = unread
        self._wake = wake
        self._on_ended = on_ended
        self.on_unread = on_unread
        self.frames: list[bytes] = []
        self.accepted: list[tuple[Callable[[int], None], int]] = []
        self.is_due = False
        self.full = False
        self.blocked: dict[int, Stream] = {}

    def write(self, data: bytes) -> None:
        """Send frames with all others of this turn of the loop."""
        self.frames.append(data)
        if not self.is_due:
            self.is_due = True
            self._wake()

    def close(self) -> None:
        """Send no more: the connection is lost.

        A flush may still be scheduled. uvloop may have closed the handle of a transport that does
        not report it, and refuses each write.
        """
        self.frames = []
        self._wake = GONE.made
        self._on_ended = GONE.on_stream_removed
        self.on_unread = GONE.end_stream_unread

    def report_accepted(self) -> None:
        """Report to senders how many bytes the kernel accepted, so that they send more."""
        accepted, self.accepted = self.accepted, []
        for on_accepted, size in accepted:
            on_accepted(size)

    def send_whole(self, stream: Stream, payload: bytes, ended: bool) -> bool:
        """Send payload in one frame; return False if it has to wait.

        Few payloads have to wait, and a deque for each would cost twice as much.
        """
        size = len(payload)
        flow = self.flow
        if (
            stream.unsent
            or self.full
            or size > stream.window
            or size > flow.window
            or size > flow.max_frame
        ):
            return False
        stream.window -= size
        flow.window -= size
        self.write(data_head(stream.id, size, ended=ended) + payload)
        if ended:  # the sender has no more payload, so it needs no report
            self._on_ended(stream)
        elif stream.on_accepted is not None:
            self.accepted.append((stream.on_accepted, size))
        return True

    def pump(self, stream: Stream) -> None:
        """Send as much of a stream as windows and transport allow; queue the rest."""
        if stream.id in self.blocked:
            return
        while stream.unsent:
            if not self._send_piece(stream, stream.unsent):
                if stream.window > 0:  # else WINDOW_UPDATE of the stream calls ``retry``
                    self.blocked[stream.id] = stream
                return
        self._send_end(stream)

    def pump_all(self) -> None:
        """Send queued payload, one frame of each stream in turn, so that no stream starves."""
        while self.blocked and not self.full and self.flow.window > 0:
            stream = next(iter(self.blocked.values()))
            del self.blocked[stream.id]
            unsent = stream.unsent
            if stream.window <= 0 or (unsent and not self._send_piece(stream, unsent)):
                continue
            if unsent:
                self.blocked[stream.id] = stream
            else:
                self._send_end(stream)

    def widen(self, stream: Stream, by: int) -> None:
        """Change a stream's window by ``by`` bytes, which may be negative.

        Raises:
            ConnectionFault: the window is too large.
        """
        stream.window += by
        if stream.window > MAX_31_BITS:
            raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "the window is too large")
        if stream.unsent and stream.window > 0:
            self.blocked[stream.id] = stream

    def retry(self, stream: Stream) -> None:
        """Send queued payload of a stream whose window is wider."""
        self.blocked.pop(stream.id, None)
        self.pump(stream)

    def discard(self, stream: Stream) -> None:
        """Drop the queued payload of a stream."""
        stream.unsent = stream.ends = None
        if stream.left:
            stream.left = 0
            self.unread.hold(stream, 0)
            self.blocked.pop(stream.id, None)

    def _send_piece(self, stream: Stream, unsent: deque[bytes]) -> bool:
        """Send one frame of a stream; return whether windows and transport allowed it."""
        flow = self.flow
        piece = unsent[0]
        room = min(stream.window, flow.window, flow.max_frame)
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
        flow.window -= size
        ended = stream.ends == b"" and not unsent
        self.write(data_head(stream.id, size, ended=ended) + piece)
        if stream.on_accepted is not None:
            self.accepted.append((stream.on_accepted, size))
        if ended:
            stream.ends = None
            self._on_ended(stream)
        return True

    def _send_end(self, stream: Stream) -> None:
        trailers, stream.ends = stream.ends, None
        if trailers is None or stream.closed:
            return
        if trailers:
            limit = self.flow.max_frame
            self.write(header_frames(stream.id, trailers, ended=True, limit=limit))
        else:
            self.write(data_head(stream.id, 0, ended=True))
        self._on_ended(stream)


def data_head(stream: int, length: int, *, ended: bool) -> bytes:
    """Return the head of a DATA frame. The caller adds the payload without another copy.

    Arguments:
        length: bytes of payload; at most the peer's SETTINGS_MAX_FRAME_SIZE.
        ended: whether it is the stream's last frame.
    """
    return HEAD.pack(length << 8 | _DATA, END_STREAM if ended else 0, stream)


def header_frames(
    stream: int, block: bytes, *, ended: bool, limit: int = DEFAULT_MAX_FRAME
) -> bytes:
    """Return a header block as HEADERS and CONTINUATION frames.

    Arguments:
        ended: whether it ends the stream.
        limit: bytes of a frame's payload; the peer's SETTINGS_MAX_FRAME_SIZE.
    """
    flags = END_STREAM if ended else 0
    if len(block) <= limit:
        return HEAD.pack(len(block) << 8 | _HEADERS, flags | END_HEADERS, stream) + block
    parts = [HEAD.pack(limit << 8 | _HEADERS, flags, stream), block[:limit]]
    for at in range(limit, len(block), limit):
        part = block[at : at + limit]
        last = END_HEADERS if at + limit >= len(block) else 0
        parts += (HEAD.pack(len(part) << 8 | _CONTINUATION, last, stream), part)
    return b"".join(parts)
