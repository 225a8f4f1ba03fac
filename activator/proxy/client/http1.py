"""A client's connection: requests are cut out of its bytes and answered in order, one at a time.

What a client sends ahead stays unread, or in one bounded buffer, until the request before it is
answered. Speaks HTTP/1.1 and HTTP/1.0; probes are answered here, before any revision is asked
for. Knative's counterpart: the handler chain of cmd/activator/main.go, which runs in this order:
kubelet's probe, ingress's probe, activator's probe, revision. What every connection has, whatever
is said on it, is in ``proxy.client.connection``.
"""

from __future__ import annotations

import asyncio
from enum import Enum
from math import inf
from typing import Final, cast, final

from activator.proxy.client.connection import ClientConnection
from activator.proxy.client.head_reader import PartialHead
from activator.proxy.client.http2 import Http2Client
from activator.proxy.client.shared import Proxy
from activator.proxy.exchange.exchange import Exchange
from activator.proxy.exchange.probe_replies import may_be_kubelet, probe_reply
from activator.proxy.exchange.sides import ClientSide, SwitchingSide
from activator.proxy.exchange.states import ANSWERING, TUNNEL
from activator.proxy.http2.errors import ConnectionFault, ErrorCode
from activator.proxy.http2.fields import ResponseFields
from activator.proxy.http2.frames import PREFACE
from activator.proxy.message import replies
from activator.proxy.message.body import Body, LengthBody
from activator.proxy.message.grammar import FramingError
from activator.proxy.message.problem import negotiated
from activator.proxy.message.reframed import Reframed
from activator.proxy.message.request import Request, body_of, read_request
from activator.proxy.message.response import Response, interim_head, switching_head
from activator.proxy.message.version import HTTP_1_0, HTTP_1_1
from activator.proxy.transport import presence
from activator.proxy.transport.presence import ANSWER_WITHIN, Inquiry, Presence
from activator.proxy.transport.unread import Peer, UnreadBytes
from activator.tls import agreed

#: Bytes that a client may send ahead of its turn before we stop reading.
MAX_AHEAD: Final = 64 << 10
#: The preface of HTTP/2 up to its first empty line: no request in HTTP/1 begins like this.
_HTTP2_HEAD: Final = PREFACE[:18]


class Input(Enum):
    """What is done with bytes that a client sends where no request is being answered.

    HEADS: requests are cut out of them. IN_HEAD: a request head is in progress. DISCARDED: where a
    request begins is unknown, so nothing is read any more.
    """

    HEADS = "heads"
    IN_HEAD = "in-head"
    DISCARDED = "discarded"


_HEADS: Final = Input.HEADS
_IN_HEAD: Final = Input.IN_HEAD
_DISCARDED: Final = Input.DISCARDED


