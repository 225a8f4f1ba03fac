"""Removes padding and priority from the payload of a frame (RFC 9113 section 6)."""

from __future__ import annotations

import struct
from typing import Final

from activator.proxy.http2.errors import ConnectionFault, ErrorCode
from activator.proxy.http2.frames import MAX_31_BITS, PADDED, PRIORITY

#: Bytes of a priority.
PRIORITY_BYTES: Final = 5
#: The error text of a priority that names its own stream.
ITS_OWN_PARENT: Final = "a stream depends on itself"
_NUMBER: Final = struct.Struct(">L")


def parent(priority: bytes) -> int:
    """Return the stream that a priority depends on (RFC 7540 section 6.3)."""
    return int(_NUMBER.unpack_from(priority)[0]) & MAX_31_BITS


def fragment(flags: int, stream: int, payload: bytes) -> bytes:
    """Return the payload of HEADERS without padding and priority (section 6.2).

    A stream that depends on itself ends the connection. RFC 7540 section 5.3.1 would end only the
    stream. No client does that by mistake, and its request must not reach a pod.

    Raises:
        ConnectionFault: the payload is malformed.
    """
    priority = PRIORITY_BYTES if flags & PRIORITY else 0
    if len(payload) < priority + (1 if flags & PADDED else 0):
        raise ConnectionFault(
            ErrorCode.FRAME_SIZE_ERROR, "HEADERS without padding length or priority"
        )
    if flags & PADDED:
        payload = without_padding(payload)
    if len(payload) < priority:
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "more padding than payload")
    if priority and parent(payload) == stream:
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, ITS_OWN_PARENT)
    return payload[priority:]


def without_padding(payload: bytes) -> bytes:
    """Return a payload without its padding (section 6.1).

    Raises:
        ConnectionFault: the padding is longer than the payload.
    """
    if not payload:
        raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "padding without a length")
    padding = payload[0]
    if padding >= len(payload):
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "more padding than payload")
    return payload[1 : len(payload) - padding]  # ordered: checked above
