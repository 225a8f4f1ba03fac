"""What a gRPC client understands: how it says its deadline, and how it is told of a failure.

Pure. Source: grpc/doc/PROTOCOL-HTTP2.md and http-grpc-status-mapping.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus
from math import inf
from typing import Final

CONTENT_TYPE: Final = b"application/grpc"

_TIMEOUT: Final = re.compile(rb"([0-9]{1,8})([HMSmun])")
_UNITS: Final[Mapping[bytes, float]] = {
    b"H": 3600.0,
    b"M": 60.0,
    b"S": 1.0,
    b"m": 1e-3,
    b"u": 1e-6,
    b"n": 1e-9,
}

_UNKNOWN: Final = 2
_DEADLINE_EXCEEDED: Final = 4
_UNIMPLEMENTED: Final = 12
_INTERNAL: Final = 13
_UNAVAILABLE: Final = 14
#: As gRPC maps statuses of HTTP, but for 504: there the deadline passed, ours or the client's.
_STATUSES: Final[Mapping[int, int]] = {
    HTTPStatus.BAD_REQUEST: _INTERNAL,
    HTTPStatus.NOT_FOUND: _UNIMPLEMENTED,
    HTTPStatus.BAD_GATEWAY: _UNAVAILABLE,
    HTTPStatus.SERVICE_UNAVAILABLE: _UNAVAILABLE,
    HTTPStatus.GATEWAY_TIMEOUT: _DEADLINE_EXCEEDED,
}
#: What grpc-message does not say in percent-encoding: printable ASCII but the percent sign.
_PLAIN: Final = frozenset(range(0x20, 0x7F)) - {ord("%")}


def is_grpc(fields: Mapping[bytes, bytes]) -> bool:
    """Whether a request is gRPC's: ``application/grpc``, with or without ``+proto`` and the like;
    gRPC-Web is another protocol."""
    kind = fields.get(b"content-type", b"")
    return kind.startswith(CONTENT_TYPE) and kind[len(CONTENT_TYPE) :][:1] in (b"", b"+", b";")


def timeout(fields: Mapping[bytes, bytes]) -> float:
    """Return how long the client waits, in seconds; infinite where it does not say."""
    found = _TIMEOUT.fullmatch(fields.get(b"grpc-timeout", b""))
    return int(found[1]) * _UNITS[found[2]] if found else inf


def broken_off(outcome: str) -> tuple[int, str]:
    """Return grpc-status and message of a response that had begun and is not completed.

    Arguments:
        outcome: why not, in the words of ``counters``.
    """
    status = _DEADLINE_EXCEEDED if outcome == "timed-out" else _UNAVAILABLE
    return status, f"{outcome}; the answer had begun"


def status_of(http: int) -> int:
    """Return the grpc-status that fits a status of HTTP."""
    return _STATUSES.get(http, _UNKNOWN)


def message(text: str) -> bytes:
    """Return the value of grpc-message."""
    return b"".join(
        bytes((byte,)) if byte in _PLAIN else b"%%%02X" % byte for byte in text.encode()
    )
