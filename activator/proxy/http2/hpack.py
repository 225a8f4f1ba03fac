"""Header compression for HTTP/2 (RFC 7541): decodes all forms, encodes the simplest.

Most header blocks from an ingress never repeat: ids, paths and traces are new in each request. So
the decoder makes one pass over the block, without a call for an indexed field. zlib decodes its
strings (``huffman``). This module remembers no blocks and no strings.

The encoder uses no dynamic table. So a line has the same bytes on every connection, and callers may
keep it.
"""

from __future__ import annotations

import zlib
from array import array
from bisect import bisect
from itertools import chain
from sys import byteorder
from typing import Any, Final, final

from librt.strings import BytesWriter, read_i32_le, write_i16_le
from mypy_extensions import i16, i64, u8

from activator.build import Build, running
from activator.proxy.http2.frames import ConnectionFault, ErrorCode
from activator.proxy.http2.never_indexed import NeverIndexed
from activator.proxy.message.grammar import FramingError

# HPACK's static table (RFC 7541 appendix A).

#: The first entry has index 1.
STATIC_TABLE: Final[tuple[tuple[bytes, bytes], ...]] = (
    (b":authority", b""),
    (b":method", b"GET"),
    (b":method", b"POST"),
    (b":path", b"/"),
    (b":path", b"/index.html"),
    (b":scheme", b"http"),
    (b":scheme", b"https"),
    (b":status", b"200"),
    (b":status", b"204"),
    (b":status", b"206"),
    (b":status", b"304"),
    (b":status", b"400"),
    (b":status", b"404"),
    (b":status", b"500"),
    (b"accept-charset", b""),
    (b"accept-encoding", b"gzip, deflate"),
    (b"accept-language", b""),
    (b"accept-ranges", b""),
    (b"accept", b""),
    (b"access-control-allow-origin", b""),
    (b"age", b""),
    (b"allow", b""),
    (b"authorization", b""),
    (b"cache-control", b""),
    (b"content-disposition", b""),
    (b"content-encoding", b""),
    (b"content-language", b""),
    (b"content-length", b""),
    (b"content-location", b""),
    (b"content-range", b""),
    (b"content-type", b""),
    (b"cookie", b""),
    (b"date", b""),
    (b"etag", b""),
    (b"expect", b""),
    (b"expires", b""),
    (b"from", b""),
    (b"host", b""),
    (b"if-match", b""),
    (b"if-modified-since", b""),
    (b"if-none-match", b""),
    (b"if-range", b""),
    (b"if-unmodified-since", b""),
    (b"last-modified", b""),
    (b"link", b""),
    (b"location", b""),
    (b"max-forwards", b""),
    (b"proxy-authenticate", b""),
    (b"proxy-authorization", b""),
    (b"range", b""),
    (b"referer", b""),
    (b"refresh", b""),
    (b"retry-after", b""),
    (b"server", b""),
    (b"set-cookie", b""),
    (b"strict-transport-security", b""),
    (b"transfer-encoding", b""),
    (b"user-agent", b""),
    (b"vary", b""),
    (b"via", b""),
    (b"www-authenticate", b""),
)


# Decodes strings in the Huffman code of RFC 7541 (section 5.2, appendix B).
#
# The compiled build decodes by a table of the next 12 bits, which have up to two characters.
# Interpreted, that loop is slower than zlib in C, so the pure build lets zlib decode what it can.
#
# The code is canonical, like deflate's codes: the lengths of its codes define it. So zlib can use
# it as the code of a deflate block (RFC 1951 section 3.2.7). Three differences need work:
#
# - deflate's codes have at most 15 bits. HPACK's longer codes, of rare characters, begin with 15
#   ones. This prefix is the last code of 15 bits. A canonical code has it free for symbol 256, the
#   end of the block. So zlib stops at the first such character.
# - A string ends with up to 7 ones of padding. Enough ones after it end the block.
# - deflate fills each byte from its lowest bit, HPACK from its highest. ``bytes.translate``
#   reverses the bits.

