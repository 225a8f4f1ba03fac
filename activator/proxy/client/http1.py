"""Serves a client's HTTP/1 connection: its requests in order, one at a time.

The methods stand in the order of a connection's life: bytes arrive, a head is complete, its request
begins and gets a body, its response is written, the next one follows, the connection ends. The
connection is also the client's side of its exchanges, since it has one at a time.

It supports HTTP/1.1 and HTTP/1.0. A client may send the next request before the current one has its
response. Such bytes stay unread, or in one bounded buffer. ``connection`` has the part that HTTP/1
and HTTP/2 share. Knative's counterpart is the handler chain of cmd/activator/main.go, in this
order: kubelet's probe, ingress's probe, autoscaler's probe, revision.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import Enum
from math import inf
from typing import Final, cast, final

from activator.knative.words import KUBELET_AGENT
from activator.proxy.client.connection import SHARED, ClientConnection, ClientPort
from activator.proxy.client.heads_in_progress import HeadInProgress
from activator.proxy.client.http2 import Http2ClientConnection
from activator.proxy.client.proxy import Proxy
from activator.proxy.exchange.exchange import Exchange, probe_response
from activator.proxy.exchange.sides import TUNNEL, ClientSide
from activator.proxy.exchange.tunnel import SwitchingSide
from activator.proxy.http2.fields import ResponseFields
from activator.proxy.http2.frames import PREFACE
from activator.proxy.message import own_responses
from activator.proxy.message.error_forms import negotiate
from activator.proxy.message.fields import HTTP_1_0, HTTP_1_1, HttpVersion
from activator.proxy.message.grammar import Body, FramingError, LengthBody
from activator.proxy.message.own_responses import OwnResponse
from activator.proxy.message.request import Request, body_of, read_request
from activator.proxy.message.response import (
    Response,
    ResponseWriter,
    client_head,
    interim_head,
    switching_head,
)
from activator.proxy.transport import peer_socket
from activator.proxy.transport.peer_socket import (
    ACKNOWLEDGE_WITHIN,
    ClientCheck,
    ClientState,
    PeerKind,
    UnreadBytes,
)
from activator.proxy.transport.splice import WORTHWHILE, Splice
from activator.tls import certificates as agreed

#: Bytes of further requests that are buffered before reading pauses.
MAX_AHEAD: Final = 64 << 10
_SHORT: Final = "the body is shorter than announced"
#: The preface of HTTP/2 up to its first empty line. No HTTP/1 request begins like this.
_HTTP2_HEAD: Final = PREFACE[:18]


class Http1ClientState(Enum):
    """The state of a connection: it decides what the next bytes of the client are.

    READING_HEAD: no request is in progress. The next bytes begin a request head.
    HEAD_IN_PROGRESS: a part of a request head has arrived.
    BEGINNING: a request head is complete, and its exchange begins.
    READING_BODY: an exchange is in progress. The next bytes belong to the request's body.
    EXCHANGING: an exchange is in progress, and its request is complete. Further bytes wait.
    DISCARDING: the input was malformed or refused. An error response is the last response.
    LINGERING: the last response is written. Input is discarded until the client closes.
    CLOSED: the activator has closed or aborted the connection, or it is lost.
    """

    READING_HEAD = "reading-head"
    HEAD_IN_PROGRESS = "head-in-progress"
    BEGINNING = "beginning"
    READING_BODY = "reading-body"
    EXCHANGING = "exchanging"
    DISCARDING = "discarding"
    LINGERING = "lingering"
    CLOSED = "closed"


#: Module names for the members, for speed: see fields.HTTP_1_1.
READING_HEAD: Final = Http1ClientState.READING_HEAD
HEAD_IN_PROGRESS: Final = Http1ClientState.HEAD_IN_PROGRESS
BEGINNING: Final = Http1ClientState.BEGINNING
READING_BODY: Final = Http1ClientState.READING_BODY
EXCHANGING: Final = Http1ClientState.EXCHANGING
DISCARDING: Final = Http1ClientState.DISCARDING
LINGERING: Final = Http1ClientState.LINGERING
CLOSED: Final = Http1ClientState.CLOSED

#: Which state may follow which. No request follows DISCARDING, LINGERING or CLOSED.
FOLLOWS: Final[dict[Http1ClientState, frozenset[Http1ClientState]]] = {
    READING_HEAD: frozenset((HEAD_IN_PROGRESS, BEGINNING, DISCARDING, CLOSED)),
    HEAD_IN_PROGRESS: frozenset((READING_HEAD, DISCARDING, CLOSED)),
    BEGINNING: frozenset(
        (READING_HEAD, READING_BODY, EXCHANGING, DISCARDING, LINGERING, CLOSED),
    ),
    READING_BODY: frozenset((EXCHANGING, DISCARDING, LINGERING, CLOSED)),
    EXCHANGING: frozenset((READING_HEAD, LINGERING, CLOSED)),
    DISCARDING: frozenset((LINGERING, CLOSED)),
    LINGERING: frozenset((CLOSED,)),
    CLOSED: frozenset(),
}


@final
class Http1ClientConnection(ClientSide):
    """A client's HTTP/1 connection, or one that may change to HTTP/2.

    It is the loop's protocol object, the ``HttpHandler`` of its ``ClientConnection``, the client's
    side of each exchange, and the client's end of a tunnel.

    Arguments:
        proxy: the objects that all connections share.
        port: the port that the client has connected to.

    Attributes:
        exchange: the current exchange; None between requests.
        head: the in-progress request head; None without one.
        state: decides what the next bytes are.
    """

    __slots__ = (
        "_ahead",
        "_body",
        "_check",
        "_eof",
        "_full",
        "_keep_alive",
        "_names_connection",
        "_paused",
        "_send_by",
        "_services",
        "_splice",
        "_version",
        "_writer",
        "exchange",
        "head",
        "state",
    )

    def __init__(self, proxy: Proxy, port: ClientPort = SHARED) -> None:
        self.base = ClientConnection(proxy, self, port)
        self._services = proxy.services
        self.state: Http1ClientState = READING_HEAD
        self.exchange: Exchange | None = None
        self.head: HeadInProgress | None = None
        self._ahead = b""  # bytes that the client sent behind the current request
        self._body: Body | None = None  # the framing of a body that is not complete
        self._eof = False  # whether the client has ended its sending side
        self._paused = False  # whether reading from the transport pauses
        self._full = False  # whether bytes wait because the client does not read
        self._version: HttpVersion = HTTP_1_1  # of the last request
        self._names_connection = False  # whether the last one of HTTP/1.0 had Connection
        self._keep_alive = True  # whether another request may follow the current one
        self._writer: ResponseWriter | None = None  # None while the response passes unchanged
        self._check: ClientCheck | None = None  # few connections need it
        self._splice: Splice | None = None  # moves the request's body
        self._send_by = inf  # the latest time to send a request that waits for the client's kernel

    def _enter(self, state: Http1ClientState) -> None:
        """Enter a state, and check it. The changes of every request are assigned, for speed."""
        assert state in FOLLOWS[self.state], f"{state} after {self.state}"
        self.state = state

    # -- for the loop ---------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the connection, in HTTP/2 if the TLS handshake has chosen it."""
        self.base.made(cast(asyncio.Transport, transport))
        if self.base.secure and agreed.protocol(transport) == agreed.HTTP2:
            self._switch_to_http2(b"")

    def connection_lost(self, exc: Exception | None) -> None:
        """Release the connection, and cancel the current exchange."""
        self.base.proxy.unread.hold(self, 0)
        self.base.lost()
        self._end_head()
        self.state = CLOSED
        self._cancel()

    def data_received(self, data: bytes) -> None:
        """Read a request, or a part of one; buffer bytes behind the current request."""
        state = self.state
        if state is READING_HEAD and not self._full:
            self._read(data)
        elif state is READING_BODY:
            self._read_body(data)
        elif state is HEAD_IN_PROGRESS:
            self._read_in_head(data)
        elif state is EXCHANGING or state is READING_HEAD:
            self._ahead += data
            self.regulate()

    def eof_received(self) -> bool:
        """Keep the connection open for a client that ended its sending side and wants responses."""
        self._eof = True
        if peer_socket.is_tls(self.base.transport):
            # The loop sends the bytes that are written, and would drop the rest of a response.
            if self.exchange is not None:
                self.base.transport.abort()
            return False
        return self._half_closed()

    def _half_closed(self) -> bool:
        """Handle the end of the client's sending side; return whether it waits for a response."""
        if self.exchange is None:
            return self._full and self._ahead != b""
        if self.state is READING_BODY:
            self._refuse(FramingError(_SHORT))
            return True
        if self._leaves_by_end():
            return False
        # A client of HTTP/1.0 gets no 100, and none may follow the beginning of a response. Then
        # TCP keep-alive finds a lost client.
        peer_socket.probe_half_closed(self.base.transport)
        self._client_check().restart()
        self._check_client(self.base.proxy.clock())
        return True

    def pause_writing(self) -> None:
        """Pause the pod's response, because the client reads more slowly than the pod sends."""
        self._full = True
        self.base.proxy.unread.hold(self, peer_socket.count_held(self.base.transport))
        if self.exchange is not None:
            self.exchange.on_client_room(True)

    def resume_writing(self) -> None:
        """Resume the pod's response, or read the next request."""
        self._full = False
        self.base.proxy.unread.hold(self, 0)
        if self.exchange is not None:
            self.exchange.on_client_room(False)
        elif self.state is READING_HEAD:
            self.regulate()
            self._read_ahead()

    def end_unread(self) -> tuple[PeerKind, str]:
        """End the connection to free its unread bytes, also the bytes in the kernel."""
        self.state = CLOSED
        self._cancel()
        return self.base.end_unread()

    def _cancel(self) -> None:
        """Cancel the current exchange, if any, because its client has left."""
        self._stop_splice()
        exchange, self.exchange = self.exchange, None
        if exchange is not None:
            exchange.leave()

    # -- heads ----------------------------------------------------------------------------------

    def _read(self, data: bytes) -> None:
        """Begin a request for each complete head, and keep the bytes behind it.

        A request begins once the previous one has its response.
        """
        base = self.base
        while data:
            end = data.find(b"\r\n\r\n") + 4
            if end < 4 or data[:2] == b"\r\n":
                data = self._read_odd_beginning(data)
                continue
            head = data if end == len(data) else data[:end]
            if head == _HTTP2_HEAD and self._may_be_http2():
                self._switch_to_http2(data)
                return
            try:
                request = read_request(head, base.proxy.request_limits)
            except FramingError as error:
                self._refuse(error)
                return
            self._ahead = data[end:]
            self._begin(request, head)
            if self.state is not READING_HEAD or self._full or base.transport.is_closing():
                break
            data, self._ahead = self._ahead, b""
        if self._ahead:
            self.regulate()

    def _read_odd_beginning(self, data: bytes) -> bytes:
        """Skip an empty line before a request, or begin to collect an incomplete head.

        RFC 9112 section 2.2 allows the empty line.

        Returns:
            The bytes that are left to read.
        """
        if data[:2] == b"\r\n" and len(data) > 2:
            if data[2:4] == b"\r\n":
                self._refuse(FramingError("more than one empty line before the request"))
                return b""
            return data[2:]
        proxy = self.base.proxy
        now = proxy.clock()
        self._enter(HEAD_IN_PROGRESS)
        self.head = HeadInProgress(proxy.request_limits, proxy.head_budget, now)
        self.base.arm(now + self.base.head_timeout())
        self._read_in_head(data)
        return b""

    def _read_in_head(self, data: bytes) -> None:
        """Add bytes to the in-progress request head."""
        head = self.head
        assert head is not None
        try:
            whole = head.feed(data)
        except FramingError as error:
            self._refuse(error)
            return
        if whole:
            self._end_head()
            self._enter(READING_HEAD)
            self._read(whole)
        elif not head.count():
            self._refuse_head(self.base.proxy.too_many_heads())

    def _end_head(self) -> None:
        """Release the in-progress request head, if any: it is complete or not needed."""
        head, self.head = self.head, None
        if head is not None:
            head.release()

    def _may_be_http2(self) -> bool:
        """Return whether this is the first request, and no TLS handshake has chosen HTTP/1."""
        base = self.base
        return base.new_since > -inf and not (base.secure and agreed.protocol(base.transport))

    def _switch_to_http2(self, data: bytes) -> None:
        """Pass the connection to HTTP/2 (RFC 9113 section 3.4).

        Arguments:
            data: the bytes so far, from the preface on.
        """
        self.base.proxy.unread.hold(self, 0)
        Http2ClientConnection(self.base, full=self._full).take_over(data)

    # -- requests -------------------------------------------------------------------------------

    def _begin(self, request: Request, head: bytes) -> None:
        """Begin a request.

        Arguments:
            request: the parsed head.
            head: its bytes. Those behind it are in ``_ahead``.
        """
        base = self.base
        if base.new_since > -inf:
            base.on_first_request()
        self.state = BEGINNING
        self._version = request.version
        self._keep_alive = request.keep_alive
        if request.version is HTTP_1_0:
            self._names_connection = head.lower().find(b"\nconnection:") >= 0
        self._writer = None
        if request.has_body:
            self._body = body_of(request)
        # Few requests get an own response, so these tests are cheap ones.
        may_be_kubelet = head.find(KUBELET_AGENT) >= 0  # not `in`, see exchange._COMMA
        if request.fields or base.turned_away or may_be_kubelet:
            response = self._own_response(request, may_be_kubelet)
            if response is not None:
                keep_alive = request.keep_alive and not base.turned_away
                self._end_request(
                    negotiate(response, request.lines),
                    head_only=request.method == b"HEAD",
                    keep_alive=keep_alive,
                )
                return
        exchange = self.exchange = Exchange(self._services, self, request)
        if request.has_body and self._ahead:
            # Body that arrived with the head is sent with it: one system call, not two.
            ahead, self._ahead = self._ahead, b""
            self._read_body(ahead)
            if self.state is not BEGINNING:
                return
        exchange.begin()
        if self.state is not BEGINNING:
            return
        if self._body is None:
            self.state = EXCHANGING
        else:
            self.state = READING_BODY
            self.regulate()

    def _own_response(self, request: Request, may_be_kubelet: bool) -> OwnResponse | None:
        """Return the response to a probe, or to a client beyond the limit; None for others."""
        response = probe_response(
            request,
            self.base.port,
            self.base.proxy.unhealthy,
            self._services.health,
            may_be_kubelet=may_be_kubelet,
        )
        if response is not None:
            self.base.idle_since = self.base.proxy.clock()
            return response
        return self.base.proxy.too_many_connections() if self.base.turned_away else None

    def _refuse(self, error: FramingError) -> None:
        """Respond to malformed or unsupported input, and close."""
        self.base.proxy.counters.bad_requests += 1
        exchange, self.exchange = self.exchange, None
        block = error.block
        if exchange is not None:
            has_begun = exchange.has_begun()
            block = exchange.request.lines
            exchange.leave()
            if has_begun:
                self._abort()
                return
        self._refuse_head(negotiate(own_responses.refused(error.status, str(error)), block))

    def _refuse_head(self, response: OwnResponse) -> None:
        """Respond before a request head is complete, and close.

        Further input is discarded, because the next request could begin anywhere.
        """
        self._end_head()
        self._enter(DISCARDING)
        self._ahead = b""
        self._end_request(response, head_only=False, keep_alive=False)

    # -- bodies, and back-pressure --------------------------------------------------------------

    def _read_body(self, data: bytes) -> None:
        """Pass on a piece of the current request's body; keep the bytes behind the body."""
        body, exchange = self._body, self.exchange
        assert body is not None
        assert exchange is not None
        payload: list[bytes] = []
        try:
            left = body.feed(data, payload)
        except FramingError as error:
            self._refuse(error)
            return
        complete = left is not None
        if complete:
            self._body = None
            self._ahead = left or b""
            if self.state is READING_BODY:
                self.state = EXCHANGING
        exchange.on_request_body(payload, complete, body.trailers)
        self.regulate()

    def regulate(self) -> None:
        """Pause or resume reading, by whether the input can be used."""
        state, exchange = self.state, self.exchange
        if self._splice is not None:
            return
        if state is READING_BODY:
            wanted = exchange is not None and exchange.wants_body()
            if wanted and self._missing() >= WORTHWHILE and self._begin_splice():
                return
        elif state is EXCHANGING:
            wanted = len(self._ahead) < MAX_AHEAD
        elif state is READING_HEAD:
            wanted = not self._full
        else:
            return
        transport = self.base.transport
        if wanted is not self._paused or self._eof or transport.is_closing():
            return
        self._paused = not wanted
        if wanted:
            transport.resume_reading()
            return
        transport.pause_reading()
        if exchange is not None:
            self._check_soon()

    def _check_soon(self) -> None:
        """Check the client now and then, because the loop reports nothing while reading pauses."""
        check = self._client_check()
        check.restart()
        self.base.arm(check.next(self.base.proxy.clock()))

    def accepted(self, size: int) -> None:
        self.regulate()

    def _begin_splice(self) -> bool:
        """Let the rest of a large body pass within the kernel; return whether it does."""
        exchange, transport = self.exchange, self.base.transport
        splices = self._services.pools.resources.splices
        impossible = self.base.secure or transport.is_closing() or not splices.may_begin()
        if exchange is None or impossible:
            return False
        sink = exchange.request_sink(peer_socket.count_unread(transport))
        if sink is None:
            return False
        self._splice = splices.begin(
            *(transport, sink, self._missing(), self._moved, self._spliced)
        )
        if self._splice is None:
            return False
        self._paused = True
        self._check_soon()
        return True

    def _moved(self, size: int) -> None:
        if isinstance(self._body, LengthBody):
            self._body.remaining -= size

    def _spliced(self, rest: bytes) -> None:
        """Go on without the splice."""
        self._splice = None
        self._moved(-len(rest))
        if rest or not self._missing():
            self._read_body(rest)
        elif self.exchange is not None and self.exchange.wants_body():
            self._paused = False  # without regulate, which would begin a splice
            self.base.transport.resume_reading()

    def _stop_splice(self) -> None:
        splice, self._splice = self._splice, None
        if splice is not None:
            splice.stop()

    # -- the client, for the exchange -----------------------------------------------------------

    def is_full(self) -> bool:
        return self._full

    def sink(self) -> asyncio.Transport | None:
        changes = self.base.secure or (self._writer is not None and self._writer.chunk)
        return None if changes or self._full else self.base.transport

    # -- whether the client is still there ------------------------------------------------------
    #
    # The loop reports nothing while reading pauses, or once the client has ended its sending side.
    # Then the connection queries the kernel now and then (``peer_socket.ClientCheck``).

    def is_there(self, now: float) -> bool:
        return not peer_socket.has_ended(self.base.transport) or self._test(now)

    def is_gone(self) -> bool:
        return peer_socket.is_gone(self.base.transport)

    def _leaves_by_end(self) -> bool:
        """Return whether the client leaves by the end of its sending side.

        So does a proxy of HTTP/1.0, such as nginx, which names its connection. Other clients of
        HTTP/1.0 may await their response; a 100 tests clients of HTTP/1.1.
        """
        return self._version is HTTP_1_0 and self._names_connection

    def _client_check(self) -> ClientCheck:
        """Return the check of the client; the first call makes it."""
        check = self._check
        if check is None:
            check = self._check = ClientCheck(self.base.transport)
        return check

    def _missing(self) -> int:
        """Return how many bytes of the body are announced and not read."""
        return self._body.remaining if isinstance(self._body, LengthBody) else 0

    def _interim(self) -> Callable[[], None] | None:
        """Return a function that sends an interim response; None for a client of HTTP/1.0.

        A closed client rejects the response.
        """
        return None if self._version is HTTP_1_0 else self.send_continue

    def _test(self, now: float) -> bool:
        """Check a client that ended its sending side, right before a pod gets its request.

        Returns:
            Whether the client is known to be there. If it has left, the connection is aborted. If
            its kernel has not responded, ``_check_client`` finds out later.
        """
        transport = self.base.transport
        if self._leaves_by_end():
            transport.abort()
            return False
        check = self._client_check()
        found = check.before_sending(self._missing(), self._interim(), now)
        if found is ClientState.GONE:
            transport.abort()
        elif found is ClientState.PENDING:
            self._send_by = now + ACKNOWLEDGE_WITHIN
            check.hurry()
        is_there = found is ClientState.HERE
        if self._send_by < inf and not is_there:
            self.base.arm(check.next(now))
        return is_there

    def _check_client(self, now: float) -> float:
        """Check the client during an exchange; return when to check next, seconds.

        Abort if the client has left, or resume a request that waits for its kernel.
        """
        exchange, transport = self.exchange, self.base.transport
        if exchange is None or transport.is_closing():
            return inf
        interim = None if exchange.has_begun() else self._interim()
        check, splice = self._client_check(), self._splice
        if splice is not None and not splice.blocked:  # it reads, and finds an early end
            is_over = peer_socket.is_gone(transport)
        else:
            is_over = check.is_over(self._missing(), interim, now)
        if is_over:
            if splice is None or peer_socket.is_gone(transport):
                transport.abort()
            else:
                self._refuse(FramingError(_SHORT))
            return inf
        if self._send_by < inf and (now >= self._send_by or check.is_acknowledged()):
            self._send_by = inf
            check.restart()
            exchange.resume(now)
        when = check.next(now)
        self.base.arm(when)
        return when

    # -- the response ---------------------------------------------------------------------------

    def _write(self, data: bytes) -> None:
        """Send bytes to the client, unless the connection is closing."""
        transport = self.base.transport
        if not transport.is_closing():
            transport.write(data)

    def respond(
        self,
        response: Response | ResponseFields,
        raw: bytes | None,
        payload: list[bytes],
        ended: bool,
        trailers: bytes,
    ) -> None:
        assert isinstance(response, Response)
        exchange = self.exchange
        assert exchange is not None
        base = self.base
        if self._services.draining or base.stopping or base.port.reconnect:
            self._keep_alive = False
        elif not exchange.body.complete:
            revision = exchange.entry.throttler.revision
            # The next bytes on this connection are the rest of the request's body.
            self._keep_alive = self._keep_alive and not ended and revision.full_duplex
        if (
            raw is not None
            and response.plain
            and self._keep_alive
            and not exchange.added_lines
            and self._version is not HTTP_1_0
        ):
            data = response.unchanged(raw)
        else:
            data = self._changed(response, exchange.added_lines, payload, ended, trailers)
        transport = base.transport
        if not transport.is_closing():
            transport.write(data)

    def _changed(
        self,
        response: Response,
        added_lines: bytes,
        payload: list[bytes],
        ended: bool,
        trailers: bytes,
    ) -> bytes:
        """Return the head, which differs from the pod's, and the payload that came with it."""
        version = self._version
        writer = self._writer = ResponseWriter(response, version)
        if writer.ends_connection:
            self._keep_alive = False
        data = client_head(
            response,
            version=version,
            chunk=writer.chunk,
            close=not self._keep_alive,
            date=self._services.date.value(),
            added_lines=added_lines,
        )
        data += writer.payload(payload)
        if ended and response.body is not None:
            data += writer.end(trailers or response.body.trailers)
        return data

    def send_body(self, payload: list[bytes], ended: bool, trailers: bytes) -> None:
        writer = self._writer
        if writer is None:
            data = payload[0] if len(payload) == 1 else b"".join(payload)
        else:
            data = writer.payload(payload)
            if ended:
                data += writer.end(trailers)
        if data:
            self._write(data)

    def interim(self, response: Response | ResponseFields) -> None:
        assert isinstance(response, Response)
        self._write(interim_head(response))

    def send_continue(self) -> None:
        """Send 100 Continue, at any time: a client ignores an extra one (RFC 9110 section 15.2)."""
        self._write(own_responses.CONTINUE)

    def send_own_response(self, response: OwnResponse) -> None:
        head_only = self.exchange is not None and self.exchange.to_head
        self._end_request(response, head_only=head_only, keep_alive=self._keep_alive)

    def body_of(self, response: OwnResponse) -> bytes:
        return response.body

    def _end_request(self, response: OwnResponse, *, head_only: bool, keep_alive: bool) -> None:
        """Send the activator's own response, and end the current request.

        Arguments:
            response: the response.
            head_only: whether the request is a HEAD, so that the body is left out.
            keep_alive: whether the client keeps its connection for another request.
        """
        if keep_alive:
            ends = self.base.is_last() or (self._eof and not self._ahead)
            keep_alive = self._body is None and not ends
        self._write(
            response.render(
                date=self._services.date.value(),
                head_only=head_only,
                keep_alive=keep_alive,
                version=self._version,
            )
        )
        self._next(keep_alive)

    def finished(self, now: float) -> None:
        self.base.idle_since = now
        self._next(self._keep_alive)

    def break_off(self, outcome: str, code: int) -> None:
        self._abort()

    # -- the next request -----------------------------------------------------------------------

    def _next(self, keep_alive: bool) -> None:
        """End the current exchange: close the connection, or read the next request.

        Arguments:
            keep_alive: whether another request may follow the response.
        """
        self.exchange = None
        if self._splice is not None:
            self._stop_splice()
        if (
            not keep_alive
            or self._body is not None
            or self.base.stopping
            or (self._eof and not self._ahead)
        ):
            self._close()
            return
        began = self.state is not BEGINNING  # else ``_read`` continues by itself
        self.state = READING_HEAD
        self._send_by = inf
        if self._full:
            self.base.watch_unsent()
        if self._paused or self._full:
            self.regulate()
        if self._ahead and began:
            self._read_ahead()

    def _read_ahead(self) -> None:
        """Read the bytes that the client has sent ahead, unless it must read responses first."""
        if not self._ahead or self._full:
            return
        ahead, self._ahead = self._ahead, b""
        self._read(ahead)
        if self._eof and not self._half_closed():
            self._close()

    # -- a change of the protocol ---------------------------------------------------------------

    def switching(self) -> SwitchingSide | None:
        return self

    def switch(self, response: Response, added_lines: bytes) -> None:
        """Pass on the pod's 101."""
        self._write(switching_head(response, added_lines))

    def take_over(self) -> tuple[asyncio.Transport, bytes]:
        """Hand the connection over to the tunnel, with the bytes behind the request."""
        ahead, self._ahead = self._ahead, b""
        self.base.proxy.unread.hold(self, 0)
        return self.base.transport, ahead

    def unread_bytes(self) -> UnreadBytes:
        """Return the count of bytes that peers do not read."""
        return self.base.proxy.unread

    def who(self) -> tuple[PeerKind, str]:
        """Return the client's side, and its ``ip:port``."""
        return PeerKind.CLIENT, self.base.peer()

    # -- the end --------------------------------------------------------------------------------

    def _abort(self) -> None:
        """Abort the connection, because the response is incomplete."""
        self._stop_splice()
        self.exchange = None
        self.state = CLOSED
        if self._version is HTTP_1_0:
            peer_socket.reset(self.base.transport)  # a plain close would seem to end the response
        self.base.transport.abort()

    def _close(self) -> None:
        """Close the connection after the last response.

        Unread input is discarded first. Otherwise the kernel would reset the connection before the
        client has read the response.
        """
        state = self.state
        if state is LINGERING or state is CLOSED or self.base.transport.is_closing():
            return
        self.base.watch_unsent()
        unread = self._body is not None or self._ahead or self._paused or state is DISCARDING
        if unread and not self._eof:
            self._enter(LINGERING)
            self.base.linger()
            self.base.await_tls_end()
        else:
            self._end()

    def _end(self) -> None:
        """Close at once."""
        self._enter(CLOSED)
        self.base.end()

    def shutdown(self) -> None:
        """Close if no request is current, because the server stops.

        A request whose head is in progress counts as current, and so does one that the client has
        sent ahead.
        """
        idle = self.state is READING_HEAD and not self._ahead
        if idle and not self.base.transport.is_closing() and not self.base.may_get_request():
            self._end()

    def drain(self) -> None:
        """Respond without a pod, because the time to wait for one is over."""
        exchange = self.exchange
        if exchange is not None:
            self._keep_alive = False
            exchange.drain()
        elif self.state is HEAD_IN_PROGRESS:
            self._refuse_head(own_responses.draining("the request had not arrived completely"))

    def force_end(self) -> None:
        """End the current request, because the drain time is over."""
        exchange, transport = self.exchange, self.base.transport
        if exchange is None:
            transport.abort()
            return
        self._keep_alive = False
        if exchange.state is not TUNNEL:
            exchange.force()
            return
        # A tunnel without unsent bytes gets an orderly end; a reset would look like an error.
        transport.abort() if transport.get_write_buffer_size() else transport.close()

    def may_be_evicted(self) -> bool:
        """Return whether no request is in progress, and no byte of one has been read."""
        return self.state is READING_HEAD and not (
            self._ahead or self._full or self.base.stopping or self.base.transport.is_closing()
        )

    def evict(self) -> bool:
        """Close for a new client."""
        self._end()
        return True

    # -- time -----------------------------------------------------------------------------------

    def on_time(self, now: float) -> float:
        """Enforce the deadlines that have passed; return when to call this again, seconds."""
        exchange, base, state = self.exchange, self.base, self.state
        ended = state is LINGERING or state is CLOSED
        if ended or (self._full and exchange is None):
            return base.expire_unsent(now, ended=ended)
        if base.transport.is_closing():
            return inf
        if exchange is not None:
            later = exchange.on_time(now)
            # The loop may not report that the client has left.
            is_unseen = self._eof or self._paused or self._send_by < inf
            return min(later, self._check_client(now)) if is_unseen else later
        head = self.head
        late_at = base.unused_until(now) if head is None else head.since + base.head_timeout()
        if now < late_at:
            return late_at
        if head is None:
            self._end()
        else:
            self._refuse(FramingError("the request head took too long", 408))
        return inf
