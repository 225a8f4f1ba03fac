"""Header compression: the RFC's own examples, and the library as the other end."""

from __future__ import annotations

import tracemalloc

import hpack
import hpack.table
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from activator.proxy.http2.frames import ConnectionFault, ErrorCode
from activator.proxy.http2.hpack import (
    MAX_LIST_BYTES,
    NO_TABLE,
    STATIC_TABLE,
    Decoder,
    line,
    name_prefix,
    string,
)
from activator.proxy.http2.never_indexed import NeverIndexed
from activator.proxy.message.grammar import FramingError
from tests.rows import in_one_test

#: RFC 7541 appendix C: blocks of one connection in order, their fields, and the final dynamic
#: table, newest entry first.
FIRST = [
    (b":method", b"GET"),
    (b":scheme", b"http"),
    (b":path", b"/"),
    (b":authority", b"www.example.com"),
]
SECOND = [*FIRST, (b"cache-control", b"no-cache")]
THIRD = [
    (b":method", b"GET"),
    (b":scheme", b"https"),
    (b":path", b"/index.html"),
    (b":authority", b"www.example.com"),
    (b"custom-key", b"custom-value"),
]
REQUESTS_TABLE = [
    (b"custom-key", b"custom-value"),
    (b"cache-control", b"no-cache"),
    (b":authority", b"www.example.com"),
]
DATE = (b"date", b"Mon, 21 Oct 2013 20:13:21 GMT")
LATER = (b"date", b"Mon, 21 Oct 2013 20:13:22 GMT")
LOCATION = (b"location", b"https://www.example.com")
COOKIE = (b"set-cookie", b"foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1")
ANSWERS = [
    [(b":status", b"302"), (b"cache-control", b"private"), DATE, LOCATION],
    [(b":status", b"307"), (b"cache-control", b"private"), DATE, LOCATION],
    [
        (b":status", b"200"),
        (b"cache-control", b"private"),
        LATER,
        LOCATION,
        (b"content-encoding", b"gzip"),
        COOKIE,
    ],
]
ANSWERS_TABLE = [COOKIE, (b"content-encoding", b"gzip"), LATER]
#: The RFC's examples of responses have a table of 256 bytes.
TABLE_OF_256 = b"\x3f\xe1\x01"

APPENDIX_C = {
    "C.2.1": (
        ["400a637573746f6d2d6b65790d637573746f6d2d686561646572"],
        [[(b"custom-key", b"custom-header")]],
        [(b"custom-key", b"custom-header")],
    ),
    "C.2.2": (["040c2f73616d706c652f70617468"], [[(b":path", b"/sample/path")]], []),
    "C.2.3": (["100870617373776f726406736563726574"], [[(b"password", b"secret")]], []),
    "C.2.4": (["82"], [[(b":method", b"GET")]], []),
    "C.3": (
        [
            "828684410f7777772e6578616d706c652e636f6d",
            "828684be58086e6f2d6361636865",
            "828785bf400a637573746f6d2d6b65790c637573746f6d2d76616c7565",
        ],
        [FIRST, SECOND, THIRD],
        REQUESTS_TABLE,
    ),
    "C.4": (
        [
            "828684418cf1e3c2e5f23a6ba0ab90f4ff",
            "828684be5886a8eb10649cbf",
            "828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf",
        ],
        [FIRST, SECOND, THIRD],
        REQUESTS_TABLE,
    ),
    "C.5": (
        [
            TABLE_OF_256.hex()
            + "4803333032580770726976617465611d4d6f6e2c203231204f637420323031332032"
            "303a31333a323120474d546e1768747470733a2f2f7777772e6578616d706c652e636f6d",
            "4803333037c1c0bf",
            "88c1611d4d6f6e2c203231204f637420323031332032303a31333a323220474d54c05a04677a69707738666f"
            "6f3d4153444a4b48514b425a584f5157454f50495541585157454f49553b206d61782d6167653d333630303b"
            "2076657273696f6e3d31",
        ],
        ANSWERS,
        ANSWERS_TABLE,
    ),
    "C.6": (
        [
            TABLE_OF_256.hex()
            + "488264025885aec3771a4b6196d07abe941054d444a8200595040b8166e082a62d1b"
            "ff6e919d29ad171863c78f0b97c8e9ae82ae43d3",
            "4883640effc1c0bf",
            "88c16196d07abe941054d444a8200595040b8166e084a62d1bffc05a839bd9ab77ad94e7821dd7f2e6c7b335"
            "dfdfcd5b3960d5af27087f3672c1ab270fb5291f9587316065c003ed4ee5b1063d5007",
        ],
        ANSWERS,
        ANSWERS_TABLE,
    ),
}


def compression_error(decode, *arguments):
    with pytest.raises(ConnectionFault) as caught:
        decode(*arguments)
    assert caught.value.code is ErrorCode.COMPRESSION_ERROR
    return caught.value.reason


