"""One request and its answer: waits for a pod, and for another if the first fails with it.

What depends on the version of HTTP is left to a class for each (``proxy.exchange.http1_exchange``).
Everything is a plain call; nothing here waits. When a request is sent again is decided by
``proxy.exchange.retry``. Knative's counterpart: pkg/activator/handler/handler.go.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from math import inf
from typing import TYPE_CHECKING, ClassVar, Protocol

from activator.entries import Entry
from activator.failures import Failed
from activator.proxy.exchange import retry
from activator.proxy.exchange.lookup import find
from activator.proxy.exchange.observers import Trace, begin_trace, record_of
from activator.proxy.exchange.queue_proxy import DOUBTFUL, complaint
from activator.proxy.exchange.request_body import NO_BODY, HeldBody
from activator.proxy.exchange.retry import Blame, Failure, Then
from activator.proxy.exchange.time_limits import TimeLimits, answer_within, name_of
from activator.proxy.exchange.wait import Wait, begin_wait
from activator.proxy.message import replies
from activator.proxy.message.problem import fitted, unknown
from activator.proxy.message.request import Request
from activator.proxy.message.version import HTTP_1_1
from throttler.errors import RequestQueueFull, RevisionNotFound, WaitTooLong
from throttler.pod import PodTracker
from throttler.reason import Reason
from throttler.ticket import ASSIGNED, NOBODY, QUEUED, Ticket

if TYPE_CHECKING:
    from activator.proxy.client.shared import Proxy


class Client(Protocol):
    """Who asked: a connection, as much of it as every exchange has a use for.

    Attributes:
        client: the client's IP address; secure: whether the connection is encrypted.
        idle_since: when its last request ended.
    """

    client: bytes
    secure: bool
    idle_since: float

    @property
    def proxy(self) -> Proxy:
        """What all connections share."""

    def peer(self) -> str:
        """Return the client's ``ip:port``; the port is 0 where there is none."""


