"""Finds the payload and the end of a message body, for each framing (RFC 9112 sections 6 and 7).

Each class is one framing, with one method. ``feed`` takes bytes as they arrive and appends the
payload to a list. Once the body is complete, it returns the bytes behind the body. Pure: no socket,
no header fields.
"""

from __future__ import annotations

import re
from collections.abc import MutableSequence
from typing import Final, Protocol

from activator.proxy.message.grammar import FramingError

#: Limit of the bytes of chunk extensions in one body. Applications do not use extensions. An
#: attacker can send hundreds of their bytes per payload byte (CVE-2023-39326, Go: 16 KiB too).
MAX_EXTENSION_BYTES: Final = 16 << 10
#: Limit of the bytes of a trailer section. Go and nginx apply their header limit; trailers are
#: small.
MAX_TRAILER_BYTES: Final = 64 << 10
_TOKEN: Final = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]++"
_QUOTED: Final = (
    rb'"[\t !#-\[\]-~\x80-\xff]*+'
    rb'(?:\\[\t -~\x80-\xff][\t !#-\[\]-~\x80-\xff]*+)*"'
)
#: A chunk's size line: at most 16 hexadecimal digits, then extensions (RFC 9112 section 7.1.1).
#: Only sets of bytes are possessive: Python up to 3.11.2 matches a possessive group wrongly.
_SIZE: Final = re.compile(
    rb"([0-9A-Fa-f]{1,16})"
    rb"(?:[ \t]*+;[ \t]*+%b(?:[ \t]*+=[ \t]*+(?:%b|%b))?)*" % (_TOKEN, _TOKEN, _QUOTED)
)
#: Bytes of a size line without its extensions.
_MAX_SIZE_LINE: Final = 16
_MAX_CHUNK: Final = 1 << 62
#: Pieces that wait are joined up to this size in bytes. Each piece has an overhead of 50 bytes: 25
#: times its counted size, if a peer sends two bytes at a time.
_SMALL_PIECE: Final = 1024
_FIELD: Final = re.compile(_TOKEN + rb":[\t\x20-\x7e\x80-\xff]*")
#: As a number, see request._HASH.
_CR: Final = ord("\r")


class Body(Protocol):
    """The framing of one body, which arrives in pieces.

    Attributes:
        trailers: the lines of the trailer section, each with its CRLF; set when the body is
            complete.
    """

    trailers: bytes

    def feed(self, data: bytes, payload: list[bytes]) -> bytes | None:
        """Read the next bytes of the connection.

        Arguments:
            data: the bytes.
            payload: a list, to which the payload in ``data`` is appended.

        Returns:
            None while the body is incomplete; else the bytes behind it, often none.

        Raises:
            FramingError: the body is malformed.
        """


class LengthBody:
    """A body of Content-Length bytes.

    Attributes:
        remaining: bytes that have not arrived yet.
    """

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
        """See Body.feed. Always None: the caller sees the end of the connection."""
        payload.append(data)
        return None


class ChunkedBody:
    """A body in chunks (RFC 9112 section 7.1)."""

    __slots__ = ("_extensions", "_line_start", "_remaining", "_state", "trailers")

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
        self._line_start = b""  # the beginning of a line whose end has not arrived
        self._extensions = 0  # bytes of chunk extensions so far

    def feed(self, data: bytes, payload: list[bytes]) -> bytes | None:
        """See Body.feed."""
        if self._line_start:
            data = self._line_start + data
            self._line_start = b""
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
                self._line_start = data[at:]
                return None
            line = data[at:line_end]  # ordered: found from there on
            at = line_end + (2 if data[line_end] == _CR else 1)
            if self._line(line):
                return data[at:]

    def _line_end(self, data: bytes, at: int) -> int:
        """Return the index at which the end of the line begins; -1 if it has not arrived.

        Raises:
            FramingError: the line is malformed, or its beginning already is.
        """
        end = data.find(b"\n", at)
        if end > at and data[end - 1] == _CR:
            end -= 1
        elif end >= 0 and not self._bare_lf:
            raise FramingError("a bare CR or LF in a chunked body")
        if self._state == self._DATA_END:
            if end != at and data[at : at + 2] not in (b"", b"\r"):
                raise FramingError("a chunk is longer than its size")
        elif end < 0:
            # A CR that is not followed by LF is malformed. Only the last byte may still get its LF.
            if data.find(b"\r", at, len(data) - 1) >= 0:
                raise FramingError("a bare CR or LF in a chunked body")
            limit = MAX_TRAILER_BYTES if self._state == self._TRAILER else MAX_EXTENSION_BYTES
            if len(data) - at > limit:
                raise FramingError("a line of a chunked body is too long")
        return end

    def _line(self, line: bytes) -> bool:
        """Process one complete line; return whether the body is complete."""
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
    """A body in chunks from a pod. Its lines may end with a bare LF, as the lines of its head may.

    The client does not get these lines: the activator writes chunks of its own.
    """

    __slots__ = ()
    _bare_lf = True


def pile(pieces: MutableSequence[bytes], payload: bytes) -> None:
    """Append payload to the pieces that wait; join small ones.

    Arguments:
        pieces: payload that waits to be sent; changed in place.
    """
    if pieces and len(pieces[-1]) + len(payload) <= _SMALL_PIECE:
        pieces[-1] += payload
    else:
        pieces.append(payload)


def chunk(payload: list[bytes]) -> bytes:
    """Return payload as one chunk.

    Arguments:
        payload: pieces. At least one is not empty, since an empty chunk would end the body.
    """
    data = payload[0] if len(payload) == 1 else b"".join(payload)
    return b"%x\r\n%b\r\n" % (len(data), data)
