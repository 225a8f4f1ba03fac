"""Reads requests, responses and trailers from HTTP/2 fields; makes the header block to forward.

``proxy/message/fields.py`` decides which fields are read, removed or refused. RFC 9113 section 8
decides which are malformed. The grammar of HTTP/1 applies where it is stricter, because the next
server may use HTTP/1. A malformed message ends its stream (section 8.1.1), never the connection.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations
from typing import Final, final

from activator.proxy.http2.hpack import Field, name_prefix
from activator.proxy.http2.section import SENSITIVE, FieldLines, NameTreatment
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

# Lists which fields of a section are forwarded, which are refused, and which values are valid.
#
# It follows ``proxy/message/fields.py`` and RFC 9113 section 8.

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


_TRAILER_CHECKS: Final = dict.fromkeys(_OF_CONNECTIONS, NameTreatment(b"", _refused))
_REQUEST_CHECKS: Final[dict[bytes, NameTreatment]] = {
    b":method": NameTreatment(name_prefix(b":method"), _method),
    b":scheme": NameTreatment(b"", _scheme),
    b":authority": NameTreatment(b"", _authority),
    b":path": NameTreatment(name_prefix(b":path"), _path, kept=False),
    b"host": NameTreatment(b"", _authority),
    b"te": NameTreatment(name_prefix(b"te"), _te),
    b"trailer": NameTreatment(name_prefix(b"trailer"), _trailer),
    b"content-length": NameTreatment(name_prefix(b"content-length"), _content_length),
    **_TRAILER_CHECKS,
}
_RESPONSE_CHECKS: Final[dict[bytes, NameTreatment]] = {
    b":status": NameTreatment(name_prefix(b":status"), _status),
    b"date": NameTreatment(name_prefix(b"date")),
    b"trailer": _REQUEST_CHECKS[b"trailer"],
    b"content-length": _REQUEST_CHECKS[b"content-length"],
    **_TRAILER_CHECKS,
}


def _treatment(
    name: bytes, checks: dict[bytes, NameTreatment], *, is_removed: bool
) -> NameTreatment:
    found = checks.get(name)
    if found is not None:
        return found
    if is_removed:
        return NameTreatment(b"", kept=name not in SENSITIVE)
    if name[:1] == b":":
        return NameTreatment(b"", _refused)
    sensitive = name in SENSITIVE
    kept = not sensitive and name not in _NEW_EACH_TIME
    return NameTreatment(name_prefix(name, never_indexed=sensitive), kept=kept)


def _of_request(name: bytes) -> NameTreatment:
    is_removed = name in REQUEST_FIELDS or is_lookalike(name)
    return _treatment(name, _REQUEST_CHECKS, is_removed=is_removed)


def _of_response(name: bytes) -> NameTreatment:
    return _treatment(name, _RESPONSE_CHECKS, is_removed=name in RESPONSE_FIELDS)


def _of_trailers(name: bytes) -> NameTreatment:
    return _treatment(name, _TRAILER_CHECKS, is_removed=is_barred_from_trailers(name))


#: The lines of all requests, of all responses, and of all trailers.
REQUEST_LINES: Final = FieldLines(_of_request)
RESPONSE_LINES: Final = FieldLines(_of_response)
TRAILER_LINES: Final = FieldLines(_of_trailers)


_NO_CONTENT: Final = 204
#: Fields that a message may have only once.
_SINGLE: Final = frozenset((b"content-length", b"host", b"te"))

#: The pseudo fields of a request, in each order: all four, or three without :authority.
_ORDERS: Final = frozenset(
    order
    for names in (
        (b":method", b":scheme", b":path", b":authority"),
        (b":method", b":scheme", b":path"),
    )
    for order in permutations(names)
)


@final
class RequestFields:
    """The header section of a request.

    Attributes:
        method, path: as received.
        authority: the value of :authority, else of Host.
        fields: all fields by name, with pseudo fields; values of equal names are joined.
        length: Content-Length in bytes, -1 if unknown.
        block: the fields for the pod: :method, :path, and all other fields as received. It has no
            other pseudo fields, and none of the activator's own (``proxy.message.fields``).
        bodiless: the request if it has no body, made at its first use; None before.
        forwarded: the block with the fields that name the client; empty before its first use.
    """

    __slots__ = (
        "authority",
        "block",
        "bodiless",
        "fields",
        "forwarded",
        "length",
        "method",
        "path",
    )

    def __init__(
        self,
        method: bytes,
        path: bytes,
        authority: bytes,
        fields: dict[bytes, bytes],
        length: int,
        block: bytes,
    ) -> None:
        self.method: Final = method
        self.path: Final = path
        self.authority: Final = authority
        self.fields: Final = fields
        self.length: Final = length
        self.block: Final = block
        self.bodiless: Request | None = None
        self.forwarded = b""


@final
class ResponseFields:
    """The header section of a response, also of an interim one.

    Attributes:
        status: the status code; fields, length: as in RequestFields.
        block: the fields for the client, :status first.
    """

    __slots__ = ("block", "fields", "length", "status")

    def __init__(self, status: int, fields: dict[bytes, bytes], length: int, block: bytes) -> None:
        self.status: Final = status
        self.fields: Final = fields
        self.length: Final = length
        self.block: Final = block

    def value_of(self, name: bytes) -> bytes:
        """Return the value of a field; empty if the response does not have it."""
        return self.fields.get(name, b"")


def read_request(fields: list[Field]) -> RequestFields:
    """Return the request that a client's HEADERS have.

    Raises:
        FramingError: the request is malformed (400; its stream has to end), or it is refused.
    """
    by_name = {name: value for name, value in fields}  # noqa: C416 # compiled, dict() is slow
    repeated = len(by_name) != len(fields)
    front = tuple(by_name)[: 4 if b":authority" in by_name else 3]
    if repeated:
        fields = _one_cookie(fields)
    try:
        block = REQUEST_LINES.read(fields)
        # Unknown and repeated pseudo fields have raised: these are all, and before other fields.
        if front not in _ORDERS:
            raise FramingError("pseudo fields are missing, or behind other fields")
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
    """Return the error with the fields that the format of its response depends on."""
    error.block = lines_of(fields)
    error.to_head = fields.get(b":method") == b"HEAD"
    return error


def read_response(fields: list[Field]) -> ResponseFields:
    """Return the response that a pod's HEADERS have; see ``read_trailers`` for trailers.

    Raises:
        FramingError: the response is malformed; its client gets 502.
    """
    by_name = {name: value for name, value in fields}  # noqa: C416 # compiled, dict() is slow
    block = RESPONSE_LINES.read(fields)
    if len(by_name) != len(fields):
        by_name = _joined(fields)
    if not fields or fields[0][0] != b":status":
        raise FramingError(":status is not the first field")
    status = int(fields[0][1])
    if status == _NO_CONTENT and b"content-length" in by_name:
        # A 204 has none (RFC 9110 section 8.6), and HTTP/2 clients reject one that has.
        return read_response([field for field in fields if field[0] != b"content-length"])
    return ResponseFields(status, by_name, _length(by_name), block)


def read_trailers(fields: list[Field]) -> bytes:
    """Return the header block of the trailers to forward.

    Raises:
        FramingError: a trailer is malformed.
    """
    return TRAILER_LINES.read(fields)


def _length(by_name: dict[bytes, bytes]) -> int:
    length = by_name.get(b"content-length")
    return -1 if length is None else int(length)


def _joined(fields: list[Field]) -> dict[bytes, bytes]:
    by_name: dict[bytes, bytes] = {}
    for name, value in fields:
        before = by_name.get(name)
        if before is None:
            by_name[name] = value
        elif name in _SINGLE or name[:1] == b":":
            raise FramingError(f"{name.decode()} is repeated")
        else:
            by_name[name] = before + b", " + value
    return by_name


def _one_cookie(fields: list[Field]) -> list[Field]:
    """Join Cookie fields, which clients split for compression (RFC 9113 section 8.2.3)."""
    crumbs = [value for name, value in fields if name == b"cookie"]
    if len(crumbs) < 2:
        return fields
    # Not a comprehension: compiled code would copy NeverIndexed to plain pairs.
    others = filter(_is_no_cookie, fields)
    return [*others, (b"cookie", b"; ".join(crumbs))]


def _is_no_cookie(field: Field) -> bool:
    return field[0] != b"cookie"
