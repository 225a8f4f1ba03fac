"""Implements what HTTP/1 and HTTP/2 connections of clients share: admission, time-outs and the end.

It has no HTTP. Its handler reads and writes: ``client.http1``, or ``client.http2`` from the
client's preface on.
"""

from __future__ import annotations

import asyncio
from math import inf
from typing import Final, Protocol, cast, final

from activator.proxy.client.proxy import Evictable, Proxy, address_of
from activator.proxy.transport import peer_socket
from activator.proxy.transport.peer_socket import PeerKind

#: Bytes of a request that are discarded at most, once its response is complete.
MAX_BYTES: Final = 128 << 20
#: Seconds without such bytes after which the connection, or the stream of HTTP/2, ends.
MAX_SECONDS: Final = 2.0
#: Seconds after which it ends in any case (Knative's default for a whole request).
LONGEST_SECONDS: Final = 300.0
#: Seconds for the first request of a new connection after the ports close (Go: the same). The
#: request may be on its way.
_NEW_SECONDS = 5.0
#: Seconds for the request of a client beyond the limit of connections.
_TURNED_AWAY_SECONDS = 2.0
#: Seconds for a client to end TLS after the activator ended it.
_TLS_END_SECONDS = 1.0
#: Seconds for a client of HTTP/2 to close, once the connection has ended and it has read all.
_END_SECONDS: Final = MAX_SECONDS + 1.0
#: A time before all others. One object for all connections.
_NEVER: Final = -inf


@final
class Admission:
    """How the admission port reads the requests that proxies describe.

    Attributes:
        prefix: stands before the path of a request without fields that describe another one.
        longest: bytes of the longest target.
    """

    __slots__ = ("longest", "prefix")

    def __init__(self, prefix: bytes, longest: int) -> None:
        self.prefix: Final = prefix
        self.longest: Final = longest


@final
class ClientPort:
    """A port on which the activator accepts clients; all its connections share this record.

    Attributes:
        admission: set on the admission port, whose clients are proxies that ask for a pod.
        service: ``namespace/name`` of the plain Service to which the port belongs; empty if it is
            for all revisions.
        reconnect: whether new connections would reach the pods of that Service directly. Then each
            response is the last on its connection; in HTTP/2, GOAWAY follows it.
        insists: whether HTTP/2 connections that are never idle get GOAWAY too.
    """

    __slots__ = ("admission", "insists", "reconnect", "service")

    def __init__(self, service: bytes = b"", admission: Admission | None = None) -> None:
        self.admission: Final = admission
        self.service: Final = service
        self.reconnect = self.insists = False


#: The ports for all revisions.
SHARED: Final = ClientPort()


class HttpHandler(Protocol):
    """The object that reads and writes a connection in its version of HTTP."""

    def on_time(self, now: float) -> float:
        """Enforce the deadlines that have passed; return when to call this again, seconds.

        Infinite means: not before ``ClientConnection.arm``.
        """

    def may_be_evicted(self) -> bool:
        """Return whether no request is in progress, and no byte of one has been read."""

    def evict(self) -> bool:
        """Close for a new client; return whether it closes."""

    def shutdown(self) -> None:
        """Finish the current requests and accept no others, because the server stops."""

    def drain(self) -> None:
        """Respond to requests without a pod, because the time to wait for one is over."""

    def force_end(self) -> None:
        """End every request, because the drain time is over."""

    def connection_lost(self, exc: Exception | None) -> None:
        """Release the connection, as asyncio.Protocol does."""


@final
class _Unsent:
    """The bytes that a client has not read. Few connections have this record.

    Attributes:
        size: how many, at the last check.
        since: when the client last read some, seconds.
    """

    __slots__ = ("since", "size")

    def __init__(self, size: int, since: float) -> None:
        self.size = size
        self.since = since


