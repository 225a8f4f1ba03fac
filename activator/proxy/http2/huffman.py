"""Decodes strings in the Huffman code of RFC 7541 (section 5.2, appendix B), by zlib.

The code is canonical, like deflate's codes: the lengths of its codes define it. So zlib can use it
as the code of a deflate block (RFC 1951 section 3.2.7). Then zlib decodes HPACK's strings in C.
Three differences need work:

- deflate's codes have at most 15 bits. HPACK's longer codes, of rare characters, begin with 15
  ones. This prefix is the last code of 15 bits. A canonical code has it free for symbol 256, the
  end of the block. So zlib stops at the first such character.
- A string ends with up to 7 ones of padding. Enough ones after it end the block.
- deflate fills each byte from its lowest bit, HPACK from its highest. ``bytes.translate`` reverses
  the bits.

A table of half bytes decodes strings that zlib has not read to the end. It follows all rules.
"""

from __future__ import annotations

import zlib
from functools import cache
from typing import Final

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
_LONGEST_OF_DEFLATE: Final = 15
#: The order of the lengths of deflate's codes for code lengths.
_LENGTHS_ORDER: Final = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15]

_REVERSED: Final = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))
#: The 15 ones that end a block, then a zero. An incomplete character uses some of the ones, and the
#: rest does not end the block.
_BLOCK_END: Final = b"\xff\x7f"
#: zlib uses its fast loop (inffast.c) while the output has room for deflate's longest match.
_FAST_ROOM: Final = 258


def decode(data: bytes) -> bytes:
    """Return the decoded bytes of ``data``: at most 8/5 of its length.

    Raises:
        ValueError: it has EOS, padding with a zero bit, or padding of more than 7 bits.
    """
    if not data:
        return b""
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
    return 8 * len(data) - sum(decoded.translate(_LENGTHS))


_LENGTHS: Final = bytes(CODE_LENGTHS[:_EOS])


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

#: The transitions of a state by half byte: the next row, and the bytes that are complete.
_Row = list["tuple[_Row, bytes] | None"]


def _decode_by_table(data: bytes) -> bytes:
    start, accepting = _table()
    row = start
    decoded: list[bytes] = []
    try:
        for byte in data:
            row, high = row[byte >> 4]  # type: ignore[misc] # None is EOS, a TypeError
            row, low = row[byte & 15]  # type: ignore[misc] # as above
            decoded += (high, low)
    except TypeError:
        raise ValueError("EOS in a Huffman-coded string") from None
    if id(row) not in accepting:
        raise ValueError("wrong padding of a Huffman-coded string")
    return b"".join(decoded)


@cache
def _table() -> tuple[_Row, frozenset[int]]:
    """Return the first row, and the ids of the rows in which a string may end: 256 rows of 16."""
    symbols = {code: symbol for symbol, code in _canonical(list(CODE_LENGTHS)).items()}
    rows: dict[str, _Row] = {code[:bits]: [] for code in symbols for bits in range(len(code))}
    for prefix, row in rows.items():
        row.extend(_step(prefix + f"{half:04b}", symbols, rows) for half in range(16))
    return rows[""], frozenset(id(rows["1" * bits]) for bits in range(8))


def _step(bits: str, symbols: dict[str, int], rows: dict[str, _Row]) -> tuple[_Row, bytes] | None:
    completed = b""
    begun = ""
    for bit in bits:
        begun += bit
        symbol = symbols.get(begun)
        if symbol == _EOS:
            return None
        if symbol is not None:
            completed += bytes((symbol,))
            begun = ""
    return rows[begun], completed
