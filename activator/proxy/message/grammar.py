"""Checks by llhttp (httptools) whether a message head is well-formed; no other module uses llhttp.

llhttp is strict about everything that request smuggling uses: line ends, obs-fold, control
characters, odd forms of Content-Length, Content-Length beside Transfer-Encoding. It accepts some
malformed heads (gzip before chunked, HTTP/2.0, a fragment in the target). The modules ``request``
and ``response`` reject these.
"""

from __future__ import annotations

from typing import Final

import httptools


class FramingError(Exception):
    """A message is malformed or not supported. Its connection must close.

    Attributes:
        status: the status of the error response, if the message is a request.
        block: the request's header fields, each preceded by its CRLF, if it is well-formed and not
            supported. They decide the form of the error response. Else empty.
        to_head: the request is known to be a HEAD, so its response has no body.
    """

    def __init__(self, reason: str, status: int = 400, block: bytes = b"") -> None:
        super().__init__(reason)
        self.status = status
        self.block = block
        self.to_head = False


class _NoCallbacks:
    """The callbacks that httptools looks up by name: none, since only the verdict counts.

    An attribute that is None costs httptools less than a missing one.
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


_NO_CALLBACKS: Final = _NoCallbacks()


class _RequestParser:
    """An llhttp parser that reads one head after another.

    Attributes:
        feed: parses a head. The parser has always read complete messages before, so it expects a
            start line.
    """

    __slots__ = ("feed",)

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Replace the parser. After a rejected head the state of a parser is unknown."""
        self.feed = httptools.HttpRequestParser(_NO_CALLBACKS).feed_data


_REUSED: Final = _RequestParser()


def check_request(head: bytes, *, ends: bool = False) -> None:
    """Check a complete request head.

    Arguments:
        head: up to the empty line, and with it.
        ends: the request is HTTP/1.1 and has none of the fields that llhttp reads: Connection,
            Proxy-Connection, Content-Length, Transfer-Encoding, Upgrade. So it has no body, and
            llhttp expects the next request behind it. One parser then reads all such requests,
            which costs half as much as a new parser for each.

    Raises:
        FramingError: the head is malformed; the text is llhttp's.
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
        httptools.HttpRequestParser(_NO_CALLBACKS).feed_data(head)
    except httptools.HttpParserUpgrade:
        pass  # the head is well-formed; ``read_request`` decides about the upgrade
    except httptools.HttpParserError as error:
        raise FramingError(str(error)) from None


def is_good_part(start: bytes, lines: list[bytes], *, ends: bool) -> bool:
    """Return whether some lines of a head are well-formed.

    Arguments:
        start: the start line of a request.
        lines: field lines from index 1 on, which do not frame the message. Index 0 is
            overwritten.
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
    """Check a complete response head.

    Arguments:
        head: up to the empty line, and with it.

    Raises:
        FramingError: the head is malformed; the text is llhttp's.
    """
    try:
        httptools.HttpResponseParser(_NO_CALLBACKS).feed_data(head)
    except httptools.HttpParserUpgrade:
        pass
    except httptools.HttpParserError as error:
        raise FramingError(str(error), status=502) from None
