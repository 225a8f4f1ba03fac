"""Writes frames of HTTP/2, and counts what a peer may send: windows, and frames without effect.

Also has the codes of errors, and the constants of both directions.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Final, final

from activator.proxy.transport.peer_socket import WINDOW

# -- errors (RFC 9113 sections 5.4 and 7) ----------------------------------------------------------
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


# -- frames (RFC 9113 sections 4.1 and 6) ----------------------------------------------------------

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
#: The numbers in the payload of frames.
NUMBER: Final = struct.Struct(">L")
TWO_NUMBERS: Final = struct.Struct(">LL")


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

#: The acknowledgement of a peer's settings (section 6.5.3).
SETTINGS_ACK: Final = HEAD.pack(FrameType.SETTINGS, ACK, 0)


def rst_stream(stream: int, code: int) -> bytes:
    """Return a RST_STREAM frame, which ends a stream with an error code."""
    return _frame(FrameType.RST_STREAM, 0, stream, NUMBER.pack(code))


def settings(payload: bytes) -> bytes:
    """Return a SETTINGS frame; see frame_reader.write_settings."""
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
    return _frame(FrameType.GOAWAY, 0, 0, TWO_NUMBERS.pack(last_stream, code) + reason)


def window_update(stream: int, increment: int) -> bytes:
    """Return a frame that widens a window by ``increment`` bytes; stream 0 is the connection."""
    return _frame(FrameType.WINDOW_UPDATE, 0, stream, NUMBER.pack(increment))


def _frame(kind: FrameType, flags: int, stream: int, payload: bytes) -> bytes:
    return HEAD.pack(len(payload) << 8 | kind, flags, stream) + payload


# -- windows (RFC 9113 section 5.2), and frames without effect ------------------------------------

#: Bytes that a peer may send on a stream before the other side has accepted them.
STREAM_WINDOW: Final = WINDOW
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


class RateBudget:
    """A token bucket that fills with time, and with other work of the peer.

    Arguments:
        most: tokens in a full bucket; rate: new tokens per second.
        share: new tokens per unit of other work.
    """

    __slots__ = ("_done", "_left", "_most", "_rate", "_share", "_since")

    def __init__(self, most: int, rate: float, share: float = 0.0) -> None:
        self._most = self._left = float(most)
        self._rate = rate
        self._share = share
        self._since: float | None = None
        self._done = 0

    def take(self, now: float, done: int = 0) -> bool:
        """Take one token; return whether there was one.

        Arguments:
            now: seconds, monotonic.
            done: units of other work that the peer has done so far.
        """
        if self._since is not None:
            back = (now - self._since) * self._rate + (done - self._done) * self._share
            self._left = min(self._most, self._left + back)
        self._since = now
        self._done = done
        if self._left < 1:
            return False
        self._left -= 1
        return True
