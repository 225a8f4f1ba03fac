"""Makes a copy of a request that asks for a response without a content coding. Pure.

Source: RFC 9110 section 12.5.3. Knative has no counterpart.
"""

from __future__ import annotations

from typing import Final

from activator.proxy.http2.hpack import Decoder, line
from activator.proxy.http2.section import SENSITIVE, forwarded
from activator.proxy.message.fields import without_named
from activator.proxy.message.request import Request
from activator.proxy.message.version import HTTP_2

_NAME: Final = b"accept-encoding"
_IDENTITY: Final = b"identity"
_LINE: Final = b"\r\nAccept-Encoding: identity"


def with_identity_coding(request: Request, peer: bytes) -> Request:
    """Return a request whose pod may not encode the response, because its head is sent already.

    Arguments:
        request: the client's request.
        peer: the IP address at the other end of the connection.
    """
    lines, fields = without_named(request.lines, (_NAME,)) + _LINE, request.fields
    section = request.section
    if section:
        section = _section(section, forwarded(request.host, fields, peer))
    if request.version is HTTP_2:
        fields = {**fields, _NAME: _IDENTITY}
    return Request(
        request.method,
        request.target,
        request.version,
        request.host,
        fields,
        lines,
        request.keep_alive,
        request.has_body,
        request.length,
        request.upgrade,
        request.expects_continue,
        section,
    )


def _section(section: bytes, end: bytes) -> bytes:
    """Return a header block with the field, in front of the fields that name the client."""
    block = b"".join(
        line(name, value, never_indexed=name in SENSITIVE)
        for name, value in Decoder().decode(section.removesuffix(end))
        if name != _NAME
    )
    return block + line(_NAME, _IDENTITY) + end
