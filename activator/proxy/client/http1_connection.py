"""An HTTP/1 connection of a client, as its pieces use it: its reader and its side of exchanges."""

from __future__ import annotations

from abc import ABC, abstractmethod

from activator.proxy.exchange.exchange import Exchange
from activator.proxy.message.grammar import FramingError
from activator.proxy.message.own_responses import OwnResponse
from activator.proxy.message.request import Request


class Http1Connection(ABC):
    """The connection.

    Attributes:
        exchange: the one that runs; None while none runs.
        full: the client does not read what was written.
    """

    __slots__ = ()

    exchange: Exchange | None
    full: bool

    # -- for the reader -------------------------------------------------------------------------

    @abstractmethod
    def begin(self, request: Request, head: bytes) -> None:
        """Begin a request whose head is complete; what came behind it waits in the reader."""

    @abstractmethod
    def refuse(self, error: FramingError) -> None:
        """Respond to what is no request, and close."""

    @abstractmethod
    def refuse_head(self, response: OwnResponse) -> None:
        """Respond in the middle of a request head, and close."""

    @abstractmethod
    def switch_to_http2(self, data: bytes) -> None:
        """Leave the connection to HTTP/2 (RFC 9113 section 3.4)."""

    @abstractmethod
    def on_paused(self) -> None:
        """Nothing is read from the client any more, so the loop does not report when it leaves."""

    # -- for the side ---------------------------------------------------------------------------

    @abstractmethod
    def exchange_done(self, keep_alive: bool) -> None:
        """Close behind the present response, or go on with the next request."""

    @abstractmethod
    def may_keep_alive(self) -> bool:
        """Return whether another request may follow a response of our own."""

    @abstractmethod
    def regulate(self) -> None:
        """Read from the client as long as what it sends can be used."""

    @abstractmethod
    def is_there(self, now: float) -> bool:
        """Return whether a client that ended its sending side is known to be there."""

    @abstractmethod
    def take_ahead(self) -> bytes:
        """Return what the client sent behind its request; from now on the tunnel reads."""

    @abstractmethod
    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection; see asyncio.Protocol."""

    @abstractmethod
    def abort(self) -> None:
        """Break the connection: its response is not complete."""
