"""Serves a client's HTTP/1 connection: its requests in order, one at a time.

It supports HTTP/1.1 and HTTP/1.0. ``http1_reader`` reads requests, and ``http1_side`` writes
responses. ``connection`` has the part that HTTP/1 and HTTP/2 share. Knative's counterpart is the
handler chain of cmd/activator/main.go, in this order: kubelet's probe, ingress's probe,
autoscaler's probe, revision.
"""

from __future__ import annotations

import asyncio
from math import inf
from typing import cast, final

from activator.knative.words import KUBELET_AGENT
from activator.proxy.client.connection import ClientConnection
from activator.proxy.client.http1_connection import Http1Connection
from activator.proxy.client.http1_reader import Http1Reader
from activator.proxy.client.http1_side import Http1Side
from activator.proxy.client.http2 import Http2Client
from activator.proxy.client.liveness import Liveness
from activator.proxy.client.proxy import Proxy
from activator.proxy.client.states import (
    BEGINNING,
    CLOSED,
    DISCARDING,
    HEAD_IN_PROGRESS,
    LINGERING,
    READING_BODY,
    READING_HEAD,
    RESPONDING,
)
from activator.proxy.exchange.exchange import Exchange
from activator.proxy.exchange.lookup import SHARED, ClientPort, probe_response
from activator.proxy.exchange.states import TUNNEL
from activator.proxy.message import own_responses
from activator.proxy.message.error_forms import negotiate
from activator.proxy.message.fields import HTTP_1_0
from activator.proxy.message.grammar import FramingError
from activator.proxy.message.request import Request, body_of
from activator.proxy.transport import peer_socket
from activator.proxy.transport.peer_socket import Peer
from activator.tls import negotiated as agreed


