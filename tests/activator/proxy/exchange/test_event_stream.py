"""The bytes of an event stream of the activator."""

from __future__ import annotations

from activator.proxy.exchange.heartbeat import (
    as_comment,
    closing,
    error_event,
    is_event_stream,
    tail,
)
from activator.proxy.http2.fields import ResponseFields
from activator.proxy.message.response import Response
from tests.rows import in_one_test


@in_one_test(
    ("sent", "ends"),
    [
        (b"", b""),
        (b"data: 1\n\n", b""),
        (b"data: 1\r\n\r\n", b""),
        (b"data: 1\r\r", b""),
        (b"data: 1\n\r\n", b""),
        (b"data: 1\n", b"event: incomplete\n\n"),
        (b"data: 1\r\n", b"event: incomplete\n\n"),
        (b"data: 1\r", b"event: incomplete\n\n"),
        (b"data: 1", b"\nevent: incomplete\n\n"),
        (b"d", b"\nevent: incomplete\n\n"),
        (b"data: 1\n\nd", b"\nevent: incomplete\n\n"),
    ],
)
def test_an_event_that_is_not_complete_gets_a_type_of_its_own(sent, ends):
    assert closing(tail(b"", [sent])) == ends
    end = b""
    for each in sent:
        end = tail(end, [bytes((each,))])
    assert closing(end) == ends
    assert closing(tail(b"", [sent[:3], b"", sent[3:]])) == ends


def test_comment_and_error():
    assert as_comment("waiting") == b": waiting\n\n"
    assert error_event(b"{}") == b"event: error\ndata: {}\n\n"


@in_one_test(
    ("status", "kind", "coding", "follows"),
    [
        (200, b"text/event-stream", b"", True),
        (200, b"Text/Event-Stream; charset=utf-8", b"identity", True),
        (200, b"text/event-stream", b"gzip", False),
        (200, b"text/event-streams", b"", False),
        (200, b"application/json", b"", False),
        (200, b"", b"", False),
        (201, b"text/event-stream", b"", False),
        (500, b"text/event-stream", b"", False),
    ],
)
def test_which_responses_may_follow(status, kind, coding, follows):
    fields = {b"content-type": kind, b"content-encoding": coding}
    block = b"".join(b"\r\n%b: %b" % each for each in fields.items() if each[1])
    http1 = Response(status, b"", block, b"", -1, keep_alive=True, plain=False)
    assert is_event_stream(http1) is follows
    assert is_event_stream(ResponseFields(status, fields, -1, b"")) is follows
