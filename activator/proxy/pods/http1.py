"""A connection to a pod: one request at a time, its answer read, framed and handed on.

Knows who waits for the answer only as an Answered. Pods are not trusted: a malformed answer, or
bytes that nobody asked for, end the connection (response-queue poisoning).
"""

from __future__ import annotations

import asyncio
import select
from typing import Final, Protocol, cast, final

from activator.keepalive import SocketKind, bound_unacknowledged
from activator.proxy.exchange.crossing import as_lines
from activator.proxy.exchange.observers import Trace, lines_to_send
from activator.proxy.exchange.request_body import RequestBody
from activator.proxy.exchange.sides import Asker, ClientSide, PodSide, SwitchingSide
from activator.proxy.http2.frames import HEAD_BYTES
from activator.proxy.message.body import Body, CloseBody, chunk
from activator.proxy.message.fields import clean_trailers
from activator.proxy.message.grammar import FramingError
from activator.proxy.message.request import Request, pod_head, wants_trailers
from activator.proxy.message.response import Response, read_response, with_crlf
from activator.proxy.transport import presence
from activator.proxy.transport.buffer import BUFFER, SMALL_BUFFER
from activator.proxy.transport.unread import Peer, UnreadBytes

#: Bytes of a response head (Go's transport: 10 MiB by default, envoy 60 KiB).
MAX_HEAD = 1 << 20
#: The pod has ended its side. Linux alone has it; elsewhere the end counts as readable.
_PEER_CLOSED = getattr(select, "POLLRDHUP", 0)
#: Interim (1xx) answers to one request (Go: 5, then by bytes).
MAX_INTERIM = 16
#: Bytes of a body that a pod's kernel takes whether or not the pod reads (Linux: 64 KiB at first).
_FITS_ANY_WINDOW: Final = 32 << 10
#: How an HTTP/2 server answers a request in HTTP/1: by its SETTINGS, or by GOAWAY (RFC 9113
#: section 3.4). The first byte is a length's, which no response in HTTP/1 begins with.
_HTTP2_TYPES: Final = (b"\x04", b"\x07")


def _is_http2(data: bytes) -> bool:
    """Return whether what a pod sends is the beginning of HTTP/2: the head of a first frame."""
    return data[:1] == b"\x00" and data[3:4] in _HTTP2_TYPES and data[5:9] == bytes(4)


def lost_error(error: Exception | None) -> str:
    """Return why the loop says that a connection to a pod is lost, for people."""
    if error is None:
        return "the pod closed the connection"
    words = error.strerror if isinstance(error, OSError) else None  # without "[Errno 104]"
    return (words or str(error) or "the pod closed the connection").lower()


class Answered(Protocol):
    """Who sent the request on a connection and takes its answer."""

    @property
    def to_head(self) -> bool:
        """Whether the request is a HEAD: its answer has no body."""

    def on_interim(self, response: Response) -> None:
        """A 1xx answer, also 101; the final one follows, unless it is 101."""

    def on_response(
        self, response: Response, raw: bytes | None, payload: list[bytes], complete: bool
    ) -> None:
        """The final head, and the payload that came with it.

        Arguments:
            raw: head and payload in one piece as they came, where nothing else came.
            complete: the answer ends here; the connection is back in its pool, or closed.
        """

    def on_payload(self, payload: list[bytes], complete: bool, trailers: bytes) -> None:
        """More of the body; ``complete`` and ``trailers`` with its last piece."""

    def on_lost(self, error: str, answered: bool) -> None:
        """The connection is gone before the answer was complete.

        Arguments:
            answered: whether any byte of an answer had come.
        """

    def pause_sending(self) -> None:
        """The pod reads slower than the client sends."""

    def resume_sending(self) -> None:
        """It has caught up."""


class Home(Protocol):
    """The pool that a connection is of."""

    host_lines: bytes

    @property
    def unread(self) -> UnreadBytes:
        """What counts the bytes that peers do not read."""

    @property
    def address(self) -> str:
        """The pod's ``ip:port``."""

    @property
    def origin(self) -> str:
        """Where requests go, as ``scheme://ip:port``."""

    def opened(self, connection: Http1Pod) -> None:
        """Count a new connection."""

    def closed(self, connection: Http1Pod) -> None:
        """Forget a connection."""

    def put(self, connection: Http1Pod) -> None:
        """Keep a connection for the next request, or close it where there are enough."""

    def speaks_http2(self) -> None:
        """Record that the pod has answered a request in HTTP/1 by frames of HTTP/2."""


