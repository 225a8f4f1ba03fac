"""A request in HTTP/1 and its answer: what of it goes to the pod, and what comes back.

Between a downstream (the client's connection) and an upstream (a pod's). What HTTP/2 has in
common with it is in ``proxy.exchange.exchange``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from activator.proxy.exchange import retry
from activator.proxy.exchange.exchange import Exchange
from activator.proxy.exchange.observers import lines_to_send
from activator.proxy.exchange.queue_proxy import DOUBTFUL, claim_of, own_failure
from activator.proxy.exchange.request_body import NO_BODY
from activator.proxy.exchange.tunnel import tunnel
from activator.proxy.message import replies
from activator.proxy.message.reframed import Reframed
from activator.proxy.message.request import Request, pod_head
from activator.proxy.message.response import Response, interim_head, switching_head
from activator.proxy.transport import presence
from throttler.ticket import ASSIGNED

if TYPE_CHECKING:  # a downstream makes exchanges
    from activator.proxy.client.http1 import Downstream
    from activator.proxy.pods.http1 import Upstream


#: Bytes of a body that a pod's kernel takes whether or not the pod reads (Linux: 64 KiB at first).
_FITS_ANY_WINDOW = 32 << 10


class Http1Exchange(Exchange):
    """One request and its answer.

    Attributes:
        to_head: the request is a HEAD, see upstream.Answered.
        paused: the pod reads slower than the client sends.
    """

    __slots__ = ("_answer", "_keep_alive", "_rest", "_start", "_withheld", "paused", "to_head")

    # Nobody else sets them.
    downstream: Downstream  # type: ignore[mutable-override] # see above
    upstream: Upstream | None  # type: ignore[mutable-override] # see above
    _start: bytes
    _rest: bytes

    def __init__(self, downstream: Downstream, request: Request) -> None:
        super().__init__(downstream, request)
        self.to_head = request.method == b"HEAD"
        self.paused = False
        self._answer: Reframed | None = None
        # What may be queue-proxy's own answer, until all of it is here: a head and what followed.
        self._withheld: tuple[Response, list[bytes]] | None = None
        self._keep_alive = request.keep_alive

    # -- sending -----------------------------------------------------------------------------------

    def _write_head(self) -> int:
        """See Exchange."""
        lines = lines_to_send(self.request, traced=self.trace is not None)
        self._start, self._rest = pod_head(self.request, self.downstream.client, lines)
        return len(self._rest)

    def _connect(self, now: float) -> None:
        """See Exchange: on a connection that is idle, or on a new one."""
        pool = self._proxy.pools.of(self._begin_attempt())
        upstream = None
        if not self._fresh:
            # What must not be sent twice goes on no connection that might be closed already.
            lossy = retry.may_be_lost(self.request)
            upstream = pool.take() if lossy else pool.take_alive()
        if upstream is None:
            pool.dial(self)
            self._arm(self.ticket.deadline)
        else:
            self._send(upstream, now)

    def _may_send(self, now: float) -> bool:
        """See Exchange."""
        return self.downstream.may_send(now)

    def resume(self, now: float) -> None:
        """Send the request that waited for an answer of the client's kernel."""
        if not self.done and self.upstream is None and self.ticket.state is ASSIGNED:
            self._connect(now)

    def on_dialed(self, upstream: Upstream) -> None:
        """See pool.Dialer."""
        if self.done:
            upstream.give_back()
        elif self.wait is not None and presence.is_gone(self.downstream.transport):
            upstream.give_back()
            self.downstream.transport.abort()
        else:
            self._send(upstream, self._proxy.driver.clock())

    def _send(self, upstream: Upstream, now: float) -> None:
        self.upstream = upstream
        self.paused = False
        self._is_sent(now)
        body = self._body
        lines = upstream.pool.host_lines
        if self.trace is not None:
            lines += self.trace.sending(upstream.pool.origin)
        data = (self._start, lines, self._rest, *body.pieces)
        upstream.send(self, b"".join(data))
        if body is not NO_BODY:
            body.on_sent()
            if not 0 <= self.request.length <= _FITS_ANY_WINDOW:
                upstream.expect_slow_reading(True)
            if not body.complete:
                self.downstream.regulate()

    def wants_body(self) -> bool:
        """Whether more of the request's body may be read from the client now."""
        if self.upstream is not None:
            return not self.paused
        return not self._body.full

    def on_request_body(self, payload: list[bytes], complete: bool, trailers: bytes) -> None:
        """Take what the client sent of the body."""
        body = self._body
        if complete:
            body.complete = True
            if self._limits is not None:
                self._limits.continued()
        if self.done:
            return
        data = body.framed(payload, trailers)
        if not data:
            return
        if self.upstream is not None:
            self.upstream.transport.write(data)
            if not body.replayable or self.answering:
                return
        body.keep(data)
        if self.begun:
            body.charge(self.ticket, len(data), sent=self.upstream is not None)

    def pause_sending(self) -> None:
        """See upstream.Answered."""
        self.paused = True
        self.downstream.regulate()

    def resume_sending(self) -> None:
        """See upstream.Answered."""
        self.paused = False
        self.downstream.regulate()

    # -- the answer --------------------------------------------------------------------------------

    def on_interim(self, response: Response) -> None:
        """See upstream.Answered."""
        if response.status == 101:
            self._switch(response)
        elif response.status == 100:
            if self.request.expects_continue:
                self._continue()
        elif self.request.version:
            self._answer_began(self._proxy.driver.clock())
            self.downstream.write(interim_head(response))

    def on_response(
        self, response: Response, raw: bytes | None, payload: list[bytes], complete: bool
    ) -> None:
        """See upstream.Answered."""
        pod = self.ticket.pod
        assert pod is not None
        if pod.strikes or response.status in DOUBTFUL:
            claim = claim_of(response)
            if claim is not None and not complete:
                self._withheld = response, payload
                return
            if not self._stands(response.status, own_failure(claim, payload), payload):
                return
        downstream = self.downstream
        now = self._proxy.driver.clock()
        self._begin_answer(response.status, response.length, pod, now)
        if self._proxy.draining:
            self._keep_alive = False
        if not self._body.complete and (complete or not self.entry.throttler.revision.full_duplex):
            # The rest of the request is unread: whatever follows on this connection is its body.
            self._keep_alive = False
        as_it_came = response.plain and self._keep_alive and not self.notes
        if raw is not None and as_it_came and self.request.version:
            downstream.write(raw.replace(response.cut, b"", 1) if response.cut else raw)
        else:
            downstream.write(self._reframed(response, payload, complete))
        if complete:
            self._finish(now)

    def _let_go(self) -> None:
        """See Exchange."""
        upstream, self.upstream = self.upstream, None
        if upstream is not None and not self._body.complete:
            upstream.transport.abort()  # the pod would take what comes next for the rest of it

    def _withhold(self, payload: list[bytes], complete: bool) -> None:
        """Wait for the rest of what may be queue-proxy's own answer: 512 bytes at most."""
        assert self._withheld is not None
        response, pieces = self._withheld
        pieces += payload
        if complete:
            self._withheld = None
            self.on_response(response, None, pieces, True)

    def _reframed(self, response: Response, payload: list[bytes], complete: bool) -> bytes:
        """Return a head that differs from the pod's, and the payload that came with it."""
        answer = self._answer = Reframed(response, self.request.version, self.notes)
        if answer.ends_connection:
            self._keep_alive = False
        data = answer.head(close=not self._keep_alive, date=self._proxy.date())
        data += answer.payload(payload)
        self._count(answer)
        if complete and response.body is not None:
            data += answer.end(response.body.trailers)
        return data

    def on_payload(self, payload: list[bytes], complete: bool, trailers: bytes) -> None:
        """See upstream.Answered."""
        if self._withheld is not None:
            self._withhold(payload, complete)
            return
        if self._answer is None:
            data = payload[0] if len(payload) == 1 else b"".join(payload)
        else:
            data = self._answer.payload(payload)
            self._count(self._answer)
            if complete:
                data += self._answer.end(trailers)
        if data:
            self.downstream.write(data)
            self.touch()
        if complete:
            self._finish(self._proxy.driver.clock())

    def _count(self, answer: Reframed) -> None:
        if answer.size:
            self._response_size = answer.size

    def _finish(self, now: float) -> None:
        """The answer is complete, and the upstream back in its pool."""
        if not self._body.complete:
            self._keep_alive = False
            if self.upstream is not None:
                # The pod would take what comes next for the rest of this request.
                self.upstream.transport.abort()
        self.upstream = None
        self._end("served", self._status, now)
        self.downstream.exchange_done(self._keep_alive)

    def on_lost(self, error: str, answered: bool) -> None:
        """See upstream.Answered."""
        upstream, self.upstream = self.upstream, None
        assert upstream is not None
        self._withheld = None
        self._lost(retry.lost(answered=answered, reused=upstream.reused), error)

    def _switch(self, response: Response) -> None:
        """The pod changes the protocol (RFC 9110 section 7.8): bytes pass both ways from now."""
        upstream = self.upstream
        assert upstream is not None
        if not self.request.upgrade or response.upgrade.lower() != self.request.upgrade.lower():
            self._drop_upstream()
            self._reply_failed("a 101 that was not asked for")
            return
        self._status = 101
        self.answering = True
        now = self._proxy.driver.clock()
        if self.wait is not None and self.ticket.pod is not None:
            self.notes += self.wait.answered(self.ticket.pod, now)
        self._answer_began(now)
        if self.trace is not None:
            self.trace.answered(101)
        self.downstream.write(switching_head(response, self.notes))
        tunnel(self, self.downstream, upstream)

    def tunnel_closed(self) -> None:
        """Both directions of the tunnel have ended."""
        self.upstream = None
        if not self.done:
            self._end("served", 101)

    def drain(self) -> None:
        """See Exchange; the connection ends as well."""
        self._keep_alive = False
        super().drain()

    def cut(self) -> None:
        """See Exchange; the connection ends as well."""
        self._keep_alive = False
        if self._status != 101 or self.done:
            super().cut()
            return
        transport = self.downstream.transport
        # With an end of the stream where nothing is left to send, lest it seems a fault.
        transport.abort() if transport.get_write_buffer_size() else transport.close()

    # -- for the exchange of every version ---------------------------------------------------------

    def _drop_upstream(self) -> None:
        """See Exchange."""
        if self.upstream is not None:
            self.upstream.abandon()
            self.upstream = None

    def _send_reply(self, reply: replies.Reply) -> None:
        """See Exchange."""
        self.downstream.reply(reply, keep_alive=self._keep_alive)

    def _send_continue(self) -> None:
        """See Exchange."""
        self.downstream.write(replies.CONTINUE)

    def _break_off(self) -> None:
        """See Exchange."""
        self.downstream.abort()

    def _arm(self, when: float) -> None:
        """See Exchange."""
        downstream = self.downstream
        if when < downstream.armed:
            self._proxy.timers.arm(downstream, when)

    @property
    def _client_is_full(self) -> bool:
        """See Exchange."""
        return self.downstream.full
