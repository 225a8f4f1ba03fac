"""A connection to a pod that speaks HTTP/2: many requests at a time.

Pods are not trusted: a malformed response costs its request, a malformed frame the connection.
"""

from __future__ import annotations

import asyncio
from math import inf
from typing import Final, Protocol, final

from activator.keepalive import SocketKind, find_dead
from activator.proxy.exchange.crossing import as_block
from activator.proxy.exchange.observers import Trace
from activator.proxy.exchange.request_body import RequestBody
from activator.proxy.exchange.sides import Asker, ClientSide, PodSide, SwitchingSide
from activator.proxy.http2 import frames
from activator.proxy.http2.connection import PART_SECONDS, Connection, ConnectionSide
from activator.proxy.http2.errors import ConnectionFault, ErrorCode
from activator.proxy.http2.fields import ResponseFields, read_response, read_trailers
from activator.proxy.http2.hpack import line
from activator.proxy.http2.recurring import Recurring
from activator.proxy.http2.section import block_of, section_of, traced_section
from activator.proxy.http2.settings import Setting
from activator.proxy.http2.stream import Stream
from activator.proxy.message.grammar import FramingError
from activator.proxy.message.request import Request
from activator.proxy.pods.http1 import MAX_INTERIM, lost_error
from activator.proxy.transport.files import FileBudget
from activator.proxy.transport.unread import Peer, UnreadBytes

#: Statuses of responses without content (RFC 9110 section 6.4.1).
_NO_CONTENT: Final = (204, 304)
#: Stream numbers beyond which a connection takes no more (RFC 9113 section 5.1.1).
_LAST: Final = frames.MAX_31_BITS - 2
#: Bytes that may wait for a pod beyond those at which no more payload is sent: what a hundred
#: requests with heads of 40 KiB have. A pod that has stopped would be sent the heads of all that
#: come and go, for as long as its kernel answers.
_MAX_BEHIND: Final = 4 << 20
_EXPECT: Final = line(b"expect", b"100-continue")
_NO_ERROR: Final = int(ErrorCode.NO_ERROR)
_CANCEL: Final = int(ErrorCode.CANCEL)
_REFUSED_STREAM: Final = int(ErrorCode.REFUSED_STREAM)
_OTHER_PROTOCOL: Final = "the pod does not speak HTTP/2"


class Capacity:
    """How many streams one pod takes.

    Attributes:
        most: streams that the pod takes on one connection, as far as it is known.
        bearable: the same, as its refusals show it: what a connection had left when it refused one
            more, and one more again at each response. Else those that wait would all be refused
            once for each that is answered. What refuses all does not go by their number.
        answers: how many responses it has given.
    """

    __slots__ = ("answers", "bearable", "most")

    def __init__(self, most: int) -> None:
        self.most = most
        self.bearable = inf
        self.answers = 0


class Home(Protocol):
    """The pool that a connection is of."""

    capacity: Capacity

    @property
    def files(self) -> FileBudget:
        """The budget of open files."""

    @property
    def address(self) -> str:
        """The pod's ``ip:port``."""

    @property
    def origin(self) -> str:
        """Where requests go, as ``scheme://ip:port``."""

    def host_blocks(self) -> tuple[bytes, bytes]:
        """Return the fields that say which pod is asked: :scheme with :authority, and others."""

    def clock(self) -> float:
        """Return the time, seconds, monotonic."""

    @property
    def unread(self) -> UnreadBytes:
        """What counts the bytes that peers do not read."""

    def is_foreign(self) -> None:
        """Record that the pod does not speak HTTP/2."""

    def announced(self, streams: int) -> None:
        """Record how many streams the pod takes on a connection."""

    def opened(self, connection: Http2Pod) -> None:
        """Count a new connection."""

    def closed(self, connection: Http2Pod) -> None:
        """Forget a connection."""


