"""Serves a client's HTTP/2 connection: each stream is a request.

It replaces ``client.http1`` when the preface arrives. An error on a stream resets that stream. A
flood closes the connection: GOAWAY then names the last stream that is served, so that an ingress
may retry the others. ``GoawaySteps`` decides which GOAWAY is due. ``ClientStream`` is one request.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from math import inf
from typing import Final, cast, final

from activator.knative.words import KUBELET_AGENT
from activator.proxy.client.connection import ClientConnection
from activator.proxy.client.heads_in_progress import HeadCharge
from activator.proxy.client.http2_ends import (
    ANNOUNCED,
    CLOSE_PLANNED,
    LAST_SENT,
    NOT_SENT,
    BlockedStreams,
    GoawaySteps,
)
from activator.proxy.exchange.exchange import Exchange, probe_response
from activator.proxy.exchange.sides import ClientSide
from activator.proxy.http2 import frames, section
from activator.proxy.http2.connection import (
    CLOSE_SECONDS,
    ENDING,
    GOAWAY_DUE,
    OPEN,
    ConnectionSide,
    Http2Connection,
    Stream,
)
from activator.proxy.http2.fields import (
    RequestFields,
    ResponseFields,
    about,
    read_request,
    read_trailers,
)
from activator.proxy.http2.frame_reader import Http2Setting
from activator.proxy.http2.frames import STREAM_WINDOW, ConnectionFault, ErrorCode, RateBudget
from activator.proxy.http2.hpack import line, name_prefix
from activator.proxy.http2.section import Recurring
from activator.proxy.message import grpc, own_responses
from activator.proxy.message.error_forms import negotiate
from activator.proxy.message.fields import HTTP_2
from activator.proxy.message.grammar import FramingError
from activator.proxy.message.own_responses import OwnResponse
from activator.proxy.message.request import Request
from activator.proxy.message.response import Response
from activator.proxy.transport import peer_socket
from activator.proxy.transport.peer_socket import PeerKind
from activator.tls import certificates as agreed

#: Streams that a client may have open (Go: 250).
MAX_STREAMS: Final = 250
#: The budget of resets of young streams, by the client or because of its errors (CVE-2023-44487,
#: CVE-2025-8671): a burst, a number per second, and a part of the streams that it opens.
_RESETS: Final = (MAX_STREAMS, 100.0, 0.5)
#: Seconds for which a stream is young. MAX_STREAMS limits resets of older streams to 2,500 per
#: second, and a client may send as many requests. So many time-outs at once are no flood.
_YOUNG: Final = 0.1
_CONTINUE: Final = line(b":status", b"100")
#: A date has 29 bytes (RFC 9110 section 5.6.7), so its length is constant.
_DATE: Final = name_prefix(b"date") + bytes((29,))
_INTERNAL_ERROR: Final = int(ErrorCode.INTERNAL_ERROR)


@final
class Http2ClientConnection(ConnectionSide):
    """A client's HTTP/2 connection.

    Arguments:
        full: whether bytes wait already because the client does not read.

    Attributes:
        base: the common part of all client connections.
        link: the common part of all HTTP/2 connections.
        proxy: the objects that all connections share.
        services: the objects that all exchanges share.
    """

    __slots__ = (
        "_block_charge",
        "_blocked",
        "_clock",
        "_goaway",
        "_ordinary",
        "_paused",
        "_requests",
        "_resets",
        "_stream_before_block",
        "base",
        "link",
        "proxy",
        "services",
    )

    def __init__(self, base: ClientConnection, *, full: bool) -> None:
        self.base = base
        proxy = self.proxy = base.proxy
        link = self.link = Http2Connection(self, proxy.clock, proxy.unread, server=True)
        link.transport = base.transport
        link.queue.full = full
        self.services = proxy.services
        self._clock = proxy.clock
        self._blocked = BlockedStreams(proxy.header_timeout)  # have their response, do not end
        self._goaway = GoawaySteps()
        self._requests = Recurring(link.decoder, read_request)
        self._ordinary: Request | None = None  # the last recurring request that was no probe
        self._stream_before_block = 0  # the last stream before the header block in progress
        self._block_charge = HeadCharge(proxy.head_budget)
        self._paused = False  # whether reading pauses, because the client reads no responses
        self._resets = RateBudget(*_RESETS)

    def take_over(self, data: bytes) -> None:
        """Replace the HTTP/1 connection.

        Arguments:
            data: the bytes so far, from the preface on.
        """
        base, link = self.base, self.link
        base.switch_to_http2(self)
        # A compiled class cannot inherit from asyncio's. The loops look methods up by name.
        base.transport.set_protocol(cast(asyncio.BaseProtocol, link))
        # The first header block has the same time-out as an HTTP/1 head.
        link.late_at = base.idle_since + base.head_timeout()
        base.arm(link.late_at)
        link.begin((Http2Setting.MAX_CONCURRENT_STREAMS, MAX_STREAMS))
        if link.queue.full:
            self._watch_unsent()
        if base.secure and not agreed.is_adequate(base.transport):
            link.fail(ConnectionFault(ErrorCode.INADEQUATE_SECURITY, "a weak cipher suite"))
        elif data:
            link.data_received(data)

    # -- for the loop ---------------------------------------------------------------------------

    def connection_lost(self, exc: Exception | None) -> None:
        """Release the connection, as the loop would."""
        self.link.connection_lost(exc)

    def lost(self, exc: Exception | None) -> None:
        self.base.lost()
        self._block_charge.release()
        self._cancel_all()

    def _cancel_all(self) -> None:
        for stream in list(self.link.streams.values()):
            self.link.remove_stream(stream)
            self._cancel(stream)

    def on_full(self) -> None:
        self._watch_unsent()

    def on_backlog(self) -> None:
        """Pause reading from a client that reads no responses."""
        if not self._paused and not self.link.is_ending():
            self._paused = True
            self.link.transport.pause_reading()

    def on_room(self) -> None:
        self.base.stop_watching()
        if self._paused:
            self._paused = False
            if not self.link.transport.is_closing():
                self.link.transport.resume_reading()
        for exchange in self._exchanges():
            exchange.touch()

    def end_unread(self) -> tuple[PeerKind, str]:
        self.link.move(ENDING)
        self._cancel_all()
        return self.base.end_unread()

    def end_stream_unread(self, stream: Stream) -> tuple[PeerKind, str]:
        self.link.end(stream, ErrorCode.ENHANCE_YOUR_CALM)
        self._cancel(stream)
        return PeerKind.CLIENT, self.base.peer()

    def _exchanges(self) -> list[Exchange]:
        owners = [stream.owner for stream in self.link.streams.values()]
        return [each.exchange for each in owners if isinstance(each, ClientStream)]

    # -- frames ---------------------------------------------------------------------------------

    def is_idle(self, stream: int) -> bool:
        """Return whether a stream has never begun; after the last GOAWAY none counts as idle.

        The client may have opened streams before it read the GOAWAY.
        """
        return not stream & 1 or (
            stream > self.link.last_stream and self._goaway.state is not LAST_SENT
        )

    def on_headers(self, stream: int, block: bytes, ended: bool) -> None:
        found = self.link.streams.get(stream)
        if found is not None:
            self._on_trailers(found, block, ended)
            return
        try:
            fields = self._requests.known.get(block) or self._requests.read(block)
            request = fields.bodiless if ended else None  # exists already if the block recurs
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
        """Return the error for a request whose stream number is not above the last one.

        Either the stream is closed already (RFC 9113 section 5.1), or the client has skipped its
        number (section 5.1.1). A client that has used each odd number has skipped none.
        """
        if self.link.last_stream == 2 * self.link.opened - 1:
            return ConnectionFault(ErrorCode.STREAM_CLOSED, "a request on a closed stream")
        return ConnectionFault(ErrorCode.PROTOCOL_ERROR, "stream numbers go backwards")

    def on_stray(self, stream: int) -> None:
        """Reset a stream that has ended.

        Frames that crossed the activator's RST_STREAM are ignored. So are frames for streams behind
        the last one that is served.
        """
        if not self.link.flow.late and stream <= self.link.last_stream:
            self.link.queue.write(frames.rst_stream(stream, ErrorCode.STREAM_CLOSED))

    def _opens(self, stream: int) -> bool:
        """Return whether a new stream is served; if not, ignore or refuse it.

        Raises:
            ConnectionFault: the stream number is even.
        """
        link, goaway = self.link, self._goaway
        if not stream & 1:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a client's stream is odd")
        if stream <= link.last_stream or goaway.state is LAST_SENT:
            link.stray(stream)
            return False
        link.last_stream = stream
        link.opened += 1
        if self.base.stopping or self.base.port.insists:
            self._announce()
        if link.streams:
            goaway.multiplexed = True
        if len(link.streams) >= MAX_STREAMS:
            link.expect_late(STREAM_WINDOW)  # data may be on its way before the client learns this
            link.queue.write(frames.rst_stream(stream, ErrorCode.REFUSED_STREAM))
            return False
        return True

    def _refuse(self, number: int, error: FramingError, *, ended: bool) -> None:
        """Respond to a malformed or refused request; the response names the error, as in HTTP/1.

        RST_STREAM follows the response to a malformed request (RFC 9113 section 8.1.1). It waits
        for the end of the request if that comes soon, see ``on_half_closed``.

        Arguments:
            number: the stream of the request; ended: whether the request ends with its head.
            error: the error; it decides the status.
        """
        self.proxy.counters.bad_requests += 1
        stream = self.link.add_stream(number, ended=ended)
        if error.status == HTTPStatus.BAD_REQUEST:
            stream.fault = ErrorCode.PROTOCOL_ERROR
        response = negotiate(own_responses.refused(error.status, str(error)), error.block)
        self._respond(stream, response, bodiless=error.to_head)
        if error.status == HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE:
            self._count_reset()  # a small block can expand to megabytes; others cost as a 404 does

    def _begin(self, number: int, request: Request, ended: bool) -> None:
        stream = self.link.add_stream(number, ended=ended)
        side = ClientStream(self, stream)
        if request is not self._ordinary:
            response = self._early_response(request)
            if response is not None:
                response = negotiate(response, request.lines)
                self._respond(stream, response, bodiless=request.method == b"HEAD")
                return
            if ended:
                self._ordinary = request
        client_timeout = grpc.timeout(request.fields) if b"grpc-timeout" in request.fields else inf
        stream.owner = side
        if request.has_body:
            stream.missing = request.length
        exchange = side.exchange = Exchange(self.services, side, request, client_timeout)
        exchange.begin()

    def _early_response(self, request: Request) -> OwnResponse | None:
        """Return the response to a probe, or to a client beyond the limit; None for others."""
        if self.base.turned_away:
            self._plan_close()
            return self.proxy.too_many_connections()
        may_be_kubelet = request.section.find(KUBELET_AGENT) >= 0
        return probe_response(
            request,
            self.base.port,
            self.proxy.unhealthy,
            self.services.health,
            may_be_kubelet=may_be_kubelet,
        )

    def _respond(self, stream: Stream, response: OwnResponse, *, bodiless: bool) -> None:
        """Send the activator's own response to a request that reaches no revision."""
        block = section.own_response_block(response, self.services.date.value())
        self.send(stream, block, b"" if bodiless else response.body)
        self.watch(stream)

    def send(self, stream: Stream, block: bytes, body: bytes) -> None:
        """Send a whole response of the activator, and end its side of the stream."""
        self.link.write_headers(stream, block, ended=not body)
        if body:
            stream.send(body, b"")

    def watch(self, stream: Stream) -> None:
        """Watch a stream whose response is written, unless the stream has ended."""
        stream.owner = None
        if stream.id in self.link.streams:
            self.base.arm(self._blocked.watch(stream, self._clock()))

    def _on_trailers(self, stream: Stream, block: bytes, ended: bool) -> None:
        code = ErrorCode.STREAM_CLOSED if stream.peer_closed else ErrorCode.PROTOCOL_ERROR
        try:
            trailers = read_trailers(self.link.decoder.decode(block))
        except FramingError as error:
            self.on_stream_error(stream.id, code, str(error))
            return
        if not ended or stream.peer_closed or stream.missing > 0:
            self.on_stream_error(stream.id, code, "a header block inside or after the body")
            return
        self.link.peer_ended(stream)
        self.on_data(stream, b"", trailers)

    def on_data(self, stream: Stream, payload: bytes, trailers: bytes | None) -> None:
        owner = stream.owner
        if isinstance(owner, ClientStream):
            owner.on_data(payload, trailers)
        elif not stream.closed or self._blocked.discard(stream, len(payload)):
            stream.credit(len(payload))

    def on_half_closed(self, stream: Stream) -> None:
        """Watch a stream whose response is complete; the rest of the request is not needed.

        RFC 9113 section 8.1 allows to reset the stream at once. But httpx drops a response if the
        reset arrives before its request has ended, and curl 7.88 drops one that arrives with the
        reset. So the client may send the rest, within the limits of ``client.connection.Linger``.
        """
        self.base.arm(self._blocked.watch(stream, self._clock()))

    def on_reset(self, stream: Stream, owner: object | None, code: int) -> None:
        self._on_ended_early(stream)

    def on_stream_error(self, stream: int, code: ErrorCode, reason: str) -> None:
        if self.is_idle(stream):
            raise ConnectionFault(code, reason)  # an idle stream must not get RST_STREAM
        self.link.queue.write(frames.rst_stream(stream, code))
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
        """Cancel the request of a stream that was reset, and count the reset of a young stream.

        Without the count a client could request work faster than MAX_STREAMS allows. A stream that
        has its response has cost as much as any request.
        """
        owner, young = stream.owner, False
        if isinstance(owner, ClientStream):
            young = self._clock() < owner.exchange.ticket.arrived + _YOUNG
        self._cancel(stream)
        if young:
            self._count_reset()

    def _count_reset(self) -> None:
        """Count a reset; serve no more streams of a client with too many resets.

        The open streams are finished, since an ingress sends requests of many clients on one
        connection.

        Raises:
            ConnectionFault: the client has too many resets, and no stream is open.
        """
        link = self.link
        if self._resets.take(self._clock(), link.opened):
            return
        if self._goaway.state is LAST_SENT:
            link.idle_frame()
            return
        calm, reason = ErrorCode.ENHANCE_YOUR_CALM, "too many streams are reset"
        if not link.streams:
            raise ConnectionFault(calm, reason)
        self._send_last(calm, reason.encode())

    # -- the end: GOAWAY, then the last bytes, then the close -----------------------------------

    def on_stream_removed(self, stream: Stream) -> None:
        if self._blocked.streams:
            self._blocked.remove(stream)
        if self.link.streams:
            return
        goaway, base = self._goaway.state, self.base
        if goaway is LAST_SENT:
            self._close()
        elif (
            (base.stopping or base.port.reconnect or self.services.draining)
            and (goaway is NOT_SENT or goaway is CLOSE_PLANNED)
            and not self.link.is_ending()
        ):
            self._on_last_stream_ended()

    def _plan_close(self) -> None:
        """Close the connection of a client beyond the limit soon.

        A client that has sent one request gets GOAWAY in one write with its response, before it
        can begin another one. A client that has sent several gets each response first. It gets
        GOAWAY within a second, even if it begins more requests until then.
        """
        steps = self._goaway
        self.link.move(GOAWAY_DUE if steps.advance(CLOSE_PLANNED, self._clock()) else OPEN)
        self.base.arm(steps.due_at)

    def shutdown(self) -> None:
        """Finish the open streams, because the server stops.

        GOAWAY waits until the last stream ends, or until the client begins another one. The
        Python library h2, and so httpx, treats GOAWAY as the end of the connection, and loses each
        incomplete response.
        """
        self.base.stopping = True
        self._announce_if_idle()

    def _on_last_stream_ended(self) -> None:
        """Plan GOAWAY after the last stream has ended, on a connection that is to end.

        A client with one stream at a time gets GOAWAY before its next request, in one write with
        the end of that stream. httpx loses responses to concurrent requests if it reads a GOAWAY
        together with them. So a client with concurrent requests has a second to read them. During a
        lame duck it keeps its connection while the ports are open.
        """
        if not self._goaway.multiplexed:
            self.link.move(GOAWAY_DUE)
        if self.base.stopping or self.base.port.reconnect:
            self._goaway.wait_for_request(self._clock())
            self.base.arm(self._goaway.due_at)

    def on_goaway_due(self) -> None:
        """Send GOAWAY in the write that is about to happen.

        Unread bytes of the client may contain its next request. Then GOAWAY waits for the end of
        that request, or for a second when the server stops.
        """
        self.link.move(OPEN)
        if not peer_socket.count_unread(self.link.transport):
            self._announce_if_idle()

    def _announce_if_idle(self) -> None:
        """Announce the end to a client that has no stream open."""
        if not (self.link.streams or self.link.is_ending()):
            self._announce()

    def _announce(self) -> None:
        """Ask the client to open no more streams."""
        if not self.link.is_ending() and self._goaway.advance(ANNOUNCED, self._clock()):
            self.link.queue.write(frames.goaway(frames.MAX_31_BITS, ErrorCode.NO_ERROR))
            self.base.arm(self._goaway.due_at)

    def _send_last(self, code: ErrorCode = ErrorCode.NO_ERROR, reason: bytes = b"") -> None:
        """Send the GOAWAY that names the last stream.

        Arguments:
            code: the error code.
            reason: the debug data, for people.
        """
        if not self.link.is_ending() and self._goaway.advance(LAST_SENT, self._clock()):
            self.link.queue.write(frames.goaway(self.link.last_stream, code, reason))

    def _advance_goaway(self, now: float) -> float:
        """Send the GOAWAY that is due; return when to call this again, seconds."""
        step = self._goaway.due(now, idle=not self.link.streams)
        if self.link.is_ending():
            return inf
        if step is ANNOUNCED:
            self._announce()
        elif step is LAST_SENT:
            self._send_last()
            if not self.link.streams:
                self._close()
        return self._goaway.due_at

    # -- the close ------------------------------------------------------------------------------

    def _close(self) -> None:
        """Close at the end of this turn of the loop, behind its last bytes."""
        self.link.move(ENDING)
        asyncio.get_running_loop().call_soon(self._flush_and_close)

    def _flush_and_close(self) -> None:
        """Write all bytes that wait, and close."""
        self.link.flush()
        self._watch_unsent()
        self._linger()

    def _watch_unsent(self) -> None:
        """Watch the bytes that wait for a client that does not read, or whose connection ends."""
        self.base.watch_unsent_http2(ended=self.link.is_ending())

    def on_failed(self, fault: ConnectionFault) -> None:
        """Close after an error. Input is discarded first, so that the client gets the GOAWAY."""
        self._cancel_all()
        self.base.stop_watching()
        self._linger()
        asyncio.get_running_loop().call_later(CLOSE_SECONDS, self.link.transport.abort)

    def _linger(self) -> None:
        if not self.link.transport.is_closing():
            self.base.linger()

    def drain(self) -> None:
        """Respond to requests without a pod, because the time to wait for one is over."""
        for exchange in self._exchanges():
            exchange.drain()

    def force_end(self) -> None:
        """End every request, because the drain time is over."""
        for exchange in self._exchanges():
            exchange.force()
        self._send_last()
        self._flush_and_close()

    def may_be_evicted(self) -> bool:
        """Return whether no request is in progress, and no GOAWAY is planned."""
        link = self.link
        return self._goaway.state is NOT_SENT and not (
            link.streams or link.is_ending() or link.queue.full
        )

    def evict(self) -> bool:
        """Close for a new client. It may retry a request that crosses the GOAWAY."""
        self.shutdown()
        return True

    # -- time -----------------------------------------------------------------------------------

    def on_time(self, now: float) -> float:
        """Enforce the deadlines that have passed; return when to call this again, seconds.

        One timer serves all requests of the connection. Nearly all end long before their deadlines,
        and each deadline is later than the previous one.
        """
        link, exchanges = self.link, self._exchanges()
        when = self._advance_goaway(now)
        if link.is_ending() or (link.queue.full and not exchanges):
            return min(when, self.base.expire_unsent_http2(now, ended=link.is_ending()))
        if now >= link.late_at:
            link.fail(ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "a header block took too long"))
            return inf
        when = min([each.on_time(now) for each in exchanges] + [when])
        for stream in self._blocked.late(now):
            link.end(stream, stream.fault if stream.closed else ErrorCode.CANCEL)
        when = min(when, link.late_at, self._blocked.next())
        return min(when, now + self.proxy.header_timeout) if link.queue.full else when

    def on_incomplete_head(self, size: int) -> None:
        """Limit the time and the bytes of a header block in progress.

        A header block has the same time-out as an HTTP/1 head, however its pieces arrive. While
        ``last_stream`` is unchanged, the block in progress is the same one.
        """
        link = self.link
        if self._stream_before_block != link.last_stream or link.late_at == inf:
            self._stream_before_block = link.last_stream
            link.late_at = self._clock() + self.proxy.header_timeout
            self.base.arm(link.late_at)
        if link.is_ending() or self._block_charge.grow(size):
            return
        self.proxy.log_too_many_heads()
        calm = ErrorCode.ENHANCE_YOUR_CALM
        link.fail(ConnectionFault(calm, "too many header blocks in progress"))

    def on_complete_head(self) -> None:
        self._block_charge.release()


