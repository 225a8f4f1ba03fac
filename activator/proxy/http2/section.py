"""Converts fields between lines of HTTP/1 and header blocks, and remembers what recurs.

``with_fields`` and ``with_priority`` copy a request of either version with other fields.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final, Generic, TypeVar, final

from activator.knative.words import ORIGINAL_HOST
from activator.proxy.http2.hpack import Decoder, Field, line, name_prefix, string
from activator.proxy.http2.never_indexed import NeverIndexed
from activator.proxy.message import grpc
from activator.proxy.message.fields import (
    HTTP_2,
    PRIORITY,
    folded,
    is_handled,
    is_lookalike,
    tokens,
)
from activator.proxy.message.grammar import FramingError
from activator.proxy.message.own_responses import OwnResponse
from activator.proxy.message.request import Request

# Checks and encodes each recurring field line once: most lines repeat in the next request.
#
# A forwarded line is a literal with the same bytes on every connection (``hpack``). So one lookup
# in a dict returns the encoded form of a line that was valid before. Lines that are new in each
# request (``:path``, a request id) are checked and encoded each time.

#: Most lines in the dict, and most bytes of one line: the dict stays below 1 MiB.
MEMO_LINES: Final = 1024
MEMO_LINE_BYTES: Final = 512

_NAME_CHARACTERS: Final = b"!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz"
_SPACE: Final = b" \t"
#: Maps each invalid byte of a value to another one: CPython deletes bytes only with a new table.
_VISIBLE: Final = bytes(
    byte if byte == 0x09 or (byte >= 0x20 and byte != 0x7F) else ord("?") for byte in range(256)
)


@final
class NameTreatment:
    """How lines of one name are forwarded.

    Attributes:
        prefix: the line up to its value; empty if the line is not forwarded.
        check: returns the value to forward, or raises FramingError; None accepts any value.
        kept: whether the dict may keep lines.
    """

    __slots__ = ("check", "kept", "prefix")

    def __init__(
        self, prefix: bytes, check: Callable[[bytes], bytes] | None = None, kept: bool = True
    ) -> None:
        self.prefix = prefix
        self.check = check
        self.kept = kept


@final
class FieldLines:
    """The field lines of one kind of section.

    Attributes:
        known: the encoded form of each valid line; empty for a line that is not forwarded.
        names: the treatment of each name; at most MEMO_LINES.
    """

    __slots__ = ("_treatment_of", "known", "names")

    def __init__(self, treatment_of: Callable[[bytes], NameTreatment]) -> None:
        """Arguments: treatment_of: returns the treatment of a well-formed name, pseudo or not."""
        self._treatment_of = treatment_of
        self.names: dict[bytes, NameTreatment] = {}
        # The type is Any, not Field: compiled code would copy each pair, and lose NeverIndexed.
        self.known: dict[Any, bytes] = {}

    def read(self, fields: list[Any]) -> bytes:
        """Return the forwarded lines as a header block.

        Arguments:
            fields: the fields of the section, each a Field.

        Raises:
            FramingError: a line is malformed.
        """
        lines: list[Any] = list(map(self.known.get, fields))
        for at, known in enumerate(lines):
            if known is None:
                lines[at] = self._write(fields[at])
        return b"".join(lines)

    def _write(self, field: Any) -> bytes:
        """Check a line, and return its encoded form; keep it if it may recur."""
        name: bytes = field[0]
        value: bytes = field[1]
        treatment = self.names.get(name)
        if treatment is None:
            treatment = self._learn_name(name)
        if value.translate(_VISIBLE).strip(_SPACE) != value:
            raise FramingError(f"malformed value of {name.decode()}")
        if treatment.check is not None:
            value = treatment.check(value)
        if isinstance(field, NeverIndexed):
            prefix = treatment.prefix
            return name_prefix(name, never_indexed=True) + string(value) if prefix else b""
        if not treatment.kept:
            return treatment.prefix + string(value) if treatment.prefix else b""
        # ``line`` needs one byte if the static table has the field.
        written = line(name, value) if treatment.prefix else b""
        if len(name) + len(value) <= MEMO_LINE_BYTES:
            if len(self.known) >= MEMO_LINES:
                self.known.clear()
            self.known[field] = written
        return written

    def _learn_name(self, name: bytes) -> NameTreatment:
        if not name or name.removeprefix(b":").translate(None, _NAME_CHARACTERS):
            raise FramingError("malformed field name")
        treatment = self._treatment_of(name)
        if len(name) <= MEMO_LINE_BYTES:
            if len(self.names) >= MEMO_LINES:
                self.names.clear()
            self.names[name] = treatment
        return treatment


# Converts fields from lines of HTTP/1 to a header block of HTTP/2.
#
# Responses of the activator itself, traced requests and translated requests use it.

_CONTEXT: Final = frozenset((b"traceparent", b"tracestate"))
#: Fields that the activator handles and still forwards.
_PASSING: Final = frozenset((b"content-length", b"te", b"trailer"))
_ORIGINAL_HOST: Final = name_prefix(ORIGINAL_HOST)
_FORWARDED_FOR: Final = name_prefix(b"x-forwarded-for")
#: Fields that only the receiver should keep (RFC 7541 section 7.1.3). The activator remembers none,
#: and marks them so that no table of a peer has them.
SENSITIVE: Final = frozenset((b"authorization", b"cookie", b"proxy-authorization", b"set-cookie"))


def block_of(lines: bytes, without: Collection[bytes] = ()) -> bytes:
    """Return lines as a header block.

    Arguments:
        lines: field lines of HTTP/1, separated by CRLF.
        without: lower-case names of fields to omit.
    """
    block = b""
    for each in lines.split(b"\r\n"):
        name, colon, value = each.partition(b":")
        if colon and name.lower() not in without:
            name = name.lower()
            block += line(name, value.strip(b" \t"), never_indexed=name in SENSITIVE)
    return block


def own_response_block(response: OwnResponse, date: bytes) -> bytes:
    """Return the header block of a response of the activator; its body follows."""
    return b"".join(
        (
            line(b":status", b"%d" % response.status),
            line(b"date", date),
            line(b"content-length", b"%d" % len(response.body)) if response.has_length else b"",
            block_of(response.fields + response.reason_lines()),
        )
    )


def grpc_block(response: OwnResponse, date: bytes) -> bytes:
    """Return the header block of a response of the activator to a gRPC client, without a body."""
    lines = response.fields + response.reason_lines()
    text = response.why or response.body.decode().strip()
    return b"".join(
        (
            line(b":status", b"%d" % response.status),
            line(b"date", date),
            line(b"content-type", grpc.CONTENT_TYPE),
            grpc_status(grpc.status_of(response.status), text),
            block_of(lines, without=(b"content-type",)),
        )
    )


def grpc_status(status: int, text: str) -> bytes:
    """Return the fields, or trailers, that report the end of a call to a gRPC client."""
    return line(b"grpc-status", b"%d" % status) + line(b"grpc-message", grpc.message(text))


def forwarded(request_host: bytes, fields: Mapping[bytes, bytes], client: bytes) -> bytes:
    """Return the fields that name the client of a request, and its host, for queue-proxy.

    Arguments:
        request_host: the request's host.
        fields: the request's fields by lower-case name.
        client: the IP address of its client.
    """
    host = fields.get(ORIGINAL_HOST) or request_host
    return b"".join((_ORIGINAL_HOST, string(host), _forwarded_for(fields, client)))


def _forwarded_for(fields: Mapping[bytes, bytes], client: bytes) -> bytes:
    before = fields.get(b"x-forwarded-for", b"").strip(b" \t")
    return _FORWARDED_FOR + string(before + b", " + client if before else client)


def plain_section(request: Request, client: bytes) -> bytes:
    """Return the header section of a request for a pod without queue-proxy, in HTTP/2.

    It begins with :authority, which is the client's host.

    Arguments:
        client: the IP address of its client.
    """
    section = request.section or section_of(request, client)
    front = line(b":authority", request.host) if request.host else b""
    section = section.removesuffix(forwarded(request.host, request.fields, client))
    return front + section + _forwarded_for(request.fields, client)


def section_of(request: Request, client: bytes) -> bytes:
    """Return the header section of an HTTP/1 request, for a pod in HTTP/2.

    Arguments:
        client: the IP address of its client.
    """
    fields = request.fields
    block = line(b":method", request.method) + line(b":path", request.target)
    block += block_of(request.lines)
    if b"trailers" in tokens(fields.get(b"te", b"")):
        block += line(b"te", b"trailers")
    if request.length > 0:
        block += line(b"content-length", b"%d" % request.length)
    elif request.length == 0 and request.method in (b"POST", b"PUT", b"PATCH"):
        block += line(b"content-length", b"0")
    return block + forwarded(request.host, fields, client)


def traced_section(
    request: Request, section: bytes, client: bytes, *, plain: bool = False
) -> bytes:
    """Return a request's section without its trace context, which the activator replaces.

    Arguments:
        section: of the request, with that context.
        client: the IP address of its client.
        plain: whether the pod has no queue-proxy, so that ``plain_section`` made the section.
    """
    if plain or not request.section:
        return _block(field for field in Decoder().decode(section) if field[0] not in _CONTEXT)
    block = line(b":method", request.method) + line(b":path", request.target)
    block += without_context(request.fields)
    if PRIORITY in request.fields:
        passed = line(PRIORITY, request.fields[PRIORITY].strip(b" \t"))
        if passed in request.section:  # of a request that may select its class
            block += passed
    return block + forwarded(request.host, request.fields, client)


def without_context(fields: Mapping[bytes, bytes]) -> bytes:
    """Return the block of a request's forwarded fields without its trace context."""
    return _block(
        (name, value)
        for name, value in fields.items()
        if (name in _PASSING or not is_handled(name))
        and name not in _CONTEXT
        and name[:1] != b":"
        and not is_lookalike(name)
    )


