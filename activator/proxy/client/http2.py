"""A client's connection in HTTP/2: each stream of it is a request.

Takes the place of ``proxy.client.http1`` once the preface has come. A client that breaks a rule on
a stream loses that stream; a flood costs the connection, with the number of the last stream that
was looked at, so that an ingress may ask the rest again.
"""

from __future__ import annotations

import asyncio
from enum import Enum
from http import HTTPStatus
from math import inf
from typing import Final, cast, final

from activator.proxy.client.connection import ClientConnection
from activator.proxy.client.linger import MAX_SECONDS
from activator.proxy.client.stream import ClientStream, request_of
from activator.proxy.exchange.exchange import Exchange
from activator.proxy.exchange.probe_replies import probe_reply
from activator.proxy.http2 import frames
from activator.proxy.http2.budget import Budget
from activator.proxy.http2.connection import PART_SECONDS, Connection
from activator.proxy.http2.errors import ConnectionFault, ErrorCode
from activator.proxy.http2.fields import read_request, read_trailers
from activator.proxy.http2.recurring import Recurring
from activator.proxy.http2.section import reply_block
from activator.proxy.http2.settings import Setting
from activator.proxy.http2.side import ConnectionSide
from activator.proxy.http2.states import ENDING, GOAWAY_DUE, OPEN
from activator.proxy.http2.stream import STREAM_WINDOW, Stream
from activator.proxy.message import grpc, replies
from activator.proxy.message.grammar import FramingError
from activator.proxy.message.problem import negotiated
from activator.proxy.message.replies import Reply
from activator.proxy.message.request import Request
from activator.proxy.transport import presence
from activator.proxy.transport.unread import Peer

#: Streams that a client may have open (Go: 250).
MAX_STREAMS: Final = 250
#: Streams that a client, or we for its errors, may reset while they are young: all that may be
#: open, so many a second, and half of what it opens (CVE-2023-44487, CVE-2025-8671).
_RESETS: Final = (MAX_STREAMS, 100.0, 0.5)
#: Seconds for which a stream is young. Older ones cannot be reset faster than MAX_STREAMS lets
#: them be opened, 2,500 a second, which any client may ask: a mass time-out is no flood.
_YOUNG: Final = 0.1
#: Seconds for a client to learn that it is to open no more streams (Go: the same).
_LEAVE_SECONDS: Final = 1.0


class Leaving(Enum):
    """What a client knows of the end of its connection.

    NO: nothing. ANNOUNCED: it is to open no more streams. LAST_SENT: and which was the last.
    """

    NO = "no"
    ANNOUNCED = "announced"
    LAST_SENT = "last-sent"


_NO: Final = Leaving.NO
_ANNOUNCED: Final = Leaving.ANNOUNCED
_LAST_SENT: Final = Leaving.LAST_SENT


