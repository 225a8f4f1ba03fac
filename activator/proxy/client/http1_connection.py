"""Declares the methods of a client's HTTP/1 connection that its reader and its side call."""

from __future__ import annotations

from abc import ABC, abstractmethod

from activator.proxy.exchange.exchange import Exchange
from activator.proxy.message.grammar import FramingError
from activator.proxy.message.own_responses import OwnResponse
from activator.proxy.message.request import Request


class Http1Connection(ABC):
    """A client's HTTP/1 connection; ``http1.Http1Client`` implements it.

    Attributes:
        exchange: the current exchange; None between requests.
        full: whether bytes wait because the client does not read.
    """

    __slots__ = ()

    exchange: Exchange | None
    full: bool

    # -- for the reader -------------------------------------------------------------------------

    @abstractmethod
    def begin(self, request: Request, head: bytes) -> None:
        """Begin a request.

        Arguments:
            request: the parsed head.
            head: the bytes of the head. Bytes behind it wait in the reader.
        """

    @abstractmethod
    def refuse(self, error: FramingError) -> None:
        """Respond to malformed or unsupported input, and close."""

    @abstractmethod
    def refuse_head(self, response: OwnResponse) -> None:
        """Respond before a request head is complete, and close."""

    @abstractmethod
    def switch_to_http2(self, data: bytes) -> None:
        """Pass the connection to HTTP/2 (RFC 9113 section 3.4).

        Arguments:
            data: the bytes so far, from the preface on.
        """

    @abstractmethod
    def on_paused(self) -> None:
        """Check the client now and then, since the loop reports nothing while reading pauses."""

    # -- for the side ---------------------------------------------------------------------------

    @abstractmethod
    def exchange_done(self, keep_alive: bool) -> None:
        """End the current exchange: close the connection, or read the next request.

        Arguments:
            keep_alive: whether another request may follow the response.
        """

    @abstractmethod
    def may_keep_alive(self) -> bool:
        """Return whether another request may follow the activator's own response."""

    @abstractmethod
    def regulate(self) -> None:
        """Pause or resume reading, by whether the input can be used."""

    @abstractmethod
    def is_there(self, now: float) -> bool:
        """Return whether a client that ended its sending side is known to be there."""

    @abstractmethod
    def take_ahead(self) -> bytes:
        """Return the bytes behind the request. From now on the tunnel reads."""

    @abstractmethod
    def connection_lost(self, exc: Exception | None) -> None:
        """Release the connection; see asyncio.Protocol."""

    @abstractmethod
    def abort(self) -> None:
        """Abort the connection, because the response is incomplete."""
