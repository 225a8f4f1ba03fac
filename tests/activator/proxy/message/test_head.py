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
    FRAMING,
    RECURRING,
    REQUEST_FIELDS,
    RESPONSE_FIELDS,
)
from activator.proxy.message.grammar import FramingError, check_request
from activator.proxy.message.head import (
    MEMO_LINE_BYTES,
    MEMO_LINES,
    MEMO_NAME_BYTES,
    MEMO_NAMES,
    REQUEST_LINES,
    RESPONSE_LINES,
    Head,
    KnownLines,
)
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


def split(
    known: KnownLines, start: bytes, lines: Sequence[bytes]
) -> tuple[bytes, dict[bytes, bytes], bytes]:
    """Return the start line, all fields that mean something to us, and the other lines."""
    head = Head(known, b"\r\n".join((start, *lines, b"", b"")))
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


@settings(deadline=None, max_examples=300)
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


@settings(deadline=None, max_examples=300)
@given(st.lists(LINES, min_size=1, max_size=4))
def test_a_remembered_line_says_what_it_said_first(heads):
    for lines in heads:
        data = b"\r\n".join((b"GET / HTTP/1.1", *lines, b"", b""))
        fresh = Head(KnownLines(REQUEST_FIELDS, bars_lookalikes=True), data)
        known = KnownLines(REQUEST_FIELDS, bars_lookalikes=True)
        known.remember(Head(known, data).new)
        again = Head(known, data)
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
        head = Head(REQUEST_LINES, b"\r\n".join((b"POST / HTTP/1.1", *lines, b"", b"")))
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


# -- what is remembered has bounds ------------------------------------------------------------


def test_made_up_names_fill_no_memory_and_change_no_meaning():
    for turn in range(3 * MEMO_NAMES):
        made_up = b"X-%d" % turn
        lines = (made_up + b": 1", b"cOnNeCtIoN: a", b"X_Forwarded_For: e")
        assert split(REQUEST_LINES, b"GET / HTTP/1.1", lines)[1:] == (
            *({b"connection": b"a"}, b"\r\n%b: 1" % made_up),
        )
    assert len(REQUEST_LINES.names) <= MEMO_NAMES + 2 * len(REQUEST_FIELDS)


def test_a_long_name_is_not_remembered():
    known = KnownLines(frozenset((b"host",)))
    for length in (MEMO_NAME_BYTES, MEMO_NAME_BYTES + 1):
        name = b"x" * length
        assert split(known, b"", [name + b": y"]) == (b"", {}, b"\r\n" + name + b": y")
    assert max(map(len, known.names)) == MEMO_NAME_BYTES


def test_made_up_lines_fill_no_memory():
    for turn in range(2 * MEMO_LINES):
        agent = b"User-Agent: a/%d" % turn
        head = b"GET / HTTP/1.1\r\nHost: h\r\n%b\r\n\r\n" % agent
        for _ in range(2):
            assert read_request(head, LIMITS).lines == b"\r\n" + agent
        assert agent in REQUEST_LINES.lines
    assert len(REQUEST_LINES.lines) <= MEMO_LINES
    long = b"User-Agent: " + b"a" * MEMO_LINE_BYTES
    read_request(b"GET / HTTP/1.1\r\nHost: h\r\n%b\r\n\r\n" % long, LIMITS)
    assert long not in REQUEST_LINES.lines


@pytest.mark.parametrize(
    "line",
    [
        *(b"Authorization: Bearer a", b"Cookie: a=b", b"Proxy-Authorization: a", b"X-Api-Key: a"),
        *(b"X-Forwarded-For: 192.0.2.1", b"Forwarded: for=192.0.2.1", b"X-Request-Id: 1"),
        *(b"Referer: https://a/?token=b", b"Traceparent: 00-0-0-01", b"X-Forwarded-Client-Cert: a"),
    ],
)
def test_no_secret_and_nothing_about_a_person_is_remembered(line):
    read_request(b"GET / HTTP/1.1\r\nHost: h\r\n%b\r\n\r\n" % line, LIMITS)
    assert line not in REQUEST_LINES.lines


def test_no_secret_of_a_response_is_remembered():
    secrets = (b"Set-Cookie: a=b", b"Location: /?token=a", b"ETag: a", b"WWW-Authenticate: a")
    head = b"\r\n".join((b"HTTP/1.1 200 OK", b"Content-Length: 0", *secrets, b"", b""))
    read_response(head, to_head=False)
    assert not RESPONSE_LINES.lines.keys() & set(secrets)