@final
class ClientStream(ClientSide):
    """One request of a client, as the client's side of its exchange.

    Arguments:
        client: the connection.
        stream: the stream.

    Attributes:
        exchange: the exchange, until it ends.
    """

    __slots__ = ("_client", "_stream", "_uncredited", "exchange")
    __deletable__ = ("exchange",)  # read by mypyc

    exchange: Exchange

    def __init__(self, client: Http2ClientConnection, stream: Stream) -> None:
        self.base = client.base
        self._client = client
        self._stream = stream
        self._uncredited = 0  # bytes of the request's body that no pod has accepted

    # -- the client -----------------------------------------------------------------------------

    def is_full(self) -> bool:
        return bool(self._stream.unsent)

    # -- the request ----------------------------------------------------------------------------

    def on_data(self, payload: bytes, trailers: bytes | None) -> None:
        """Handle a part of the request's body.

        Arguments:
            payload: the bytes.
            trailers: None while the request goes on; else its trailers.
        """
        self._uncredited += len(payload)
        ended = trailers is not None
        self.exchange.on_request_body([payload] if payload else [], ended, trailers or b"")

    def accepted(self, size: int) -> None:
        size = min(size, self._uncredited)
        self._uncredited -= size
        self._stream.credit(size)

    def regulate(self) -> None:
        """Do nothing: the window of the stream limits the client."""

    # -- the response ---------------------------------------------------------------------------

    def respond(
        self,
        response: Response | ResponseFields,
        raw: bytes | None,
        payload: list[bytes],
        ended: bool,
        trailers: bytes,
    ) -> None:
        assert isinstance(response, ResponseFields)
        exchange, stream = self.exchange, self._stream
        block = response.block
        if b"date" not in response.fields:
            block += _DATE + self._client.services.date.value()
        if exchange.added_lines:
            block += section.block_of(exchange.added_lines)
        bare = ended and not (payload or trailers)
        if not ended:
            # Few responses are translated, or follow an early head.
            pod = None if exchange.translation is not None else exchange.pod_side
            stream.on_accepted = exchange.accepted if pod is None else pod.accepted
        self._client.link.write_headers(stream, block, ended=bare)
        if payload or (ended and not bare):
            data = payload[0] if len(payload) == 1 else b"".join(payload)
            stream.send(data, trailers if ended else None)

    def send_body(self, payload: list[bytes], ended: bool, trailers: bytes) -> None:
        if ended:
            # The exchange may end now; unsent payload stays queued in the stream.
            self._stream.on_accepted = None
        data = payload[0] if len(payload) == 1 else b"".join(payload)
        self._stream.send(data, trailers if ended else None)

    def interim(self, response: Response | ResponseFields) -> None:
        """Pass on an interim response, unless the client does not read: it is optional."""
        assert isinstance(response, ResponseFields)
        link = self._client.link
        if not link.queue.full:
            link.write_headers(self._stream, response.block, ended=False)

    def send_continue(self) -> None:
        self._client.link.write_headers(self._stream, _CONTINUE, ended=False)

    def send_own_response(self, response: OwnResponse) -> None:
        date = self._client.services.date.value()
        if grpc.is_grpc(self.exchange.request.fields):
            block = section.grpc_block(response, date)
        else:
            block = section.own_response_block(response, date)
        self._client.send(self._stream, block, self.body_of(response))
        self._done()

    def body_of(self, response: OwnResponse) -> bytes:
        """Return the body; a gRPC client gets the error in the head, without a body."""
        exchange = self.exchange
        no_body = exchange.to_head or grpc.is_grpc(exchange.request.fields)
        return b"" if no_body else response.body

    def finished(self, now: float) -> None:
        self.base.idle_since = now
        stream = self._stream
        if stream.closed and stream.peer_closed:  # nearly always
            stream.owner = stream.on_accepted = None
            del self.exchange  # see cancel
        else:
            self._done()

    def break_off(self, outcome: str, code: int) -> None:
        """End the stream with the pod's error code; without one, a gRPC client gets trailers."""
        if not code and grpc.is_grpc(self.exchange.request.fields):
            self._stream.send(b"", section.grpc_status(*grpc.broken_off(outcome)))
        else:
            self._client.link.end(self._stream, code or _INTERNAL_ERROR)
        self._done()

    def cancel(self) -> None:
        """Cancel the exchange, because the stream was reset or the connection lost."""
        exchange = self.exchange
        del self.exchange  # breaks the cycle: nothing is left for the garbage collector
        self._stream.on_accepted = None
        exchange.leave()

    def _done(self) -> None:
        stream = self._stream
        # The client may read the response only after sending its request.
        stream.credit(self._uncredited)
        stream.on_accepted = None
        del self.exchange  # see cancel
        self._client.watch(stream)


def request_of(fields: RequestFields, client: bytes, *, ended: bool) -> Request:
    """Return the request of a header section.

    Arguments:
        fields: the parsed header section.
        client: the client's IP address.
        ended: whether the stream ends with the header section.

    Raises:
        FramingError: the stream ends, but Content-Length announces a body (RFC 9113 section 8.1.1).
    """
    by_name = fields.fields
    if not fields.forwarded:
        fields.forwarded = fields.block + section.forwarded(fields.authority, by_name, client)
    if ended and fields.length > 0:
        raise about(FramingError("the body does not have its content-length"), by_name)
    request = Request(
        fields.method,
        fields.path,
        HTTP_2,
        fields.authority,
        by_name,
        None,
        has_body=not ended,
        length=0 if ended else fields.length,
        expects_continue=not ended and by_name.get(b"expect", b"").lower() == b"100-continue",
        section=fields.forwarded,
    )
    if ended:
        fields.bodiless = request
    return request
