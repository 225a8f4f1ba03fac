"""One request and its answer: waits for a pod, sends, passes the answer on, tries again if it may.

Between a downstream (the client's connection) and an upstream (a pod's). Everything is a plain
call; nothing here waits. When a request is sent again is decided by ``proxy.retry``. Knative's
counterpart: pkg/activator/handler/handler.go.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from activator.proxy import presence, replies, retry
from activator.proxy.answer import Reframed
from activator.proxy.held import NO_BODY, HeldBody
from activator.proxy.lookup import find
from activator.proxy.observers import Trace, begin_trace, record_of
from activator.proxy.problem import fitted, negotiated
from activator.proxy.queue_proxy import DOUBTFUL, complaint, own_failure
from activator.proxy.request import Request, pod_head
from activator.proxy.response import Response, interim_head, switching_head
from activator.proxy.retry import Blame, Failure, Then
from activator.proxy.time_limits import TimeLimits, answer_within, name_of
from activator.proxy.tunnel import tunnel
from activator.proxy.wait import Wait, begin_wait
from throttler.errors import RequestQueueFull, RevisionNotFound, WaitTooLong
from throttler.reason import Reason
from throttler.ticket import ASSIGNED, NOBODY, QUEUED, Ticket

if TYPE_CHECKING:  # a downstream makes exchanges, the server makes downstreams
    from activator.driver import Entry
    from activator.proxy.downstream import Downstream
    from activator.proxy.pool import Pool
    from activator.proxy.upstream import Upstream


class Exchange:
    """One request and its answer.

    Attributes:
        begun: a revision has been found, and the request has a place there.
        to_head: the request is a HEAD, see upstream.Answered.
        entry: what belongs to its revision; trace: its spans, None while nothing is traced.
        attempts: how often it was given to a pod.
        answering: a byte of the pod's final answer has been passed on.
        notes: field lines of ours for the answer, whoever makes it, each preceded by its CRLF.
        wait: its wait for a pod; None for one that got its pod at once.
    """

    __slots__ = (
        "_answer",
        "_body",
        "_continued",
        "_counted_as",
        "_fresh",
        "_keep_alive",
        "_limits",
        "_proxy",
        "_repeats",
        "_response_size",
        "_rest",
        "_sent_at",
        "_start",
        "_status",
        "answering",
        "attempts",
        "begun",
        "done",
        "downstream",
        "entry",
        "notes",
        "paused",
        "request",
        "ticket",
        "to_head",
        "trace",
        "upstream",
        "wait",
    )

    def __init__(self, downstream: Downstream, request: Request) -> None:
        self.downstream = downstream
        self.request = request
        self.to_head = request.method == b"HEAD"
        self._proxy = downstream.proxy
        self._counted_as = request.counted_as
        self._body = NO_BODY
        if request.body is not None:
            self._body = HeldBody(request, downstream.proxy.hold_bytes)
        self.answering = False
        self.begun = False
        self.done = False
        self.paused = False
        self.upstream: Upstream | None = None
        self._answer: Reframed | None = None
        self.attempts = 0
        self._repeats = 0
        self._fresh = False
        self._keep_alive = request.keep_alive
        self._continued = False
        self._limits: TimeLimits | None = None
        self._status = 0
        self._response_size = 0
        self._sent_at = 0.0
        self.trace: Trace | None = None
        self.notes = downstream.proxy.notes
        self.wait: Wait | None = None

    ticket: Ticket
    entry: Entry
    _start: bytes
    _rest: bytes

    # -- getting a pod --------------------------------------------------------------------------

    def begin(self) -> None:
        """Ask for a pod. Everything else follows from callbacks."""
        proxy, request = self._proxy, self.request
        driver = proxy.driver
        if proxy.tracer is not None:
            secure = presence.is_tls(self.downstream.transport)
            self.trace = begin_trace(proxy.tracer, request, secure)
        try:
            entry = find(driver, request)
        except RevisionNotFound as error:
            self._reply_not_found(error)
            return
        self.begun = True
        self.entry = entry
        self._start, self._rest = pod_head(request, self.downstream.client)
        now = driver.clock()
        throttler = entry.throttler
        revision = throttler.revision
        within = revision.timeout
        if revision.response_start_timeout or revision.idle_timeout:
            within = answer_within(revision, proxy.idle_from_arrival)
            self._limits = TimeLimits(revision)
        elif request.expects_continue:
            self._limits = TimeLimits(revision)
        size = len(self._rest) + self._body.size
        ticket = Ticket(self, now + within, size)
        self.ticket = ticket
        entry.load.enter(now)
        if self.trace is not None:
            self.trace.found(revision)
        try:
            pod = throttler.admit(ticket, now)
        except RequestQueueFull as error:
            self._reply(replies.queue_full(error.bound, throttler.retry_after(now)), "queue-full")
            return
        except WaitTooLong as error:
            self._reply(replies.shed(error.expected, throttler.retry_after(now)), "shed")
            return
        if pod is None:
            if self.trace is not None:
                self.trace.held(driver.why(throttler)[0].value)
            begin_wait(self, now)
            driver.began_waiting(throttler)
        else:
            self._connect(now)

    def _reply_not_found(self, error: RevisionNotFound) -> None:
        self._proxy.counters.unknown_revisions += 1
        self.done = True
        reply = negotiated(replies.not_found(error), self.request.block)
        if self.trace is not None:
            self.trace.held(Reason.UNKNOWN_REVISION.value)
            self.trace.ended(reply.status, "unknown-revision")
        self.downstream.reply(reply, keep_alive=self._keep_alive)

    def ticket_assigned(self) -> None:
        """See throttler.ticket.TicketOwner."""
        now = self._proxy.driver.clock()
        assert self.wait is not None
        self.wait.assigned(now)
        self.entry.counters.waits.observe(now - self.ticket.arrived)
        self._connect(now)

    def ticket_expired(self, reason: Reason, detail: str) -> None:
        """See throttler.ticket.TicketOwner."""
        self._reply_late(reason, detail)

    def _reply_late(self, reason: Reason, detail: str) -> None:
        again = self.entry.throttler.retry_after(self._proxy.driver.clock())
        self._reply(replies.timed_out(reason, detail, again), "timed-out")

    def _connect(self, now: float) -> None:
        """Take a connection to the ticket's pod, or open one."""
        self.attempts += 1
        pool = self._pool()
        if self.trace is not None:
            self.trace.assigned(pool.pod.address)
        upstream = None
        if not self._fresh:
            # What must not be sent twice goes on no connection that might be closed already.
            lossy = retry.may_be_lost(self.request)
            upstream = pool.take() if lossy else pool.take_alive()
        if upstream is None:
            pool.dial(self)
            if self.ticket.deadline < self.downstream.armed:
                self._proxy.timers.arm(self.downstream, self.ticket.deadline)
        else:
            self._send(upstream, now)

    def _pool(self) -> Pool:
        pod = self.ticket.pod
        assert pod is not None
        return self._proxy.pools.of(pod)

    @property
    def wants_connection(self) -> bool:
        """See pool.Dialer."""
        return not self.done

    def on_dialed(self, upstream: Upstream) -> None:
        """See pool.Dialer."""
        if self.done:
            upstream.give_back()
        else:
            self._send(upstream, self._proxy.driver.clock())

    def on_dial_failed(self, error: str, cause: str) -> None:
        """See pool.Dialer: the pod has nothing of this request, whatever its method."""
        if not self.done:
            if self.trace is not None:
                self.trace.failed(error)
            self._go_on(Failure.NO_CONNECTION, error, cause)

    # -- sending --------------------------------------------------------------------------------

    def _send(self, upstream: Upstream, now: float) -> None:
        self.upstream = upstream
        self.paused = False
        self._sent_at = now
        downstream = self.downstream
        when = self.ticket.deadline
        if self._limits is not None:
            self._limits.sent(now, self.request.expects_continue and not self._continued)
            when = min(when, self._limits.next())
        if when < downstream.armed:
            self._proxy.timers.arm(downstream, when)
        body = self._body
        lines = upstream.pool.host_lines
        if self.trace is not None:
            lines += self.trace.sending(upstream.pool.origin)
        data = (self._start, lines, self._rest, *body.pieces)
        upstream.send(self, b"".join(data))
        if body is not NO_BODY:
            body.on_sent()
            if not body.complete:
                downstream.regulate()

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

    # -- the answer -----------------------------------------------------------------------------

    def on_interim(self, response: Response) -> None:
        """See upstream.Answered."""
        if response.status == 101:
            self._switch(response)
        elif response.status == 100:
            if self.request.expects_continue:
                self._continue()
        elif self.request.minor:
            self._answer_began(self._proxy.driver.clock())
            self.downstream.write(interim_head(response))

    def _continue(self) -> None:
        if not self._continued:
            self._continued = True
            if self._limits is not None:
                self._limits.continued()
            self.downstream.write(replies.CONTINUE)

    def on_response(
        self, response: Response, raw: bytes | None, payload: list[bytes], complete: bool
    ) -> None:
        """See upstream.Answered."""
        pod = self.ticket.pod
        assert pod is not None
        if pod.strikes or response.status in DOUBTFUL:
            whole = complete and raw is not None
            if not self._stands(response, payload if whole else None):
                return
        downstream = self.downstream
        self.answering = True
        self._status = response.status
        if self._body is not NO_BODY:
            self._body.pieces = []
        if self.attempts > 1:
            self._note_attempts()
        now = self._proxy.driver.clock()
        pod.proven_at = now
        if self.wait is not None:
            self.notes += self.wait.answered(pod, now)
        self._answer_began(now)
        key = (pod.address, self._counted_as, response.status)
        client = self.entry.counters.client_of(key)
        client.observe_head(now - self._sent_at, self.request.length)
        if response.length > 0:
            self._response_size = response.length
        if self.trace is not None:
            self.trace.answered(response.status)
        if self._proxy.draining:
            self._keep_alive = False
        if not self._body.complete and (complete or not self.entry.throttler.revision.full_duplex):
            # The rest of the request is unread: whatever follows on this connection is its body.
            self._keep_alive = False
        as_it_came = response.plain and self._keep_alive and not self.notes
        if raw is not None and as_it_came and self.request.minor:
            downstream.write(raw.replace(response.cut, b"", 1) if response.cut else raw)
        else:
            downstream.write(self._reframed(response, payload, complete))
        if complete:
            self._finish(now)

    def _stands(self, response: Response, body: list[bytes] | None) -> bool:
        """Take what an answer says of its pod; return whether it is for the client.

        Arguments:
            body: all of it, where it came in one piece with the head.
        """
        pod = self.ticket.pod
        assert pod is not None
        driver = self._proxy.driver
        if response.status not in DOUBTFUL:
            driver.answered_well(pod)
            return True
        failure = None if body is None else own_failure(response, body)
        if failure is Failure.UNTOUCHED and pod.is_service:
            # Behind the ClusterIP nobody is left alone for it: bounded by number, not by time.
            failure = Failure.APPLICATION_LOST
        text = complaint(response, body if failure else None)
        repeatable = retry.may_repeat(self.request, self._body)
        if failure is None or not retry.again(failure, repeatable, self._repeats):
            driver.answered_badly(pod, text, untouched=failure is Failure.UNTOUCHED)
            return True
        upstream, self.upstream = self.upstream, None
        if upstream is not None and not self._body.complete:
            upstream.transport.abort()  # the pod would take what comes next for the rest of it
        if self.trace is not None:
            self.trace.failed(text)
        self._go_on(failure, text, failure.value)
        return False

    def _note_attempts(self) -> None:
        self.notes += b"\r\nActivator-Attempts: %d" % self.attempts

    def _answer_began(self, now: float) -> None:
        """From here on only its whole duration and silence can end the request."""
        if self._limits is not None:
            self._limits.touch(now)
            self.ticket.deadline = self.ticket.arrived + self.entry.throttler.revision.timeout

    def touch(self) -> None:
        """Bytes pass: silence begins anew."""
        if self._limits is not None:
            self._limits.touch(self._proxy.driver.clock())

    def _reframed(self, response: Response, payload: list[bytes], complete: bool) -> bytes:
        """Return a head that differs from the pod's, and the payload that came with it."""
        answer = self._answer = Reframed(response, self.request.minor, self.notes)
        if answer.ends_connection:
            self._keep_alive = False
        data = answer.head(close=not self._keep_alive, date=self._proxy.date())
        data += answer.payload(payload)
        if complete and response.body is not None:
            data += answer.end(response.body.trailers)
        return data

    def on_payload(self, payload: list[bytes], complete: bool, trailers: bytes) -> None:
        """See upstream.Answered."""
        if self._answer is None:
            data = payload[0] if len(payload) == 1 else b"".join(payload)
        else:
            data = self._answer.payload(payload)
            if complete:
                data += self._answer.end(trailers)
        if data:
            self.downstream.write(data)
            self.touch()
        if complete:
            self._finish(self._proxy.driver.clock())

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

    # -- when something fails -------------------------------------------------------------------

    def on_lost(self, error: str, answered: bool) -> None:
        """See upstream.Answered."""
        upstream, self.upstream = self.upstream, None
        assert upstream is not None
        if self.trace is not None:
            self.trace.failed(error)
        if self.answering:
            self._abort("upstream-failed")
        else:
            failure = retry.lost(answered=answered, reused=upstream.reused)
            self._go_on(failure, error, "connection-lost")

    def _go_on(self, failure: Failure, error: str, cause: str) -> None:
        """An attempt has failed: do what the rules say."""
        repeatable = retry.may_repeat(self.request, self._body)
        then, blame = retry.judge(failure, repeatable=repeatable, repeats=self._repeats)
        self._repeats += failure in retry.SEEN
        pod = self.ticket.pod
        assert pod is not None
        driver = self._proxy.driver
        if blame is Blame.UNREACHABLE:
            driver.connect_failed(pod, error)
        elif blame is Blame.ANSWER:
            driver.answered_badly(pod, error, untouched=failure is Failure.UNTOUCHED)
        if self.done:
            return
        if then is Then.PASS_ON:
            self._reply(replies.upstream_failed(f"{pod.address}: {error}"), "upstream-failed")
        elif then is Then.SAME_POD:
            self._fresh = True
            self.entry.counters.requeued("connection-closed")
            self._connect(driver.clock())
        else:
            self._requeue(cause)

    def _requeue(self, cause: str) -> None:
        """Back to the front of the queue."""
        self.entry.counters.requeued(cause)
        if self.trace is not None:
            self.trace.waiting()
        driver = self._proxy.driver
        now = driver.clock()
        begin_wait(self, now)
        driver.requeue(self.ticket, now)

    def on_client_gone(self) -> None:
        """The client has left: nobody wants the answer."""
        if self.begun and not self.done:
            self._drop_upstream()
            self._end("cancelled", 499)
        self.done = True

    def on_time(self, now: float) -> float:
        """Do what is due; return when to look again."""
        if self.done or self.ticket.state is QUEUED:
            return inf  # there the driver watches over the deadline
        if now >= self.ticket.deadline:
            self._expire(idle=False)
            return inf
        limits = self._limits
        if limits is None or self.upstream is None:
            return self.ticket.deadline
        if self.downstream.full:
            limits.touch(now)  # the pod's silence is the client's
        if limits.is_idle(now):
            self._expire(idle=True)
            return inf
        if limits.wants_continue(now):
            self._continue()
        return min(self.ticket.deadline, limits.next())

    def _expire(self, *, idle: bool) -> None:
        """A time-out passed while a pod had the request, or was about to get it."""
        if self.answering:
            self._abort("timed-out")
        else:
            limit = name_of(self.entry.throttler.revision, idle=idle)
            if self.upstream is None:
                limit += "; still connecting"
            self._drop_upstream()
            self._reply_late(Reason.RESPONSE_LATE, limit)

    def drain(self) -> None:
        """The process ends, and this request has no pod: tell the client to ask elsewhere."""
        if not self.done and self.upstream is None:
            self._keep_alive = False
            self._reply(replies.draining("no pod came in time"), "draining")

    def cut(self) -> None:
        """The process ends now, whatever a pod is still doing for this request."""
        if self.done:
            return
        if self._status == 101:
            transport = self.downstream.transport
            # With an end of the stream where nothing is left to send, lest it seems a fault.
            transport.abort() if transport.get_write_buffer_size() else transport.close()
        elif self.answering:
            self._abort("draining")
        else:
            self._drop_upstream()
            self._keep_alive = False
            self._reply(replies.draining("the pod had not answered yet"), "draining")

    def _abort(self, outcome: str) -> None:
        """The answer has begun and cannot be completed: break the connection, so that the client
        does not take it for whole."""
        self._drop_upstream()
        self._end(outcome, self._status)
        self.downstream.abort()

    def _drop_upstream(self) -> None:
        if self.upstream is not None:
            self.upstream.abandon()
            self.upstream = None

    def _reply(self, reply: replies.Reply, outcome: str) -> None:
        now = self._proxy.driver.clock()
        if self.attempts > 1:
            self._note_attempts()
        if self.wait is not None:
            self.notes += self.wait.fields(now)
        reply = fitted(reply, self, now)
        self._response_size = len(reply.body)
        if self.trace is not None and reply.reason is not None:
            self.trace.held(reply.reason.value)
        self._end(outcome, reply.status, now, reply.why)
        self._proxy.tell(self.entry.throttler.revision.id, reply)
        self.downstream.reply(reply, keep_alive=self._keep_alive)

    def _end(self, outcome: str, status: int, now: float | None = None, why: str = "") -> None:
        """Give the place back and count; once. ``why`` is of an answer of our own."""
        self.done = True
        driver, entry, request = self._proxy.driver, self.entry, self.request
        if now is None:
            now = driver.clock()
        if self._answer is not None and self._answer.size:
            self._response_size = self._answer.size
        counters = entry.counters
        counters.outcomes[outcome] += 1
        record = counters.server_of((self._counted_as, request.minor, status))
        record.observe(now - self.ticket.arrived, request.length, self._response_size)
        entry.load.leave(now)
        if self.wait is not None:
            self.wait.ended(outcome, now)
        if self.trace is not None:
            self.trace.ended(status, outcome)
        if self._proxy.request_log is not None:
            self._proxy.request_log.ended(
                record_of(self, status, self._response_size, now - self.ticket.arrived, why)
            )
        ticket = self.ticket
        ticket.owner = NOBODY  # breaks the cycle: nothing is left for the garbage collector
        state = ticket.state
        if state is ASSIGNED:
            driver.release(ticket, now)
        elif state is QUEUED:
            driver.cancel(ticket, now)

    def _switch(self, response: Response) -> None:
        """The pod changes the protocol (RFC 9110 section 7.8): bytes pass both ways from now."""
        upstream = self.upstream
        assert upstream is not None
        if not self.request.upgrade or response.upgrade.lower() != self.request.upgrade.lower():
            self._drop_upstream()
            self._reply(replies.upstream_failed("a 101 that was not asked for"), "upstream-failed")
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
