"""Reads the time-out of a gRPC request, and writes errors as gRPC clients expect them. Pure.

Sources: grpc/doc/PROTOCOL-HTTP2.md and http-grpc-status-mapping.md.
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
_PERMISSION_DENIED: Final = 7
_UNIMPLEMENTED: Final = 12
_INTERNAL: Final = 13
_UNAVAILABLE: Final = 14
_UNAUTHENTICATED: Final = 16
#: gRPC's mapping of HTTP statuses, except for 504: there a deadline of the activator or of the
#: client has passed.
_STATUSES: Final[Mapping[int, int]] = {
    HTTPStatus.BAD_REQUEST: _INTERNAL,
    HTTPStatus.UNAUTHORIZED: _UNAUTHENTICATED,
    HTTPStatus.FORBIDDEN: _PERMISSION_DENIED,
    HTTPStatus.NOT_FOUND: _UNIMPLEMENTED,
    HTTPStatus.BAD_GATEWAY: _UNAVAILABLE,
    HTTPStatus.SERVICE_UNAVAILABLE: _UNAVAILABLE,
    HTTPStatus.GATEWAY_TIMEOUT: _DEADLINE_EXCEEDED,
}
#: Bytes that grpc-message has without percent-encoding: printable ASCII except the percent sign.
_PLAIN: Final = frozenset(range(0x20, 0x7F)) - {ord("%")}


def is_grpc(fields: Mapping[bytes, bytes]) -> bool:
    """Return whether a request is a gRPC request, by its Content-Type.

    That is ``application/grpc``, perhaps with a suffix such as ``+proto``. gRPC-Web is another
    protocol.

    Arguments:
        fields: header fields of the request, by name in lower case.
    """
    kind = fields.get(b"content-type", b"")
    return kind.startswith(CONTENT_TYPE) and kind[len(CONTENT_TYPE) :][:1] in (b"", b"+", b";")


def timeout(fields: Mapping[bytes, bytes]) -> float:
    """Return the seconds that the client waits (grpc-timeout); infinite without a valid field.

    Arguments:
        fields: header fields of the request, by name in lower case.
    """
    found = _TIMEOUT.fullmatch(fields.get(b"grpc-timeout", b""))
    return int(found[1]) * _UNITS[found[2]] if found else inf


def broken_off(outcome: str) -> tuple[int, str]:
    """Return grpc-status and grpc-message for a response that began and cannot be completed.

    Arguments:
        outcome: one of ``counters.OUTCOMES``.
    """
    status = _DEADLINE_EXCEEDED if outcome == "timed-out" else _UNAVAILABLE
    return status, f"{outcome}; the response had begun"


def status_of(http: int) -> int:
    """Return the grpc-status for an HTTP status."""
    return _STATUSES.get(http, _UNKNOWN)


def message(text: str) -> bytes:
    """Return a text as the value of grpc-message: percent-encoded UTF-8."""
    return b"".join(
        bytes((byte,)) if byte in _PLAIN else b"%%%02X" % byte for byte in text.encode()
    )
