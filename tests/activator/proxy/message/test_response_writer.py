"""Responses that the client gets in another framing."""

from __future__ import annotations

import pytest

from activator.proxy.message.fields import HTTP_1_0, HTTP_1_1
from activator.proxy.message.response import Response, ResponseWriter, read_response


def of(fields: bytes) -> Response:
    return read_response(b"HTTP/1.1 200 OK\r\n" + fields + b"\r\n", to_head=False)


def test_a_response_of_unknown_length_goes_out_in_chunks():
    answer = ResponseWriter(of(b""), HTTP_1_1)
    assert b"\r\nTransfer-Encoding: chunked\r\n" in answer.head(close=False, date=b"d")
    assert answer.payload([b"abc", b"de"]) == b"5\r\nabcde\r\n"
    assert answer.payload([]) == b""
    assert answer.end(b"X-Sum: 1\r\n") == b"0\r\nX-Sum: 1\r\n\r\n"
    assert answer.size == 5
    assert not answer.ends_connection


def test_for_a_client_of_http_1_0_its_end_is_the_connections():
    answer = ResponseWriter(of(b"Transfer-Encoding: chunked\r\n"), HTTP_1_0)
    assert b"chunked" not in answer.head(close=True, date=b"d")
    assert answer.ends_connection
    assert (answer.payload([b"abc"]), answer.end(b""), answer.size) == (b"abc", b"", 3)


@pytest.mark.parametrize("version", [HTTP_1_0, HTTP_1_1])
def test_a_known_length_stays(version):
    answer = ResponseWriter(of(b"Content-Length: 3\r\nConnection: close\r\n"), version)
    head = answer.head(close=False, date=b"d")
    assert b"\r\nContent-Length: 3\r\n" in head
    assert b"close" not in head
    assert (answer.payload([b"abc"]), answer.end(b"")) == (b"abc", b"")
    assert not answer.ends_connection
