"""After a 101: bytes both ways, as they come, each side no faster than the other reads.

Knows no HTTP. Each end keeps its direction open after the other has closed its own (a half-close
passes on, but not where TLS is); when both have, or one breaks, the exchange ends.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from activator.proxy.pods.http1 import received
from activator.proxy.transport import presence
from activator.proxy.transport.unread import Peer

if TYPE_CHECKING:  # called by an exchange
    from activator.proxy.client.http1 import Downstream
    from activator.proxy.exchange.http1_exchange import Http1Exchange
    from activator.proxy.pods.http1 import Upstream


class _End(asyncio.BaseProtocol):
    """One side of a tunnel: what it receives goes out on the other side."""

    peer: _End
    _address: tuple[Peer, str]

    def __init__(self, exchange: Http1Exchange, transport: asyncio.Transport) -> None:
        self._exchange = exchange
        self._unread = exchange.downstream.proxy.unread
        self.transport = transport
        self.ended = False

    def data_received(self, data: bytes) -> None:
        """Pass on what came."""
        if not self.peer.transport.is_closing():
            self._exchange.touch()
            self.peer.transport.write(data)

    def eof_received(self) -> bool:
        """See asyncio.Protocol."""
        self.ended = True
        peer = self.peer
        # TLS ends both directions at once: with loops it has no half-close.
        if peer.ended or presence.is_tls(self.transport) or presence.is_tls(peer.transport):
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
        self._exchange.tunnel_closed()

    def end_unread(self) -> tuple[Peer, str]:
        """See unread.Reader."""
        self.transport.abort()
        return self._address

    def pause_writing(self) -> None:
        """See asyncio.Protocol."""
        self._unread.hold(self, presence.count_held(self.transport))
        if not self.peer.ended:
            self.peer.transport.pause_reading()

    def resume_writing(self) -> None:
        """See asyncio.Protocol."""
        self._unread.hold(self, 0)
        if not self.peer.ended:
            self.peer.transport.resume_reading()


class _DownstreamEnd(_End, asyncio.Protocol):
    """The client's side; its connection goes on being one of the server's."""

    def __init__(self, exchange: Http1Exchange, downstream: Downstream) -> None:
        super().__init__(exchange, downstream.transport)
        self._address = Peer.CLIENT, downstream.peer()
        self._downstream = downstream

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        super().connection_lost(exc)
        self._downstream.connection_lost(exc)


class _UpstreamEnd(_End, asyncio.BufferedProtocol):
    """The pod's side; its connection goes on being counted by its pool."""

    def __init__(self, exchange: Http1Exchange, upstream: Upstream) -> None:
        super().__init__(exchange, upstream.transport)
        self._upstream = upstream
        self._address = Peer.POD, upstream.pool.pod.address

    def get_buffer(self, sizehint: int) -> memoryview:
        """See asyncio.BufferedProtocol."""
        return self._upstream.get_buffer(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        """See asyncio.BufferedProtocol."""
        self.data_received(received(nbytes))

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        self._upstream.pool.closed(self._upstream)
        super().connection_lost(exc)


def tunnel(exchange: Http1Exchange, downstream: Downstream, upstream: Upstream) -> None:
    """Join the two connections. ``exchange.tunnel_closed`` is called when they part, maybe twice.

    What the client sent behind its request is held until here, and sent now (RFC 9110 section
    7.8: the server's 101 comes first).
    """
    upstream.expect_slow_reading(True)
    client, pod = _DownstreamEnd(exchange, downstream), _UpstreamEnd(exchange, upstream)
    client.peer, pod.peer = pod, client
    to_client, to_pod = upstream.take_early(), downstream.take_early()
    downstream.transport.set_protocol(client)
    upstream.transport.set_protocol(pod)
    downstream.transport.resume_reading()
    if downstream.full:
        client.pause_writing()
    if exchange.paused:
        pod.pause_writing()
    if to_client:
        client.transport.write(to_client)
    if to_pod:
        pod.transport.write(to_pod)
