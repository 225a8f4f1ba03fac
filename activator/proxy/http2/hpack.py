"""Header compression for HTTP/2 (RFC 7541): decodes all forms, encodes the simplest.

Most header blocks from an ingress never repeat: ids, paths and traces are new in each request. So
the decoder makes one pass over the block, without a call for an indexed field. zlib decodes its
strings (``huffman``). This module remembers no blocks and no strings.

The encoder uses no dynamic table. So a line has the same bytes on every connection, and callers may
keep it.
"""

from __future__ import annotations

from itertools import chain
from typing import Any, Final, final

from activator.proxy.http2.errors import ConnectionFault, ErrorCode
from activator.proxy.http2.huffman import decode as huffman_decode
from activator.proxy.http2.never_indexed import NeverIndexed
from activator.proxy.http2.static_table import STATIC_TABLE
from activator.proxy.message.grammar import FramingError

#: SETTINGS_HEADER_TABLE_SIZE by default (RFC 9113 section 6.5.2). Encoders use no more, even if
#: offered more (Go, nghttp2, Envoy). It limits the memory of a connection's table.
DEFAULT_TABLE_SIZE: Final = 4096
#: Bytes that a field counts in addition to its name and value (RFC 7541 section 4.1).
FIELD_OVERHEAD: Final = 32
#: Most bytes of a decoded header list, counted that way (nginx: 32 KiB; Envoy: 60 KiB).
MAX_LIST_BYTES: Final = 64 << 10

#: The first bytes of the first block on a connection: the encoder's table has size 0. So no
#: settings of a peer require another update (section 4.2).
NO_TABLE: Final = b"\x20"

#: Most bytes of a header list per byte of its block, if the block uses no dynamic table.
MAX_EXPANSION: Final = max(len(name) + len(value) for name, value in STATIC_TABLE) + FIELD_OVERHEAD

#: More bytes than any header list has.
_UNLIMITED: Final = 1 << 40
_STATIC_COUNT: Final = len(STATIC_TABLE)
#: The index of the newest entry of the dynamic table.
_NEWEST: Final = _STATIC_COUNT + 1
_MAX_INTEGER_BYTES: Final = 5
_NEVER_INDEXED: Final = 0x10

Field = tuple[bytes, bytes]


@final
class Decoder:
    """The decoder of one direction of a connection.

    Attributes:
        generation: changes with each change of the dynamic table. While it is the same, equal
            blocks have equal fields.
    """

    __slots__ = ("_limit", "_max_list", "_room", "_table", "_used", "generation")

    def __init__(self, max_list: int = MAX_LIST_BYTES) -> None:
        """Arguments: max_list: most bytes of a header list, with FIELD_OVERHEAD per field."""
        self.generation = 0
        self._max_list = max_list
        self._limit = DEFAULT_TABLE_SIZE
        self._room = DEFAULT_TABLE_SIZE
        self._used = 0
        # Index i is _table[i]; an index beyond the table is an IndexError. The dynamic table
        # follows the static one, its newest entry first. No index is 0.
        # The type is Any, not Field: compiled code would copy each pair, and lose NeverIndexed.
        self._table: list[Any] = [(b"", b""), *STATIC_TABLE]

    def decode(self, block: bytes) -> list[Field]:
        """Return the fields of one whole header block, in order; some may be NeverIndexed.

        Raises:
            ConnectionFault: COMPRESSION_ERROR; the table is lost, so the connection has to end.
            FramingError: the list is too large (431). The table stays valid.
        """
        try:
            fields = self._decode(block)
        except (IndexError, ValueError) as error:
            raise ConnectionFault(
                ErrorCode.COMPRESSION_ERROR, f"malformed header block: {error}"
            ) from None
        # An indexed field is a reference to a table's entry. So a list that is too large has cost
        # 8 bytes per field so far. The bound shows for most lists that they are not too large: an
        # entry is not larger than the table.
        if len(fields) * self._limit + 2 * len(block) > self._max_list:
            size = sum(map(len, chain.from_iterable(fields))) + FIELD_OVERHEAD * len(fields)
            if size > self._max_list:
                raise FramingError("the header fields are too large", 431)
        return fields

    def _decode(self, block: bytes) -> list[Field]:
        # One function of more than 50 lines: methods per representation cost a fifth more.
        table = self._table
        fields: list[Any] = []
        used = self._used
        room = self._room
        changed = False
        at = 0
        end = len(block)
        while at < end:
            byte = block[at]
            at += 1
            if byte > 0x80:  # indexed (section 6.1)
                if byte < 0xFF:
                    fields.append(table[byte - 0x80])
                else:
                    index, at = _integer(block, at, 0x7F)
                    fields.append(table[index])
                continue
            if byte >= 0x40:  # literal, to be indexed (section 6.2.1)
                mask = 0x3F
            elif byte < 0x20:  # literal (sections 6.2.2 and 6.2.3)
                mask = 0x0F
            else:
                at = self._resize(block, at, byte & 0x1F, fields)
                used = self._used
                room = self._room
                continue
            index = byte & mask
            if index:
                if index == mask:
                    index, at = _integer(block, at, mask)
                name = table[index][0]
            elif byte == 0x80:
                raise ValueError("index 0")
            else:
                name, at = _string(block, at)
            length = block[at]
            if 0x80 < length < 0xFF:  # a short string in Huffman code, as in _string
                start = at + 1
                at = start + length - 0x80
                if at > end:
                    raise ValueError("a string is longer than the block")
                value = huffman_decode(block[start:at])  # ordered: lengths are not negative
            else:
                value, at = _string(block, at)
            if mask == 0x3F:
                changed = True
                field: Any = (name, value)
                fields.append(field)
                size = len(name) + len(value) + FIELD_OVERHEAD
                used += size
                while used > room and used > size:  # remove the oldest entries (section 4.4)
                    name_of_oldest, oldest = table.pop()
                    used -= len(name_of_oldest) + len(oldest) + FIELD_OVERHEAD
                if used <= room:
                    table.insert(_NEWEST, field)
                else:
                    used = 0
            elif byte < 0x10:
                fields.append((name, value))
            else:
                fields.append(NeverIndexed((name, value)))
        if changed:
            self._used = used
            self.generation += 1
        return fields

    def _resize(self, block: bytes, at: int, size: int, before: list[Any]) -> int:
        """Apply a dynamic table size update (section 6.3); return the position after it."""
        if before:
            raise ValueError("a table size update after a field")
        if size == 0x1F:
            size, at = _integer(block, at, 0x1F)
        if size > self._limit:
            raise ValueError("a table larger than the limit")
        self.generation += 1
        self._room = size
        while self._used > size:
            name, value = self._table.pop()
            self._used -= len(name) + len(value) + FIELD_OVERHEAD
        return at


