"""A client's connection that speaks HTTP/2: each stream of it is a request.

Takes the place of ``proxy.client.http1`` once the preface has come. A client that breaks a rule
on a stream loses that stream; a flood costs the connection, with the number of the last stream that
was looked at, so that an ingress may ask the rest again.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from math import inf
from typing import TYPE_CHECKING, Final

from activator.proxy.client.linger import MAX_SECONDS, Linger
from activator.proxy.exchange.http2_exchange import Http2Exchange
from activator.proxy.http2 import frames
from activator.proxy.http2.budget import Budget
from activator.proxy.http2.connection import PART_SECONDS, Connection
from activator.proxy.http2.errors import ConnectionFault, ErrorCode
from activator.proxy.http2.fields import read_request, read_trailers
from activator.proxy.http2.recurring import Recurring
from activator.proxy.http2.section import reply_block
from activator.proxy.http2.settings import Setting
from activator.proxy.http2.stream import STREAM_WINDOW, Stream
from activator.proxy.message import replies
from activator.proxy.message.grammar import FramingError
from activator.proxy.message.problem import negotiated
from activator.proxy.transport import presence
from activator.proxy.transport.unread import Peer

if TYPE_CHECKING:
    from activator.proxy.client.http1 import Downstream
    from activator.proxy.http2.fields import RequestFields
    from activator.proxy.message.request import Request

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
#: Seconds for a client to go when its connection has ended and it has taken all.
_END_SECONDS: Final = MAX_SECONDS + 1.0


class Http2Downstream(Connection):
    """One connection of a client.

    Attributes:
        client: its IP address; secure: whether the connection is encrypted.
        idle_since: see eviction.Guest.
    """

    __slots__ = (
        "_before",
        "_counted",
        "_deaf",
        "_dismissed",
        "_last_said",
        "_late_behind",
        "_leaving",
        "_multiplexed",
        "_requests",
        "_resets",
        "_stopping",
        "_stuck",
        "_unsent",
        "_unsent_since",
        "armed",
        "client",
        "idle_since",
        "proxy",
        "secure",
    )

    def __init__(self, before: Downstream) -> None:
        proxy = before.proxy
        super().__init__(proxy.clock, proxy.unread, server=True)
        self.proxy = proxy
        self.client = before.client
        self.secure = before.secure
        self.armed = inf
        self.idle_since = before.idle_since
        self._before = before
        self._requests = Recurring(self._decoder, read_request)
        # Streams whose answers wait to be taken: bytes that are left, and since when they are; or
        # whose answers are taken and whose requests do not end: none.
        self._stuck: dict[Stream, tuple[int, float]] = {}
        self._unsent = 0  # of the whole connection, where that is full or ends
        self._unsent_since = inf
        self._late_behind = 0  # the stream before the header block that has begun
        self._counted = 0  # bytes of that block, in UnfinishedHeads
        self._deaf = False
        self._dismissed = False  # it was turned away, and is about to get GOAWAY
        self._stopping = False  # the server stops, see shutdown
        self._multiplexed = False  # two streams have been open at a time
        self._leaving = False  # it has been told to open no more
        self._last_said = False  # and which stream was the last
        self._resets = Budget(*_RESETS)
        self.transport = before.transport
        self.late_at = before.idle_since + before.head_timeout
        self.arm(self.late_at)
        self.begin((Setting.MAX_CONCURRENT_STREAMS, MAX_STREAMS))

    def peer(self) -> str:
        """See exchange.Client."""
        return self._before.peer()

    # -- for the loop ---------------------------------------------------------------------------

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        self.ending = True
        self.unread.hold(self, 0)
        self.proxy.eviction.left(self)
        self.proxy.timers.forget(self)
        self.proxy.left(self)
        self._end_counting()
        self._end_all()

    def _end_all(self) -> None:
        for stream in list(self.streams.values()):
            self.forget(stream)
            self._cancel(stream)

    def eof_received(self) -> bool:
        """See asyncio.Protocol: nobody half-closes HTTP/2 (RFC 9113 section 9.1)."""
        return False

    def pause_writing(self) -> None:
        """See Connection."""
        super().pause_writing()
        self._watch_unsent()

    def on_backlog(self) -> None:
        """See Connection: whoever takes no answers is not asked for more requests."""
        if not self._deaf and not self.ending:
            self._deaf = True
            self.transport.pause_reading()

    def resume_writing(self) -> None:
        """See Connection."""
        super().resume_writing()
        self._unsent_since = inf
        if self._deaf:
            self._deaf = False
            if not self.transport.is_closing():
                self.transport.resume_reading()
        for exchange in self._exchanges():
            exchange.touch()

    def end_unread(self) -> tuple[Peer, str]:
        """See Connection."""
        peer = self.peer()
        self.ending = True
        self._end_all()
        presence.reset(self.transport)
        self.transport.abort()
        return Peer.CLIENT, peer

    def end_stream_unread(self, stream: Stream) -> tuple[Peer, str]:
        """See Connection."""
        self.end(stream, ErrorCode.ENHANCE_YOUR_CALM)
        self._cancel(stream)
        return Peer.CLIENT, self.peer()

    def _exchanges(self) -> list[Http2Exchange]:
        return [s.exchange for s in self.streams.values() if s.exchange is not None]

    # -- frames ---------------------------------------------------------------------------------

    def is_idle(self, stream: int) -> bool:
        """See Connection. Behind the last that we look at, a client may have begun others."""
        return not stream & 1 or (stream > self.last_stream and not self._last_said)

    def headers(self, stream: int, block: bytes, ended: bool) -> None:
        """See FrameHandler."""
        found = self.streams.get(stream)
        if found is not None:
            self._on_trailers(found, block, ended)
            return
        try:
            request = Http2Exchange.read(self._requests.read(block), ended=ended)
        except FramingError as error:
            if self._opens(stream):
                self._refuse(stream, error, ended=ended)
            return
        if stream & 1 and stream <= self.last_stream:
            raise self._backwards()
        if self._opens(stream):
            self._begin(stream, request, ended)

    def _backwards(self) -> ConnectionFault:
        """Return the error for a request on a stream number at or below the last one.

        The stream is over, and begins again (RFC 9113 section 5.1), or the client has skipped its
        number (section 5.1.1). A client that has used each odd number has skipped none.
        """
        if self.last_stream == 2 * self.opened - 1:
            return ConnectionFault(ErrorCode.STREAM_CLOSED, "a request on a closed stream")
        return ConnectionFault(ErrorCode.PROTOCOL_ERROR, "stream numbers go backwards")

    def on_stray(self, stream: int) -> None:
        """See Connection. Frames that crossed our own RST_STREAM are ignored, as are those for
        streams behind the last one that we look at."""
        super().on_stray(stream)
        if not self._late and stream <= self.last_stream:
            self.write(frames.rst_stream(stream, ErrorCode.STREAM_CLOSED))

    def _opens(self, stream: int) -> bool:
        """Whether a stream begins here that somebody is to look at."""
        if not stream & 1:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a client's stream is odd")
        if stream <= self.last_stream or self._last_said:
            self.on_stray(stream)
            return False
        self.last_stream = stream
        self.opened += 1
        if self._stopping:
            self._say_leaving()
        if self.streams:
            self._multiplexed = True
        if len(self.streams) >= MAX_STREAMS:
            self.expect_late(STREAM_WINDOW)  # it may know neither our settings nor this
            self.write(frames.rst_stream(stream, ErrorCode.REFUSED_STREAM))
            return False
        return True

    def _refuse(self, number: int, error: FramingError, *, ended: bool) -> None:
        """Answer what is malformed or refused as in HTTP/1: the response says what is wrong.

        To a malformed request RST_STREAM follows, as RFC 9113 section 8.1.1 asks: behind the whole
        response, and behind the request if that ends soon, see ``on_half_closed``.
        """
        self.proxy.counters.bad_requests += 1
        stream = self.streams[number] = Stream(self, number, None)
        stream.peer_closed = ended
        if error.status == HTTPStatus.BAD_REQUEST:
            stream.fault = ErrorCode.PROTOCOL_ERROR
        reply = negotiated(replies.refused(error.status, str(error)), error.block)
        self.write_headers(stream, reply_block(reply, self.proxy.date()), ended=error.to_head)
        if not error.to_head:
            stream.send(reply.body, b"")
        self.exchange_done(stream)
        if error.status == HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE:
            self._count_reset()  # of a small block may come megabytes; others cost as much as a 404

    def _begin(self, number: int, read: tuple[Request, RequestFields], ended: bool) -> None:
        stream = Stream(self, number, None)
        stream.peer_closed = ended
        self.streams[number] = stream
        if self._before.turned_away:
            self._turn_away(stream, read[0])
            return
        stream.exchange = exchange = Http2Exchange(self, stream, read)
        exchange.begin()

    def _turn_away(self, stream: Stream, request: Request) -> None:
        """Answer that there is no room for this client, and have it leave.

        GOAWAY follows as in ``_on_idle``: in one write with the answer to a client that has asked
        once, so that it begins no other request. A client that has asked more gets each answer
        first, and GOAWAY within a second, even if it begins more until then.
        """
        self.goaway_due = not self._dismissed
        if not self._dismissed:
            self._dismissed = True
            asyncio.get_running_loop().call_later(_LEAVE_SECONDS, self._say_leaving)
        reply = negotiated(self.proxy.too_many_connections(), request.lines)
        bodiless = request.method == b"HEAD"
        self.write_headers(stream, reply_block(reply, self.proxy.date()), ended=bodiless)
        if not bodiless:
            stream.send(reply.body, b"")
        self.exchange_done(stream)

    def _on_trailers(self, stream: Stream, block: bytes, ended: bool) -> None:
        code = ErrorCode.STREAM_CLOSED if stream.peer_closed else ErrorCode.PROTOCOL_ERROR
        try:
            trailers = read_trailers(self._decoder.decode(block))
        except FramingError as error:
            self.stream_error(stream.id, code, str(error))
            return
        if not ended or stream.peer_closed or stream.missing > 0:
            self.stream_error(stream.id, code, "headers in the middle, or behind the end")
            return
        self._peer_ended(stream)
        self.on_data(stream, b"", trailers)

    def on_data(self, stream: Stream, payload: bytes, trailers: bytes | None) -> None:
        """See Connection."""
        exchange = stream.exchange
        if exchange is not None:
            exchange.on_request_data(payload, trailers)
        elif not stream.closed:
            stream.credit(len(payload))

    def on_half_closed(self, stream: Stream) -> None:
        """See Connection: the answer is complete, the rest of the request of no use.

        RFC 9113 section 8.1 lets us ask for its end at once. But clients lose answers by a reset
        that comes with them (curl 7.88 does, one in six of small POSTs), as they do by TCP's in
        HTTP/1: so it may end by itself, in as much time and room as there, see linger.
        """
        now = self.proxy.clock()
        self._stuck[stream] = (0, now)
        self.arm(now + MAX_SECONDS)

    def on_reset(self, stream: Stream, code: int) -> None:
        """See Connection."""
        self._give_up(stream)

    def stream_error(self, stream: int, code: ErrorCode, reason: str) -> None:
        """See FrameHandler."""
        if self.is_idle(stream):
            raise ConnectionFault(code, reason)  # RST_STREAM would be wrong on it itself
        self.write(frames.rst_stream(stream, code))
        found = self.streams.get(stream)
        if found is None:
            self._count_reset()
            return
        self.forget(found)
        self._give_up(found)

    @staticmethod
    def _cancel(stream: Stream) -> None:
        exchange, stream.exchange = stream.exchange, None
        if exchange is not None:
            exchange.on_client_gone()

    def _give_up(self, stream: Stream) -> None:
        """A stream was reset. It counts if it had hardly begun: else work could be asked for faster
        than MAX_STREAMS allows. One that has its answer has cost what any request does."""
        exchange = stream.exchange
        self._cancel(stream)
        if exchange is not None and self.proxy.clock() < exchange.ticket.arrived + _YOUNG:
            self._count_reset()

    def _count_reset(self) -> None:
        """Look at no more streams where too many are reset. Those that run may be of others, whose
        requests an ingress sends on the same connection: they are finished first."""
        if self._resets.take(self.proxy.clock(), self.opened):
            return
        if self._last_said:
            self.idle_frame()
            return
        calm, reason = ErrorCode.ENHANCE_YOUR_CALM, "too many streams are reset"
        if not self.streams:
            raise ConnectionFault(calm, reason)
        self._leaving = self._last_said = True
        self.write(frames.goaway(self.last_stream, calm, reason.encode()))

    def on_max_streams(self, count: int) -> None:
        """See Connection: we open none."""

    def goaway(self, last_stream: int, code: int, reason: bytes) -> None:
        """See FrameHandler: the client opens no more; what runs is finished."""
        self.idle_frame()

    # -- the end --------------------------------------------------------------------------------

    def forget(self, stream: Stream) -> None:
        """See Connection."""
        super().forget(stream)
        if self._stuck:
            self._stuck.pop(stream, None)
        if not self.streams:
            if self._last_said:
                self._close()
            elif (self._stopping or self.proxy.draining) and not (self._leaving or self.ending):
                self._on_idle()

    def exchange_done(self, stream: Stream) -> None:
        """An answer is written; some of it may wait for its client."""
        stream.exchange = None
        if stream.id in self.streams:
            now = self.proxy.clock()
            self._stuck[stream] = (stream.left, now)
            self.arm(now + self.proxy.header_timeout)

    def arm(self, when: float) -> None:
        """Have ``on_time`` called by then."""
        if when < self.armed:
            self.proxy.timers.arm(self, when)

    def on_time(self, now: float) -> float:
        """See timers.Timed. One entry serves all requests of the connection: nearly all end long
        before their deadlines, and each deadline is later than the one before."""
        exchanges = self._exchanges()
        if self.ending or (self.full and not exchanges):
            return self._give_up_unsent(now)
        if now >= self.late_at:
            self.fail(ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "a header block took too long"))
            return inf
        when = min(self.late_at, self._end_stuck(now), *(each.on_time(now) for each in exchanges))
        return min(when, now + self.proxy.header_timeout) if self.full else when

    def on_unfinished(self) -> None:
        """See Connection: a head has as long as in HTTP/1, however its pieces come. Since requests
        come in order, the last stream tells whether it is still the same."""
        if self._late_behind != self.last_stream or self.late_at == inf:
            self._late_behind = self.last_stream
            self.late_at = self.proxy.clock() + self.proxy.header_timeout
            self.arm(self.late_at)
        size = self._reader.block_size
        if size == self._counted or self.ending:
            return
        if self.proxy.unfinished_heads.grow(self._counted, size):
            self._counted = size
        else:
            self.proxy.tell_too_many_unfinished()
            calm = ErrorCode.ENHANCE_YOUR_CALM
            self.fail(ConnectionFault(calm, "too many unfinished header blocks"))

    def on_finished(self) -> None:
        """See Connection."""
        super().on_finished()
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
                self.end(stream, stream.fault if stream.closed else ErrorCode.CANCEL)
        stuck = self._stuck.items()
        return min((since + self._patience(each) for each, (_, since) in stuck), default=inf)

    def _patience(self, stream: Stream) -> float:
        return MAX_SECONDS if stream.closed else self.proxy.header_timeout

    def _watch_unsent(self) -> None:
        self._unsent = presence.count_unsent(self.transport)
        self._unsent_since = now = self.proxy.clock()
        self.arm(now + (_END_SECONDS if self.ending else self.proxy.header_timeout))

    def _give_up_unsent(self, now: float) -> float:
        """Drop a client that has taken nothing for too long, or that has all and does not go."""
        if self._unsent_since == inf:
            return inf  # ``part`` sees to it
        unsent = presence.count_unsent(self.transport)
        if unsent < self._unsent:
            self._unsent_since = now
        self._unsent = unsent
        all_taken = self.ending and not unsent
        patience = _END_SECONDS if all_taken else self.proxy.header_timeout
        if now >= self._unsent_since + patience:
            self.transport.abort()
            return inf
        return min(self._unsent_since + patience, now + _END_SECONDS)

    def shutdown(self) -> None:
        """Called by uvicorn when the server stops: the streams that are open are finished.

        GOAWAY waits for the end of the last stream, or for a client that begins another one. To
        some clients (the Python library h2, and so httpx) GOAWAY is the end of the connection:
        they lose each response that is not complete by then.
        """
        self._stopping = True
        self._leave_if_idle()

    def _on_idle(self) -> None:
        """The last stream has ended while the server drains or stops.

        A client that has one stream at a time gets GOAWAY in one write with the end of that stream:
        it knows before its next request. httpx loses responses to requests at a time by a GOAWAY
        that it reads together with them. It has a second to read them, and while the ports are
        open its connection goes on.
        """
        if not self._multiplexed:
            self.goaway_due = True
        if self._stopping:
            asyncio.get_running_loop().call_later(_LEAVE_SECONDS, self._leave_if_idle)

    def on_goaway_due(self) -> None:
        """See Connection. If bytes of the client are not read yet, its next request may be among
        them, and GOAWAY waits for the end of that, or for a second when the server stops."""
        self.goaway_due = False
        if not presence.count_unread(self.transport):
            self._leave_if_idle()

    def _leave_if_idle(self) -> None:
        if not (self.streams or self.ending):
            self._say_leaving()

    def _say_leaving(self) -> None:
        """Tell the client to open no more streams (RFC 9113 section 6.8).

        The number of the last stream follows when the client has learned this, so that no stream
        that crosses is lost. A PING would tell when. But for h2 any frame but GOAWAY behind a
        GOAWAY is an error, by which it loses all that came with it.
        """
        if not (self._leaving or self.ending):
            self._leaving = True
            self.write(frames.goaway(frames.MAX_31_BITS, ErrorCode.NO_ERROR))
            asyncio.get_running_loop().call_later(_LEAVE_SECONDS, self._say_last)

    def _say_last(self) -> None:
        if not self._last_said and not self.ending:
            self._last_said = True
            self.write(frames.goaway(self.last_stream, ErrorCode.NO_ERROR))
            if not self.streams:
                self._close()

    def _close(self) -> None:
        self.ending = True
        asyncio.get_running_loop().call_soon(self._flush_and_close)

    def _flush_and_close(self) -> None:
        self._flush()
        self._watch_unsent()
        self._linger()

    def part(self) -> None:
        """See Connection; what the client still sends is no reason to lose what it is told."""
        self._end_all()
        self._unsent_since = inf
        self._linger()
        asyncio.get_running_loop().call_later(PART_SECONDS, self.transport.abort)

    def _linger(self) -> None:
        if not self.transport.is_closing():
            self.transport.set_protocol(Linger(self, self.transport))

    def may_leave(self) -> bool:
        """See eviction.Guest."""
        return not (self.streams or self.ending or self._leaving or self.full)

    def leave(self) -> bool:
        """See eviction.Guest: a request that crosses the GOAWAY may be sent again elsewhere."""
        if presence.count_unread(self.transport):
            return False
        self.shutdown()
        return True

    def drain(self) -> None:
        """The time to wait is over: requests that have no pod are told so."""
        for exchange in self._exchanges():
            exchange.drain()

    def cut(self) -> None:
        """The time to finish is over."""
        for exchange in self._exchanges():
            exchange.cut()
        if not (self._last_said or self.ending):
            self._leaving = self._last_said = True
            self.write(frames.goaway(self.last_stream, ErrorCode.NO_ERROR))
        self._flush_and_close()