@in_one_test("name", APPENDIX_C)
def test_the_examples_of_the_rfc(name):
    blocks, expected, table = APPENDIX_C[name]
    decoder = Decoder()
    assert [decoder.decode(bytes.fromhex(block)) for block in blocks] == expected
    assert decoder.decode(bytes(range(0xBE, 0xBE + len(table)))) == table
    compression_error(decoder.decode, bytes((0xBE + len(table),)))


# The library's encoder.

NAMES = st.sampled_from([b":path", b"x-request-id", b"cookie", b"accept", b"a", b"b" * 200])
VALUES = st.binary(max_size=40) | st.sampled_from([b"", b"/", b"x" * 126, b"x" * 127, b"y" * 5000])
LISTS = st.lists(st.tuples(NAMES, VALUES, st.booleans()), max_size=8)


@settings(deadline=None, max_examples=80)
@given(st.lists(st.tuples(LISTS, st.booleans(), st.none() | st.integers(0, 4096)), max_size=12))
def test_what_the_library_encodes(blocks):
    encoder, decoder = hpack.Encoder(), Decoder()
    for fields, coded, table in blocks:
        if table is not None:
            encoder.header_table_size = table
        decoded = decoder.decode(encoder.encode(fields, huffman=coded))
        assert decoded == [(name, value) for name, value, _ in fields]
        # The library refers to entries that are indexed already.
        for field, (_, _, sensitive) in zip(decoded, fields, strict=True):
            assert sensitive or not isinstance(field, NeverIndexed)


@settings(deadline=None, max_examples=200)
@given(
    st.lists(
        st.binary(max_size=24)
        | st.lists(
            st.sampled_from(
                [bytes((byte,)) for byte in (0x82, 0xBE, 0xC0, 0xFF, 0x80, 0x20, 0x3F, 0x7F, 0x41)]
                + [
                    b"\x40\x01a\x01b",
                    b"\x00\x01a\x01b",
                    b"\x10\x01a\x81\x1f",
                    b"\x5f\x00",
                    b"\xff\x00",
                ]
            ),
            max_size=8,
        ).map(b"".join),
        max_size=4,
    )
)
@example([b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"])
def test_the_library_s_fields_of_anything(blocks):
    """Nothing but the declared errors, and whatever both take says the same to both."""
    library, decoder = hpack.Decoder(max_header_list_size=1 << 20), Decoder(1 << 20)
    for block in blocks:
        try:
            theirs = library.decode(block, raw=True)
        except hpack.HPACKError:
            compression_error(decoder.decode, block)
            return
        assert decoder.decode(block) == theirs


def test_a_block_cut_anywhere_is_an_error_or_ends_behind_a_field():
    encoder = hpack.Encoder()
    first = encoder.encode([(b"x-request-id", b"0123456789" * 30)])
    block = first + encoder.encode([(b"a", b"b")])
    for end in range(1, len(block)):
        if end == len(first):
            assert len(Decoder().decode(block[:end])) == 1
        else:
            compression_error(Decoder().decode, block[:end])


# The dynamic table.


def test_a_field_larger_than_the_table_empties_it():
    decoder = Decoder()
    decoder.decode(b"\x40\x01a\x01b")
    large = b"\x40\x01a" + string(b"x" * 4064)
    assert decoder.decode(large) == [(b"a", b"x" * 4064)]
    compression_error(decoder.decode, b"\xbe")


def test_a_field_as_large_as_the_table_is_the_only_one():
    decoder = Decoder()
    decoder.decode(b"\x40\x01a\x01b" + b"\x40\x01a" + string(b"x" * 4063))
    assert decoder.decode(b"\xbe") == [(b"a", b"x" * 4063)]
    compression_error(decoder.decode, b"\xbf")


def test_a_table_may_be_full_to_the_last_byte():
    decoder = Decoder()
    small, large = b"\x40\x01a" + string(b"x" * 67), b"\x40\x01b" + string(b"x" * 3963)
    decoder.decode(small + large)  # 100 and 3,996 bytes
    assert len(decoder.decode(b"\xbe\xbf")) == 2
    decoder.decode(small)
    assert [name for name, _ in decoder.decode(b"\xbe\xbf")] == [b"a", b"b"]
    compression_error(decoder.decode, b"\xc0")


def test_a_name_may_be_that_of_the_field_that_makes_room_for_it():
    """RFC 7541 section 4.4: the entry is referred to before it is evicted."""
    decoder = Decoder()
    decoder.decode(b"\x40\x04name" + string(b"x" * 4060))
    assert decoder.decode(b"\x7e" + string(b"y" * 4060)) == [(b"name", b"y" * 4060)]
    assert decoder.decode(b"\xbe") == [(b"name", b"y" * 4060)]


def test_an_update_is_taken_at_the_beginning_only():
    assert Decoder().decode(b"\x20\x3f\xe1\x1f\x82") == [(b":method", b"GET")]  # 0, then 4096
    assert "after a field" in compression_error(Decoder().decode, b"\x82\x20")


def test_no_table_is_larger_than_was_offered():
    assert "larger" in compression_error(Decoder().decode, b"\x3f\xe2\x1f")  # 4097


@pytest.mark.parametrize(
    ("block", "changes"),
    [
        (b"\x82", 0),
        (b"\x00\x01a\x01b", 0),
        (b"\x10\x01a\x01b", 0),
        (b"\x40\x01a\x01b", 1),
        (b"\x20", 1),
    ],
)
def test_memos_stay_while_a_block_still_means_the_same(block, changes):
    decoder, memo = Decoder(), {b"\xbe": None}
    decoder.memos = (memo,)
    decoder.decode(block)
    assert (not memo) is bool(changes)


# Attacks.


def test_a_bomb_is_refused_before_it_costs_memory():
    """A field of 4 KiB, named by each of 16,000 bytes: 62 MB (CVE-2016-6581)."""
    decoder = Decoder()
    decoder.decode(b"\x40\x01a" + string(b"x" * 4000))
    tracemalloc.start()
    with pytest.raises(FramingError) as caught:
        decoder.decode(b"\xbe" * 16_000)
    assert caught.value.status == 431
    # Joined once to be counted would be 64 MB.
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()
    assert decoder.decode(b"\xbe") == [(b"a", b"x" * 4000)]  # the connection lives


@pytest.mark.parametrize(
    ("length", "passes"), [(MAX_LIST_BYTES - 33, True), (MAX_LIST_BYTES - 32, False)]
)
def test_a_list_counts_names_values_and_32_bytes_a_field(length, passes):
    block = b"\x00\x01a" + string(b"x" * length)
    if passes:
        assert Decoder().decode(block) == [(b"a", b"x" * length)]
    else:
        with pytest.raises(FramingError):
            Decoder().decode(block)


def test_many_small_fields_are_too_large_as_well():
    assert len(Decoder().decode(b"\x82" * 1524)) == 1524
    with pytest.raises(FramingError):
        Decoder().decode(b"\x82" * 1600)


@in_one_test(
    "block",
    [
        b"\x80",
        b"\x80\x01a\x01b",
        b"\xff",
        b"\xff\x80\x80\x80\x80\x80\x80\x00",
        b"\x7f\xff\xff\xff\xff\xff\xff\x01",
        b"\x00\x7f\xff\xff\xff\xff\x0f",
        b"\x00\xff\xff\xff\xff\xff\x0f",
        b"\xbe",
        b"\x7f\x00\x00",
        b"\x00",
        b"\x00\x01",
        b"\x00\x01a",
        b"\x00\x01a\x02b",
        b"\x00\x01a\x82\x1f",
        b"\x00\x01a\x84\xff\xff\xff\xff",
    ],
)
def test_nonsense_is_a_compression_error(block):
    compression_error(Decoder().decode, block)


# What is written.


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.text("abc-:", min_size=1).map(str.encode), VALUES, st.booleans()), max_size=8
    )
)
@example([(b":method", b"GET", False), (b":path", b"/", True), (b"www-authenticate", b"x", True)])
def test_lines_are_the_same_to_the_library_and_to_us(fields):
    block = NO_TABLE + b"".join(
        line(name, value, never_indexed=never) for name, value, never in fields
    )
    expected = [(name, value) for name, value, _ in fields]
    theirs = hpack.Decoder(max_header_list_size=1 << 20).decode(block, raw=True)
    assert theirs == expected
    assert [isinstance(each, hpack.NeverIndexedHeaderTuple) for each in theirs] == [
        never for _, _, never in fields
    ]
    ours = Decoder(1 << 20).decode(block)
    assert ours == expected
    assert [isinstance(each, NeverIndexed) for each in ours] == [never for _, _, never in fields]


