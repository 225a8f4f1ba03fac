"""The messages of gRPC's health service, encoded by hand: a call has one field in each direction.

Pure. Sources: grpc/health/v1/health.proto of grpc-proto; PROTOCOL-HTTP2 of gRPC (length-prefixed
messages); the wire format of protocol buffers.
"""

from __future__ import annotations

from typing import Final

#: The request target of the call.
PATH: Final = b"/grpc.health.v1.Health/Check"

_SERVING: Final = 1
_STATUSES: Final = {0: "UNKNOWN", 1: "SERVING", 2: "NOT_SERVING", 3: "SERVICE_UNKNOWN"}
#: Bytes in front of a message: whether it is compressed, and its length.
_PREFIX: Final = 5
#: The key of field 1, as a string in requests, and as a number in responses.
_STRING_KEY: Final = b"\x0a"
_NUMBER_KEY: Final = 0x08
#: Most bytes of a number.
_MOST_BYTES: Final = 10


def check(service: bytes) -> bytes:
    """Return the message of a call.

    Arguments:
        service: the name of a service; empty for the whole server.
    """
    message = _STRING_KEY + _number(len(service)) + service if service else b""
    return b"\0" + len(message).to_bytes(4, "big") + message


def problem_of(payload: bytes) -> str:
    """Return why a response does not mean SERVING; empty if it does.

    Arguments:
        payload: the whole body of the response.
    """
    message = payload[_PREFIX:]
    if len(payload) < _PREFIX or payload[0] or len(message) != int.from_bytes(payload[1:5], "big"):
        return "no health response of gRPC"
    try:
        status = _status(message)
    except (IndexError, ValueError):
        return "no health response of gRPC"
    return "" if status == _SERVING else f"status {_STATUSES.get(status, status)}"


def _number(value: int) -> bytes:
    """Return a number as protocol buffers encode it: seven bits in each byte, the last first."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _status(message: bytes) -> int:
    """Return field 1 of a message; 0 without it. The last one counts.

    Raises:
        IndexError: the message is cut.
        ValueError: it has a number that is too long, or an unknown kind of field.
    """
    status = at = 0
    while at < len(message):
        key, at = _read(message, at)
        kind = key & 7
        if kind == 0:
            value, at = _read(message, at)
            if key == _NUMBER_KEY:
                status = value
        elif kind == 2:
            size, at = _read(message, at)
            at += size
        elif kind in (1, 5):
            at += 8 if kind == 1 else 4
        else:
            raise ValueError("unknown kind of field")
        if at > len(message):
            raise IndexError("cut")
    return status


def _read(message: bytes, at: int) -> tuple[int, int]:
    """Return a number, and the position after it."""
    value = 0
    for count in range(_MOST_BYTES):
        byte = message[at + count]
        value |= (byte & 0x7F) << 7 * count
        if byte < 0x80:
            return value, at + count + 1
    raise ValueError("a number is too long")