def _integer(block: bytes, at: int, value: int) -> tuple[int, int]:
    """Return an integer whose prefix is full (section 5.1), and the position after it."""
    byte = block[at]
    if byte < 0x80:  # nearly always
        return value + byte, at + 1
    for shift in range(0, 7 * _MAX_INTEGER_BYTES, 7):
        byte = block[at]
        at += 1
        value += (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ValueError("an integer is too long")


def _string(block: bytes, at: int) -> tuple[bytes, int]:
    """Return a string (section 5.2), and the position after it."""
    byte = block[at]
    at += 1
    length = byte & 0x7F
    if length == 0x7F:
        length, at = _integer(block, at, 0x7F)
    end = at + length
    if end > len(block):
        raise ValueError("a string is longer than the block")
    if byte < 0x80:
        return block[at:end], end  # ordered: lengths are not negative
    return huffman_decode(block[at:end]), end  # ordered: as above


def list_size(block: bytes) -> int:
    """Return the size of a header list by its block, in bytes, as RFC 9113 section 6.5.2 counts it.

    Arguments:
        block: a whole block without references to a dynamic table.
    """
    fields = Decoder(_UNLIMITED).decode(block)
    return sum(map(len, chain.from_iterable(fields))) + FIELD_OVERHEAD * len(fields)


def name_prefix(name: bytes, *, never_indexed: bool = False) -> bytes:
    """Return the beginning of a literal field line, up to its value.

    Arguments:
        name: in lower case.
        never_indexed: whether the receiver must not index it either (section 7.1.3).
    """
    representation = _NEVER_INDEXED if never_indexed else 0
    index = _STATIC_NAMES.get(name)
    if index is None:
        return bytes((representation,)) + string(name)
    return _prefixed(index, 0x0F, representation)


def string(value: bytes) -> bytes:
    """Return a string literal without Huffman code, which costs more than it saves in a cluster."""
    length = len(value)
    if length < 0x7F:
        return _LENGTHS[length] + value
    return _prefixed(length, 0x7F, 0) + value


def line(name: bytes, value: bytes, *, never_indexed: bool = False) -> bytes:
    """Return one field line, literal or from the static table; see name_prefix."""
    if not never_indexed and (known := _STATIC_LINES.get((name, value))) is not None:
        return known
    return name_prefix(name, never_indexed=never_indexed) + string(value)


def _prefixed(value: int, limit: int, representation: int) -> bytes:
    if value < limit:
        return bytes((representation | value,))
    encoded = bytearray((representation | limit,))
    value -= limit
    while value > 0x7F:
        encoded.append(0x80 | value & 0x7F)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


#: The first entry of each name in the static table, and the line of each entry.
_STATIC_NAMES: Final = {
    name: _STATIC_COUNT - number for number, (name, _) in enumerate(reversed(STATIC_TABLE))
}
_STATIC_LINES: Final = {
    field: bytes((0x80 | number,)) for number, field in enumerate(STATIC_TABLE, 1)
}
_LENGTHS: Final = tuple(bytes((length,)) for length in range(0x7F))
