"""A connection to a pod in HTTP/1, which carries one request at a time; the reader of responses.

Pods are not trusted: a malformed response, or bytes without a request, end the connection
(response-queue poisoning). ``ResponseReader`` reads responses from pieces of any size. It is pure:
no transport, no pool.
"""

from __future__ import annotations

import asyncio
import select
from enum import Enum
from typing import TYPE_CHECKING, Final, cast, final

from activator.process.sockets import SocketKind, limit_unacknowledged
from activator.proxy.exchange.observers import lines_to_send
from activator.proxy.exchange.sides import ClientSide, PodSide, Progress, Requester
from activator.proxy.exchange.translation import as_lines
from activator.proxy.exchange.tunnel import SwitchingSide
from activator.proxy.http2.frames import HEAD_BYTES
from activator.proxy.message.fields import HTTP_2, clean_trailers
from activator.proxy.message.grammar import Body, CloseBody, FramingError, LengthBody, chunk
from activator.proxy.message.request import Request, pod_head, wants_trailers
from activator.proxy.message.response import Response, read_response, with_crlf
from activator.proxy.transport import peer_socket
from activator.proxy.transport.peer_socket import (
    BUFFER,
    SMALL_BUFFER,
    PeerKind,
    UnreadBytes,
    read_left,
)
from activator.proxy.transport.splice import WORTHWHILE, Splice

if TYPE_CHECKING:
    from activator.proxy.exchange.exchange import RequestBody
    from activator.proxy.pods.pool import Pool
    from activator.runtime import RequestTrace

#: Most bytes of a response head (Go's transport: 10 MiB by default, Envoy 60 KiB).
MAX_HEAD: Final = 1 << 20
#: Most interim (1xx) responses to one request (Go: 5, then by bytes).
MAX_INTERIM: Final = 16
#: An HTTP/2 server responds to an HTTP/1 request with SETTINGS or GOAWAY (RFC 9113 section 3.4).
#: The first byte of such a frame is 0, and no HTTP/1 response begins with 0.
_HTTP2_TYPES: Final = (b"\x04", b"\x07")
#: The event for the end of the pod's side. Only Linux has it; elsewhere the end is readable.
_PEER_CLOSED = getattr(select, "POLLRDHUP", 0)
#: Bytes of a body that a pod's kernel accepts even if the pod does not read (Linux: 64 KiB).
_FITS_ANY_WINDOW: Final = 32 << 10


class Http1PodState(Enum):
    """The state of a connection in HTTP/1.

    OPENING: it is not connected yet. IDLE: it has no request. SENT: the pod has a request, and no
    byte of a response has arrived. HEAD: part of the head, or an interim response, has arrived.
    BODY: the head has arrived, and the body follows. TUNNEL: another protocol uses the connection.
    CLOSED: it carries no more requests.
    """

    OPENING = "opening"
    IDLE = "idle"
    SENT = "sent"
    HEAD = "head"
    BODY = "body"
    TUNNEL = "tunnel"
    CLOSED = "closed"


#: The members as plain names: an attribute of an enum class costs a function call.
OPENING: Final = Http1PodState.OPENING
IDLE: Final = Http1PodState.IDLE
SENT: Final = Http1PodState.SENT
HEAD: Final = Http1PodState.HEAD
BODY: Final = Http1PodState.BODY
TUNNEL: Final = Http1PodState.TUNNEL
CLOSED: Final = Http1PodState.CLOSED


#: The states that may follow each state in HTTP/1. A response may end with its head.
HTTP1_FOLLOWS: Final[dict[Http1PodState, frozenset[Http1PodState]]] = {
    OPENING: frozenset((IDLE,)),
    IDLE: frozenset((SENT, CLOSED)),
    SENT: frozenset((HEAD, BODY, IDLE, CLOSED)),
    HEAD: frozenset((HEAD, BODY, IDLE, TUNNEL, CLOSED)),
    BODY: frozenset((IDLE, CLOSED)),
    TUNNEL: frozenset((CLOSED,)),
    CLOSED: frozenset((CLOSED,)),
}


def is_http2(data: bytes) -> bool:
    """Return whether the bytes begin with a frame that an HTTP/2 server sends first."""
    return data[:1] == b"\x00" and data[3:4] in _HTTP2_TYPES and data[5:9] == bytes(4)


