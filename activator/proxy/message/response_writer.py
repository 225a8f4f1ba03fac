"""Writes a pod's response in HTTP/1 with the framing that its client needs. Pure.

Most responses pass unchanged, and need no writer.
"""

from __future__ import annotations

from activator.proxy.message.body import chunk
from activator.proxy.message.client_head import client_head
from activator.proxy.message.fields import clean_trailers
from activator.proxy.message.response import Response
from activator.proxy.message.version import HTTP_1_0, HTTP_1_1, Version


class ResponseWriter:
    """The writer of one response.

    Arguments:
        response: the head of the pod's response.
        version: the HTTP version of the client.
        added_lines: field lines that the activator adds, each preceded by its CRLF.

    Attributes:
        ends_connection: the caller closes the connection to end the body. A client of HTTP/1.0
            cannot see otherwise where a response of unknown length ends.
        size: bytes of the body so far, if its length is unknown.
    """

    __slots__ = ("_added_lines", "_chunk", "_response", "_version", "ends_connection", "size")

    def __init__(self, response: Response, version: Version, added_lines: bytes = b"") -> None:
        unframed = response.body is not None and response.length < 0
        self._response = response
        self._version = version
        self._added_lines = added_lines
        self._chunk = unframed and version is HTTP_1_1
        self.ends_connection = unframed and version is HTTP_1_0
        self.size = 0

    def head(self, *, close: bool, date: bytes) -> bytes:
        """Return the head for the client.

        Arguments:
            close: whether the activator closes the client's connection after this response.
            date: the current date, for a response without a Date field.
        """
        return client_head(
            self._response,
            version=self._version,
            chunk=self._chunk,
            close=close,
            date=date,
            added_lines=self._added_lines,
        )

    def payload(self, payload: list[bytes]) -> bytes:
        """Return payload with the framing for the client; empty for no payload."""
        if self._response.length < 0:
            self.size += sum(map(len, payload))
        if self._chunk:
            return chunk(payload) if any(payload) else b""
        return b"".join(payload)

    def end(self, trailers: bytes) -> bytes:
        """Return the bytes behind the last payload.

        Arguments:
            trailers: the pod's trailer lines, each with its CRLF.
        """
        return b"0\r\n" + clean_trailers(trailers) + b"\r\n" if self._chunk else b""
