"""The mark of a field that no table may hold, on its way from a header block to another."""

from __future__ import annotations

from activator.proxy.http2.hpack import Decoder
from activator.proxy.http2.never_indexed import NeverIndexed

PAIR = (b"authorization", b"secret")


def test_it_equals_its_pair_and_is_found_in_no_dict():
    marked = NeverIndexed(PAIR)
    assert marked == PAIR
    assert {PAIR: 1}.get(marked) is None


def test_the_decoder_marks_a_field_and_leaves_the_one_beside_it_plain():
    name, value = (bytes([len(text)]) + text for text in PAIR)
    marked, plain = Decoder().decode(b"\x10" + name + value + b"\x00" + name + value)
    assert (type(marked), type(plain)) == (NeverIndexed, tuple)