@final
class ResponseReader:
    """Reads the response to one request after the other, on one connection.

    It keeps no bytes of a response that has ended, because connections are idle for long.

    Arguments:
        most_head: most bytes of a head that arrives in pieces.

    Attributes:
        to_head: whether the request is a HEAD, whose response has no body.
        interim: number of interim responses so far; the caller sets 0 with each request.
        raw: head and payload in one piece as received, if no other bytes arrived with them.
        rest: the bytes after an interim head.
        ended: whether the response has ended.
        keeps: whether the connection may carry another request.
    """

    __slots__ = (
        *("_body", "_most_head", "_part", "ended", "interim", "keeps", "raw", "rest", "to_head"),
    )

    def __init__(self, most_head: int = MAX_HEAD) -> None:
        self._most_head: Final = most_head
        self.to_head = False
        self.interim = 0
        self.raw: bytes | None = None
        self.rest = b""
        self.ended = False
        self.keeps = False
        self._body: Body | None = None
        self._part: bytearray | None = None

    def read_head(self, data: bytes, payload: list[bytes]) -> Response | None:
        """Read a head, and the payload after it; return None while the head is incomplete.

        Arguments:
            data: the bytes of one read.
            payload: the method appends pieces of the body to it.

        Raises:
            FramingError: the head is malformed, or there are too many interim responses.
        """
        end = data.find(b"\r\n\r\n") + 4
        if end < 4:
            return self._read_odd_head(data, payload)
        whole = end == len(data)
        try:
            response = read_response(data if whole else data[:end], to_head=self.to_head)
        except FramingError:
            # The parser rejects bare LF line ends. Change them to CRLF, and read the head again.
            changed = with_crlf(data)
            if changed is None:
                raise
            return self._read_changed(changed, payload)
        if response.status < 200:
            self._count_interim(response, data[end:])
            return response
        body = self._body = response.body
        if body is None:
            left: bytes | None = b"" if whole else data[end:]
        else:
            left = None if whole else body.feed(data[end:], payload)
        self.ended = left is not None
        self.keeps = response.keep_alive and not left
        self.raw = None if left else data
        return response

    def _read_changed(self, changed: bytes, payload: list[bytes]) -> Response | None:
        """Read a head whose line ends were changed."""
        response = self.read_head(changed, payload)
        self.raw = None
        return response

    def _read_odd_head(self, data: bytes, payload: list[bytes]) -> Response | None:
        """Read a head without CRLF CRLF: it is incomplete, or has bare LF line ends."""
        changed = with_crlf(data)
        if changed is not None:
            return self._read_changed(changed, payload)
        if len(data) > self._most_head:
            raise FramingError("the head is too large", 502)
        if data[:1] == b"\x00" and len(data) >= HEAD_BYTES:
            raise FramingError("not HTTP/1", 502)
        self._part = bytearray(data)
        return None

    def _count_interim(self, response: Response, rest: bytes) -> None:
        self.interim += 1
        if self.interim > MAX_INTERIM:
            raise FramingError("too many interim responses", 502)
        if response.status == 101:
            self._part = bytearray(rest)
        else:
            self.rest = rest

    def read_more_head(self, data: bytes, payload: list[bytes]) -> Response | None:
        """Continue with an incomplete head, or after an interim one; see ``read_head``.

        It searches only the new bytes, so small pieces cost no more than large ones.

        Raises:
            FramingError: see ``read_head``.
        """
        part = self._part
        if part is None:
            return self.read_head(data, payload)
        known = max(0, len(part) - 3)
        part += data
        ends = part.find(b"\n\r\n", known) >= 0 or part.find(b"\n\n", known) >= 0
        ends = ends or (part[:1] == b"\x00" and len(part) >= HEAD_BYTES)
        if not ends and len(part) <= self._most_head:
            return None
        self._part = None
        try:
            return self.read_head(bytes(part), payload)
        except FramingError:
            self._part = part  # for is_http2
            raise

    def read_body(self, data: bytes, payload: list[bytes]) -> bytes:
        """Read more of the body; return its trailers, as lines, at its end.

        Raises:
            FramingError: the body is malformed.
        """
        body = self._body
        assert body is not None
        left = body.feed(data, payload)
        if left is None:
            return b""
        self.ended = True
        if left:
            self.keeps = False
        return body.trailers

    def known_body(self) -> LengthBody | None:
        """Return the body of the response, if its length is known."""
        return self._body if isinstance(self._body, LengthBody) else None

    def ends_by_close(self) -> bool:
        """Return whether the end of the connection is the end of the body."""
        return isinstance(self._body, CloseBody)

    def is_http2(self, data: bytes) -> bool:
        """Return whether a malformed head is HTTP/2, and the first bytes of the response."""
        part = self._part
        return not self.interim and is_http2(data if part is None else bytes(part))

    def take_early(self) -> bytes:
        """Return the bytes after a 101."""
        early, self._part = self._part, None
        return b"" if early is None else bytes(early)


