"""Writes responses to a client's HTTP/1 connection, as the client's side of its exchanges.

``client.http1`` decides when a request begins and ends.
"""

from __future__ import annotations

from typing import final

from activator.proxy.client.connection import ClientConnection
from activator.proxy.client.http1_connection import Http1Connection
from activator.proxy.client.http1_switch import Http1Switch
from activator.proxy.exchange.client_side import ClientSide
from activator.proxy.exchange.lookup import ClientPort
from activator.proxy.exchange.tunnel import SwitchingSide
from activator.proxy.http2.fields import ResponseFields
from activator.proxy.message import own_responses
from activator.proxy.message.fields import HTTP_1_0, HTTP_1_1, Version
from activator.proxy.message.response import Response, ResponseWriter, interim_head
from activator.proxy.transport import peer_socket


@final
class Http1Side(ClientSide):
    """The client's side of the exchanges on one connection, one at a time.

    Arguments:
        connection: the connection.
        base: the common part of all client connections.

    Attributes:
        services: the objects that all exchanges share.
        version: the HTTP version of the last request.
        names_connection: whether the last request of HTTP/1.0 had the field Connection.
        keep_alive: whether another request may follow the current one.
        writer: writes the current response; None if it passes unchanged.
    """

    __slots__ = (
        "_base",
        "_connection",
        "keep_alive",
        "names_connection",
        "services",
        "version",
        "writer",
    )

    def __init__(self, connection: Http1Connection, base: ClientConnection) -> None:
        self._connection = connection
        self._base = base
        self.services = base.proxy.services
        self.version: Version = HTTP_1_1
        self.keep_alive = True
        self.names_connection = False
        self.writer: ResponseWriter | None = None

    # -- the client -----------------------------------------------------------------------------

    def port(self) -> ClientPort:
        """See ClientSide."""
        return self._base.port

    def address(self) -> bytes:
        """See ClientSide."""
        return self._base.address

    def peer(self) -> str:
        """See ClientSide."""
        return self._base.peer()

    def is_secure(self) -> bool:
        """See ClientSide."""
        return self._base.secure

    def is_full(self) -> bool:
        """See ClientSide."""
        return self._connection.full

    def may_send(self, now: float) -> bool:
        """See ClientSide. Called right before a pod gets the request."""
        return not peer_socket.has_ended(self._base.transport) or self._connection.is_there(now)

    def leaves_by_end(self) -> bool:
        """Return whether the client leaves by the end of its sending side.

        So does a proxy of HTTP/1.0, such as nginx, which names its connection. Other clients of
        HTTP/1.0 may await their response; a 100 tests clients of HTTP/1.1.
        """
        return self.version is HTTP_1_0 and self.names_connection

    def is_gone(self) -> bool:
        """See ClientSide."""
        return peer_socket.is_gone(self._base.transport)

    def drop(self) -> None:
        """See ClientSide."""
        self._base.transport.abort()

    def set_idle_since(self, now: float) -> None:
        """See ClientSide."""
        self._base.idle_since = now

    def took(self, size: int) -> None:
        """See ClientSide."""
        self._connection.regulate()

    def regulate(self) -> None:
        """See ClientSide."""
        self._connection.regulate()

    def arm(self, when: float) -> None:
        """See ClientSide."""
        base = self._base
        if when < base.armed:
            base.proxy.timers.arm(base, when)

    # -- the response ---------------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        """Send bytes to the client, unless the connection is closing."""
        transport = self._base.transport
        if not transport.is_closing():
            transport.write(data)

    def respond(
        self,
        response: Response | ResponseFields,
        raw: bytes | None,
        payload: list[bytes],
        ended: bool,
        trailers: bytes,
    ) -> None:
        """See ClientSide."""
        assert isinstance(response, Response)
        exchange = self._connection.exchange
        assert exchange is not None
        base = self._base
        if self.services.draining or base.stopping or base.port.reconnect:
            self.keep_alive = False
        elif not exchange.body.complete:
            revision = exchange.entry.throttler.revision
            # The next bytes on this connection are the rest of the request's body.
            self.keep_alive = self.keep_alive and not ended and revision.full_duplex
        if (
            raw is not None
            and response.plain
            and self.keep_alive
            and not exchange.added_lines
            and self.version is not HTTP_1_0
        ):
            data = response.unchanged(raw)
        else:
            data = self._write_head(response, exchange.added_lines, payload, ended, trailers)
        transport = self._base.transport
        if not transport.is_closing():
            transport.write(data)

    def _write_head(
        self,
        response: Response,
        added_lines: bytes,
        payload: list[bytes],
        ended: bool,
        trailers: bytes,
    ) -> bytes:
        """Return the head, which differs from the pod's, and the payload that came with it."""
        writer = self.writer = ResponseWriter(response, self.version, added_lines)
        if writer.ends_connection:
            self.keep_alive = False
        data = writer.head(close=not self.keep_alive, date=self.services.date())
        data += writer.payload(payload)
        if ended and response.body is not None:
            data += writer.end(trailers or response.body.trailers)
        return data

    def send_body(self, payload: list[bytes], ended: bool, trailers: bytes) -> None:
        """See ClientSide."""
        writer = self.writer
        if writer is None:
            data = payload[0] if len(payload) == 1 else b"".join(payload)
        else:
            data = writer.payload(payload)
            if ended:
                data += writer.end(trailers)
        if data:
            self.write(data)

    def interim(self, response: Response | ResponseFields) -> None:
        """See ClientSide."""
        assert isinstance(response, Response)
        self.write(interim_head(response))

    def send_continue(self) -> None:
        """See ClientSide. A 100 may be sent at any time, and a client ignores an extra one.

        RFC 9110 section 15.2.
        """
        self.write(own_responses.CONTINUE)

    def send_own_response(self, response: own_responses.OwnResponse) -> None:
        """See ClientSide."""
        exchange = self._connection.exchange
        head_only = exchange is not None and exchange.to_head
        self.end_request(response, head_only=head_only, keep_alive=self.keep_alive)

    def end_request(
        self, response: own_responses.OwnResponse, *, head_only: bool, keep_alive: bool
    ) -> None:
        """Send the activator's own response, and end the current request.

        Arguments:
            response: the response.
            head_only: whether the request is a HEAD, so that the body is left out.
            keep_alive: whether the client keeps its connection for another request.
        """
        keep_alive = keep_alive and self._connection.may_keep_alive()
        self.write(
            response.render(
                date=self.services.date(),
                head_only=head_only,
                keep_alive=keep_alive,
                version=self.version,
            )
        )
        self._connection.exchange_done(keep_alive)

    def body_of(self, response: own_responses.OwnResponse) -> bytes:
        """See ClientSide."""
        return response.body

    def finished(self, now: float) -> None:
        """See ClientSide."""
        self._base.idle_since = now
        self._connection.exchange_done(self.keep_alive)

    def break_off(self, outcome: str, code: int) -> None:
        """See ClientSide."""
        self._connection.abort()

    # -- a change of the protocol ---------------------------------------------------------------

    def switching(self) -> SwitchingSide | None:
        """See ClientSide."""
        return Http1Switch(self, self._base.transport, self._base.proxy.unread, self._base.peer())

    def take_ahead(self) -> bytes:
        """See http1_switch.Switched."""
        return self._connection.take_ahead()

    def connection_lost(self, exc: Exception | None) -> None:
        """See http1_switch.Switched."""
        self._connection.connection_lost(exc)
