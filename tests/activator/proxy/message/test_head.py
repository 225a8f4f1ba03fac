"""Split a head: no field is lost, and no line changes."""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_letters, digits

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from activator.proxy.message.fields import (
    RECURRING,
    REQUEST_FIELDS,
    RESPONSE_FIELDS,
)
from activator.proxy.message.grammar import (
    REQUEST_LINES,
    RESPONSE_LINES,
    FramingError,
    KnownLines,
    MessageHead,
)
from activator.proxy.message.request import RequestLimits, read_request

LIMITS = RequestLimits()

OURS = (
    *("Connection", "CONTENT-LENGTH", "expect", "hOsT", "Keep-Alive", "TE", "Te", "Trailer"),
    *("Transfer-Encoding", "Upgrade", "K-Network-Probe", "k-original-host", "X-Forwarded-For"),
    *("Knative-Serving-Revision", "Proxy-Connection", "Date", "HTTP2-Settings"),
)
OTHERS = ("Accept", "X-Y", "x_y", "Hos", "Hosts", "X_Forwarded_For", "content_length", "K_A", "!#$")
NAMES = st.sampled_from([*OURS, *OTHERS]) | st.text(
    "!#$&'*+.^_`|~-" + digits + ascii_letters, min_size=1, max_size=70
)
VALUES = st.text([chr(code) for code in (9, *range(0x20, 0x7F), *range(0x80, 0x100))], max_size=20)
LINES = st.lists(
    st.builds(
        lambda name, gap, value: f"{name}:{gap}{value}".encode("latin-1"),
        NAMES,
        st.sampled_from(["", " ", "\t ", "  "]),
        VALUES,
    ),
    max_size=14,
)


def split(
    known: KnownLines, start: bytes, lines: Sequence[bytes]
) -> tuple[bytes, dict[bytes, bytes], bytes]:
    """Return the start line, all fields that the proxy reads, and the other lines."""
    head = MessageHead(known, b"\r\n".join((start, *lines, b"", b"")))
    return head.start, dict(head.fields), head.block


def by_the_rules(
    names: frozenset[bytes], start: bytes, lines: Sequence[bytes], *, request: bool
) -> tuple[bytes, dict[bytes, bytes], bytes]:
    """Split a head by the words of RFC 9112 section 5 and RFC 9110 section 5.3.

    A field line is a name, a colon, optional white space and a value. A recipient may combine
    lines of one name, in their order, by a comma and a space. Names know no case.
    """
    fields: dict[bytes, bytes] = {}
    block = b""
    for line in lines:
        colon = line.index(b":")
        name = line[:colon].lower()
        value = line[colon + 1 :]
        while value[:1] in (b" ", b"\t"):
            value = value[1:]
        if name in names:
            if name in fields:
                before = fields[name]
                while before[-1:] in (b" ", b"\t"):
                    before = before[:-1]
                value = before + b", " + value
            fields[name] = value
        elif not (request and is_mistakable(name)):
            block += b"\r\n" + line
    return start, fields, block


def is_mistakable(name: bytes) -> bool:
    dashed = name.replace(b"_", b"-")
    exact = (b"host", b"content-length", b"transfer-encoding", b"forwarded")
    return dashed != name and (
        dashed in exact or dashed.startswith((b"k-", b"knative-", b"x-forwarded-"))
    )


@settings(deadline=None, max_examples=40)
@given(st.lists(LINES, min_size=1, max_size=4))
def test_heads_are_split_by_the_rules_and_keep_each_byte(heads):
    for known, names, start in (
        (REQUEST_LINES, REQUEST_FIELDS, b"GET /a:b HTTP/1.1"),
        (RESPONSE_LINES, RESPONSE_FIELDS, b"HTTP/1.1 200 :"),
    ):
        for lines in heads:
            kept = [line for line in lines if not has_its_place(line)]
            expected = by_the_rules(names, start, kept, request=known is REQUEST_LINES)
            found = split(known, start, kept)
            assert found == expected
            assert list(found[1]) == list(expected[1])


def has_its_place(line: bytes) -> bool:
    return line.partition(b":")[0].lower() in (b"host", b"date", b"content-length")


@settings(deadline=None, max_examples=40)
@given(st.lists(LINES, min_size=1, max_size=4))
def test_a_remembered_line_says_what_it_said_first(heads):
    for lines in heads:
        data = b"\r\n".join((b"GET / HTTP/1.1", *lines, b"", b""))
        fresh = MessageHead(KnownLines(REQUEST_FIELDS, bars_lookalikes=True), data)
        known = KnownLines(REQUEST_FIELDS, bars_lookalikes=True)
        known.remember(MessageHead(known, data).new)
        again = MessageHead(known, data)
        assert not [line for line in again.unchecked[1:] if name_of(line) in RECURRING]
        assert (again.fields, again.block) == (fresh.fields, fresh.block)
        assert (again.length, again.single, again.singles) == (
            *(fresh.length, fresh.single, fresh.singles),
        )


def name_of(line: bytes) -> bytes:
    return line.partition(b":")[0].lower()


@pytest.mark.parametrize(
    ("lines", "length"),
    [
        ((b"Content-Length: 5",), 5),
        ((b"content-length:\t05 ",), 5),
        ((b"Content-Length: 5", b"Content-Length: 6"), 6),
        ((b"Content-Length: +5",), -1),
        ((b"Content-Length: 1_0",), -1),
        ((b"Content-Length: ",), -1),
        ((b"Content-Length: " + b"9" * 20,), -1),
        ((b"Content-Lengths: 5",), -1),
    ],
)
def test_a_length_is_read_and_what_is_none_is_left_to_the_parser(lines, length):
    for _ in range(2):
        head = MessageHead(REQUEST_LINES, b"\r\n".join((b"POST / HTTP/1.1", *lines, b"", b"")))
        assert head.length == length
        assert head.is_odd == (lines[0][:15] in (b"Content-Length:",) and len(lines) + length != 6)


def test_repeated_values_are_joined_as_one_by_one():
    lines = [b"TE: a \t", b"te:", b"TE: \t", b"X: y", b"te: b", b"Upgrade:", b"te:", b"Upgrade: c "]
    start = b"GET / HTTP/1.1"
    expected = by_the_rules(REQUEST_FIELDS, start, lines, request=True)
    assert split(REQUEST_LINES, start, lines) == expected


def test_a_head_with_too_many_fields_is_refused_before_its_names_are_looked_at():
    head = b"GET / HTTP/1.1\r\n" + b"".join(b"n%d:\r\n" % n for n in range(2000)) + b"\r\n"
    before = dict(REQUEST_LINES.names)
    with pytest.raises(FramingError) as caught:
        read_request(head, LIMITS)
    assert caught.value.status == 431
    assert before == REQUEST_LINES.names
