"""A client's connection, whatever is said on it: its place among the others, and how it ends.

Knows no HTTP. What is read from it and answered on it is left to ``proxy.client.http1``.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from math import inf
from typing import cast

from activator.proxy.client.linger import MAX_SECONDS, Linger
from activator.proxy.client.shared import Proxy
from activator.proxy.transport import presence
from activator.proxy.transport.unread import Peer

#: When the ports close: seconds in which a connection that is new may still bring its first
#: request, which is on its way (Go: the same).
_NEW = 5.0
#: Seconds for a client for which there is no room to bring its request.
_TURNED_AWAY = 2.0
#: Seconds for a client to answer the end of TLS.
_TLS_END = 1.0


class ClientConnection(asyncio.Protocol, ABC):
    """One connection of a client.

    Attributes:
        client: its IP address; secure: whether the connection is encrypted.
        full: the client does not take what has been written for it.
        turned_away: there is no room for the client; it gets one answer.
        idle_since: see eviction.Guest.
    """

    __slots__ = (
        "_closed",
        "_eof",
        "_new_since",
        "_stopping",
        "_unsent",
        "_unsent_at",
        "armed",
        "client",
        "full",
        "idle_since",
        "proxy",
        "secure",
        "transport",
        "turned_away",
    )

    def __init__(self, proxy: Proxy) -> None:
        self.proxy = proxy
        self.client = b""
        self.secure = False
        self.full = False
        self.turned_away = False
        self.armed = inf
        self.idle_since = -inf
        self._new_since = -inf  # while no request has come: when it was made
        self._eof = False  # the client has ended its sending side
        self._stopping = False  # the server has: no request follows the present one
        self._closed = False  # the last answer has been written
        self._unsent = 0  # bytes that the client had not taken when we looked last
        self._unsent_at = 0.0  # since when it takes none

    transport: asyncio.Transport

    # -- the beginning --------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol. A client for which there is no room may bring one request, which is
        answered 503 unless it is a probe. To answer before it has come would reset it."""
        self.transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self.client = peer[0].encode() if isinstance(peer, tuple) else b"127.0.0.1"
        self.secure = presence.is_tls(self.transport)
        presence.notice_slow_reader(self.transport)
        proxy = self.proxy
        if self.secure:
            proxy.handshakes -= 1
        self.turned_away = not proxy.find_room()
        proxy.connections.add(self)
        self._new_since = self.idle_since = now = proxy.clock()
        if self.turned_away:
            proxy.turn_away(self)
        else:
            proxy.eviction.came(self)
        proxy.timers.arm(self, now + self.head_timeout)

    @property
    def head_timeout(self) -> float:
        """Seconds for a request head to arrive."""
        timeout = self.proxy.header_timeout
        return min(timeout, _TURNED_AWAY) if self.turned_away else timeout

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        self._leave_place()

    def _leave_place(self) -> None:
        """Remove this connection from every list; its transport may go on under HTTP/2."""
        self.proxy.unread.hold(self, 0)
        self.proxy.eviction.left(self)
        self.proxy.timers.forget(self)
        self.proxy.left(self)

    def peer(self) -> str:
        """Return the client's ``ip:port``; the port is 0 where there is none."""
        peer = self.transport.get_extra_info("peername")
        if not isinstance(peer, tuple):
            return "127.0.0.1:0"
        host, port = peer[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def write(self, data: bytes) -> None:
        """Send bytes to the client; a client that has left is found by connection_lost."""
        if not self.transport.is_closing():
            self.transport.write(data)

    # -- time -----------------------------------------------------------------------------------

    @abstractmethod
    def on_time(self, now: float) -> float:
        """See timers.Timed."""

    def _arm(self, when: float) -> None:
        """Look at the connection by then."""
        if self.armed > when:
            self.proxy.timers.arm(self, when)

    def _end_unused(self, now: float) -> float:
        """Close a connection on which no first request has begun in the time for its head, as Go
        does; or any that is idle, where the server stops."""
        late_at = self._new_since + self.head_timeout
        if self._stopping or -inf < late_at <= now:
            self._end()
            return inf
        return max(late_at, now) if late_at > -inf else inf

    def _watch_unsent(self) -> None:
        """The answer is complete, and no deadline watches over it any more; but the client may
        never take the rest of it."""
        self._unsent = presence.count_unsent(self.transport)
        if self._unsent:
            self._unsent_at = self.proxy.clock()
            self._arm(self._unsent_at + self.proxy.header_timeout)

    def _give_up_unsent(self, now: float) -> float:
        """Drop a client that has taken nothing for too long, or has all and does not say so."""
        unsent = presence.count_unsent(self.transport)
        if not unsent:
            if self._closed and self.secure:
                self.transport.abort()
            return inf
        if unsent < self._unsent or not self._unsent:
            self._unsent_at = now
        self._unsent = unsent
        late_at = self._unsent_at + self.proxy.header_timeout
        if now >= late_at:
            self.transport.abort()
            return inf
        return min(now + _TLS_END, late_at) if self.secure else late_at

    @abstractmethod
    def end_unread(self) -> tuple[Peer, str]:
        """See unread.Reader."""

    # -- the end --------------------------------------------------------------------------------

    def _end(self) -> None:
        """Close. The end of TLS wants an answer, for which the loop waits a minute; a client that
        has taken all we sent need not be waited for."""
        self._closed = True
        self.transport.close()
        if self.secure:
            self._unsent_at = self.proxy.clock()
            self._arm(self._unsent_at + _TLS_END)

    def _linger(self) -> None:
        """Close when the client has read the last answer, although it has sent more than we read:
        else the kernel would reset the connection, and the answer with it."""
        self.transport.set_protocol(Linger(self, self.transport))
        if self.secure:
            self._arm(self.proxy.clock() + MAX_SECONDS + _TLS_END)

    def _end_unless_new(self) -> None:
        """Close a connection on which nothing runs, where the server stops, unless a request may
        be on its way."""
        if self._closed or self.transport.is_closing():
            return
        now = self.proxy.clock()
        if presence.count_unread(self.transport) or now < self._new_since + _NEW:
            self._arm(now + _NEW)  # it has come and is not read, or is still on the wire
        else:
            self._end()

    @abstractmethod
    def may_leave(self) -> bool:
        """See eviction.Guest."""

    def leave(self) -> bool:
        """See eviction.Guest."""
        if presence.count_unread(self.transport):
            return False
        self._end()
        return True

    @abstractmethod
    def shutdown(self) -> None:
        """Called by uvicorn when the server stops: what has been asked is answered, no more."""

    @abstractmethod
    def drain(self) -> None:
        """The time to wait is over: a request that has no pod is told so."""

    @abstractmethod
    def cut(self) -> None:
        """The time to finish is over: whatever runs ends."""
