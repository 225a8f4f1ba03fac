"""A connection to a pod that speaks HTTP/2: many requests at a time.

Pods are not trusted: a malformed answer costs its request, a malformed frame the connection.
"""

from __future__ import annotations

import asyncio
from math import inf
from typing import TYPE_CHECKING, Final

from activator.proxy.http2 import frames
from activator.proxy.http2.connection import Connection
from activator.proxy.http2.errors import ConnectionFault, ErrorCode
from activator.proxy.http2.fields import read_response, read_trailers
from activator.proxy.http2.recurring import Recurring
from activator.proxy.http2.settings import Setting
from activator.proxy.http2.stream import Stream
from activator.proxy.message.grammar import FramingError
from activator.proxy.pods.http1 import lost_error
from activator.proxy.transport.unread import Peer

if TYPE_CHECKING:
    from activator.proxy.exchange.http2_exchange import Http2Exchange
    from activator.proxy.http2.fields import ResponseFields
    from activator.proxy.pods.http2_pool import Http2Pool

#: Statuses of answers without content (RFC 9110 section 6.4.1).
_NO_CONTENT: Final = (204, 304)
#: Stream numbers beyond which a connection takes no more (RFC 9113 section 5.1.1).
_LAST: Final = frames.MAX_31_BITS - 2
#: Bytes that may wait for a pod beyond those at which no more payload is sent: what a hundred
#: requests with heads of 40 KiB have. A pod that has stopped would be sent the heads of all that
#: come and go, for as long as its kernel answers.
_MAX_BEHIND: Final = 4 << 20


