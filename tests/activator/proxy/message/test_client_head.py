"""The response head that the client gets."""

from __future__ import annotations

import pytest

from activator.proxy.message.fields import HTTP_1_0, HTTP_1_1
from activator.proxy.message.response import (
    Response,
    client_head,
    interim_head,
    read_response,
    switching_head,
)

DATE = b"Thu, 01 Jan 1970 00:00:00 GMT"


def read(*lines: bytes, start: bytes = b"HTTP/1.1 200 OK") -> Response:
    return read_response(b"\r\n".join((start, *lines)) + b"\r\n\r\n", to_head=False)


def to_client(response: Response, **settings: object) -> bytes:
    defaults = {"version": HTTP_1_1, "chunk": False, "close": False, "date": DATE}
    return client_head(response, **(defaults | settings))  # type: ignore[arg-type] # see above


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
    head = to_client(read(b"X: y"), **settings)
    assert line in head
    assert head.startswith(b"HTTP/1.1 200 OK\r\nX: y\r\n")
    assert head.endswith(b"\r\n\r\n")


def test_the_pods_date_is_kept():
    head = to_client(read(b"Date: long ago", b"X: y"))
    assert head.count(b"Date") == 1
    assert b"\r\nDate: long ago\r\n" in head


def test_an_interim_response_says_no_length():
    head = interim_head(read(b"Link: a", b"Content-Length: 5", start=b"HTTP/1.1 103 Early Hints"))
    assert head == b"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n"


def test_switching_protocols():
    response = read(
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
