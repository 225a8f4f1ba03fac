"""Passes bytes both ways after a 101, each direction no faster than its receiver reads.

One direction may close before the other: the tunnel passes a half-close on, except where a side
uses TLS. When both directions are closed, or one connection is lost, the exchange ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast, final

from activator.proxy.exchange.client_side import ClientSide
from activator.proxy.exchange.pod_side import PodSide
from activator.proxy.exchange.switching_side import SwitchingSide
from activator.proxy.message.request import Request
from activator.proxy.message.response import Response
from activator.proxy.transport import peer_socket
from activator.proxy.transport.peer_socket import BUFFER, SMALL_BUFFER, Peer, received


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
        "_closed",
        "_side",
        "_touch",
        "_unread",
        "_who",
        "early",
        "ended",
        "peer",
        "transport",
    )
    __deletable__ = ("peer",)  # read by mypyc

    peer: _End

    def __init__(
        self, side: SwitchingSide, touch: Callable[[], None], closed: Callable[[], None]
    ) -> None:
        self._side = side
        self._touch = touch
        self._closed = closed
        self._unread = side.unread_bytes()
        self._who = side.who()
        self.transport, self.early = side.take_over()
        self.ended = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol; never called, since the connection exists already."""

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol: pass the bytes on."""
        if not self.peer.transport.is_closing():
            self._touch()
            self.peer.transport.write(data)

    def eof_received(self) -> bool:
        """See asyncio.Protocol."""
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
        """See asyncio.Protocol."""
        self.ended = True
        self._unread.hold(self, 0)
        if not self.peer.transport.is_closing():
            self.peer.transport.close()
        del self.peer  # breaks the cycle: nothing is left for the garbage collector
        self._closed()
        self._side.connection_lost(exc)

    def end_unread(self) -> tuple[Peer, str]:
        """See unread.Reader."""
        self.transport.abort()
        return self._who

    def pause_writing(self) -> None:
        """See asyncio.Protocol."""
        self._unread.hold(self, peer_socket.count_held(self.transport))
        if not self.peer.ended:
            self.peer.transport.pause_reading()

    def resume_writing(self) -> None:
        """See asyncio.Protocol."""
        self._unread.hold(self, 0)
        if not self.peer.ended:
            self.peer.transport.resume_reading()


@final
class _PodEnd(_End):
    """The pod's end. Its connection still counts in its pool."""

    __slots__ = ()

    def get_buffer(self, sizehint: int) -> memoryview:
        """See asyncio.BufferedProtocol."""
        return SMALL_BUFFER if self._unread.scarce else BUFFER

    def buffer_updated(self, nbytes: int) -> None:
        """See asyncio.BufferedProtocol."""
        self.data_received(received(nbytes))


def is_wanted(request: Request, response: Response) -> bool:
    """Return whether a 101 changes to the protocol that the request named."""
    return bool(request.upgrade) and response.upgrade.lower() == request.upgrade.lower()


def switch(
    client: ClientSide,
    pod: PodSide | None,
    response: Response,
    added_lines: bytes,
    touch: Callable[[], None],
    closed: Callable[[], None],
) -> None:
    """Pass on the pod's 101, and connect the two sides.

    Arguments:
        client: the client's side of the exchange; HTTP/1.
        pod: the pod's side of the exchange; HTTP/1.
        response: the pod's 101.
        added_lines: field lines that the activator adds to the 101, each preceded by its CRLF.
        touch, closed: see ``tunnel``.
    """
    at_client, at_pod = client.switching(), None if pod is None else pod.switching()
    assert at_client is not None
    assert at_pod is not None
    at_client.switch(response, added_lines)
    tunnel(at_client, at_pod, touch, closed)


def tunnel(
    client: SwitchingSide,
    pod: SwitchingSide,
    touch: Callable[[], None],
    closed: Callable[[], None],
) -> None:
    """Connect the two sides.

    The pod gets the bytes behind the client's request only now, since the 101 comes first (RFC 9110
    section 7.8).

    Arguments:
        client: the client's connection.
        pod: the pod's connection.
        touch: called when bytes pass.
        closed: called when a connection is lost, so twice at most.
    """
    client_is_full, pod_is_full = client.is_stopped(), pod.is_stopped()
    at_client = _End(client, touch, closed)
    at_pod = _PodEnd(pod, touch, closed)
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
