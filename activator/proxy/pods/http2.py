"""A connection to a pod in HTTP/2, which carries many requests at a time, and its streams.

Pods are not trusted: a malformed response ends its stream, a malformed frame the connection.
``Capacity`` counts how many streams one pod accepts, by its settings and its refusals.
"""

from __future__ import annotations

import asyncio
from enum import Enum
from math import inf
from typing import TYPE_CHECKING, Final, final

from activator.proxy.exchange.sides import ClientSide, PodSide, Progress, Requester
from activator.proxy.exchange.translation import as_block
from activator.proxy.http2 import frames
from activator.proxy.http2.connection import (
    CLOSE_SECONDS,
    ENDING,
    ConnectionSide,
    Http2Connection,
    Stream,
)
from activator.proxy.http2.fields import ResponseFields, read_response, read_trailers
from activator.proxy.http2.frame_reader import Http2Setting
from activator.proxy.http2.frames import ConnectionFault, ErrorCode
from activator.proxy.http2.hpack import MAX_EXPANSION, line, list_size
from activator.proxy.http2.section import (
    Recurring,
    block_of,
    plain_section,
    section_of,
    traced_section,
)
from activator.proxy.message.fields import HTTP_1_1
from activator.proxy.message.grammar import FramingError
from activator.proxy.message.request import Request
from activator.proxy.pods.http1 import MAX_INTERIM, lost_error
from activator.proxy.transport.peer_socket import PeerKind, read_left

if TYPE_CHECKING:
    from activator.proxy.exchange.exchange import RequestBody
    from activator.proxy.pods.pool import Pool
    from activator.runtime import RequestTrace

#: Most streams at a time until the pod has sent its settings (Go: the same).
FIRST_STREAMS: Final = 100
#: Seconds until the next connection after one that accepted no stream. They double with each such
#: connection in a row, up to the longest pause. Requests for the pod meanwhile return to the queue.
FIRST_PAUSE: Final = 0.05
LONGEST_PAUSE: Final = 1.0
_EXPECT: Final = line(b"expect", b"100-continue")
_NO_ERROR: Final = int(ErrorCode.NO_ERROR)
#: Statuses of responses without content (RFC 9110 section 6.4.1).
_NO_CONTENT: Final = (204, 304)
_CANCEL: Final = int(ErrorCode.CANCEL)
#: Above every value that SETTINGS_MAX_HEADER_LIST_SIZE can have.
_UNLIMITED: Final = 1 << 32
#: The error of a request in HTTP/2 to a pod that does not speak HTTP/2.
NOT_HTTP2: Final = "the pod does not speak HTTP/2"
#: Most streams of one connection, whose numbers then end (RFC 9113 section 5.1.1).
_MOST_OPENED: Final = (frames.MAX_31_BITS - 2) // 2
#: Most bytes in the write buffer above the level at which payload stops: a hundred heads of 40 KiB.
#: Without a limit, heads of new requests would collect while a pod does not read.
_MAX_BEHIND: Final = 4 << 20
_REFUSED_STREAM: Final = int(ErrorCode.REFUSED_STREAM)


class Http2PodState(Enum):
    """The state of a connection in HTTP/2.

    OPENING: it is not connected yet. UNSETTLED: the pod has not sent its settings. OPEN: it accepts
    requests. DRAINING: it accepts no more, and closes after the last response. OTHER_PROTOCOL: the
    pod does not speak HTTP/2. CLOSED_EARLY: it closed before the pod sent its settings. CLOSED: it
    closed later. If the settings are late, the connection accepts requests after a while.
    """

    OPENING = "opening"
    UNSETTLED = "unsettled"
    OPEN = "open"
    DRAINING = "draining"
    OTHER_PROTOCOL = "other-protocol"
    CLOSED_EARLY = "closed-early"
    CLOSED = "closed"


