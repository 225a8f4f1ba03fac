"""What an HTTP/2 message's fields say, and the header block that goes on to the other side.

Which fields are read, dropped or refused follows ``proxy/message/fields.py``; what is malformed
follows RFC 9113 section 8, with the grammar of HTTP/1 where that is stricter: the next server may
speak it. A malformed message costs its stream (section 8.1.1), never the connection.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import permutations
from typing import Final

from activator.proxy.http2.hpack import Field, name_prefix
from activator.proxy.http2.lines import Lines, Treatment
from activator.proxy.http2.section import SENSITIVE
from activator.proxy.message.fields import (
    REQUEST_FIELDS,
    RESPONSE_FIELDS,
    is_barred_from_trailers,
    is_lookalike,
    lines_of,
    tokens,
)
from activator.proxy.message.grammar import FramingError
from activator.proxy.message.request import HOST, METHOD, Request

#: What no target may have becomes something else, see lines.
_IN_TARGET: Final = bytes(
    byte if 0x21 <= byte < 0x7F and byte != ord("#") else ord("?") for byte in range(256)
)
_NO_CONTENT: Final = 204
#: Content-Length has no more digits in HTTP/1 either.
_MAX_DIGITS: Final = 19

#: Connection-specific: no message has them (RFC 9113 section 8.2.2).
_OF_CONNECTIONS: Final = frozenset(
    (b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade")
)
#: What is another value in every message: not worth the room in a memo.
_NEW_EACH_TIME: Final = frozenset(
    (b"traceparent", b"x-request-id", b"x-b3-spanid", b"x-b3-traceid", b"x-cloud-trace-context")
)
#: Fields that may stand in a message once.
_SINGLE: Final = frozenset((b"content-length", b"host", b"te"))

#: The pseudo fields of a request, in whatever order: all, or without :authority.
_ORDERS: Final = frozenset(
    order
    for names in (
        (b":method", b":scheme", b":path", b":authority"),
        (b":method", b":scheme", b":path"),
    )
    for order in permutations(names)
)


@dataclass(slots=True)
class RequestFields:
    """The header section of a request.

    Attributes:
        method, path: as they came.
        authority: of :authority, else of Host.
        fields: all fields by name, pseudo fields among them; values of equal names joined.
        length: Content-Length, -1 if it is not said.
        block: the fields that go on as they came, ready for a pod: :method and :path, and all but
            the other pseudo fields and what is ours (``proxy.message.fields``).
        bodiless: the request without a body; forwarded: the block with the fields that say who has
            sent it. Made at the first use, for the next request that says the same.
    """

    method: bytes
    path: bytes
    authority: bytes
    fields: dict[bytes, bytes]
    length: int
    block: bytes
    bodiless: Request | None = None
    forwarded: bytes = b""


@dataclass(slots=True)
class ResponseFields:
    """The header section of an answer, also of an interim one.

    Attributes:
        status: its code; fields, length: as of RequestFields.
        block: the fields that go on, :status in front.
    """

    status: int
    fields: dict[bytes, bytes]
    length: int
    block: bytes


def read_request(fields: list[Field]) -> RequestFields:
    """Read what a client's HEADERS say.

    Raises:
        FramingError: the request is malformed (400), and its stream to be ended; or what it asks
            for is refused.
    """
    by_name = dict(fields)
    repeated = len(by_name) != len(fields)
    front = tuple(by_name)[: 4 if b":authority" in by_name else 3]
    if repeated:
        fields = _one_cookie(fields)
    try:
        block = _REQUEST.read(fields)
        # Other pseudo fields and repeated ones do not get here: these are all, and before the rest.
        if front not in _ORDERS:
            raise FramingError("pseudo fields are missing, or not in front")
        if repeated:
            by_name = _joined(fields)
        authority = by_name.get(b":authority", b"")
        host = by_name.get(b"host", authority)
        if authority and host != authority and host.lower() != authority.lower():
            raise FramingError("Host and :authority differ")
        if not host:
            raise FramingError("neither :authority nor Host")
        method = by_name[b":method"]
        path = by_name[b":path"]
        if path == b"*" and method != b"OPTIONS":
            raise FramingError("malformed :path")
    except FramingError as error:
        raise about(error, by_name) from None
    return RequestFields(method, path, authority or host, by_name, _length(by_name), block)


def about(error: FramingError, fields: Mapping[bytes, bytes]) -> FramingError:
    """Return the error with what its answer has to know of the request."""
    error.block = lines_of(fields)
    error.to_head = fields.get(b":method") == b"HEAD"
    return error


def read_response(fields: list[Field]) -> ResponseFields:
    """Read what a pod's HEADERS say, but for trailers.

    Raises:
        FramingError: the answer is malformed; to its client that is 502.
    """
    by_name = dict(fields)
    block = _RESPONSE.read(fields)
    if len(by_name) != len(fields):
        by_name = _joined(fields)
    if not fields or fields[0][0] != b":status":
        raise FramingError("no :status in front")
    status = int(fields[0][1])
    if status == _NO_CONTENT and b"content-length" in by_name:
        # None has it (RFC 9110 section 8.6), and clients of HTTP/2 refuse one that does.
        return read_response([field for field in fields if field[0] != b"content-length"])
    return ResponseFields(status, by_name, _length(by_name), block)


def read_trailers(fields: list[Field]) -> bytes:
    """Return the header block of the trailers that go on.

    Raises:
        FramingError: one is malformed.
    """
    return _TRAILERS.read(fields)


def _length(by_name: dict[bytes, bytes]) -> int:
    said = by_name.get(b"content-length")
    return -1 if said is None else int(said)


def _joined(fields: list[Field]) -> dict[bytes, bytes]:
    by_name: dict[bytes, bytes] = {}
    for name, value in fields:
        before = by_name.get(name)
        if before is None:
            by_name[name] = value
        elif name in _SINGLE or name[:1] == b":":
            raise FramingError(f"{name.decode()} is there twice")
        else:
            by_name[name] = before + b", " + value
    return by_name


def _one_cookie(fields: list[Field]) -> list[Field]:
    """Join what was split for compression alone (RFC 9113 section 8.2.3)."""
    crumbs = [value for name, value in fields if name == b"cookie"]
    if len(crumbs) < 2:
        return fields
    # Not a comprehension: compiled, it would make plain pairs of NeverIndexed.
    others = filter(_is_no_cookie, fields)
    return [*others, (b"cookie", b"; ".join(crumbs))]


def _is_no_cookie(field: Field) -> bool:
    return field[0] != b"cookie"


# The values that some fields must have.


def _method(value: bytes) -> bytes:
    if METHOD.fullmatch(value) is None:
        raise FramingError("malformed :method")
    if value == b"CONNECT":
        raise FramingError("CONNECT is not offered", 405)
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
    # 101 is not of HTTP/2 (section 8.6).
    if len(value) != 3 or not value.isdigit() or value < b"100" or value == b"101":
        raise FramingError("malformed :status")
    return value


def _content_length(value: bytes) -> bytes:
    # int() would take '+5', '1_0' and Arabic digits.
    if not value.isdigit() or len(value) > _MAX_DIGITS:
        raise FramingError("malformed content-length")
    return value


def _te(value: bytes) -> bytes:
    if value.lower() != b"trailers":
        raise FramingError("te says more than trailers")
    return b"trailers"


def _trailer(value: bytes) -> bytes:
    return b", ".join(name for name in tokens(value) if not is_barred_from_trailers(name))


def _refused(value: bytes) -> bytes:
    raise FramingError("a field that is of a connection, or of another section")


# Which name is treated how.

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
    if name in REQUEST_FIELDS.names or is_lookalike(name):
        return Treatment(b"", kept=name not in SENSITIVE)
    return _passing(name)


def _of_response(name: bytes) -> Treatment:
    found = _RESPONSE_CHECKS.get(name)
    if found is not None:
        return found
    if name in RESPONSE_FIELDS.names:
        return Treatment(b"", kept=name not in SENSITIVE)
    return _passing(name)


def _of_trailers(name: bytes) -> Treatment:
    if name in _OF_CONNECTIONS:
        return Treatment(b"", _refused)
    if is_barred_from_trailers(name):
        return Treatment(b"", kept=name not in SENSITIVE)
    return _passing(name)


_REQUEST: Final = Lines(_of_request)
_RESPONSE: Final = Lines(_of_response)
_TRAILERS: Final = Lines(_of_trailers)
