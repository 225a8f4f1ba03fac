"""A client's connection: requests are cut out of its bytes and answered in order, one at a time.

What a client sends ahead stays unread, or in one bounded buffer, until the request before it is
answered. Speaks HTTP/1.1 and HTTP/1.0; probes are answered here, before any revision is asked
for. Knative's counterpart: the handler chain of cmd/activator/main.go, which runs in this order:
kubelet's probe, ingress's probe, activator's probe, revision. What every connection has, whatever
is said on it, is in ``proxy.client.connection``.
"""

from __future__ import annotations

from asyncio import BaseTransport
from math import inf

from activator.proxy.client.connection import ClientConnection
from activator.proxy.client.head_reader import PartialHead
from activator.proxy.client.http2 import Http2Downstream
from activator.proxy.client.shared import Proxy
from activator.proxy.exchange.http1_exchange import Http1Exchange
from activator.proxy.exchange.probe_replies import may_be_kubelet, probe_reply
from activator.proxy.http2.errors import ConnectionFault, ErrorCode
from activator.proxy.http2.frames import PREFACE
from activator.proxy.message import replies
from activator.proxy.message.body import Body, LengthBody
from activator.proxy.message.grammar import FramingError
from activator.proxy.message.problem import negotiated
from activator.proxy.message.request import Request, body_of, read_request
from activator.proxy.message.version import HTTP_1_0, HTTP_1_1
from activator.proxy.transport import presence
from activator.proxy.transport.presence import ANSWER_WITHIN, Inquiry, Presence
from activator.proxy.transport.unread import Peer
from activator.tls import agreed

#: Bytes that a client may send ahead of its turn before we stop reading.
MAX_AHEAD = 64 << 10
#: The preface of HTTP/2 up to its first empty line: no request in HTTP/1 begins like this.
_HTTP2_HEAD = PREFACE[:18]


