"""Wraps the client's side of an exchange whose client has the head of an event stream already.

The activator has sent 200 and comments, because the request waits for long. So the pod's event
stream follows without its head, and an error becomes the last event of the stream.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from activator.proxy.exchange import event_stream
from activator.proxy.exchange.client_side import ClientSide, PassingSide
from activator.proxy.exchange.tunnel import SwitchingSide
from activator.proxy.http2.fields import ResponseFields
from activator.proxy.message.fields import HTTP_2, HttpVersion
from activator.proxy.message.own_responses import OwnResponse
from activator.proxy.message.response import Response


@final
class EarlyStream(PassingSide):
    """The client's side behind an early head.

    Arguments:
        client: the side that it replaces; of HTTP/1.1 or HTTP/2.
        clock: returns the time, seconds.
    """

    __slots__ = ("_clock", "_end", "_own")

    def __init__(self, client: ClientSide, clock: Callable[[], float]) -> None:
        super().__init__(client)
        self._clock = clock
        self._end = b""  # the last bytes of the pod's part of the stream
        self._own = 0  # bytes of comments that the client's stream has not accepted

    # -- the activator's part of the stream -----------------------------------------------------

    def begin(self, version: HttpVersion, comment: bytes) -> None:
        """Send the head and the first comment.

        Arguments:
            version: the HTTP version of the client.
            comment: see ``event_stream.comment``.
        """
        head: Response | ResponseFields = event_stream.HEAD
        if version is HTTP_2:
            head = event_stream.SECTION
        self._own += len(comment)
        self._client.respond(head, None, [comment], False, b"")

    def wait(self, comment: bytes) -> None:
        """Send another comment, unless the client does not read."""
        if not self._client.is_full():
            self._own += len(comment)
            self._client.send_body([comment], False, b"")

    def pass_on(self, size: int) -> int:
        """Return how many of the bytes that the client's stream accepted are the pod's.

        Arguments:
            size: bytes that it accepted, in the order in which they were sent.
        """
        own = min(size, self._own)
        self._own -= own
        return size - own

    # -- the response ---------------------------------------------------------------------------

    def respond(
        self,
        response: Response | ResponseFields,
        raw: bytes | None,
        payload: list[bytes],
        ended: bool,
        trailers: bytes,
    ) -> None:
        """Send the payload: the client gets no head of the pod, and no trailers."""
        self.send_body(payload, ended, b"")

    def send_body(self, payload: list[bytes], ended: bool, trailers: bytes) -> None:
        self._end = event_stream.tail(self._end, payload)
        self._client.send_body(payload, ended, b"")

    def body_of(self, response: OwnResponse) -> bytes:
        """Return the event that ends the stream. The response's body is JSON."""
        return event_stream.closing(self._end) + event_stream.error_event(response.body)

    def send_own_response(self, response: OwnResponse) -> None:
        """End the stream by an error event, which may replace the rest of the pod's stream."""
        self._client.send_body([self.body_of(response)], True, b"")
        self._client.finished(self._clock())

    def interim(self, response: Response | ResponseFields) -> None:
        """Do nothing, because no interim response may follow the head."""

    def send_continue(self) -> None:
        """Do nothing, as in ``interim``."""

    def switching(self) -> SwitchingSide | None:
        """Return None: no other protocol can follow the head."""
        return None

    # -- the client -----------------------------------------------------------------------------

    def may_send(self, now: float) -> bool:
        """Return whether the client is there, as the comments show.

        Its kernel rejects them once it has closed.
        """
        if self._client.is_gone():
            self._client.drop()
            return False
        return True