@final
class Http1Client(ClientSide):
    """A client's connection in HTTP/1, or one that may come to speak HTTP/2.

    Attributes:
        base: what every client connection has.
        full: the client does not take what has been written for it.
    """

    __slots__ = (
        "_ahead",
        "_answer",
        "_body",
        "_busy",
        "_eof",
        "_exchange",
        "_head",
        "_input",
        "_inquiry",
        "_keep_alive",
        "_reading",
        "_request",
        "_send_by",
        "_version",
        "base",
        "full",
        "proxy",
        "transport",
    )

    transport: asyncio.Transport

    def __init__(self, proxy: Proxy) -> None:
        self.proxy = proxy
        self.base = ClientConnection(proxy, self)
        self.full = False
        self._eof = False  # the client has ended its sending side
        self._inquiry: Inquiry | None = None
        self._reading = True
        self._busy = False
        # For the request that is being read, and what stands behind it.
        self._input = _HEADS
        self._head: PartialHead | None = None
        self._ahead = b""
        # For the request that is being answered.
        self._exchange: Exchange | None = None
        self._request: Request | None = None  # None where what came is no request
        self._version = HTTP_1_1
        self._body: Body | None = None
        self._keep_alive = True
        self._answer: Reframed | None = None
        self._send_by = inf  # its request waits for the client's kernel until then

    # -- for the loop ---------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        self.transport = cast(asyncio.Transport, transport)
        self.base.made(self.transport)
        if self.base.secure and agreed.protocol(transport) == agreed.HTTP2:
            self._speak_http2(b"")

    def connection_lost(self, exc: Exception | None) -> None:
        """See ClientConnection."""
        self.proxy.unread.hold(self, 0)
        self.base.lost()
        self._end_head()
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.on_client_gone()

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        if self._body is not None:
            self._read_body(data)
        elif self._exchange is not None or self.full:
            self._ahead += data
            self.regulate()
        elif self._input is _HEADS:
            self._read(data)
        elif self._input is _IN_HEAD:
            self._read_in_head(data)

    def eof_received(self) -> bool:
        """See asyncio.Protocol. Half-closed is not gone: a client may still want its answer."""
        self._eof = True
        if presence.is_tls(self.transport):
            # What was written still goes out; an answer that is not complete never will.
            if self._exchange is not None:
                self.transport.abort()
            return False
        return self._half_closed()

    def _half_closed(self) -> bool:
        """Go on after the client ended its sending side; return whether it is owed an answer."""
        if self._exchange is None:
            return self.full and self._ahead != b""
        if self._body is not None:
            self._refuse(FramingError("the body is shorter than announced"))
            return True
        if self._version is HTTP_1_0:
            return False  # cannot be asked (see _look), and none of that age half-closes
        # Once an answer has begun, no 100 can be sent: then the kernel asks.
        presence.keep_asking(self.transport)
        if self._inquiry is not None:
            self._inquiry.restart()
        self._look(self.proxy.clock())
        return True

    def pause_writing(self) -> None:
        """See asyncio.Protocol: the client reads slower than the pod sends."""
        self.full = True
        self.proxy.unread.hold(self, presence.count_held(self.transport))
        if self._exchange is not None:
            self._exchange.on_client_room(True)

    def resume_writing(self) -> None:
        """See asyncio.Protocol."""
        self.full = False
        self.proxy.unread.hold(self, 0)
        if self._exchange is not None:
            self._exchange.on_client_room(False)
        elif not self.base.closed:
            self.regulate()
            self._go_on()

    def end_unread(self) -> tuple[Peer, str]:
        """See unread.Reader; what the kernel has not sent is dropped as well."""
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.on_client_gone()
        return self.base.end_unread()

    # -- reading --------------------------------------------------------------------------------

    def _read(self, data: bytes) -> None:
        """Read requests as long as each is answered at once; the rest of ``data`` is kept."""
        self._busy = True
        while data:
            end = data.find(b"\r\n\r\n") + 4
            if end < 4 or data[:2] == b"\r\n":
                data = self._odd_beginning(data, end)
                continue
            if self.base.new_since > -inf and data[:end] == _HTTP2_HEAD and self._may_be_http2():
                self._speak_http2(data)
                break
            try:
                request = read_request(
                    data if end == len(data) else data[:end], self.proxy.request_limits
                )
            except FramingError as error:
                self._refuse(error)
                break
            self._ahead = data[end:]
            self._begin(request)
            if self._exchange is not None or self.base.closed or self.full:
                break
            if self.transport.is_closing():
                break
            data, self._ahead = self._ahead, b""
        self._busy = False
        if self._ahead:
            self.regulate()

    def _odd_beginning(self, data: bytes, end: int) -> bytes:
        """Deal with an empty line before a request (RFC 9112 section 2.2), or an unfinished head;
        return what is left to read."""
        if data[:2] == b"\r\n" and len(data) > 2:
            if data[2:4] == b"\r\n":
                self._refuse(FramingError("more than one empty line before the request"))
                return b""
            return data[2:]
        now = self.proxy.clock()
        self._input = _IN_HEAD
        self._head = PartialHead(self.proxy.request_limits, now)
        self.base.arm(now + self.base.head_timeout)
        self._read_in_head(data)
        return b""

    def _may_be_http2(self) -> bool:
        """Whether no handshake has settled on HTTP/1."""
        return not (self.base.secure and agreed.protocol(self.transport))

    def _speak_http2(self, data: bytes) -> None:
        """Leave the connection to HTTP/2 (RFC 9113 section 3.4)."""
        successor = Http2Client(self.base, full=self.full)
        self.proxy.unread.hold(self, 0)
        self.base.speak_http2(successor)
        self.transport.set_protocol(successor.protocol())
        successor.begin()
        if self.base.secure and not agreed.is_adequate(self.transport):
            successor.fail(ConnectionFault(ErrorCode.INADEQUATE_SECURITY, "a weak cipher suite"))
        elif data:
            successor.received(data)

    def _read_in_head(self, data: bytes) -> None:
        """Add to a head that is in progress."""
        head, heads = self._head, self.proxy.unfinished_heads
        assert head is not None
        try:
            whole = head.feed(data)
        except FramingError as error:
            self._refuse(error)
            return
        if whole:
            self._end_head()
            self._read(whole)
        elif heads.grow(head.counted, head.size):
            head.counted = head.size
        else:
            self._read_no_more()
            self._own_reply(self.proxy.too_many_unfinished(), keep_alive=False)

    def _end_head(self) -> None:
        """Forget a head that was in progress, and is whole or of no use."""
        head, self._head = self._head, None
        if head is not None:
            self._input = _HEADS
            self.proxy.unfinished_heads.end(head.counted)

    def _read_no_more(self) -> None:
        """Discard what has come, and whatever else comes: where a request begins is unknown."""
        self._end_head()
        self._input = _DISCARDED
        self._request = None
        self._ahead = b""

    def _begin(self, request: Request) -> None:
        base = self.base
        if base.new_since > -inf:
            base.asked()
        self._request = request
        self._version = request.version
        special = request.fields or may_be_kubelet(request.lines)
        if special and (reply := probe_reply(request, self.proxy.unhealthy)) is not None:
            self._body = body_of(request) if request.has_body else None
            base.idle_since = self.proxy.clock()
            keep_alive = request.keep_alive and not base.turned_away
            self._own_reply(negotiated(reply, request.lines), keep_alive=keep_alive)
            return
        if base.turned_away:
            self._body = body_of(request) if request.has_body else None
            reply = negotiated(self.proxy.too_many_connections(), request.lines)
            self._own_reply(reply, keep_alive=False)
            return
        self._keep_alive = request.keep_alive
        self._answer = None
        exchange = self._exchange = Exchange(self.proxy.services, self, request)
        self._body = None
        if request.has_body:
            self._body = body_of(request)
            if self._ahead:
                # What came with the head goes out with the head: one system call, not two.
                ahead, self._ahead = self._ahead, b""
                self._read_body(ahead)
                if not self._is_current(exchange):
                    return
        exchange.begin()
        if self._body is not None and self._is_current(exchange):
            self.regulate()

    def _is_current(self, exchange: Exchange) -> bool:
        """Return whether an exchange has not ended yet."""
        return self._exchange is exchange

    def _read_body(self, data: bytes) -> None:
        body, exchange = self._body, self._exchange
        assert body is not None
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
        if exchange is not None:
            exchange.on_request_body(payload, complete, body.trailers)
        self.regulate()

    def regulate(self) -> None:
        """Read from the client as long as what it sends can be used; see ClientSide."""
        exchange = self._exchange
        if exchange is None:
            wanted = not self.full
        elif self._body is not None:
            wanted = exchange.wants_body()
        else:
            wanted = len(self._ahead) < MAX_AHEAD
        if wanted is not self._reading and not self.transport.is_closing() and not self._eof:
            self._reading = wanted
            if wanted:
                self.transport.resume_reading()
            else:
                self.transport.pause_reading()
                self._expect_silence()

    def _expect_silence(self) -> None:
        """The loop will not tell if this client leaves: see for ourselves now and then."""
        if self._exchange is None:
            return
        if self._inquiry is None:
            self._inquiry = Inquiry()
        self._inquiry.restart()
        self.base.arm(self._inquiry.next(self.proxy.clock()))

    # -- ClientSide: who asked ------------------------------------------------------------------

    def address(self) -> bytes:
        """See ClientSide."""
        return self.base.address

    def peer(self) -> str:
        """See ClientSide."""
        return self.base.peer()

    def is_secure(self) -> bool:
        """See ClientSide."""
        return self.base.secure

    def is_full(self) -> bool:
        """See ClientSide."""
        return self.full

    def is_gone(self) -> bool:
        """See ClientSide."""
        return presence.is_gone(self.transport)

    def drop(self) -> None:
        """See ClientSide."""
        self.transport.abort()

    def set_idle_since(self, now: float) -> None:
        """See ClientSide."""
        self.base.idle_since = now

    def took(self, size: int) -> None:
        """See ClientSide."""
        self.regulate()

    def arm(self, when: float) -> None:
        """See ClientSide."""
        base = self.base
        if when < base.armed:
            self.proxy.timers.arm(base, when)

    # -- ClientSide: the response ---------------------------------------------------------------

    def write(self, data: bytes) -> None:
        """Send bytes to the client; a client that has left is found by connection_lost."""
        if not self.transport.is_closing():
            self.transport.write(data)

    def respond(
        self,
        response: Response | ResponseFields,
        raw: bytes | None,
        payload: list[bytes],
        ended: bool,
        trailers: bytes,
    ) -> None:
        """See ClientSide."""
        assert isinstance(response, Response)
        exchange = self._exchange
        assert exchange is not None
        if self.proxy.services.draining:
            self._keep_alive = False
        elif not exchange.body.complete:
            revision = exchange.entry.throttler.revision
            # The rest of the request is unread: what follows on this connection is its body.
            self._keep_alive = self._keep_alive and not ended and revision.full_duplex
        if (
            raw is not None
            and response.plain
            and self._keep_alive
            and not exchange.notes
            and self._version is not HTTP_1_0
        ):
            self.write(response.as_it_came(raw))
        else:
            self.write(self._reframed(response, exchange.notes, payload, ended, trailers))

    def _reframed(
        self,
        response: Response,
        notes: bytes,
        payload: list[bytes],
        ended: bool,
        trailers: bytes,
    ) -> bytes:
        """Return a head that differs from the pod's, and the payload that came with it."""
        answer = self._answer = Reframed(response, self._version, notes)
        if answer.ends_connection:
            self._keep_alive = False
        data = answer.head(close=not self._keep_alive, date=self.proxy.date())
        data += answer.payload(payload)
        if ended and response.body is not None:
            data += answer.end(trailers or response.body.trailers)
        return data

    def send_body(self, payload: list[bytes], ended: bool, trailers: bytes) -> None:
        """See ClientSide."""
        if self._answer is None:
            data = payload[0] if len(payload) == 1 else b"".join(payload)
        else:
            data = self._answer.payload(payload)
            if ended:
                data += self._answer.end(trailers)
        if data:
            self.write(data)

    def interim(self, response: Response | ResponseFields) -> None:
        """See ClientSide."""
        assert isinstance(response, Response)
        self.write(interim_head(response))

    def send_continue(self) -> None:
        """See ClientSide; a 100 may be sent at any time (RFC 9110 section 15.2), and costs a
        living client nothing."""
        self.write(replies.CONTINUE)

    def reply(self, reply: replies.Reply) -> None:
        """See ClientSide."""
        self._own_reply(reply, keep_alive=self._keep_alive)

    def body_of(self, reply: replies.Reply) -> bytes:
        """See ClientSide."""
        return reply.body

    def finished(self, now: float) -> None:
        """See ClientSide."""
        self.base.idle_since = now
        exchange = self._exchange
        complete = exchange is not None and exchange.body.complete
        self.exchange_done(self._keep_alive and complete)

    def break_off(self, outcome: str, code: int) -> None:
        """See ClientSide."""
        self.abort()

    def _own_reply(self, reply: replies.Reply, *, keep_alive: bool) -> None:
        """Answer the present request ourselves."""
        last = self.base.stopping or self.proxy.draining or (self._eof and not self._ahead)
        keep_alive = keep_alive and self._body is None and not last
        request = self._request
        self.write(
            reply.render(
                date=self.proxy.date(),
                head_only=request is not None and request.method == b"HEAD",
                keep_alive=keep_alive,
                version=self._version,
            )
        )
        self.exchange_done(keep_alive)

    # -- SwitchingSide --------------------------------------------------------------------------

    def switching(self) -> SwitchingSide | None:
        """See ClientSide."""
        return self

    def switch(self, response: Response, notes: bytes) -> None:
        """See SwitchingSide."""
        self.write(switching_head(response, notes))

    def take_over(self) -> tuple[asyncio.Transport, bytes]:
        """See SwitchingSide."""
        early, self._ahead = self._ahead, b""
        self.proxy.unread.hold(self, 0)
        return self.transport, early

    def is_stopped(self) -> bool:
        """See SwitchingSide."""
        return self.full

    def unread_bytes(self) -> UnreadBytes:
        """See SwitchingSide."""
        return self.proxy.unread

    def who(self) -> tuple[Peer, str]:
        """See SwitchingSide."""
        return Peer.CLIENT, self.peer()

    # -- between requests -----------------------------------------------------------------------

    def exchange_done(self, keep_alive: bool) -> None:
        """The present request is answered: close, or go on with the next."""
        self._exchange = None
        self._send_by = inf
        if not keep_alive or self.base.stopping or (self._eof and not self._ahead):
            self._close()
            return
        if self.full:
            self.base.watch_unsent()
        if not self._reading or self.full:
            self.regulate()
        if self._ahead:
            self._go_on()

    def _go_on(self) -> None:
        """Read what the client has sent ahead, unless it has to take its answers first."""
        if not self._ahead or self._busy or self.full:
            return
        ahead, self._ahead = self._ahead, b""
        self._read(ahead)
        if self._eof and not self._half_closed():
            self._close()

    def _close(self) -> None:
        """Close behind the last answer; a request that is not read to its end is drained first,
        lest the kernel resets the connection before the client has read the answer."""
        if self.base.closed or self.transport.is_closing():
            return
        self.base.closed = True
        self.base.watch_unsent()
        reads_more = self._reading and self._input is _HEADS
        if (self._body is not None or self._ahead or not reads_more) and not self._eof:
            self.base.linger()
            self.base.await_tls_end()
        else:
            self.base.end()

    def _refuse(self, error: FramingError) -> None:
        """Answer what is not a request, and close."""
        self.proxy.counters.bad_requests += 1
        exchange, self._exchange = self._exchange, None
        block = error.block
        if exchange is not None:
            answering = exchange.state in ANSWERING
            block = exchange.request.lines
            exchange.on_client_gone()
            if answering:
                self._read_no_more()
                self.abort()
                return
        self._read_no_more()
        reply = negotiated(replies.refused(error.status, str(error)), block)
        self._own_reply(reply, keep_alive=False)

    def abort(self) -> None:
        """Break the connection: what was sent of the answer is not all of it."""
        self._exchange = None
        self.base.closed = True
        if self._version is HTTP_1_0:
            presence.reset(self.transport)  # its end would pass for the answer's
        self.transport.abort()

    # -- time -----------------------------------------------------------------------------------

    def on_time(self, now: float) -> float:
        """See timers.Timed."""
        if self.base.closed or (self.full and self._exchange is None):
            return self.base.give_up_unsent(now)
        if self.transport.is_closing():
            return inf
        if self._exchange is not None:
            later = self._exchange.on_time(now)
            unseen = self._eof or not self._reading or self._send_by < inf
            return min(later, self._look(now)) if unseen else later
        head = self._head
        if head is None:
            return self.base.end_unused(now)
        late_at = head.since + self.base.head_timeout
        if now < late_at:
            return late_at
        self._refuse(FramingError("the request head took too long", 408))
        return inf

    def may_send(self, now: float) -> bool:
        """See ClientSide: look at the client right before a pod gets its request."""
        if not presence.has_ended(self.transport):
            return True
        inquiry = self._inquiry = self._inquiry or Inquiry()
        ask = self.send_continue if self._version else None
        found = inquiry.before_sending(self.transport, self._missing(), ask, now)
        if found is Presence.GONE:
            self.transport.abort()
        elif found is Presence.PENDING:
            self._send_by = now + ANSWER_WITHIN
            inquiry.hurry()
            self.base.arm(inquiry.next(now))
        return found is Presence.HERE

    def _missing(self) -> int:
        """Return how many bytes of the request were announced and not read."""
        return self._body.remaining if isinstance(self._body, LengthBody) else 0

    def _look(self, now: float) -> float:
        """Find out whether a client of which the loop tells nothing is there; return when next."""
        exchange, transport = self._exchange, self.transport
        if exchange is None or transport.is_closing():
            return inf
        if self._inquiry is None:
            self._inquiry = Inquiry()
        mute = exchange.state in ANSWERING or self._version is HTTP_1_0
        ask = None if mute else self.send_continue
        if self._inquiry.is_over(transport, self._missing(), ask, now):
            transport.abort()
            return inf
        if self._send_by < inf and (now >= self._send_by or self._inquiry.is_answered(transport)):
            self._send_by = inf
            self._inquiry.restart()
            exchange.resume(now)
        when = self._inquiry.next(now)
        self.base.arm(when)
        return when

    # -- for the eviction -----------------------------------------------------------------------

    def may_leave(self) -> bool:
        """See eviction.Guest."""
        busy = self._exchange is not None or self._body is not None or self._input is not _HEADS
        ending = self.base.closed or self.base.stopping or self.transport.is_closing()
        return not (busy or ending or self._ahead or self.full)

    def leave(self) -> bool:
        """See eviction.Guest."""
        self.base.end()
        return True

    # -- the end --------------------------------------------------------------------------------

    def shutdown(self) -> None:
        """See Speaker: the present request is finished, no other.

        One that has come in part is present; and one that the client sent while it took a
        response.
        """
        if self._exchange is None and self._input is not _IN_HEAD and not self._ahead:
            self.base.end_unless_new()

    def drain(self) -> None:
        """See Speaker."""
        exchange = self._exchange
        if exchange is not None:
            self._keep_alive = False
            exchange.drain()
        elif self._input is _IN_HEAD and not self.base.closed:
            self._request = None
            reply = replies.draining("the request had not come in full")
            self._own_reply(reply, keep_alive=False)

    def cut(self) -> None:
        """See Speaker."""
        exchange = self._exchange
        if exchange is None:
            self.transport.abort()
            return
        self._keep_alive = False
        if exchange.state is not TUNNEL:
            exchange.cut()
            return
        # With an end of the stream where nothing is left to send, or it seems a fault.
        self.transport.abort() if self.transport.get_write_buffer_size() else self.transport.close()