class Downstream(ClientConnection):
    """One connection of a client that speaks HTTP/1, or may come to speak HTTP/2."""

    __slots__ = (
        "_ahead",
        "_body",
        "_busy",
        "_exchange",
        "_head_only",
        "_inquiry",
        "_partial",
        "_reading",
        "_send_by",
        "_version",
    )

    def __init__(self, proxy: Proxy) -> None:
        super().__init__(proxy)
        self._inquiry: Inquiry | None = None
        self._reading = True
        self._busy = False
        # For the request that is being read, and what stands behind it.
        self._partial: PartialHead | None = None
        self._ahead = b""
        # For the request that is being answered.
        self._exchange: Http1Exchange | None = None
        self._body: Body | None = None
        self._head_only = False
        self._version = HTTP_1_1
        self._send_by = inf  # its request waits for the client's kernel until then

    # -- for the loop ---------------------------------------------------------------------------

    def connection_made(self, transport: BaseTransport) -> None:
        """See ClientConnection."""
        super().connection_made(transport)
        if self.secure and agreed.protocol(transport) == agreed.HTTP2:
            self._speak_http2(b"")

    def connection_lost(self, exc: Exception | None) -> None:
        """See ClientConnection."""
        super().connection_lost(exc)
        self._end_partial()
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
        elif self._partial is not None:
            self._read_partial(data)
        else:
            self._read(data)

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
            upstream = self._exchange.upstream
            # One without an owner has answered, and is in its pool for the next request.
            if upstream is not None and upstream.owner is not None:
                upstream.transport.pause_reading()

    def resume_writing(self) -> None:
        """See asyncio.Protocol."""
        self.full = False
        self.proxy.unread.hold(self, 0)
        if self._exchange is not None:
            self._exchange.touch()
            if self._exchange.upstream is not None:
                self._exchange.upstream.transport.resume_reading()
        elif not self._closed:
            self.regulate()
            self._go_on()

    def end_unread(self) -> tuple[Peer, str]:
        """See unread.Reader; what the kernel has not sent is dropped as well."""
        peer = self.peer()
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.on_client_gone()
        self._closed = True
        presence.reset(self.transport)
        self.transport.abort()
        return Peer.CLIENT, peer

    # -- reading --------------------------------------------------------------------------------

    def _read(self, data: bytes) -> None:
        """Read requests as long as each is answered at once; the rest of ``data`` is kept."""
        self._busy = True
        while data:
            end = data.find(b"\r\n\r\n") + 4
            if end < 4 or data[:2] == b"\r\n":
                data = self._odd_beginning(data, end)
                continue
            if self._new_since > -inf and data[:end] == _HTTP2_HEAD and self._may_be_http2():
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
            if self._exchange is not None or self._closed or self.full:
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
        self._partial = PartialHead(self.proxy.request_limits, now)
        self._arm(now + self.head_timeout)
        self._read_partial(data)
        return b""

    def _may_be_http2(self) -> bool:
        """Whether no handshake has settled on HTTP/1."""
        return not (self.secure and agreed.protocol(self.transport))

    def _speak_http2(self, data: bytes) -> None:
        """Leave the connection to HTTP/2 (RFC 9113 section 3.4)."""
        self._leave_place()
        self._closed = True
        successor = Http2Downstream(self)
        successor.full = self.full  # over TLS, tickets may still wait for the kernel
        self.proxy.connections.add(successor)
        if self.turned_away:
            self.proxy.turned_away.add(successor)
        else:
            self.proxy.eviction.came(successor, http2=True)
        self.transport.set_protocol(successor)
        if self.secure and not agreed.is_adequate(self.transport):
            successor.fail(ConnectionFault(ErrorCode.INADEQUATE_SECURITY, "a weak cipher suite"))
        elif data:
            successor.data_received(data)

    def _read_partial(self, data: bytes) -> None:
        """Add to a head that is not complete."""
        partial, heads = self._partial, self.proxy.unfinished_heads
        assert partial is not None
        try:
            whole = partial.feed(data)
        except FramingError as error:
            self._refuse(error)
            return
        if whole:
            self._end_partial()
            self._read(whole)
        elif heads.grow(partial.counted, partial.size):
            partial.counted = partial.size
        else:
            self._read_no_more()
            self._head_only = False
            self.reply(self.proxy.too_many_unfinished(), keep_alive=False)

    def _end_partial(self) -> None:
        """Forget a head that is not complete, or is by now."""
        partial, self._partial = self._partial, None
        if partial is not None:
            self.proxy.unfinished_heads.end(partial.counted)

    def _read_no_more(self) -> None:
        """Forget what has come, and whatever else comes: where a request begins is unknown."""
        self._end_partial()
        self._partial = PartialHead(self.proxy.request_limits, 0.0)
        self._ahead = b""

    def _begin(self, request: Request) -> None:
        if self._new_since > -inf:
            self._new_since = -inf
            if not self.turned_away:
                self.proxy.eviction.asked(self)
        self._head_only = request.method == b"HEAD"
        self._version = request.version
        special = request.fields or may_be_kubelet(request.lines)
        if special and (reply := probe_reply(request, self.proxy.unhealthy)) is not None:
            self._body = body_of(request) if request.has_body else None
            self.idle_since = self.proxy.clock()
            keep_alive = request.keep_alive and not self.turned_away
            self.reply(negotiated(reply, request.lines), keep_alive=keep_alive)
            return
        if self.turned_away:
            self._body = body_of(request) if request.has_body else None
            reply = negotiated(self.proxy.too_many_connections(), request.lines)
            self.reply(reply, keep_alive=False)
            return
        exchange = self._exchange = Http1Exchange(self, request)
        self._body = body_of(request) if request.has_body else None
        if self._body is not None and self._ahead:
            # What came with the head goes out with the head: one system call instead of two.
            ahead, self._ahead = self._ahead, b""
            self._read_body(ahead)
            if self._exchange is not exchange:
                return
        exchange.begin()
        if self._body is not None and self._exchange is exchange:
            self.regulate()

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
        """Read from the client as long as somebody has a use for it."""
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
        self._arm(self._inquiry.next(self.proxy.clock()))

    def take_early(self) -> bytes:
        """Return what the client sent behind its request; the connection is then the caller's."""
        early, self._ahead = self._ahead, b""
        self.proxy.unread.hold(self, 0)
        return early

    # -- writing --------------------------------------------------------------------------------

    def reply(self, reply: replies.Reply, *, keep_alive: bool = True) -> None:
        """Answer the present request ourselves."""
        last = self._stopping or self.proxy.draining or (self._eof and not self._ahead)
        keep_alive = keep_alive and self._body is None and not last
        self.write(
            reply.render(
                date=self.proxy.date(),
                head_only=self._head_only,
                keep_alive=keep_alive,
                version=self._version,
            )
        )
        self.exchange_done(keep_alive)

    def exchange_done(self, keep_alive: bool) -> None:
        """The present request is answered: close, or go on with the next."""
        self._exchange = None
        self._send_by = inf
        if not keep_alive or self._stopping or (self._eof and not self._ahead):
            self._close()
            return
        if self.full:
            self._watch_unsent()
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
        if self._closed or self.transport.is_closing():
            return
        self._closed = True
        self._watch_unsent()
        unread = self._body is not None or self._partial is not None or self._ahead
        if (unread or not self._reading) and not self._eof:
            self._linger()
        else:
            self._end()

    def _refuse(self, error: FramingError) -> None:
        """Answer what is not a request, and close."""
        self.proxy.counters.bad_requests += 1
        exchange, self._exchange = self._exchange, None
        answering = exchange is not None and exchange.answering
        if exchange is not None:
            exchange.on_client_gone()
        self._read_no_more()
        if answering:
            self.abort()
            return
        self._head_only = False
        block = error.block if exchange is None else exchange.request.lines
        reply = negotiated(replies.refused(error.status, str(error)), block)
        self.reply(reply, keep_alive=False)

    def abort(self) -> None:
        """Break the connection: what was sent of the answer is not all of it."""
        self._exchange = None
        self._closed = True
        if self._version is HTTP_1_0:
            presence.reset(self.transport)  # its end would pass for the answer's
        self.transport.abort()

    # -- time -----------------------------------------------------------------------------------

    def on_time(self, now: float) -> float:
        """See timers.Timed."""
        if self._closed or (self.full and self._exchange is None):
            return self._give_up_unsent(now)
        if self.transport.is_closing():
            return inf
        if self._exchange is not None:
            later = self._exchange.on_time(now)
            unseen = self._eof or not self._reading or self._send_by < inf
            return min(later, self._look(now)) if unseen else later
        if self._partial is None:
            return self._end_unused(now)
        late_at = self._partial.since + self.head_timeout
        if now < late_at:
            return late_at
        self._refuse(FramingError("the request head took too long", 408))
        return inf

    def may_send(self, now: float) -> bool:
        """Look at the client right before a pod gets its request, which has waited.

        Returns:
            Whether to send it now. If not, the client has left and its connection is broken, or
            its kernel has yet to answer, and ``Http1Exchange.resume`` follows.
        """
        if not presence.has_ended(self.transport):
            return True
        inquiry = self._inquiry = self._inquiry or Inquiry()
        ask = self._ask if self._version else None
        found = inquiry.before_sending(self.transport, self._missing(), ask, now)
        if found is Presence.GONE:
            self.transport.abort()
        elif found is Presence.PENDING:
            self._send_by = now + ANSWER_WITHIN
            inquiry.hurry()
            self._arm(inquiry.next(now))
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
        mute = exchange.answering or self._version is HTTP_1_0
        if self._inquiry.is_over(transport, self._missing(), None if mute else self._ask, now):
            transport.abort()
            return inf
        if self._send_by < inf and (now >= self._send_by or self._inquiry.is_answered(transport)):
            self._send_by = inf
            self._inquiry.restart()
            exchange.resume(now)
        when = self._inquiry.next(now)
        self._arm(when)
        return when

    def _ask(self) -> None:
        """A 100 may be sent at any time (RFC 9110 section 15.2), and costs a living client
        nothing."""
        self.write(replies.CONTINUE)

    # -- for the eviction -----------------------------------------------------------------------

    def may_leave(self) -> bool:
        """See eviction.Guest."""
        busy = self._exchange is not None or self._body is not None or self._partial is not None
        ending = self._closed or self._stopping or self.transport.is_closing()
        return not (busy or ending or self._ahead or self.full)

    # -- the end --------------------------------------------------------------------------------

    def shutdown(self) -> None:
        """Called by uvicorn when the server stops: the present request is finished, no other.

        One that has come in part is present; and one that the client sent while it took an answer.
        """
        self._stopping = True
        if self._exchange is None and self._partial is None and not self._ahead:
            self._end_unless_new()

    def drain(self) -> None:
        """The time to wait is over: a request that has no pod is told so."""
        if self._exchange is not None:
            self._exchange.drain()
        elif self._partial is not None and not self._closed:
            self._head_only = False
            self.reply(replies.draining("the request had not come in full"), keep_alive=False)

    def cut(self) -> None:
        """The time to finish is over: a request without an answer is told so, the rest is cut."""
        if self._exchange is not None:
            self._exchange.cut()
        else:
            self.transport.abort()
