"""Implements the client's side of an exchange as a stream of an HTTP/2 connection."""

from __future__ import annotations

from typing import Final, final

from activator.proxy.client.blocked import BlockedStreams
from activator.proxy.client.connection import ClientConnection
from activator.proxy.exchange.client_side import ClientSide
from activator.proxy.exchange.exchange import Exchange
from activator.proxy.exchange.lookup import ClientPort
from activator.proxy.exchange.tunnel import SwitchingSide
from activator.proxy.http2 import section
from activator.proxy.http2.connection import Connection
from activator.proxy.http2.fields import RequestFields, ResponseFields, about
from activator.proxy.http2.frames import ErrorCode
from activator.proxy.http2.hpack import line, name_prefix, string
from activator.proxy.http2.stream import Stream
from activator.proxy.message import grpc
from activator.proxy.message.fields import HTTP_2
from activator.proxy.message.grammar import FramingError
from activator.proxy.message.own_responses import OwnResponse
from activator.proxy.message.request import Request
from activator.proxy.message.response import Response

_CONTINUE: Final = line(b":status", b"100")
_DATE: Final = name_prefix(b"date")
_INTERNAL_ERROR: Final = int(ErrorCode.INTERNAL_ERROR)


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
    if ended and fields.bodiless is not None:
        return fields.bodiless
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


@final
class StreamContext:
    """The objects that all streams of one connection share.

    Arguments:
        base: the common part of all client connections.
        link: the common part of all HTTP/2 connections.

    Attributes:
        blocked: streams that have their response and do not end.
        clock: returns the time, seconds.
        services: the objects that all exchanges share.
        timers: the timers of all connections.
    """

    __slots__ = ("base", "blocked", "clock", "link", "services", "timers")

    def __init__(self, base: ClientConnection, link: Connection) -> None:
        proxy = base.proxy
        self.base = base
        self.link = link
        self.blocked = BlockedStreams(proxy.header_timeout)
        self.clock = proxy.clock
        self.services = proxy.services
        self.timers = proxy.timers

    def exchange_done(self, stream: Stream) -> None:
        """Watch a stream whose response is written, unless the stream has ended."""
        stream.owner = None
        if stream.id in self.link.streams:
            self.base.arm(self.blocked.watch(stream, self.clock()))