_LENGTHS_IN_ORDER: Final = """
    13 23 28 28 28 28 28 28 28 24 30 28 28 30 28 28
    28 28 28 28 28 28 30 28 28 28 28 28 28 28 28 28
    6 10 10 12 13 6 8 11 10 10 8 11 8 6 6 6
    5 5 5 6 6 6 6 6 6 6 7 8 15 6 12 10
    13 6 7 7 7 7 7 7 7 7 7 7 7 7 7 7
    7 7 7 7 7 7 7 7 8 7 8 13 19 13 14 6
    15 5 6 5 6 5 6 6 6 5 7 7 6 6 6 5
    6 7 6 5 5 6 7 7 7 7 7 15 11 14 13 28
    20 22 20 20 22 22 22 23 22 23 23 23 23 23 24 23
    24 24 22 23 24 23 23 23 23 21 22 23 22 23 23 24
    22 21 20 22 22 23 23 21 23 22 22 24 21 22 23 23
    21 21 22 21 23 22 23 23 20 22 22 22 23 22 22 23
    26 26 20 19 22 23 22 25 26 26 26 27 27 26 24 25
    19 21 26 27 27 26 27 24 21 21 26 26 28 27 27 27
    20 24 20 21 22 21 21 23 22 22 25 25 24 24 26 23
    26 27 26 26 27 27 27 27 27 28 27 27 27 27 27 26
    30
"""
#: Bits of the code of each byte, and of EOS (256).
CODE_LENGTHS: Final = bytes(map(int, _LENGTHS_IN_ORDER.split()))
_EOS: Final = 256
_IS_COMPILED: Final = running() is Build.COMPILED
_LONGEST_OF_DEFLATE: Final = 15
#: The order of the lengths of deflate's codes for code lengths.
_LENGTHS_ORDER: Final = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15]

_REVERSED: Final = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))
#: The 15 ones that end a block, then a zero. An incomplete character uses some of the ones, and the
#: rest does not end the block.
_BLOCK_END: Final = b"\xff\x7f"
#: zlib uses its fast loop (inffast.c) while the output has room for deflate's longest match.
_FAST_ROOM: Final = 258


def huffman_decode(data: bytes) -> bytes:
    """Return the decoded bytes of ``data``: at most 8/5 of its length.

    Raises:
        ValueError: it has EOS, padding with a zero bit, or padding of more than 7 bits.
    """
    if not data:
        return b""
    if _IS_COMPILED:
        return _decode_by_table(data)
    inflater = _primed()
    # No code is shorter than 5 bits. Without a limit, zlib allocates 16 KiB for its output.
    room = 2 * len(data) + _FAST_ROOM
    decoded: bytes = inflater.decompress(data.translate(_REVERSED) + _BLOCK_END, room)
    if inflater.eof:
        # After 0 to 6 ones of padding, zlib finds the end in the second byte behind the string.
        # After 7 to 14 ones it finds the end in the first byte, after a long code before that.
        unread = len(inflater.unused_data)
        if not unread or (unread == 1 and (data[-1] != 0xFF or _padding(data, decoded) < 8)):
            return decoded
    return _decode_by_table(data)


def _padding(data: bytes, decoded: bytes) -> int:
    return 8 * len(data) - sum(decoded.translate(_CODE_LENGTHS))


_CODE_LENGTHS: Final = bytes(CODE_LENGTHS[:_EOS])


def _canonical(lengths: list[int]) -> dict[int, str]:
    """Return the code of each symbol with one, as binary digits (RFC 1951 section 3.2.2)."""
    codes: dict[int, str] = {}
    code = length = 0
    for symbol in sorted(range(len(lengths)), key=lambda symbol: (lengths[symbol], symbol)):
        if lengths[symbol]:
            code <<= lengths[symbol] - length
            length = lengths[symbol]
            codes[symbol] = f"{code:0{length}b}"
            code += 1
    return codes


def _deflate_head() -> bytes:
    """Return the first bytes of a deflate stream, up to the first character."""
    lengths = [bits if bits <= _LONGEST_OF_DEFLATE else 0 for bits in CODE_LENGTHS[:_EOS]]
    lengths.append(_LONGEST_OF_DEFLATE)
    used = sorted({*lengths, 0})
    # There are 11 lengths. Five codes of 3 bits and six of 4 bits are a complete code.
    of_lengths = [0] * 19
    for number, length in enumerate(used):
        of_lengths[length] = 3 if number < 5 else 4
    codes = _canonical(of_lengths)
    bits = [
        "010" + "0000000",  # an empty block first, so that the head fills whole bytes
        "101",  # the last block, with codes of its own
        "00000" + "00000" + "1111",  # 257 symbols, one distance, 19 lengths of length codes
        *(f"{of_lengths[length]:03b}"[::-1] for length in _LENGTHS_ORDER),
        *(codes[length] for length in lengths),
        codes[0],  # no distances
    ]
    whole = "".join(bits)
    assert len(whole) % 8 == 0
    return bytes(int(whole[at : at + 8][::-1], 2) for at in range(0, len(whole), 8))


