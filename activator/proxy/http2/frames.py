"""Writes frames of HTTP/2, and queues the payload of streams within their windows."""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable
from enum import IntEnum
from typing import Final, final

from activator.proxy.message.grammar import pile
from activator.proxy.transport.peer_socket import SMALL_WINDOW, WINDOW, PeerKind, UnreadBytes

# The errors of an HTTP/2 connection and their codes (RFC 9113 sections 5.4 and 7).
#
# A malformed message that does not affect its connection is a FramingError, as in HTTP/1.


class ErrorCode(IntEnum):
    """The codes of RFC 9113 section 7. A peer may send others, as plain integers."""

    NO_ERROR = 0x0
    PROTOCOL_ERROR = 0x1
    INTERNAL_ERROR = 0x2
    FLOW_CONTROL_ERROR = 0x3
    SETTINGS_TIMEOUT = 0x4
    STREAM_CLOSED = 0x5
    FRAME_SIZE_ERROR = 0x6
    REFUSED_STREAM = 0x7
    CANCEL = 0x8
    COMPRESSION_ERROR = 0x9
    CONNECT_ERROR = 0xA
    ENHANCE_YOUR_CALM = 0xB
    INADEQUATE_SECURITY = 0xC
    HTTP_1_1_REQUIRED = 0xD


def name_of_code(code: int) -> str:
    """Return the name of an error code, or its number if it has no name."""
    return ErrorCode(code).name if code <= max(ErrorCode) else str(code)