@final
class ClientStream(ClientSide):
    """One request of a client, as the client's side of its exchange.

    Arguments:
        context: the objects that all streams share.
        stream: the stream.

    Attributes:
        exchange: the exchange, until it ends.
    """

    __slots__ = ("_context", "_stream", "_uncredited", "exchange")
    __deletable__ = ("exchange",)  # read by mypyc

    exchange: Exchange

    def __init__(self, context: StreamContext, stream: Stream) -> None:
        self._context = context
        self._stream = stream
        self._uncredited = 0  # bytes of the request's body that no pod has accepted

    # -- the client -----------------------------------------------------------------------------

    def port(self) -> ClientPort:
        """See ClientSide."""
        return self._context.base.port

    def address(self) -> bytes:
        """See ClientSide."""
        return self._context.base.address

    def peer(self) -> str:
        """See ClientSide."""
        return self._context.base.peer()

    def is_secure(self) -> bool:
        """See ClientSide."""
        return self._context.base.secure

    def is_full(self) -> bool:
        """See ClientSide."""
        return bool(self._stream.unsent)

    def may_send(self, now: float) -> bool:
        """See ClientSide. Reading goes on in HTTP/2, so the loop reports when a client leaves."""
        return True

    def is_gone(self) -> bool:
        """See ClientSide."""
        return False

    def drop(self) -> None:
        """See ClientSide."""

    def set_idle_since(self, now: float) -> None:
        """See ClientSide."""
        self._context.base.idle_since = now

    def arm(self, when: float) -> None:
        """See ClientSide."""
        context = self._context
        base = context.base
        if when < base.armed:
            context.timers.arm(base, when)

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

    def took(self, size: int) -> None:
        """See ClientSide."""
        size = min(size, self._uncredited)
        self._uncredited -= size
        self._stream.credit(size)

    def regulate(self) -> None:
        """See ClientSide. The window of the stream limits the client."""

    # -- the response ---------------------------------------------------------------------------

    def respond(
        self,
        response: Response | ResponseFields,
        raw: bytes | None,
        payload: list[bytes],
        ended: bool,
        trailers: bytes,
    ) -> None:
        """See ClientSide."""
        assert isinstance(response, ResponseFields)
        exchange, stream = self.exchange, self._stream
        block = response.block
        if b"date" not in response.fields:
            block += _DATE + string(self._context.services.date())
        if exchange.added_lines:
            block += section.block_of(exchange.added_lines)
        bare = ended and not (payload or trailers)
        if not ended:
            stream.on_sent = exchange.on_taken()
        self._context.link.write_headers(stream, block, ended=bare)
        if payload or (ended and not bare):
            data = payload[0] if len(payload) == 1 else b"".join(payload)
            stream.send(data, trailers if ended else None)

    def send_body(self, payload: list[bytes], ended: bool, trailers: bytes) -> None:
        """See ClientSide."""
        if ended:
            # The exchange may end now; unsent payload stays queued in the stream.
            self._stream.on_sent = None
        data = payload[0] if len(payload) == 1 else b"".join(payload)
        self._stream.send(data, trailers if ended else None)

    def interim(self, response: Response | ResponseFields) -> None:
        """See ClientSide. A client that does not read gets no interim response: it is optional."""
        assert isinstance(response, ResponseFields)
        link = self._context.link
        if not link.queue.full:
            link.write_headers(self._stream, response.block, ended=False)

    def send_continue(self) -> None:
        """See ClientSide."""
        self._context.link.write_headers(self._stream, _CONTINUE, ended=False)

    def send_own_response(self, response: OwnResponse) -> None:
        """See ClientSide."""
        date = self._context.services.date()
        body = self.body_of(response)
        if grpc.is_grpc(self.exchange.request.fields):
            block = section.grpc_block(response, date)
        else:
            block = section.own_response_block(response, date)
        self._context.link.write_headers(self._stream, block, ended=not body)
        if body:
            self._stream.send(body, b"")
        self._done()

    def body_of(self, response: OwnResponse) -> bytes:
        """See ClientSide. A gRPC client gets the error in the head, without a body."""
        exchange = self.exchange
        no_body = exchange.to_head or grpc.is_grpc(exchange.request.fields)
        return b"" if no_body else response.body

    def switching(self) -> SwitchingSide | None:
        """See ClientSide."""
        return None

    def finished(self, now: float) -> None:
        """See ClientSide."""
        self._context.base.idle_since = now
        stream = self._stream
        if stream.closed and stream.peer_closed:  # nearly always
            stream.owner = stream.on_sent = None
            del self.exchange  # see cancel
        else:
            self._done()

    def break_off(self, outcome: str, code: int) -> None:
        """See ClientSide. The client gets the pod's error code, and gRPC trailers without one."""
        if not code and grpc.is_grpc(self.exchange.request.fields):
            self._stream.send(b"", section.grpc_status(*grpc.broken_off(outcome)))
        else:
            self._context.link.end(self._stream, code or _INTERNAL_ERROR)
        self._done()

    def cancel(self) -> None:
        """Cancel the exchange, because the stream was reset or the connection lost."""
        exchange = self.exchange
        del self.exchange  # breaks the cycle: nothing is left for the garbage collector
        self._stream.on_sent = None
        exchange.leave()

    def _done(self) -> None:
        stream = self._stream
        # The client may read the response only after sending its request.
        stream.credit(self._uncredited)
        stream.on_sent = None
        del self.exchange  # see cancel
        self._context.exchange_done(stream)
