"""A response read from bytes: whole, byte by byte, and with trailing bytes."""

from __future__ import annotations

import pytest

from activator.proxy.message.grammar import FramingError
from activator.proxy.pods.http1 import MAX_HEAD, MAX_INTERIM, ResponseReader

OK = b"HTTP/1.1 200 OK\r\n"
RESPONSES = {
    "length": (OK + b"Content-Length: 5\r\n\r\nhello", b"hello"),
    "empty": (OK + b"Content-Length: 0\r\n\r\n", b""),
    "chunked": (
        OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n",
        b"hello",
    ),
    "bare LF": (b"HTTP/1.1 200 OK\nContent-Length: 5\n\nhello", b"hello"),
    "no content": (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
}


def read(pieces: list[bytes]) -> tuple[bytes, ResponseReader]:
    """Read a response in pieces; return its body, and the reader after it."""
    reader, payload = ResponseReader(), []  # type: ResponseReader, list[bytes]
    head = None
    for piece in pieces:
        if head is None:
            head = reader.read_more_head(piece, payload)
        else:
            reader.read_body(piece, payload)
    assert head is not None
    return b"".join(payload), reader


@pytest.mark.parametrize("name", RESPONSES)
def test_a_response_is_the_same_whole_and_byte_by_byte(name: str) -> None:
    data, body = RESPONSES[name]
    for pieces in ([data], [data[at : at + 1] for at in range(len(data))]):
        found, reader = read(pieces)
        assert (found, reader.ended, reader.keeps) == (body, True, True)


@pytest.mark.parametrize("name", RESPONSES)
def test_bytes_behind_a_response_end_its_connection(name: str) -> None:
    data, body = RESPONSES[name]
    found, reader = read([data + b"HTTP/1.1 200 OK\r\n"])
    assert (found, reader.ended, reader.keeps, reader.raw) == (body, True, False, None)


def test_what_came_in_one_piece_is_there_as_it_came() -> None:
    data, _ = RESPONSES["length"]
    assert read([data])[1].raw == data
    assert read([RESPONSES["bare LF"][0]])[1].raw is None


def test_a_body_without_a_length_ends_with_the_connection() -> None:
    found, reader = read([OK + b"\r\nhel", b"lo"])
    assert (found, reader.ended) == (b"hello", False)
    assert reader.ends_by_close()


def test_interim_responses_are_bounded_by_number() -> None:
    reader = ResponseReader()
    for _ in range(MAX_INTERIM):
        reader.read_more_head(b"HTTP/1.1 103 Early Hints\r\n\r\n", [])
    with pytest.raises(FramingError, match="too many"):
        reader.read_more_head(b"HTTP/1.1 103 Early Hints\r\n\r\n", [])


def test_what_comes_behind_a_101_is_kept() -> None:
    reader = ResponseReader()
    head = b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: a\r\n\r\n"
    response = reader.read_head(head + b"early", [])
    assert response is not None
    assert response.status == 101
    assert reader.take_early() == b"early"


def test_a_head_without_an_end_is_bounded() -> None:
    reader = ResponseReader()
    assert reader.read_head(OK, []) is None
    with pytest.raises(FramingError, match="too large"):
        reader.read_more_head(b"X: " + b"x" * MAX_HEAD, [])


SETTINGS = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"


@pytest.mark.parametrize("size", [1, 3, 9])
def test_http2_is_recognised_however_it_is_cut(size: int) -> None:
    reader = ResponseReader()
    pieces = [SETTINGS[at : at + size] for at in range(0, len(SETTINGS), size)]
    for piece in pieces[:-1]:
        assert reader.read_more_head(piece, []) is None
    with pytest.raises(FramingError):
        reader.read_more_head(pieces[-1], [])
    assert reader.is_http2(pieces[-1])


def test_http2_behind_an_interim_response_is_malformed() -> None:
    reader = ResponseReader()
    reader.read_head(b"HTTP/1.1 103 Early Hints\r\n\r\n", [])
    with pytest.raises(FramingError):
        reader.read_more_head(SETTINGS, [])
    assert not reader.is_http2(SETTINGS)
