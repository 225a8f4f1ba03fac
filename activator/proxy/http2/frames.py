"""HTTP/2 frames and the codes of errors: the constants of both directions (RFC 9113)."""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Final

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