class Exchange(ABC):
    """One request and its answer.

    Attributes:
        begun: a revision has been found, and the request has a place there.
        entry: what belongs to its revision; trace: its spans, None while nothing is traced.
        upstream: where the request was sent; None while no pod has it.
        attempts: how often it was given to a pod.
        answering: a byte of the pod's final answer has been passed on.
        notes: field lines of ours for the answer, whoever makes it, each preceded by its CRLF.
        wait: its wait for a pod; None for one that got its pod at once.
    """

    __slots__ = (
        "_body",
        "_continued",
        "_counted_as",
        "_fresh",
        "_limits",
        "_proxy",
        "_repeats",
        "_response_size",
        "_sent_at",
        "_status",
        "answering",
        "attempts",
        "begun",
        "done",
        "downstream",
        "entry",
        "notes",
        "request",
        "ticket",
        "trace",
        "upstream",
        "wait",
    )

    def __init__(self, downstream: Client, request: Request) -> None:
        self.downstream = downstream
        self.request = request
        self._proxy = downstream.proxy
        self._counted_as = request.counted_as()
        self._body = NO_BODY
        if request.has_body:
            self._body = self._held_body(request, self._proxy.hold_bytes)
        self.answering = False
        self.begun = False
        self.done = False
        self.upstream: object | None = None
        self.attempts = 0
        self._repeats = 0
        self._fresh = False
        self._continued = False
        self._limits: TimeLimits | None = None
        self._status = 0
        self._response_size = 0
        self._sent_at = 0.0
        self.trace: Trace | None = None
        self.notes = self._proxy.notes
        self.wait: Wait | None = None

    ticket: Ticket
    entry: Entry
    #: Seconds that the client waits, where it says so.
    patience = inf
    _held_body: ClassVar[type[HeldBody]] = HeldBody

    # -- getting a pod -----------------------------------------------------------------------------

    def begin(self) -> None:
        """Ask for a pod. Everything else follows from callbacks."""
        proxy, request = self._proxy, self.request
        driver = proxy.driver
        if proxy.tracer is not None:
            secure = self.downstream.secure
            self.trace = begin_trace(proxy.tracer, request, secure)
        try:
            entry = find(driver.entries, request)
        except RevisionNotFound as error:
            self._reply_not_found(error)
            return
        self.begun = True
        self.entry = entry
        size = self._write_head()
        now = driver.clock()
        throttler = entry.throttler
        revision = throttler.revision
        within = revision.timeout
        if revision.response_start_timeout or revision.idle_timeout:
            within = answer_within(revision, proxy.idle_from_arrival)
            self._limits = TimeLimits(revision)
        elif request.expects_continue:
            self._limits = TimeLimits(revision)
        within = min(within, self.patience)
        ticket = Ticket(self, now + within, size + self._body.size)
        self.ticket = ticket
        entry.load.enter(now)
        if self.trace is not None:
            self.trace.found(revision)
        try:
            pod = throttler.admit(ticket, now)
        except RequestQueueFull as error:
            self._reply(replies.queue_full(error.bound, proxy.retry_after(throttler)), "queue-full")
            return
        except WaitTooLong as error:
            self._reply(replies.shed(error, proxy.retry_after(throttler)), "shed")
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
        reply = unknown(error, self.request.lines)
        if self.trace is not None:
            self.trace.held(Reason.UNKNOWN_REVISION.value)
            self.trace.ended(reply.status, "unknown-revision")
        self._send_reply(reply)

    def ticket_assigned(self) -> None:
        """See throttler.ticket.TicketOwner."""
        now = self._proxy.driver.clock()
        assert self.wait is not None
        self.wait.assigned(now)
        self.entry.counters.waits.observe(now - self.ticket.arrived)
        if self._may_send(now):
            self._connect(now)

    def ticket_expired(self, reason: Reason, detail: str) -> None:
        """See throttler.ticket.TicketOwner."""
        self._reply_late(reason, detail)

    def _reply_late(self, reason: Reason, detail: str) -> None:
        again = self._proxy.retry_after(self.entry.throttler)
        self._reply(replies.timed_out(reason, detail, again), "timed-out")

    def _may_send(self, now: float) -> bool:
        """Return whether to send a request that has waited now; its client may have left."""
        return True

    def _begin_attempt(self) -> PodTracker:
        """Return the ticket's pod, which is to get the request."""
        self.attempts += 1
        pod = self.ticket.pod
        assert pod is not None
        if self.trace is not None:
            self.trace.assigned(pod.address)
        return pod

    @property
    def wants_connection(self) -> bool:
        """See pool.Dialer."""
        return not self.done

    def on_dial_failed(self, error: str, cause: str) -> None:
        """See pool.Dialer: the pod has nothing of this request, whatever its method."""
        if not self.done:
            if self.trace is not None:
                self.trace.failed(error)
            self._go_on(Failure.NO_CONNECTION, error, cause)

    # -- sending and answering ---------------------------------------------------------------------

    def _is_sent(self, now: float) -> None:
        """Take that a pod gets the request now."""
        self._sent_at = now
        when = self.ticket.deadline
        if self._limits is not None:
            self._limits.sent(now, self.request.expects_continue and not self._continued)
            when = min(when, self._limits.next())
        self._arm(when)

    def _continue(self) -> None:
        if not self._continued:
            self._continued = True
            if self._limits is not None:
                self._limits.continued()
            self._send_continue()

    def _begin_answer(self, status: int, length: int, pod: PodTracker, now: float) -> None:
        """Take that the pod's final answer is here, and goes on to the client.

        Arguments:
            length: bytes of its body; -1 if that is not known yet.
        """
        self.answering = True
        self._status = status
        if self._body is not NO_BODY:
            self._body.pieces = []
        if self.attempts > 1:
            self._note_attempts()
        pod.proven_at = now
        if self.wait is not None:
            self.notes += self.wait.answered(pod, now)
        self._answer_began(now)
        # To pods HTTP/1.0 is HTTP/1.1, and HTTP/2 stays what it is.
        version = self.request.version or HTTP_1_1
        client = self.entry.counters.client_of((pod.address, self._counted_as, version, status))
        client.observe_head(now - self._sent_at, self.request.length)
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
            self.ticket.deadline = self.ticket.arrived + self.entry.throttler.revision.timeout

    def touch(self) -> None:
        """Bytes pass: silence begins anew."""
        if self._limits is not None:
            self._limits.touch(self._proxy.driver.clock())

    def _stands(self, status: int, failure: Failure | None, body: Sequence[bytes]) -> bool:
        """Take what an answer says of its pod; return whether it is for the client.

        Arguments:
            failure: what became of the request, where queue-proxy says so; None in an answer of
                the application.
            body: all of queue-proxy's words.
        """
        pod = self.ticket.pod
        assert pod is not None
        driver = self._proxy.driver
        if status not in DOUBTFUL:
            driver.answered_well(pod)
            return True
        if failure is Failure.UNTOUCHED and pod.is_service:
            # Behind the ClusterIP nobody is left alone for it: bounded by number, not by time.
            failure = Failure.APPLICATION_LOST
        text = complaint(status, body if failure else None)
        if failure is None or not retry.again(failure, self._may_repeat(failure), self._repeats):
            driver.answered_badly(pod, text, untouched=failure is Failure.UNTOUCHED)
            return True
        self._let_go()
        if self.trace is not None:
            self.trace.failed(text)
        self._go_on(failure, text, failure.value)
        return False

    # -- when something fails ----------------------------------------------------------------------

    def _lost(self, failure: Failure, error: str) -> None:
        """An attempt ended with the request in a pod's hands."""
        if self.trace is not None:
            self.trace.failed(error)
        if self.answering:
            assert self.ticket.pod is not None
            about = f"{self.ticket.pod.address}: {error}"
            self._abort_for(Reason.UPSTREAM_FAILED, about, "upstream-failed")
        else:
            self._go_on(failure, error, "connection-lost")

    def _go_on(self, failure: Failure, error: str, cause: str) -> None:
        """An attempt has failed: do what the rules say."""
        repeatable = self._may_repeat(failure)
        then, blame = retry.judge(failure, repeatable=repeatable, repeats=self._repeats)
        self._repeats += failure in retry.SEEN
        pod = self.ticket.pod
        assert pod is not None
        driver = self._proxy.driver
        if blame is Blame.UNREACHABLE:
            driver.connect_failed(pod, error, sent=failure in retry.SEEN)
        elif blame is Blame.ANSWER:
            driver.answered_badly(pod, error, untouched=failure in retry.UNTOUCHING)
        if self.done:
            return
        if then is Then.PASS_ON:
            self._reply_failed(error)
        elif then is Then.SAME_POD:
            self._fresh = True
            self.entry.counters.requeued("connection-closed")
            self._connect(driver.clock())
        else:
            self._requeue(cause)

    def _may_repeat(self, failure: Failure) -> bool:
        """Whether the request can be sent again, in view of what became of it."""
        return retry.may_repeat(self.request, self._body, failure)

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
        if self._client_is_full:
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
        if self.answering:
            self._abort_for(Reason.RESPONSE_LATE, limit, "timed-out")
        else:
            if self.upstream is None:
                limit += self._proxy.still_connecting()
            self._drop_upstream()
            self._reply_late(Reason.RESPONSE_LATE, limit)

    def _limit(self, *, idle: bool) -> str:
        """Return which limit ended the request, with its value."""
        return name_of(self.entry.throttler.revision, idle=idle)

    def drain(self) -> None:
        """The process ends, and this request has no pod: tell the client to ask elsewhere."""
        if not self.done and self.upstream is None:
            self._reply(replies.draining("no pod came in time"), "draining")

    def cut(self) -> None:
        """The process ends now, whatever a pod is still doing for this request."""
        if self.done:
            return
        if self.answering:
            self._abort_for(Reason.DRAINING, "this activator ends", "draining")
        else:
            self._drop_upstream()
            self._reply(replies.draining("the pod had not answered yet"), "draining")

    def _abort_for(self, reason: Reason, detail: str, outcome: str) -> None:
        self._abort(outcome)
        self._remember(self._status, reason, f"{detail}; the answer had begun")

    def _remember(self, status: int, reason: Reason, detail: str) -> None:
        """Keep why the request failed, for those who look after the service."""
        driver = self._proxy.driver
        failed = Failed(driver.clock(), status, reason, replies.printable(detail))
        driver.failed(self.entry, failed)

    def _abort(self, outcome: str) -> None:
        """The answer has begun and cannot be completed: break it off, so that the client
        does not take it for whole."""
        self._drop_upstream()
        self._end(outcome, self._status)
        self._break_off()

    def _reply(self, reply: replies.Reply, outcome: str) -> None:
        now = self._proxy.driver.clock()
        if self.attempts > 1:
            self._note_attempts()
        if self.wait is not None:
            self.notes += self.wait.fields(now)
        reply = fitted(reply, self, now)
        self._response_size = len(self._body_of(reply))
        if self.trace is not None and reply.reason is not None:
            self.trace.held(reply.reason.value)
        self._end(outcome, reply.status, now, reply.why)
        if reply.reason is not None:
            self._remember(reply.status, reply.reason, reply.detail)
        self._proxy.tell(self.entry.throttler.revision.id, reply)
        self._send_reply(reply)

    def _reply_failed(self, error: str) -> None:
        """Answer that the pod, which is named, has failed."""
        assert self.ticket.pod is not None
        about = f"{self.ticket.pod.address}: {error}"
        self._reply(replies.upstream_failed(about), "upstream-failed")

    def _body_of(self, reply: replies.Reply) -> bytes:
        """Return what the client gets of the body of an answer of ours."""
        return reply.body

    def _end(self, outcome: str, status: int, now: float | None = None, why: str = "") -> None:
        """Give the place back and count; once. ``why`` is of an answer of our own."""
        self.done = True
        driver, entry, request = self._proxy.driver, self.entry, self.request
        if now is None:
            now = driver.clock()
        self.downstream.idle_since = now
        counters = entry.counters
        counters.outcomes[outcome] += 1
        record = counters.server_of((self._counted_as, request.version, status))
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

    # -- what the version of HTTP decides ----------------------------------------------------------

    @abstractmethod
    def _write_head(self) -> int:
        """Write what a pod is to see of the request's head; return its bytes."""

    @abstractmethod
    def _connect(self, now: float) -> None:
        """Send the request to the ticket's pod, as soon as there is a connection."""

    @abstractmethod
    def _drop_upstream(self) -> None:
        """Have the pod stop, if it has the request; ``upstream`` is None then."""

    @abstractmethod
    def _let_go(self) -> None:
        """Part from the pod behind its answer, of which the client gets nothing."""

    @abstractmethod
    def _send_reply(self, reply: replies.Reply) -> None:
        """Answer the client ourselves; nothing follows."""

    @abstractmethod
    def _send_continue(self) -> None:
        """Tell the client to send its body."""

    @abstractmethod
    def _break_off(self) -> None:
        """End the answer in a way that nobody takes for its end."""

    @abstractmethod
    def _arm(self, when: float) -> None:
        """Have ``on_time`` called by then."""

    @property
    @abstractmethod
    def _client_is_full(self) -> bool:
        """Whether the client does not take what comes for it."""
