"""Fields as lines of HTTP/1 and as header blocks."""

from __future__ import annotations

from activator.proxy.http2.hpack import Decoder
from activator.proxy.http2.never_indexed import NeverIndexed
from activator.proxy.http2.section import block_of, without_context
from activator.proxy.message.fields import is_handled, lines_of


def test_lines_become_a_block():
    block = block_of(b"\r\nContent-Type: text/plain\r\nX-A:  b:c \r\n", without=(b"x-b",))
    assert Decoder().decode(block) == [(b"content-type", b"text/plain"), (b"x-a", b"b:c")]


def test_a_line_may_be_left_out():
    assert block_of(b"\r\nContent-Type: text/plain", without=(b"content-type",)) == b""


def test_fields_become_lines():
    fields = {b":path": b"/", b"a": b"b", b"te": b"trailers"}
    assert lines_of(fields, without=(b"te",)) == b"\r\na: b"


def test_the_context_of_a_trace_is_left_out_and_secrets_stay_secret():
    block = without_context(
        {
            b":path": b"/",
            b"traceparent": b"00-1-2-01",
            b"k-original-host": b"h",
            b"te": b"trailers",
            b"x_forwarded_for": b"1.2.3.4",
            b"authorization": b"s",
        }
    )
    fields = Decoder().decode(block)
    assert fields == [(b"te", b"trailers"), (b"authorization", b"s")]
    assert isinstance(fields[1], NeverIndexed)


def test_the_activators_own_fields_are_known():
    assert is_handled(b"k-network-probe")
    assert not is_handled(b"accept")
