"""The memory of field lines is limited, and has no secrets."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from activator.proxy.message import request as requests
from activator.proxy.message import response as responses
from activator.proxy.message.fields import (
    REQUEST_FIELDS,
)
from activator.proxy.message.grammar import (
    MEMO_LINE_BYTES,
    MEMO_LINES,
    MEMO_NAME_BYTES,
    MEMO_NAMES,
    REQUEST_LINES,
    RESPONSE_LINES,
    FramingError,
    KnownLines,
    MessageHead,
)
from activator.proxy.message.request import RequestLimits, read_request
from activator.proxy.message.response import read_response

LIMITS = RequestLimits()


def split(
    known: KnownLines, start: bytes, lines: Sequence[bytes]
) -> tuple[bytes, dict[bytes, bytes], bytes]:
    """Return the start line, all fields that the proxy reads, and the other lines."""
    head = MessageHead(known, b"\r\n".join((start, *lines, b"", b"")))
    return head.start, dict(head.fields), head.block


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
