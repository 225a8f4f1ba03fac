"""The request head that a pod gets."""

from __future__ import annotations

import pytest

from activator.proxy.message.request import (
    Request,
    RequestLimits,
    pod_head,
    read_request,
    wants_trailers,
)


def read(*lines: bytes, start: bytes = b"GET / HTTP/1.1") -> Request:
    head = b"\r\n".join((start, b"Host: h", *lines)) + b"\r\n\r\n"
    return read_request(head, RequestLimits())


def to_pod(request: Request) -> bytes:
    start, rest = pod_head(request, b"10.0.0.9")
    return start + b"Host: pod\r\n" + rest


def test_a_pods_head_in_full():
    request = read(
        b"X-Forwarded-For: 1.1.1.1",
        b"Accept: a",
        b"X-Forwarded-For: 2.2.2.2",
        b"Content-Length: 3",
        b"Cookie: c",
        start=b"PUT /x HTTP/1.1",
    )
    assert to_pod(request) == (
        b"PUT /x HTTP/1.1\r\nHost: pod\r\nK-Original-Host: h\r\n"
        b"X-Forwarded-For: 1.1.1.1, 2.2.2.2, 10.0.0.9\r\nAccept: a\r\nCookie: c\r\n"
        b"Content-Length: 3\r\n\r\n"
    )


@pytest.mark.parametrize("method", [b"POST", b"PUT", b"PATCH"])
def test_methods_that_mean_a_body_say_that_theirs_is_empty(method):
    assert b"\r\nContent-Length: 0\r\n\r\n" in to_pod(read(start=method + b" / HTTP/1.1"))
    assert b"Content-Length" not in to_pod(read())


def test_announced_trailers_pass_but_for_those_that_may_not():
    request = read(
        b"Transfer-Encoding: chunked",
        b"Trailer: X-Sum, Content-Length, K-Proxy-Request",
        start=b"POST / HTTP/1.1",
    )
    assert b"\r\nTrailer: x-sum\r\n" in to_pod(request)
    assert wants_trailers(request)


def test_trailers_are_wanted_by_grpc():
    assert wants_trailers(read(b"TE: gzip;q=0, trailers"))
    assert not wants_trailers(read(b"TE: gzip"))
    assert not wants_trailers(read())
