"""Changes the protocol of a request by a 101 (RFC 9110 section 7.8), and passes bytes both ways.

Each direction passes bytes no faster than its receiver reads. One direction may close before the
other: the tunnel passes a half-close on, except where a side uses TLS. When both directions are
closed, or one connection is lost, the exchange ends.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Protocol, cast, final

from activator.proxy.exchange import end
from activator.proxy.exchange.placement import stick
from activator.proxy.exchange.sides import DONE, TUNNEL
from activator.proxy.message import own_responses
from activator.proxy.message.response import Response
from activator.proxy.transport import peer_socket
from activator.proxy.transport.peer_socket import BUFFER, SMALL_BUFFER, PeerKind, UnreadBytes

if TYPE_CHECKING:
    from activator.proxy.exchange.exchange import Exchange

_SWITCHED: Final = 101


class SwitchingSide(Protocol):
    """An HTTP/1 connection whose protocol changes: of a client, or to a pod."""

    def switch(self, response: Response, added_lines: bytes) -> None:
        """Pass on the pod's 101."""

    def take_over(self) -> tuple[asyncio.Transport, bytes]:
        """Hand the connection over to the tunnel.

        Returns:
            The transport, and the bytes that arrived behind the head.
        """

    def is_full(self) -> bool:
        """Return whether bytes wait because the peer does not read."""

    def unread_bytes(self) -> UnreadBytes:
        """Return the count of bytes that peers do not read."""

    def who(self) -> tuple[PeerKind, str]:
        """Return the side and the address of the peer."""

    def connection_lost(self, exc: Exception | None) -> None:
        """Release the connection; see asyncio.Protocol."""


def begin(exchange: Exchange, response: Response) -> None:
    """Pass on the pod's 101, and connect the client with the pod.

    Arguments:
        exchange: the exchange of the request.
        response: the pod's 101. One that the client did not ask for ends the request.
    """
    pod = exchange.pod()
    wanted = exchange.request.upgrade.lower()
    if not wanted or response.upgrade.lower() != wanted:
        failed = own_responses.upstream_failed(f"{pod.address}: an unrequested 101")
        exchange.stop(failed, "upstream-failed")
        return
    driver = exchange.services.driver
    if pod.ejection.consecutive_errors:
        driver.responded_well(pod)
    exchange.status = _SWITCHED
    exchange.state = TUNNEL
    now = driver.clock()
    pod.last_response_at = exchange.ticket.first_byte = now
    if exchange.wait is not None:
        exchange.added_lines += exchange.wait.responded(pod, now)
    exchange.response_began(now)
    if exchange.trace is not None:
        exchange.trace.responded(_SWITCHED)
    sticky = exchange.entry.throttler.sticky
    if sticky is not None:
        stick(exchange, sticky, response)
    side = exchange.pod_side
    at_client, at_pod = exchange.client.switching(), None if side is None else side.switching()
    assert at_client is not None
    assert at_pod is not None
    at_client.switch(response, exchange.added_lines)
    _connect(exchange, at_client, at_pod)


class _End:
    """One end of a tunnel: it passes the bytes that it receives to the other end.

    The client's connection still counts as a connection of the server.

    Attributes:
        early: bytes that arrived behind the head of the request or the 101.
        ended: whether this end has closed its sending side.
        peer: the other end, until this one is lost.
        transport: the transport of this end.
    """

    __slots__ = (
        "_exchange",
        "_side",
        "_unread",
        "_who",
        "early",
        "ended",
        "peer",
        "transport",
    )
    __deletable__ = ("peer",)  # read by mypyc

    peer: _End

    def __init__(self, side: SwitchingSide, exchange: Exchange) -> None:
        self._side = side
        self._exchange = exchange
        self._unread = side.unread_bytes()
        self._who = side.who()
        self.transport, self.early = side.take_over()
        self.ended = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Never called, since the connection exists already."""

    def data_received(self, data: bytes) -> None:
        """Pass the bytes on."""
        if not self.peer.transport.is_closing():
            self._exchange.touch()
            self.peer.transport.write(data)

    def eof_received(self) -> bool:
        self.ended = True
        peer = self.peer
        # TLS ends both directions at once: asyncio's and uvloop's TLS have no half-close.
        if peer.ended or peer_socket.is_tls(self.transport) or peer_socket.is_tls(peer.transport):
            peer.transport.close()
            return False
        if not peer.transport.is_closing() and peer.transport.can_write_eof():
            peer.transport.write_eof()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended = True
        self._unread.hold(self, 0)
        if not self.peer.transport.is_closing():
            self.peer.transport.close()
        del self.peer  # breaks the cycle: nothing is left for the garbage collector
        exchange = self._exchange
        exchange.pod_side = None
        if exchange.state is not DONE:
            end.end_now(exchange, "served", _SWITCHED, exchange.response_size)
        self._side.connection_lost(exc)

    def end_unread(self) -> tuple[PeerKind, str]:
        self.transport.abort()
        return self._who

    def pause_writing(self) -> None:
        self._unread.hold(self, peer_socket.count_held(self.transport))
        if not self.peer.ended:
            self.peer.transport.pause_reading()

    def resume_writing(self) -> None:
        self._unread.hold(self, 0)
        if not self.peer.ended:
            self.peer.transport.resume_reading()


@final
class _PodEnd(_End):
    """The pod's end. Its connection still counts in its pool."""

    __slots__ = ()

    def get_buffer(self, sizehint: int) -> memoryview:
        return SMALL_BUFFER if self._unread.scarce else BUFFER

    def buffer_updated(self, nbytes: int) -> None:
        self.data_received(BUFFER[:nbytes].tobytes())


def _connect(exchange: Exchange, client: SwitchingSide, pod: SwitchingSide) -> None:
    """Connect the two sides.

    The pod gets the bytes behind the client's request only now, since the 101 comes first (RFC 9110
    section 7.8).

    Arguments:
        exchange: the exchange of the request.
        client: the client's connection.
        pod: the pod's connection.
    """
    client_is_full, pod_is_full = client.is_full(), pod.is_full()
    at_client = _End(client, exchange)
    at_pod = _PodEnd(pod, exchange)
    at_client.peer, at_pod.peer = at_pod, at_client
    # A compiled class cannot inherit from asyncio's. The loops look methods up by name.
    at_client.transport.set_protocol(cast(asyncio.BaseProtocol, at_client))
    at_pod.transport.set_protocol(cast(asyncio.BaseProtocol, at_pod))
    at_client.transport.resume_reading()
    if client_is_full:
        at_client.pause_writing()
    if pod_is_full:
        at_pod.pause_writing()
    if at_pod.early:
        at_client.transport.write(at_pod.early)
    if at_client.early:
        at_pod.transport.write(at_client.early)
    if at_pod.transport.is_closing():  # lost behind its 101; the loop has reported that already
        at_client.transport.close()
