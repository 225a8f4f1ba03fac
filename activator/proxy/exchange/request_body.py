"""Buffers the body of a request until a pod has it, or longer for a possible retry.

After that the buffer stays only if the method allows a retry and the body is small. It holds
payload without framing. Pure.
"""

from __future__ import annotations

from typing import Final

from activator.proxy.message.fields import HTTP_1_1
from activator.proxy.message.grammar import pile
from activator.proxy.message.request import IDEMPOTENT, Request


class RequestBody:
    """The body of one request, as far as it has been read.

    Arguments:
        request: the request.
        limit: bytes that may be buffered.

    Attributes:
        pieces: the buffered payload.
        size: bytes of payload read so far.
        complete: whether the client has sent the whole body.
        trailers: the trailers, in the form of the client's HTTP version; set at the end.
        replayable: whether the buffer has all payload so far, so that a pod can get it from the
            start.
    """

    __slots__ = (
        "_idempotent",
        "_keeps",
        "_limit",
        "complete",
        "pieces",
        "replayable",
        "size",
        "trailers",
    )

    def __init__(self, request: Request, limit: int) -> None:
        self._keeps = self._idempotent = request.method in IDEMPOTENT
        self._limit = limit
        self.pieces: list[bytes] = []
        self.size = 0
        self.complete = not request.has_body
        self.trailers = b""
        self.replayable = True

    @property
    def full(self) -> bool:
        """Whether to stop reading until a pod has the buffered payload."""
        return self.size >= self._limit or not self.replayable

    def keep(self, data: bytes, *, has_pod: bool = False) -> None:
        """Buffer one more piece, even beyond the limit, since it has been read already.

        Arguments:
            data: the piece.
            has_pod: whether a pod has the piece too. Then it stays only for a possible retry.
        """
        pile(self.pieces, data)
        self.size += len(data)
        if has_pod and (self.size > self._limit or not self._keeps):
            self.discard()

    def sent(self, *, may_return: bool) -> None:
        """Record that a pod has the buffered payload; keep it only for a possible retry.

        Arguments:
            may_return: whether the pod may return a request of any method unprocessed. In HTTP/2 it
                may (RFC 9113 section 8.7), and so may queue-proxy. A pod may not speak this version
                of HTTP.
        """
        self._keeps = keeps = may_return or self._idempotent
        if self.size > self._limit or (self.size and not keeps):
            self.discard()

    def discard(self) -> None:
        """Discard the buffered payload: the request cannot be sent again."""
        self.replayable = False
        self.pieces = []


#: The body of every request without one.
NO_BODY: Final = RequestBody(Request(b"GET", b"/", HTTP_1_1, b"", {}, b""), 1)