#: The members as plain names: an attribute of an enum class costs a function call.
OPENING: Final = Http2PodState.OPENING
UNSETTLED: Final = Http2PodState.UNSETTLED
OPEN: Final = Http2PodState.OPEN
DRAINING: Final = Http2PodState.DRAINING
OTHER_PROTOCOL: Final = Http2PodState.OTHER_PROTOCOL
CLOSED_EARLY: Final = Http2PodState.CLOSED_EARLY
CLOSED: Final = Http2PodState.CLOSED


#: The states that may follow each state in HTTP/2.
HTTP2_FOLLOWS: Final[dict[Http2PodState, frozenset[Http2PodState]]] = {
    OPENING: frozenset((UNSETTLED,)),
    UNSETTLED: frozenset((OPEN, DRAINING, OTHER_PROTOCOL, CLOSED_EARLY)),
    OPEN: frozenset((DRAINING, CLOSED)),
    DRAINING: frozenset((CLOSED,)),
    **dict.fromkeys((OTHER_PROTOCOL, CLOSED_EARLY, CLOSED), frozenset()),
}


@final
class Capacity:
    """How many streams one pod accepts on a connection.

    Attributes:
        max_streams: the limit in its settings.
        refusal_limit: the limit that follows from its refusals. A refusal sets it to the number of
            streams left on the connection, and each later response adds one. Without it, each
            response would cost every queued request one more refusal. It is infinite if the pod
            refuses all requests.
        responses: number of responses from the pod.
        closed_until: time before which no connection may be opened, seconds, monotonic.
    """

    __slots__ = ("_pause", "closed_until", "max_streams", "refusal_limit", "responses")

    def __init__(self) -> None:
        self.max_streams = FIRST_STREAMS
        self.refusal_limit = inf
        self.responses = 0
        self.closed_until = -inf
        self._pause = FIRST_PAUSE

    def announced(self, streams: int) -> None:
        """Record the limit of streams in a pod's settings.

        A pod that accepts none now may accept some later. Only a new connection shows that.
        """
        self.max_streams = streams or FIRST_STREAMS

    def accepted_none(self, now: float) -> None:
        """Record a new connection on which the pod accepts no stream."""
        self.closed_until = now + self._pause
        self._pause = min(2 * self._pause, LONGEST_PAUSE)

    def accepted_some(self) -> None:
        """Record a new connection on which the pod accepts streams."""
        self._pause = FIRST_PAUSE

    def refused(self, left: int) -> None:
        """Record that a pod refused a stream on a connection with ``left`` other streams."""
        self.refusal_limit = min(self.refusal_limit, left) or inf


