"""Converts fields from lines of HTTP/1 to a header block of HTTP/2.

Responses of the activator itself, traced requests and translated requests use it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from activator.knative.control_fields import ORIGINAL_HOST
from activator.proxy.http2.hpack import Decoder, line, name_prefix, string
from activator.proxy.message import grpc
from activator.proxy.message.fields import PRIORITY, is_handled, is_lookalike, tokens
from activator.proxy.message.own_responses import OwnResponse
from activator.proxy.message.request import Request

_CONTEXT: Final = frozenset((b"traceparent", b"tracestate"))
#: Fields that the activator handles and still forwards.
_PASSING: Final = frozenset((b"content-length", b"te", b"trailer"))
_ORIGINAL_HOST: Final = name_prefix(ORIGINAL_HOST)
_FORWARDED_FOR: Final = name_prefix(b"x-forwarded-for")
#: Fields that only the receiver should keep (RFC 7541 section 7.1.3). The activator remembers none,
#: and marks them so that no table of a peer has them.
SENSITIVE: Final = frozenset((b"authorization", b"cookie", b"proxy-authorization", b"set-cookie"))


def block_of(lines: bytes, without: Collection[bytes] = ()) -> bytes:
    """Return lines as a header block.

    Arguments:
        lines: field lines of HTTP/1, separated by CRLF.
        without: lower-case names of fields to omit.
    """
    block = b""
    for each in lines.split(b"\r\n"):
        name, colon, value = each.partition(b":")
        if colon and name.lower() not in without:
            name = name.lower()
            block += line(name, value.strip(b" \t"), never_indexed=name in SENSITIVE)
    return block


def own_response_block(response: OwnResponse, date: bytes) -> bytes:
    """Return the header block of a response of the activator; its body follows."""
    return b"".join(
        (
            line(b":status", b"%d" % response.status),
            line(b"date", date),
            line(b"content-length", b"%d" % len(response.body)) if response.has_length else b"",
            block_of(response.fields + response.reason_lines()),
        )
    )


def grpc_block(response: OwnResponse, date: bytes) -> bytes:
    """Return the header block of a response of the activator to a gRPC client, without a body."""
    lines = response.fields + response.reason_lines()
    text = response.why or response.body.decode().strip()
    return b"".join(
        (
            line(b":status", b"%d" % response.status),
            line(b"date", date),
            line(b"content-type", grpc.CONTENT_TYPE),
            grpc_status(grpc.status_of(response.status), text),
            block_of(lines, without=(b"content-type",)),
        )
    )


def grpc_status(status: int, text: str) -> bytes:
    """Return the fields, or trailers, that report the end of a call to a gRPC client."""
    return line(b"grpc-status", b"%d" % status) + line(b"grpc-message", grpc.message(text))


def forwarded(request_host: bytes, fields: Mapping[bytes, bytes], client: bytes) -> bytes:
    """Return the fields that name the client of a request, and its host, for queue-proxy.

    Arguments:
        request_host: the request's host.
        fields: the request's fields by lower-case name.
        client: the IP address of its client.
    """
    host = fields.get(ORIGINAL_HOST) or request_host
    return b"".join((_ORIGINAL_HOST, string(host), _forwarded_for(fields, client)))


def _forwarded_for(fields: Mapping[bytes, bytes], client: bytes) -> bytes:
    before = fields.get(b"x-forwarded-for", b"").strip(b" \t")
    return _FORWARDED_FOR + string(before + b", " + client if before else client)


def plain_section(request: Request, client: bytes) -> bytes:
    """Return the header section of a request for a pod without queue-proxy, in HTTP/2.

    It begins with :authority, which is the client's host.

    Arguments:
        client: the IP address of its client.
    """
    section = request.section or section_of(request, client)
    front = line(b":authority", request.host) if request.host else b""
    section = section.removesuffix(forwarded(request.host, request.fields, client))
    return front + section + _forwarded_for(request.fields, client)


def section_of(request: Request, client: bytes) -> bytes:
    """Return the header section of an HTTP/1 request, for a pod in HTTP/2.

    Arguments:
        client: the IP address of its client.
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


def traced_section(
    request: Request, section: bytes, client: bytes, *, plain: bool = False
) -> bytes:
    """Return a request's section without its trace context, which the activator replaces.

    Arguments:
        section: of the request, with that context.
        client: the IP address of its client.
        plain: whether the pod has no queue-proxy, so that ``plain_section`` made the section.
    """
    if plain or not request.section:
        fields = Decoder().decode(section)
        return b"".join(
            line(name, value, never_indexed=name in SENSITIVE)
            for name, value in fields
            if name not in _CONTEXT
        )
    block = line(b":method", request.method) + line(b":path", request.target)
    block += without_context(request.fields)
    if PRIORITY in request.fields:
        passed = line(PRIORITY, request.fields[PRIORITY].strip(b" \t"))
        if passed in request.section:  # of a request that may select its class
            block += passed
    return block + forwarded(request.host, request.fields, client)


def without_context(fields: Mapping[bytes, bytes]) -> bytes:
    """Return the block of a request's forwarded fields without its trace context."""
    return b"".join(
        line(name, value, never_indexed=name in SENSITIVE)
        for name, value in fields.items()
        if (name in _PASSING or not is_handled(name))
        and name not in _CONTEXT
        and name[:1] != b":"
        and not is_lookalike(name)
    )
