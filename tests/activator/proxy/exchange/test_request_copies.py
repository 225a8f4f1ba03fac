"""A request that asks for a response without a content coding, in both versions."""

from __future__ import annotations

from activator.proxy.client.http2 import request_of
from activator.proxy.http2.fields import read_request
from activator.proxy.http2.hpack import Decoder
from activator.proxy.http2.section import forwarded, with_identity_coding
from activator.proxy.message.request import RequestLimits
from activator.proxy.message.request import read_request as read_http1

HEAD = b"POST /a HTTP/1.1\r\nHost: h\r\n%bContent-Length: 5\r\nB: c\r\n\r\n"


def test_http1():
    for fields in (
        b"",
        b"Accept-Encoding: gzip\r\n",
        b"ACCEPT-encoding: br\r\nAccept-Encoding: x\r\n",
    ):
        request = with_identity_coding(read_http1(HEAD % fields, RequestLimits()), b"10.0.0.1")
        assert request.lines == b"\r\nB: c\r\nAccept-Encoding: identity"
        assert (request.method, request.target, request.host) == (b"POST", b"/a", b"h")
        assert (request.length, request.has_body, request.section) == (5, True, b"")


def test_http2():
    fields = [
        *((b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/a"), (b":authority", b"h")),
        *((b"accept-encoding", b"gzip"), (b"authorization", b"secret"), (b"b", b"c")),
    ]
    plain = request_of(read_request(fields), b"10.0.0.1", ended=False)
    request = with_identity_coding(plain, b"10.0.0.1")
    sent = Decoder().decode(request.section)
    assert [each for each in sent if each[0] == b"accept-encoding"] == [
        (b"accept-encoding", b"identity")
    ]
    others = [each for each in Decoder().decode(plain.section) if each[0] != b"accept-encoding"]
    assert [each for each in sent if each[0] != b"accept-encoding"] == others
    end = forwarded(request.host, request.fields, b"10.0.0.1")
    assert request.section.endswith(end)  # a pod without queue-proxy gets the section without it
    assert b"gzip" not in request.lines
    assert plain.fields[b"accept-encoding"] == b"gzip"  # exchanges share the record
