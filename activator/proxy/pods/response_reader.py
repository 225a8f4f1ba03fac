"""Reads a pod's responses in HTTP/1 from pieces of any size. Pure: no transport, no pool."""

from __future__ import annotations

from typing import Final, final

from activator.proxy.http2.frames import HEAD_BYTES
from activator.proxy.message.grammar import Body, CloseBody, FramingError
from activator.proxy.message.response import Response, read_response, with_crlf

#: Most bytes of a response head (Go's transport: 10 MiB by default, Envoy 60 KiB).
MAX_HEAD: Final = 1 << 20
#: Most interim (1xx) responses to one request (Go: 5, then by bytes).
MAX_INTERIM: Final = 16
#: An HTTP/2 server responds to an HTTP/1 request with SETTINGS or GOAWAY (RFC 9113 section 3.4).
#: The first byte of such a frame is 0, and no HTTP/1 response begins with 0.
_HTTP2_TYPES: Final = (b"\x04", b"\x07")


def is_http2(data: bytes) -> bool:
    """Return whether the bytes begin with a frame that an HTTP/2 server sends first."""
    return data[:1] == b"\x00" and data[3:4] in _HTTP2_TYPES and data[5:9] == bytes(4)


@final
class ResponseReader:
    """Reads the response to one request after the other, on one connection.

    It keeps no bytes of a response that has ended, because connections are idle for long.

    Arguments:
        most_head: most bytes of a head that arrives in pieces.

    Attributes:
        to_head: whether the request is a HEAD, whose response has no body.
        interim: number of interim responses so far; the caller sets 0 with each request.
        raw: head and payload in one piece as received, if no other bytes arrived with them.
        rest: the bytes after an interim head.
        ended: whether the response has ended.
        keeps: whether the connection may carry another request.
    """

    __slots__ = (
        *("_body", "_most_head", "_part", "ended", "interim", "keeps", "raw", "rest", "to_head"),
    )

    def __init__(self, most_head: int = MAX_HEAD) -> None:
        self._most_head: Final = most_head
        self.to_head = False
        self.interim = 0
        self.raw: bytes | None = None
        self.rest = b""
        self.ended = False
        self.keeps = False
        self._body: Body | None = None
        self._part: bytearray | None = None

    def read_head(self, data: bytes, payload: list[bytes]) -> Response | None:
        """Read a head, and the payload after it; return None while the head is incomplete.

        Arguments:
            data: the bytes of one read.
            payload: the method appends pieces of the body to it.

        Raises:
            FramingError: the head is malformed, or there are too many interim responses.
        """
        end = data.find(b"\r\n\r\n") + 4
        if end < 4:
            return self._read_odd_head(data, payload)
        whole = end == len(data)
        try:
            response = read_response(data if whole else data[:end], to_head=self.to_head)
        except FramingError:
            # The parser rejects bare LF line ends. Change them to CRLF, and read the head again.
            changed = with_crlf(data)
            if changed is None:
                raise
            return self._read_changed(changed, payload)
        if response.status < 200:
            self._count_interim(response, data[end:])
            return response
        body = self._body = response.body
        if body is None:
            left: bytes | None = b"" if whole else data[end:]
        else:
            left = None if whole else body.feed(data[end:], payload)
        self.ended = left is not None
        self.keeps = response.keep_alive and not left
        self.raw = None if left else data
        return response

    def _read_changed(self, changed: bytes, payload: list[bytes]) -> Response | None:
        """Read a head whose line ends were changed."""
        response = self.read_head(changed, payload)
        self.raw = None
        return response

    def _read_odd_head(self, data: bytes, payload: list[bytes]) -> Response | None:
        """Read a head without CRLF CRLF: it is incomplete, or has bare LF line ends."""
        changed = with_crlf(data)
        if changed is not None:
            return self._read_changed(changed, payload)
        if len(data) > self._most_head:
            raise FramingError("the head is too large", 502)
        if data[:1] == b"\x00" and len(data) >= HEAD_BYTES:
            raise FramingError("not HTTP/1", 502)
        self._part = bytearray(data)
        return None

    def _count_interim(self, response: Response, rest: bytes) -> None:
        self.interim += 1
        if self.interim > MAX_INTERIM:
            raise FramingError("too many interim responses", 502)
        if response.status == 101:
            self._part = bytearray(rest)
        else:
            self.rest = rest

    def read_more_head(self, data: bytes, payload: list[bytes]) -> Response | None:
        """Continue with an incomplete head, or after an interim one; see ``read_head``.

        It searches only the new bytes, so small pieces cost no more than large ones.

        Raises:
            FramingError: see ``read_head``.
        """
        part = self._part
        if part is None:
            return self.read_head(data, payload)
        known = max(0, len(part) - 3)
        part += data
        ends = part.find(b"\n\r\n", known) >= 0 or part.find(b"\n\n", known) >= 0
        ends = ends or (part[:1] == b"\x00" and len(part) >= HEAD_BYTES)
        if not ends and len(part) <= self._most_head:
            return None
        self._part = None
        try:
            return self.read_head(bytes(part), payload)
        except FramingError:
            self._part = part  # for is_http2
            raise

    def read_body(self, data: bytes, payload: list[bytes]) -> bytes:
        """Read more of the body; return its trailers, as lines, at its end.

        Raises:
            FramingError: the body is malformed.
        """
        body = self._body
        assert body is not None
        left = body.feed(data, payload)
        if left is None:
            return b""
        self.ended = True
        if left:
            self.keeps = False
        return body.trailers

    def ends_by_close(self) -> bool:
        """Return whether the end of the connection is the end of the body."""
        return isinstance(self._body, CloseBody)

    def is_http2(self, data: bytes) -> bool:
        """Return whether a malformed head is HTTP/2, and the first bytes of the response."""
        part = self._part
        return not self.interim and is_http2(data if part is None else bytes(part))

    def take_early(self) -> bytes:
        """Return the bytes after a 101."""
        early, self._part = self._part, None
        return b"" if early is None else bytes(early)
