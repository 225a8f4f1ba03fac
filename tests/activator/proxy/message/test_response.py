"""Responses of pods in HTTP/1: how their heads are read, and written for clients."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from activator.proxy.message.fields import HTTP_1_0, HTTP_1_1
from activator.proxy.message.grammar import ChunkedBody, CloseBody, FramingError, LengthBody
from activator.proxy.message.response import (
    Response,
    ResponseWriter,
    client_head,
    interim_head,
    read_response,
    switching_head,
)
from tests.rows import in_one_test

DATE = b"Thu, 01 Jan 1970 00:00:00 GMT"


def read(*lines: bytes, start: bytes = b"HTTP/1.1 200 OK", to_head: bool = False) -> Response:
    return read_response(b"\r\n".join((start, *lines)) + b"\r\n\r\n", to_head=to_head)


def to_client(response: Response, **settings: object) -> bytes:
    defaults = {"version": HTTP_1_1, "chunk": False, "close": False, "date": DATE}
    return client_head(response, **(defaults | settings))  # type: ignore[arg-type] # see above


def test_a_plain_response_may_pass_as_it_is():
    response = read(b"Date: x", b"Content-Length: 5", b"A: b")
    assert response.plain
    assert not response.skipped
    assert (response.status, response.reason, response.length) == (200, b" OK", 5)
    assert isinstance(response.body, LengthBody)
    assert response.keep_alive


@pytest.mark.parametrize(
    "lines",
    [
        (b"Content-Length: 5",),
        (b"Date: x",),
        (b"Date: x", b"Content-Length: 5", b"Connection: close"),
        (b"Date: x", b"Content-Length: 5", b"Keep-Alive: timeout=5"),
        (b"Date: x", b"Content-Length: 5", b"Proxy-Authenticate: Basic"),
        (b"Date: x", b"Content-Length: 5", b"Connection: keep-alive", b"Connection: X-Mine"),
    ],
)
def test_what_has_to_be_changed_does_not_pass_as_it_is(lines):
    assert not read(*lines).plain


def test_idle_talk_is_cut_out():
    response = read(b"Date: x", b"Connection: keep-alive", b"Content-Length: 5")
    assert response.plain
    raw = b"HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nX: y\r\n\r\nbody"
    assert response.unchanged(raw) == b"HTTP/1.1 200 OK\r\nX: y\r\n\r\nbody"
    assert response.keep_alive


def test_a_body_that_looks_like_idle_talk_is_not_cut():
    response = read(b"Date: x", b"connection: keep-alive", b"Content-Length: 5")
    assert not response.plain  # the proxy writes a new head
    response = read(b"Date: x", b"Content-Length: 26")
    raw = b"HTTP/1.1 200 OK\r\n\r\n\r\nConnection: keep-alive"
    assert response.unchanged(raw) == raw


@in_one_test(
    ("lines", "start", "keep_alive"),
    [
        ((b"Content-Length: 0",), b"HTTP/1.1 200 OK", True),
        ((b"Content-Length: 0", b"Connection: close"), b"HTTP/1.1 200 OK", False),
        ((b"Content-Length: 0", b"Connection: x, Close"), b"HTTP/1.1 200 OK", False),
        ((b"Content-Length: 0",), b"HTTP/1.0 200 OK", False),
        ((b"Content-Length: 0", b"Connection: keep-alive"), b"HTTP/1.0 200 OK", True),
        ((b"Content-Length: 0", b"Connection: Keep-Alive"), b"HTTP/1.0 200 OK", True),
        ((b"X: y",), b"HTTP/1.1 200 OK", False),  # its body ends with the connection
        ((b"Transfer-Encoding: chunked",), b"HTTP/1.1 200 OK", True),
    ],
)
def test_whether_the_pod_keeps_the_connection(lines, start, keep_alive):
    assert read(*lines, start=start).keep_alive is keep_alive


def test_how_a_body_is_framed():
    assert isinstance(read(b"Transfer-Encoding: CHUNKED").body, ChunkedBody)
    assert isinstance(read(b"X: y").body, CloseBody)
    assert read(b"Content-Length: 0").body is None


@pytest.mark.parametrize("status", [b"100", b"103", b"204", b"304"])
def test_responses_that_have_no_body(status):
    assert read(b"Content-Length: 5", start=b"HTTP/1.1 " + status + b" X").body is None


def test_a_response_to_head_has_no_body_but_its_length():
    response = read(b"Content-Length: 5", to_head=True)
    assert (response.body, response.length) == (None, 5)
    assert b"\r\nContent-Length: 5\r\n" in to_client(response)
    assert read(b"Transfer-Encoding: chunked", to_head=True).body is None
    assert read(to_head=True).keep_alive


def test_a_204_says_no_length():
    assert b"Content-Length" not in to_client(
        read(b"Content-Length: 5", start=b"HTTP/1.1 204 No Content")
    )


@in_one_test(
    ("lines", "start"),
    [
        ((), b"HTTP/1.1 099 X"),
        ((), b"HTTP/1.1 20 X"),
        ((), b"HTTP/1.1 2000 X"),
        ((), b"HTTP/1.1 200X"),
        ((), b"HTTP/1.2 200 OK"),
        ((), b"HTTP/2.0 200 OK"),
        ((), b"HTTP/1.1  200 OK"),
        ((b"Content-Length: 5", b"Transfer-Encoding: chunked"), b"HTTP/1.1 200 OK"),
        ((b"Content-Length: 5", b"content-length: 5"), b"HTTP/1.1 200 OK"),
        ((b"Content-Length: 18446744073709551616",), b"HTTP/1.1 200 OK"),
        ((b"Transfer-Encoding: gzip",), b"HTTP/1.1 200 OK"),
        ((b"Transfer-Encoding: chunked",), b"HTTP/1.0 200 OK"),
    ],
)
def test_what_is_refused(lines, start):
    with pytest.raises(FramingError) as caught:
        read(*lines, start=start)
    assert caught.value.status == 502


def test_fields_that_connection_names_are_taken_out():
    response = read(b"Connection: X-Mine", b"X-Mine: 1", b"X-Other: 2", b"Content-Length: 0")
    assert response.block == b"\r\nX-Other: 2"


HEADS = st.lists(
    st.one_of(
        st.sampled_from(
            [
                b"HTTP/1.1 ",
                b"200",
                b" OK",
                b"\r\n",
                b"Date: x",
                b": ",
                b"Content-Length: 5",
                b",",
                b"Transfer-Encoding: chunked",
                b"Connection: keep-alive",
                b"\n",
                b"\r",
                b" ",
                b"1",
            ]
        ),
        st.binary(max_size=4),
    ),
    max_size=14,
).map(b"".join)


@settings(deadline=None, max_examples=200)
@given(HEADS)
def test_garbage_is_refused_or_gives_a_head_of_whole_lines(garbage):
    for head in (garbage, b"HTTP/1.1 200 OK\r\n" + garbage):
        whole = head + b"\r\n\r\n"
        try:
            response = read_response(whole[: whole.index(b"\r\n\r\n") + 4], to_head=False)
        except FramingError:
            continue
        assert 100 <= response.status <= 999
        written = to_client(response)
        assert written.count(b"\r\n\r\n") == 1
        assert written.count(b"\n") == written.count(b"\r") == written.count(b"\r\n")


def of(fields: bytes) -> Response:
    return read_response(b"HTTP/1.1 200 OK\r\n" + fields + b"\r\n", to_head=False)


def test_a_response_of_unknown_length_goes_out_in_chunks():
    response = of(b"")
    answer = ResponseWriter(response, HTTP_1_1)
    head = client_head(response, version=HTTP_1_1, chunk=answer.chunk, close=False, date=b"d")
    assert b"\r\nTransfer-Encoding: chunked\r\n" in head
    assert answer.payload([b"abc", b"de"]) == b"5\r\nabcde\r\n"
    assert answer.payload([]) == b""
    assert answer.end(b"X-Sum: 1\r\n") == b"0\r\nX-Sum: 1\r\n\r\n"
    assert not answer.ends_connection


def test_for_a_client_of_http_1_0_its_end_is_the_connections():
    response = of(b"Transfer-Encoding: chunked\r\n")
    answer = ResponseWriter(response, HTTP_1_0)
    head = client_head(response, version=HTTP_1_0, chunk=answer.chunk, close=True, date=b"d")
    assert b"chunked" not in head
    assert answer.ends_connection
    assert (answer.payload([b"abc"]), answer.end(b"")) == (b"abc", b"")


@pytest.mark.parametrize("version", [HTTP_1_0, HTTP_1_1])
def test_a_known_length_stays(version):
    response = of(b"Content-Length: 3\r\nConnection: close\r\n")
    answer = ResponseWriter(response, version)
    head = client_head(response, version=version, chunk=answer.chunk, close=False, date=b"d")
    assert b"\r\nContent-Length: 3\r\n" in head
    assert b"close" not in head
    assert (answer.payload([b"abc"]), answer.end(b"")) == (b"abc", b"")
    assert not answer.ends_connection


def read_plain(*lines: bytes, start: bytes = b"HTTP/1.1 200 OK") -> Response:
    return read_response(b"\r\n".join((start, *lines)) + b"\r\n\r\n", to_head=False)


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"close": True}, b"\r\nConnection: close\r\n"),
        ({"version": HTTP_1_0}, b"\r\nConnection: keep-alive\r\n"),
        ({"version": HTTP_1_0, "close": True}, b"\r\nConnection: close\r\n"),
        ({"chunk": True}, b"\r\nTransfer-Encoding: chunked\r\n"),
        ({}, b"\r\nDate: " + DATE + b"\r\n"),
    ],
)
def test_what_is_added_for_the_client(settings, line):
    head = to_client(read_plain(b"X: y"), **settings)
    assert line in head
    assert head.startswith(b"HTTP/1.1 200 OK\r\nX: y\r\n")
    assert head.endswith(b"\r\n\r\n")


def test_the_pods_date_is_kept():
    head = to_client(read_plain(b"Date: long ago", b"X: y"))
    assert head.count(b"Date") == 1
    assert b"\r\nDate: long ago\r\n" in head


def test_an_interim_response_says_no_length():
    head = interim_head(
        read_plain(b"Link: a", b"Content-Length: 5", start=b"HTTP/1.1 103 Early Hints")
    )
    assert head == b"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n"


def test_switching_protocols():
    response = read_plain(
        b"Connection: upgrade",
        b"upgrade: websocket",
        b"Sec-WebSocket-Accept: x",
        start=b"HTTP/1.1 101 Switching Protocols",
    )
    assert response.upgrade == b"websocket"
    assert switching_head(response) == (
        b"HTTP/1.1 101 Switching Protocols\r\nSec-WebSocket-Accept: x\r\n"
        b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    )
