"""Header sections: their lines, memos and recurring blocks."""

from __future__ import annotations

import hpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from activator.proxy.http2.frames import ConnectionFault
from activator.proxy.http2.hpack import Decoder, line, name_prefix
from activator.proxy.http2.never_indexed import NeverIndexed
from activator.proxy.http2.section import (
    MEMO_LINE_BYTES,
    MEMO_LINES,
    MOST,
    MOST_BYTES,
    MOST_REFERENCES,
    FieldLines,
    NameTreatment,
    Recurring,
    block_of,
    forwarded,
    traced_section,
    with_priority,
    without_context,
)
from activator.proxy.message.fields import HTTP_2, is_handled, lines_of
from activator.proxy.message.grammar import FramingError
from activator.proxy.message.request import Request
from tests.rows import in_one_test


def test_lines_become_a_block():
    block = block_of(b"\r\nContent-Type: text/plain\r\nX-A:  b:c \r\n", without=(b"x-b",))
    assert Decoder().decode(block) == [(b"content-type", b"text/plain"), (b"x-a", b"b:c")]


def test_a_line_may_be_left_out():
    assert block_of(b"\r\nContent-Type: text/plain", without=(b"content-type",)) == b""


def test_fields_become_lines():
    fields = {b":path": b"/", b"a": b"b", b"te": b"trailers"}
    assert lines_of(fields, without=(b"te",)) == b"\r\na: b"


def test_the_context_of_a_trace_is_left_out_and_secrets_stay_secret():
    block = without_context(
        {
            b":path": b"/",
            b"traceparent": b"00-1-2-01",
            b"k-original-host": b"h",
            b"te": b"trailers",
            b"x_forwarded_for": b"1.2.3.4",
            b"authorization": b"s",
        }
    )
    fields = Decoder().decode(block)
    assert fields == [(b"te", b"trailers"), (b"authorization", b"s")]
    assert isinstance(fields[1], NeverIndexed)


def test_a_trace_keeps_the_class_only_of_a_request_that_may_select_it():
    fields = {b"activator-priority": b"high", b"a": b"b"}
    section = line(b":path", b"/") + line(b"a", b"b") + forwarded(b"h", fields, b"::1")
    bare = Request(b"GET", b"/", HTTP_2, b"h", fields, None, section=section)
    passing = with_priority(bare, b"::1")
    found = [
        dict(Decoder().decode(traced_section(each, each.section, b"::1")))
        for each in (bare, passing)
    ]
    assert [each.get(b"activator-priority") for each in found] == [None, b"high"]
    assert passing.section.endswith(forwarded(b"h", fields, b"::1"))


def test_the_activators_own_fields_are_known():
    assert is_handled(b"k-network-probe")
    assert not is_handled(b"accept")


def no(value):
    raise FramingError("no")


TREATMENTS = {
    b"gone": NameTreatment(b""),
    b"once": NameTreatment(name_prefix(b"once"), kept=False),
    b"lower": NameTreatment(name_prefix(b"lower"), bytes.lower),
    b"no": NameTreatment(b"", no),
}


class Counted:
    """Counts how often a name is looked up."""

    def __init__(self):
        self.names = []

    def __call__(self, name):
        self.names.append(name)
        return TREATMENTS.get(name, NameTreatment(name_prefix(name)))


def decoded(block):
    return hpack.Decoder(max_header_list_size=1 << 24).decode(block, raw=True)


def test_lines_go_on_in_order_as_they_are_treated():
    lines = FieldLines(Counted())
    sent = [(b"a", b"1"), (b"gone", b"x"), (b"lower", b"ABC"), (b"once", b""), (b"a", b"2")]
    passed = [(b"a", b"1"), (b"lower", b"abc"), (b"once", b""), (b"a", b"2")]
    for _ in range(2):  # the second time from the memo
        assert decoded(lines.read(sent)) == passed
    assert (b"once", b"") not in lines.known


@in_one_test(
    "field",
    [
        *(
            (name, b"v")
            for name in (
                b"",
                b"A",
                b"x y",
                b"x:",
                b":x:",
                b"a\x00",
                b"\xc3\xa4",
                b"a\r\nb",
                b"::a",
                b'"',
            )
        ),
        *(
            (b"a", value)
            for value in (b" v", b"v\t", b"\tv", b"a\r\nb: c", b"a\nb", b"a\x00b", b"\x7f", b"\x1f")
        ),
        (b"no", b"v"),
    ],
)
def test_a_malformed_line_is_refused_each_time(field):
    lines = FieldLines(Counted())
    for never in (False, True, False):
        with pytest.raises(FramingError):
            lines.read([(b"a", b"1"), NeverIndexed(field) if never else field])
    assert field not in lines.known


@pytest.mark.parametrize("value", [b"", b"a\tb c", bytes(range(0x80, 0x100)), b"a: b"])
def test_a_value_may_be_anything_else(value):
    assert decoded(FieldLines(Counted()).read([(b"a", value)])) == [(b"a", value)]


def test_a_field_that_must_not_be_indexed_stays_so_and_is_not_remembered():
    lines = FieldLines(Counted())
    plain = lines.read([(b"a", b"secret")])
    passed = decoded(lines.read([NeverIndexed((b"a", b"secret"))]))
    assert isinstance(passed[0], hpack.NeverIndexedHeaderTuple)
    assert not isinstance(decoded(plain)[0], hpack.NeverIndexedHeaderTuple)
    lines = FieldLines(Counted())
    lines.read([NeverIndexed((b"a", b"secret")), NeverIndexed((b"gone", b"secret"))])
    assert not lines.known


def test_names_and_lines_that_never_come_again_leave_nothing_behind():
    counted = Counted()
    lines = FieldLines(counted)
    for number in range(5 * MEMO_LINES):
        lines.read([(b"x-%d" % number, b"v"), (b"known", b"v")])
        assert len(lines.known) <= MEMO_LINES
        assert len(lines.names) <= MEMO_LINES
    # What is sent with each message is hardly ever learned again.
    assert counted.names.count(b"known") < 15


def test_long_lines_are_not_remembered():
    lines = FieldLines(Counted())
    long = b"x" * MEMO_LINE_BYTES
    lines.read([(b"a", long), (b"a" + long, b"")])
    assert not lines.known
    assert list(lines.names) == [b"a"]


#: The newest entry of the dynamic table, by reference.
NEWEST = b"\xbe"


class Reader:
    """Reads, and counts what has to be read once more."""

    def __init__(self):
        self.asked = 0
        self.decoder = Decoder()
        self.recurring = Recurring(self.decoder, self._said)

    def read(self, block):
        known = self.recurring.known.get(block)
        return self.recurring.read(block) if known is None else known

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
