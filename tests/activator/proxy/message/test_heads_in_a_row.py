"""Heads read one after the other: what is remembered of one changes nothing for the next."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import httptools
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from activator.proxy.message import request as requests
from activator.proxy.message import response as responses
from activator.proxy.message.fields import (
    MEMO_NAME_BYTES,
    MEMO_NAMES,
    REQUEST_FIELDS,
    RESPONSE_FIELDS,
    FieldNames,
    split_head,
)
from activator.proxy.message.grammar import FramingError, check_request
from activator.proxy.message.request import Request, RequestLimits, read_request
from activator.proxy.message.response import Response, read_response

LIMITS = RequestLimits()
#: After it the parser is a new one.
REFUSED = b"GET / HTTP/1.1\r\nHost: h\r\nX : y\r\n\r\n"

# -- splitting --------------------------------------------------------------------------------

OURS = (
    *("Connection", "CONTENT-LENGTH", "expect", "hOsT", "Keep-Alive", "TE", "Te", "Trailer"),
    *("Transfer-Encoding", "Upgrade", "K-Network-Probe", "k-original-host", "X-Forwarded-For"),
    *("Knative-Serving-Revision", "Proxy-Connection", "Date", "HTTP2-Settings"),
)
OTHERS = ("Accept", "X-Y", "x_y", "Hos", "Hosts", "X_Forwarded_For", "content_length", "K_A", "!#$")
NAMES = st.sampled_from([*OURS, *OTHERS]) | st.from_regex(r"\A[!#$&'*+.^_`|~0-9A-Za-z-]{1,70}\Z")
VALUES = st.text(
    st.characters(min_codepoint=0x20, max_codepoint=0xFF, exclude_characters="\x7f")
    | st.just("\t"),
    max_size=20,
)
LINES = st.lists(
    st.builds(
        lambda name, gap, value: f"{name}:{gap}{value}".encode("latin-1"),
        NAMES,
        st.sampled_from(["", " ", "\t ", "  "]),
        VALUES,
    ),
    max_size=14,
)


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


@settings(deadline=None, max_examples=300)
@given(st.lists(LINES, min_size=1, max_size=4))
def test_heads_are_split_by_the_rules_and_keep_each_byte(heads):
    for names, start in (
        (REQUEST_FIELDS, b"GET /a:b HTTP/1.1"),
        (RESPONSE_FIELDS, b"HTTP/1.1 200 :"),
    ):
        for lines in heads:
            expected = by_the_rules(names.names, start, lines, request=names is REQUEST_FIELDS)
            found = split_head(names, b"\r\n".join((start, *lines)))
            assert found == expected
            assert list(found[1]) == list(expected[1])


def test_repeated_values_are_joined_as_one_by_one():
    lines = [b"TE: a \t", b"te:", b"TE: \t", b"X: y", b"te: b", b"Upgrade:", b"te:", b"Upgrade: c "]
    start = b"GET / HTTP/1.1"
    expected = by_the_rules(REQUEST_FIELDS.names, start, lines, request=True)
    assert split_head(REQUEST_FIELDS, b"\r\n".join((start, *lines))) == expected


def test_a_head_with_too_many_fields_is_refused_before_its_names_are_looked_at():
    head = b"GET / HTTP/1.1\r\n" + b"".join(b"n%d:\r\n" % n for n in range(2000)) + b"\r\n"
    before = dict(REQUEST_FIELDS.meanings)
    with pytest.raises(FramingError) as caught:
        read_request(head, LIMITS)
    assert caught.value.status == 431
    assert before == REQUEST_FIELDS.meanings


# -- what is remembered has bounds ------------------------------------------------------------


def test_made_up_names_fill_no_memory_and_change_no_meaning():
    for turn in range(3 * MEMO_NAMES):
        made_up = b"X-%d" % turn
        head = (
            b"GET / HTTP/1.1\r\nHost: h\r\n%b: 1\r\ncOnNeCtIoN: a\r\nX_Forwarded_For: e" % made_up
        )
        fields = {b"host": b"h", b"connection": b"a"}
        assert split_head(REQUEST_FIELDS, head)[1:] == (fields, b"\r\n%b: 1" % made_up)
    assert len(REQUEST_FIELDS.meanings) <= MEMO_NAMES + 2 * len(REQUEST_FIELDS.names)


def test_a_long_name_is_not_remembered():
    names = FieldNames((b"host",))
    for length in (MEMO_NAME_BYTES, MEMO_NAME_BYTES + 1):
        name = b"x" * length
        assert split_head(names, b"\r\n" + name + b": y") == (b"", {}, b"\r\n" + name + b": y")
    assert max(map(len, names.meanings)) == MEMO_NAME_BYTES


def test_made_up_hosts_fill_no_memory():
    for turn in range(requests.MEMO_HOSTS + 10):
        host = b"h%d" % turn
        assert read_request(b"GET / HTTP/1.1\r\nHost: %b\r\n\r\n" % host, LIMITS).host == host
    long = b"h" * (requests.MEMO_HOST_BYTES + 1)
    assert read_request(b"GET / HTTP/1.1\r\nHost: %b\r\n\r\n" % long, LIMITS).host == long
    assert len(requests.plain_hosts) <= requests.MEMO_HOSTS
    assert long not in requests.plain_hosts


def test_made_up_status_lines_fill_no_memory():
    for turn in range(responses.MEMO_STATUS_LINES + 10):
        for _ in range(2):
            head = b"HTTP/1.1 404 Not %d\r\nContent-Length: 0\r\n\r\n" % turn
            response = read_response(head, to_head=False)
            assert (response.status, response.reason) == (404, b" Not %d" % turn)
    long = b"HTTP/1.1 404 " + b"x" * responses.MEMO_STATUS_LINE_BYTES
    assert read_response(long + b"\r\n\r\n", to_head=False).status == 404
    assert len(responses.status_lines) <= responses.MEMO_STATUS_LINES
    assert long not in responses.status_lines


@pytest.mark.parametrize("line", [b"HTTP/1.1 200 a\x7fb", b"HTTP/1.0 200 OK", b"HTTP/1.1 204 OK"])
def test_a_status_line_says_the_same_when_it_comes_again(line):
    head = line + b"\r\nDate: now\r\nContent-Length: 0\r\n\r\n"
    first, again = (described(read_response(head, to_head=False)) for _ in range(2))
    assert first == again


# -- one parser reads many heads --------------------------------------------------------------

FIELDS = (
    *(b"X: y", b"Accept: */*", b"Content-Length: 0", b"Content-Length: 5", b"Content-Length: x"),
    *(b"Transfer-Encoding: chunked", b"Transfer-Encoding: gzip, chunked", b"Connection: close"),
    *(b"Connection: keep-alive", b"Connection: Upgrade", b"Upgrade: websocket", b"Upgrade: h2c"),
    *(b"Proxy-Connection: close", b"Expect: 100-continue", b"X : y", b" folded", b"X: a\rb"),
    *(b"X: \x00", b"Connection : close", b"connection:close", b"Keep-Alive: timeout=5", b"nothing"),
    *(b"Trailer: a", b"TE: trailers", b"X: a\nHost: b", b"Upgrade:", b"Connection:", b": y"),
)
STARTS = (
    *(b"GET / HTTP/1.1", b"POST / HTTP/1.1", b"HEAD /a HTTP/1.1", b"GET / HTTP/1.0"),
    *(b"PURGE / HTTP/1.1", b"CONNECT a:1 HTTP/1.1", b"OPTIONS * HTTP/1.1", b"GET / HTTP/1.5"),
    *(b"GET http://a/ HTTP/1.1", b"GET / HTTP/2.0", b"GET /\x00 HTTP/1.1", b"PRI * HTTP/2.0"),
    *(b"GET /\xff HTTP/1.1", b"SOURCE / HTTP/1.1", b"GET  / HTTP/1.1", b"M-SEARCH * HTTP/1.1"),
)
HEADS = st.builds(
    lambda start, fields: b"\r\n".join((start, b"Host: h", *fields)) + b"\r\n\r\n",
    st.sampled_from(STARTS),
    st.lists(st.sampled_from(FIELDS), max_size=3),
)


def described(message: Request | Response) -> list[object]:
    seen = {name: getattr(message, name) for name in dir(message) if not name.startswith("_")}
    body = seen.pop("body", None)
    return [*(value for value in seen.values() if not callable(value)), type(body)]


def outcome(read: Callable[[bytes], Request], head: bytes) -> object:
    try:
        return described(read(head))
    except FramingError as error:
        return (str(error), error.status, error.block)


def read(head: bytes) -> Request:
    return read_request(head, LIMITS)


def read_alone(head: bytes) -> Request:
    with pytest.raises(FramingError):
        read_request(REFUSED, LIMITS)
    return read_request(head, LIMITS)


@settings(deadline=None, max_examples=500)
@given(st.lists(HEADS, min_size=2, max_size=8))
def test_a_request_is_judged_the_same_whatever_came_before(heads):
    in_a_row = [outcome(read, head) for head in heads]
    assert in_a_row == [outcome(read_alone, head) for head in heads]


def verdict(check: Callable[[bytes], None], head: bytes) -> str:
    try:
        check(head)
    except httptools.HttpParserUpgrade:
        pass
    except (FramingError, httptools.HttpParserError) as error:
        return str(error)
    return ""


@settings(deadline=None, max_examples=500)
@given(st.lists(HEADS, min_size=2, max_size=8))
def test_the_parser_that_is_used_again_says_what_a_new_one_says(heads):
    for head in heads:
        if head.startswith((b"CONNECT", b"PRI")) or b" HTTP/1.1\r\n" not in head:
            continue  # are never shown to it as requests behind which another comes
        _, fields, _ = split_head(REQUEST_FIELDS, head[:-4])
        ends = requests.FRAMING.isdisjoint(fields)
        fresh = httptools.HttpRequestParser(object())
        found = verdict(lambda head, ends=ends: check_request(head, ends=ends), head)
        assert found == verdict(fresh.feed_data, head)
