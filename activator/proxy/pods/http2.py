"""A connection to a pod in HTTP/2, which carries many requests at a time.

Pods are not trusted: a malformed response ends its stream, a malformed frame the connection.
"""

from __future__ import annotations

import asyncio
from typing import Final, final

from activator.proxy.exchange.pod_side import Requester
from activator.proxy.http2 import frames
from activator.proxy.http2.connection import CLOSE_SECONDS, ENDING, Connection, ConnectionSide
from activator.proxy.http2.fields import read_response, read_trailers
from activator.proxy.http2.frame_reader import Setting
from activator.proxy.http2.frames import ConnectionFault, ErrorCode
from activator.proxy.http2.section import Recurring
from activator.proxy.http2.stream import Stream
from activator.proxy.message.fields import HTTP_1_1
from activator.proxy.message.grammar import FramingError
from activator.proxy.pods.http1 import lost_error
from activator.proxy.pods.owning_pool import OwningPool
from activator.proxy.pods.states import HTTP2_FOLLOWS, Http2State
from activator.proxy.pods.stream import Carrier, PodStream
from activator.proxy.transport.peer_socket import Peer, read_left

#: The states as plain names, see ``states``.
OPENING: Final = Http2State.OPENING
UNSETTLED: Final = Http2State.UNSETTLED
OPEN: Final = Http2State.OPEN
DRAINING: Final = Http2State.DRAINING
OTHER_PROTOCOL: Final = Http2State.OTHER_PROTOCOL
CLOSED_EARLY: Final = Http2State.CLOSED_EARLY
CLOSED: Final = Http2State.CLOSED
#: The error of a request in HTTP/2 to a pod that does not speak HTTP/2.
NOT_HTTP2: Final = "the pod does not speak HTTP/2"

#: Most streams of one connection, whose numbers then end (RFC 9113 section 5.1.1).
_MOST_OPENED: Final = (frames.MAX_31_BITS - 2) // 2
#: Most bytes in the write buffer above the level at which payload stops: a hundred heads of 40 KiB.
#: Without a limit, heads of new requests would collect while a pod does not read.
_MAX_BEHIND: Final = 4 << 20
_CANCEL: Final = int(ErrorCode.CANCEL)
_REFUSED_STREAM: Final = int(ErrorCode.REFUSED_STREAM)


