"""A request's body on its way through: framed for the pod, and held for as long as it is of use.

Held until a pod has it, and then only where it may be needed again: the method allows a second
time, and the body is small. Knows no socket and no pod.
"""

from __future__ import annotations

from activator.proxy.message.body import chunk, pile
from activator.proxy.message.fields import clean_trailers
from activator.proxy.message.request import IDEMPOTENT, Request, wants_trailers
from activator.proxy.message.version import HTTP_1_1
from throttler.ticket import QUEUED, Ticket


class HeldBody:
    """What has been read of one body.

    Attributes:
        pieces: what is held, as it goes to a pod; size: bytes of all that was read.
        complete: the client has sent it to its end.
        replayable: all that was read is held, so that it can be sent (again) from the start.
    """

    __slots__ = ("_limit", "_request", "complete", "pieces", "replayable", "size")

    def __init__(self, request: Request, limit: int) -> None:
        self._request = request
        self._limit = limit
        self.pieces: list[bytes] = []
        self.size = 0
        self.complete = not request.has_body
        self.replayable = True

    @property
    def full(self) -> bool:
        """Whether nothing more should be read until a pod takes it."""
        return self.size >= self._limit or not self.replayable

    def framed(self, payload: list[bytes], trailers: bytes) -> bytes:
        """Return what arrived as it goes to a pod; ``complete`` says whether it was the last."""
        if self._request.length >= 0:
            return payload[0] if len(payload) == 1 else b"".join(payload)
        data = chunk(payload) if any(payload) else b""
        if self.complete:
            kept = clean_trailers(trailers) if wants_trailers(self._request) else b""
            data += b"0\r\n" + kept + b"\r\n"
        return data

    def keep(self, data: bytes) -> None:
        """Hold one more piece; whatever the bounds, since it has been read."""
        pile(self.pieces, data)
        self.size += len(data)

    def on_sent(self) -> None:
        """A pod has all that is held: keep it only where it may be sent once more."""
        if self.size > self._limit or (self.size and self._request.method not in IDEMPOTENT):
            self.forget()

    def charge(self, ticket: Ticket, size: int, *, sent: bool) -> None:
        """Count what is held against the budgets; beyond them nothing more is read.

        Arguments:
            size: of what was held just now, in bytes; sent: whether a pod has it already.
        """
        if ticket.state is not QUEUED:
            ticket.size += size
            if sent:
                self.on_sent()
        elif self.replayable:
            assert ticket.revision is not None
            self.replayable = ticket.revision.breaker.hold(ticket, size)

    def forget(self) -> None:
        """From here on this body cannot be sent again."""
        self.replayable = False
        self.pieces = []


#: Of all requests without a body.
NO_BODY = HeldBody(Request(b"GET", b"/", HTTP_1_1, b"", {}, b""), 1)
