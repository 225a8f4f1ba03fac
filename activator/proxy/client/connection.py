"""What every client connection has in either version: its place among the others, and its end.

Knows no HTTP. Its handler reads and writes: ``proxy.client.http1``, or ``proxy.client.http2`` once
the client turns out to speak that.
"""

from __future__ import annotations

import asyncio
from math import inf
from typing import Final, Protocol, cast, final

from activator.proxy.client.eviction import Evictable, EvictableQueue
from activator.proxy.client.linger import MAX_SECONDS, Linger
from activator.proxy.client.proxy import Proxy
from activator.proxy.transport import peer_socket
from activator.proxy.transport.unread import Peer

#: When the ports close: seconds in which a connection that is new may still bring its first
#: request, which is on its way (Go: the same).
_NEW = 5.0
#: Seconds for a client for which there is no room to bring its request.
_TURNED_AWAY = 2.0
#: Seconds for a client to end TLS after we did.
_TLS_END = 1.0
#: Seconds for a client of HTTP/2 to close when its connection has ended and it has taken all.
_END_SECONDS: Final = MAX_SECONDS + 1.0
#: Long ago: one object for all connections.
_NEVER: Final = -inf


class HttpHandler(Protocol):
    """What is spoken on a connection."""

    def on_time(self, now: float) -> float:
        """Do what is due; return when to look again, infinite for not before it is armed."""

    def may_be_evicted(self) -> bool:
        """See eviction.Evictable."""

    def evict(self) -> bool:
        """See eviction.Evictable."""

    def shutdown(self) -> None:
        """Respond to the present requests, and to no more: the server stops."""

    def drain(self) -> None:
        """Respond to requests that have no pod: the time to wait is over."""

    def force_end(self) -> None:
        """End each request that runs: the time to finish is over."""

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection; see asyncio.Protocol."""


@final
class _LostHandler:
    """The handler of a connection that is lost."""

    def on_time(self, now: float) -> float:
        """See HttpHandler."""
        return inf

    def may_be_evicted(self) -> bool:
        """See HttpHandler."""
        return False

    def evict(self) -> bool:
        """See HttpHandler."""
        return False

    def shutdown(self) -> None:
        """See HttpHandler."""

    def drain(self) -> None:
        """See HttpHandler."""

    def force_end(self) -> None:
        """See HttpHandler."""

    def connection_lost(self, exc: Exception | None) -> None:
        """See HttpHandler."""


_LOST: Final[HttpHandler] = _LostHandler()


@final
class _Unsent:
    """What a client does not take: few connections need this.

    Attributes:
        size: bytes that it had not taken at the last look.
        since: when it took some for the last time, seconds.
    """

    __slots__ = ("since", "size")

    def __init__(self, size: int, since: float) -> None:
        self.size = size
        self.since = since


@final
class ClientConnection:
    """One connection of a client: a timers.Timed, an eviction.Evictable, and one of the server's.

    Attributes:
        address: the client's IP address; secure: whether the connection is encrypted.
        turned_away: there is no room for the client; it gets one response.
        idle_since, queue, before, after: see eviction.Evictable.
        new_since: while no request has come: when the connection was made; else -inf.
        stopping: the server stops: no request follows the present one.
    """

    __slots__ = (
        "_unsent",
        "address",
        "after",
        "armed",
        "before",
        "handler",
        "idle_since",
        "new_since",
        "proxy",
        "queue",
        "secure",
        "stopping",
        "transport",
        "turned_away",
    )

    def __init__(self, proxy: Proxy, handler: HttpHandler) -> None:
        self.proxy = proxy
        self.handler = handler
        self.address = b""
        self.secure = False
        self.turned_away = False
        self.armed = inf
        self.idle_since = _NEVER
        self.new_since = _NEVER
        self.queue: EvictableQueue | None = None
        self.before: Evictable | None = None
        self.after: Evictable | None = None
        self.stopping = False
        self._unsent: _Unsent | None = None

    transport: asyncio.Transport

    # -- the beginning --------------------------------------------------------------------------

    def made(self, transport: asyncio.Transport) -> None:
        """Take a place. A client for which there is no room may bring one request. It gets 503,
        unless it is a probe. A response before the request would be lost, since a close with
        unread input resets the connection."""
        self.transport = transport
        peer = transport.get_extra_info("peername")
        self.address = self.proxy.address(peer[0] if isinstance(peer, tuple) else "127.0.0.1")
        self.secure = peer_socket.is_tls(transport)
        peer_socket.notice_slow_reader(transport)
        proxy = self.proxy
        if self.secure:
            proxy.handshakes -= 1
        self.turned_away = not proxy.find_room()
        self.new_since = self.idle_since = now = proxy.clock()
        if self.turned_away:
            proxy.turn_away(self)
        else:
            proxy.connections.add(self)
        proxy.timers.arm(self, now + self.head_timeout())

    def switch_to_http2(self, handler: HttpHandler) -> None:
        """Leave the connection to another handler, from before the first request."""
        connections = self.proxy.connections
        self.handler = handler
        self.new_since = _NEVER
        if not self.turned_away:
            connections.remove(self)
            connections.add(self, http2=True)

    def on_first_request(self) -> None:
        """Record that the client has sent its first request."""
        self.new_since = _NEVER
        if not self.turned_away:
            self.proxy.connections.on_first_request(self)

    def head_timeout(self) -> float:
        """Return the seconds for a request head to arrive."""
        timeout = self.proxy.header_timeout
        return min(timeout, _TURNED_AWAY) if self.turned_away else timeout

    def lost(self) -> None:
        """Free the place of a connection that is closed."""
        self.proxy.timers.disarm(self)
        self.proxy.remove(self)
        self.handler = _LOST  # breaks the cycle: nothing is left for the garbage collector

    def peer(self) -> str:
        """Return the client's ``ip:port``; the port is 0 where there is none."""
        peer = self.transport.get_extra_info("peername")
        if not isinstance(peer, tuple):
            return "127.0.0.1:0"
        host, port = peer[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    # -- time -----------------------------------------------------------------------------------

    def arm(self, when: float) -> None:
        """Look at the connection by then."""
        if self.armed > when:
            self.proxy.timers.arm(self, when)

    def on_time(self, now: float) -> float:
        """See timers.Timed."""
        return self.handler.on_time(now)

    def unused_until(self, now: float) -> float:
        """Return when to close the connection if no request begins; ``now`` for at once.

        A connection ends in the time for its first head, as in Go; where the server stops, an idle
        one ends at once. Infinite for any other.
        """
        if self.stopping:
            return now
        late_at = self.new_since + self.head_timeout()
        return max(late_at, now) if late_at > -inf else inf

    # -- what the client does not take ----------------------------------------------------------

    def watch_unsent(self) -> None:
        """Watch over the rest of a complete response, which no deadline does any more: the client
        may never take it."""
        size = peer_socket.count_unsent(self.transport)
        if not size:
            self._unsent = None
            return
        now = self.proxy.clock()
        self._unsent = _Unsent(size, now)
        self.arm(now + self.proxy.header_timeout)

    def expire_unsent(self, now: float, *, ended: bool) -> float:
        """Drop a client that has taken nothing for too long, or that has all and does not close.

        Arguments:
            ended: whether the last response has been written.

        Returns:
            When to look next.
        """
        size = peer_socket.count_unsent(self.transport)
        if not size:
            self._unsent = None
            if ended and self.secure:
                self.transport.abort()
            return inf
        unsent = self._unsent
        if unsent is None or size < unsent.size:
            unsent = self._unsent = _Unsent(size, now)
        unsent.size = size
        late_at = unsent.since + self.proxy.header_timeout
        if now >= late_at:
            self.transport.abort()
            return inf
        return min(now + _TLS_END, late_at) if self.secure else late_at

    def watch_all_unsent(self, *, ended: bool) -> None:
        """Watch over what waits for a client of HTTP/2 whose connection is full, or ends."""
        now = self.proxy.clock()
        self._unsent = _Unsent(peer_socket.count_unsent(self.transport), now)
        self.arm(now + (_END_SECONDS if ended else self.proxy.header_timeout))

    def watch_no_more(self) -> None:
        """The client takes what is written, or has another limit."""
        self._unsent = None

    def expire_all_unsent(self, now: float, *, ended: bool) -> float:
        """Drop a client of HTTP/2 that has taken nothing for too long, or that has all and does
        not close; return when to look next."""
        unsent = self._unsent
        if unsent is None:
            return inf
        size = peer_socket.count_unsent(self.transport)
        if size < unsent.size:
            unsent.since = now
        unsent.size = size
        all_taken = ended and not size
        patience = _END_SECONDS if all_taken else self.proxy.header_timeout
        if now >= unsent.since + patience:
            self.transport.abort()
            return inf
        return min(unsent.since + patience, now + _END_SECONDS)

    def end_unread(self) -> tuple[Peer, str]:
        """Break the connection, with what the kernel has not sent; see unread.Reader."""
        peer = self.peer()
        peer_socket.reset(self.transport)
        self.transport.abort()
        return Peer.CLIENT, peer

    # -- the end --------------------------------------------------------------------------------

    def end(self) -> None:
        """Close. The loop waits a minute for the client's end of TLS; a client that has taken all
        we sent need not be waited for."""
        self.transport.close()
        if self.secure:
            now = self.proxy.clock()
            if self._unsent is not None:
                self._unsent.since = now
            self.arm(now + _TLS_END)

    def linger(self) -> None:
        """Close when the client has read the last response, although it has sent more than we
        read: else the kernel would reset the connection, and the response with it."""
        lingering = Linger(self.handler, self.transport)
        # The loops look methods up by name: a compiled class has no base of theirs.
        self.transport.set_protocol(cast(asyncio.BaseProtocol, lingering))

    def await_tls_end(self) -> None:
        """Drop a client that does not end TLS behind its last bytes."""
        if self.secure:
            self.arm(self.proxy.clock() + MAX_SECONDS + _TLS_END)

    def is_awaited(self) -> bool:
        """Return whether a request may be on its way where the server stops; then look again."""
        now = self.proxy.clock()
        if peer_socket.count_unread(self.transport) or now < self.new_since + _NEW:
            self.arm(now + _NEW)  # it has come and is not read, or is still on the wire
            return True
        return False

    def may_be_evicted(self) -> bool:
        """See eviction.Evictable."""
        return self.handler.may_be_evicted()

    def evict(self) -> bool:
        """See eviction.Evictable."""
        return not peer_socket.count_unread(self.transport) and self.handler.evict()

    def shutdown(self) -> None:
        """Called by uvicorn when the server stops."""
        self.stopping = True
        self.handler.shutdown()

    def drain(self) -> None:
        """See HttpHandler."""
        self.handler.drain()

    def force_end(self) -> None:
        """See HttpHandler."""
        self.handler.force_end()