class ConnectionFault(Exception):
    """A connection error (RFC 9113 section 5.4.1): send GOAWAY, then close.

    Attributes:
        code: the error code of the GOAWAY; reason: its text, also for the log.
    """

    def __init__(self, code: ErrorCode, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


# Builds HTTP/2 frames (RFC 9113 sections 4.1 and 6); defines the constants of both directions.

#: The first bytes of a client's connection (RFC 9113 section 3.4).
PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
#: Bytes of a frame's head.
HEAD_BYTES: Final = 9
#: SETTINGS_MAX_FRAME_SIZE by default: every peer accepts it, and it is the activator's limit.
DEFAULT_MAX_FRAME: Final = 1 << 14
#: SETTINGS_INITIAL_WINDOW_SIZE by default, and a connection's first window.
DEFAULT_WINDOW: Final = (1 << 16) - 1
#: The largest window, window increment, and stream id.
MAX_31_BITS: Final = (1 << 31) - 1

#: A frame's head: length and type in one number, flags, stream id.
HEAD: Final = struct.Struct(">IBL")
_NUMBER: Final = struct.Struct(">L")
_TWO_NUMBERS: Final = struct.Struct(">LL")


class FrameType(IntEnum):
    """The types of RFC 9113 section 6."""

    DATA = 0
    HEADERS = 1
    PRIORITY = 2
    RST_STREAM = 3
    SETTINGS = 4
    PUSH_PROMISE = 5
    PING = 6
    GOAWAY = 7
    WINDOW_UPDATE = 8
    CONTINUATION = 9


# Flags. Plain integers, because code compares or adds them for each frame.
ACK: Final = 0x1
END_STREAM: Final = 0x1
END_HEADERS: Final = 0x4
PADDED: Final = 0x8
PRIORITY: Final = 0x20

_DATA: Final = int(FrameType.DATA)
_HEADERS: Final = int(FrameType.HEADERS)
_CONTINUATION: Final = int(FrameType.CONTINUATION)


#: The acknowledgement of a peer's settings (section 6.5.3).
SETTINGS_ACK: Final = HEAD.pack(FrameType.SETTINGS, ACK, 0)


def data_head(stream: int, length: int, *, ended: bool) -> bytes:
    """Return the head of a DATA frame. The caller adds the payload without another copy.

    Arguments:
        length: bytes of payload; at most the peer's SETTINGS_MAX_FRAME_SIZE.
        ended: whether it is the stream's last frame.
    """
    return HEAD.pack(length << 8 | _DATA, END_STREAM if ended else 0, stream)


def headers(stream: int, block: bytes, *, ended: bool, limit: int = DEFAULT_MAX_FRAME) -> bytes:
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


def rst_stream(stream: int, code: int) -> bytes:
    """Return a RST_STREAM frame, which ends a stream with an error code."""
    return _frame(FrameType.RST_STREAM, 0, stream, _NUMBER.pack(code))


def settings(payload: bytes) -> bytes:
    """Return a SETTINGS frame; see settings.write_settings."""
    return _frame(FrameType.SETTINGS, 0, 0, payload)


def ping(opaque: bytes, *, ack: bool) -> bytes:
    """Return a PING with 8 opaque bytes, or the acknowledgement of one."""
    return _frame(FrameType.PING, ACK if ack else 0, 0, opaque)


def goaway(last_stream: int, code: int, reason: bytes = b"") -> bytes:
    """Return a GOAWAY.

    Arguments:
        last_stream: the last stream that may have had an effect; MAX_31_BITS to accept all.
        code: the error code; reason: a text for people.
    """
    return _frame(FrameType.GOAWAY, 0, 0, _TWO_NUMBERS.pack(last_stream, code) + reason)


def window_update(stream: int, increment: int) -> bytes:
    """Return a frame that widens a window by ``increment`` bytes; stream 0 is the connection."""
    return _frame(FrameType.WINDOW_UPDATE, 0, stream, _NUMBER.pack(increment))


def _frame(kind: FrameType, flags: int, stream: int, payload: bytes) -> bytes:
    return HEAD.pack(len(payload) << 8 | kind, flags, stream) + payload


# Counts the windows of one connection (RFC 9113 section 5.2), and finds tiny increments.
#
# Pure: the connection sends the frames.

#: Bytes that a peer may send on all streams before it gets more window. Each stream has a limit of
#: its own, so one without a reader does not stop the others. This one limits a turn of the loop.
CONNECTION_WINDOW: Final = 1 << 20
#: The peer gets more window when the used part reaches the window divided by this.
WINDOW_SHARE: Final = 2
LOW_WINDOW: Final = CONNECTION_WINDOW - CONNECTION_WINDOW // WINDOW_SHARE
#: Bytes of an increment below which it costs more work than it allows: payload would go out in tiny
#: frames (CVE-2019-9511). A peer may send such increments for payload that it received in such
#: pieces. Larger increments are usual, and are less work than a request.
_SMALL_INCREMENT: Final = 64


@final
class FlowControl:
    """The windows of both directions of a connection.

    Attributes:
        window: bytes that the activator may send on all streams together.
        allowed: bytes that the peer may still send on all streams together. The connection counts
            them itself; ``grant`` is due at LOW_WINDOW.
        peer_window: bytes that the activator may send on a new stream.
        max_frame: most bytes of payload in a frame that the peer accepts.
        late: bytes of payload that may still arrive for streams that are over.
    """

    __slots__ = (
        "_granted",
        "_sent_at_ping",
        "_small_increments",
        "allowed",
        "late",
        "max_frame",
        "peer_window",
        "window",
    )

    def __init__(self) -> None:
        self.window = self._granted = DEFAULT_WINDOW
        self.peer_window = DEFAULT_WINDOW
        self.max_frame = DEFAULT_MAX_FRAME
        self.late = 0
        self.allowed = CONNECTION_WINDOW
        self._sent_at_ping = -1
        self._small_increments = [0, 0]  # bytes of small increments: of the connection, of streams

    def grant(self) -> int:
        """Restore the peer's whole window; return the increment, in bytes.

        Raises:
            ConnectionFault: the peer has sent more than its window.
        """
        if self.allowed < 0:
            raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "DATA beyond the window")
        owed = CONNECTION_WINDOW - self.allowed
        self.allowed = CONNECTION_WINDOW
        return owed

    def came_late(self, length: int) -> bool:
        """Count DATA for a stream that is over; return whether the stream's window allowed it."""
        if 0 < length <= self.late:
            self.late -= length
            return True
        return False

    def widen(self, increment: int) -> bool:
        """Widen the connection's window; return whether the increment counts as a flood.

        Arguments:
            increment: bytes.

        Raises:
            ConnectionFault: the window is too large.
        """
        is_too_small = self.is_too_small(0, increment)
        self._granted += increment
        self.window += increment
        if self.window > MAX_31_BITS:
            raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "the window is too large")
        return is_too_small

    def is_too_small(self, kind: int, size: int) -> bool:
        """Count an increment; return whether small increments exceed the payload that was sent.

        Arguments:
            kind: 0 for the connection's window, 1 for a stream's.
            size: bytes of the increment.
        """
        if size >= _SMALL_INCREMENT:
            return False
        self._small_increments[kind] += size
        return self._small_increments[kind] > self._granted - self.window

    def is_idle_ping(self) -> bool:
        """Count a PING; return whether no payload was sent since the PING before.

        gRPC measures bandwidth by PINGs, thousands of times a second.
        """
        sent = self._granted - self.window
        idle = sent == self._sent_at_ping
        self._sent_at_ping = sent
        return idle


