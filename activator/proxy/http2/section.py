"""Fields as lines of HTTP/1 and as a header block of HTTP/2: for what is written once for both.

Answers of our own, and requests that somebody looks at besides us.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from activator.proxy.http2.hpack import line
from activator.proxy.message.fields import is_lookalike, is_ours
from activator.proxy.message.replies import Reply

_CONTEXT: Final = frozenset((b"traceparent", b"tracestate"))
#: Of those that mean something to us, what goes on all the same.
_PASSING: Final = frozenset((b"content-length", b"te", b"trailer"))
#: What nobody but the receiver should keep (RFC 7541 section 7.1.3): in no memo of ours, and not
#: to be indexed by others.
SENSITIVE: Final = frozenset((b"authorization", b"cookie", b"proxy-authorization", b"set-cookie"))


def block_of(lines: bytes, without: Collection[bytes] = ()) -> bytes:
    """Return lines, between CRLF, as a header block; ``without`` those of these names."""
    block = b""
    for each in lines.split(b"\r\n"):
        name, colon, value = each.partition(b":")
        if colon and name.lower() not in without:
            block += line(name.lower(), value.strip(b" \t"))
    return block


def reply_block(reply: Reply, date: bytes) -> bytes:
    """Return the header block of an answer of our own, before its body."""
    return b"".join(
        (
            line(b":status", b"%d" % reply.status),
            line(b"date", date),
            line(b"content-length", b"%d" % len(reply.body)),
            block_of(reply.fields + reply.reason_lines()),
        )
    )


def without_context(fields: Mapping[bytes, bytes]) -> bytes:
    """Return the block of a request's fields that go on, but for the context of its trace."""
    return b"".join(
        line(name, value, never_indexed=name in SENSITIVE)
        for name, value in fields.items()
        if (name in _PASSING or not is_ours(name))
        and name not in _CONTEXT
        and name[:1] != b":"
        and not is_lookalike(name)
    )
