"""Parses the head of a pod in HTTP/1, and writes the response with the framing of its client."""

from __future__ import annotations

import re
import time
from email.utils import formatdate
from typing import Final

from activator.proxy.message.fields import (
    HTTP_1_0,
    HTTP_1_1,
    HttpVersion,
    clean_trailers,
    tokens,
    values_in,
    without_named,
)
from activator.proxy.message.grammar import (
    RESPONSE_LINES,
    Body,
    CloseBody,
    FramingError,
    LengthBody,
    MessageHead,
    PodChunkedBody,
    check_response,
    chunk,
    is_good_part,
)

# Parses a response head of a pod in HTTP/1. Pure.
#
# The activator does not trust pods, since several tenants share it. Sources: RFC 9110, RFC 9112.

#: A start line for llhttp, which checks fields of requests and responses by the same rules.
_ANY_START: Final = b"GET / HTTP/1.1"
_NO_BODY: Final = (204, 304)
_BEFORE_REASON: Final = (b"", b" ")
#: A field that is redundant in HTTP/1.1. Many servers send it.
_REDUNDANT: Final = b"Connection: keep-alive"
_REDUNDANT_LINE: Final = b"\r\n" + _REDUNDANT
#: The minor version by the beginning of a status line.
_VERSIONS: Final = {b"HTTP/1.1 ": 1, b"HTTP/1.0 ": 0}
#: The end of a line and an empty line, each with or without its CR (RFC 9112 section 2.2).
_EMPTY_LINE: Final = re.compile(rb"\n\r?\n")
#: Bytes that a reason phrase must not have: controls except HTAB (RFC 9112 section 4).
_CONTROLS: Final = bytes((*range(9), *range(10, 32), 127))


class Response:
    """A response head.

    Attributes:
        status: the status code.
        reason: the rest of the status line behind the code, with the space before it and without
            control characters.
        block: the end-to-end fields except Date and Content-Length, each preceded by its CRLF.
        date: the Date field; empty without one.
        length: Content-Length, also of a response to HEAD; -1 without one.
        keep_alive: whether the pod keeps the connection.
        plain: the client may get the head unchanged, without the line in ``skipped``.
        skipped: a line that the client does not get, with its CRLF in front; usually empty.
        body: the framing of the body; None without a body.
        chunked: whether the body is chunked.
        upgrade: the protocol that a 101 names; empty otherwise.
    """

    __slots__ = (
        "block",
        "body",
        "chunked",
        "date",
        "keep_alive",
        "length",
        "plain",
        "reason",
        "skipped",
        "status",
        "upgrade",
    )

    def __init__(
        self,
        status: int,
        reason: bytes,
        block: bytes,
        date: bytes,
        length: int,
        keep_alive: bool,
        plain: bool,
    ) -> None:
        # Not a dataclass, see request.Request.
        self.status = status
        self.reason = reason
        self.block = block
        self.date = date
        self.length = length
        self.keep_alive = keep_alive
        self.plain = plain
        self.skipped = b""
        self.body: Body | None = None
        self.chunked = False
        self.upgrade = b""

    def value_of(self, name: bytes) -> bytes:
        """Return the value of an end-to-end field; values of equal names are joined by ``, ``.

        Arguments:
            name: in lower case.

        Returns:
            The value; empty if the response does not have the field.
        """
        return values_in(self.block, name)

    def unchanged(self, raw: bytes) -> bytes:
        """Return a plain response for the client, without the line in ``skipped``.

        Arguments:
            raw: the head, and the bytes behind it.
        """
        if not self.skipped:
            return raw
        before, _, behind = raw.partition(self.skipped)
        return before + behind


def with_crlf(data: bytes) -> bytes | None:
    """Replace each bare LF that ends a line of a head by CRLF.

    A recipient may accept a bare LF as a line end (RFC 9112 section 2.2). nginx and Go accept it.
    The first empty line ends the head. Bytes behind the head stay unchanged.

    Arguments:
        data: the head from the version on, with or without bytes behind it.

    Returns:
        ``data`` with the replacements; None if nothing is replaced, or if the head is incomplete.
    """
    match = _EMPTY_LINE.search(data)
    if match is None:
        return None
    head = data[: match.end()]
    changed = head.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
    return None if changed == head else changed + data[match.end() :]


def read_response(head: bytes, *, to_head: bool) -> Response:
    """Parse one complete response head.

    Arguments:
        head: from the version up to the empty line, and with it.
        to_head: whether the request was HEAD, so that no body follows.

    Raises:
        FramingError: the head is malformed, or its transfer coding is not supported.
    """
    parts = MessageHead(RESPONSE_LINES, head)
    line = status_lines.get(parts.start)
    if line is None or parts.is_odd or not _has_good_fields(parts):
        check_response(head)
        line = line or _status_line(parts.start)
    if parts.new:
        RESPONSE_LINES.remember(parts.new)
    fields, date = parts.fields, parts.single
    status = line.status
    length = parts.length
    alive = line.alive
    plain = line.plain and length >= 0 and date != b"" and parts.singles == 1
    response = Response(status, line.reason, parts.block, date, length, alive, plain)
    if fields:
        if (
            len(fields) == 1
            and fields.get(b"connection") == b"keep-alive"
            and alive
            and _REDUNDANT in parts.lines
        ):
            response.skipped = _REDUNDANT_LINE
        else:
            response.plain = False
            _connection(response, fields, alive)
    if not (to_head or status < 200 or status in _NO_BODY):
        _framing(response)
    return response