def test_what_is_written_asks_for_no_table():
    decoder = hpack.Decoder()
    decoder.decode(NO_TABLE + line(b"x-a", b"b") + line(b"accept", b"b"))
    assert decoder.header_table_size == 0
    assert not decoder.header_table.dynamic_entries


def test_short_forms():
    assert line(b":method", b"GET") == b"\x82"
    assert name_prefix(b"accept") == b"\x0f\x04"
    assert string(b"x" * 127)[:2] == b"\x7f\x00"


def test_a_field_that_is_never_indexed_is_in_no_memo():
    field = Decoder().decode(b"\x10\x01a\x01b")[0]
    assert field == (b"a", b"b")
    assert field not in {(b"a", b"b"): 1}
    assert dict([field]) == {b"a": b"b"}


#: A field that no table may hold.
SECRET = (b"authorization", b"secret")


def test_a_field_that_is_never_indexed_equals_its_pair_and_is_found_in_no_dict():
    marked = NeverIndexed(SECRET)
    assert marked == SECRET
    assert {SECRET: 1}.get(marked) is None


def test_the_decoder_marks_a_field_and_leaves_the_one_beside_it_plain():
    name, value = (bytes([len(text)]) + text for text in SECRET)
    marked, plain = Decoder().decode(b"\x10" + name + value + b"\x00" + name + value)
    assert (type(marked), type(plain)) == (NeverIndexed, tuple)


def test_the_static_table_is_that_of_the_rfc():
    assert STATIC_TABLE == hpack.table.HeaderTable.STATIC_TABLE
    assert len(STATIC_TABLE) == 61
