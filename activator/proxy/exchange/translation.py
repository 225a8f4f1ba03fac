"""An exchange whose two sides speak different versions of HTTP: what one says, for the other.

Heads and trailers are written in the other version's form; payload passes as it is. Back-pressure
too has two forms: HTTP/1 stops to read, HTTP/2 holds back what the peer may send (RFC 9113 section
5.2). RFC 9113 section 8 names what has no counterpart.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Final, final

from activator.proxy.exchange.sides import ClientSide, PodSide
from activator.proxy.http2.fields import ResponseFields
from activator.proxy.http2.hpack import Decoder, line
from activator.proxy.http2.section import block_of
from activator.proxy.message.body import CloseBody
from activator.proxy.message.fields import clean_trailers
from activator.proxy.message.response import Response

_REASONS: Final = {each.value: b" " + each.phrase.encode() for each in HTTPStatus}
#: Response fields that the other version writes separately.
_PLACED: Final = frozenset((b":status", b"date", b"content-length", b"trailer"))
_NO_CONTENT: Final = (204, 304)


@final
class Translation:
    """One exchange whose two sides differ.

    Attributes:
        to_http2: the pod speaks HTTP/2, and the client HTTP/1; else the other way round.
    """

    __slots__ = ("_client", "_side", "_unsent", "_untaken", "to_http2")

    def __init__(self, client: ClientSide, side: PodSide, *, to_http2: bool) -> None:
        self._client = client
        self._side = side
        self.to_http2 = to_http2
        self._unsent = 0  # bytes of the request that the pod's connection has not taken
        self._untaken = 0  # bytes of the response that the client's has not taken

    # -- the request ----------------------------------------------------------------------------

    def request_trailers(self, trailers: bytes) -> bytes:
        """Return a request's trailers as the pod's version writes them."""
        return as_block(trailers) if self.to_http2 else as_lines(trailers)

    def sent(self, size: int) -> None:
        """So many bytes of the request's body went to a pod."""
        if self.to_http2:
            return  # its stream says itself what has gone out
        self._unsent += size
        self.pod_changed()

    def pod_changed(self) -> None:
        """The pod's connection takes more, or no more."""
        if self._unsent and not self._side.is_full():
            size, self._unsent = self._unsent, 0
            self._client.took(size)

    # -- the response ---------------------------------------------------------------------------

    def response(
        self, response: Response | ResponseFields, *, to_head: bool
    ) -> Response | ResponseFields:
        """Return a response's head as the client's version has it.

        Arguments:
            to_head: whether the request is a HEAD, so that no body follows.
        """
        if isinstance(response, Response):
            return as_section(response)
        return as_head(response, to_head=to_head)

    def response_trailers(self, trailers: bytes) -> bytes:
        """Return a response's trailers as the client's version writes them."""
        return as_lines(trailers) if self.to_http2 else as_block(trailers)

    def passed(self, size: int) -> None:
        """So many bytes of the response's body went to the client."""
        if not self.to_http2:
            if self._client.is_full():
                self._side.pause(True)
            return
        self._untaken += size
        if not self._client.is_full():
            self.client_took_all()

    def client_took(self, _size: int) -> None:
        """Some of what waited for the client has gone out."""
        if not self._client.is_full():
            self._side.pause(False)

    def client_took_all(self) -> None:
        """All that waited for the client has gone out."""
        if self.to_http2 and self._untaken:
            size, self._untaken = self._untaken, 0
            self._side.took(size)


def as_block(trailers: bytes) -> bytes:
    """Return trailer lines, each with its CRLF, as a header block."""
    return block_of(clean_trailers(trailers))


def as_lines(trailers: bytes) -> bytes:
    """Return a block of trailers as lines, each with its CRLF."""
    if not trailers:
        return b""
    return clean_trailers(b"".join(b"%b: %b\r\n" % field for field in Decoder().decode(trailers)))


def as_section(response: Response) -> ResponseFields:
    """Return the head of a response in HTTP/1 as HTTP/2 has it."""
    block = line(b":status", b"%d" % response.status) + block_of(response.block)
    fields: dict[bytes, bytes] = {}
    if response.date:
        fields[b"date"] = response.date
        block += line(b"date", response.date)
    length = response.length
    if length >= 0 and response.status != HTTPStatus.NO_CONTENT and response.status >= 200:
        block += line(b"content-length", b"%d" % length)
    return ResponseFields(response.status, fields, length, block)


def trailers_of(response: Response | ResponseFields) -> bytes:
    """Return the trailers of a response that came whole, with its head."""
    if isinstance(response, Response) and response.body is not None:
        return response.body.trailers
    return b""


def as_head(fields: ResponseFields, *, to_head: bool) -> Response:
    """Return the head of a response in HTTP/2 as HTTP/1 has it.

    Arguments:
        to_head: whether the request is a HEAD, so that no body follows.
    """
    status = fields.status
    response = Response(
        status,
        _REASONS.get(status, b" "),
        _lines(fields.block),
        fields.fields.get(b"date", b""),
        fields.length,
        keep_alive=True,
        plain=False,
    )
    if status >= 200 and status not in _NO_CONTENT and not to_head:
        response.body = CloseBody()
    return response


def _lines(block: bytes) -> bytes:
    """Return the fields of a response's head as lines, each behind its CRLF.

    Fields of one name stay apart: Set-Cookie cannot be joined (RFC 9110 section 5.3).
    """
    return b"".join(
        b"\r\n%b: %b" % field for field in Decoder().decode(block) if field[0] not in _PLACED
    )