def lost_error(error: Exception | None) -> str:
    """Return in words why a connection to a pod was lost."""
    if error is None:
        return "the pod closed the connection"
    words = error.strerror if isinstance(error, OSError) else None  # without "[Errno 104]"
    return (words or str(error) or "the pod closed the connection").lower()


def _nothing(_size: int) -> None:
    """Do nothing, because back-pressure pauses the transport."""


@final
class Http1PodConnection(PodSide):
    """One connection to one pod.

    Attributes:
        state: see Http1PodState. The byte path assigns it; the tests compare it with the table.
        requester: handles the response to the present request; None while there is none.
        full: whether the transport accepts no more of the request.
        reads_slowly: whether the pod may leave much of its request unread for long.
        reused: whether it has carried a response before.
    """

    __slots__ = (
        "_chunks",
        "_incomplete",
        "_paused",
        "_poll",
        "_reader",
        "_splice",
        "_trailers",
        "_unread",
        "full",
        "idle_since",
        "pool",
        "reads_slowly",
        "requester",
        "reused",
        "state",
        "transport",
    )

    def __init__(self, pool: Pool) -> None:
        # For the connection.
        self.state: Http1PodState = OPENING
        self.pool = pool
        self._unread = pool.resources.unread
        self.full = False
        self.reused = False
        self.reads_slowly = False
        self.idle_since = 0.0
        self.accepted = _nothing
        self._poll: select.poll | None = None
        self._reader = ResponseReader()
        self._splice: Splice | None = None  # moves the response's body
        # For the request on it.
        self.requester: Requester | None = None
        self._chunks = False  # whether its body goes out in chunks
        self._paused = False  # whether the client does not read
        self._incomplete = False  # whether the rest of its body may follow
        self._trailers = False  # whether its body may have trailers

    transport: asyncio.Transport

    # -- the request ----------------------------------------------------------------------------

    def is_reused(self) -> bool:
        return self.reused

    def is_understood(self) -> bool:
        return self.pool.speaks_http1

    def is_full(self) -> bool:
        return self.full

    def send(self, requester: Requester, data: bytes) -> None:
        """Send a whole request that is not a HEAD; ``requester`` handles the response."""
        self.state = SENT
        self.requester = requester
        self._reader.to_head = False
        self._reader.interim = 0
        self.transport.write(data)

    def send_request(
        self,
        requester: Requester,
        client: ClientSide,
        request: Request,
        body: RequestBody,
        trace: RequestTrace | None,
    ) -> bool:
        target = self.pool.target
        if trace is None:
            start, rest = pod_head(request, client.base.address, None, target.host_start)
            head = b"".join((start, target.host_lines, rest))
        else:
            lines = lines_to_send(request, traced=True)
            start, rest = pod_head(request, client.base.address, lines, target.host_start)
            head = b"".join((start, target.host_lines, trace.sending(target.origin), rest))
        self.state = SENT
        self.requester = requester
        reader = self._reader
        reader.to_head = request.method == b"HEAD"
        reader.interim = 0
        if request.has_body:
            self._chunks = request.length < 0
            self._incomplete = not body.complete
            self._trailers = self._chunks and wants_trailers(request)
            trailers = as_lines(body.trailers) if request.section else body.trailers
            head += self._framed(body.pieces, body.complete, trailers)
        self.transport.write(head)
        if request.has_body and not 0 <= request.length <= _FITS_ANY_WINDOW:
            self.expect_slow_reading(True)
        return False

    def send_body(self, payload: list[bytes], ended: bool, trailers: bytes) -> None:
        data = self._framed(payload, ended, trailers)
        self._incomplete = not ended
        if data:
            self.transport.write(data)

    def _framed(self, payload: list[bytes], ended: bool, trailers: bytes) -> bytes:
        """Return a piece of the request's body with its framing."""
        if not self._chunks:
            return payload[0] if len(payload) == 1 else b"".join(payload)
        data = chunk(payload) if any(payload) else b""
        if ended:
            data += b"0\r\n" + (clean_trailers(trailers) if self._trailers else b"") + b"\r\n"
        return data

    def expect_slow_reading(self, on: bool) -> None:
        """Remove the limit on the time for the pod to read its request, or set it again.

        The kernel does not distinguish a pod that has vanished from one that does not read.
        """
        self.reads_slowly = on
        if not self.transport.is_closing():
            sock = self.transport.get_extra_info("socket")
            limit_unacknowledged(sock, SocketKind.POD_SLOW if on else SocketKind.POD)

    def pause(self, on: bool) -> None:
        if self.requester is None:
            return  # the response is complete, and the connection is in its pool
        self._paused = on
        if self._splice is not None:
            return  # it pauses itself
        if on:
            self.transport.pause_reading()
        else:
            self.transport.resume_reading()
            self._begin_splice()

    def sink(self) -> asyncio.Transport | None:
        ends_plain = self._chunks or self.pool.target.proof is not None
        return None if ends_plain or self.transport.is_closing() else self.transport

    def cancel(self) -> None:
        self._close(abort=True)

    def release(self) -> None:
        """Keep the connection for the next request; close it if there are enough."""
        pool = self.pool
        resources = pool.resources
        # As Pool.has_enough, which would be one call more for each request.
        if pool.gone or resources.idle >= resources.limits.max_idle:
            self.transport.close()
            return
        self.reused = True
        self.idle_since = resources.now
        pool.idle.append(self)
        resources.idle += 1
        if self.reads_slowly:
            self.expect_slow_reading(False)
        if not pool.may_have_idle:
            resources.with_idle(pool)
        if resources.files.waiting:
            resources.files.freed()

    def alive(self) -> bool:
        """Return whether the kernel reports this connection as open.

        The loop learns of a close only at its next poll. For a request that must not be sent twice,
        the check is worth a system call.
        """
        if self._poll is None:
            fd = self.transport.get_extra_info("socket").fileno()
            if not hasattr(select, "poll"):  # some systems have none, such as older macOS
                return not select.select([fd], [], [], 0)[0]
            self._poll = select.poll()
            self._poll.register(fd, select.POLLIN | _PEER_CLOSED)
        return not self._poll.poll(0)

    # -- opening --------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.state = IDLE
        self.pool.opened(transport)

    # -- the response ---------------------------------------------------------------------------

    def get_buffer(self, sizehint: int) -> memoryview:
        return SMALL_BUFFER if self._unread.scarce else BUFFER

    def buffer_updated(self, nbytes: int) -> None:
        self._read(BUFFER[:nbytes].tobytes())

    def data_received(self, data: bytes) -> None:
        """Read, for loops that do not read into this buffer."""
        self._read(data)

    def _read(self, data: bytes) -> None:
        state, reader, requester = self.state, self._reader, self.requester
        if requester is None:
            self._on_unexpected(data)
            return
        if state is BODY:
            self._read_body(requester, data)
            return
        payload: list[bytes] = []
        try:
            if state is SENT:
                response = reader.read_head(data, payload)
            else:
                response = reader.read_more_head(data, payload)
        except FramingError as error:
            self._on_malformed(requester, data, error)
            return
        if response is None:
            self.state = HEAD
        elif response.status < 200:
            self._on_interim(requester, response)
        else:
            raw, reader.raw = reader.raw, None
            ended = reader.ended
            if ended:
                self._finish()
            else:
                self.state = BODY
            requester.on_response(response, raw, payload, ended)
            if not ended and response.length >= WORTHWHILE:
                self._begin_splice()

    def _begin_splice(self) -> None:
        """Let the rest of a large body pass within the kernel, if the client gets it as it is."""
        body, requester = self._reader.known_body(), self.requester
        if body is None or requester is None or body.remaining < WORTHWHILE or self._splice:
            return
        sink = None if self.pool.target.proof is not None else requester.response_sink()
        if sink is not None:
            self._splice = self.pool.resources.splices.begin(
                *(self.transport, sink, body.remaining, self._moved, self._spliced)
            )

    def _moved(self, size: int) -> None:
        body, requester = self._reader.known_body(), self.requester
        if body is not None and requester is not None:
            body.remaining -= size
            requester.touch()

    def _spliced(self, rest: bytes) -> None:
        """Go on without the splice."""
        self._splice = None
        body, requester = self._reader.known_body(), self.requester
        if body is None or requester is None:
            return
        body.remaining += len(rest)
        if not self._paused:
            self.transport.resume_reading()
        if not body.remaining and peer_socket.count_unread(self.transport):
            self._reader.keeps = False  # bytes behind the body, which the next client must not get
        if rest or not body.remaining:
            self._read_body(requester, rest)

    def _on_interim(self, requester: Requester, response: Response) -> None:
        self.state = HEAD
        reader = self._reader
        rest, reader.rest = reader.rest, b""
        requester.on_interim(response)
        if rest and self.requester is requester:
            self._read(rest)

    def _read_body(self, requester: Requester, data: bytes) -> None:
        reader = self._reader
        payload: list[bytes] = []
        try:
            trailers = reader.read_body(data, payload)
        except FramingError as error:
            self._fail(f"malformed response: {error}")
            return
        ended = reader.ended
        if ended:
            self._finish()
        requester.on_payload(payload, ended, trailers)

    def _on_unexpected(self, data: bytes) -> None:
        """Close a connection that received bytes without a request."""
        if self.state is IDLE and not self.reused and is_http2(data):
            self.pool.speaks(HTTP_2)  # SETTINGS arrived before any request
        self._close(abort=True)

    def _on_malformed(self, requester: Requester, data: bytes, error: FramingError) -> None:
        if not self._reader.is_http2(data):
            self._fail(f"malformed response: {error}")
            return
        # The pod has understood no byte of the request.
        self._close(abort=True)
        self.pool.speaks(HTTP_2)
        requester.on_other_protocol("the pod speaks only HTTP/2")

    # -- the end --------------------------------------------------------------------------------

    def _finish(self) -> None:
        """Return to the pool after a complete response, before the exchange releases the slot."""
        self.pool.speaks_http1 = True
        if self.full or self._incomplete:
            self._close(abort=True)  # the pod has not read the whole request
        elif self._reader.keeps:
            self.state = IDLE
            self.requester = None
            self.release()
        else:
            self._close(abort=False)

    def _close(self, *, abort: bool) -> None:
        """Carry no more requests.

        Arguments:
            abort: whether to drop unsent bytes.
        """
        self.state = CLOSED
        self.requester = None
        splice, self._splice = self._splice, None
        if splice is not None:
            splice.stop()
        if abort:
            self.transport.abort()
        else:
            self.transport.close()

    def _fail(self, error: str, progress: Progress = Progress.UNUSABLE) -> None:
        """End the connection, and fail the request on it.

        Arguments:
            error: the cause, for people.
            progress: how far the response had come.
        """
        requester = self.requester
        self._close(abort=True)
        if requester is not None:
            requester.on_lost(error, progress)

    def eof_received(self) -> None:
        """Let the transport close itself."""
        requester = self.requester
        if requester is not None and self.state is BODY and self._reader.ends_by_close():
            self._close(abort=self.full)
            requester.on_payload([], True, b"")
        else:
            self._on_end(lost_error(None))

    def connection_lost(self, exc: Exception | None) -> None:
        self._unread.hold(self, 0)
        if exc is not None and self.requester is not None:
            self._read_left()
        self.pool.closed(self)
        self._on_end(lost_error(exc))

    def _read_left(self) -> None:
        """Read the response, if the pod sent one before it broke the connection."""
        for data in read_left(self.transport):
            self._read(data)
            if self.requester is None:
                return

    def _on_end(self, error: str) -> None:
        """Handle the end of the connection, by the pod or the kernel."""
        if self.requester is None:
            self.state = CLOSED
        else:
            self._fail(error, Progress.SILENT if self.state is SENT else Progress.BEGAN)

    # -- a pod that does not read ---------------------------------------------------------------

    def pause_writing(self) -> None:
        self.full = True
        self._unread.hold(self, peer_socket.count_held(self.transport))
        if self.requester is not None:
            self.requester.pause_sending()

    def resume_writing(self) -> None:
        self.full = False
        self._unread.hold(self, 0)
        if self.requester is not None:
            self.requester.resume_sending()

    def end_unread(self) -> tuple[PeerKind, str]:
        """Fail the request: at another pod, as many bytes would wait."""
        self._fail("the pod did not read the request")
        return PeerKind.POD, self.pool.target.address

    # -- another protocol -----------------------------------------------------------------------

    def switching(self) -> SwitchingSide | None:
        return self

    def switch(self, response: Response, added_lines: bytes) -> None:
        """Do nothing: the pod itself has sent the 101."""

    def take_over(self) -> tuple[asyncio.Transport, bytes]:
        self.expect_slow_reading(True)
        self.state = TUNNEL
        self.requester = None
        self._unread.hold(self, 0)
        return self.transport, self._reader.take_early()

    def unread_bytes(self) -> UnreadBytes:
        return self._unread

    def who(self) -> tuple[PeerKind, str]:
        return PeerKind.POD, self.pool.target.address
