"""An answer that the client gets framed otherwise than the pod sent it.

Bytes in, bytes out; knows no socket. An answer that needs none of this passes as it came.
"""

from __future__ import annotations

from activator.proxy.message.body import chunk
from activator.proxy.message.fields import clean_trailers
from activator.proxy.message.response import Response, client_head


class Reframed:
    """One answer on its way to a client.

    Arguments:
        minor: the client's HTTP/1 version.
        notes: field lines of ours, each preceded by its CRLF.

    Attributes:
        ends_connection: the end of the connection is the end of the body: nothing else tells a
            client of HTTP/1.0 where an answer of unknown length ends.
        size: bytes of the body that have passed, where its length is unknown.
    """

    __slots__ = ("_chunk", "_minor", "_notes", "_response", "ends_connection", "size")

    def __init__(self, response: Response, minor: int, notes: bytes = b"") -> None:
        unframed = response.body is not None and response.length < 0
        self._response = response
        self._minor = minor
        self._notes = notes
        self._chunk = unframed and minor == 1
        self.ends_connection = unframed and minor == 0
        self.size = 0

    def head(self, *, close: bool, date: bytes) -> bytes:
        """Return the head that the client sees.

        Arguments:
            close: whether the client's connection ends after this answer.
            date: the present date, for an answer without one.
        """
        return client_head(
            self._response,
            minor=self._minor,
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
