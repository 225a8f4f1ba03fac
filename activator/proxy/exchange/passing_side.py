"""Passes all calls to another client's side: the base of sides that change some of them."""

from __future__ import annotations

from activator.proxy.exchange.client_side import ClientSide
from activator.proxy.exchange.lookup import ClientPort
from activator.proxy.exchange.tunnel import SwitchingSide
from activator.proxy.http2.fields import ResponseFields
from activator.proxy.message.own_responses import OwnResponse
from activator.proxy.message.response import Response


class PassingSide(ClientSide):
    """A client's side in front of another one.

    Arguments:
        client: the side that it replaces in its exchange.
    """

    __slots__ = ("_client",)

    def __init__(self, client: ClientSide) -> None:
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
        """See ClientSide."""
        self._client.respond(response, raw, payload, ended, trailers)

    def send_body(self, payload: list[bytes], ended: bool, trailers: bytes) -> None:
        """See ClientSide."""
        self._client.send_body(payload, ended, trailers)

    def body_of(self, response: OwnResponse) -> bytes:
        """See ClientSide."""
        return self._client.body_of(response)

    def send_own_response(self, response: OwnResponse) -> None:
        """See ClientSide."""
        self._client.send_own_response(response)

    def interim(self, response: Response | ResponseFields) -> None:
        """See ClientSide."""
        self._client.interim(response)

    def send_continue(self) -> None:
        """See ClientSide."""
        self._client.send_continue()

    def break_off(self, outcome: str, code: int) -> None:
        """See ClientSide."""
        self._client.break_off(outcome, code)

    def finished(self, now: float) -> None:
        """See ClientSide."""
        self._client.finished(now)

    def switching(self) -> SwitchingSide | None:
        """See ClientSide."""
        return self._client.switching()

    # -- the client -----------------------------------------------------------------------------

    def port(self) -> ClientPort:
        """See ClientSide."""
        return self._client.port()

    def address(self) -> bytes:
        """See ClientSide."""
        return self._client.address()

    def peer(self) -> str:
        """See ClientSide."""
        return self._client.peer()

    def is_secure(self) -> bool:
        """See ClientSide."""
        return self._client.is_secure()

    def is_full(self) -> bool:
        """See ClientSide."""
        return self._client.is_full()

    def may_send(self, now: float) -> bool:
        """See ClientSide."""
        return self._client.may_send(now)

    def is_gone(self) -> bool:
        """See ClientSide."""
        return self._client.is_gone()

    def drop(self) -> None:
        """See ClientSide."""
        self._client.drop()

    def set_idle_since(self, now: float) -> None:
        """See ClientSide."""
        self._client.set_idle_since(now)

    def took(self, size: int) -> None:
        """See ClientSide."""
        self._client.took(size)

    def regulate(self) -> None:
        """See ClientSide."""
        self._client.regulate()

    def arm(self, when: float) -> None:
        """See ClientSide."""
        self._client.arm(when)