@final
class PodStream(PodSide):
    """One request on a pod's connection.

    Attributes:
        requester: handles the response; None once that has ended, or if nothing needs it.
        responded: whether the head of the final response has arrived.
        to_head: whether the request is a HEAD, whose response has no body.
    """

    __slots__ = ("_interim", "_pod", "_stream", "requester", "responded", "to_head")

    _stream: Stream

    def __init__(self, pod: Http2PodConnection) -> None:
        self._pod = pod
        self.requester: Requester | None = None
        self.responded = False
        self.to_head = False
        self._interim = 0

    def is_reused(self) -> bool:
        return self._pod.used

    def send_request(
        self,
        requester: Requester,
        client: ClientSide,
        request: Request,
        body: RequestBody,
        trace: RequestTrace | None,
    ) -> bool:
        self.requester = requester
        self.to_head = request.method == b"HEAD"
        pod = self._pod
        target = pod.target
        front, rest = target.host_blocks
        if target.is_plain:
            section = plain_section(request, client.base.address)
        else:
            section = request.section or section_of(request, client.base.address)
        if trace is not None:
            context = block_of(trace.sending(target.origin))
            address = client.base.address
            section = traced_section(request, section, address, plain=target.is_plain)
            section += context
        head = b"".join((front, section, rest))
        if request.expects_continue:
            head += _EXPECT
        if len(head) > pod.safe_block:
            pod.check_header_list(head)
        trailers = body.trailers
        if trailers and not request.section:
            trailers = as_block(trailers)
        ended = body.complete and not body.pieces and not trailers
        link = pod.link
        # Streams of this side have consecutive odd numbers.
        stream = self._stream = Stream(link.queue, 2 * link.opened + 1, self)
        link.opened += 1
        link.streams[stream.id] = stream
        self.accepted = stream.credit
        link.write_headers(stream, head, ended=ended)
        if not ended:
            stream.on_accepted = client.accepted
            if body.pieces or body.complete:
                stream.send(b"".join(body.pieces), trailers if body.complete else None)
        return True

    def call(self, requester: Requester, head: bytes, body: bytes) -> None:
        """Send a whole small request that is not a HEAD; ``requester`` handles the response.

        Arguments:
            head: the header block; body: the whole body, not empty.
        """
        self.requester = requester
        link = self._pod.link
        stream = self._stream = Stream(link.queue, 2 * link.opened + 1, self)
        link.opened += 1
        link.streams[stream.id] = stream
        link.write_headers(stream, head, ended=False)
        stream.send(body, b"")

    def send_body(self, payload: list[bytes], ended: bool, trailers: bytes) -> None:
        data = payload[0] if len(payload) == 1 else b"".join(payload)
        self._stream.send(data, trailers if ended else None)

    def is_full(self) -> bool:
        return self._stream.left > 0

    def pause(self, on: bool) -> None:
        """Do nothing, because the stream's window limits the pod."""

    def detach(self) -> None:
        """Release the stream, whose response is not needed any more; reset it if it is open."""
        self.requester = None
        stream = self._stream
        stream.on_accepted = None
        if not stream.closed:
            self._pod.link.end(stream, _NO_ERROR)

    def cancel(self) -> None:
        self.detach_requester()
        self._pod.link.end(self._stream, _CANCEL)

    def detach_requester(self) -> Requester | None:
        """Break the references between a stream that ends early and its requester.

        Else the garbage collector would have to find their cycle.

        Returns:
            The requester; None if it was detached before.
        """
        requester, self.requester = self.requester, None
        self._stream.owner = self._stream.on_accepted = None
        return requester

    def progress(self) -> Progress:
        """Return how far the final response has come."""
        return Progress.BEGAN if self.responded else Progress.SILENT

    def release(self) -> None:
        """Do nothing: no stream has been opened."""

    # -- the response ---------------------------------------------------------------------------

    def on_response(self, response: ResponseFields, ended: bool) -> None:
        """Handle the head of a response, which may be an interim one.

        Arguments:
            ended: whether it ends the stream.

        Raises:
            FramingError: the head breaks a rule; the caller ends the stream.
        """
        requester, stream = self.requester, self._stream
        if requester is None:
            return
        if response.status < 200:
            self._on_interim(requester, response, ended)
            return
        self.responded = True
        # Whatever a pod sends behind a head without content is dropped (RFC 9110 section 6.4.1).
        # Clients would treat it as a connection error.
        is_bare = self.to_head or response.status in _NO_CONTENT
        if not is_bare:
            stream.missing = response.length
            if ended and response.length > 0:
                raise FramingError("the body does not have its content-length", 502)
        if ended or is_bare:
            self._end()
            link = self._pod.link
            if ended:
                link.peer_ended(stream)
            else:
                link.end(stream, _NO_ERROR)
            self.detach()
        requester.on_response(response, None, [], ended or is_bare)

    def _on_interim(self, requester: Requester, response: ResponseFields, ended: bool) -> None:
        if ended:
            raise FramingError("an interim response that ends the stream", 502)
        self._interim += 1
        if self._interim > MAX_INTERIM:
            raise FramingError("too many interim responses", 502)
        requester.on_interim(response)

    def on_data(self, payload: bytes, trailers: bytes | None) -> None:
        """Handle payload; see ConnectionSide.on_data for ``trailers``."""
        requester = self.requester
        if requester is None:
            return
        if trailers is None:
            requester.on_payload([payload], False, b"")
        else:
            self._end()
            self.detach()
            requester.on_payload([payload] if payload else [], True, trailers)

    def on_trailers(self, trailers: bytes, ended: bool) -> None:
        """Handle a header block after the head.

        Raises:
            FramingError: it does not end the response, or the body is too short.
        """
        requester = self.requester
        if requester is None:
            return
        if not ended:
            raise FramingError("a header block inside the body", 502)
        if self._stream.missing > 0:
            raise FramingError("the body does not have its content-length", 502)
        self._end()
        self._pod.link.peer_ended(self._stream)
        self.detach()
        requester.on_payload([], True, trailers)

    def _end(self) -> None:
        """Count a complete response."""
        pod = self._pod
        pod.used = True
        capacity = pod.capacity
        capacity.responses += 1
        capacity.refusal_limit += 1
        self._stream.owner = None