@final
class ClientConnection(Evictable):
    """One connection of a client, in either version of HTTP.

    It implements timers.Timed, and uvicorn shuts it down.

    Arguments:
        proxy: the objects that all connections share.
        handler: reads and writes.
        port: the port that the client has connected to.

    Attributes:
        address: the client's IP address.
        secure: whether the connection is encrypted.
        turned_away: the connection is beyond the limit; it gets one response.
        new_since: when the connection was opened, until its first request; after that -inf.
        stopping: the server stops, so no request may follow the current one.
        transport: the transport; set by ``made``.
    """

    __slots__ = (
        "_unsent",
        "address",
        "armed",
        "handler",
        "new_since",
        "port",
        "proxy",
        "secure",
        "stopping",
        "transport",
        "turned_away",
    )

    def __init__(self, proxy: Proxy, handler: HttpHandler, port: ClientPort) -> None:
        super().__init__()
        self.proxy = proxy
        self.handler = handler
        self.port = port
        self.address = b""
        self.secure = False
        self.turned_away = False
        self.armed = inf
        self.new_since = _NEVER
        self.stopping = False
        self._unsent: _Unsent | None = None

    transport: asyncio.Transport

    # -- the beginning --------------------------------------------------------------------------

    def made(self, transport: asyncio.Transport) -> None:
        """Begin a connection, and evict an idle one if files run short.

        Beyond the limit of connections a client may send one request. It gets 503, unless the
        request is a probe. A response before the request would be lost, since a close with unread
        input resets the connection.
        """
        self.transport = transport
        peer = transport.get_extra_info("peername")
        self.address = address_of(peer[0] if isinstance(peer, tuple) else "127.0.0.1")
        self.secure = peer_socket.is_tls(transport)
        peer_socket.notice_slow_reader(transport)
        proxy = self.proxy
        if self.secure:
            proxy.handshakes -= 1
        self.turned_away = not proxy.find_room()
        self.new_since = self.idle_since = now = proxy.clock()
        if self.turned_away:
            proxy.turned_away.append(self)
            proxy.count_turned_away()
        else:
            proxy.connections.add(self)
        proxy.timers.arm(self, now + self.head_timeout())

    def switch_to_http2(self, handler: HttpHandler) -> None:
        """Replace the handler before the first request."""
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

    def is_last(self) -> bool:
        """Return whether the next response is to be the last on its connection."""
        return self.stopping or self.port.reconnect or self.proxy.services.draining

    def head_timeout(self) -> float:
        """Return the seconds for a request head to arrive."""
        timeout = self.proxy.header_timeout
        return min(timeout, _TURNED_AWAY_SECONDS) if self.turned_away else timeout

    def lost(self) -> None:
        """Release the place of a closed connection."""
        self.proxy.timers.disarm(self)
        self.proxy.remove(self)
        self.handler = _LOST  # breaks the cycle: nothing is left for the garbage collector

    def peer(self) -> str:
        """Return the client's ``ip:port``; the port is 0 for a client without one."""
        peer = self.transport.get_extra_info("peername")
        if not isinstance(peer, tuple):
            return "127.0.0.1:0"
        host, port = peer[0].removeprefix("::ffff:"), peer[1]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    # -- time -----------------------------------------------------------------------------------

    def arm(self, when: float) -> None:
        """Call ``on_time`` at ``when`` or earlier, seconds."""
        if self.armed > when:
            self.proxy.timers.arm(self, when)

    def on_time(self, now: float) -> float:
        """Enforce the deadlines that have passed; return when to call this again, seconds."""
        return self.handler.on_time(now)

    def unused_until(self, now: float) -> float:
        """Return when to close the connection if no request begins, seconds.

        A new connection closes after the header timeout, as in Go. While the server stops, an idle
        one closes ``now``. All others stay open: infinite.
        """
        if self.stopping:
            return now
        late_at = self.new_since + self.head_timeout()
        return max(late_at, now) if late_at > -inf else inf

    # -- bytes that the client does not read ----------------------------------------------------

    def watch_unsent(self) -> None:
        """Watch the unsent rest of a complete response.

        The request's deadline has ended with the response, and the client may never read the rest.
        """
        size = peer_socket.count_unsent(self.transport)
        if not size:
            self._unsent = None
            return
        now = self.proxy.clock()
        self._unsent = _Unsent(size, now)
        self.arm(now + self.proxy.header_timeout)

    def expire_unsent(self, now: float, *, ended: bool) -> float:
        """Abort the connection of a client that reads nothing, or does not close, for too long.

        Arguments:
            now: seconds.
            ended: whether the last response has been written.

        Returns:
            When to call this again, seconds.
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
        return min(now + _TLS_END_SECONDS, late_at) if self.secure else late_at

    def watch_unsent_http2(self, *, ended: bool) -> None:
        """Watch the bytes that wait for a client of HTTP/2.

        Arguments:
            ended: whether the connection ends; else the client does not read.
        """
        now = self.proxy.clock()
        self._unsent = _Unsent(peer_socket.count_unsent(self.transport), now)
        self.arm(now + (_END_SECONDS if ended else self.proxy.header_timeout))

    def stop_watching(self) -> None:
        """Watch no more: the client reads, or something else limits its time."""
        self._unsent = None

    def expire_unsent_http2(self, now: float, *, ended: bool) -> float:
        """Abort the connection of a client of HTTP/2 that reads nothing, or does not close.

        Arguments:
            now: seconds.
            ended: whether the connection ends.

        Returns:
            When to call this again, seconds.
        """
        unsent = self._unsent
        if unsent is None:
            return inf
        size = peer_socket.count_unsent(self.transport)
        if size < unsent.size:
            unsent.since = now
        unsent.size = size
        all_read = ended and not size
        limit = _END_SECONDS if all_read else self.proxy.header_timeout
        if now >= unsent.since + limit:
            self.transport.abort()
            return inf
        return min(unsent.since + limit, now + _END_SECONDS)

    def end_unread(self) -> tuple[PeerKind, str]:
        """Abort the connection, and discard the bytes in the kernel."""
        peer = self.peer()
        peer_socket.reset(self.transport)
        self.transport.abort()
        return PeerKind.CLIENT, peer

    # -- the end --------------------------------------------------------------------------------

    def end(self) -> None:
        """Close the connection.

        With TLS the loop waits up to a minute for the client's end of TLS. ``on_time`` aborts
        earlier, once the client has read all bytes.
        """
        self.transport.close()
        if self.secure:
            now = self.proxy.clock()
            if self._unsent is not None:
                self._unsent.since = now
            self.arm(now + _TLS_END_SECONDS)

    def linger(self) -> None:
        """Close after the client has read the last response, and discard its input until then.

        Unread input would make the kernel reset the connection, and the response would be lost.
        """
        lingering = Linger(self.handler, self.transport)
        # A compiled class cannot inherit from asyncio's. The loops look methods up by name.
        self.transport.set_protocol(cast(asyncio.BaseProtocol, lingering))

    def await_tls_end(self) -> None:
        """Limit the time for the client's end of TLS."""
        if self.secure:
            self.arm(self.proxy.clock() + MAX_SECONDS + _TLS_END_SECONDS)

    def may_get_request(self) -> bool:
        """Return whether a request may be on its way while the server stops.

        If so, ``on_time`` closes the connection later, unless the request arrives.
        """
        now = self.proxy.clock()
        if peer_socket.count_unread(self.transport) or now < self.new_since + _NEW_SECONDS:
            self.arm(now + _NEW_SECONDS)
            return True
        return False

    def may_be_evicted(self) -> bool:
        """Return whether no request is in progress, and no byte of one has been read."""
        return self.handler.may_be_evicted()

    def evict(self) -> bool:
        """Close, unless unread bytes have arrived; return whether it closes."""
        return not peer_socket.count_unread(self.transport) and self.handler.evict()

    def shutdown(self) -> None:
        """Finish the current requests; uvicorn calls this when the server stops."""
        self.stopping = True
        self.handler.shutdown()

    def drain(self) -> None:
        """Respond to requests without a pod, because the time to wait for one is over."""
        self.handler.drain()

    def force_end(self) -> None:
        """End every request, because the drain time is over."""
        self.handler.force_end()


