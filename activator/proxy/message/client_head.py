"""Writes the head of a pod's response in HTTP/1, as the client gets it. Pure.

Sources: RFC 9110, RFC 9112.
"""

from __future__ import annotations

from activator.proxy.message.response import Response
from activator.proxy.message.version import HTTP_1_0, Version


def client_head(
    response: Response,
    *,
    version: Version,
    chunk: bool,
    close: bool,
    date: bytes,
    added_lines: bytes = b"",
) -> bytes:
    """Return the head of a response for the client.

    Arguments:
        response: the pod's response.
        version: the HTTP version of the client.
        chunk: whether the client gets the body in chunks.
        close: whether the activator closes the client's connection after this response.
        date: the current date, for a response without a Date field.
        added_lines: field lines that the activator adds, each preceded by its CRLF.
    """
    lines = added_lines + b"\r\nDate: " + (response.date or date)
    if response.length >= 0 and response.status != 204:
        lines += b"\r\nContent-Length: %d" % response.length
    if chunk:
        lines += b"\r\nTransfer-Encoding: chunked"
    if close:
        lines += b"\r\nConnection: close"
    elif version is HTTP_1_0:
        lines += b"\r\nConnection: keep-alive"
    return b"HTTP/1.1 %d%b%b%b\r\n\r\n" % (
        response.status,
        response.reason,
        response.block,
        lines,
    )


def interim_head(response: Response) -> bytes:
    """Return a 1xx head for the client (RFC 9110 section 15.2)."""
    return b"HTTP/1.1 %d%b%b\r\n\r\n" % (response.status, response.reason, response.block)


def switching_head(response: Response, added_lines: bytes = b"") -> bytes:
    """Return the 101 head for the client; ``added_lines`` as for ``client_head``."""
    return b"HTTP/1.1 101%b%b%b\r\nConnection: Upgrade\r\nUpgrade: %b\r\n\r\n" % (
        response.reason,
        response.block,
        added_lines,
        response.upgrade,
    )
