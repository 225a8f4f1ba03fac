"""Huffman-coded strings: zlib reads them, and never reads anything that is not one."""

from __future__ import annotations

from itertools import product

from hpack.exceptions import HPACKDecodingError
from hpack.huffman import HuffmanEncoder
from hpack.huffman_constants import REQUEST_CODES, REQUEST_CODES_LENGTH
from hpack.huffman_table import decode_huffman
from hypothesis import example, given, settings
from hypothesis import strategies as st

from activator.proxy.http2 import hpack
from tests.rows import in_one_test

LIBRARY = HuffmanEncoder(REQUEST_CODES, REQUEST_CODES_LENGTH)
#: Codes of 5 to 15 bits, which zlib knows, and some that it does not.
SHORT_CODES = b"0e -:;&!A?'+#$@~^}<`{"
LONG_CODES = b"\\\x00\n\x16\x7f\x80\xc3\xf9\xff"


def verdict(decode, data):
    try:
        return decode(data)
    except (ValueError, HPACKDecodingError):
        return None


def test_the_table_is_that_of_the_rfc():
    assert list(REQUEST_CODES_LENGTH) == list(hpack.CODE_LENGTHS)


def test_each_length_of_code_at_each_place_of_a_byte():
    for byte, length in product((*SHORT_CODES, *LONG_CODES), range(12)):
        text = b"0" * length + bytes((byte,)) + b"t" * (length % 3)
        assert hpack.huffman_decode(LIBRARY.encode(text)) == text


def test_every_byte_has_its_code():
    text = bytes(range(256))
    assert hpack.huffman_decode(LIBRARY.encode(text)) == text
    for byte in text:
        assert hpack.huffman_decode(LIBRARY.encode(bytes((byte,)))) == bytes((byte,))


@settings(deadline=None)
@given(st.text(max_size=200).map(str.encode) | st.binary(max_size=200))
@example(b"")
@example(b"a" * 100_000)
@example(LONG_CODES * 1000)
def test_what_the_library_encodes(text):
    assert hpack.huffman_decode(LIBRARY.encode(text)) == text


@settings(deadline=None, max_examples=200)
@given(
    st.text("0e-:&7oZX<{\\\xff", max_size=12).map(
        lambda text: LIBRARY.encode(text.encode("latin-1"))
    ),
    st.binary(max_size=4) | st.sampled_from([b"\xff" * n for n in range(6)]),
    st.integers(0, 40),
)
@example(b"", b"\xff", 0)
@example(LIBRARY.encode(b"1"), b"\xff", 0)
@example(b"", b"\x3f\xff\xff\xff", 0)
def test_the_library_s_verdict_on_anything(front, behind, cut):
    """Bad padding, too much of it, EOS, a code that is cut off: refused just where it is there."""
    data = (front + behind)[: cut or None]
    assert verdict(hpack.huffman_decode, data) == verdict(decode_huffman, data)


@in_one_test("padding", range(8))
def test_padding_of_up_to_seven_ones_passes_and_no_other(padding):
    """'1' has 5 bits, ':' 7, so each padding can be made."""
    text = next(
        b"1" * ones + b":" * colons
        for ones in range(8)
        for colons in range(2)
        if -(5 * ones + 7 * colons) % 8 == padding and ones + colons
    )
    data = LIBRARY.encode(text)
    assert hpack.huffman_decode(data) == text
    assert verdict(hpack.huffman_decode, data + b"\xff") is None
    if padding:
        assert verdict(hpack.huffman_decode, data[:-1] + bytes((data[-1] ^ 1,))) != text


def test_no_string_grows_by_more_than_eight_fifths():
    data = bytes(10_000)  # '0' has the shortest code: five zeros
    assert hpack.huffman_decode(data) == b"0" * 16_000
