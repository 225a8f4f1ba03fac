"""A request's body on its way through, held for as long as it is of use.

Held until a pod has it, and then only where it may be needed again: the method allows a second
time, and the body is small. Holds payload; how it is framed is up to each side. Knows no socket.
"""

from __future__ import annotations

from typing import Final

from activator.proxy.message.body import pile
from activator.proxy.message.request import IDEMPOTENT, Request
from activator.proxy.message.version import HTTP_1_1


class RequestBody:
    """What has been read of one body.

    Attributes:
        pieces: payload that is held; size: bytes of all that was read.
        complete: the client has sent it to its end.
        trailers: behind its end, as the client's version of HTTP writes them.
        replayable: all that was read is held, so that it can be sent (again) from the start.
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
        """Whether nothing more should be read until a pod takes it."""
        return self.size >= self._limit or not self.replayable

    def keep(self, data: bytes) -> None:
        """Hold one more piece; whatever the bounds, since it has been read."""
        pile(self.pieces, data)
        self.size += len(data)

    def sent(self, *, may_return: bool) -> None:
        """Record that a pod has all that is held: keep it only where it may be sent once more.

        Arguments:
            may_return: whether the pod may say of a request, of whatever method, that it has not
                looked at it (HTTP/2: RFC 9113 section 8.7), or may not speak this version of HTTP.
        """
        self._keeps = keeps = may_return or self._idempotent
        if self.size > self._limit or (self.size and not keeps):
            self.forget()

    def trim(self) -> None:
        """Forget what is held where it cannot be sent once more."""
        if self.size > self._limit or (self.size and not self._keeps):
            self.forget()

    def forget(self) -> None:
        """From here on this body cannot be sent again."""
        self.replayable = False
        self.pieces = []


#: Of all requests without a body.
NO_BODY: Final = RequestBody(Request(b"GET", b"/", HTTP_1_1, b"", {}, b""), 1)
