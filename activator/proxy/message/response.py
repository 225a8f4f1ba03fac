"""Read a response head of a pod.

Bytes in, a record out; knows no socket. Pods are not trusted: several tenants share an activator.
Sources: RFC 9110, RFC 9112.
"""

from __future__ import annotations

import re
from typing import Final

from activator.proxy.message.body import Body, CloseBody, LengthBody, PodChunkedBody
from activator.proxy.message.fields import tokens, without_named
from activator.proxy.message.grammar import FramingError, check_response, is_good_part
from activator.proxy.message.head import Head
from activator.proxy.message.lines import RESPONSE_LINES

#: Fields are read alike in requests and responses.
_ANY_START: Final = b"GET / HTTP/1.1"
_NO_BODY: Final = (204, 304)
_BEFORE_REASON: Final = (b"", b" ")
#: What says nothing in HTTP/1.1, and what many servers say all the same.
_IDLE_TALK: Final = b"Connection: keep-alive"
_IDLE_LINE: Final = b"\r\n" + _IDLE_TALK
_VERSIONS: Final = {b"HTTP/1.1 ": 1, b"HTTP/1.0 ": 0}
#: The end of a line and an empty line, each with or without its CR (RFC 9112 section 2.2).
_EMPTY_LINE: Final = re.compile(rb"\n\r?\n")
#: Bytes that have no place in a reason phrase: controls but HTAB (RFC 9112 section 4).
_CONTROLS: Final = bytes((*range(9), *range(10, 32), 127))


class Response:
    """A response head.

    Attributes:
        status: its code.
        reason: the rest of the status line, after the code, with the space before it and without
            control characters.
        block: the end-to-end fields but Date and Content-Length, each preceded by its CRLF.
        date: the Date field; empty if there is none.
        length: Content-Length as it is said (also in an answer to HEAD), -1 if it is not.
        keep_alive: whether the pod keeps the connection.
        plain: the client may see the head as it came, but for the line ``skipped`` if there is one.
        body: its framing; None where there is none.
        chunked: whether the body comes in chunks.
        upgrade: the protocol that a 101 names.
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

    def as_it_came(self, raw: bytes) -> bytes:
        """Return a plain response as the client sees it.

        Arguments:
            raw: the head, and what came behind it.
        """
        if not self.skipped:
            return raw
        before, _, behind = raw.partition(self.skipped)
        return before + behind


def with_crlf(data: bytes) -> bytes | None:
    """End each line of a head with CRLF, where some end with a bare LF.

    A recipient may take a bare LF for the end of a line (RFC 9112 section 2.2); nginx and Go do.
    The first empty line ends the head, so what follows it stays as it is.

    Arguments:
        data: from the version on, with or without bytes behind the head.

    Returns:
        All of ``data``; None if no bare LF ends a line of the head, or the head has no end yet.
    """
    match = _EMPTY_LINE.search(data)
    if match is None:
        return None
    head = data[: match.end()]
    changed = head.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
    return None if changed == head else changed + data[match.end() :]


def read_response(head: bytes, *, to_head: bool) -> Response:
    """Read one whole head.

    Arguments:
        head: from the version up to and with the empty line.
        to_head: whether it answers a HEAD request, so that no body follows.

    Raises:
        FramingError: it is malformed.
    """
    parts = Head(RESPONSE_LINES, head)
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
            and _IDLE_TALK in parts.lines
        ):
            response.skipped = _IDLE_LINE
        else:
            response.plain = False
            _connection(response, fields, alive)
    if not (to_head or status < 200 or status in _NO_BODY):
        _framing(response)
    return response


def _has_good_fields(parts: Head) -> bool:
    """Return whether the fields are well-formed, none of which frames the response."""
    return len(parts.unchecked) == 1 or is_good_part(_ANY_START, parts.unchecked, ends=True)


class _StatusLine:
    """What a status line says.

    Attributes:
        status, reason: as in Response.
        alive: whether the connection lives on where nothing is said: HTTP/1.1.
        plain: as in Response, as far as the line says.
    """

    __slots__ = ("alive", "plain", "reason", "status")

    def __init__(self, status: int, reason: bytes, alive: bool, plain: bool) -> None:
        self.status = status
        self.reason = reason
        self.alive = alive
        self.plain = plain


#: By the line itself, see _status_line.
status_lines: Final[dict[bytes, _StatusLine]] = {}
#: Status lines that are remembered, and bytes of one: pods may make up any.
MEMO_STATUS_LINES: Final = 256
MEMO_STATUS_LINE_BYTES: Final = 64


def _status_line(start: bytes) -> _StatusLine:
    """Read a status line and remember it; a full memo forgets all.

    Raises:
        FramingError: it is malformed.
    """
    minor = _VERSIONS.get(start[:9])
    code, reason = start[9:12], start[12:]
    if minor is None or not code.isdigit() or code < b"100" or reason[:1] not in _BEFORE_REASON:
        raise FramingError("malformed status line", 502)
    status = int(code)
    printable = reason.translate(None, _CONTROLS)
    plain = minor == 1 and status != 204 and printable == reason
    line = _StatusLine(status, printable, minor == 1, plain)
    if status >= 200 and len(start) <= MEMO_STATUS_LINE_BYTES:  # llhttp judges 101 by its fields
        if len(status_lines) >= MEMO_STATUS_LINES:
            status_lines.clear()
        status_lines[start] = line
    return line


def _connection(response: Response, fields: dict[bytes, bytes], alive: bool) -> None:
    """Take out what concerns this connection only, and remember it.

    Arguments:
        alive: whether the connection lives on where nothing is said: HTTP/1.1.
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
    """Find where the body ends (RFC 9112 section 6.3)."""
    if response.chunked:
        response.body = PodChunkedBody()
    elif response.length > 0:
        response.body = LengthBody(response.length)
    elif response.length < 0:
        response.body = CloseBody()
        response.keep_alive = False
