"""The errors of an HTTP/2 connection and their codes (RFC 9113 sections 5.4 and 7).

A malformed message that does not affect its connection is a FramingError, as in HTTP/1.
"""

from __future__ import annotations

from enum import IntEnum


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
