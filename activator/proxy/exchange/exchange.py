"""One request and its response: waits for a pod, and for another if the first fails with it.

Has two sides (``proxy.exchange.sides``), each of which speaks HTTP/1 or HTTP/2; what an exchange
decides is the same for all of them. Every call is synchronous. ``proxy.exchange.retry`` says when
a request is sent again. Knative's counterpart: pkg/activator/handler/handler.go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import final

from activator.entries import Entry
from activator.failures import Failed
from activator.proxy.exchange import retry
from activator.proxy.exchange.crossing import Crossing
from activator.proxy.exchange.lookup import find
from activator.proxy.exchange.observers import Trace, begin_trace, record_of
from activator.proxy.exchange.queue_proxy import DOUBTFUL, claim_of, complaint, own_failure
from activator.proxy.exchange.request_body import NO_BODY, RequestBody
from activator.proxy.exchange.retry import Blame, Failure, Then
from activator.proxy.exchange.services import Services
from activator.proxy.exchange.sides import Asker, ClientSide, PodSide
from activator.proxy.exchange.states import (
    ANSWERING,
    CONNECTING,
    DONE,
    FOLLOWS,
    NEW,
    RESPONDING,
    SENT,
    TUNNEL,
    WAITING,
    State,
)
from activator.proxy.exchange.time_limits import TimeLimits, answer_within, name_of
from activator.proxy.exchange.tunnel import tunnel
from activator.proxy.exchange.wait import Wait, joined
from activator.proxy.http2.errors import ErrorCode, name_of_code
from activator.proxy.http2.fields import ResponseFields
from activator.proxy.message import replies
from activator.proxy.message.grpc import is_grpc
from activator.proxy.message.problem import fitted, unknown
from activator.proxy.message.request import Request
from activator.proxy.message.response import Response
from activator.proxy.message.version import HTTP_1_0, HTTP_1_1, HTTP_2
from throttler.errors import RequestQueueFull, RevisionNotFound, WaitTooLong
from throttler.pod import PodTracker
from throttler.reason import Reason
from throttler.ticket import ASSIGNED, NOBODY, QUEUED, Ticket

_REFUSED_STREAM = int(ErrorCode.REFUSED_STREAM)


class _Attempts:
    """What only a request needs that has failed once, or whose response may be queue-proxy's.

    Attributes:
        repeats: failures after which a pod may have seen the request.
        fresh: the next connection has to be new.
        crossed: the pod has not understood the client's version of HTTP.
        refused: by which pod last, how many responses that had given by then, how often in a row.
        broken_by: the error code by which a pod broke off its response; 0 where none did.
        withheld: what may be queue-proxy's own response, until all of it is here: a head and
            what followed.
    """

    __slots__ = ("broken_by", "crossed", "fresh", "refused", "repeats", "withheld")

    def __init__(self) -> None:
        self.repeats = 0
        self.fresh = False
        self.crossed = False
        self.refused: tuple[PodTracker | None, int, int] = (None, 0, 0)
        self.broken_by = 0
        self.withheld: tuple[Response | ResponseFields, list[bytes]] | None = None


@final
class Exchange(Asker):
    """One request and its response.

    Arguments:
        patience: seconds that the client waits, where it says so.

    Attributes:
        state: see ``states``; changes by ``_enter`` alone.
        entry: what belongs to its revision; trace: its spans, None while nothing is traced.
        pod_side: where the request was sent; None while no pod has it.
        attempts: how often it was given to a pod.
        notes: field lines of ours for the response, whoever makes it, each behind its CRLF.
        wait: its wait for a pod; None for one that got its pod at once.
    """

    __slots__ = (
        "_attempts",
        "_continued",
        "_crossing",
        "_limits",
        "_patience",
        "_response_size",
        "_sent_at",
        "_services",
        "_sized",
        "_status",
        "attempts",
        "body",
        "client",
        "entry",
        "notes",
        "pod_side",
        "request",
        "state",
        "ticket",
        "trace",
        "wait",
    )

    entry: Entry
    ticket: Ticket

    def __init__(
        self, services: Services, client: ClientSide, request: Request, patience: float = inf
    ) -> None:
        self._services = services
        self.client = client
        self.request = request
        self._patience = patience
        self.state: State = NEW
        self.body = RequestBody(request, services.hold_bytes) if request.has_body else NO_BODY
        self.pod_side: PodSide | None = None
        self.attempts = 0
        self._attempts: _Attempts | None = None
        self._continued = False
        self._crossing: Crossing | None = None
        self._limits: TimeLimits | None = None
        self._status = 0
        self._response_size = 0
        self._sized = True
        self._sent_at = 0.0
        self.trace: Trace | None = None
        self.notes = services.notes
        self.wait: Wait | None = None

    def _enter(self, state: State) -> None:
        assert state in FOLLOWS[self.state], f"{state} behind {self.state}"
        self.state = state

    @property
    def to_head(self) -> bool:
        """Whether the request is a HEAD: its response has no body."""
        return self.request.method == b"HEAD"

    # -- getting a pod -----------------------------------------------------------------------------

    def begin(self) -> None:
        """Look for a pod. Everything else follows from callbacks."""
        services, request = self._services, self.request
        driver = services.driver
        if services.tracer is not None:
            self.trace = begin_trace(services.tracer, request, self.client.is_secure())
        try:
            entry = self.entry = find(driver.entries, request)
        except RevisionNotFound as error:
            self._reply_not_found(error)
            return
        now = driver.clock()
        throttler = entry.throttler
        revision = throttler.revision
        within = revision.timeout
        if revision.response_start_timeout or revision.idle_timeout:
            within = answer_within(revision, services.idle_from_arrival)
            self._limits = TimeLimits(revision)
        elif request.expects_continue:
            self._limits = TimeLimits(revision)
        within = min(within, self._patience)
        ticket = self.ticket = Ticket(self, now + within, request.size() + self.body.size)
        entry.load.enter(now)
        if self.trace is not None:
            self.trace.found(revision)
        try:
            pod = driver.admit(throttler, ticket, now)
        except RequestQueueFull as full:
            self._reply(
                replies.queue_full(full.bound, services.retry_after(throttler)), "queue-full"
            )
            return
        except WaitTooLong as late:
            self._reply(replies.shed(late, services.retry_after(throttler)), "shed")
            return
        if pod is None:
            if self.trace is not None:
                self.trace.held(driver.why(throttler)[0].value)
            self._begin_wait(now)
            driver.began_waiting(throttler)
        else:
            self._connect(now)

    def _reply_not_found(self, error: RevisionNotFound) -> None:
        self._services.counters.unknown_revisions += 1
        self._enter(DONE)
        reply = unknown(error, self.request.lines)
        if self.trace is not None:
            self.trace.held(Reason.UNKNOWN_REVISION.value)
            self.trace.ended(reply.status, "unknown-revision")
        self.client.reply(reply)

    def _begin_wait(self, now: float) -> None:
        """Record that the request waits, perhaps once more."""
        self._enter(WAITING)
        if self.wait is None:
            driver, timing = self._services.driver, self._services.server_timing
            self.wait = Wait(driver.wake_ups, self.ticket.arrived, server_timing=timing)
        self.notes = joined(self.wait, self.entry, self.notes, now)

    def ticket_assigned(self) -> None:
        """See throttler.ticket.TicketOwner."""
        now = self._services.driver.clock()
        assert self.wait is not None
        self.wait.assigned(now)
        self.entry.counters.waits.observe(now - self.ticket.arrived)
        if self.client.may_send(now):
            self._connect(now)

    def ticket_expired(self, reason: Reason, detail: str) -> None:
        """See throttler.ticket.TicketOwner."""
        self._reply_late(reason, detail)

    def resume(self, now: float) -> None:
        """Go on with a request that was ready, and whose client is there."""
        if self.state is WAITING and self.ticket.state is ASSIGNED:
            self._connect(now)

    def _connect(self, now: float) -> None:
        """Send the request to the ticket's pod, as soon as there is a connection."""
        self.attempts += 1
        pod = self.ticket.pod
        assert pod is not None
        if self.trace is not None:
            self.trace.assigned(pod.address)
        pool = self._services.pools.of(pod)
        fresh = self._attempts is not None and self._attempts.fresh
        side = pool.side_for(self.request, fresh=fresh)
        if side is not None:
            self._send(side, now)
            return
        self._enter(CONNECTING)
        self.pod_side = None
        self.client.arm(self.ticket.deadline)
        pool.dial_for(self, self.request)

    @property
    def wants_connection(self) -> bool:
        """See Asker."""
        return self.state is not DONE

    def on_connected(self, side: PodSide) -> None:
        """See Asker."""
        if self.state is DONE:
            side.give_back()
        elif self.wait is not None and self.client.is_gone():
            side.give_back()
            self.client.drop()
        else:
            self._send(side, self._services.driver.clock())

    def on_dial_failed(self, error: str, cause: str) -> None:
        """See Asker."""
        if self.state is not DONE:
            if self.trace is not None:
                self.trace.failed(error)
            self._go_on(Failure.NO_CONNECTION, error, cause)

    # -- sending -----------------------------------------------------------------------------------

    def _send(self, side: PodSide, now: float) -> None:
        self._enter(SENT)
        self.pod_side = side
        self._sent_at = now
        when = self.ticket.deadline
        if self._limits is not None:
            self._limits.sent(now, self.request.expects_continue and not self._continued)
            when = min(when, self._limits.next())
        client = self.client
        client.arm(when)
        body = self.body
        if side.is_http2() is not (self.request.version is HTTP_2):
            self._crossing = Crossing(client, side, to_http2=side.is_http2())
        elif self._crossing is not None:
            self._crossing = None
        side.ask(self, client, self.request, body, self.trace)
        if body is not NO_BODY:
            sent = sum(map(len, body.pieces)) if self._crossing is not None else 0
            body.on_sent()
            if sent and self._crossing is not None:
                self._crossing.sent(sent)
            if not body.complete:
                client.regulate()

    def wants_body(self) -> bool:
        """Whether more of the request's body may be read from the client now."""
        if self.pod_side is not None:
            return not self.pod_side.is_full()
        return not self.body.full

    def on_request_body(self, payload: list[bytes], complete: bool, trailers: bytes) -> None:
        """Handle what the client sent of the body; ``trailers`` with its end."""
        body = self.body
        if complete:
            body.complete = True
            body.trailers = trailers
            if self._limits is not None:
                self._limits.continued()
        if self.state is DONE:
            return
        size = sum(map(len, payload))
        if not (size or complete):
            return
        side = self.pod_side
        if side is not None:
            if self._crossing is None:
                side.send_body(payload, complete, trailers)
            else:
                side.send_body(payload, complete, self._crossing.request_trailers(trailers))
                self._crossing.sent(size)
            if not body.replayable or self.state in ANSWERING:
                return
        if size:
            body.keep(payload[0] if len(payload) == 1 else b"".join(payload))
            if self.state is not NEW:
                self._charge(size)

    def _charge(self, size: int) -> None:
        """Count what is held against the budgets; beyond them nothing more is read."""
        ticket, body = self.ticket, self.body
        if ticket.state is not QUEUED:
            ticket.size += size
            if self.pod_side is not None:
                body.on_sent()
        elif body.replayable:
            body.replayable = self._services.driver.hold(ticket, size)

    def pause_sending(self) -> None:
        """See Asker."""
        self.client.regulate()

    def resume_sending(self) -> None:
        """See Asker."""
        if self._crossing is not None:
            self._crossing.pod_changed()
        self.client.regulate()

    # -- the response ------------------------------------------------------------------------------

    def on_interim(self, response: Response | ResponseFields) -> None:
        """See Asker."""
        if response.status == 101:
            assert isinstance(response, Response)
            self._switch(response)
        elif response.status == 100:
            if self.request.expects_continue:
                self._continue()
        elif self.request.version is not HTTP_1_0:
            self._answer_began(self._services.driver.clock())
            if self._crossing is not None:
                response = self._crossing.response(response)
            self.client.interim(response)

    def _continue(self) -> None:
        if not self._continued:
            self._continued = True
            if self._limits is not None:
                self._limits.continued()
            self.client.send_continue()

    def on_response(
        self,
        response: Response | ResponseFields,
        raw: bytes | None,
        payload: list[bytes],
        complete: bool,
        trailers: bytes = b"",
    ) -> None:
        """See Asker."""
        pod = self.ticket.pod
        assert pod is not None
        status = response.status
        if pod.strikes or status in DOUBTFUL:
            claim = claim_of(response, bodiless=self.to_head)
            if claim is not None and not complete:
                self._record().withheld = response, payload
                return
            if not self._stands(status, own_failure(claim, payload), payload):
                return
        now = self._services.driver.clock()
        length = response.length
        self._begin_answer(status, length, pod, now)
        if length < 0:
            self._sized = False
            self._response_size = sum(map(len, payload))
        if self._crossing is not None:
            raw = None
            response = self._crossing.response(response)
            trailers = self._crossing.response_trailers(trailers)
        self.client.respond(response, raw, payload, complete, trailers)
        if complete:
            self._finish(now)

    def _begin_answer(self, status: int, length: int, pod: PodTracker, now: float) -> None:
        """Record that the pod's final response is here, and goes on to the client.

        Arguments:
            length: bytes of its body; -1 if that is not known yet.
        """
        self._enter(RESPONDING)
        self._status = status
        if self.body is not NO_BODY:
            self.body.pieces = []
        if self.attempts > 1:
            self._note_attempts()
        services = self._services
        services.driver.proven(pod, now)
        if self.wait is not None:
            self.notes += self.wait.answered(pod, now)
        self._answer_began(now)
        request = self.request
        # To pods HTTP/1.0 is HTTP/1.1.
        version = request.version or HTTP_1_1
        if self._crossing is not None:
            version = HTTP_2 if self._crossing.to_http2 else HTTP_1_1
        client = self.entry.counters.client_of((pod.address, request.counted_as, version, status))
        client.observe_head(now - self._sent_at, request.length)
        if length > 0:
            self._response_size = length
        if self.trace is not None:
            self.trace.answered(status)

    def _note_attempts(self) -> None:
        self.notes += b"\r\nActivator-Attempts: %d" % self.attempts

    def _answer_began(self, now: float) -> None:
        """From here on only its whole duration and silence can end the request."""
        if self._limits is not None:
            self._limits.touch(now)
            timeout = self.entry.throttler.revision.timeout
            self._services.driver.extend(self.ticket, self.ticket.arrived + timeout)

    def touch(self) -> None:
        """Bytes pass: the pod is not silent."""
        if self._limits is not None:
            self._limits.touch(self._services.driver.clock())

    def _record(self) -> _Attempts:
        """Return the record of what went wrong."""
        if self._attempts is None:
            self._attempts = _Attempts()
        return self._attempts

    def on_payload(self, payload: list[bytes], complete: bool, trailers: bytes) -> None:
        """See Asker."""
        if self._attempts is not None and self._attempts.withheld is not None:
            self._withhold(payload, complete, trailers)
            return
        if not self._sized:
            self._response_size += sum(map(len, payload))
        crossing = self._crossing
        if crossing is not None and trailers:
            trailers = crossing.response_trailers(trailers)
        self.client.send_body(payload, complete, trailers)
        if self._limits is not None and payload:
            self.touch()
        if complete:
            self._finish(self._services.driver.clock())
        elif crossing is not None:
            crossing.passed(sum(map(len, payload)))

    def _withhold(self, payload: list[bytes], complete: bool, trailers: bytes) -> None:
        """Wait for the rest of what may be queue-proxy's own response: 512 bytes at most."""
        record = self._record()
        assert record.withheld is not None
        response, pieces = record.withheld
        pieces += payload
        if complete:
            record.withheld = None
            self.on_response(response, None, pieces, True, trailers)

    def taker(self) -> Callable[[int], None] | None:
        """Return what is to be called with bytes of the response that the client has taken."""
        if self._crossing is not None:
            return self._crossing.client_took
        return None if self.pod_side is None else self.pod_side.took

    def on_client_room(self, full: bool) -> None:
        """The client takes no more of the response, or takes more again."""
        if not full:
            self.touch()
        if self.pod_side is not None:
            self.pod_side.pause(full)
        if self._crossing is not None and not full:
            self._crossing.client_took_all()

    def _stands(self, status: int, failure: Failure | None, body: Sequence[bytes]) -> bool:
        """Judge the pod by its response; return whether that is for the client.

        Arguments:
            failure: what became of the request, where queue-proxy says so; None in a response of
                the application.
            body: all of queue-proxy's words.
        """
        pod = self.ticket.pod
        assert pod is not None
        driver = self._services.driver
        if status not in DOUBTFUL:
            driver.answered_well(pod)
            return True
        if failure is Failure.UNTOUCHED and pod.is_service:
            # The ClusterIP is never left alone for it: bounded by number, not by time.
            failure = Failure.APPLICATION_LOST
        text = complaint(status, body if failure else None)
        repeats = 0 if self._attempts is None else self._attempts.repeats
        if failure is None or not retry.again(failure, self._may_repeat(failure), repeats):
            driver.answered_badly(pod, text, untouched=failure is Failure.UNTOUCHED)
            return True
        self._detach()
        if self.trace is not None:
            self.trace.failed(text)
        self._go_on(failure, text, failure.value)
        return False

    def _detach(self) -> None:
        """Part from the pod behind its response."""
        side, self.pod_side = self.pod_side, None
        if side is not None:
            side.detach(self.body.complete)

    def _finish(self, now: float) -> None:
        """The response is complete, and its connection back in the pool."""
        self._detach()
        self._end("served", self._status, now)
        self.client.finished(now)

    def _switch(self, response: Response) -> None:
        """The pod changes the protocol (RFC 9110 section 7.8): bytes pass both ways from now."""
        upgrade = self.request.upgrade
        side, client = self.pod_side, self.client
        if not upgrade or response.upgrade.lower() != upgrade.lower():
            self._cancel_pod()
            self._reply_failed("a 101 that was not asked for")
            return
        self._status = 101
        self._enter(TUNNEL)
        now = self._services.driver.clock()
        if self.wait is not None and self.ticket.pod is not None:
            self.notes += self.wait.answered(self.ticket.pod, now)
        self._answer_began(now)
        if self.trace is not None:
            self.trace.answered(101)
        at_client, at_pod = client.switching(), None if side is None else side.switching()
        assert at_client is not None
        assert at_pod is not None
        at_client.switch(response, self.notes)
        tunnel(at_client, at_pod, self.touch, self.tunnel_closed)

    def tunnel_closed(self) -> None:
        """Both directions of the tunnel have ended."""
        self.pod_side = None
        if self.state is not DONE:
            self._end("served", 101)

    # -- when something fails ----------------------------------------------------------------------

    def on_lost(self, error: str, answered: bool) -> None:
        """See Asker."""
        side, self.pod_side = self.pod_side, None
        if self.state is DONE:
            return
        self._stop_withholding()
        reused = side is not None and side.is_reused()
        self._lost(retry.lost(answered=answered, reused=reused), error)

    def on_reset(self, code: int, answered: bool) -> None:
        """See Asker."""
        self.pod_side = None
        if self.state is DONE:
            return
        self._stop_withholding()
        error = f"the pod reset the stream: {name_of_code(code)}"
        if answered:
            self._record().broken_by = code
        if code == _REFUSED_STREAM and not answered:
            self.on_refused(error)
        else:
            self._lost(Failure.ANSWER_LOST, error)

    def on_refused(self, error: str) -> None:
        """See Asker."""
        self.pod_side = None
        if self.state is DONE:
            return
        self._stop_withholding()
        pod = self.ticket.pod
        assert pod is not None
        record = self._record()
        answers = self._services.pools.of(pod).count_answers()
        before, answered, refusals = record.refused
        refusals = 1 if pod is before and answers > answered else refusals + 1
        record.refused = pod, answers, refusals
        self._lost(retry.refused(refusals, on_trial=pod.on_trial), error)

    def on_other_protocol(self, error: str) -> None:
        """See Asker. Once a request: a pod may understand neither."""
        self.pod_side = None
        if self.state is DONE:
            return
        record = self._record()
        if record.crossed or not self.body.replayable or is_grpc(self.request.fields):
            self._reply_failed(error)
            return
        record.crossed = True
        self.attempts -= 1
        self._connect(self._services.driver.clock())

    def _stop_withholding(self) -> None:
        if self._attempts is not None:
            self._attempts.withheld = None

    def _lost(self, failure: Failure, error: str) -> None:
        """An attempt ended with the request in a pod's hands."""
        if self.trace is not None:
            self.trace.failed(error)
        if self.state in ANSWERING:
            assert self.ticket.pod is not None
            about = f"{self.ticket.pod.address}: {error}"
            self._abort_for(Reason.UPSTREAM_FAILED, about, "upstream-failed")
        else:
            self._go_on(failure, error, "connection-lost")

    def _go_on(self, failure: Failure, error: str, cause: str) -> None:
        """An attempt has failed: do what the rules say."""
        record = self._record()
        repeatable = self._may_repeat(failure)
        then, blame = retry.judge(failure, repeatable=repeatable, repeats=record.repeats)
        record.repeats += failure in retry.SEEN
        pod = self.ticket.pod
        assert pod is not None
        driver = self._services.driver
        if blame is Blame.UNREACHABLE:
            driver.connect_failed(pod, error, sent=failure in retry.SEEN)
        elif blame is Blame.ANSWER:
            driver.answered_badly(pod, error, untouched=failure in retry.UNTOUCHING)
        if self.state is DONE:
            return
        if then is Then.PASS_ON:
            self._reply_failed(error)
        elif then is Then.SAME_POD:
            record.fresh = True
            self.entry.counters.requeued("connection-closed")
            self._connect(driver.clock())
        else:
            self._requeue(cause)

    def _may_repeat(self, failure: Failure) -> bool:
        """Whether the request can be sent again, in view of what became of it."""
        if failure is Failure.REFUSED:
            return self.body.replayable
        if failure is Failure.REFUSED_STILL:
            pod = self.ticket.pod
            assert pod is not None
            # The ClusterIP is never left alone for it: bounded by number, not by time.
            return self.body.replayable and not pod.is_service
        return retry.may_repeat(self.request, self.body, failure)

    def _requeue(self, cause: str) -> None:
        """Back to the front of the queue."""
        self.entry.counters.requeued(cause)
        if self.trace is not None:
            self.trace.waiting()
        driver = self._services.driver
        now = driver.clock()
        self.pod_side = None
        self._begin_wait(now)
        driver.requeue(self.ticket, now)

    def on_client_gone(self) -> None:
        """The client has left: nobody wants the response."""
        if self.state is NEW:
            self._enter(DONE)
        elif self.state is not DONE:
            self._cancel_pod()
            self._end("cancelled", 499)

    # -- time --------------------------------------------------------------------------------------

    def on_time(self, now: float) -> float:
        """Do what is due; return when to look again."""
        if self.state is DONE or self.state is NEW or self.ticket.state is QUEUED:
            return inf  # there the driver watches over the deadline
        if now >= self.ticket.deadline:
            self._expire(idle=False)
            return inf
        limits = self._limits
        if limits is None or self.pod_side is None:
            return self.ticket.deadline
        if self.client.is_full():
            limits.touch(now)  # the pod's silence is the client's
        if limits.is_idle(now):
            self._expire(idle=True)
            return inf
        if limits.wants_continue(now):
            self._continue()
        return min(self.ticket.deadline, limits.next())

    def _expire(self, *, idle: bool) -> None:
        """A time-out passed while a pod had the request, or was about to get it."""
        limit = self._limit(idle=idle)
        if self.state in ANSWERING:
            self._abort_for(Reason.RESPONSE_LATE, limit, "timed-out")
        else:
            if self.pod_side is None:
                limit += self._services.still_connecting()
            self._cancel_pod()
            self._reply_late(Reason.RESPONSE_LATE, limit)

    def _limit(self, *, idle: bool) -> str:
        """Return which limit ended the request, with its value."""
        if not idle and self.ticket.deadline >= self.ticket.arrived + self._patience:
            return f"grpc-timeout {self._patience:g}"
        return name_of(self.entry.throttler.revision, idle=idle)

    def drain(self) -> None:
        """The process ends, and this request has no pod: the client is to go elsewhere."""
        if self.state is not DONE and self.pod_side is None:
            self._reply(replies.draining("no pod came in time"), "draining")

    def cut(self) -> None:
        """The process ends now, whatever a pod is still doing for this request."""
        if self.state is DONE:
            return
        if self.state in ANSWERING:
            self._abort_for(Reason.DRAINING, "this activator ends", "draining")
        else:
            self._cancel_pod()
            self._reply(replies.draining("the pod had not answered yet"), "draining")

    # -- the end -----------------------------------------------------------------------------------

    def _cancel_pod(self) -> None:
        """Have the pod stop, if it has the request."""
        side, self.pod_side = self.pod_side, None
        if side is not None:
            side.cancel()

    def _abort_for(self, reason: Reason, detail: str, outcome: str) -> None:
        """Break off a response that has begun, so that the client does not take it for whole."""
        self._cancel_pod()
        self._end(outcome, self._status)
        self.client.break_off(outcome, 0 if self._attempts is None else self._attempts.broken_by)
        self._remember(self._status, reason, f"{detail}; the answer had begun")

    def _remember(self, status: int, reason: Reason, detail: str) -> None:
        """Keep why the request failed, for those who look after the service."""
        driver = self._services.driver
        failed = Failed(driver.clock(), status, reason, replies.printable(detail))
        driver.failed(self.entry, failed)

    def _reply_late(self, reason: Reason, detail: str) -> None:
        again = self._services.retry_after(self.entry.throttler)
        self._reply(replies.timed_out(reason, detail, again), "timed-out")

    def _reply_failed(self, error: str) -> None:
        """Respond that the pod, which is named, has failed."""
        assert self.ticket.pod is not None
        about = f"{self.ticket.pod.address}: {error}"
        self._reply(replies.upstream_failed(about), "upstream-failed")

    def _reply(self, reply: replies.Reply, outcome: str) -> None:
        now = self._services.driver.clock()
        if self.attempts > 1:
            self._note_attempts()
        if self.wait is not None:
            self.notes += self.wait.fields(now)
        revision = self.entry.throttler.revision.id
        waited = now - self.ticket.arrived
        about = (revision.namespace, revision.name, waited, self.attempts)
        reply = fitted(reply, self.request.lines, self.notes, *about)
        self._response_size = len(self.client.body_of(reply))
        reason = reply.reason
        if self.trace is not None and reason is not None:
            self.trace.held(reason.value)
        self._end(outcome, reply.status, now, reply.why)
        if reason is not None:
            self._remember(reply.status, reason, reply.detail)
        self._services.log_reply(revision, reply)
        self.client.reply(reply)

    def _end(self, outcome: str, status: int, now: float | None = None, why: str = "") -> None:
        """Give the place back and count; once. ``why`` is of a response of our own."""
        self._enter(DONE)
        services, entry, request = self._services, self.entry, self.request
        driver = services.driver
        if now is None:
            now = driver.clock()
        self.client.set_idle_since(now)
        ticket = self.ticket
        duration = now - ticket.arrived
        counters = entry.counters
        counters.outcomes[outcome] += 1
        record = counters.server_of((request.counted_as, request.version, status))
        record.observe(duration, request.length, self._response_size)
        entry.load.leave(now)
        if self.wait is not None:
            self.wait.ended(outcome, now)
        if self.trace is not None:
            self.trace.ended(status, outcome)
        if services.request_log is not None:
            trace_id = "" if self.trace is None else self.trace.trace_id
            size = self._response_size
            services.request_log.ended(
                record_of(
                    *(request, status, size, duration, self.client.peer()),
                    *(entry.throttler.revision, trace_id, why),
                )
            )
        ticket.owner = NOBODY  # breaks the cycle: nothing is left for the garbage collector
        state = ticket.state
        if state is ASSIGNED:
            driver.release(ticket, now)
        elif state is QUEUED:
            driver.cancel(ticket, now)
