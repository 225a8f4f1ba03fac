"""Serves a client's HTTP/2 connection: each stream is a request.

It replaces ``client.http1`` when the preface arrives. An error on a stream resets that stream. A
flood closes the connection: GOAWAY then names the last stream that is served, so that an ingress
may retry the others. ``http2_end`` ends connections.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from math import inf
from typing import Final, cast, final

from activator.proxy.client.connection import ClientConnection
from activator.proxy.client.goaway import CLOSE_PLANNED, LAST_SENT, NOT_SENT
from activator.proxy.client.head_budget import HeadCharge
from activator.proxy.client.http2_end import Http2End
from activator.proxy.client.http2_own_responses import send_own_response, send_refusal
from activator.proxy.client.stream import ClientStream, StreamContext, request_of
from activator.proxy.exchange.exchange import Exchange
from activator.proxy.exchange.lookup import probe_response
from activator.proxy.http2 import frames
from activator.proxy.http2.connection import ENDING, Budget, Connection, ConnectionSide
from activator.proxy.http2.fields import read_request, read_trailers
from activator.proxy.http2.frame_reader import Setting
from activator.proxy.http2.frames import ConnectionFault, ErrorCode
from activator.proxy.http2.section import Recurring
from activator.proxy.http2.stream import STREAM_WINDOW, Stream
from activator.proxy.message import grpc
from activator.proxy.message.grammar import FramingError
from activator.proxy.message.request import Request
from activator.proxy.transport.peer_socket import Peer
from activator.tls import negotiated as agreed

#: Streams that a client may have open (Go: 250).
MAX_STREAMS: Final = 250
#: The budget of resets of young streams, by the client or because of its errors (CVE-2023-44487,
#: CVE-2025-8671): a burst, a number per second, and a part of the streams that it opens.
_RESETS: Final = (MAX_STREAMS, 100.0, 0.5)
#: Seconds for which a stream is young. MAX_STREAMS limits resets of older streams to 2,500 per
#: second, and a client may send as many requests. So many time-outs at once are no flood.
_YOUNG: Final = 0.1


@final
class Http2Client(ConnectionSide):
    """A client's HTTP/2 connection.

    Arguments:
        full: whether bytes wait already because the client does not read.

    Attributes:
        base: the common part of all client connections.
        link: the common part of all HTTP/2 connections.
        proxy: the objects that all connections share.
    """

    __slots__ = (
        "_block_charge",
        "_context",
        "_end",
        "_goaway",
        "_ordinary",
        "_paused",
        "_requests",
        "_resets",
        "_stream_before_block",
        "base",
        "link",
        "proxy",
    )

    def __init__(self, base: ClientConnection, *, full: bool) -> None:
        self.base = base
        proxy = self.proxy = base.proxy
        link = self.link = Connection(self, proxy.clock, proxy.unread, server=True)
        link.transport = base.transport
        link.queue.full = full
        self._context = StreamContext(base, link)
        self._end = Http2End(base, link)
        self._goaway = self._end.goaway
        self._requests = Recurring(link.decoder, read_request)
        self._ordinary: Request | None = None  # the last recurring request that was no probe
        self._stream_before_block = 0  # the last stream before the header block in progress
        self._block_charge = HeadCharge(proxy.head_budget)
        self._paused = False  # whether reading pauses, because the client reads no responses
        self._resets = Budget(*_RESETS)

    def take_over(self, data: bytes) -> None:
        """Replace the HTTP/1 connection.

        Arguments:
            data: the bytes so far, from the preface on.
        """
        base, link = self.base, self.link
        base.switch_to_http2(self)
        # A compiled class cannot inherit from asyncio's. The loops look methods up by name.
        base.transport.set_protocol(cast(asyncio.BaseProtocol, link))
        # The first header block has the same time-out as an HTTP/1 head.
        link.late_at = base.idle_since + base.head_timeout()
        base.arm(link.late_at)
        link.begin((Setting.MAX_CONCURRENT_STREAMS, MAX_STREAMS))
        if link.queue.full:
            self._end.watch_unsent()
        if base.secure and not agreed.is_adequate(base.transport):
            link.fail(ConnectionFault(ErrorCode.INADEQUATE_SECURITY, "a weak cipher suite"))
        elif data:
            link.data_received(data)

    # -- for the loop ---------------------------------------------------------------------------

    def connection_lost(self, exc: Exception | None) -> None:
        """See HttpHandler."""
        self.link.connection_lost(exc)

    def lost(self, exc: Exception | None) -> None:
        """See ConnectionSide."""
        self.base.lost()
        self._block_charge.release()
        self._cancel_all()

    def _cancel_all(self) -> None:
        for stream in list(self.link.streams.values()):
            self.link.remove_stream(stream)
            self._cancel(stream)

    def on_full(self) -> None:
        """See ConnectionSide."""
        self._end.watch_unsent()

    def on_backlog(self) -> None:
        """See ConnectionSide: pause reading from a client that reads no responses."""
        if not self._paused and not self.link.is_ending():
            self._paused = True
            self.link.transport.pause_reading()

    def on_room(self) -> None:
        """See ConnectionSide."""
        self.base.stop_watching()
        if self._paused:
            self._paused = False
            if not self.link.transport.is_closing():
                self.link.transport.resume_reading()
        for exchange in self._exchanges():
            exchange.touch()

    def end_unread(self) -> tuple[Peer, str]:
        """See ConnectionSide."""
        self.link.move(ENDING)
        self._cancel_all()
        return self.base.end_unread()

    def end_stream_unread(self, stream: Stream) -> tuple[Peer, str]:
        """See ConnectionSide."""
        self.link.end(stream, ErrorCode.ENHANCE_YOUR_CALM)
        self._cancel(stream)
        return Peer.CLIENT, self.base.peer()

    def _exchanges(self) -> list[Exchange]:
        owners = [stream.owner for stream in self.link.streams.values()]
        return [each.exchange for each in owners if isinstance(each, ClientStream)]

    # -- frames ---------------------------------------------------------------------------------

    def is_idle(self, stream: int) -> bool:
        """See ConnectionSide. After the last GOAWAY no stream counts as idle.

        The client may have opened streams before it read the GOAWAY.
        """
        return not stream & 1 or (
            stream > self.link.last_stream and self._goaway.state is not LAST_SENT
        )

    def on_headers(self, stream: int, block: bytes, ended: bool) -> None:
        """See ConnectionSide."""
        found = self.link.streams.get(stream)
        if found is not None:
            self._on_trailers(found, block, ended)
            return
        try:
            fields = self._requests.read(block)
            request = fields.bodiless if ended else None  # exists already if the block recurs
            if request is None:
                request = request_of(fields, self.base.address, ended=ended)
        except FramingError as error:
            if self._opens(stream):
                self._refuse(stream, error, ended=ended)
            return
        if stream & 1 and stream <= self.link.last_stream:
            raise self._backwards()
        if self._opens(stream):
            self._begin(stream, request, ended)

    def _backwards(self) -> ConnectionFault:
        """Return the error for a request whose stream number is not above the last one.

        Either the stream is closed already (RFC 9113 section 5.1), or the client has skipped its
        number (section 5.1.1). A client that has used each odd number has skipped none.
        """
        if self.link.last_stream == 2 * self.link.opened - 1:
            return ConnectionFault(ErrorCode.STREAM_CLOSED, "a request on a closed stream")
        return ConnectionFault(ErrorCode.PROTOCOL_ERROR, "stream numbers go backwards")

    def on_stray(self, stream: int) -> None:
        """See ConnectionSide.

        Frames that crossed the activator's RST_STREAM are ignored. So are frames for streams behind
        the last one that is served.
        """
        if not self.link.flow.late and stream <= self.link.last_stream:
            self.link.write(frames.rst_stream(stream, ErrorCode.STREAM_CLOSED))

    def _opens(self, stream: int) -> bool:
        """Return whether a new stream is served; if not, ignore or refuse it.

        Raises:
            ConnectionFault: the stream number is even.
        """
        link, goaway = self.link, self._goaway
        if not stream & 1:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a client's stream is odd")
        if stream <= link.last_stream or goaway.state is LAST_SENT:
            link.stray(stream)
            return False
        link.last_stream = stream
        link.opened += 1
        if self.base.stopping or self.base.port.insists:
            self._end.announce()
        if link.streams:
            goaway.multiplexed = True
        if len(link.streams) >= MAX_STREAMS:
            link.expect_late(STREAM_WINDOW)  # data may be on its way before the client learns this
            link.write(frames.rst_stream(stream, ErrorCode.REFUSED_STREAM))
            return False
        return True

    def _refuse(self, number: int, error: FramingError, *, ended: bool) -> None:
        """Respond to a malformed or refused request."""
        self.proxy.counters.bad_requests += 1
        send_refusal(self._context, self._stream(number, ended=ended), error)
        if error.status == HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE:
            self._count_reset()  # a small block can expand to megabytes; others cost as a 404 does

    def _stream(self, number: int, *, ended: bool) -> Stream:
        link = self.link
        stream = link.streams[number] = Stream(link.queue, number, None)
        stream.peer_closed = ended
        return stream

    def _begin(self, number: int, request: Request, ended: bool) -> None:
        stream = self._stream(number, ended=ended)
        if request is not self._ordinary:
            if self._respond_early(stream, request):
                return
            if ended:
                self._ordinary = request
        client_timeout = grpc.timeout(request.fields) if b"grpc-timeout" in request.fields else inf
        side = ClientStream(self._context, stream)
        stream.owner = side
        if request.has_body:
            stream.missing = request.length
        exchange = side.exchange = Exchange(self.proxy.services, side, request, client_timeout)
        exchange.begin()

    def _respond_early(self, stream: Stream, request: Request) -> bool:
        """Respond to a probe, or to a client beyond the limit of connections.

        Returns:
            Whether it was one of these.
        """
        if self.base.turned_away:
            self._end.plan_close()
            send_own_response(self._context, stream, request, self.proxy.too_many_connections())
            return True
        response = probe_response(request, self.base.port, self.proxy.unhealthy)
        if response is not None:
            send_own_response(self._context, stream, request, response)
        return response is not None

    def _on_trailers(self, stream: Stream, block: bytes, ended: bool) -> None:
        code = ErrorCode.STREAM_CLOSED if stream.peer_closed else ErrorCode.PROTOCOL_ERROR
        try:
            trailers = read_trailers(self.link.decoder.decode(block))
        except FramingError as error:
            self.on_stream_error(stream.id, code, str(error))
            return
        if not ended or stream.peer_closed or stream.missing > 0:
            self.on_stream_error(stream.id, code, "a header block inside or after the body")
            return
        self.link.peer_ended(stream)
        self.on_data(stream, b"", trailers)

    def on_data(self, stream: Stream, payload: bytes, trailers: bytes | None) -> None:
        """See ConnectionSide."""
        owner = stream.owner
        if isinstance(owner, ClientStream):
            owner.on_data(payload, trailers)
        elif not stream.closed or self._context.blocked.discard(stream, len(payload)):
            stream.credit(len(payload))

    def on_half_closed(self, stream: Stream) -> None:
        """See ConnectionSide: the response is complete, and the rest of the request not needed.

        RFC 9113 section 8.1 allows to reset the stream at once. But httpx drops a response if the
        reset arrives before its request has ended, and curl 7.88 drops one that arrives with the
        reset. So the client may send the rest, within the limits of ``linger``.
        """
        self.base.arm(self._context.blocked.watch(stream, self.proxy.clock()))

    def on_reset(self, stream: Stream, owner: object | None, code: int) -> None:
        """See ConnectionSide."""
        self._on_ended_early(stream)

    def on_stream_error(self, stream: int, code: ErrorCode, reason: str) -> None:
        """See ConnectionSide."""
        if self.is_idle(stream):
            raise ConnectionFault(code, reason)  # an idle stream must not get RST_STREAM
        self.link.write(frames.rst_stream(stream, code))
        found = self.link.streams.get(stream)
        if found is None:
            self._count_reset()
            return
        self.link.remove_stream(found)
        self._on_ended_early(found)

    @staticmethod
    def _cancel(stream: Stream) -> None:
        owner, stream.owner = stream.owner, None
        if isinstance(owner, ClientStream):
            owner.cancel()

    def _on_ended_early(self, stream: Stream) -> None:
        """Cancel the request of a stream that was reset, and count the reset of a young stream.

        Without the count a client could request work faster than MAX_STREAMS allows. A stream that
        has its response has cost as much as any request.
        """
        owner, young = stream.owner, False
        if isinstance(owner, ClientStream):
            young = self.proxy.clock() < owner.exchange.ticket.arrived + _YOUNG
        self._cancel(stream)
        if young:
            self._count_reset()

    def _count_reset(self) -> None:
        """Count a reset; serve no more streams of a client with too many resets.

        The open streams are finished, since an ingress sends requests of many clients on one
        connection.

        Raises:
            ConnectionFault: the client has too many resets, and no stream is open.
        """
        link = self.link
        if self._resets.take(self.proxy.clock(), link.opened):
            return
        if self._goaway.state is LAST_SENT:
            link.idle_frame()
            return
        calm, reason = ErrorCode.ENHANCE_YOUR_CALM, "too many streams are reset"
        if not link.streams:
            raise ConnectionFault(calm, reason)
        self._end.send_last(calm, reason.encode())

    # -- the end --------------------------------------------------------------------------------

    def on_stream_removed(self, stream: Stream) -> None:
        """See ConnectionSide."""
        if self._context.blocked.streams:
            self._context.blocked.remove(stream)
        if self.link.streams:
            return
        goaway, ends = self._goaway.state, self.base.is_last()
        if goaway is LAST_SENT:
            self._end.close()
        elif ends and (goaway is NOT_SENT or goaway is CLOSE_PLANNED) and not self.link.is_ending():
            self._end.on_last_stream_ended()

    def on_time(self, now: float) -> float:
        """See timers.Timed.

        One timer serves all requests of the connection. Nearly all end long before their deadlines,
        and each deadline is later than the previous one.
        """
        link, exchanges = self.link, self._exchanges()
        when = self._end.on_time(now)
        if link.is_ending() or (link.queue.full and not exchanges):
            return min(when, self.base.expire_unsent_http2(now, ended=link.is_ending()))
        if now >= link.late_at:
            link.fail(ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "a header block took too long"))
            return inf
        when = min([each.on_time(now) for each in exchanges] + [when])
        blocked = self._context.blocked
        for stream in blocked.late(now):
            link.end(stream, stream.fault if stream.closed else ErrorCode.CANCEL)
        when = min(when, link.late_at, blocked.next())
        return min(when, now + self.proxy.header_timeout) if link.queue.full else when

    def on_incomplete_head(self, size: int) -> None:
        """See ConnectionSide.

        A header block has the same time-out as an HTTP/1 head, however its pieces arrive. While
        ``last_stream`` is unchanged, the block in progress is the same one.
        """
        link = self.link
        if self._stream_before_block != link.last_stream or link.late_at == inf:
            self._stream_before_block = link.last_stream
            link.late_at = self.proxy.clock() + self.proxy.header_timeout
            self.base.arm(link.late_at)
        if link.is_ending() or self._block_charge.grow(size):
            return
        self.proxy.log_too_many_heads()
        calm = ErrorCode.ENHANCE_YOUR_CALM
        link.fail(ConnectionFault(calm, "too many header blocks in progress"))

    def on_complete_head(self) -> None:
        """See ConnectionSide."""
        self._block_charge.release()

    def shutdown(self) -> None:
        """See HttpHandler."""
        self._end.shutdown()

    def on_goaway_due(self) -> None:
        """See ConnectionSide."""
        self._end.on_goaway_due()

    def on_failed(self, fault: ConnectionFault) -> None:
        """See ConnectionSide."""
        self._cancel_all()
        self._end.fail(fault)

    def may_be_evicted(self) -> bool:
        """See eviction.Evictable."""
        link = self.link
        return self._goaway.state is NOT_SENT and not (
            link.streams or link.is_ending() or link.queue.full
        )

    def evict(self) -> bool:
        """See eviction.Evictable. The client may retry a request that crosses the GOAWAY."""
        self.shutdown()
        return True

    def drain(self) -> None:
        """See HttpHandler."""
        for exchange in self._exchanges():
            exchange.drain()

    def force_end(self) -> None:
        """See HttpHandler."""
        for exchange in self._exchanges():
            exchange.force()
        self._end.send_last()
        self._end.flush_and_close()