@final
class Http2Pod(ConnectionSide):
    """One connection to one pod.

    Attributes:
        state: see ``states``; only ``_enter`` changes it.
        link: the HTTP/2 connection; carrier: the part of this connection that its streams use.
        settled: set when the pod has sent its settings, or when it never will.
        idle_since: when its last request ended, seconds, monotonic.
    """

    __slots__ = (
        "_capacity",
        "_clock",
        "_files",
        "_full_at",
        "_max_streams",
        "_responses",
        "_trailers",
        "carrier",
        "idle_since",
        "link",
        "pool",
        "settled",
        "state",
    )

    def __init__(self, pool: OwningPool) -> None:
        resources = pool.resources
        link = self.link = Connection(self, resources.clock, resources.unread, server=False)
        self.pool = pool
        self.state: Http2State = OPENING
        self.settled = asyncio.Event()
        self.carrier = Carrier(link, pool.target, pool.capacity)
        self._responses = Recurring(link.decoder, read_response)
        self._trailers = Recurring(link.decoder, read_trailers)
        self._capacity = pool.capacity
        self._max_streams = pool.capacity.max_streams
        self._files = resources.files
        self._clock = resources.clock
        self._full_at = 0
        self.idle_since = 0.0

    def _enter(self, state: Http2State) -> None:
        assert state in HTTP2_FOLLOWS[self.state], f"{state} after {self.state}"
        self.state = state

    # -- for the pool ---------------------------------------------------------------------------

    def protocol(self) -> object:
        """Return the loop's protocol object."""
        return self.link

    def is_made(self) -> bool:
        """Return whether the loop has connected it, so that it will report its end."""
        return self.state is not OPENING

    def has_room(self) -> bool:
        """Return whether it can carry one more request."""
        state, link = self.state, self.link
        count = len(link.streams)
        return (
            (state is OPEN or state is UNSETTLED)
            and count < self._max_streams
            and count < self._capacity.refusal_limit
            and link.opened < _MOST_OPENED
            and not link.transport.is_closing()
        )

    def is_idle_since(self, before: float) -> bool:
        """Return whether it is open and has had no request since a time, seconds, monotonic."""
        is_open = self.state is OPEN or self.state is UNSETTLED
        return is_open and not self.link.streams and self.idle_since < before

    def drain(self) -> None:
        """Accept no more requests; close after the last response."""
        if not self.link.streams:
            self.close()
        elif self.state is UNSETTLED or self.state is OPEN:
            self._enter(DRAINING)

    def close(self) -> None:
        """Send GOAWAY, and close."""
        link = self.link
        if self._end():
            link.move(ENDING)
            link.write(frames.goaway(0, ErrorCode.NO_ERROR))
            link.flush()
            link.transport.close()

    def _end(self) -> bool:
        """Enter the last state; return whether the state changed."""
        state = self.state
        if state is UNSETTLED:
            self._enter(CLOSED_EARLY)
        elif state is OPEN or state is DRAINING:
            self._enter(CLOSED)
        else:
            return False
        self.settled.set()
        return True

    # -- callbacks of the connection ------------------------------------------------------------

    def made(self) -> None:
        """See ConnectionSide. Send no PINGs: gRPC servers end connections with many of them."""
        self._enter(UNSETTLED)
        self.pool.opened(self.link.transport)
        self.link.write(frames.PREFACE)
        self.link.begin((Setting.ENABLE_PUSH, 0))

    def lost(self, exc: Exception | None) -> None:
        """See ConnectionSide."""
        # Without a stream, its dial has not ended, and that records how it closed.
        closed_early = self.state is UNSETTLED and self.link.opened > 0
        self._end()
        self.pool.closed(self)
        if closed_early:
            self.pool.closed_early()
        self._lose_all(lost_error(exc))

    def on_broken(self) -> None:
        """See ConnectionSide: after a GOAWAY, requests can be retried."""
        for data in read_left(self.link.transport):
            self.link.data_received(data)

    def on_full(self) -> None:
        """See ConnectionSide."""
        self._full_at = self.link.transport.get_write_buffer_size()

    def on_backlog(self) -> None:
        """See ConnectionSide."""
        behind = self.link.transport.get_write_buffer_size() - self._full_at
        if behind > _MAX_BEHIND and not self.link.is_ending():
            self._abort()

    def _abort(self) -> None:
        self._end()
        self.link.move(ENDING)
        self.link.transport.abort()
        self._lose_all("the pod does not read")

    def end_unread(self) -> tuple[Peer, str]:
        """See ConnectionSide."""
        self._abort()
        return Peer.POD, self.pool.target.address

    def end_stream_unread(self, stream: Stream) -> tuple[Peer, str]:
        """See ConnectionSide. Fail the request: at another pod, as many bytes would wait."""
        requester = _detach_requester(stream)
        self.link.end(stream, _CANCEL)
        if requester is not None:
            requester.on_lost("the pod did not read the request", True)
        return Peer.POD, self.pool.target.address

    def on_failed(self, fault: ConnectionFault) -> None:
        """See ConnectionSide."""
        self.link.transport.close()
        asyncio.get_running_loop().call_later(CLOSE_SECONDS, self.link.transport.abort)
        if self.state is not UNSETTLED:
            self._end()
            self._lose_all(f"malformed response: {fault.reason}")
            return
        self._enter(OTHER_PROTOCOL)
        self.settled.set()
        self.pool.speaks(HTTP_1_1)
        for owner in self._remove_all():
            requester = owner.detach_requester()
            if requester is not None:
                requester.on_other_protocol(NOT_HTTP2)

    def _lose_all(self, error: str) -> None:
        for owner in self._remove_all():
            requester = owner.detach_requester()
            if requester is not None:
                requester.on_lost(error, owner.responded)

    def _remove_all(self) -> list[PodStream]:
        """Remove all streams; return their owners."""
        streams = list(self.link.streams.values())
        for stream in streams:
            self.link.remove_stream(stream)
        return [each.owner for each in streams if isinstance(each.owner, PodStream)]

    def on_stream_removed(self, stream: Stream) -> None:
        """See ConnectionSide."""
        if not self.link.streams:
            self.idle_since = self._clock()
            if self.state is DRAINING:
                asyncio.get_running_loop().call_soon(self.close)
            elif not self.pool.may_have_idle:
                self.pool.became_idle()
        if self._files.waiting:
            self._files.freed()

    # -- frames ---------------------------------------------------------------------------------

    def is_idle(self, stream: int) -> bool:
        """See ConnectionSide."""
        return stream > 2 * self.link.opened or not stream & 1

    def on_settings(self) -> None:
        """See ConnectionSide."""
        if self.state is UNSETTLED:
            self._enter(OPEN)
            self.settled.set()

    def on_max_streams(self, count: int) -> None:
        """See ConnectionSide."""
        self._max_streams = count
        self._capacity.announced(count)
        if not count:
            self.drain()

    def on_max_header_list(self, size: int) -> None:
        """See ConnectionSide."""
        self.carrier.limit_header_list(size)

    def on_headers(self, stream: int, block: bytes, ended: bool) -> None:
        """See ConnectionSide."""
        link = self.link
        found = link.streams.get(stream)
        owner = None if found is None else found.owner
        try:
            if found is None or not isinstance(owner, PodStream) or found.peer_closed:
                link.decoder.decode(block)
                if link.known(stream) is None:
                    link.idle_frame()
                else:
                    self.on_stream_error(stream, ErrorCode.STREAM_CLOSED, "headers after the end")
            elif owner.responded:
                owner.on_trailers(self._trailers.read(block), ended)
            else:
                owner.on_response(self._responses.read(block), ended)
        except FramingError as error:
            self.on_stream_error(stream, ErrorCode.PROTOCOL_ERROR, str(error))

    def on_data(self, stream: Stream, payload: bytes, trailers: bytes | None) -> None:
        """See ConnectionSide."""
        owner = stream.owner
        if not isinstance(owner, PodStream):
            return
        if owner.responded:
            owner.on_data(payload, trailers)
        elif owner.requester is not None:
            self.on_stream_error(stream.id, ErrorCode.PROTOCOL_ERROR, "DATA before the head")

    def on_reset(self, stream: Stream, owner: object | None, code: int) -> None:
        """See ConnectionSide."""
        if code == _REFUSED_STREAM:
            self._capacity.refused(len(self.link.streams))
        if not isinstance(owner, PodStream):
            return
        requester = owner.detach_requester()
        if requester is not None:
            requester.on_reset(code, owner.responded)

    def on_goaway(self, last_stream: int) -> None:
        """See ConnectionSide."""
        if self.state is OPEN:
            self._enter(DRAINING)
        for stream in [s for s in self.link.streams.values() if s.id > last_stream]:
            requester = _detach_requester(stream)
            self.link.remove_stream(stream)
            if requester is not None:
                requester.on_refused("the pod ended the connection before it processed the request")
        if not self.link.streams:
            self.close()

    def on_stream_error(self, stream: int, code: ErrorCode, reason: str) -> None:
        """See ConnectionSide."""
        found = self.link.known(stream)
        if found is None:
            return
        requester = _detach_requester(found)
        self.link.end(found, code)
        if requester is not None:
            requester.on_lost(f"malformed response: {reason}", True)


def _detach_requester(stream: Stream) -> Requester | None:
    """Detach the requester from a stream that ends early; return the requester."""
    owner = stream.owner
    return owner.detach_requester() if isinstance(owner, PodStream) else None
