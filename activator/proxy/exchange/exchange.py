"""Handles one request and its response: queues it, sends it to a pod, and retries if the pod fails.

The class reads from top to bottom as the life of one request. Each of its two sides
(``exchange.sides``) speaks HTTP/1 or HTTP/2; the decisions are the same for both. Every call is
synchronous. ``exchange.retry`` decides when a request is sent again. Knative's counterpart:
pkg/activator/handler/handler.go.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import final

from activator.knative.queue_proxy import DOUBTFUL
from activator.proxy.exchange import error_responses, outcome, retry
from activator.proxy.exchange.attempts import Attempts, pod_of
from activator.proxy.exchange.lookup import find, key_of
from activator.proxy.exchange.observers import Trace, begin_trace
from activator.proxy.exchange.pod_wait import PodWait, join_cold_start
from activator.proxy.exchange.request_body import NO_BODY, RequestBody
from activator.proxy.exchange.retry import Failure
from activator.proxy.exchange.services import Services
from activator.proxy.exchange.sides import ClientSide, PodSide, Requester
from activator.proxy.exchange.states import (
    CONNECTING,
    DONE,
    NEW,
    RESPONDING,
    RESPONSE_BEGUN,
    SENT,
    TUNNEL,
    WAITING,
    State,
)
from activator.proxy.exchange.time_limits import TimeLimits, check, seconds_to_response
from activator.proxy.exchange.translation import Translation, trailers_of
from activator.proxy.exchange.tunnel import is_wanted, switch
from activator.proxy.http2.fields import ResponseFields
from activator.proxy.message import own_responses
from activator.proxy.message.grammar import FramingError
from activator.proxy.message.own_responses import OwnResponse
from activator.proxy.message.request import Request
from activator.proxy.message.response import Response
from activator.proxy.message.version import HTTP_1_0, HTTP_1_1, HTTP_2
from activator.records.entries import Entry
from throttler.errors import RequestQueueFull, RevisionNotFound, WaitTooLong
from throttler.pod import PodTracker
from throttler.reason import Reason
from throttler.ticket import ASSIGNED, NO_OWNER, QUEUED, Ticket


@final
class Exchange(Requester):
    """One request and its response.

    Arguments:
        services: the objects that all exchanges share.
        client: the client's side.
        request: the request. If its body has begun, ``on_request_body`` gets it before ``begin``.
        client_timeout: seconds that the client waits (grpc-timeout); infinite without the field.

    Attributes:
        added_lines: the field lines that the activator adds to the response, each preceded by its
            CRLF.
        body: the buffered body of the request.
        entry: the entry of its revision.
        limits: its limits except the deadline; None for most requests.
        pod_side: the pod's side; None while no pod has the request.
        state: assigned directly. ``states.FOLLOWS`` has the allowed changes, and the tests of the
            byte path check each change against it.
        ticket: its ticket in the throttler.
        to_head: see Requester.
        trace: its spans; None if it is not traced.
        wait: its wait for a pod; None if it got a pod at once.
    """

    __slots__ = (
        "_attempts",
        "_response_size",
        "_sent_at",
        "_sized",
        "_status",
        "_translation",
        "added_lines",
        "body",
        "client",
        "client_timeout",
        "entry",
        "limits",
        "pod_side",
        "request",
        "services",
        "state",
        "ticket",
        "to_head",
        "trace",
        "wait",
    )

    entry: Entry
    ticket: Ticket
    _sent_at: float
    _status: int

    def __init__(
        self, services: Services, client: ClientSide, request: Request, client_timeout: float = inf
    ) -> None:
        self.services = services
        self.client = client
        self.request = request
        self.client_timeout = client_timeout
        self.state: State = NEW
        self.body = RequestBody(request, services.hold_bytes) if request.has_body else NO_BODY
        self.to_head = request.method == b"HEAD"
        self.pod_side: PodSide | None = None
        self._attempts: Attempts | None = None
        self._translation: Translation | None = None
        self.limits: TimeLimits | None = None
        self._response_size = 0
        self._sized = True
        self.trace: Trace | None = None
        self.added_lines = services.added_lines
        self.wait: PodWait | None = None

    # -- getting a pod -----------------------------------------------------------------------------

    def begin(self) -> None:
        """Find the revision, admit the request, and send it if a pod has a free slot.

        Everything else follows from callbacks.
        """
        services, request = self.services, self.request
        driver, trace = services.driver, None
        if services.tracer is not None:
            trace = self.trace = begin_trace(services.tracer, request, self.client.is_secure())
        try:
            entry = self.entry = find(driver.entries, request, self.client.port())
        except RevisionNotFound as missing:
            self.state = DONE
            outcome.respond_not_found(services, self.client, request, trace, missing)
            return
        now = driver.clock()
        throttler = entry.throttler
        revision = throttler.revision
        within = revision.timeout
        if revision.response_start_timeout or revision.idle_timeout or request.expects_continue:
            within = seconds_to_response(revision, services.idle_from_arrival)
            self.limits = TimeLimits(revision)
        if self.client_timeout < within:
            within = self.client_timeout
        ticket = self.ticket = Ticket(self, now + within, request.size() + self.body.size)
        if throttler.key_header:
            ticket.key = key_of(request, throttler.key_header)
        entry.load.request_began(now)
        if trace is not None:
            trace.found(revision)
        try:
            pod = driver.admit(throttler, ticket, now)
        except (RequestQueueFull, WaitTooLong) as full:
            response, ended = error_responses.rejected(services, throttler, full)
            self.stop(response, ended)
            return
        if pod is not None:
            self._connect(pod, now)
            return
        if trace is not None:
            trace.no_pod(driver.why(throttler)[0].value)
        self._begin_wait(now)
        driver.began_waiting(throttler)

    def _begin_wait(self, now: float) -> None:
        """Record that the request begins to wait, for the first time or again."""
        self.state = WAITING
        if self.wait is None:
            driver, timing = self.services.driver, self.services.server_timing
            self.wait = PodWait(driver.cold_starts, self.ticket.arrived, server_timing=timing)
        self.added_lines = join_cold_start(self.wait, self.entry, self.added_lines, now)

    def ticket_assigned(self) -> None:
        """See throttler.ticket.TicketOwner."""
        now = self.services.driver.clock()
        assert self.wait is not None
        self.wait.assigned(now)
        self.entry.counters.waits.observe(now - self.ticket.arrived)
        if self.client.may_send(now):
            self._connect(pod_of(self.ticket), now)

    def ticket_expired(self, reason: Reason, detail: str) -> None:
        """See throttler.ticket.TicketOwner."""
        late = error_responses.expired(self.services, self.entry.throttler, reason, detail)
        self.stop(late, "timed-out")

    def resume(self, now: float) -> None:
        """Send an assigned request, because its client is known to be there.

        Arguments:
            now: seconds.
        """
        if self.state is WAITING and self.ticket.state is ASSIGNED:
            self._connect(pod_of(self.ticket), now)

    def _connect(self, pod: PodTracker, now: float) -> None:
        """Send the request to its pod on a connection that is free, or once one is open."""
        attempts = self._attempts
        fresh = False
        if attempts is not None:
            attempts.made += 1
            fresh = attempts.fresh
        if self.trace is not None:
            self.trace.assigned(pod.address)
        pool = self.services.pools.of(pod)
        side = pool.side_for(self.request, fresh=fresh)
        if side is not None:
            self._send(side, now)
            return
        self.state = CONNECTING
        self.pod_side = None
        self.client.arm(self.ticket.deadline)
        pool.dial_for(self, self.request)

    @property
    def wants_connection(self) -> bool:
        """See Requester."""
        return self.state is not DONE

    def on_connected(self, side: PodSide) -> None:
        """See Requester."""
        if self.state is DONE:
            side.release()
        elif self.wait is not None and self.client.is_gone():
            side.release()
            self.client.drop()
        else:
            self._send(side, self.services.driver.clock())

    def on_dial_failed(self, error: str, cause: str) -> None:
        """See Requester."""
        if self.state is not DONE:
            self._record().failed(self, Failure.NO_CONNECTION, error, cause)

    # -- sending -----------------------------------------------------------------------------------

    def _send(self, side: PodSide, now: float) -> None:
        self.state = SENT
        self.pod_side = side
        self._sent_at = now
        client, request, body = self.client, self.request, self.body
        when = self.ticket.deadline
        if self.limits is not None:
            self.limits.sent(now, request.expects_continue)
            when = min(when, self.limits.next())
        client.arm(when)
        try:
            to_http2 = side.send_request(self, client, request, body, self.trace)
        except FramingError as error:
            self.pod_side = None
            self.stop(error_responses.too_large(pod_of(self.ticket), error), "refused")
            return
        if to_http2 is not (request.version is HTTP_2):
            self._translation = Translation(client, side, to_http2=to_http2)
        elif self._translation is not None:
            self._translation = None
        if body is not NO_BODY:
            self._sent_body(body, side, to_http2)

    def _sent_body(self, body: RequestBody, side: PodSide, to_http2: bool) -> None:
        """Record that a pod has the buffered part of the body; read the rest from the client."""
        if self._translation is not None:
            self._translation.sent(sum(map(len, body.pieces)))
        body.sent(may_return=to_http2 or not side.is_understood())
        if not body.complete:
            self.client.regulate()

    def wants_body(self) -> bool:
        """Return whether more of the request's body may be read from the client now."""
        if self.pod_side is not None:
            return not self.pod_side.is_full()
        return not self.body.full

    def on_request_body(self, payload: list[bytes], complete: bool, trailers: bytes) -> None:
        """Handle a part of the request's body.

        Arguments:
            payload: pieces; may be empty.
            complete: whether the request ends here.
            trailers: the trailers, if ``complete``, in the client's version.
        """
        body = self.body
        if complete:
            body.complete = True
            body.trailers = trailers
            if self.limits is not None:
                self.limits.continued()
        if self.state is DONE:
            return
        size = len(payload[0]) if len(payload) == 1 else sum(map(len, payload))
        if not (size or complete):
            return
        side = self.pod_side
        if side is not None:
            if self._translation is None:
                side.send_body(payload, complete, trailers)
            else:
                side.send_body(payload, complete, self._translation.request_trailers(trailers))
                self._translation.sent(size)
            if not body.replayable or self.state in RESPONSE_BEGUN:
                return
        if size:
            body.keep(payload[0] if len(payload) == 1 else b"".join(payload))
            if self.state is not NEW:
                self._charge(size)

    def _charge(self, size: int) -> None:
        """Count buffered bytes against the budgets; beyond them nothing more is read.

        Arguments:
            size: bytes that were buffered just now.
        """
        ticket, body = self.ticket, self.body
        if ticket.state is not QUEUED:
            ticket.size += size
            if self.pod_side is not None:
                body.trim()
        elif body.replayable:
            body.replayable = self.services.driver.reserve_bytes(self.entry.throttler, ticket, size)

    def pause_sending(self) -> None:
        """See Requester."""
        self.client.regulate()

    def resume_sending(self) -> None:
        """See Requester."""
        if self._translation is not None:
            self._translation.pod_changed()
        self.client.regulate()

    # -- the response ------------------------------------------------------------------------------

    def on_interim(self, response: Response | ResponseFields) -> None:
        """See Requester."""
        if response.status == 101:
            assert isinstance(response, Response)
            self._switch(response)
        elif response.status == 100:
            self.send_continue()
        elif self.request.version is not HTTP_1_0:
            self._response_began(self.services.driver.clock())
            if self._translation is not None:
                response = self._translation.response(response, to_head=self.to_head)
            self.client.interim(response)

    def send_continue(self) -> None:
        """Send the client a 100 if it waits for one."""
        limits = self.limits
        if self.request.expects_continue and limits is not None and limits.continued():
            self.client.send_continue()

    def on_response(
        self,
        response: Response | ResponseFields,
        raw: bytes | None,
        payload: list[bytes],
        complete: bool,
        trailers: bytes = b"",
    ) -> None:
        """See Requester."""
        pod = self.ticket.pod
        assert pod is not None
        status = response.status
        in_doubt = pod.ejection.consecutive_errors or status in DOUBTFUL
        if in_doubt and not self._record().passes(self, response, payload, complete):
            return
        self.state = RESPONDING
        self._status = status
        request, driver = self.request, self.services.driver
        now = driver.clock()
        driver.response_began(self.ticket, pod, now)
        if self.limits is not None:
            self._response_began(now)
        if request.has_body:
            self.body.pieces = []
        if self._attempts is not None and self._attempts.made > 1:
            self.added_lines += outcome.attempts_line(self._attempts.made)
        if self.wait is not None:
            self.added_lines += self.wait.responded(pod, now)
        if self.trace is not None:
            self.trace.responded(status)
        length = response.length
        if length < 0:
            self._sized = False
            length = sum(map(len, payload))
        self._response_size = length
        # Pods get a request of HTTP/1.0 as HTTP/1.1.
        version = request.version or HTTP_1_1
        if self._translation is not None:
            raw = None
            version = HTTP_2 if self._translation.to_http2 else HTTP_1_1
            if complete:
                trailers = self._translation.response_trailers(trailers or trailers_of(response))
            response = self._translation.response(response, to_head=self.to_head)
        self.entry.counters.responded(
            (pod.address, request.counted_as, version, status), now - self._sent_at, request.length
        )
        self.client.respond(response, raw, payload, complete, trailers)
        if complete:
            self._finish(now)

    def _response_began(self, now: float) -> None:
        """Replace the limit for the beginning of the response by the revision's whole time-out."""
        if self.limits is not None:
            self.limits.touch(now)
            timeout = self.entry.throttler.revision.timeout
            self.services.driver.extend(self.ticket, self.ticket.arrived + timeout)

    def touch(self) -> None:
        """Record that bytes pass, so that the pod does not count as silent."""
        if self.limits is not None:
            self.limits.touch(self.services.driver.clock())

    def on_payload(self, payload: list[bytes], complete: bool, trailers: bytes) -> None:
        """See Requester."""
        if self._attempts is not None and self._attempts.withheld is not None:
            self._withhold(self._attempts, payload, complete, trailers)
            return
        if not self._sized:
            for piece in payload:
                self._response_size += len(piece)
        translation = self._translation
        if translation is not None and trailers:
            trailers = translation.response_trailers(trailers)
        self.client.send_body(payload, complete, trailers)
        if self.limits is not None and payload:
            self.touch()
        if complete:
            self._finish(self.services.driver.clock())
        elif translation is not None:
            translation.passed(sum(map(len, payload)))

    def on_taken(self) -> Callable[[int], None] | None:
        """Return the function to call when the client's stream has accepted bytes; None for none.

        Its argument is the number of bytes.
        """
        if self._translation is not None:
            return self._translation.client_took
        return None if self.pod_side is None else self.pod_side.took

    def on_client_room(self, full: bool) -> None:
        """Pause or resume the pod, by whether the client reads.

        Arguments:
            full: True if bytes wait because the client does not read; False if it reads again.
        """
        if not full:
            self.touch()
        if self.pod_side is not None:
            self.pod_side.pause(full)
        if self._translation is not None and not full:
            self._translation.client_took_all()

    def _finish(self, now: float) -> None:
        """End the request, because its response is complete."""
        self.detach()
        self.end("served", self._status, self._response_size, now)
        self.client.finished(now)

    def detach(self) -> None:
        """Release the pod's side, because its response is complete."""
        side, self.pod_side = self.pod_side, None
        if side is not None:
            side.detach(self.body.complete)

    def _withhold(
        self, attempts: Attempts, payload: list[bytes], complete: bool, trailers: bytes
    ) -> None:
        """Collect a response that may be queue-proxy's own, and judge it once it is complete."""
        withheld = attempts.withheld
        assert withheld is not None
        withheld.pieces += payload
        if complete:
            attempts.withheld = None
            self.on_response(withheld.response, None, withheld.pieces, True, trailers)

    # -- another protocol --------------------------------------------------------------------------

    def _switch(self, response: Response) -> None:
        """Change the protocol, because the pod sent 101 (RFC 9110 section 7.8)."""
        pod = pod_of(self.ticket)
        if not is_wanted(self.request, response):
            self.stop(error_responses.failed(pod, "an unrequested 101"), "upstream-failed")
            return
        self._status = 101
        self.state = TUNNEL
        now = self.services.driver.clock()
        if self.wait is not None:
            self.added_lines += self.wait.responded(pod, now)
        self._response_began(now)
        if self.trace is not None:
            self.trace.responded(101)
        switch(
            self.client, self.pod_side, response, self.added_lines, self.touch, self.tunnel_closed
        )

    def tunnel_closed(self) -> None:
        """End the request, because a connection of the tunnel is lost."""
        self.pod_side = None
        if self.state is not DONE:
            outcome.end_now(self, "served", 101, self._response_size)

    # -- when an attempt fails ---------------------------------------------------------------------

    def on_lost(self, error: str, began: bool) -> None:
        """See Requester."""
        side = self._lose_pod()
        if self.state is not DONE:
            reused = side is not None and side.is_reused()
            self._record().failed(self, retry.lost(began=began, reused=reused), error)

    def on_reset(self, code: int, began: bool) -> None:
        """See Requester."""
        self._lose_pod()
        if self.state is not DONE:
            self._record().reset(self, code, began, self._count_responses())

    def on_refused(self, error: str) -> None:
        """See Requester."""
        self._lose_pod()
        if self.state is not DONE:
            self._record().refused(self, self._count_responses(), error)

    def on_other_protocol(self, error: str) -> None:
        """See Requester."""
        self._lose_pod()
        if self.state is not DONE:
            self._record().misunderstood(self, error)

    def _lose_pod(self) -> PodSide | None:
        """Release and return the side of a pod that sends nothing more."""
        side, self.pod_side = self.pod_side, None
        if self._attempts is not None:
            self._attempts.withheld = None
        return side

    def _count_responses(self) -> int:
        """Return how many HTTP/2 responses the pod has sent."""
        return self.services.pools.of(pod_of(self.ticket)).count_responses()

    def _record(self) -> Attempts:
        """Return the record of the attempts; the first call makes it."""
        if self._attempts is None:
            self._attempts = Attempts(self.services.driver)
        return self._attempts

    def send_again(self) -> None:
        """See attempts.Retrying."""
        self._connect(pod_of(self.ticket), self.services.driver.clock())

    def requeue(self, cause: str) -> None:
        """See attempts.Retrying."""
        self.entry.counters.requeued(cause)
        if self.trace is not None:
            self.trace.waiting()
        driver = self.services.driver
        now = driver.clock()
        self.pod_side = None
        self._begin_wait(now)
        driver.requeue(self.entry.throttler, self.ticket, now)

    # -- the end -----------------------------------------------------------------------------------

    def on_time(self, now: float) -> float:
        """Enforce the limits that have passed; return when to call this again, seconds."""
        if self.state is DONE or self.state is NEW or self.ticket.state is QUEUED:
            return inf  # the driver enforces the deadline of a queued ticket
        return check(self, now)

    def drain(self) -> None:
        """End the request if no pod has it: the client can retry at another activator."""
        if self.state is not DONE and self.pod_side is None:
            self.stop(own_responses.draining("no pod was free in time"), "draining")

    def force_end(self) -> None:
        """End the request, because the drain time is over."""
        if self.state is not DONE:
            began = self.state in RESPONSE_BEGUN
            detail = "this activator ends" if began else "the pod had not responded yet"
            self.stop(own_responses.draining(detail), "draining")

    def on_client_gone(self) -> None:
        """Cancel the request: the client has closed."""
        if self.state is NEW:
            self.state = DONE
        elif self.state is not DONE:
            self._cancel_pod()
            outcome.end_now(self, "cancelled", 499, self._response_size)

    def stop(self, response: OwnResponse, ended: str) -> None:
        """See attempts.Retrying."""
        attempts = self._attempts
        self._cancel_pod()
        if self.state in RESPONSE_BEGUN:
            code = 0 if attempts is None else attempts.broken_by
            outcome.break_off(self, response, ended, self._status, self._response_size, code)
        elif attempts is not None:
            outcome.respond_with_error(self, response, ended, attempts.made)
        else:
            outcome.respond_with_error(self, response, ended, 0 if self.ticket.pod is None else 1)

    def _cancel_pod(self) -> None:
        """Cancel the request at its pod, if a pod has it."""
        side, self.pod_side = self.pod_side, None
        if side is not None:
            side.cancel()

    def end(self, ended: str, status: int, size: int, now: float, why: str = "") -> None:
        """See outcome.Ending."""
        self.state = DONE
        services, entry, request, ticket = self.services, self.entry, self.request, self.ticket
        duration = now - ticket.arrived
        entry.counters.ended(
            (request.counted_as, request.version, status), ended, duration, request.length, size
        )
        entry.load.request_ended(now)
        if self.wait is not None:
            self.wait.ended(ended, now)
        if self.trace is not None:
            self.trace.ended(status, ended)
        if services.request_log is not None:
            outcome.log(self, services.request_log, status, size, duration, why)
        ticket.owner = NO_OWNER  # breaks the cycle: nothing is left for the garbage collector
        state = ticket.state
        if state is ASSIGNED:
            if ended == "served":
                services.driver.release(entry.throttler, ticket, now)
            else:
                services.driver.release(entry.throttler, ticket, now, outcome.of_pod(ended))
        elif state is QUEUED:
            services.driver.cancel(entry.throttler, ticket, now)
