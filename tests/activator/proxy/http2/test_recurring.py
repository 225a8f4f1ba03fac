"""Repeated blocks are read once, and never with the meaning of another table."""

from __future__ import annotations

import hpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from activator.proxy.http2.frames import ConnectionFault
from activator.proxy.http2.hpack import Decoder
from activator.proxy.http2.section import MOST, MOST_BYTES, MOST_REFERENCES, Recurring
from activator.proxy.message.grammar import FramingError

#: The newest entry of the dynamic table, by reference.
NEWEST = b"\xbe"


class Reader:
    """Reads, and counts what has to be read once more."""

    def __init__(self):
        self.asked = 0
        self.decoder = Decoder()
        self.recurring = Recurring(self.decoder, self._said)

    def read(self, block):
        return self.recurring.read(block)

    def _said(self, fields):
        self.asked += 1
        return list(fields)


def added(name, value):
    """A literal that goes into the table."""
    return b"\x40" + bytes([len(name)]) + name + bytes([len(value)]) + value


def test_a_block_of_references_is_read_once():
    reader = Reader()
    reader.read(added(b"a", b"1"))
    first = reader.read(b"\x82" + NEWEST)
    assert first == [(b":method", b"GET"), (b"a", b"1")]
    assert reader.read(b"\x82" + NEWEST) is first
    assert reader.asked == 2


def test_another_table_makes_another_meaning():
    reader = Reader()
    reader.read(added(b"a", b"1"))
    assert reader.read(NEWEST) == [(b"a", b"1")]
    reader.read(added(b"b", b"2"))
    assert reader.read(NEWEST) == [(b"b", b"2")]
    reader.decoder.decode(added(b"c", b"3"))  # by a reader of another kind of sections
    assert reader.read(NEWEST) == [(b"c", b"3")]
    reader.decoder.decode(b"\x20")  # a table without room
    with pytest.raises(ConnectionFault):
        reader.read(NEWEST)


@pytest.mark.parametrize("literal", [b"\x0f\x1f\x01v", b"\x10\x01n\x01v", b"\x00\x01n\x01v"])
def test_what_is_written_out_is_not_remembered(literal):
    reader = Reader()
    assert reader.read(literal) == reader.read(literal)
    assert reader.asked == 2


@pytest.mark.parametrize("name", [b"authorization", b"cookie", b"set-cookie"])
def test_secrets_are_not_remembered(name):
    reader = Reader()
    reader.read(added(name, b"secret"))
    assert reader.read(NEWEST) == reader.read(NEWEST) == [(name, b"secret")]
    assert reader.asked == 3


def test_what_cannot_be_read_is_not_remembered():
    def refuse(fields):
        raise FramingError("never")

    reader = Recurring(Decoder(), refuse)
    for _ in range(2):
        with pytest.raises(FramingError):
            reader.read(b"\x82")


def test_no_client_fills_it():
    reader = Reader()
    blocks = [bytes([0x80 + index]) for index in range(1, 62)]
    for block in blocks:
        reader.read(block)
    assert len(reader.recurring.known) <= MOST
    long = b"\x82" * (MOST_REFERENCES + 1)
    assert reader.read(long) is not reader.read(long)
    reader.read(
        b"\x40\x01a\x7f"
        + bytes([0x80 | (MOST_BYTES // 2 - 127) & 0x7F])
        + bytes([(MOST_BYTES // 2 - 127) >> 7])
        + b"v" * (MOST_BYTES // 2)
    )
    large = NEWEST * 2
    assert reader.read(large) is not reader.read(large)


FIELDS = st.tuples(st.sampled_from([b"a", b"b", b":path"]), st.sampled_from([b"1", b"2", b"/"]))


@settings(deadline=None)
@given(st.lists(st.lists(FIELDS, max_size=4), max_size=30), st.integers(0, 200))
def test_it_says_what_a_decoder_says_that_remembers_nothing(sections, table):
    encoder = hpack.Encoder()
    encoder.header_table_size = table  # small enough that entries fall out of it
    reader, plain = Reader(), Decoder()
    for section in sections:
        block = encoder.encode(section)
        assert reader.read(block) == plain.decode(block) == section
