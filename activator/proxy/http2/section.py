"""Fields as lines of HTTP/1 and as a header block of HTTP/2: for what is written once for both.

For replies of our own, and for traced or translated requests.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from activator.knative.control_fields import ORIGINAL_HOST
from activator.proxy.http2.hpack import Decoder, line, name_prefix, string
from activator.proxy.message import grpc
from activator.proxy.message.fields import is_handled, is_lookalike, tokens
from activator.proxy.message.own_responses import OwnResponse
from activator.proxy.message.request import Request

_CONTEXT: Final = frozenset((b"traceparent", b"tracestate"))
#: Of those that mean something to us, what goes on all the same.
_PASSING: Final = frozenset((b"content-length", b"te", b"trailer"))
_ORIGINAL_HOST: Final = name_prefix(ORIGINAL_HOST)
_FORWARDED_FOR: Final = name_prefix(b"x-forwarded-for")
#: Fields that only the receiver should keep (RFC 7541 section 7.1.3): no memo of ours holds them,
#: and no table of others.
SENSITIVE: Final = frozenset((b"authorization", b"cookie", b"proxy-authorization", b"set-cookie"))


def block_of(lines: bytes, without: Collection[bytes] = ()) -> bytes:
    """Return lines, between CRLF, as a header block; ``without`` those of these names."""
    block = b""
    for each in lines.split(b"\r\n"):
        name, colon, value = each.partition(b":")
        if colon and name.lower() not in without:
            name = name.lower()
            block += line(name, value.strip(b" \t"), never_indexed=name in SENSITIVE)
    return block


def own_response_block(reply: OwnResponse, date: bytes) -> bytes:
    """Return the header block of a reply of our own, before its body."""
    return b"".join(
        (
            line(b":status", b"%d" % reply.status),
            line(b"date", date),
            line(b"content-length", b"%d" % len(reply.body)),
            block_of(reply.fields + reply.reason_lines()),
        )
    )


def grpc_block(reply: OwnResponse, date: bytes) -> bytes:
    """Return the header block of a reply of our own to a gRPC client, which ends with it."""
    lines = reply.fields + reply.reason_lines()
    return b"".join(
        (
            line(b":status", b"%d" % reply.status),
            line(b"date", date),
            line(b"content-type", grpc.CONTENT_TYPE),
            grpc_status(grpc.status_of(reply.status), reply.why or reply.body.decode().strip()),
            block_of(lines, without=(b"content-type",)),
        )
    )


def grpc_status(status: int, text: str) -> bytes:
    """Return the fields, or trailers, by which a gRPC client learns how its call ended."""
    return line(b"grpc-status", b"%d" % status) + line(b"grpc-message", grpc.message(text))


def forwarded(request_host: bytes, fields: Mapping[bytes, bytes], client: bytes) -> bytes:
    """Return the fields that name the client of a request, and its host.

    Arguments:
        fields: the request's, by lower-case name; client: its client's IP address.
    """
    host = fields.get(ORIGINAL_HOST) or request_host
    before = fields.get(b"x-forwarded-for", b"").strip(b" \t")
    client = before + b", " + client if before else client
    return b"".join((_ORIGINAL_HOST, string(host), _FORWARDED_FOR, string(client)))


def section_of(request: Request, client: bytes) -> bytes:
    """Return the section that goes on of a request that came in HTTP/1.

    Arguments:
        client: its client's IP address.
    """
    fields = request.fields
    block = line(b":method", request.method) + line(b":path", request.target)
    block += block_of(request.lines)
    if b"trailers" in tokens(fields.get(b"te", b"")):
        block += line(b"te", b"trailers")
    if request.length > 0:
        block += line(b"content-length", b"%d" % request.length)
    elif request.length == 0 and request.method in (b"POST", b"PUT", b"PATCH"):
        block += line(b"content-length", b"0")
    return block + forwarded(request.host, fields, client)


def traced_section(request: Request, section: bytes, client: bytes) -> bytes:
    """Return a request's section without the trace context that ours replaces.

    Arguments:
        section: of the request, with that context; client: its client's IP address.
    """
    if not request.section:
        fields = Decoder().decode(section)
        return b"".join(line(name, value) for name, value in fields if name not in _CONTEXT)
    block = line(b":method", request.method) + line(b":path", request.target)
    block += without_context(request.fields)
    return block + forwarded(request.host, request.fields, client)


def without_context(fields: Mapping[bytes, bytes]) -> bytes:
    """Return the block of a request's fields that go on, but for the context of its trace."""
    return b"".join(
        line(name, value, never_indexed=name in SENSITIVE)
        for name, value in fields.items()
        if (name in _PASSING or not is_handled(name))
        and name not in _CONTEXT
        and name[:1] != b":"
        and not is_lookalike(name)
    )
