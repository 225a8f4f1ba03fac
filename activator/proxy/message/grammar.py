"""Whether a message head is well-formed: the one place that asks llhttp (httptools).

llhttp is strict about everything that request smuggling lives on: line ends, obs-fold, control
characters, Content-Length in every odd form, Content-Length beside Transfer-Encoding. What it
lets pass (gzip before chunked, HTTP/2.0, a fragment in the target) the readers of ``request`` and
``response`` check.
"""

from __future__ import annotations

from typing import Final

import httptools


class FramingError(Exception):
    """A message breaks the grammar; nothing of it may be used, and its connection has to close.

    Attributes:
        status: the answer that fits, where the message is a request.
        block: the request's header fields, each preceded by its CRLF, where it could be read and
            what it asks for is refused; they say in which form the answer is liked.
        to_head: it is known to be a HEAD, whose answer has no body.
    """

    def __init__(self, reason: str, status: int = 400, block: bytes = b"") -> None:
        super().__init__(reason)
        self.status = status
        self.block = block
        self.to_head = False


class _Silent:
    """Takes no callbacks: only the verdict counts.

    httptools looks for each; finding None costs less than finding nothing.
    """

    __slots__ = ()

    on_body = None
    on_chunk_complete = None
    on_chunk_header = None
    on_header = None
    on_headers_complete = None
    on_message_begin = None
    on_message_complete = None
    on_status = None
    on_url = None


_SILENT: Final = _Silent()


class _RequestParser:
    """A parser of llhttp that reads one head after the other.

    Attributes:
        feed: takes a head. The parser has read whole messages: it expects the next.
    """

    __slots__ = ("feed",)

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Take a new parser: of one that has refused a head nothing is known."""
        self.feed = httptools.HttpRequestParser(_SILENT).feed_data


_REUSED: Final = _RequestParser()


def check_request(head: bytes, *, ends: bool = False) -> None:
    """Check a whole request head, up to and with the empty line.

    Arguments:
        ends: the request has no body and its connection goes on: it is HTTP/1.1, and of the
            fields that llhttp reads (Connection, Proxy-Connection, Content-Length,
            Transfer-Encoding, Upgrade) it has none. Then llhttp expects the next request behind
            it, and one parser reads both, which costs half of a new one for each.

    Raises:
        FramingError: with llhttp's reason.
    """
    if ends:
        try:
            _REUSED.feed(head)
        except httptools.HttpParserUpgrade:
            _REUSED.renew()
        except httptools.HttpParserError as error:
            _REUSED.renew()
            raise FramingError(str(error)) from None
        return
    try:
        httptools.HttpRequestParser(_SILENT).feed_data(head)
    except httptools.HttpParserUpgrade:
        pass  # the head is good; whether we upgrade is decided elsewhere
    except httptools.HttpParserError as error:
        raise FramingError(str(error)) from None


def is_good_part(start: bytes, lines: list[bytes], *, ends: bool) -> bool:
    """Return whether a part of a head is well-formed.

    Arguments:
        start: the start line of a request.
        lines: some of the fields, none of which frames the message, behind a first item that is
            none of them.
        ends: see ``check_request``.
    """
    if len(lines) > 1:
        lines[0] = start
        start = b"\r\n".join(lines)
    try:
        check_request(start + b"\r\n\r\n", ends=ends)
    except FramingError:
        return False
    return True


def check_response(head: bytes) -> None:
    """Check a whole response head, up to and with the empty line.

    Raises:
        FramingError: with llhttp's reason.
    """
    try:
        httptools.HttpResponseParser(_SILENT).feed_data(head)
    except httptools.HttpParserUpgrade:
        pass
    except httptools.HttpParserError as error:
        raise FramingError(str(error), status=502) from None