@final
class PodStream(PodSide):
    """One request on a pod's connection.

    Attributes:
        asker: who takes the response; None once that has ended, or is of no more use.
        answered: the head of the final response has come.
    """

    __slots__ = ("_interim", "_pod", "_stream", "answered", "asker", "to_head")

    _stream: Stream

    def __init__(self, pod: Http2Pod) -> None:
        self._pod = pod
        self.asker: Asker | None = None
        self.answered = False
        self.to_head = False
        self._interim = 0

    def is_http2(self) -> bool:
        """See PodSide."""
        return True

    def is_reused(self) -> bool:
        """See PodSide."""
        return self._pod.used > 0

    def ask(
        self,
        asker: Asker,
        client: ClientSide,
        request: Request,
        body: RequestBody,
        trace: Trace | None,
    ) -> None:
        """See PodSide."""
        self.asker = asker
        self.to_head = asker.to_head
        front, rest = self._pod.pool.host_blocks()
        section = request.section or section_of(request, client.address())
        if trace is not None:
            context = block_of(trace.sending(self._pod.pool.origin))
            section = traced_section(request, section, client.address()) + context
        head = b"".join((front, section, rest))
        if request.expects_continue:
            head += _EXPECT
        trailers = body.trailers
        if trailers and not request.section:
            trailers = as_block(trailers)
        ended = body.complete and not body.pieces and not trailers
        stream = self._stream = self._pod.open(self, head, ended=ended)
        if ended:
            return
        stream.on_sent = client.took
        if body.pieces or body.complete:
            stream.send(b"".join(body.pieces), trailers if body.complete else None)

    def send_body(self, payload: list[bytes], ended: bool, trailers: bytes) -> None:
        """See PodSide."""
        data = payload[0] if len(payload) == 1 else b"".join(payload)
        self._stream.send(data, trailers if ended else None)

    def is_full(self) -> bool:
        """See PodSide."""
        return self._stream.left > 0

    def pause(self, on: bool) -> None:
        """See PodSide: nothing to do, its window holds the pod back."""

    def took(self, size: int) -> None:
        """See PodSide."""
        self._stream.credit(size)

    def detach(self, complete: bool) -> None:
        """See PodSide: what is left of the request is of no more use."""
        self.asker = None
        stream = self._stream
        stream.on_sent = None
        if not stream.closed:
            self._pod.link.end(stream, _NO_ERROR)

    def cancel(self) -> None:
        """See PodSide."""
        self.asker = None
        self._pod.link.end(self._stream, _CANCEL)

    def switching(self) -> SwitchingSide | None:
        """See PodSide."""
        return None

    def give_back(self) -> None:
        """See PodSide: no stream has been opened."""

    # -- for its connection ---------------------------------------------------------------------

    def on_interim(self, asker: Asker, response: ResponseFields) -> None:
        """An interim response came.

        Raises:
            FramingError: one too many; the stream is to be ended.
        """
        self._interim += 1
        if self._interim > MAX_INTERIM:
            raise FramingError("too many interim answers", 502)
        asker.on_interim(response)


