"""Field lines: the activator checks and writes each once, and remembers a limited number."""

from __future__ import annotations

import hpack
import pytest

from activator.proxy.http2.hpack import name_prefix
from activator.proxy.http2.never_indexed import NeverIndexed
from activator.proxy.http2.section import MEMO_LINE_BYTES, MEMO_LINES, FieldLines, Treatment
from activator.proxy.message.grammar import FramingError


def no(value):
    raise FramingError("no")


TREATMENTS = {
    b"gone": Treatment(b""),
    b"once": Treatment(name_prefix(b"once"), kept=False),
    b"lower": Treatment(name_prefix(b"lower"), bytes.lower),
    b"no": Treatment(b"", no),
}


class Counted:
    """Counts how often a name is looked up."""

    def __init__(self):
        self.names = []

    def __call__(self, name):
        self.names.append(name)
        return TREATMENTS.get(name, Treatment(name_prefix(name)))


def decoded(block):
    return hpack.Decoder(max_header_list_size=1 << 24).decode(block, raw=True)


def test_lines_go_on_in_order_as_they_are_treated():
    lines = FieldLines(Counted())
    sent = [(b"a", b"1"), (b"gone", b"x"), (b"lower", b"ABC"), (b"once", b""), (b"a", b"2")]
    passed = [(b"a", b"1"), (b"lower", b"abc"), (b"once", b""), (b"a", b"2")]
    for _ in range(2):  # the second time from the memo
        assert decoded(lines.read(sent)) == passed
    assert (b"once", b"") not in lines.known


@pytest.mark.parametrize(
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