@final
class Http1Pod(PodSide):
    """One connection to one pod.

    Attributes:
        owner: who takes the response to the present request; None while there is none.
        reads_slowly: the pod may leave much of the present request unread for long.
    """

    __slots__ = (
        "_asker",
        "_body",
        "_chunks",
        "_interim",
        "_lost",
        "_partial",
        "_paused",
        "_poll",
        "_response",
        "_trailers",
        "_unread",
        "idle_since",
        "owner",
        "pool",
        "reads_slowly",
        "reused",
        "transport",
    )

    def __init__(self, pool: Home) -> None:
        # For the connection.
        self.pool = pool
        self._unread = pool.unread
        self.reused = False
        self.reads_slowly = False
        self.idle_since = 0.0
        self._poll: select.poll | None = None
        self._lost = False
        self._paused = False
        # For the request on it.
        self.owner: Answered | None = None
        self._asker: Asker | None = None
        self._chunks = False  # its body goes out in chunks
        self._trailers = False  # and may have trailers
        self._partial = bytearray()
        self._interim = 0
        self._response: Response | None = None
        self._body: Body | None = None

    transport: asyncio.Transport

    # -- for the owner --------------------------------------------------------------------------

    def is_http2(self) -> bool:
        """See PodSide."""
        return False

    def is_reused(self) -> bool:
        """See PodSide."""
        return self.reused

    def is_full(self) -> bool:
        """See PodSide."""
        return self._paused

    def send(self, owner: Answered, data: bytes) -> None:
        """Begin a request; its response goes to ``owner``."""
        self.owner = owner
        self.transport.write(data)

    def ask(
        self,
        asker: Asker,
        client: ClientSide,
        request: Request,
        body: RequestBody,
        trace: Trace | None,
    ) -> None:
        """See PodSide."""
        pool = self.pool
        if trace is None:
            start, rest = pod_head(request, client.address())
            head = b"".join((start, pool.host_lines, rest))
        else:
            lines = lines_to_send(request, traced=True)
            start, rest = pod_head(request, client.address(), lines)
            head = b"".join((start, pool.host_lines, trace.sending(pool.origin), rest))
        self.owner = self._asker = asker
        if request.has_body:
            self._chunks = request.length < 0
            self._trailers = self._chunks and wants_trailers(request)
            trailers = as_lines(body.trailers) if request.section else body.trailers
            head += self._framed(body.pieces, body.complete, trailers)
        self.transport.write(head)
        if request.has_body and not 0 <= request.length <= _FITS_ANY_WINDOW:
            self.expect_slow_reading(True)

    def send_body(self, payload: list[bytes], ended: bool, trailers: bytes) -> None:
        """See PodSide."""
        data = self._framed(payload, ended, trailers)
        if data:
            self.transport.write(data)

    def _framed(self, payload: list[bytes], ended: bool, trailers: bytes) -> bytes:
        """Return a piece of the request's body as it goes out."""
        if not self._chunks:
            return payload[0] if len(payload) == 1 else b"".join(payload)
        data = chunk(payload) if any(payload) else b""
        if ended:
            data += b"0\r\n" + (clean_trailers(trailers) if self._trailers else b"") + b"\r\n"
        return data

    def pause(self, on: bool) -> None:
        """See PodSide."""
        if self.owner is None:
            return  # it has answered, and is in its pool for the next request
        if on:
            self.transport.pause_reading()
        else:
            self.transport.resume_reading()

    def took(self, size: int) -> None:
        """See PodSide: nothing to do, the transport's pausing is the back-pressure."""

    def detach(self, complete: bool) -> None:
        """See PodSide: the pod would take what comes next for the rest of a request."""
        if not complete:
            self.transport.abort()

    def cancel(self) -> None:
        """See PodSide."""
        self.abandon()

    def alive(self) -> bool:
        """Whether the pod has not closed this connection, as far as this machine knows.

        The loop learns of a close only when it next polls; a request that must not be sent twice
        is worth the system call.
        """
        if self._poll is None:
            fd = self.transport.get_extra_info("socket").fileno()
            if not hasattr(select, "poll"):  # not Linux; macOS of some years has none either
                return not select.select([fd], [], [], 0)[0]
            self._poll = select.poll()
            self._poll.register(fd, select.POLLIN | _PEER_CLOSED)
        return not self._poll.poll(0)

    def expect_slow_reading(self, on: bool) -> None:
        """Lift the bound on the time for the pod to read its request, or set it again.

        The kernel does not tell a pod that has vanished from one that is there and does not read.
        """
        self.reads_slowly = on
        if not self.transport.is_closing():
            sock = self.transport.get_extra_info("socket")
            bound_unacknowledged(sock, SocketKind.POD_SLOW if on else SocketKind.POD)

    def give_back(self) -> None:
        """Return to the pool without having been used."""
        self.pool.put(self)

    def abandon(self) -> None:
        """End the request: its answer is of no more use, and the connection neither."""
        self.owner = self._asker = None
        self.transport.abort()

    # -- for the loop ---------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        self.transport = cast(asyncio.Transport, transport)
        self.pool.opened(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        """See asyncio.BufferedProtocol."""
        return SMALL_BUFFER if self._unread.scarce else BUFFER

    def buffer_updated(self, nbytes: int) -> None:
        """See asyncio.BufferedProtocol."""
        self.data_received(BUFFER[:nbytes].tobytes())

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        if self.owner is None:
            if not self.reused and _is_http2(data):
                self.pool.speaks_http2()  # its SETTINGS came before our request
            self.transport.abort()  # nobody asked
        elif self._response is None:
            if self._partial:
                data = self._joined(data)
                if not data:
                    return
            try:
                self._read_head(data)
            except FramingError as error:
                if self._asker is not None and _is_http2(data):
                    self._retry_in_http2()
                else:
                    self._fail(f"malformed answer: {error}", answered=True)
        else:
            self._read_body(data)

    def _retry_in_http2(self) -> None:
        """The pod speaks HTTP/2 alone, so it has not understood a byte of the request."""
        asker, self.owner, self._asker = self._asker, None, None
        self.transport.abort()
        self.pool.speaks_http2()
        assert asker is not None
        asker.on_other_protocol("the pod speaks HTTP/2 alone")

    def _joined(self, data: bytes) -> bytes:
        """Add to an unfinished head, looking only at what is new; return it once that changes."""
        partial = self._partial
        known = max(0, len(partial) - 3)
        partial += data
        ends = partial.find(b"\n\r\n", known) >= 0 or partial.find(b"\n\n", known) >= 0
        ends = ends or (partial[:1] == b"\x00" and len(partial) >= HEAD_BYTES)
        if not ends and len(partial) <= MAX_HEAD:
            return b""
        self._partial = bytearray()
        return bytes(partial)

    def _read_head(self, data: bytes, *, as_it_came: bool = True) -> None:
        """Read a head and what came behind it; ``as_it_came``: no line end was changed."""
        end = data.find(b"\r\n\r\n") + 4
        if end < 4:
            self._read_odd_head(data)
            return
        owner = self.owner
        assert owner is not None
        whole = end == len(data)
        try:
            response = read_response(data if whole else data[:end], to_head=owner.to_head)
        except FramingError:
            # Only here can a bare LF be: the reader takes no head that has one.
            changed = with_crlf(data)
            if changed is None:
                raise
            self._read_head(changed, as_it_came=False)
            return
        if response.status < 200:
            self._read_interim(response, data[end:])
            return
        raw: bytes | None = data if as_it_came else None
        payload: list[bytes] = []
        body = response.body
        if body is None:
            left: bytes | None = b"" if whole else data[end:]
        else:
            left = body.feed(data[end:], payload) if not whole else None
        if left is None:
            self._response = response
            self._body = body
            owner.on_response(response, raw, payload, False)
            return
        if left:
            raw = None
            response.keep_alive = False
        self._finish(response)
        owner.on_response(response, raw, payload, True)

    def _read_odd_head(self, data: bytes) -> None:
        """Deal with a head that CRLF CRLF does not end: it ends otherwise, or not yet."""
        changed = with_crlf(data)
        if changed is not None:
            self._read_head(changed, as_it_came=False)
        elif len(data) > MAX_HEAD:
            raise FramingError("the head is too large", 502)
        elif data[:1] == b"\x00" and len(data) >= HEAD_BYTES:
            raise FramingError("no HTTP/1", 502)
        else:
            self._partial = bytearray(data)

    def _read_interim(self, response: Response, rest: bytes) -> None:
        self._interim += 1
        if self._interim > MAX_INTERIM:
            raise FramingError("too many interim answers", 502)
        owner = self.owner
        assert owner is not None
        if response.status == 101:
            self._partial = bytearray(rest)
            owner.on_interim(response)
            return
        owner.on_interim(response)
        if rest and self.owner is owner:
            self._read_head(rest)

    def _read_body(self, data: bytes) -> None:
        owner, response, body = self.owner, self._response, self._body
        assert owner is not None
        assert response is not None
        assert body is not None
        payload: list[bytes] = []
        try:
            left = body.feed(data, payload)
        except FramingError as error:
            self._fail(f"malformed answer: {error}", answered=True)
            return
        if left is None:
            owner.on_payload(payload, False, b"")
            return
        if left:
            response.keep_alive = False
        self._finish(response)
        owner.on_payload(payload, True, body.trailers)

    def _finish(self, response: Response) -> None:
        """The answer is complete: return to the pool, before the owner makes room for the next."""
        self.owner = self._asker = None
        self._response = None
        self._body = None
        self._interim = 0
        if self._paused:
            self.transport.abort()  # it has not even read the request to its end
        elif response.keep_alive and not self._lost:
            self.pool.put(self)
        else:
            self.transport.close()

    def eof_received(self) -> None:
        """See asyncio.Protocol; the transport closes itself."""
        self._ended(lost_error(None), at_eof=True)

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        self._unread.hold(self, 0)
        self.pool.closed(self)
        self._ended(lost_error(exc))

    def _ended(self, error: str, *, at_eof: bool = False) -> None:
        """The connection is over; ``at_eof``: by the pod's own word, which may end a body."""
        self._lost = True
        owner = self.owner
        if owner is None:
            return
        if at_eof and isinstance(self._body, CloseBody):
            response = self._response
            assert response is not None
            self._finish(response)
            owner.on_payload([], True, b"")
            return
        answered = self._response is not None or bool(self._partial) or bool(self._interim)
        self._fail(error, answered=answered)

    def _fail(self, error: str, *, answered: bool) -> None:
        owner, self.owner = self.owner, None
        self._asker = None
        self.transport.abort()
        if owner is not None:
            owner.on_lost(error, answered)

    def switching(self) -> SwitchingSide | None:
        """See PodSide."""
        return self

    def switch(self, response: Response, notes: bytes) -> None:
        """See SwitchingSide: it is the pod that says 101."""

    def take_over(self) -> tuple[asyncio.Transport, bytes]:
        """See SwitchingSide."""
        self.expect_slow_reading(True)
        early, self._partial = self._partial, bytearray()
        self.owner = self._asker = None
        self._unread.hold(self, 0)
        return self.transport, bytes(early)

    def is_stopped(self) -> bool:
        """See SwitchingSide."""
        return self._paused

    def unread_bytes(self) -> UnreadBytes:
        """See SwitchingSide."""
        return self._unread

    def who(self) -> tuple[Peer, str]:
        """See SwitchingSide."""
        return Peer.POD, self.pool.address

    def pause_writing(self) -> None:
        """See asyncio.Protocol."""
        self._paused = True
        self._unread.hold(self, presence.count_held(self.transport))
        if self.owner is not None:
            self.owner.pause_sending()

    def resume_writing(self) -> None:
        """See asyncio.Protocol."""
        self._paused = False
        self._unread.hold(self, 0)
        if self.owner is not None:
            self.owner.resume_sending()

    def end_unread(self) -> tuple[Peer, str]:
        """See unread.Reader. The request is not sent again: its next pod would hold as much."""
        self._fail("the pod did not read the request", answered=True)
        return Peer.POD, self.pool.address
