"""HTTP/1 of a pod."""

from __future__ import annotations

import json
from typing import Any

import pytest

from activator.lab.http1 import (
    MAX_BODY_BYTES,
    MAX_HEAD_BYTES,
    BadRequest,
    HttpRequest,
    RequestParser,
    as_json,
    render_chunk,
    render_head,
    text,
)
from tests.rows import in_one_test

GET = b"GET /a%20b?n=1&n=2&x= HTTP/1.1\r\nHost: h\r\nX-A: 1\r\nx-a: 2\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = (
    b"PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"3;ext=1\r\nabc\r\n02\r\nde\r\n0\r\nTrailer: x\r\n\r\n"
)


def test_request_is_taken_apart():
    (request,) = RequestParser().feed(GET)
    assert (request.method, request.path, request.query) == ("GET", "/a b", {"n": "2", "x": ""})
    assert request.headers == (("Host", "h"), ("X-A", "1"), ("x-a", "2"))
    assert request.header("X-a") == "1"
    assert request.header("absent") == ""


@pytest.mark.parametrize("step", [1, 2, 7, 1000], ids=str)
def test_pipelined_requests_come_out_alike_however_the_bytes_are_cut(step):
    data = GET + POST + CHUNKED + GET
    parser = RequestParser()
    found: list[Any] = []
    for start in range(0, len(data), step):
        found += parser.feed(data[start : start + step])
    assert [request.method for request in found] == ["GET", "POST", "PUT", "GET"]
    assert [request.body for request in found] == [b"", b"hello", b"abcde", b""]
    assert parser.leftover() == b""


def test_bytes_after_a_request_are_left_for_another_protocol():
    parser = RequestParser()
    assert len(list(parser.feed(GET + b"\x81\x85"))) == 1
    assert parser.leftover() == b"\x81\x85"


def test_continue_is_wanted_once_and_only_while_the_body_is_missing():
    expecting = POST.replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n")
    head, _, body = expecting.partition(b"hello")
    parser = RequestParser()
    assert list(parser.feed(head)) == []
    assert parser.wants_continue()
    assert not parser.wants_continue()
    assert len(list(parser.feed(b"hello" + body))) == 1
    whole = RequestParser()
    assert len(list(whole.feed(expecting))) == 1
    assert not whole.wants_continue()


@in_one_test(
    ("data", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET / HTTP/2.0\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nno colon\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nSpace : x\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % (MAX_BODY_BYTES + 1), 413),
        (b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
        (b"x" * (MAX_HEAD_BYTES + 1), 431),
    ],
)
def test_what_is_no_request_is_refused_with_a_status(data, status):
    with pytest.raises(BadRequest) as refused:
        list(RequestParser().feed(data))
    assert refused.value.status == status


def test_requests_before_a_wrong_one_are_not_lost():
    found = RequestParser().feed(GET + POST + b"nonsense\r\n\r\n")
    assert [next(found).method, next(found).method] == ["GET", "POST"]
    with pytest.raises(BadRequest):
        next(found)


@pytest.mark.parametrize(
    ("version", "connection", "kept"),
    [
        ("HTTP/1.1", "", True),
        ("HTTP/1.1", "close", False),
        ("HTTP/1.0", "", False),
        ("HTTP/1.0", "Keep-Alive", True),
    ],
)
def test_connection_is_kept_as_the_version_says(version, connection, kept):
    assert HttpRequest("GET", "/", version, (("Connection", connection),)).keep_alive is kept


def test_response_is_rendered():
    assert render_head(404, [("A", "b")]) == b"HTTP/1.1 404 Not Found\r\nA: b\r\n\r\n"
    assert render_head(299, []) == b"HTTP/1.1 299 Unknown\r\n\r\n"
    assert render_chunk(b"x" * 17) == b"11\r\n" + b"x" * 17 + b"\r\n"
    assert render_chunk(b"") == b"0\r\n\r\n"


def test_text_says_its_type_and_its_delay():
    answer = text(503, "später", delay=2)
    assert (answer.status, answer.body.decode(), answer.delay) == (503, "später", 2)
    assert answer.content_type == "text/plain; charset=utf-8"


def test_json_reads_back_and_ends_in_a_line_feed():
    answer = as_json({"a": [1]})
    assert json.loads(answer.body) == {"a": [1]}
    assert answer.body.endswith(b"}\n")
    assert answer.content_type == "application/json"
