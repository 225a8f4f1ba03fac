"""Read a response head of a pod, and write the head that the client sees.

Bytes in, a record out; knows no socket. Pods are not trusted: several tenants share an activator.
Sources: RFC 9110, RFC 9112.
"""

from __future__ import annotations

from dataclasses import dataclass

from activator.proxy.body import Body, ChunkedBody, CloseBody, LengthBody
from activator.proxy.fields import RESPONSE_FIELDS, split_head, tokens, without_named
from activator.proxy.grammar import FramingError, check_response

_VERSIONS = {b"HTTP/1.1 ": 1, b"HTTP/1.0 ": 0}


@dataclass(slots=True)
class Response:
    """A response head.

    Attributes:
        status: its code.
        reason: the rest of the status line, after the code, with the space before it.
        block: the end-to-end fields, Date and Content-Length among them, each preceded by its
            CRLF.
        body: its framing; None where there is none.
        length: Content-Length as it is said (also in an answer to HEAD), -1 if it is not.
        chunked: whether the body comes in chunks.
        keep_alive: whether the pod keeps the connection.
        upgrade: the protocol that a 101 names.
        plain: nothing was taken out and the version is 1.1: the client may see the head as it is.
        dated: whether there is a Date.
    """

    status: int
    reason: bytes
    block: bytes
    body: Body | None
    length: int
    chunked: bool
    keep_alive: bool
    upgrade: bytes
    plain: bool
    dated: bool


def read_response(head: bytes, *, to_head: bool) -> Response:
    """Read one whole head.

    Arguments:
        head: from the version up to and with the empty line.
        to_head: whether it answers a HEAD request, so that no body follows.

    Raises:
        FramingError: it is malformed.
    """
    check_response(head)
    start, fields, block = split_head(RESPONSE_FIELDS, head[:-4])
    minor = _VERSIONS.get(start[:9])
    code = start[9:12]
    if minor is None or not code.isdigit() or code < b"100":
        raise FramingError("malformed status line", 502)
    status = int(code)
    date = fields.pop(b"date", None)
    length = fields.pop(b"content-length", None)
    response = Response(
        status,
        start[12:],
        block,
        None,
        -1 if length is None else int(length),
        False,
        minor == 1,
        b"",
        not fields and minor == 1 and status != 204,
        date is not None,
    )
    if date is not None:
        response.block += b"\r\nDate: " + date
    if length is not None and status != 204:
        response.block += b"\r\nContent-Length: " + length
    if fields:
        _connection(response, fields, minor)
    elif minor == 0:
        response.keep_alive = False
    if not (to_head or status < 200 or status in (204, 304)):
        _framing(response)
    return response


def _connection(response: Response, fields: dict[bytes, bytes], minor: int) -> None:
    connection = fields.pop(b"connection", b"")
    if connection == b"keep-alive" and not fields:
        return
    named = tokens(connection)
    response.keep_alive = b"keep-alive" in named if minor == 0 else b"close" not in named
    if b"upgrade" in named:
        response.upgrade = fields.get(b"upgrade", b"").strip(b" \t")
    coding = fields.get(b"transfer-encoding")
    if coding is not None:
        if coding.strip(b" \t").lower() != b"chunked" or minor == 0:
            raise FramingError("only the transfer coding chunked is supported", 502)
        if response.length >= 0:
            raise FramingError("Content-Length beside Transfer-Encoding", 502)
        response.chunked = True
    others = [name for name in named if name not in (b"close", b"keep-alive", b"upgrade")]
    if others:
        response.block = without_named(response.block, others)


def _framing(response: Response) -> None:
    """Find where the body ends (RFC 9112 section 6.3)."""
    if response.chunked:
        response.body = ChunkedBody()
    elif response.length > 0:
        response.body = LengthBody(response.length)
    elif response.length < 0:
        response.body = CloseBody()
        response.keep_alive = False


def client_head(response: Response, *, minor: int, chunk: bool, close: bool, date: bytes) -> bytes:
    """Write the head that the client sees.

    Arguments:
        minor: the client's HTTP/1 version.
        chunk: whether the body goes out in chunks.
        close: whether the client's connection ends after this answer.
        date: the present date, for an answer without one.
    """
    lines = b"" if response.dated else b"\r\nDate: " + date
    if chunk:
        lines += b"\r\nTransfer-Encoding: chunked"
    if close:
        lines += b"\r\nConnection: close"
    elif minor == 0:
        lines += b"\r\nConnection: keep-alive"
    return b"HTTP/1.1 %d%b%b%b\r\n\r\n" % (
        response.status,
        response.reason,
        response.block,
        lines,
    )


def interim_head(response: Response) -> bytes:
    """Write a 1xx head for the client (RFC 9110 section 15.2)."""
    return b"HTTP/1.1 %d%b%b\r\n\r\n" % (response.status, response.reason, response.block)


def switching_head(response: Response) -> bytes:
    """Write the 101 head for the client."""
    return b"HTTP/1.1 101%b%b\r\nConnection: Upgrade\r\nUpgrade: %b\r\n\r\n" % (
        response.reason,
        response.block,
        response.upgrade,
    )
