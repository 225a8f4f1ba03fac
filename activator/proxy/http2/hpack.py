"""Header compression for HTTP/2 (RFC 7541): reads all of it, writes the simplest of it.

A header block that no ingress ever repeats is the common one: a request id, a path and a trace
are new with every request. So what counts is one pass over the block without calls for what is
indexed, and strings decoded by zlib (``huffman``); blocks and strings are not remembered here.

What is written has no dynamic table, so a line is the same bytes on every connection and may be
kept for as long as one likes.
"""

from __future__ import annotations

from itertools import chain
from typing import Any, Final, final

from activator.proxy.http2.errors import ConnectionFault, ErrorCode
from activator.proxy.http2.huffman import decode as huffman_decode
from activator.proxy.http2.never_indexed import NeverIndexed
from activator.proxy.http2.static_table import STATIC_TABLE
from activator.proxy.message.grammar import FramingError

#: SETTINGS_HEADER_TABLE_SIZE by default (RFC 9113 section 6.5.2). Encoders
#: use no more if offered more (Go, nghttp2, Envoy), and it bounds what a connection may keep here.
DEFAULT_TABLE_SIZE: Final = 4096
#: What a field counts beside its name and value (RFC 7541 section 4.1).
FIELD_OVERHEAD: Final = 32
#: Bytes of a decoded header list, counted so (nginx: 32 KiB; Envoy: 60 KiB).
MAX_LIST_BYTES: Final = 64 << 10

#: What the first block on a connection begins with: this encoder's table has no room. It makes an
#: update superfluous that a peer could otherwise ask for by its settings (section 4.2).
NO_TABLE: Final = b"\x20"

#: Bytes of a header list for one byte of a block, at most, where no dynamic table is in use.
MAX_EXPANSION: Final = max(len(name) + len(value) for name, value in STATIC_TABLE) + FIELD_OVERHEAD

#: More bytes than any header list has.
_UNLIMITED: Final = 1 << 40
_STATIC_COUNT: Final = len(STATIC_TABLE)
#: The index of the entry that came last.
_NEWEST: Final = _STATIC_COUNT + 1
_MAX_INTEGER_BYTES: Final = 5
_NEVER_INDEXED: Final = 0x10

Field = tuple[bytes, bytes]


@final
class Decoder:
    """One direction of a connection.

    Attributes:
        generation: another number whenever the dynamic table has changed: as long as it is the
            same, the same block means the same fields.
    """

    __slots__ = ("_limit", "_max_list", "_room", "_table", "_used", "generation")

    def __init__(self, max_list: int = MAX_LIST_BYTES) -> None:
        """Arguments: max_list: bytes of a header list, with FIELD_OVERHEAD for each field."""
        self.generation = 0
        self._max_list = max_list
        self._limit = DEFAULT_TABLE_SIZE
        self._room = DEFAULT_TABLE_SIZE
        self._used = 0
        # Index i is _table[i], an index beyond the table an IndexError: behind the static table
        # stands the dynamic one, the newest entry first. No index names the first place.
        # Any stands for Field: compiled code would copy each pair, and lose NeverIndexed.
        self._table: list[Any] = [(b"", b""), *STATIC_TABLE]

    def decode(self, block: bytes) -> list[Field]:
        """Return the fields of one whole header block, in order; some are NeverIndexed.

        Raises:
            ConnectionFault: COMPRESSION_ERROR; the table is lost, and the connection with it.
            FramingError: the list is too large (431). The table is in order.
        """
        try:
            fields = self._decode(block)
        except (IndexError, ValueError) as error:
            raise ConnectionFault(
                ErrorCode.COMPRESSION_ERROR, f"malformed header block: {error}"
            ) from None
        # An indexed field is a reference to a table's entry, so a list that is too large has cost
        # 8 bytes a field up to here. Most lists cannot be: an entry is no larger than the table.
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
            if 0x80 < length < 0xFF:  # a short string with Huffman code: as _string would
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
                while used > room and used > size:  # the oldest go (section 4.4)
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
        """Take a dynamic table size update (section 6.3); return where it ends."""
        if before:
            raise ValueError("a table size update behind a field")
        if size == 0x1F:
            size, at = _integer(block, at, 0x1F)
        if size > self._limit:
            raise ValueError("a table larger than was offered")
        self.generation += 1
        self._room = size
        while self._used > size:
            name, value = self._table.pop()
            self._used -= len(name) + len(value) + FIELD_OVERHEAD
        return at


def _integer(block: bytes, at: int, value: int) -> tuple[int, int]:
    """Read the rest of an integer whose prefix is full (section 5.1): it, and where it ends."""
    byte = block[at]
    if byte < 0x80:  # as nearly always
        return value + byte, at + 1
    for shift in range(0, 7 * _MAX_INTEGER_BYTES, 7):
        byte = block[at]
        at += 1
        value += (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ValueError("an integer is too long")


def _string(block: bytes, at: int) -> tuple[bytes, int]:
    """Read a string (section 5.2): it, and where it ends."""
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
        name: in lower case; never_indexed: whether the next one must not index it either.
    """
    representation = _NEVER_INDEXED if never_indexed else 0
    index = _STATIC_NAMES.get(name)
    if index is None:
        return bytes((representation,)) + string(name)
    return _prefixed(index, 0x0F, representation)


def string(value: bytes) -> bytes:
    """Return a string literal without Huffman code, which costs more than it saves next door."""
    length = len(value)
    if length < 0x7F:
        return _LENGTHS[length] + value
    return _prefixed(length, 0x7F, 0) + value


def line(name: bytes, value: bytes, *, never_indexed: bool = False) -> bytes:
    """Return one field line, in no table or in the static one; see name_prefix."""
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


#: The first entry of each name, and the line of each entry.
_STATIC_NAMES: Final = {
    name: _STATIC_COUNT - number for number, (name, _) in enumerate(reversed(STATIC_TABLE))
}
_STATIC_LINES: Final = {
    field: bytes((0x80 | number,)) for number, field in enumerate(STATIC_TABLE, 1)
}
_LENGTHS: Final = tuple(bytes((length,)) for length in range(0x7F))
