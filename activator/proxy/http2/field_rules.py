"""Lists which fields of a section are forwarded, which are refused, and which values are valid.

It follows ``proxy/message/fields.py`` and RFC 9113 section 8.
"""

from __future__ import annotations

from typing import Final

from activator.proxy.http2.hpack import name_prefix
from activator.proxy.http2.lines import Lines, Treatment
from activator.proxy.http2.section import SENSITIVE
from activator.proxy.message.fields import (
    REQUEST_FIELDS,
    RESPONSE_FIELDS,
    is_barred_from_trailers,
    is_lookalike,
    tokens,
)
from activator.proxy.message.grammar import FramingError
from activator.proxy.message.request import HOST, METHOD

#: Maps each byte that no target may have to another one; see ``lines``.
_IN_TARGET: Final = bytes(
    byte if 0x21 <= byte < 0x7F and byte != ord("#") else ord("?") for byte in range(256)
)
#: Most digits of a Content-Length, as in HTTP/1.
_MAX_DIGITS: Final = 19

#: Connection-specific fields, which are malformed in any message (RFC 9113 section 8.2.2).
_OF_CONNECTIONS: Final = frozenset(
    (b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade")
)
#: Fields with another value in every message: it is useless to remember their lines.
_NEW_EACH_TIME: Final = frozenset(
    (b"traceparent", b"x-request-id", b"x-b3-spanid", b"x-b3-traceid", b"x-cloud-trace-context")
)


def _method(value: bytes) -> bytes:
    if METHOD.fullmatch(value) is None:
        raise FramingError("malformed :method")
    if value == b"CONNECT":
        raise FramingError("CONNECT is not supported", 405)
    return value


def _scheme(value: bytes) -> bytes:
    if value not in (b"http", b"https"):
        raise FramingError("unsupported :scheme")
    return value


def _authority(value: bytes) -> bytes:
    if HOST.fullmatch(value) is None or b"," in value:
        raise FramingError("malformed host")
    return value


def _path(value: bytes) -> bytes:
    if (value[:1] != b"/" and value != b"*") or value.translate(_IN_TARGET) != value:
        raise FramingError("malformed :path")
    return value


def _status(value: bytes) -> bytes:
    # HTTP/2 has no 101 (section 8.6).
    if len(value) != 3 or not value.isdigit() or value < b"100" or value == b"101":
        raise FramingError("malformed :status")
    return value


def _content_length(value: bytes) -> bytes:
    # int() would accept '+5', '1_0' and Arabic digits.
    if not value.isdigit() or len(value) > _MAX_DIGITS:
        raise FramingError("malformed content-length")
    return value


def _te(value: bytes) -> bytes:
    if value.lower() != b"trailers":
        raise FramingError("te has other values than trailers")
    return b"trailers"


def _trailer(value: bytes) -> bytes:
    return b", ".join(name for name in tokens(value) if not is_barred_from_trailers(name))


def _refused(value: bytes) -> bytes:
    raise FramingError("a field of a connection, or of another kind of section")


_REQUEST_CHECKS: Final[dict[bytes, Treatment]] = {
    b":method": Treatment(name_prefix(b":method"), _method),
    b":scheme": Treatment(b"", _scheme),
    b":authority": Treatment(b"", _authority),
    b":path": Treatment(name_prefix(b":path"), _path, kept=False),
    b"host": Treatment(b"", _authority),
    b"te": Treatment(name_prefix(b"te"), _te),
    b"trailer": Treatment(name_prefix(b"trailer"), _trailer),
    b"content-length": Treatment(name_prefix(b"content-length"), _content_length),
    **dict.fromkeys(_OF_CONNECTIONS, Treatment(b"", _refused)),
}
_RESPONSE_CHECKS: Final[dict[bytes, Treatment]] = {
    b":status": Treatment(name_prefix(b":status"), _status),
    b"date": Treatment(name_prefix(b"date")),
    b"trailer": _REQUEST_CHECKS[b"trailer"],
    b"content-length": _REQUEST_CHECKS[b"content-length"],
    **dict.fromkeys(_OF_CONNECTIONS, Treatment(b"", _refused)),
}


def _passing(name: bytes) -> Treatment:
    if name[:1] == b":":
        return Treatment(b"", _refused)
    sensitive = name in SENSITIVE
    kept = not sensitive and name not in _NEW_EACH_TIME
    return Treatment(name_prefix(name, never_indexed=sensitive), kept=kept)


def _of_request(name: bytes) -> Treatment:
    found = _REQUEST_CHECKS.get(name)
    if found is not None:
        return found
    if name in REQUEST_FIELDS or is_lookalike(name):
        return Treatment(b"", kept=name not in SENSITIVE)
    return _passing(name)


def _of_response(name: bytes) -> Treatment:
    found = _RESPONSE_CHECKS.get(name)
    if found is not None:
        return found
    if name in RESPONSE_FIELDS:
        return Treatment(b"", kept=name not in SENSITIVE)
    return _passing(name)


def _of_trailers(name: bytes) -> Treatment:
    if name in _OF_CONNECTIONS:
        return Treatment(b"", _refused)
    if is_barred_from_trailers(name):
        return Treatment(b"", kept=name not in SENSITIVE)
    return _passing(name)


#: The lines of all requests, of all responses, and of all trailers.
REQUEST_LINES: Final = Lines(_of_request)
RESPONSE_LINES: Final = Lines(_of_response)
TRAILER_LINES: Final = Lines(_of_trailers)