@final
class Http2Client(ConnectionSide):
    """One connection of a client.

    Arguments:
        full: the client does not take what has been written for it, such as the end of a handshake.

    Attributes:
        base: what every client connection has; link: what every HTTP/2 connection has.
    """

    __slots__ = (
        "_counted",
        "_deaf",
        "_dismissed",
        "_late_behind",
        "_leaving",
        "_multiplexed",
        "_requests",
        "_resets",
        "_stuck",
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
        self._requests = Recurring(link.decoder, read_request)
        # Streams whose responses wait to be taken: bytes that are left, and since when they are; or
        # whose responses are taken and whose requests do not end: none.
        self._stuck: dict[Stream, tuple[int, float]] = {}
        self._late_behind = 0  # the stream before the header block that has begun
        self._counted = 0  # bytes of that block, in UnfinishedHeads
        self._deaf = False  # it is not read from, since it takes no responses
        self._dismissed = False  # it was turned away, and is about to get GOAWAY
        self._multiplexed = False  # two streams have been open at a time
        self._leaving = _NO
        self._resets = Budget(*_RESETS)

    def begin(self) -> None:
        """Send our settings; the first header block has as long as in HTTP/1."""
        self.link.late_at = self.base.idle_since + self.base.head_timeout
        self.base.arm(self.link.late_at)
        self.link.begin((Setting.MAX_CONCURRENT_STREAMS, MAX_STREAMS))
        if self.link.queue.full:
            self._watch_unsent()

    def protocol(self) -> asyncio.BaseProtocol:
        """Return the loop's protocol object."""
        # The loops look methods up by name: a compiled class has no base of theirs.
        return cast(asyncio.BaseProtocol, self.link)

    def received(self, data: bytes) -> None:
        """Handle what came before HTTP/2 had the connection."""
        self.link.data_received(data)

    def fail(self, fault: ConnectionFault) -> None:
        """Say what is wrong, and close."""
        self.link.fail(fault)

    # -- for the loop ---------------------------------------------------------------------------

    def connection_lost(self, exc: Exception | None) -> None:
        """See Speaker."""
        self.link.connection_lost(exc)

    def lost(self, exc: Exception | None) -> None:
        """See ConnectionSide."""
        self.base.lost()
        self._end_counting()
        self._end_all()

    def _end_all(self) -> None:
        for stream in list(self.link.streams.values()):
            self.link.forget(stream)
            self._cancel(stream)

    def on_full(self) -> None:
        """See ConnectionSide."""
        self._watch_unsent()

    def on_backlog(self) -> None:
        """See ConnectionSide: whoever takes no answers is not asked for more requests."""
        if not self._deaf and not self.link.is_ending():
            self._deaf = True
            self.link.transport.pause_reading()

    def on_room(self) -> None:
        """See ConnectionSide."""
        self.base.watch_no_more()
        if self._deaf:
            self._deaf = False
            if not self.link.transport.is_closing():
                self.link.transport.resume_reading()
        for exchange in self._exchanges():
            exchange.touch()

    def end_unread(self) -> tuple[Peer, str]:
        """See ConnectionSide."""
        self.link.move(ENDING)
        self._end_all()
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
        """See ConnectionSide. Behind the last that we look at, a client may have begun others."""
        return not stream & 1 or (
            stream > self.link.last_stream and self._leaving is not _LAST_SENT
        )

    def on_headers(self, stream: int, block: bytes, ended: bool) -> None:
        """See ConnectionSide."""
        found = self.link.streams.get(stream)
        if found is not None:
            self._on_trailers(found, block, ended)
            return
        try:
            fields = self._requests.read(block)
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
        streams behind the last one that we look at."""
        if not self.link.flow.late and stream <= self.link.last_stream:
            self.link.write(frames.rst_stream(stream, ErrorCode.STREAM_CLOSED))

    def _opens(self, stream: int) -> bool:
        """Whether a stream begins here that somebody is to look at."""
        if not stream & 1:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a client's stream is odd")
        if stream <= self.link.last_stream or self._leaving is _LAST_SENT:
            self.link.stray(stream)
            return False
        self.link.last_stream = stream
        self.link.opened += 1
        if self.base.stopping:
            self._say_leaving()
        if self.link.streams:
            self._multiplexed = True
        if len(self.link.streams) >= MAX_STREAMS:
            self.link.expect_late(STREAM_WINDOW)  # it may know neither our settings nor this
            self.link.write(frames.rst_stream(stream, ErrorCode.REFUSED_STREAM))
            return False
        return True

    def _refuse(self, number: int, error: FramingError, *, ended: bool) -> None:
        """Answer what is malformed or refused as in HTTP/1: the response says what is wrong.

        To a malformed request RST_STREAM follows, as RFC 9113 section 8.1.1 asks: behind the whole
        response, and behind the request if that ends soon, see ``on_half_closed``.
        """
        self.proxy.counters.bad_requests += 1
        stream = self._stream(number, ended=ended)
        if error.status == HTTPStatus.BAD_REQUEST:
            stream.fault = ErrorCode.PROTOCOL_ERROR
        reply = negotiated(replies.refused(error.status, str(error)), error.block)
        self.link.write_headers(stream, reply_block(reply, self.proxy.date()), ended=error.to_head)
        if not error.to_head:
            stream.send(reply.body, b"")
        self.exchange_done(stream)
        if error.status == HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE:
            self._count_reset()  # of a small block may come megabytes; others cost as much as a 404

    def _stream(self, number: int, *, ended: bool) -> Stream:
        link = self.link
        stream = link.streams[number] = Stream(link.queue, number, None)
        stream.peer_closed = ended
        return stream

    def _begin(self, number: int, request: Request, ended: bool) -> None:
        stream = self._stream(number, ended=ended)
        if self.base.turned_away:
            self._turn_away(stream, request)
            return
        proxy = self.proxy
        reply = probe_reply(request, proxy.unhealthy)
        if reply is not None:
            self._reply(stream, request, negotiated(reply, request.lines))
            return
        patience = grpc.timeout(request.fields) if b"grpc-timeout" in request.fields else inf
        side = ClientStream(self, stream)
        stream.owner = side
        if request.has_body:
            stream.missing = request.length
        exchange = side.exchange = Exchange(proxy.services, side, request, patience)
        exchange.body.complete = ended
        exchange.begin()

    def _reply(self, stream: Stream, request: Request, reply: Reply) -> None:
        """Answer a request ourselves that is for no revision."""
        bodiless = request.method == b"HEAD" or not reply.body
        self.link.write_headers(stream, reply_block(reply, self.proxy.date()), ended=bodiless)
        if not bodiless:
            stream.send(reply.body, b"")
        self.exchange_done(stream)

    def _turn_away(self, stream: Stream, request: Request) -> None:
        """Answer that there is no room for this client, and have it leave.

        GOAWAY follows as in ``_on_idle``: in one write with the answer to a client that has asked
        once, so that it begins no other request. A client that has asked more gets each answer
        first, and GOAWAY within a second, even if it begins more until then.
        """
        self.link.move(OPEN if self._dismissed else GOAWAY_DUE)
        if not self._dismissed:
            self._dismissed = True
            asyncio.get_running_loop().call_later(_LEAVE_SECONDS, self._say_leaving)
        reply = negotiated(self.proxy.too_many_connections(), request.lines)
        self._reply(stream, request, reply)

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
        """See ConnectionSide: the answer is complete, the rest of the request of no use.

        RFC 9113 section 8.1 lets us ask for its end at once. But clients lose answers by a reset
        that comes with them (curl 7.88 does, one in six of small POSTs), as they do by TCP's in
        HTTP/1: so it may end by itself, in as much time and room as there, see linger.
        """
        now = self.proxy.clock()
        self._stuck[stream] = (0, now)
        self.base.arm(now + MAX_SECONDS)

    def on_reset(self, stream: Stream, owner: object | None, code: int) -> None:
        """See ConnectionSide."""
        self._give_up(stream)

    def on_stream_error(self, stream: int, code: ErrorCode, reason: str) -> None:
        """See ConnectionSide."""
        if self.is_idle(stream):
            raise ConnectionFault(code, reason)  # RST_STREAM would be wrong on it itself
        self.link.write(frames.rst_stream(stream, code))
        found = self.link.streams.get(stream)
        if found is None:
            self._count_reset()
            return
        self.link.forget(found)
        self._give_up(found)

    @staticmethod
    def _cancel(stream: Stream) -> None:
        owner, stream.owner = stream.owner, None
        if isinstance(owner, ClientStream):
            owner.cancel()

    def _give_up(self, stream: Stream) -> None:
        """A stream was reset. It counts if it had hardly begun: else work could be asked for faster
        than MAX_STREAMS allows. One that has its answer has cost what any request does."""
        owner = stream.owner
        self._cancel(stream)
        if not isinstance(owner, ClientStream):
            return
        if self.proxy.clock() < owner.began + _YOUNG:
            self._count_reset()

    def _count_reset(self) -> None:
        """Look at no more streams where too many are reset. Those that run may be of others, whose
        requests an ingress sends on the same connection: they are finished first."""
        if self._resets.take(self.proxy.clock(), self.link.opened):
            return
        if self._leaving is _LAST_SENT:
            self.link.idle_frame()
            return
        calm, reason = ErrorCode.ENHANCE_YOUR_CALM, "too many streams are reset"
        if not self.link.streams:
            raise ConnectionFault(calm, reason)
        self._leaving = _LAST_SENT
        self.link.write(frames.goaway(self.link.last_stream, calm, reason.encode()))

    # -- the end --------------------------------------------------------------------------------

    def on_forgotten(self, stream: Stream) -> None:
        """See ConnectionSide."""
        if self._stuck:
            self._stuck.pop(stream, None)
        if not self.link.streams:
            if self._leaving is _LAST_SENT:
                self._close()
            elif (self.base.stopping or self.proxy.draining) and not (
                self._leaving is _ANNOUNCED or self.link.is_ending()
            ):
                self._on_idle()

    def exchange_done(self, stream: Stream) -> None:
        """An answer is written; some of it may wait for its client."""
        stream.owner = None
        if stream.id in self.link.streams:
            now = self.proxy.clock()
            self._stuck[stream] = (stream.left, now)
            self.base.arm(now + self.proxy.header_timeout)

    def on_time(self, now: float) -> float:
        """See timers.Timed. One entry serves all requests of the connection: nearly all end long
        before their deadlines, and each deadline is later than the one before."""
        exchanges = self._exchanges()
        if self.link.is_ending() or (self.link.queue.full and not exchanges):
            return self.base.give_up_all_unsent(now)
        if now >= self.link.late_at:
            self.link.fail(
                ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "a header block took too long")
            )
            return inf
        when = min([each.on_time(now) for each in exchanges], default=inf)
        when = min(when, self.link.late_at, self._end_stuck(now))
        return min(when, now + self.proxy.header_timeout) if self.link.queue.full else when

    def on_unfinished(self, size: int) -> None:
        """See ConnectionSide: a head has as long as in HTTP/1, however its pieces come. Since
        requests come in order, the last stream tells whether it is still the same."""
        if self._late_behind != self.link.last_stream or self.link.late_at == inf:
            self._late_behind = self.link.last_stream
            self.link.late_at = self.proxy.clock() + self.proxy.header_timeout
            self.base.arm(self.link.late_at)
        if size == self._counted or self.link.is_ending():
            return
        if self.proxy.unfinished_heads.grow(self._counted, size):
            self._counted = size
        else:
            self.proxy.tell_too_many_unfinished()
            calm = ErrorCode.ENHANCE_YOUR_CALM
            self.link.fail(ConnectionFault(calm, "too many unfinished header blocks"))

    def on_finished(self) -> None:
        """See ConnectionSide."""
        self._end_counting()

    def _end_counting(self) -> None:
        if self._counted:
            self.proxy.unfinished_heads.end(self._counted)
            self._counted = 0

    def _end_stuck(self, now: float) -> float:
        """End streams of whose answers nobody has taken a byte for too long, and those that have
        all of theirs and do not end; return when the next is due."""
        for stream, (left, since) in list(self._stuck.items()):
            if stream.left < left:
                self._stuck[stream] = (stream.left, now)
            elif now >= since + self._patience(stream):
                self.link.end(stream, stream.fault if stream.closed else ErrorCode.CANCEL)
        stuck = self._stuck.items()
        return min((since + self._patience(each) for each, (_, since) in stuck), default=inf)

    def _patience(self, stream: Stream) -> float:
        return MAX_SECONDS if stream.closed else self.proxy.header_timeout

    def _watch_unsent(self) -> None:
        self.base.closed = self.link.is_ending()
        self.base.watch_all_unsent()

    def shutdown(self) -> None:
        """See Speaker: the streams that are open are finished.

        GOAWAY waits for the end of the last stream, or for a client that begins another one. To
        some clients (the Python library h2, and so httpx) GOAWAY is the end of the connection:
        they lose each response that is not complete by then.
        """
        self.base.stopping = True
        self._leave_if_idle()

    def _on_idle(self) -> None:
        """The last stream has ended while the server drains or stops.

        A client that has one stream at a time gets GOAWAY in one write with the end of that stream:
        it knows before its next request. httpx loses responses to requests at a time by a GOAWAY
        that it reads together with them. It has a second to read them, and while the ports are
        open its connection goes on.
        """
        if not self._multiplexed:
            self.link.move(GOAWAY_DUE)
        if self.base.stopping:
            asyncio.get_running_loop().call_later(_LEAVE_SECONDS, self._leave_if_idle)

    def on_goaway_due(self) -> None:
        """See ConnectionSide. If bytes of the client are not read yet, its next request may be
        among them, and GOAWAY waits for the end of that, or for a second when the server stops."""
        self.link.move(OPEN)
        if not presence.count_unread(self.link.transport):
            self._leave_if_idle()

    def _leave_if_idle(self) -> None:
        if not (self.link.streams or self.link.is_ending()):
            self._say_leaving()

    def _say_leaving(self) -> None:
        """Tell the client to open no more streams (RFC 9113 section 6.8).

        The number of the last stream follows when the client has learned this, so that no stream
        that crosses is lost. A PING would tell when. But for h2 any frame but GOAWAY behind a
        GOAWAY is an error, by which it loses all that came with it.
        """
        if self._leaving is _NO and not self.link.is_ending():
            self._leaving = _ANNOUNCED
            self.link.write(frames.goaway(frames.MAX_31_BITS, ErrorCode.NO_ERROR))
            asyncio.get_running_loop().call_later(_LEAVE_SECONDS, self._say_last)

    def _say_last(self) -> None:
        if self._leaving is not _LAST_SENT and not self.link.is_ending():
            self._leaving = _LAST_SENT
            self.link.write(frames.goaway(self.link.last_stream, ErrorCode.NO_ERROR))
            if not self.link.streams:
                self._close()

    def _close(self) -> None:
        self.link.move(ENDING)
        asyncio.get_running_loop().call_soon(self._flush_and_close)

    def _flush_and_close(self) -> None:
        self.link.flush()
        self._watch_unsent()
        self._linger()

    def on_failed(self, fault: ConnectionFault) -> None:
        """See ConnectionSide; what the client still sends is no reason to lose our GOAWAY."""
        self._end_all()
        self.base.watch_no_more()
        self._linger()
        asyncio.get_running_loop().call_later(PART_SECONDS, self.link.transport.abort)

    def _linger(self) -> None:
        if not self.link.transport.is_closing():
            self.base.linger()

    def may_leave(self) -> bool:
        """See eviction.Guest."""
        return not (
            self.link.streams
            or self.link.is_ending()
            or self._leaving is not _NO
            or self.link.queue.full
        )

    def leave(self) -> bool:
        """See eviction.Guest: a request that crosses the GOAWAY may be sent again elsewhere."""
        self.shutdown()
        return True

    def drain(self) -> None:
        """See Speaker."""
        for exchange in self._exchanges():
            exchange.drain()

    def cut(self) -> None:
        """See Speaker."""
        for exchange in self._exchanges():
            exchange.cut()
        if self._leaving is not _LAST_SENT and not self.link.is_ending():
            self._leaving = _LAST_SENT
            self.link.write(frames.goaway(self.link.last_stream, ErrorCode.NO_ERROR))
        self._flush_and_close()
