"""Makes copies of requests with other fields. Pure. Knative has no counterpart."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from activator.proxy.http2.hpack import Decoder, line
from activator.proxy.http2.section import SENSITIVE, block_of, forwarded
from activator.proxy.message.fields import HTTP_2, PRIORITY, folded
from activator.proxy.message.request import Request

_LINE_START: Final = b"\r\nActivator-Priority: "


def with_identity_coding(request: Request, peer: bytes) -> Request:
    """Return a request whose pod may not encode the response, because its head is sent already.

    Source: RFC 9110 section 12.5.3.

    Arguments:
        request: the client's request.
        peer: the IP address at the other end of the connection.
    """
    return with_fields(request, (b"accept-encoding",), b"\r\nAccept-Encoding: identity", peer)


def with_fields(request: Request, names: Collection[bytes], lines: bytes, peer: bytes) -> Request:
    """Return a request with other fields in place of some of the client's.

    Arguments:
        request: the client's request.
        names: of fields that the activator does not handle, in the form of ``folded``. All fields
            are removed that a server could read as one of them.
        lines: the fields that it gets, each preceded by its CRLF.
        peer: the IP address at the other end of the connection.
    """
    kept = (
        b"\r\n" + each
        for each in request.lines.split(b"\r\n")[1:]
        if folded(each.partition(b":")[0]) not in names
    )
    fields, section = request.fields, request.section
    if request.version is HTTP_2:
        fields = {name: fields[name] for name in fields if folded(name) not in names}
        for each in lines.split(b"\r\n")[1:]:
            name, _, value = each.partition(b": ")
            fields[name.lower()] = value
    if section:
        end = forwarded(request.host, request.fields, peer)
        block = b"".join(
            line(name, value, never_indexed=name in SENSITIVE)
            for name, value in Decoder().decode(section.removesuffix(end))
            if folded(name) not in names
        )
        section = block + block_of(lines) + end  # it ends with the fields that name the client
    return request.copy(fields, b"".join(kept) + lines, section)


def with_priority(request: Request, peer: bytes) -> Request:
    """Return a request whose field Activator-Priority the pod gets too.

    The activator removes this field from all other requests.

    Arguments:
        request: the client's request, which has the field.
        peer: the IP address at the other end of the connection.
    """
    value = request.fields[PRIORITY].strip(b" \t")
    section = request.section
    if section:
        end = forwarded(request.host, request.fields, peer)
        section = section.removesuffix(end) + line(PRIORITY, value) + end
    return request.copy(request.fields, request.lines + _LINE_START + value, section)
