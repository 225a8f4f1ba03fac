"""A client's connection in HTTP/2: each stream of it is a request.

Takes the place of ``proxy.client.http1`` once the preface has come. A client that breaks a rule on
a stream loses that stream. A flood costs the connection; GOAWAY then names the last stream that
was served, so that an ingress may send the rest again. How connections end is in ``http2_end``.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from math import inf
from typing import Final, cast, final

from activator.proxy.client.connection import ClientConnection
from activator.proxy.client.goaway import DISMISSED, LAST_SENT, NOT_SENT
from activator.proxy.client.head_budget import HeadCharge
from activator.proxy.client.http2_end import Http2End
from activator.proxy.client.http2_own_responses import send_own_response, send_refusal
from activator.proxy.client.stream import ClientStream, StreamContext, request_of
from activator.proxy.exchange.exchange import Exchange
from activator.proxy.exchange.probe_responses import probe_response
from activator.proxy.http2 import frames
from activator.proxy.http2.budget import Budget
from activator.proxy.http2.connection import Connection
from activator.proxy.http2.errors import ConnectionFault, ErrorCode
from activator.proxy.http2.fields import read_request, read_trailers
from activator.proxy.http2.recurring import Recurring
from activator.proxy.http2.settings import Setting
from activator.proxy.http2.side import ConnectionSide
from activator.proxy.http2.states import ENDING
from activator.proxy.http2.stream import STREAM_WINDOW, Stream
from activator.proxy.message import grpc
from activator.proxy.message.grammar import FramingError
from activator.proxy.message.request import Request
from activator.proxy.transport.unread import Peer
from activator.tls import negotiated as agreed

#: Streams that a client may have open (Go: 250).
MAX_STREAMS: Final = 250
#: Streams that a client, or we for its errors, may reset while they are young: all that may be
#: open, so many a second, and half of what it opens (CVE-2023-44487, CVE-2025-8671).
_RESETS: Final = (MAX_STREAMS, 100.0, 0.5)
#: Seconds for which a stream is young. MAX_STREAMS limits resets of older streams to 2,500 a
#: second, as many requests as any client may send. So a mass timeout is no flood.
_YOUNG: Final = 0.1


@final
class Http2Client(ConnectionSide):
    """One connection of a client.

    Arguments:
        full: the client does not read what was written, such as the end of a handshake.

    Attributes:
        base: what every client connection has; link: what every HTTP/2 connection has.
    """

    __slots__ = (
        "_block_behind",
        "_block_share",
        "_context",
        "_end",
        "_goaway",
        "_ordinary",
        "_paused",
        "_requests",
        "_resets",
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
        self._block_behind = 0  # the stream before the header block in progress
        self._block_share = HeadCharge(proxy.head_budget)
        self._paused = False  # nothing is read, since the client takes no responses
        self._resets = Budget(*_RESETS)

    def take_over(self, data: bytes) -> None:
        """Speak from now on; ``data`` is what has arrived of it."""
        base, link = self.base, self.link
        base.switch_to_http2(self)
        # The loops look methods up by name: a compiled class has no base of theirs.
        base.transport.set_protocol(cast(asyncio.BaseProtocol, link))
        # The first header block has as long as in HTTP/1.
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
        self._block_share.end()
        self._cancel_all()

    def _cancel_all(self) -> None:
        for stream in list(self.link.streams.values()):
            self.link.remove_stream(stream)
            self._cancel(stream)

    def on_full(self) -> None:
        """See ConnectionSide."""
        self._end.watch_unsent()

    def on_backlog(self) -> None:
        """See ConnectionSide: read no more requests of a client that takes no responses."""
        if not self._paused and not self.link.is_ending():
            self._paused = True
            self.link.transport.pause_reading()

    def on_room(self) -> None:
        """See ConnectionSide."""
        self.base.watch_no_more()
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
        """See ConnectionSide. A client may have begun streams behind the last that is served."""
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
            request = fields.bodiless if ended else None  # made before, where a block recurs
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
        """Return the error for a request on a stream number at or below the last one.

        The stream is over, and begins again (RFC 9113 section 5.1), or the client has skipped its
        number (section 5.1.1). A client that has used each odd number has skipped none.
        """
        if self.link.last_stream == 2 * self.link.opened - 1:
            return ConnectionFault(ErrorCode.STREAM_CLOSED, "a request on a closed stream")
        return ConnectionFault(ErrorCode.PROTOCOL_ERROR, "stream numbers go backwards")

    def on_stray(self, stream: int) -> None:
        """See ConnectionSide. Frames that crossed our own RST_STREAM are ignored, as are those for
        streams behind the last one that is served."""
        if not self.link.flow.late and stream <= self.link.last_stream:
            self.link.write(frames.rst_stream(stream, ErrorCode.STREAM_CLOSED))

    def _opens(self, stream: int) -> bool:
        """Return whether a stream begins here that is to be served."""
        link, goaway = self.link, self._goaway
        if not stream & 1:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a client's stream is odd")
        if stream <= link.last_stream or goaway.state is LAST_SENT:
            link.stray(stream)
            return False
        link.last_stream = stream
        link.opened += 1
        if self.base.stopping:
            self._end.announce()
        if link.streams:
            goaway.multiplexed = True
        if len(link.streams) >= MAX_STREAMS:
            link.expect_late(STREAM_WINDOW)  # it may know neither our settings nor this
            link.write(frames.rst_stream(stream, ErrorCode.REFUSED_STREAM))
            return False
        return True

    def _refuse(self, number: int, error: FramingError, *, ended: bool) -> None:
        """Respond to what is malformed or refused."""
        self.proxy.counters.bad_requests += 1
        send_refusal(self._context, self._stream(number, ended=ended), error)
        if error.status == HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE:
            self._count_reset()  # of a small block may come megabytes; others cost as much as a 404

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
        patience = grpc.timeout(request.fields) if b"grpc-timeout" in request.fields else inf
        side = ClientStream(self._context, stream)
        stream.owner = side
        if request.has_body:
            stream.missing = request.length
        exchange = side.exchange = Exchange(self.proxy.services, side, request, patience)
        exchange.begin()

    def _respond_early(self, stream: Stream, request: Request) -> bool:
        """Respond ourselves to a probe, or to a client for which there is no room.

        Returns:
            Whether the request was one of these.
        """
        if self.base.turned_away:
            self._end.dismiss()
            send_own_response(self._context, stream, request, self.proxy.too_many_connections())
            return True
        response = probe_response(request, self.proxy.unhealthy)
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
            self.on_stream_error(stream.id, code, "headers in the middle, or behind the end")
            return
        self.link.peer_ended(stream)
        self.on_data(stream, b"", trailers)

    def on_data(self, stream: Stream, payload: bytes, trailers: bytes | None) -> None:
        """See ConnectionSide."""
        owner = stream.owner
        if isinstance(owner, ClientStream):
            owner.on_data(payload, trailers)
        elif not stream.closed:
            stream.credit(len(payload))

    def on_half_closed(self, stream: Stream) -> None:
        """See ConnectionSide: the response is complete, the rest of the request of no use.

        RFC 9113 section 8.1 lets us reset the stream at once. But clients lose responses by a reset
        that comes with them (curl 7.88 does, one in six of small POSTs), as they do by TCP's in
        HTTP/1. So the request may end by itself, in as much time and room as there, see linger.
        """
        self.base.arm(self._context.blocked.watch(stream, self.proxy.clock()))

    def on_reset(self, stream: Stream, owner: object | None, code: int) -> None:
        """See ConnectionSide."""
        self._on_ended_early(stream)

    def on_stream_error(self, stream: int, code: ErrorCode, reason: str) -> None:
        """See ConnectionSide."""
        if self.is_idle(stream):
            raise ConnectionFault(code, reason)  # RST_STREAM would be wrong on it itself
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
        """Cancel the request of a stream that was reset, and count it if it had hardly begun.

        Else work could be requested faster than MAX_STREAMS allows. A stream that has its response
        has cost what any request does.
        """
        owner, young = stream.owner, False
        if isinstance(owner, ClientStream):
            young = self.proxy.clock() < owner.exchange.ticket.arrived + _YOUNG
        self._cancel(stream)
        if young:
            self._count_reset()

    def _count_reset(self) -> None:
        """Serve no more streams of a client that has too many of them reset.

        An ingress sends requests of others on the same connection: those that run are finished.
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
            self._context.blocked.forget(stream)
        if self.link.streams:
            return
        goaway, ends = self._goaway.state, self.base.stopping or self.proxy.services.draining
        if goaway is LAST_SENT:
            self._end.close()
        elif ends and (goaway is NOT_SENT or goaway is DISMISSED) and not self.link.is_ending():
            self._end.on_last_stream_ended()

    def on_time(self, now: float) -> float:
        """See timers.Timed. One entry serves all requests of the connection: nearly all end long
        before their deadlines, and each deadline is later than the one before."""
        link, exchanges = self.link, self._exchanges()
        when = self._end.on_time(now)
        if link.is_ending() or (link.queue.full and not exchanges):
            return min(when, self.base.expire_all_unsent(now, ended=link.is_ending()))
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
        """See ConnectionSide: a head has as long as in HTTP/1, however its pieces come. While
        ``last_stream`` is the same, so is the header block in progress."""
        link = self.link
        if self._block_behind != link.last_stream or link.late_at == inf:
            self._block_behind = link.last_stream
            link.late_at = self.proxy.clock() + self.proxy.header_timeout
            self.base.arm(link.late_at)
        if link.is_ending() or self._block_share.grow(size):
            return
        self.proxy.log_too_many_heads()
        calm = ErrorCode.ENHANCE_YOUR_CALM
        link.fail(ConnectionFault(calm, "too many unfinished header blocks"))

    def on_complete_head(self) -> None:
        """See ConnectionSide."""
        self._block_share.end()

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
        """See eviction.Evictable: a request that crosses the GOAWAY may be sent again elsewhere."""
        self.shutdown()
        return True

    def drain(self) -> None:
        """See HttpHandler."""
        for exchange in self._exchanges():
            exchange.drain()

    def force_end(self) -> None:
        """See HttpHandler."""
        for exchange in self._exchanges():
            exchange.force_end()
        self._end.send_last()
        self._end.flush_and_close()
