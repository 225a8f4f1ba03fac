"""The request that a proxy describes: each form, and hostile descriptions."""

from __future__ import annotations

import pytest

from activator.proxy.exchange.admission_port import described, without_body
from activator.proxy.message.fields import HTTP_2
from activator.proxy.message.grammar import FramingError
from activator.proxy.message.request import Request, RequestLimits, read_request
from tests.rows import in_one_test

LONGEST = 1000


def asking(fields: bytes = b"", line: bytes = b"GET /ask HTTP/1.1") -> Request:
    head = b"%b\r\nHost: ask\r\n%b\r\n" % (line, fields)
    return read_request(head, RequestLimits())


def start(request: Request, prefix: bytes = b"") -> tuple[bytes, bytes, bytes]:
    """Return method, host and target of the request that is described."""
    found = described(request, prefix, LONGEST)
    return found.method, found.host, found.target


@in_one_test(
    ("fields", "expected"),
    [
        (b"X-Original-URL: http://a.example/b?c=d", (b"GET", b"a.example", b"/b?c=d")),
        (b"x-original-url:HTTPS://a.example:8443", (b"GET", b"a.example:8443", b"/")),
        (b"X-Original-URL: http://[::1]:80?c", (b"GET", b"[::1]:80", b"/?c")),
        (b"X-Original-URL: /b\r\nX-Original-Method: POST", (b"POST", b"ask", b"/b")),
        (b"X-Original-Method: PURGE", (b"PURGE", b"ask", b"/ask")),
        (
            b"X-Forwarded-Method: PUT\r\nX-Forwarded-Host: a.example\r\nX-Forwarded-Uri: /b",
            (b"PUT", b"a.example", b"/b"),
        ),
        (b"X-Forwarded-Uri: /b,c", (b"GET", b"ask", b"/b,c")),
        # A field that most proxies send describes nothing alone.
        (b"X-Forwarded-Host: other.example", (b"GET", b"ask", b"/ask")),
        # Two descriptions of the same request.
        (
            b"X-Original-URL: http://a.example/b\r\nX-Forwarded-Uri: /b\r\n"
            b"X-Forwarded-Host: a.example",
            (b"GET", b"a.example", b"/b"),
        ),
        (b"X-Original-URL:\r\nX-Original-Method: \t", (b"GET", b"ask", b"/ask")),
        (b"X-Original-URL: /\xc3\xa9<script>", (b"GET", b"ask", b"/\xc3\xa9<script>")),
    ],
)
def test_fields_describe_the_request(fields: bytes, expected: tuple[bytes, ...]) -> None:
    assert start(asking(fields + b"\r\n")) == expected


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (b"/admit/b?c", b"/b?c"),
        (b"/admit", b"/"),
        (b"/admit?c", b"/?c"),
        (b"/admit//b", b"//b"),
    ],
)
def test_the_prefix_is_removed(target: bytes, expected: bytes) -> None:
    request = asking(line=b"POST %b HTTP/1.1" % target)
    assert start(request, b"/admit") == (b"POST", b"ask", expected)


@pytest.mark.parametrize("target", [b"/admitted", b"/", b"/b/admit/c"])
def test_a_path_without_the_prefix_is_refused(target: bytes) -> None:
    with pytest.raises(FramingError, match="does not begin with /admit"):
        start(asking(line=b"GET %b HTTP/1.1" % target), b"/admit")


def test_fields_describe_a_request_whatever_the_prefix() -> None:
    assert start(asking(b"X-Original-URL: /b\r\n"), b"/admit") == (b"GET", b"ask", b"/b")


@in_one_test(
    "fields",
    [
        b"X-Original-URL: http://",
        b"X-Original-URL: http:///b",
        b"X-Original-URL: ftp://a.example/b",
        b"X-Original-URL: //a.example/b c",
        b"X-Original-URL: a.example/b",
        b"X-Original-URL: http://me@a.example/b",
        b"X-Original-URL: http://a.example,b.example/",
        b"X-Original-URL: http://<b>/",
        b"X-Original-URL: http://a.example/b#c",
        b"X-Original-URL: http://a.example/\x0b",
        b"X-Original-URL: /a\r\nX-Original-URL: /b",
        b"X-Original-Method: G(T",
        b"X-Original-Method: GET\r\nX-Original-Method: PUT",
        b"X-Original-Method: " + 65 * b"G",
        b"X-Forwarded-Uri: b",
        b"X-Forwarded-Uri: /a\r\nX-Forwarded-Uri: /b",
        b"X-Forwarded-Uri: /b\r\nX-Forwarded-Host: a.example\r\nX-Forwarded-Host: b.example",
        b"X-Forwarded-Uri: /b\r\nX-Forwarded-Host: a.example,b.example",
        # One of two descriptions is the client's.
        b"X-Original-URL: /a\r\nX-Forwarded-Uri: /b",
        b"X-Original-Method: GET\r\nX-Forwarded-Method: PUT",
        b"X-Original-URL: http://b.example/\r\nX-Forwarded-Uri: /\r\nX-Forwarded-Host: a.example",
    ],
)
def test_a_malformed_description_is_refused(fields: bytes) -> None:
    with pytest.raises(FramingError) as refused:
        start(asking(fields + b"\r\n"))
    assert refused.value.status == 400


@pytest.mark.parametrize("name", [b"X-Original-URL", b"X-Forwarded-Uri"])
def test_the_length_of_a_target_is_limited(name: bytes) -> None:
    longest = b"/" + (LONGEST - 1) * b"a"
    assert start(asking(b"%b: %b\r\n" % (name, longest)))[2] == longest
    with pytest.raises(FramingError) as refused:
        start(asking(b"%b: %ba\r\n" % (name, longest)))
    assert refused.value.status == 414


def test_the_fields_of_the_proxy_stay_and_its_body_does_not() -> None:
    fields = b"User-Agent: me\r\nExpect: 100-continue\r\nContent-Length: 3\r\nUpgrade: x\r\n"
    found = described(asking(fields, line=b"POST / HTTP/1.1"), b"", LONGEST)
    assert found.value_of(b"user-agent") == b"me"
    assert (found.has_body, found.length, found.expects_continue, found.upgrade) == (
        *(False, 0, False),
        b"",
    )


def test_a_description_in_http2_is_no_grpc_request() -> None:
    fields = {b":path": b"/a.B/C", b"content-type": b"application/grpc", b"user-agent": b"me"}
    request = Request(b"POST", b"/a.B/C", HTTP_2, b"a.example", fields, None, has_body=True)
    for found in (described(request, b"", LONGEST), without_body(request)):
        assert start(found) == (b"POST", b"a.example", b"/a.B/C")
        assert found.value_of(b"content-type") == b""
        assert found.value_of(b"user-agent") == b"me"
