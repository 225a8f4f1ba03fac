"""Writes an event stream of the activator: its head, comments, and an error at its end. Pure.

Source: https://html.spec.whatwg.org/multipage/server-sent-events.html. Knative has no counterpart.
"""

from __future__ import annotations

from typing import Final

from activator.proxy.http2.fields import ResponseFields
from activator.proxy.http2.hpack import line
from activator.proxy.http2.section import block_of
from activator.proxy.message.grammar import CloseBody
from activator.proxy.message.response import Response

CONTENT_TYPE: Final = b"text/event-stream"
#: nginx buffers a response without the last field.
_LINES: Final = (
    b"\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\nX-Accel-Buffering: no"
)
#: So many bytes show whether an event ends: two line ends.
_TAIL: Final = 4


def _head() -> Response:
    response = Response(200, b" OK", _LINES, b"", -1, keep_alive=True, plain=False)
    response.body = CloseBody()
    return response


#: The head of the stream in both versions. All streams share them, since nothing changes them.
HEAD: Final = _head()
SECTION: Final = ResponseFields(200, {}, -1, line(b":status", b"200") + block_of(_LINES))


def is_event_stream(response: Response | ResponseFields) -> bool:
    """Return whether a pod's response can follow the head of the activator's event stream.

    It must not be encoded: the head names no encoding, and the activator decodes nothing.

    Arguments:
        response: the head, in the pod's version.
    """
    kind = response.value_of(b"content-type").partition(b";")[0].strip(b" \t").lower()
    coding = response.value_of(b"content-encoding").strip(b" \t").lower()
    return response.status == 200 and kind == CONTENT_TYPE and coding in (b"", b"identity")


def comment(text: str) -> bytes:
    """Return a comment, which clients ignore; ``text`` is one line."""
    return b": %b\n\n" % text.encode("ascii", "replace")


def error_event(body: bytes) -> bytes:
    """Return the event that ends a stream which failed; ``body`` is JSON in one line."""
    return b"event: error\ndata: %b\n\n" % body


def tail(before: bytes, payload: list[bytes]) -> bytes:
    """Return the last bytes of a stream, enough for ``closing``.

    Arguments:
        before: the result of the previous call; empty at first.
        payload: the bytes that follow.
    """
    end = before
    for piece in payload:
        end = piece[-_TAIL:] if len(piece) >= _TAIL else (end + piece)[-_TAIL:]
    return end


def closing(end: bytes) -> bytes:
    """Return the bytes that end an incomplete event, so that no listener gets it.

    An event gets the type of its last field ``event``. Nothing listens to ``incomplete``.

    Arguments:
        end: the last bytes of the stream, as from ``tail``.
    """
    lines = end.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if not lines or lines.endswith(b"\n\n"):
        return b""
    return b"event: incomplete\n\n" if lines.endswith(b"\n") else b"\nevent: incomplete\n\n"
