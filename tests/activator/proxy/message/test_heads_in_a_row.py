"""Heads read one after the other: what the parser remembers of one does not change the next."""

from __future__ import annotations

from collections.abc import Callable

import httptools
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from activator.proxy.message import request as requests
from activator.proxy.message import response as responses
from activator.proxy.message.fields import (
    FRAMING,
)
from activator.proxy.message.grammar import (
    REQUEST_LINES,
    RESPONSE_LINES,
    FramingError,
    check_request,
)
from activator.proxy.message.request import Request, RequestLimits, read_request
from activator.proxy.message.response import Response, read_response

LIMITS = RequestLimits()
#: After it the parser is a new one.
REFUSED = b"GET / HTTP/1.1\r\nHost: h\r\nX : y\r\n\r\n"

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
    """Clear all memory that lasts from head to head."""
    for known in (REQUEST_LINES, RESPONSE_LINES):
        known.forget()
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


@settings(deadline=None, max_examples=80)
@given(st.lists(HEADS, min_size=2, max_size=8))
def test_a_request_is_judged_the_same_whatever_came_before(heads):
    in_a_row = [outcome(request_of, head) for head in heads]
    assert in_a_row == [outcome(request_alone, head) for head in heads]


@settings(deadline=None, max_examples=80)
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


@settings(deadline=None, max_examples=80)
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


@settings(deadline=None, max_examples=80)
@given(st.lists(RESPONSES, min_size=2, max_size=8))
def test_what_a_new_parser_refuses_of_a_response_is_refused_whatever_is_known(heads):
    for head in heads:
        if not verdict(httptools.HttpResponseParser(object()).feed_data, head):
            assert not verdict(response_of, head)


@settings(deadline=None, max_examples=80)
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


def name_of(line: bytes) -> bytes:
    return line.partition(b":")[0].lower()


@pytest.mark.parametrize("line", [b"HTTP/1.1 200 a\x7fb", b"HTTP/1.0 200 OK", b"HTTP/1.1 204 OK"])
def test_a_status_line_says_the_same_when_it_comes_again(line):
    head = line + b"\r\nDate: now\r\nContent-Length: 0\r\n\r\n"
    first, again = (described(read_response(head, to_head=False)) for _ in range(2))
    assert first == again