# The streams of one connection: their windows, their states, and their queued payload.
#
# Connections of clients and to pods use the same streams. Pure: ``SendQueue.frames`` collects
# frames until the connection writes them.

#: Bytes that a peer may send on a stream before the other side has accepted them.
STREAM_WINDOW: Final = WINDOW


def _nothing() -> None:
    """Do nothing: the connection is lost."""


def _ignore(stream: Stream) -> None:
    """Do nothing: the connection is lost."""


def _nobody(stream: Stream) -> tuple[PeerKind, str]:
    """End nothing: the connection is lost."""
    return PeerKind.CLIENT, ""


@final
class SendQueue:
    """The frames and the payload that one connection has to send.

    Arguments:
        flow: the windows of the connection.
        unread: the budget of bytes that peers do not read.
        wake: called when a frame is queued and no write is due.
        on_ended: called with a stream when all of it is sent, before its last frame is written.
        on_unread: ends a stream whose payload has waited for longest; see unread.Reader.

    Attributes:
        frames: the frames of the next write.
        passed: payload in ``frames``, or in a full transport. Each item has its number of bytes,
            and a callback for the moment at which the transport accepts more.
        blocked: streams with payload and an open window of their own, in the order of their turns.
        is_due: whether a flush follows: it is scheduled, or ``data_received`` ends with one.
        full: whether the transport accepts no payload.
    """

    __slots__ = (
        "_on_ended",
        "_wake",
        "blocked",
        "flow",
        "frames",
        "full",
        "is_due",
        "on_unread",
        "passed",
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
        self.passed: list[tuple[Callable[[int], None], int]] = []
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
        self._wake = _nothing
        self._on_ended = _ignore
        self.on_unread = _nobody

    def report_passed(self) -> None:
        """Report to senders how many bytes the kernel accepted, so that they send more."""
        passed, self.passed = self.passed, []
        for on_sent, size in passed:
            on_sent(size)

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
        elif stream.on_sent is not None:
            self.passed.append((stream.on_sent, size))
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
        if stream.on_sent is not None:
            self.passed.append((stream.on_sent, size))
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
            self.write(headers(stream.id, trailers, ended=True, limit=limit))
        else:
            self.write(data_head(stream.id, 0, ended=True))
        self._on_ended(stream)


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
        on_sent: called with a number of bytes of payload once the kernel has them.
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
        "on_sent",
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
        self.on_sent: Callable[[int], None] | None = None
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
            self.queue.write(window_update(self.id, room))
            self.allowed += room
            self.owed -= room
