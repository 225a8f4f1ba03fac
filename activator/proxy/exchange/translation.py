"""Translates heads, trailers and back-pressure between an HTTP/1 side and an HTTP/2 side.

Payload passes unchanged. Back-pressure has two forms: in HTTP/1 the receiver stops reading, in
HTTP/2 it delays WINDOW_UPDATE frames (RFC 9113 section 5.2). RFC 9113 section 8 lists the parts of
a message without a counterpart.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Final, final

from activator.proxy.exchange.sides import ClientSide, PodSide
from activator.proxy.http2.fields import ResponseFields
from activator.proxy.http2.hpack import Decoder, line
from activator.proxy.http2.section import block_of
from activator.proxy.message.fields import clean_trailers
from activator.proxy.message.grammar import CloseBody
from activator.proxy.message.response import Response

_REASONS: Final = {each.value: b" " + each.phrase.encode() for each in HTTPStatus}
#: Fields of a response in HTTP/2 that ``Response.block`` does not have.
_PLACED: Final = frozenset((b":status", b"date", b"content-length", b"trailer"))
_NO_CONTENT: Final = (204, 304)


@final
class Translation:
    """The translation of one exchange whose two sides speak different versions.

    Arguments:
        client, side: the two sides of the exchange.

    Attributes:
        to_http2: True if the pod speaks HTTP/2 and the client HTTP/1; False for the opposite.
    """

    __slots__ = ("_client", "_side", "_unaccepted", "_unsent", "to_http2")

    def __init__(self, client: ClientSide, side: PodSide, *, to_http2: bool) -> None:
        self._client = client
        self._side = side
        self.to_http2 = to_http2
        self._unsent = 0  # bytes of the request that the pod's connection has not accepted
        self._unaccepted = 0  # bytes of the response that the client's connection has not accepted

    # -- the request ----------------------------------------------------------------------------

    def request_trailers(self, trailers: bytes) -> bytes:
        """Return the trailers of a request in the pod's version."""
        return as_block(trailers) if self.to_http2 else as_lines(trailers)

    def sent_to_pod(self, size: int) -> None:
        """Record that bytes of the request's body went to the pod.

        Arguments:
            size: how many.
        """
        if self.to_http2:
            return  # the pod's stream reports itself which bytes are sent
        self._unsent += size
        self.pod_accepts()

    def pod_accepts(self) -> None:
        """Credit the client once the pod's connection accepts more bytes."""
        if self._unsent and not self._side.is_full():
            size, self._unsent = self._unsent, 0
            self._client.accepted(size)

    # -- the response ---------------------------------------------------------------------------

    def response(
        self, response: Response | ResponseFields, *, to_head: bool
    ) -> Response | ResponseFields:
        """Return the head of a response in the client's version.

        Arguments:
            response: the head in the pod's version.
            to_head: whether the request is a HEAD, so that no body follows.
        """
        if isinstance(response, Response):
            return as_section(response)
        return as_head(response, to_head=to_head)

    def response_trailers(self, trailers: bytes) -> bytes:
        """Return the trailers of a response in the client's version."""
        return as_lines(trailers) if self.to_http2 else as_block(trailers)

    def sent_to_client(self, size: int) -> None:
        """Record that bytes of the response's body went to the client.

        Arguments:
            size: how many.
        """
        if not self.to_http2:
            if self._client.is_full():
                self._side.pause(True)
            return
        self._unaccepted += size
        if not self._client.is_full():
            self.client_accepted_all()

    def client_accepted(self) -> None:
        """Resume reading from the pod once the client's stream accepts more."""
        if not self._client.is_full():
            self._side.pause(False)

    def client_accepted_all(self) -> None:
        """Credit the pod, because the client's connection has sent all bytes that waited."""
        if self.to_http2 and self._unaccepted:
            size, self._unaccepted = self._unaccepted, 0
            self._side.accepted(size)


def as_block(trailers: bytes) -> bytes:
    """Return trailers as a header block of HTTP/2.

    Arguments:
        trailers: lines, each with its CRLF.
    """
    return block_of(clean_trailers(trailers))


def as_lines(trailers: bytes) -> bytes:
    """Return trailers as lines of HTTP/1, each with its CRLF.

    Arguments:
        trailers: a header block; empty for no trailers.
    """
    if not trailers:
        return b""
    return clean_trailers(b"".join(b"%b: %b\r\n" % field for field in Decoder().decode(trailers)))


def as_section(response: Response) -> ResponseFields:
    """Return the head of an HTTP/1 response in HTTP/2."""
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
    """Return the trailers of an HTTP/1 response that arrived in one piece with its head."""
    if isinstance(response, Response) and response.body is not None:
        return response.body.trailers
    return b""


def as_head(fields: ResponseFields, *, to_head: bool) -> Response:
    """Return the head of an HTTP/2 response in HTTP/1.

    Arguments:
        fields: the head in HTTP/2.
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
    """Return the fields of a response's head as lines, each preceded by its CRLF.

    Fields of one name stay separate lines: Set-Cookie cannot be joined (RFC 9110 section 5.3).
    """
    return b"".join(
        b"\r\n%b: %b" % field for field in Decoder().decode(block) if field[0] not in _PLACED
    )
