"""An answer that the client gets framed otherwise than the pod sent it.

Bytes in, bytes out; knows no socket. An answer that needs none of this passes as it came.
"""

from __future__ import annotations

from activator.proxy.message.body import chunk
from activator.proxy.message.client_head import client_head
from activator.proxy.message.fields import clean_trailers
from activator.proxy.message.response import Response
from activator.proxy.message.version import HTTP_1_0, HTTP_1_1, Version


class ResponseWriter:
    """One answer on its way to a client.

    Arguments:
        version: the client's.
        notes: field lines of ours, each preceded by its CRLF.

    Attributes:
        ends_connection: the end of the connection is the end of the body: nothing else tells a
            client of HTTP/1.0 where an answer of unknown length ends.
        size: bytes of the body that have passed, where its length is unknown.
    """

    __slots__ = ("_chunk", "_notes", "_response", "_version", "ends_connection", "size")

    def __init__(self, response: Response, version: Version, notes: bytes = b"") -> None:
        unframed = response.body is not None and response.length < 0
        self._response = response
        self._version = version
        self._notes = notes
        self._chunk = unframed and version is HTTP_1_1
        self.ends_connection = unframed and version is HTTP_1_0
        self.size = 0

    def head(self, *, close: bool, date: bytes) -> bytes:
        """Return the head that the client sees.

        Arguments:
            close: whether the client's connection ends after this answer.
            date: the present date, for an answer without one.
        """
        return client_head(
            self._response,
            version=self._version,
            chunk=self._chunk,
            close=close,
            date=date,
            notes=self._notes,
        )

    def payload(self, payload: list[bytes]) -> bytes:
        """Return a piece of the body as it goes out."""
        if self._response.length < 0:
            self.size += sum(map(len, payload))
        if self._chunk:
            return chunk(payload) if any(payload) else b""
        return b"".join(payload)

    def end(self, trailers: bytes) -> bytes:
        """Return what follows the last piece."""
        return b"0\r\n" + clean_trailers(trailers) + b"\r\n" if self._chunk else b""
