"""Where a message body ends, and what is payload of it (RFC 9112 sections 6 and 7).

Three framings with one method each: ``feed`` takes bytes as they come, appends payload to a list
and returns what follows the body once it is complete. Knows no socket and no header.
"""

from __future__ import annotations

import re
from collections.abc import MutableSequence
from typing import Final, Protocol

from activator.proxy.message.grammar import FramingError

#: Bytes of chunk extensions in one body. Nobody uses them; an attacker makes each payload byte
#: cost hundreds of them (CVE-2023-39326, Go: 16 KiB too).
MAX_EXTENSION_BYTES: Final = 16 << 10
#: Bytes of a trailer section (Go and nginx: as for headers; nobody needs more than a few).
MAX_TRAILER_BYTES: Final = 64 << 10
_TOKEN: Final = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]++"
_QUOTED: Final = (
    rb'"[\t !#-\[\]-~\x80-\xff]*+'
    rb'(?:\\[\t -~\x80-\xff][\t !#-\[\]-~\x80-\xff]*+)*"'
)
#: A chunk's size line: at most 16 hexadecimal digits, then extensions (RFC 9112 section 7.1.1).
#: Python up to 3.11.2 matches a possessive group wrongly: only sets of bytes are possessive.
_SIZE: Final = re.compile(
    rb"([0-9A-Fa-f]{1,16})"
    rb"(?:[ \t]*+;[ \t]*+%b(?:[ \t]*+=[ \t]*+(?:%b|%b))?)*" % (_TOKEN, _TOKEN, _QUOTED)
)
#: Bytes of a size line without its extensions.
_MAX_SIZE_LINE: Final = 16
_MAX_CHUNK: Final = 1 << 62
#: Bytes up to which pieces that wait are put together: each takes 50 besides, 25 times what is
#: counted of it where a peer sends two bytes at a time.
_SMALL_PIECE: Final = 1024
_FIELD: Final = re.compile(_TOKEN + rb":[\t\x20-\x7e\x80-\xff]*")
#: As a number, see request._HASH.
_CR: Final = ord("\r")


class Body(Protocol):
    """One body on its way."""

    #: The trailer section's lines, each with its CRLF; filled when the body is complete.
    trailers: bytes

    def feed(self, data: bytes, payload: list[bytes]) -> bytes | None:
        """Take what arrived.

        Arguments:
            payload: the payload bytes in it are appended here.

        Returns:
            None while the body goes on; else what stands behind it, often nothing.

        Raises:
            FramingError: the body is malformed.
        """


class LengthBody:
    """A body of Content-Length bytes."""

    __slots__ = ("remaining",)
    trailers = b""

    def __init__(self, length: int) -> None:
        self.remaining = length

    def feed(self, data: bytes, payload: list[bytes]) -> bytes | None:
        """See Body.feed."""
        remaining = self.remaining
        if len(data) < remaining:
            self.remaining = remaining - len(data)
            payload.append(data)
            return None
        self.remaining = 0
        if len(data) == remaining:
            payload.append(data)
            return b""
        payload.append(data[:remaining])
        return data[remaining:]


class CloseBody:
    """A response body that ends with its connection (RFC 9112 section 6.3, rule 8)."""

    __slots__ = ()
    trailers = b""

    def feed(self, data: bytes, payload: list[bytes]) -> bytes | None:
        """See Body.feed; it never completes by itself."""
        payload.append(data)
        return None


class ChunkedBody:
    """A body in chunks."""

    __slots__ = ("_extensions", "_held", "_remaining", "_state", "trailers")

    #: Whether a bare LF ends a line.
    _bare_lf = False
    _SIZE_LINE = 0
    _DATA = 1
    _DATA_END = 2
    _TRAILER = 3

    def __init__(self) -> None:
        self.trailers = b""
        self._state = self._SIZE_LINE
        self._remaining = 0
        self._held = b""  # the beginning of a line whose end has not come yet
        self._extensions = 0

    def feed(self, data: bytes, payload: list[bytes]) -> bytes | None:
        """See Body.feed."""
        if self._held:
            data = self._held + data
            self._held = b""
        at = 0
        while True:
            if self._state == self._DATA:
                end = at + self._remaining
                if end > len(data):
                    if at < len(data):
                        payload.append(data[at:])
                        self._remaining = end - len(data)
                    return None
                payload.append(data[at:end])  # ordered: sizes are not negative
                at = end
                self._state = self._DATA_END
            line_end = self._line_end(data, at)
            if line_end < 0:
                self._held = data[at:]
                return None
            line = data[at:line_end]  # ordered: found from there on
            at = line_end + (2 if data[line_end] == _CR else 1)
            if self._line(line):
                return data[at:]

    def _line_end(self, data: bytes, at: int) -> int:
        """Return where the line's end begins, or -1; refuse what can only become malformed."""
        end = data.find(b"\n", at)
        if end > at and data[end - 1] == _CR:
            end -= 1
        elif end >= 0 and not self._bare_lf:
            raise FramingError("a bare CR or LF in a chunked body")
        if self._state == self._DATA_END:
            if end != at and data[at : at + 2] not in (b"", b"\r"):
                raise FramingError("a chunk is longer than its size says")
        elif end < 0:
            # A carriage return with something behind it ends no line.
            if data.find(b"\r", at, len(data) - 1) >= 0:
                raise FramingError("a bare CR or LF in a chunked body")
            limit = MAX_TRAILER_BYTES if self._state == self._TRAILER else MAX_EXTENSION_BYTES
            if len(data) - at > limit:
                raise FramingError("a line of a chunked body is too long")
        return end

    def _line(self, line: bytes) -> bool:
        """Take one whole line; return whether the body is complete."""
        if self._state == self._SIZE_LINE:
            self._size(line)
        elif self._state == self._DATA_END:
            self._state = self._SIZE_LINE
        elif not line:
            return True
        else:
            self._trailer(line)
        return False

    def _size(self, line: bytes) -> None:
        match = _SIZE.fullmatch(line)
        if match is None:
            raise FramingError("malformed chunk size or extension")
        self._extensions += max(0, len(line) - _MAX_SIZE_LINE)
        if self._extensions > MAX_EXTENSION_BYTES:
            raise FramingError("too many bytes of chunk extensions")
        self._remaining = int(match[1], 16)
        if self._remaining > _MAX_CHUNK:
            raise FramingError("a chunk size is too large")
        self._state = self._DATA if self._remaining else self._TRAILER

    def _trailer(self, line: bytes) -> None:
        if _FIELD.fullmatch(line) is None:
            raise FramingError("malformed trailer field")
        self.trailers += line + b"\r\n"
        if len(self.trailers) > MAX_TRAILER_BYTES:
            raise FramingError("too many bytes of trailers")


class PodChunkedBody(ChunkedBody):
    """A body in chunks from a pod, whose lines may end with a bare LF as its head's may.

    The client never gets these lines: chunks are framed again.
    """

    __slots__ = ()
    _bare_lf = True


def pile(pieces: MutableSequence[bytes], payload: bytes) -> None:
    """Put payload behind what waits already; small pieces become one."""
    if pieces and len(pieces[-1]) + len(payload) <= _SMALL_PIECE:
        pieces[-1] += payload
    else:
        pieces.append(payload)


def chunk(payload: list[bytes]) -> bytes:
    """Return payload pieces, of which one at least is not empty, as one chunk."""
    data = payload[0] if len(payload) == 1 else b"".join(payload)
    return b"%x\r\n%b\r\n" % (len(data), data)