def _block(fields: Iterable[Field]) -> bytes:
    """Return fields as a header block."""
    return b"".join(line(name, value, never_indexed=name in SENSITIVE) for name, value in fields)


# Remembers recurring header blocks with the objects that were read from them.
#
# A block of table references only has the same fields while the tables are the same. That saves
# half of the cost of a request whose client sends the same head again. gRPC responses and
# trailers nearly always repeat. Requests through an ingress do not, because of their ids.

_Meaning = TypeVar("_Meaning")

#: Most blocks of a connection, most bytes of one block, and most bytes of its fields: 64 KiB in
#: total. The connection's table has the same fields.
MOST: Final = 16
MOST_REFERENCES: Final = 64
MOST_BYTES: Final = 4096


class Recurring(Generic[_Meaning]):
    """Reads one kind of section on one connection. A caller looks a block up in ``known`` first.

    Arguments:
        decoder: the decoder of the connection, which other readers share.
        read: returns an object for fields; callers share it and never change it.

    Attributes:
        known: the objects of recurring header blocks, by block; the decoder clears it.
    """

    __slots__ = ("_decoder", "_read", "known")

    def __init__(self, decoder: Decoder, read: Callable[[list[Field]], _Meaning]) -> None:
        self._decoder = decoder
        self.known: dict[bytes, _Meaning] = {}
        decoder.memos += (self.known,)
        self._read = read

    def read(self, block: bytes) -> _Meaning:
        """Return the object for a whole header block that is not in ``known``.

        Raises:
            ConnectionFault, FramingError: see Decoder.decode.
            FramingError: see the argument ``read``.
        """
        fields = self._decoder.decode(block)
        meaning = self._read(fields)
        # One byte per field: each is an indexed reference, so the table is unchanged.
        if len(block) == len(fields) <= MOST_REFERENCES:
            self._remember(block, fields, meaning)
        return meaning

    def _remember(self, block: bytes, fields: list[Field], meaning: _Meaning) -> None:
        if sum(len(name) + len(value) for name, value in fields) > MOST_BYTES:
            return
        if not SENSITIVE.isdisjoint(name for name, _ in fields):
            return
        if len(self.known) >= MOST:
            self.known.clear()
        self.known[block] = meaning


