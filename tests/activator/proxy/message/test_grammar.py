"""Whether a head is well-formed: the parser is strict, and has no memory from head to head."""

from __future__ import annotations

import pytest

from activator.proxy.message.grammar import FramingError, check_request, check_response

GOOD_REQUESTS = [
    b"GET / HTTP/1.1\r\nHost: h\r\n\r\n",
    b"POST /a?b HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n",
    b"GET / HTTP/1.0\r\n\r\n",
    b"GET / HTTP/1.1\r\nX: caf\xe9\r\n\r\n",
]


@pytest.mark.parametrize("head", GOOD_REQUESTS)
def test_a_good_request_passes(head):
    check_request(head)


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.1\nHost: h\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: h\n\r\n",
        b"GET / HTTP/1.1\r\nX: a\rb\r\n\r\n",
        b"GET / HTTP/1.1\r\nX: a\r\n b\r\n\r\n",
        b"GET / HTTP/1.1\r\nX : a\r\n\r\n",
        b"GET / HTTP/1.1\r\nX\r\n\r\n",
        b"GET / HTTP/1.1\r\n: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nX: \0\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: 1, 1\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: +1\r\n\r\n",
        b"GET / HTTP/3.1\r\n\r\n",
        b"\x16\x03\x01\r\n\r\n",
    ],
)
def test_a_malformed_request_is_refused_with_400(head):
    with pytest.raises(FramingError) as caught:
        check_request(head)
    assert caught.value.status == 400
    check_request(GOOD_REQUESTS[0])


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 200\r\n\r\n",
        b"HTTP/1.1 200 \r\nContent-Length: 5\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        b"HTTP/1.0 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n",
    ],
)
def test_a_good_response_passes(head):
    check_response(head)


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\nX: y\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: a\r\n b\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: a\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n",
        b"<html>\r\n\r\n",
    ],
)
def test_a_malformed_response_is_refused_with_502(head):
    with pytest.raises(FramingError) as caught:
        check_response(head)
    assert caught.value.status == 502
