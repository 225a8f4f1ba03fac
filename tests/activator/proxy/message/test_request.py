"""Requests in HTTP/1: how their heads are read, and written for pods."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from activator.knative.words import http_version
from activator.proxy.message.fields import HTTP_1_1, HTTP_2, HttpVersion
from activator.proxy.message.grammar import ChunkedBody, FramingError, LengthBody
from activator.proxy.message.request import (
    Request,
    RequestLimits,
    body_of,
    pod_head,
    read_request,
    wants_trailers,
)
from tests.rows import in_one_test

LIMITS = RequestLimits()


def read(*lines: bytes, start: bytes = b"GET / HTTP/1.1", host: bytes = b"h") -> Request:
    head = b"\r\n".join((start, b"Host: " + host, *lines)) + b"\r\n\r\n"
    return read_request(head, LIMITS)


def to_pod(request: Request, client: bytes = b"10.0.0.9") -> bytes:
    start, rest = pod_head(request, client)
    return start + b"Host: pod\r\n" + rest


def test_a_plain_request():
    request = read(b"Accept: */*", start=b"GET /a?b HTTP/1.1")
    assert (request.method, request.target, request.version) == (b"GET", b"/a?b", HTTP_1_1)
    assert (request.host, request.lines) == (b"h", b"\r\nAccept: */*")
    assert request.keep_alive
    assert not request.has_body
    assert request.length == 0
    assert request.fields == {}


@pytest.mark.parametrize("host", [b"h", b"a.b-c_d:8080", b"[::1]:80", b"[fe80::1]", b"1.2.3.4:"])
def test_hosts_that_are_good(host):
    assert read(host=host).host == host


@in_one_test(
    "host",
    [b"", b" ", b"a b", b"a/b", b"u@h", b"a,b", b"h:x", b"h:123456", b"[::1", b"h\xe9", b"<"],
)
def test_hosts_that_are_not(host):
    with pytest.raises(FramingError):
        read(host=host)


@in_one_test(
    ("line", "keep_alive"),
    [
        (b"X: y", True),
        (b"Connection: keep-alive", True),
        (b"Connection: Keep-Alive", True),
        (b"Connection: KEEP-alive, x", True),
        (b"Connection: close", False),
        (b"Connection: Close", False),
        (b"Connection: x, close", False),
        (b"Connection: closed", True),
    ],
)
def test_whether_http_1_1_keeps_the_connection(line, keep_alive):
    assert read(line).keep_alive is keep_alive


@pytest.mark.parametrize(
    ("line", "keep_alive"),
    [(b"X: y", False), (b"Connection: keep-alive", True), (b"Connection: Keep-Alive", True)],
)
def test_whether_http_1_0_keeps_the_connection(line, keep_alive):
    assert read(line, start=b"GET / HTTP/1.0").keep_alive is keep_alive


def test_how_a_body_is_framed():
    sized = read(b"Content-Length: 5", start=b"POST / HTTP/1.1")
    assert isinstance(body_of(sized), LengthBody)
    assert sized.length == 5
    empty = read(b"Content-Length: 0", start=b"POST / HTTP/1.1")
    assert (empty.has_body, empty.length) == (False, 0)
    chunked = read(b"Transfer-Encoding: Chunked ", start=b"POST / HTTP/1.1")
    assert isinstance(body_of(chunked), ChunkedBody)
    assert chunked.length == -1


@in_one_test(
    ("lines", "start", "status"),
    [
        ((b"Content-Length: 99999999999999999999",), b"POST / HTTP/1.1", 400),
        ((b"Transfer-Encoding: gzip",), b"POST / HTTP/1.1", 400),
        ((b"Transfer-Encoding: gzip, chunked",), b"POST / HTTP/1.1", 501),
        ((b"Transfer-Encoding: chunked",), b"POST / HTTP/1.0", 400),
        ((b"Expect: x",), b"GET / HTTP/1.1", 417),
        ((b"A: b",), b"CONNECT h:80 HTTP/1.1", 405),
        ((b"A: b",), b"GET * HTTP/1.1", 400),
        ((b"A: b",), b"GET ftp://h/ HTTP/1.1", 400),
        ((b"A: b",), b"GET /#x HTTP/1.1", 400),
        ((b"A: b",), b"GET / HTTP/2.0", 505),
        ((b"A: b",), b"GET / HTTP/11.1", 400),
        ((b"A: b",) * 1001, b"GET / HTTP/1.1", 431),
        ((b"A: b",), b"GET /" + b"a" * 70_000 + b" HTTP/1.1", 414),
        ((b"A: " + b"b" * (1 << 20),), b"GET / HTTP/1.1", 431),
    ],
)
def test_what_is_refused_and_how(lines, start, status):
    with pytest.raises(FramingError) as caught:
        read(*lines, start=start)
    assert caught.value.status == status


def test_a_thousand_fields_are_fine():
    assert read(*(b"A: b",) * 999).lines.count(b"A: b") == 999


@pytest.mark.parametrize(
    ("target", "origin", "host"),
    [
        (b"http://other:81/a?b", b"/a?b", b"other:81"),
        (b"HTTP://other", b"/", b"other"),
        (b"http://other?x=/y", b"/?x=/y", b"other"),
        (b"http://other/?", b"/?", b"other"),
        (b"http://other//x", b"//x", b"other"),
    ],
)
def test_an_absolute_target_gives_target_and_host(target, origin, host):
    request = read(start=b"GET " + target + b" HTTP/1.1")
    assert (request.target, request.host) == (origin, host)


@pytest.mark.parametrize("target", [b"http://u@h/", b"http:///", b"http://a,b /", b"http://[x/"])
def test_an_absolute_target_with_a_bad_authority_is_refused(target):
    with pytest.raises(FramingError):
        read(start=b"GET " + target + b" HTTP/1.1")


@pytest.mark.parametrize(
    ("lines", "upgrade"),
    [
        ((b"Connection: Upgrade", b"Upgrade: websocket"), b"websocket"),
        ((b"Connection: keep-alive, upgrade", b"Upgrade: WebSocket "), b"WebSocket"),
        ((b"Upgrade: websocket",), b""),
        ((b"Connection: upgrade",), b""),
        ((b"Connection: Upgrade", b"Upgrade: h2c"), b""),
        ((b"Connection: Upgrade", b"Upgrade: websocket, h2c"), b""),
        ((b"Connection: Upgrade", b"Upgrade: websocket", b"Content-Length: 1"), b""),
    ],
)
def test_what_counts_as_an_upgrade(lines, upgrade):
    request = read(*lines)
    assert request.upgrade == upgrade
    assert (b"Upgrade: " in to_pod(request)) is bool(upgrade)


def test_http_1_0_cannot_upgrade():
    request = read(b"Connection: Upgrade", b"Upgrade: websocket", start=b"GET / HTTP/1.0")
    assert request.upgrade == b""


@pytest.mark.parametrize(
    ("lines", "start", "expects"),
    [
        ((b"Expect: 100-Continue", b"Content-Length: 1"), b"POST / HTTP/1.1", True),
        ((b"Expect: 100-continue", b"Content-Length: 0"), b"POST / HTTP/1.1", False),
        ((b"Expect: 100-continue",), b"POST / HTTP/1.1", False),
        ((b"Expect: 100-continue", b"Content-Length: 1"), b"POST / HTTP/1.0", False),
    ],
)
def test_who_waits_for_a_100(lines, start, expects):
    request = read(*lines, start=start)
    assert request.expects_continue is expects
    assert (b"\r\nExpect: 100-continue\r\n" in to_pod(request)) is expects


def test_an_odd_method_passes_as_it_is():
    for method in (b"FROB", b"get", b"M-SEARCH", b"A" * 64):
        assert to_pod(read(start=method + b" / HTTP/1.1")).startswith(method + b" / HTTP/1.1\r\n")


HEADS = st.lists(
    st.one_of(
        st.sampled_from(
            [
                b"GET ",
                b"/ ",
                b"HTTP/1.1",
                b"\r\n",
                b"Host: h",
                b": ",
                b"Content-Length: 5",
                b",",
                b"Transfer-Encoding: chunked",
                b"Connection: ",
                b"Upgrade: x",
                b"\n",
                b"\r",
                b" ",
            ]
        ),
        st.binary(max_size=4),
    ),
    max_size=14,
).map(b"".join)


@settings(deadline=None, max_examples=200)
@given(HEADS)
def test_garbage_is_refused_or_gives_a_head_of_whole_lines(garbage):
    for head in (garbage, b"GET / HTTP/1.1\r\nHost: h\r\n" + garbage):
        whole = head + b"\r\n\r\n"
        try:
            request = read_request(whole[: whole.index(b"\r\n\r\n") + 4], LIMITS)
        except FramingError:
            continue
        written = to_pod(request)
        assert written.endswith(b"\r\n\r\n")
        assert written.count(b"\r\n\r\n") == 1
        assert written.count(b"\n") == written.count(b"\r") == written.count(b"\r\n")


# The value of any field.


@in_one_test(
    ("lines", "name", "value"),
    [
        ((b"X-User:  anna ",), b"x-user", b"anna"),
        ((b"x-user: anna",), b"x-user", b"anna"),
        ((b"A: 1", b"X-USER:", b"B: 2"), b"x-user", b""),
        ((b"A: 1", b"X-USER:"), b"x-user", b""),
        ((b"X-User:\tanna\t",), b"x-user", b"anna"),
        ((b"X-User: a", b"B: x-user: c", b"x-User: b"), b"x-user", b"a, b"),
        ((b"X-User-Id: a", b"My-X-User: b"), b"x-user", b""),
        ((b"TE: trailers",), b"te", b"trailers"),
        ((b"X-Forwarded-For: 1.2.3.4",), b"x-forwarded-for", b"1.2.3.4"),
        ((), b"host", b"h"),
        ((), b"x-user", b""),
    ],
)
def test_the_value_of_any_field(lines, name, value):
    assert read(*lines).value_of(name) == value


def test_all_values_of_all_fields():
    """A rule of a route may name any field; one of its values must be the whole value."""
    lines = (
        b"X-User:  anna ",
        b"x-v: 1",
        b"X-V:2, 3",
        b"Empty:",
        b"X-Forwarded-For: 1.1.1.1, 2.2.2.2",
    )
    found = read(*lines).values()
    assert (found[b"x-user"], found[b"x-v"], found[b"empty"]) == ([b"anna"], [b"1", b"2, 3"], [b""])
    assert found[b"x-forwarded-for"] == [b"1.1.1.1, 2.2.2.2", b"1.1.1.1", b"2.2.2.2"]
    assert b"" not in found
    fields = {b"x-user": b"anna", b"x-v": b"1, 2"}
    request = Request(b"GET", b"/", HTTP_2, b"h", fields, None)
    assert request.values() == {b"x-user": [b"anna"], b"x-v": [b"1, 2", b"1", b"2"]}


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


@pytest.mark.parametrize(
    ("line", "version"),
    [
        (b"HTTP/1.0", HttpVersion.HTTP_1_0),
        (b"HTTP/1.1", HttpVersion.HTTP_1_1),
        (b"HTTP/1.2", HttpVersion.HTTP_1_1),
        (b"HTTP/1.9", HttpVersion.HTTP_1_1),
    ],
)
def test_a_request_has_the_version_that_it_is_read_as(line, version):
    head = b"GET / " + line + b"\r\nHost: h\r\n\r\n"
    assert read_request(head, RequestLimits()).version is version


def test_metrics_name_each_version_by_its_number():
    assert [http_version(each) for each in HttpVersion] == ["1.0", "1.1", "2"]
    assert http_version(HTTP_2) == "2"
