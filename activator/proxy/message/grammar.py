"""Whether a message head is well-formed: the one place that asks llhttp (httptools).

llhttp is strict about everything that request smuggling lives on: line ends, obs-fold, control
characters, Content-Length in every odd form, Content-Length beside Transfer-Encoding. A new
parser costs 0.16 us and keeps no state from one message to the next, so neither do we. What it
lets pass (gzip before chunked, HTTP/2.0, a fragment in the target) the readers of ``request`` and
``response`` check.
"""

from __future__ import annotations

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
    """Takes no callbacks: only the verdict counts."""


_SILENT = _Silent()


def check_request(head: bytes) -> None:
    """Check a whole request head, up to and with the empty line.

    Raises:
        FramingError: with llhttp's reason.
    """
    try:
        httptools.HttpRequestParser(_SILENT).feed_data(head)
    except httptools.HttpParserUpgrade:
        pass  # the head is good; whether we upgrade is decided elsewhere
    except httptools.HttpParserError as error:
        raise FramingError(str(error)) from None


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