@final
class Http2PodConnection(ConnectionSide):
    """One connection to one pod.

    Attributes:
        state: see Http2PodState; only ``_enter`` changes it.
        link: the HTTP/2 connection.
        target: its pod; capacity: how many streams the pod accepts.
        used: whether it has carried a complete response.
        max_list: most bytes of a request's header section that the pod accepts.
        safe_block: most bytes of a header block that cannot exceed ``max_list``.
        settled: set when the pod has sent its settings, or when it never will.
        idle_since: when its last request ended, seconds, monotonic.
    """

    __slots__ = (
        "_clock",
        "_files",
        "_full_at",
        "_max_streams",
        "_responses",
        "_trailers",
        "capacity",
        "idle_since",
        "link",
        "max_list",
        "pool",
        "safe_block",
        "settled",
        "state",
        "target",
        "used",
    )

    def __init__(self, pool: Pool) -> None:
        resources = pool.resources
        link = self.link = Http2Connection(self, resources.clock, resources.unread, server=False)
        self.pool = pool
        self.state: Http2PodState = OPENING
        self.settled = asyncio.Event()
        self.target = pool.target
        self.capacity = pool.capacity
        self.used = False
        self.max_list = self.safe_block = _UNLIMITED
        self._responses = Recurring(link.decoder, read_response)
        self._trailers = Recurring(link.decoder, read_trailers)
        self._max_streams = pool.capacity.max_streams
        self._files = resources.files
        self._clock = resources.clock
        self._full_at = 0
        self.idle_since = 0.0

    def _enter(self, state: Http2PodState) -> None:
        assert state in HTTP2_FOLLOWS[self.state], f"{state} after {self.state}"
        self.state = state

    # -- for the pool ---------------------------------------------------------------------------

    def has_room(self) -> bool:
        """Return whether it can carry one more request."""
        state, link = self.state, self.link
        count = len(link.streams)
        return (
            (state is OPEN or state is UNSETTLED)
            and count < self._max_streams
            and count < self.capacity.refusal_limit
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
            link.queue.write(frames.goaway(0, ErrorCode.NO_ERROR))
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
        """Begin without PINGs: gRPC servers end connections with many of them."""
        self._enter(UNSETTLED)
        self.pool.opened(self.link.transport)
        self.link.queue.write(frames.PREFACE)
        self.link.begin((Http2Setting.ENABLE_PUSH, 0))

    def lost(self, exc: Exception | None) -> None:
        # Without a stream, its dial has not ended, and that records how it closed.
        closed_early = self.state is UNSETTLED and self.link.opened > 0
        self._end()
        self.pool.closed(self)
        if closed_early:
            self.pool.closed_early()
        self._lose_all(lost_error(exc))

    def on_broken(self) -> None:
        """Read the bytes that are left: after a GOAWAY, requests can be retried."""
        for data in read_left(self.link.transport):
            self.link.data_received(data)

    def on_full(self) -> None:
        self._full_at = self.link.transport.get_write_buffer_size()

    def on_backlog(self) -> None:
        behind = self.link.transport.get_write_buffer_size() - self._full_at
        if behind > _MAX_BEHIND and not self.link.is_ending():
            self._abort()

    def _abort(self) -> None:
        self._end()
        self.link.move(ENDING)
        self.link.transport.abort()
        self._lose_all("the pod does not read")

    def end_unread(self) -> tuple[PeerKind, str]:
        self._abort()
        return PeerKind.POD, self.pool.target.address

    def end_stream_unread(self, stream: Stream) -> tuple[PeerKind, str]:
        """Fail the request: at another pod, as many bytes would wait."""
        requester = _detach_requester(stream)
        self.link.end(stream, _CANCEL)
        if requester is not None:
            requester.on_lost("the pod did not read the request", Progress.UNUSABLE)
        return PeerKind.POD, self.pool.target.address

    def on_failed(self, fault: ConnectionFault) -> None:
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
                requester.on_lost(error, owner.progress())

    def _remove_all(self) -> list[PodStream]:
        """Remove all streams; return their owners."""
        streams = list(self.link.streams.values())
        for stream in streams:
            self.link.remove_stream(stream)
        return [each.owner for each in streams if isinstance(each.owner, PodStream)]

    def on_stream_removed(self, stream: Stream) -> None:
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
        return stream > 2 * self.link.opened or not stream & 1

    def on_settings(self) -> None:
        if self.state is UNSETTLED:
            self._enter(OPEN)
            self.settled.set()

    def on_max_streams(self, count: int) -> None:
        self._max_streams = count
        self.capacity.announced(count)
        if not count:
            self.drain()

    def on_max_header_list(self, size: int) -> None:
        self.max_list = size
        self.safe_block = size // MAX_EXPANSION

    def check_header_list(self, block: bytes) -> None:
        """Compare a request's header section with the limit of the pod.

        Raises:
            FramingError: the section is too large (431).
        """
        size = list_size(block)
        if size > self.max_list:
            raise FramingError(
                f"the header fields have {size} bytes, and the pod accepts {self.max_list}", 431
            )

    def on_headers(self, stream: int, block: bytes, ended: bool) -> None:
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
                trailers = self._trailers.known.get(block)
                owner.on_trailers(
                    self._trailers.read(block) if trailers is None else trailers, ended
                )
            else:
                response = self._responses.known.get(block) or self._responses.read(block)
                owner.on_response(response, ended)
        except FramingError as error:
            self.on_stream_error(stream, ErrorCode.PROTOCOL_ERROR, str(error))

    def on_data(self, stream: Stream, payload: bytes, trailers: bytes | None) -> None:
        owner = stream.owner
        if not isinstance(owner, PodStream):
            return
        if owner.responded:
            owner.on_data(payload, trailers)
        elif owner.requester is not None:
            self.on_stream_error(stream.id, ErrorCode.PROTOCOL_ERROR, "DATA before the head")

    def on_reset(self, stream: Stream, owner: object | None, code: int) -> None:
        if code == _REFUSED_STREAM:
            self.capacity.refused(len(self.link.streams))
        if not isinstance(owner, PodStream):
            return
        requester = owner.detach_requester()
        if requester is not None:
            requester.on_reset(code, owner.progress())

    def on_goaway(self, last_stream: int) -> None:
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
        found = self.link.known(stream)
        if found is None:
            return
        requester = _detach_requester(found)
        self.link.end(found, code)
        if requester is not None:
            requester.on_lost(f"malformed response: {reason}", Progress.UNUSABLE)


def _detach_requester(stream: Stream) -> Requester | None:
    """Detach the requester from a stream that ends early; return the requester."""
    owner = stream.owner
    return owner.detach_requester() if isinstance(owner, PodStream) else None