_LINE_START: Final = b"\r\nActivator-Priority: "


def with_identity_coding(request: Request, peer: bytes) -> Request:
    """Return a request whose pod may not encode the response, because its head is sent already.

    Source: RFC 9110 section 12.5.3.

    Arguments:
        request: the client's request.
        peer: the IP address at the other end of the connection.
    """
    return with_fields(request, (b"accept-encoding",), b"\r\nAccept-Encoding: identity", peer)


def with_fields(request: Request, names: Collection[bytes], lines: bytes, peer: bytes) -> Request:
    """Return a request with other fields in place of some of the client's.

    Arguments:
        request: the client's request.
        names: of fields that the activator does not handle, in the form of ``folded``. All fields
            are removed that a server could read as one of them.
        lines: the fields that it gets, each preceded by its CRLF.
        peer: the IP address at the other end of the connection.
    """
    kept = (
        b"\r\n" + each
        for each in request.lines.split(b"\r\n")[1:]
        if folded(each.partition(b":")[0]) not in names
    )
    fields, section = request.fields, request.section
    if request.version is HTTP_2:
        fields = {name: fields[name] for name in fields if folded(name) not in names}
        fields |= _by_name(lines)
    if section:
        end = forwarded(request.host, request.fields, peer)
        decoded = Decoder().decode(section.removesuffix(end))
        block = _block(field for field in decoded if folded(field[0]) not in names)
        section = block + block_of(lines) + end  # it ends with the fields that name the client
    return request.copy(fields, b"".join(kept) + lines, section)


def _by_name(lines: bytes) -> dict[bytes, bytes]:
    """Return the values of lines by their names in lower case."""
    pairs = (each.partition(b": ") for each in lines.split(b"\r\n")[1:])
    return {name.lower(): value for name, _, value in pairs}


def with_added(request: Request, lines: bytes, peer: bytes) -> Request:
    """Return a request with more fields; it has none of their names, so this takes less time.

    Arguments:
        request: the client's request.
        lines: the fields, each preceded by its CRLF; their names are all different.
        peer: the IP address at the other end of the connection.
    """
    section = request.section
    if not section:
        return request.copy(request.fields, request.lines + lines, section)
    fields = request.fields | _by_name(lines)
    end = forwarded(request.host, request.fields, peer)
    return request.copy(fields, None, section.removesuffix(end) + block_of(lines) + end)


def with_priority(request: Request, peer: bytes) -> Request:
    """Return a request whose field Activator-Priority the pod gets too.

    The activator removes this field from all other requests.

    Arguments:
        request: the client's request, which has the field.
        peer: the IP address at the other end of the connection.
    """
    value = request.fields[PRIORITY].strip(b" \t")
    section = request.section
    if section:
        end = forwarded(request.host, request.fields, peer)
        section = section.removesuffix(end) + line(PRIORITY, value) + end
    return request.copy(request.fields, request.lines + _LINE_START + value, section)