@final
class Http1Client(Http1Connection):
    """A client's HTTP/1 connection, or one that may change to HTTP/2.

    Arguments:
        proxy: the objects that all connections share.
        port: the port that the client has connected to.

    Attributes:
        base: the common part of all client connections.
        exchange, full: see Http1Connection.
    """

    __slots__ = (
        "_liveness",
        "_reader",
        "_side",
        "base",
        "exchange",
        "full",
    )
    __deletable__ = ("_reader", "_side")  # read by mypyc

    def __init__(self, proxy: Proxy, port: ClientPort = SHARED) -> None:
        self.base = ClientConnection(proxy, self, port)
        self._reader = Http1Reader(self, self.base)
        self._side = Http1Side(self, self.base)
        self._liveness: Liveness | None = None
        self.exchange: Exchange | None = None
        self.full = False

    # -- for the loop ---------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        self.base.made(cast(asyncio.Transport, transport))
        if self.base.secure and agreed.protocol(transport) == agreed.HTTP2:
            self.switch_to_http2(b"")

    def connection_lost(self, exc: Exception | None) -> None:
        """See ClientConnection."""
        self.base.proxy.unread.hold(self, 0)
        self.base.lost()
        self._reader.end_head()
        self._reader.state = CLOSED
        self._cancel()
        self._break_cycles()

    def _break_cycles(self) -> None:
        """Release the objects that refer back to this one, so that no reference cycle remains."""
        del self._reader
        del self._side

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        reader = self._reader
        state = reader.state
        if state is READING_HEAD and not self.full:
            reader.read(data)
        elif state is READING_BODY:
            reader.read_body(data)
        elif state is HEAD_IN_PROGRESS:
            reader.read_in_head(data)
        elif state is RESPONDING or state is READING_HEAD:
            reader.keep(data)

    def eof_received(self) -> bool:
        """See asyncio.Protocol. A client that ended its sending side may still want responses."""
        self._reader.eof = True
        if peer_socket.is_tls(self.base.transport):
            # The loop sends the bytes that are written, and would drop the rest of a response.
            if self.exchange is not None:
                self.base.transport.abort()
            return False
        return self._half_closed()

    def _half_closed(self) -> bool:
        """Handle the end of the client's sending side; return whether it waits for a response."""
        if self.exchange is None:
            return self.full and self._reader.ahead != b""
        if self._reader.state is READING_BODY:
            self.refuse(FramingError("the body is shorter than announced"))
            return True
        if self._side.leaves_by_end():
            return False
        # A client of HTTP/1.0 gets no 100, and none may follow the beginning of a response. Then
        # TCP keep-alive finds a lost client.
        peer_socket.probe_half_closed(self.base.transport)
        self._client_check().restart()
        self._check_client(self.base.proxy.clock())
        return True

    def pause_writing(self) -> None:
        """See asyncio.Protocol: the client reads more slowly than the pod sends."""
        self.full = True
        self.base.proxy.unread.hold(self, peer_socket.count_held(self.base.transport))
        if self.exchange is not None:
            self.exchange.on_client_room(True)

    def resume_writing(self) -> None:
        """See asyncio.Protocol."""
        self.full = False
        self.base.proxy.unread.hold(self, 0)
        if self.exchange is not None:
            self.exchange.on_client_room(False)
        elif self._reader.state is READING_HEAD:
            self.regulate()
            self._read_ahead()

    def end_unread(self) -> tuple[Peer, str]:
        """See unread.Reader. The bytes in the kernel are discarded too."""
        self._reader.state = CLOSED
        self._cancel()
        return self.base.end_unread()

    def _cancel(self) -> None:
        """Cancel the current exchange, if any, because its client has left."""
        exchange, self.exchange = self.exchange, None
        if exchange is not None:
            exchange.leave()

    # -- for the reader -------------------------------------------------------------------------

    def begin(self, request: Request, head: bytes) -> None:
        """See Http1Connection."""
        base, reader, side = self.base, self._reader, self._side
        if base.new_since > -inf:
            base.on_first_request()
        reader.state = BEGINNING
        side.version = request.version
        side.keep_alive = request.keep_alive
        if request.version is HTTP_1_0:
            side.names_connection = head.lower().find(b"\nconnection:") >= 0
        side.writer = None
        if request.has_body:
            reader.body = body_of(request)
        # Few requests get an own response, so these tests are cheap ones.
        if request.fields or base.turned_away or head.find(KUBELET_AGENT) >= 0:
            response = self._own_response(request)
            if response is not None:
                keep_alive = request.keep_alive and not base.turned_away
                side.end_request(
                    negotiate(response, request.lines),
                    head_only=request.method == b"HEAD",
                    keep_alive=keep_alive,
                )
                return
        exchange = self.exchange = Exchange(side.services, side, request)
        if request.has_body and reader.ahead:
            # Body that arrived with the head is sent with it: one system call, not two.
            ahead, reader.ahead = reader.ahead, b""
            reader.read_body(ahead)
            if reader.state is not BEGINNING:
                return
        exchange.begin()
        if reader.state is not BEGINNING:
            return
        if reader.body is None:
            reader.state = RESPONDING
        else:
            reader.state = READING_BODY
            reader.regulate()

    def _own_response(self, request: Request) -> own_responses.OwnResponse | None:
        """Return the response to a probe, or to a client beyond the limit; None for others."""
        response = probe_response(request, self.base.port, self.base.proxy.unhealthy)
        if response is not None:
            self.base.idle_since = self.base.proxy.clock()
            return response
        return self.base.proxy.too_many_connections() if self.base.turned_away else None

    def refuse(self, error: FramingError) -> None:
        """See Http1Connection."""
        self.base.proxy.counters.bad_requests += 1
        exchange, self.exchange = self.exchange, None
        block = error.block
        if exchange is not None:
            has_begun = exchange.has_begun()
            block = exchange.request.lines
            exchange.leave()
            if has_begun:
                self.abort()
                return
        self.refuse_head(negotiate(own_responses.refused(error.status, str(error)), block))

    def refuse_head(self, response: own_responses.OwnResponse) -> None:
        """See Http1Connection."""
        self._reader.discard()
        self._side.end_request(response, head_only=False, keep_alive=False)

    def switch_to_http2(self, data: bytes) -> None:
        """See Http1Connection."""
        self.base.proxy.unread.hold(self, 0)
        Http2Client(self.base, full=self.full).take_over(data)
        self._break_cycles()

    def on_paused(self) -> None:
        """See Http1Connection."""
        if self.exchange is not None:
            liveness = self._client_check()
            liveness.restart()
            self.base.arm(liveness.next(self.base.proxy.clock()))

    # -- for the side ---------------------------------------------------------------------------

    def exchange_done(self, keep_alive: bool) -> None:
        """See Http1Connection."""
        self.exchange = None
        reader = self._reader
        if (
            not keep_alive
            or reader.body is not None
            or self.base.stopping
            or (reader.eof and not reader.ahead)
        ):
            self._close()
            return
        began = reader.state is not BEGINNING  # else ``Http1Reader.read`` continues by itself
        reader.state = READING_HEAD
        if self._liveness is not None:
            self._liveness.send_by = inf
        if self.full:
            self.base.watch_unsent()
        if reader.paused or self.full:
            reader.regulate()
        if reader.ahead and began:
            self._read_ahead()

    def _read_ahead(self) -> None:
        """Read the bytes that the client has sent ahead, unless it must read responses first."""
        reader = self._reader
        if not reader.ahead or self.full:
            return
        ahead, reader.ahead = reader.ahead, b""
        reader.read(ahead)
        if reader.eof and not self._half_closed():
            self._close()

    def may_keep_alive(self) -> bool:
        """See Http1Connection."""
        reader = self._reader
        ends = self.base.is_last() or (reader.eof and not reader.ahead)
        return reader.body is None and not ends

    def regulate(self) -> None:
        """See Http1Connection."""
        self._reader.regulate()

    def take_ahead(self) -> bytes:
        """See Http1Connection."""
        reader = self._reader
        ahead, reader.ahead = reader.ahead, b""
        self.base.proxy.unread.hold(self, 0)
        return ahead

    def abort(self) -> None:
        """See Http1Connection."""
        self.exchange = None
        self._reader.state = CLOSED
        if self._side.version is HTTP_1_0:
            peer_socket.reset(self.base.transport)  # a plain close would seem to end the response
        self.base.transport.abort()

    # -- the end --------------------------------------------------------------------------------

    def _close(self) -> None:
        """Close the connection after the last response.

        Unread input is discarded first. Otherwise the kernel would reset the connection before the
        client has read the response.
        """
        reader = self._reader
        state = reader.state
        if state is LINGERING or state is CLOSED or self.base.transport.is_closing():
            return
        self.base.watch_unsent()
        unread = reader.body is not None or reader.ahead or reader.paused or state is DISCARDING
        if unread and not reader.eof:
            reader.enter(LINGERING)
            self.base.linger()
            self.base.await_tls_end()
        else:
            self._end()

    def _end(self) -> None:
        """Close at once."""
        self._reader.enter(CLOSED)
        self.base.end()

    def shutdown(self) -> None:
        """See HttpHandler.

        A request whose head is in progress counts as current, and so does one that the client has
        sent ahead.
        """
        idle = self._reader.state is READING_HEAD and not self._reader.ahead
        if idle and not self.base.transport.is_closing() and not self.base.may_get_request():
            self._end()

    def drain(self) -> None:
        """See HttpHandler."""
        exchange = self.exchange
        if exchange is not None:
            self._side.keep_alive = False
            exchange.drain()
        elif self._reader.state is HEAD_IN_PROGRESS:
            self.refuse_head(own_responses.draining("the request had not arrived completely"))

    def force_end(self) -> None:
        """See HttpHandler."""
        exchange, transport = self.exchange, self.base.transport
        if exchange is None:
            transport.abort()
            return
        self._side.keep_alive = False
        if exchange.state is not TUNNEL:
            exchange.force()
            return
        # A tunnel without unsent bytes gets an orderly end; a reset would look like an error.
        transport.abort() if transport.get_write_buffer_size() else transport.close()

    def may_be_evicted(self) -> bool:
        """See eviction.Evictable."""
        reader = self._reader
        return reader.state is READING_HEAD and not (
            reader.ahead or self.full or self.base.stopping or self.base.transport.is_closing()
        )

    def evict(self) -> bool:
        """See eviction.Evictable."""
        self._end()
        return True

    # -- time -----------------------------------------------------------------------------------

    def on_time(self, now: float) -> float:
        """See timers.Timed."""
        exchange, base, reader = self.exchange, self.base, self._reader
        ended = reader.state is LINGERING or reader.state is CLOSED
        if ended or (self.full and exchange is None):
            return base.expire_unsent(now, ended=ended)
        if self.base.transport.is_closing():
            return inf
        if exchange is not None:
            later = exchange.on_time(now)
            return min(later, self._check_client(now)) if self._is_unseen() else later
        head = reader.head
        late_at = base.unused_until(now) if head is None else head.since + base.head_timeout()
        if now < late_at:
            return late_at
        if head is None:
            self._end()
        else:
            self.refuse(FramingError("the request head took too long", 408))
        return inf

    def _is_unseen(self) -> bool:
        """Return whether the loop may not report that the client has left."""
        if self._reader.eof or self._reader.paused:
            return True
        return self._liveness is not None and self._liveness.send_by < inf

    def _client_check(self) -> Liveness:
        """Return the check of the client; the first call makes it, and few connections need it."""
        liveness = self._liveness
        if liveness is None:
            liveness = self._liveness = Liveness(self.base.transport)
        return liveness

    def is_there(self, now: float) -> bool:
        """See Http1Connection."""
        if self._side.leaves_by_end():
            self.base.transport.abort()
            return False
        liveness = self._client_check()
        send_interim = None if self._side.version is HTTP_1_0 else self._side.send_continue
        is_there = liveness.may_send(self._reader.missing(), send_interim, now)
        if liveness.send_by < inf and not is_there:
            self.base.arm(liveness.next(now))
        return is_there

    def _check_client(self, now: float) -> float:
        """Check the client during an exchange; return when to check next, seconds."""
        exchange = self.exchange
        if exchange is None or self.base.transport.is_closing():
            return inf
        no_interim = exchange.has_begun() or self._side.version is HTTP_1_0
        send_interim = None if no_interim else self._side.send_continue
        when = self._client_check().check(exchange, self._reader.missing(), send_interim, now)
        self.base.arm(when)
        return when
