"""Declares the client's side of an exchange as an abstract class.

It is an HTTP/1 connection or an HTTP/2 stream. Payload is a list of pieces. Trailers are lines in
HTTP/1 and a header block in HTTP/2; ``exchange.translation`` converts them. ``pod_side`` has the
other side.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from activator.proxy.http2.fields import ResponseFields
from activator.proxy.message.own_responses import OwnResponse
from activator.proxy.message.response import Response

if TYPE_CHECKING:
    from activator.proxy.client.connection import ClientConnection
    from activator.proxy.exchange.tunnel import SwitchingSide


class ClientSide(ABC):
    """The client's side: the sender of the request.

    Attributes:
        base: the client's connection.
    """

    __slots__ = ("base",)

    base: ClientConnection

    @abstractmethod
    def is_full(self) -> bool:
        """Return whether bytes wait because the client does not read."""

    @abstractmethod
    def may_send(self, now: float) -> bool:
        """Return whether the client of a queued request is known to be there.

        If not, the client's side aborts the connection, or calls ``waiting.resume`` later.

        Arguments:
            now: seconds.
        """

    @abstractmethod
    def is_gone(self) -> bool:
        """Return whether the client has left; the loop may not have reported it yet."""

    @abstractmethod
    def drop(self) -> None:
        """Abort the connection of a client that has left."""

    @abstractmethod
    def respond(
        self,
        response: Response | ResponseFields,
        raw: bytes | None,
        payload: list[bytes],
        ended: bool,
        trailers: bytes,
    ) -> None:
        """Send the beginning of the pod's response.

        Arguments:
            response: the head, in the client's version.
            raw: head and payload as received, if nothing else has arrived; else None.
            payload: the payload that arrived with the head.
            ended: whether the response ends here.
            trailers: the trailers, if ``ended``.
        """

    @abstractmethod
    def send_body(self, payload: list[bytes], ended: bool, trailers: bytes) -> None:
        """Send more of the response's body.

        Arguments:
            payload: pieces; may be empty.
            ended: whether the response ends here.
            trailers: the trailers, if ``ended``.
        """

    @abstractmethod
    def interim(self, response: Response | ResponseFields) -> None:
        """Pass on an interim response (RFC 9110 section 15.2)."""

    @abstractmethod
    def send_continue(self) -> None:
        """Send 100 Continue, so that the client sends its body."""

    @abstractmethod
    def send_own_response(self, response: OwnResponse) -> None:
        """Send the activator's own response, and end the request."""

    @abstractmethod
    def body_of(self, response: OwnResponse) -> bytes:
        """Return the part of an own response's body that the client gets."""

    @abstractmethod
    def switching(self) -> SwitchingSide | None:
        """Return the connection for a change of protocol; None in HTTP/2."""

    @abstractmethod
    def finished(self, now: float) -> None:
        """End the request: its response is written completely.

        Arguments:
            now: seconds.
        """

    @abstractmethod
    def break_off(self, outcome: str, code: int) -> None:
        """Abort a response that cannot be completed, so that its client detects this.

        Arguments:
            outcome: one of ``counters.OUTCOMES``.
            code: the HTTP/2 error code with which the pod ended its stream; 0 otherwise.
        """

    @abstractmethod
    def took(self, size: int) -> None:
        """Let the client send more, because the pod's transport has accepted a part of the body.

        Arguments:
            size: how many bytes it accepted.
        """

    @abstractmethod
    def regulate(self) -> None:
        """Pause or resume reading, by whether the exchange can use more of the request's body."""


class PassingSide(ClientSide):
    """A client's side in front of another one: the base of sides that change some calls.

    Arguments:
        client: the side that it replaces in its exchange.
    """

    __slots__ = ("_client",)

    def __init__(self, client: ClientSide) -> None:
        self.base = client.base
        self._client = client

    # -- the response ---------------------------------------------------------------------------

    def respond(
        self,
        response: Response | ResponseFields,
        raw: bytes | None,
        payload: list[bytes],
        ended: bool,
        trailers: bytes,
    ) -> None:
        self._client.respond(response, raw, payload, ended, trailers)

    def send_body(self, payload: list[bytes], ended: bool, trailers: bytes) -> None:
        self._client.send_body(payload, ended, trailers)

    def body_of(self, response: OwnResponse) -> bytes:
        return self._client.body_of(response)

    def send_own_response(self, response: OwnResponse) -> None:
        self._client.send_own_response(response)

    def interim(self, response: Response | ResponseFields) -> None:
        self._client.interim(response)

    def send_continue(self) -> None:
        self._client.send_continue()

    def break_off(self, outcome: str, code: int) -> None:
        self._client.break_off(outcome, code)

    def finished(self, now: float) -> None:
        self._client.finished(now)

    def switching(self) -> SwitchingSide | None:
        return self._client.switching()

    # -- the client -----------------------------------------------------------------------------

    def is_full(self) -> bool:
        return self._client.is_full()

    def may_send(self, now: float) -> bool:
        return self._client.may_send(now)

    def is_gone(self) -> bool:
        return self._client.is_gone()

    def drop(self) -> None:
        self._client.drop()

    def took(self, size: int) -> None:
        self._client.took(size)

    def regulate(self) -> None:
        self._client.regulate()