_inflater: Final = zlib.decompressobj(-15)
_inflater.decompress(_deflate_head())
_primed: Final = _inflater.copy

#: Bits that one look-up sees, and the bits of the longest code, which is that of EOS: all ones.
_SEEN: Final = 12
_LONGEST: Final = 30
#: Ones behind a string. Its padding and they begin with EOS, so the decoder always finds an end.
_BEHIND: Final = b"\xff" * 8
#: The bits of an entry's characters and of the length of their codes; two characters make it larger
#: than the last number. Native integers of 64 bits are what makes the loop fast.
_CHARACTERS: Final = 0xFFFF
_BITS: Final = 16
_TWO: Final = 1 << 24


def _decode_by_table(data: bytes) -> bytes:
    decoded, padded = BytesWriter(), data + _BEHIND
    held: i64 = 0  # its lowest ``count`` bits come next
    count: i64 = 0
    at: i64 = 0
    while True:
        if count < _SEEN:
            held = (held & 0xFFF) << 16 | i64(padded[at]) << 8 | i64(padded[at + 1])
            at += 2
            count += 16
        key: i64 = (held >> (count - _SEEN)) & 0xFFF
        entry: i64 = i64(read_i32_le(_ENTRIES, key << 2))
        if entry > _TWO:
            write_i16_le(decoded, i16(entry & _CHARACTERS))
            count -= (entry - _TWO) >> _BITS
        elif entry:
            decoded.append(u8(entry & 0xFF))
            count -= entry >> _BITS
        else:
            while count < _LONGEST:
                held = (held & 0x3FFFFFFF) << 8 | i64(padded[at])
                at += 1
                count += 8
            code = (held >> (count - _LONGEST)) & 0x3FFFFFFF
            if code == 0x3FFFFFFF:  # EOS
                break
            character = _LONG_CHARACTERS[bisect(_LONG_CODES, code) - 1]
            decoded.append(u8(character))
            count -= CODE_LENGTHS[character]
    if not 0 <= count + 8 * (len(data) - at) < 8:
        raise ValueError("EOS or wrong padding in a Huffman-coded string")
    return decoded.getvalue()


def _entries() -> bytes:
    """Return by the next 12 bits: one or two characters and the bits of their codes, or 0."""
    entries = array("i", bytes(4 << _SEEN))
    codes = _canonical(list(CODE_LENGTHS))
    short = [(code, symbol) for symbol, code in codes.items() if len(code) <= _SEEN]
    pairs = [(a + b, first | last << 8 | _TWO) for a, first in short for b, last in short]
    for code, characters in (*short, *pairs):  # a pair replaces its first character
        if (free := _SEEN - len(code)) >= 0:
            start, entry = int(code, 2) << free, characters | len(code) << _BITS
            entries[start : start + (1 << free)] = array("i", [entry]) * (1 << free)
    if byteorder == "big":
        entries.byteswap()
    return entries.tobytes()


_ENTRIES: Final = _entries()
#: The longer codes in their order, each with the zeros that make it 30 bits, and their characters.
_LONG: Final = sorted(
    (int(code, 2) << (_LONGEST - len(code)), symbol)
    for symbol, code in _canonical(list(CODE_LENGTHS)).items()
    if len(code) > _SEEN and symbol != _EOS
)
_LONG_CODES: Final = [code for code, _ in _LONG]
_LONG_CHARACTERS: Final = [symbol for _, symbol in _LONG]


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
        memos: cleared with each change of the dynamic table. Between two changes, equal blocks have
            equal fields.
    """

    __slots__ = ("_limit", "_max_list", "_room", "_table", "_used", "memos")

    def __init__(self, max_list: int = MAX_LIST_BYTES) -> None:
        """Arguments: max_list: most bytes of a header list, with FIELD_OVERHEAD per field."""
        self.memos: tuple[dict[bytes, Any], ...] = ()
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
            self._clear_memos()
        return fields

    def _clear_memos(self) -> None:
        for memo in self.memos:
            memo.clear()

    def _resize(self, block: bytes, at: int, size: int, before: list[Any]) -> int:
        """Apply a dynamic table size update (section 6.3); return the position after it."""
        if before:
            raise ValueError("a table size update after a field")
        if size == 0x1F:
            size, at = _integer(block, at, 0x1F)
        if size > self._limit:
            raise ValueError("a table larger than the limit")
        self._clear_memos()
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