@final
class Http2Pod(ConnectionSide):
    """One connection to one pod.

    Attributes:
        link: the connection itself.
        settled: the pod has sent its settings: it does speak HTTP/2.
        has_begun: set once the handshake has succeeded or failed.
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
        "link",
        "pool",
        "settled",
        "used",
    )

    def __init__(self, pool: Home) -> None:
        link = self.link = Connection(self, pool.clock, pool.unread, server=False)
        self.pool = pool
        self._responses = Recurring(link.decoder, read_response)
        self._trailers = Recurring(link.decoder, read_trailers)
        self._most = pool.capacity.most
        self._files = pool.files
        self._next = 1
        self._going = False
        self._full_at = 0
        self.settled = False
        self.has_begun = asyncio.Event()
        self.is_foreign = False
        self.used = 0
        self.idle_since = 0.0

    @property
    def transport(self) -> asyncio.Transport:
        """The connection's transport."""
        return self.link.transport

    # -- for the pool ---------------------------------------------------------------------------

    def has_room(self) -> bool:
        """Whether one more request may be sent on it."""
        link = self.link
        count = len(link.streams)
        return (
            not self._going
            and not link.ending
            and count < self._most
            and count < self.pool.capacity.bearable
            and self._next < _LAST
            and not link.transport.is_closing()
        )

    def is_idle_since(self, before: float) -> bool:
        """Return whether no request has been on it since that time."""
        return not self.link.streams and self.idle_since < before

    def has_no_request(self) -> bool:
        """Return whether no request is on it."""
        return not self.link.streams

    def is_ending(self) -> bool:
        """Return whether it takes no more requests, and is about to close."""
        return self.link.ending

    def retire(self) -> None:
        """Take no more requests; close once the last is answered."""
        self._going = True
        if not self.link.streams:
            self.close()

    def close(self) -> None:
        """Send GOAWAY, and close."""
        link = self.link
        if not link.ending:
            link.ending = True
            link.write(frames.goaway(0, ErrorCode.NO_ERROR))
            link.flush()
            link.transport.close()

    def open(self, owner: PodStream, block: bytes, *, ended: bool) -> Stream:
        """Begin a request."""
        link = self.link
        stream = Stream(link, self._next, link.flow.peer_window, owner)
        self._next += 2
        link.opened += 1
        link.streams[stream.id] = stream
        link.write_headers(stream, block, ended=ended)
        return stream

    # -- the connection's life ------------------------------------------------------------------

    def made(self) -> None:
        """See ConnectionSide."""
        self.pool.opened(self)
        # No PING: servers of gRPC end connections on which many come.
        find_dead(self.link.transport.get_extra_info("socket"), SocketKind.POD)
        self.link.write(frames.PREFACE)
        self.link.begin((Setting.ENABLE_PUSH, 0))

    def lost(self, exc: Exception | None) -> None:
        """See ConnectionSide."""
        self.has_begun.set()
        self.pool.closed(self)
        self._lose_all(lost_error(exc))

    def on_full(self) -> None:
        """See ConnectionSide."""
        self._full_at = self.link.transport.get_write_buffer_size()

    def on_room(self) -> None:
        """See ConnectionSide."""

    def on_backlog(self) -> None:
        """See ConnectionSide."""
        behind = self.link.transport.get_write_buffer_size() - self._full_at
        if behind > _MAX_BEHIND and not self.link.ending:
            self._give_up()

    def on_unfinished(self, size: int) -> None:
        """See ConnectionSide: a pod's response has a deadline of its own."""

    def on_finished(self) -> None:
        """See ConnectionSide."""

    def on_goaway_due(self) -> None:
        """See ConnectionSide: for clients alone."""

    def _give_up(self) -> None:
        self.link.ending = True
        self.link.transport.abort()
        self._lose_all("the pod takes nothing")

    def end_unread(self) -> tuple[Peer, str]:
        """See ConnectionSide."""
        self._give_up()
        return Peer.POD, self.pool.address

    def end_stream_unread(self, stream: Stream) -> tuple[Peer, str]:
        """See ConnectionSide. The request is not sent again: its next pod would hold as much."""
        asker = _asker_of(stream)
        self.link.end(stream, _CANCEL)
        if asker is not None:
            asker.on_lost("the pod did not read the request", True)
        return Peer.POD, self.pool.address

    def on_failed(self, fault: ConnectionFault) -> None:
        """See ConnectionSide."""
        self.link.transport.close()
        asyncio.get_running_loop().call_later(PART_SECONDS, self.link.transport.abort)
        if self.settled:
            self._lose_all(f"malformed answer: {fault.reason}")
            return
        self.is_foreign = True
        self.has_begun.set()
        self.pool.is_foreign()
        for owner in self._drop_all():
            if owner.asker is not None:
                owner.asker.on_other_protocol(_OTHER_PROTOCOL)

    def _lose_all(self, error: str) -> None:
        for owner in self._drop_all():
            if owner.asker is not None:
                owner.asker.on_lost(error, owner.answered)

    def _drop_all(self) -> list[PodStream]:
        """Forget all streams; return whose they were."""
        streams = list(self.link.streams.values())
        for stream in streams:
            self.link.forget(stream)
        return [each.owner for each in streams if isinstance(each.owner, PodStream)]

    def on_forgotten(self, stream: Stream) -> None:
        """See ConnectionSide."""
        if not self.link.streams:
            self.idle_since = self.pool.clock()
            if self._going:
                asyncio.get_running_loop().call_soon(self.close)
        if self._files.waiting:
            self._files.freed()

    # -- frames ---------------------------------------------------------------------------------

    def is_idle(self, stream: int) -> bool:
        """See ConnectionSide."""
        return stream >= self._next or not stream & 1

    def on_settings(self) -> None:
        """See ConnectionSide."""
        self.settled = True
        self.has_begun.set()

    def on_max_streams(self, count: int) -> None:
        """See ConnectionSide."""
        self._most = count
        self.pool.announced(count)
        if not count:
            self.retire()

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
                    self.on_stream_error(stream, ErrorCode.STREAM_CLOSED, "headers behind the end")
                return
            asker = owner.asker
            if owner.answered:
                trailers = self._trailers.read(block)
                if asker is not None:
                    self._on_trailers(found, asker, trailers, ended)
                return
            response = self._responses.read(block)
            if asker is not None:
                self._on_response(found, owner, asker, response, ended)
        except FramingError as error:
            self.on_stream_error(stream, ErrorCode.PROTOCOL_ERROR, str(error))

    def _on_response(
        self,
        stream: Stream,
        owner: PodStream,
        asker: Asker,
        response: ResponseFields,
        ended: bool,
    ) -> None:
        if response.status < 200:
            if ended:
                raise FramingError("an interim answer that ends the stream", 502)
            owner.on_interim(asker, response)
            return
        owner.answered = True
        if owner.to_head or response.status in _NO_CONTENT:
            self._on_bare_response(stream, asker, response, ended)
            return
        stream.missing = response.length
        if ended:
            if response.length > 0:
                raise FramingError("not as long as announced", 502)
            self._end_answer(stream)
        asker.on_response(response, None, [], ended)

    def _on_bare_response(
        self, stream: Stream, asker: Asker, response: ResponseFields, ended: bool
    ) -> None:
        """A response that its head ends, whatever a pod sends behind it (RFC 9110 section 6.4.1):
        clients would take that for a fault of the connection."""
        if ended:
            self._end_answer(stream)
        else:
            self._count_answer()
            stream.owner = None
            self.link.end(stream, _NO_ERROR)
        asker.on_response(response, None, [], True)

    def _on_trailers(self, stream: Stream, asker: Asker, trailers: bytes, ended: bool) -> None:
        if not ended:
            raise FramingError("headers in the middle", 502)
        if stream.missing > 0:
            raise FramingError("not as long as announced", 502)
        self._end_answer(stream)
        asker.on_payload([], True, trailers)

    def _end_answer(self, stream: Stream) -> None:
        self._count_answer()
        stream.owner = None
        self.link.peer_ended(stream)

    def _count_answer(self) -> None:
        self.used += 1
        capacity = self.pool.capacity
        capacity.answers += 1
        capacity.bearable += 1

    def on_data(self, stream: Stream, payload: bytes, trailers: bytes | None) -> None:
        """See ConnectionSide."""
        owner = stream.owner
        if not isinstance(owner, PodStream):
            return
        asker = owner.asker
        if asker is None:
            return
        if not owner.answered:
            self.on_stream_error(stream.id, ErrorCode.PROTOCOL_ERROR, "DATA before the head")
            return
        if trailers is None:
            asker.on_payload([payload], False, b"")
        else:
            self._count_answer()
            stream.owner = None
            asker.on_payload([payload] if payload else [], True, trailers)

    def on_half_closed(self, stream: Stream) -> None:
        """See ConnectionSide: the response follows."""

    def on_stray(self, stream: int) -> None:
        """See ConnectionSide: what crosses the end of a stream is ignored."""

    def on_reset(self, stream: Stream, owner: object | None, code: int) -> None:
        """See ConnectionSide."""
        if code == _REFUSED_STREAM:
            capacity = self.pool.capacity
            capacity.bearable = min(capacity.bearable, len(self.link.streams)) or inf
        if isinstance(owner, PodStream) and owner.asker is not None:
            owner.asker.on_reset(code, owner.answered)

    def on_goaway(self, last_stream: int) -> None:
        """See ConnectionSide."""
        self._going = True
        for stream in [s for s in self.link.streams.values() if s.id > last_stream]:
            asker = _asker_of(stream)
            self.link.forget(stream)
            if asker is not None:
                asker.on_refused("the pod ended the connection before it looked at the request")
        if not self.link.streams:
            self.close()

    def on_stream_error(self, stream: int, code: ErrorCode, reason: str) -> None:
        """See ConnectionSide."""
        found = self.link.known(stream)
        if found is None:
            return
        asker = _asker_of(found)
        self.link.end(found, code)
        if asker is not None:
            asker.on_lost(f"malformed answer: {reason}", True)


def _asker_of(stream: Stream) -> Asker | None:
    """Return who waits for the response on a stream."""
    owner = stream.owner
    return owner.asker if isinstance(owner, PodStream) else None