class Http2Upstream(Connection):
    """One connection to one pod.

    Attributes:
        settled: the pod has sent its settings: it does speak HTTP/2.
        has_begun: that, or it never will: what came is not HTTP/2, or the connection is lost.
        is_foreign: what came is not HTTP/2.
        used: requests that were answered on it.
    """

    __slots__ = (
        "_files",
        "_full_at",
        "_going",
        "_most",
        "_next",
        "_responses",
        "_trailers",
        "has_begun",
        "idle_since",
        "is_foreign",
        "pool",
        "settled",
        "used",
    )

    def __init__(self, pool: Http2Pool) -> None:
        super().__init__(pool.clock, pool.pool.unread, server=False)
        self.pool = pool
        self._files = pool.files
        self._responses = Recurring(self._decoder, read_response)
        self._trailers = Recurring(self._decoder, read_trailers)
        self._most = pool.most
        self._next = 1
        self._going = False
        self._full_at = 0
        self.settled = False
        self.has_begun = asyncio.Event()
        self.is_foreign = False
        self.used = 0
        self.idle_since = 0.0

    # -- for the pool ---------------------------------------------------------------------------

    def has_room(self) -> bool:
        """Whether one more request may be sent on it."""
        return (
            not self._going
            and not self.ending
            and len(self.streams) < self._most
            and len(self.streams) < self.pool.bearable
            and self._next < _LAST
            and not self.transport.is_closing()
        )

    def retire(self) -> None:
        """Take no more requests; close once the last is answered."""
        self._going = True
        if not self.streams:
            self.close()

    def close(self) -> None:
        """Say goodbye."""
        if not self.ending:
            self.ending = True
            self.write(frames.goaway(0, ErrorCode.NO_ERROR))
            self._flush()
            self.transport.close()

    # -- for exchanges --------------------------------------------------------------------------

    def open(self, exchange: Http2Exchange, block: bytes, *, ended: bool) -> Stream:
        """Begin a request; its answer goes to ``exchange``."""
        stream = Stream(self, self._next, exchange)
        self._next += 2
        self.opened += 1
        self.streams[stream.id] = stream
        self.write_headers(stream, block, ended=ended)
        return stream

    def abandon(self, stream: Stream, code: int = ErrorCode.CANCEL) -> None:
        """End a request: its answer is of no more use."""
        stream.exchange = None
        self.end(stream, code)

    def forget(self, stream: Stream) -> None:
        """See Connection."""
        super().forget(stream)
        stream.exchange = None
        if not self.streams:
            self.idle_since = self._clock()
            if self._going:
                asyncio.get_running_loop().call_soon(self.close)
        if self._files.waiting:
            self._files.freed()

    # -- for the loop ---------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        super().connection_made(transport)
        self.pool.opened(self)
        self.write(frames.PREFACE)
        self.begin((Setting.ENABLE_PUSH, 0))

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        self.ending = True
        self.unread.hold(self, 0)
        self.has_begun.set()
        self.pool.closed(self)
        self._lose_all(lost_error(exc))

    def pause_writing(self) -> None:
        """See Connection."""
        super().pause_writing()
        self._full_at = self.transport.get_write_buffer_size()

    def on_backlog(self) -> None:
        """See Connection."""
        behind = self.transport.get_write_buffer_size() - self._full_at
        if behind > _MAX_BEHIND and not self.ending:
            self._give_up()

    def _give_up(self) -> None:
        self.ending = True
        self.transport.abort()
        self._lose_all("the pod takes nothing")

    def end_unread(self) -> tuple[Peer, str]:
        """See Connection."""
        self._give_up()
        return Peer.POD, self.pool.pool.pod.address

    def end_stream_unread(self, stream: Stream) -> tuple[Peer, str]:
        """See Connection. The request is not sent again: its next pod would hold as much."""
        exchange = stream.exchange
        self.end(stream, ErrorCode.CANCEL)
        if exchange is not None:
            error = "the pod did not read the request"
            exchange.on_lost(error, answered=True, reused=stream.answered)
        return Peer.POD, self.pool.pool.pod.address

    def fail(self, fault: ConnectionFault) -> None:
        """See Connection."""
        super().fail(fault)
        if self.settled:
            self._lose_all(f"malformed answer: {fault.reason}")
            return
        self.is_foreign = True
        self.has_begun.set()
        for _, exchange in self._drop_all():
            exchange.on_other_protocol()

    def _lose_all(self, error: str) -> None:
        for answered, exchange in self._drop_all():
            exchange.on_lost(error, answered=answered, reused=self.used > 0)

    def _drop_all(self) -> list[tuple[bool, Http2Exchange]]:
        """Forget all streams; return whose they were, and whether their answers had begun."""
        streams = list(self.streams.values())
        for stream in streams:
            super().forget(stream)
        return [(each.answered, each.exchange) for each in streams if each.exchange is not None]

    # -- frames ---------------------------------------------------------------------------------

    def is_idle(self, stream: int) -> bool:
        """See Connection."""
        return stream >= self._next or not stream & 1

    def settings(self, values: list[tuple[int, int]]) -> None:
        """See Connection."""
        self.settled = True
        super().settings(values)
        self.has_begun.set()

    def on_max_streams(self, count: int) -> None:
        """See Connection."""
        self._most = count
        self.pool.announced(count)
        if not count:
            self.retire()

    def headers(self, stream: int, block: bytes, ended: bool) -> None:
        """See FrameHandler."""
        found = self.streams.get(stream)
        exchange = None if found is None else found.exchange
        try:
            if found is None or exchange is None or found.peer_closed:
                self._decoder.decode(block)
                if self._known(stream) is None:
                    self.idle_frame()
                else:
                    self.stream_error(stream, ErrorCode.STREAM_CLOSED, "headers behind the end")
            elif found.answered:
                self._on_trailers(found, exchange, self._trailers.read(block), ended)
            else:
                self._on_response(found, exchange, self._responses.read(block), ended)
        except FramingError as error:
            self.stream_error(stream, ErrorCode.PROTOCOL_ERROR, str(error))

    def _on_response(
        self, stream: Stream, exchange: Http2Exchange, response: ResponseFields, ended: bool
    ) -> None:
        if response.status < 200:
            if ended:
                raise FramingError("an interim answer that ends the stream", 502)
            exchange.on_interim(response)
            return
        stream.answered = True
        if exchange.to_head or response.status in _NO_CONTENT:
            self._on_bare_response(stream, exchange, response, ended)
            return
        stream.missing = response.length
        if ended:
            if response.length > 0:
                raise FramingError("not as long as announced", 502)
            self._end_answer(stream)
        exchange.on_response(response, ended)

    def _on_bare_response(
        self, stream: Stream, exchange: Http2Exchange, response: ResponseFields, ended: bool
    ) -> None:
        """An answer that its head ends, whatever a pod sends behind it (RFC 9110 section 6.4.1):
        clients would take that for a fault of the connection."""
        if ended:
            self._end_answer(stream)
        else:
            self._count_answer()
            self.abandon(stream, ErrorCode.NO_ERROR)
        exchange.on_response(response, True)

    def _on_trailers(
        self, stream: Stream, exchange: Http2Exchange, trailers: bytes, ended: bool
    ) -> None:
        if not ended:
            raise FramingError("headers in the middle", 502)
        if stream.missing > 0:
            raise FramingError("not as long as announced", 502)
        self._end_answer(stream)
        exchange.on_payload(b"", trailers)

    def _end_answer(self, stream: Stream) -> None:
        self._count_answer()
        stream.exchange = None
        self._peer_ended(stream)

    def _count_answer(self) -> None:
        self.used += 1
        self.pool.answers += 1
        self.pool.bearable += 1

    def on_data(self, stream: Stream, payload: bytes, trailers: bytes | None) -> None:
        """See Connection."""
        exchange = stream.exchange
        if exchange is None:
            return
        if not stream.answered:
            self.stream_error(stream.id, ErrorCode.PROTOCOL_ERROR, "DATA before the head")
            return
        if trailers is not None:
            self._count_answer()
            stream.exchange = None
        exchange.on_payload(payload, trailers)

    def on_reset(self, stream: Stream, code: int) -> None:
        """See Connection; its exchange is told before it is forgotten."""

    def reset(self, stream: int, code: int) -> None:
        """See FrameHandler."""
        found = self._known(stream)
        if found is None:
            self.idle_frame()
            return
        exchange = found.exchange
        found.peer_closed = True
        self.forget(found)
        if code == ErrorCode.REFUSED_STREAM:
            self.pool.bearable = min(self.pool.bearable, len(self.streams)) or inf
        if exchange is not None:
            exchange.on_reset(code, answered=found.answered)

    def goaway(self, last_stream: int, code: int, reason: bytes) -> None:
        """See FrameHandler."""
        self.idle_frame()
        self._going = True
        for stream in [s for s in self.streams.values() if s.id > last_stream]:
            exchange = stream.exchange
            self.forget(stream)
            if exchange is not None:
                exchange.on_refused("the pod ended the connection before it looked at the request")
        if not self.streams:
            self.close()

    def stream_error(self, stream: int, code: ErrorCode, reason: str) -> None:
        """See FrameHandler."""
        found = self._known(stream)
        if found is None:
            return
        exchange = found.exchange
        self.end(found, code)
        if exchange is not None:
            exchange.on_lost(f"malformed answer: {reason}", answered=True, reused=found.answered)