def _has_good_fields(parts: MessageHead) -> bool:
    """Return whether the fields are well-formed. No new one frames the response."""
    return len(parts.unchecked) == 1 or is_good_part(_ANY_START, parts.unchecked, ends=True)


class _StatusLine:
    """A parsed status line.

    Attributes:
        status, reason: as in Response.
        alive: whether the version keeps connections open by default: HTTP/1.1.
        plain: the line does not prevent Response.plain.
    """

    __slots__ = ("alive", "plain", "reason", "status")

    def __init__(self, status: int, reason: bytes, alive: bool, plain: bool) -> None:
        self.status = status
        self.reason = reason
        self.alive = alive
        self.plain = plain


#: A memo of parsed status lines, by the line.
status_lines: Final[dict[bytes, _StatusLine]] = {}
#: Limits of this memo: lines, and bytes of one line. Pods may invent any number of lines.
MEMO_STATUS_LINES: Final = 256
MEMO_STATUS_LINE_BYTES: Final = 64


def _status_line(start: bytes) -> _StatusLine:
    """Parse a status line, and remember the result. A full memo is cleared first.

    Raises:
        FramingError: the line is malformed.
    """
    minor = _VERSIONS.get(start[:9])
    code, reason = start[9:12], start[12:]
    if minor is None or not code.isdigit() or code < b"100" or reason[:1] not in _BEFORE_REASON:
        raise FramingError("malformed status line", 502)
    status = int(code)
    printable = reason.translate(None, _CONTROLS)
    plain = minor == 1 and status != 204 and printable == reason
    line = _StatusLine(status, printable, minor == 1, plain)
    # llhttp must check each 101, since its fields decide.
    if status >= 200 and len(start) <= MEMO_STATUS_LINE_BYTES:
        if len(status_lines) >= MEMO_STATUS_LINES:
            status_lines.clear()
        status_lines[start] = line
    return line


def _connection(response: Response, fields: dict[bytes, bytes], alive: bool) -> None:
    """Set the attributes of a response that its hop-by-hop fields decide.

    Arguments:
        response: changed in place.
        fields: the handled fields, by name.
        alive: whether the version keeps connections open by default: HTTP/1.1.

    Raises:
        FramingError: Content-Length is malformed, or the transfer coding is not supported.
    """
    if b"content-length" in fields:
        raise FramingError("malformed Content-Length", 502)
    connection = fields.get(b"connection", b"")
    named = tokens(connection) if connection else []
    response.keep_alive = b"close" not in named if alive else b"keep-alive" in named
    if b"upgrade" in named:
        response.upgrade = fields.get(b"upgrade", b"").strip(b" \t")
    coding = fields.get(b"transfer-encoding")
    if coding is not None:
        if coding != b"chunked" and coding.strip(b" \t").lower() != b"chunked":
            raise FramingError("only the transfer coding chunked is supported", 502)
        if not alive:
            raise FramingError("only the transfer coding chunked is supported", 502)
        if response.length >= 0:
            raise FramingError("Content-Length beside Transfer-Encoding", 502)
        response.chunked = True
    others = [name for name in named if name not in (b"close", b"keep-alive", b"upgrade")]
    if others:
        response.block = without_named(response.block, others)


def _framing(response: Response) -> None:
    """Set the framing of the body (RFC 9112 section 6.3)."""
    if response.chunked:
        response.body = PodChunkedBody()
    elif response.length > 0:
        response.body = LengthBody(response.length)
    elif response.length < 0:
        response.body = CloseBody()
        response.keep_alive = False


# Writes the head of a pod's response in HTTP/1, as the client gets it. Pure.
#
# Sources: RFC 9110, RFC 9112.


def client_head(
    response: Response,
    *,
    version: HttpVersion,
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


# Writes a pod's response in HTTP/1 with the framing that its client needs. Pure.
#
# Most responses pass unchanged, and need no writer.


class CurrentDate:
    """The current date as the value of a Date field; formatted once a second."""

    __slots__ = ("_second", "_value")

    def __init__(self) -> None:
        self._second = 0
        self._value = b""

    def value(self) -> bytes:
        """Return the date (RFC 9110 section 6.6.1)."""
        now = int(time.time())
        if now != self._second:
            self._second = now
            self._value = formatdate(now, usegmt=True).encode()
        return self._value


class ResponseWriter:
    """The writer of the body of one response.

    Arguments:
        response: the head of the pod's response.
        version: the HTTP version of the client.

    Attributes:
        chunk: whether the client gets the body in chunks.
        ends_connection: the caller closes the connection to end the body. A client of HTTP/1.0
            cannot see otherwise where a response of unknown length ends.
    """

    __slots__ = ("chunk", "ends_connection")

    def __init__(self, response: Response, version: HttpVersion) -> None:
        unframed = response.body is not None and response.length < 0
        self.chunk = unframed and version is HTTP_1_1
        self.ends_connection = unframed and version is HTTP_1_0

    def payload(self, payload: list[bytes]) -> bytes:
        """Return payload with the framing for the client; empty for no payload."""
        if self.chunk:
            return chunk(payload) if any(payload) else b""
        return b"".join(payload)

    def end(self, trailers: bytes) -> bytes:
        """Return the bytes behind the last payload.

        Arguments:
            trailers: the pod's trailer lines, each with its CRLF.
        """
        return b"0\r\n" + clean_trailers(trailers) + b"\r\n" if self.chunk else b""
