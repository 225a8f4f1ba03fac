"""Fields as lines of HTTP/1 and as header blocks."""

from __future__ import annotations

from activator.proxy.exchange.request_copies import with_priority
from activator.proxy.http2.hpack import Decoder, line
from activator.proxy.http2.never_indexed import NeverIndexed
from activator.proxy.http2.section import block_of, forwarded, traced_section, without_context
from activator.proxy.message.fields import HTTP_2, is_handled, lines_of
from activator.proxy.message.request import Request


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


def test_a_trace_keeps_the_class_only_of_a_request_that_may_select_it():
    fields = {b"activator-priority": b"high", b"a": b"b"}
    section = line(b":path", b"/") + line(b"a", b"b") + forwarded(b"h", fields, b"::1")
    bare = Request(b"GET", b"/", HTTP_2, b"h", fields, None, section=section)
    passing = with_priority(bare, b"::1")
    found = [
        dict(Decoder().decode(traced_section(each, each.section, b"::1")))
        for each in (bare, passing)
    ]
    assert [each.get(b"activator-priority") for each in found] == [None, b"high"]
    assert passing.section.endswith(forwarded(b"h", fields, b"::1"))


def test_the_activators_own_fields_are_known():
    assert is_handled(b"k-network-probe")
    assert not is_handled(b"accept")