@pytest.mark.parametrize("line", [b"User-Agent: a\x00", b"Accept: a\rb", b"Host: a\x01"])
def test_a_line_of_a_head_that_was_refused_is_not_remembered(line):
    for _ in range(2):
        with pytest.raises(FramingError):
            read_request(b"GET / HTTP/1.1\r\n%b\r\n\r\n" % line, LIMITS)
    assert line not in REQUEST_LINES.lines


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
    *(b"X: y", b"Accept: */*", b"Accept: \x01", b"Host: h", b"Date: now", b"Date: \x7f"),
    *(b"Content-Length: 05 ", b"Content-Length: 5\x00", b"content-length:\t5", b"Accept : a"),
    *(b"Content-Length: 0", b"Content-Length: 5", b"Content-Length: x"),
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
LISTS = st.lists(st.sampled_from(FIELDS), max_size=4)
HEADS = st.builds(
    lambda start, fields: b"\r\n".join((start, b"Host: h", *fields)) + b"\r\n\r\n",
    st.sampled_from(STARTS),
    LISTS,
)
STATUS_LINES = (
    *(b"HTTP/1.1 200 OK", b"HTTP/1.1 204 No Content", b"HTTP/1.1 304 Not Modified"),
    *(b"HTTP/1.0 200 OK", b"HTTP/1.1 100 Continue", b"HTTP/1.1 101 Switching Protocols"),
    *(b"HTTP/1.1 200", b"HTTP/1.1 200 a\x00", b"HTTP/1.2 200 OK", b"HTTP/1.1 99 OK"),
)
RESPONSES = st.builds(
    lambda start, fields: b"\r\n".join((start, *fields)) + b"\r\n\r\n",
    st.sampled_from(STATUS_LINES),
    LISTS,
)


def described(message: Request | Response) -> list[object]:
    seen = {name: getattr(message, name) for name in dir(message) if not name.startswith("_")}
    body = seen.pop("body", None)
    return [*(value for value in seen.values() if not callable(value)), type(body)]


def outcome(read: Callable[[bytes], Request | Response], head: bytes) -> object:
    try:
        return described(read(head))
    except FramingError as error:
        return (str(error), error.status, error.block)


def forget() -> None:
    """Make everything new that is remembered from head to head."""
    for known in (REQUEST_LINES, RESPONSE_LINES):
        known.lines.clear()
    requests.plain_hosts.clear()
    responses.status_lines.clear()
    with pytest.raises(FramingError):
        read_request(REFUSED, LIMITS)


def request_of(head: bytes) -> Request:
    return read_request(head, LIMITS)


def request_alone(head: bytes) -> Request:
    forget()
    return read_request(head, LIMITS)


def response_of(head: bytes) -> Response:
    return read_response(head, to_head=False)


def response_alone(head: bytes) -> Response:
    forget()
    return read_response(head, to_head=False)


@settings(deadline=None, max_examples=500)
@given(st.lists(HEADS, min_size=2, max_size=8))
def test_a_request_is_judged_the_same_whatever_came_before(heads):
    in_a_row = [outcome(request_of, head) for head in heads]
    assert in_a_row == [outcome(request_alone, head) for head in heads]


@settings(deadline=None, max_examples=500)
@given(st.lists(RESPONSES, min_size=2, max_size=8))
def test_a_response_is_judged_the_same_whatever_came_before(heads):
    in_a_row = [outcome(response_of, head) for head in heads]
    assert in_a_row == [outcome(response_alone, head) for head in heads]


def verdict(check: Callable[[bytes], object], head: bytes) -> bool:
    try:
        check(head)
    except httptools.HttpParserUpgrade:
        pass
    except (FramingError, httptools.HttpParserError):
        return False
    return True


@settings(deadline=None, max_examples=500)
@given(st.lists(HEADS, min_size=2, max_size=8))
def test_what_a_new_parser_refuses_is_refused_whatever_is_known(heads):
    for head in heads:
        if not verdict(httptools.HttpRequestParser(object()).feed_data, as_llhttp_knows(head)):
            assert not verdict(request_of, head)


def as_llhttp_knows(head: bytes) -> bytes:
    """Return a head with a method and a version that llhttp knows."""
    for known in (b"PURGE ", b"SOURCE ", b"M-SEARCH "):
        if head.startswith(known):
            head = b"POST " + head.removeprefix(known)
    return head.replace(b" HTTP/1.5\r\n", b" HTTP/1.1\r\n", 1)


@settings(deadline=None, max_examples=500)
@given(st.lists(RESPONSES, min_size=2, max_size=8))
def test_what_a_new_parser_refuses_of_a_response_is_refused_whatever_is_known(heads):
    for head in heads:
        if not verdict(httptools.HttpResponseParser(object()).feed_data, head):
            assert not verdict(response_of, head)


@settings(deadline=None, max_examples=500)
@given(st.lists(HEADS, min_size=2, max_size=8))
def test_the_parser_that_is_used_again_says_what_a_new_one_says(heads):
    for head in heads:
        if head.startswith((b"CONNECT", b"PRI")) or b" HTTP/1.1\r\n" not in head:
            continue  # are never shown to it as requests behind which another comes
        fields = {name_of(line) for line in head[:-4].split(b"\r\n")[1:]}
        ends = FRAMING.isdisjoint(fields)
        fresh = httptools.HttpRequestParser(object())
        found = verdict(lambda head, ends=ends: check_request(head, ends=ends), head)
        assert found == verdict(fresh.feed_data, head)