@final
class Linger:
    """A protocol that closes a connection whose request was not read completely.

    If the activator closed it at once, the kernel would reset the connection because of unread
    bytes. The reset may destroy the response before the client has read it (RFC 9112 section 9.6).
    So the activator closes only its sending side, and discards input: some clients read the
    response only after their whole request. Beyond a limit it stops reading. Go's server waits too
    (rstAvoidanceDelay in net/http/server.go).

    Arguments:
        handler: its ``connection_lost`` is called when the connection is lost.
    """

    def __init__(self, handler: HttpHandler, transport: asyncio.Transport) -> None:
        self._handler = handler
        self._transport = transport
        self._left = MAX_BYTES
        self._moved = False
        transport.resume_reading()
        if transport.can_write_eof():
            transport.write_eof()
        self._loop = asyncio.get_running_loop()
        self._until = self._loop.time() + LONGEST_SECONDS
        self._timer = self._loop.call_later(MAX_SECONDS, self._on_time)

    def _on_time(self) -> None:
        """Close, unless bytes have arrived meanwhile and more may follow."""
        if not self._moved or self._loop.time() >= self._until:
            self._transport.close()
            return
        self._moved = False
        self._timer = self._loop.call_later(MAX_SECONDS, self._on_time)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Do nothing; never called, since the connection exists already."""

    def data_received(self, data: bytes) -> None:
        """Discard input; beyond the limit, read no more."""
        self._left -= len(data)
        self._moved = self._left >= 0
        if not self._moved:
            self._transport.pause_reading()

    def pause_writing(self) -> None:
        """Do nothing: all responses are written."""

    def resume_writing(self) -> None:
        """Do nothing: all responses are written."""

    def eof_received(self) -> bool:
        """Let the loop close the connection."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Let the handler release the connection."""
        self._timer.cancel()
        self._handler.connection_lost(exc)


@final
class _LostHandler:
    """The handler of a connection that is lost: it does nothing."""

    def on_time(self, now: float) -> float:
        return inf

    def may_be_evicted(self) -> bool:
        return False

    def evict(self) -> bool:
        return False

    def shutdown(self) -> None:
        pass

    def drain(self) -> None:
        pass

    def force_end(self) -> None:
        pass

    def connection_lost(self, exc: Exception | None) -> None:
        pass


_LOST: Final[HttpHandler] = _LostHandler()
