"""The life of one request and its response, from the complete head to the end.

The methods stand in the order of a request's life: it begins, is admitted or waits, is sent to a
pod, gets its response, and ends. A side of the exchange speaks HTTP/1 or HTTP/2; the decisions are
the same for both. Every call is synchronous. Rare steps have modules of their own:

| step | module |
|---|---|
| may not be queued, or needs authorization | ``permission`` |
| is for an object of the KEDA HTTP add-on | ``interceptor`` |
| is an admission request | ``admission_port`` |
| waits for a pod, and its client gets something meanwhile | ``wait``, ``heartbeat`` |
| is sent again, because an attempt failed | ``retry`` |
| reaches a limit of time | ``limits`` |
| changes its protocol | ``tunnel`` |
| ends without being served | ``end`` |
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from http import HTTPStatus
from math import inf
from typing import TYPE_CHECKING, Final, final

from activator.keda.words import LIVE, READY
from activator.knative.queue_proxy import DOUBTFUL
from activator.knative.words import (
    AUTOSCALER,
    INGRESS,
    KUBELET_AGENT,
    KUBELET_PROBE,
    NAMESPACE,
    NETWORK_HASH,
    NETWORK_PROBE,
    REVISION,
)
from activator.proxy.exchange import (
    admission_port,
    end,
    heartbeat,
    interceptor,
    permission,
    retry,
    tunnel,
)
from activator.proxy.exchange.limits import (
    TimeLimits,
    check,
    limit_wait,
    name_wait,
    seconds_to_response,
)
from activator.proxy.exchange.observers import begin_trace
from activator.proxy.exchange.placement import (
    key_of,
    set_place,
    stick,
)
from activator.proxy.exchange.retry import Attempts, Failure
from activator.proxy.exchange.sides import (
    AUTHORIZING,
    CONNECTING,
    DONE,
    NEW,
    RESPONDING,
    RESPONSE_BEGUN,
    SENT,
    WAITING,
    ExchangeState,
    PodSide,
    Progress,
    Requester,
)
from activator.proxy.exchange.translation import Translation, trailers_of
from activator.proxy.exchange.wait import PodWait, begin_wait, step
from activator.proxy.http2.fields import ResponseFields
from activator.proxy.http2.section import with_priority
from activator.proxy.message import own_responses
from activator.proxy.message.fields import HTTP_1_0, HTTP_1_1, HTTP_2, PRIORITY, SERVICE
from activator.proxy.message.grammar import FramingError, pile
from activator.proxy.message.own_responses import OwnResponse
from activator.proxy.message.request import IDEMPOTENT, Request
from activator.proxy.message.response import Response
from activator.records.entries import Entries, Entry
from throttler.errors import FlowFull, RequestQueueFull, RevisionNotFound, WaitTooLong
from throttler.model import QueueOrder
from throttler.pod import PodTracker
from throttler.reason import Reason
from throttler.request_policies import Verdict
from throttler.ticket import ASSIGNED, NO_OWNER, QUEUED, Ticket

if TYPE_CHECKING:
    from activator.proxy.client.connection import ClientPort
    from activator.proxy.exchange.heartbeat import EarlyStream
    from activator.proxy.exchange.services import ProxyServices
    from activator.proxy.exchange.sides import ClientSide
    from activator.runtime import RequestTrace


#: A number, since CPython tests ``bytes in bytes`` by way of an exception, which takes 0.6 µs.
_COMMA: Final = ord(",")
_FORWARDED_FOR: Final = b"x-forwarded-for"
#: From this number of addresses in X-Forwarded-For on, a request is in a loop.
_MOST_HOPS: Final = 32
#: So many addresses, of the shortest form ``::1``, have at least as many bytes.
_SHORTEST: Final = 4 * _MOST_HOPS - 1
_KUBELET: Final = re.compile(rb"\r\n[Uu](?i:ser-agent):[ \t]*" + re.escape(KUBELET_AGENT))


def probe_response(
    request: Request,
    port: ClientPort,
    unhealthy: Callable[[], str],
    health: Callable[[], str] | None = None,
    *,
    may_be_kubelet: bool,
) -> OwnResponse | None:
    """Return the response to a probe of kubelet, ingress or autoscaler; None for other requests.

    A request that names two revisions gets 400, one in a loop 508. All other requests on the port
    of a plain Service are for its pods. On the admission port, probes are requests like others: a
    proxy would take a response 200 as permission to send them to a service that sleeps.

    Arguments:
        request: any request of a client.
        port: the port that the client has connected to.
        unhealthy: returns why the activator is not ready; empty while it is ready.
        health: of ``ProxyServices``. With it, kubelet has two paths here, and others for pods.
        may_be_kubelet: whether the head has ``KUBELET_AGENT`` anywhere.
    """
    fields = request.fields
    if port.service:
        return _loop(fields)
    probe, wrong = b"", contradiction(fields) if fields else ""
    if port.admission is None:
        if not (fields or may_be_kubelet):
            return None
        if fields.get(KUBELET_PROBE) or (may_be_kubelet and _KUBELET.search(request.lines)):
            if health is not None and not fields.get(KUBELET_PROBE):
                return _kubelet_response(request.target, health)
            why = unhealthy()
            return own_responses.unhealthy(why) if why else own_responses.HEALTHY
        if NETWORK_PROBE in fields:
            probe = fields[NETWORK_PROBE].rstrip(b" \t")
    if not probe:
        if wrong:
            return own_responses.refused(400, wrong)
        return _loop(fields) if len(fields.get(_FORWARDED_FOR, b"")) >= _SHORTEST else None
    if probe == INGRESS:
        return own_responses.network_probe(fields.get(NETWORK_HASH, b"").rstrip(b" \t"))
    if probe == AUTOSCALER:
        return own_responses.ACTIVATOR_PROBE
    return own_responses.unexpected_probe(probe)


def _kubelet_response(target: bytes, health: Callable[[], str]) -> OwnResponse | None:
    """Return the response to kubelet's probe of the activator itself; None for another one.

    Arguments:
        target: of a request with kubelet's User-Agent.
        health: returns why the activator is not ready; empty if it is.
    """
    path = target.partition(b"?")[0]
    if path == LIVE:
        return own_responses.health("")
    return own_responses.health(health()) if path == READY else None


def contradiction(fields: dict[bytes, bytes]) -> str:
    """Return an error text if a request names two revisions; empty otherwise.

    That happens if an ingress appends its control field to one of the client. A repeated name is
    no error.

    Arguments:
        fields: the handled fields of the request, by name in lower case.
    """
    if (
        _COMMA in fields.get(REVISION, b"")
        or _COMMA in fields.get(NAMESPACE, b"")
        or _COMMA in fields.get(SERVICE, b"")
    ):
        return _one_each(fields)
    return ""


def _one_each(fields: dict[bytes, bytes]) -> str:
    for name in (REVISION, NAMESPACE, SERVICE):
        first, *others = [part.strip(b" \t") for part in fields.get(name, b"").split(b",")]
        if any(other != first for other in others):
            return f"{name.decode()} occurs twice with different values"
    return ""


def _loop(fields: dict[bytes, bytes]) -> OwnResponse | None:
    """Return the response to a request that passes the activator again and again; else None.

    The pods of a Service may be activators by mistake. Then each round adds an address to
    X-Forwarded-For, and takes two connections. Requests with the header of Knative's ingress are
    exempt: their Endpoints list pods with queue-proxy.

    Arguments:
        fields: the handled fields of the request, by name in lower case.
    """
    forwarded_for = fields.get(_FORWARDED_FOR, b"")
    if len(forwarded_for) < _SHORTEST or REVISION in fields:
        return None
    hops = forwarded_for.count(b",") + 1
    if hops < _MOST_HOPS:
        return None
    text = f"X-Forwarded-For has {hops} addresses: the request passes the activator again and again"
    return own_responses.refused(HTTPStatus.LOOP_DETECTED, text)


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
        attempts: its attempts; None for most requests until the first doubtful response or failure.
        body: the buffered body of the request.
        entry: the entry of its revision.
        limits: its limits except the deadline; None for most requests.
        pod_side: the pod's side; None while no pod has the request.
        response_size: bytes of the response's body that the client got; counts_payload: whether
            they are counted piece by piece, because the head does not give the length.
        sent_at: when a pod last got it, seconds.
        state: assigned directly. ``sides.FOLLOWS`` has the allowed changes, and the tests of the
            byte path check each change against it.
        status: the status of the response; set when it begins.
        ticket: its ticket in the throttler.
        to_head: see Requester.
        trace: its spans; None if it is not traced.
        translation: converts between two versions of HTTP; None if both sides speak the same.
        wait: its wait for a pod; None if it got a pod at once.
    """

    __slots__ = (
        "added_lines",
        "attempts",
        "body",
        "client",
        "client_timeout",
        "counts_payload",
        "entry",
        "limits",
        "pod_side",
        "request",
        "response_size",
        "sent_at",
        "services",
        "state",
        "status",
        "ticket",
        "to_head",
        "trace",
        "translation",
        "wait",
    )

    entry: Entry
    ticket: Ticket
    sent_at: float
    status: int

    def __init__(
        self,
        services: ProxyServices,
        client: ClientSide,
        request: Request,
        client_timeout: float = inf,
    ) -> None:
        self.services = services
        self.client = client
        self.request = request
        self.client_timeout = client_timeout
        self.state: ExchangeState = NEW
        self.body = RequestBody(request, services.hold_bytes) if request.has_body else NO_BODY
        self.to_head = request.method == b"HEAD"
        self.pod_side: PodSide | None = None
        self.attempts: Attempts | None = None
        self.translation: Translation | None = None
        self.limits: TimeLimits | None = None
        self.response_size = 0
        self.counts_payload = False
        self.trace: RequestTrace | None = None
        self.added_lines = services.added_lines
        self.wait: PodWait | None = None

    # -- it begins ---------------------------------------------------------------------------------

    def begin(self) -> None:
        """Find the revision, and admit the request. Everything else follows from callbacks.

        Knative's counterpart: pkg/activator/handler/handler.go.
        """
        services, request, port = self.services, self.request, self.client.base.port
        if port.admission is not None:
            if not admission_port.read(self, port.admission):
                return
            request = self.request
            self.ensure_attempts().admits = True
        driver, tracer, trace = services.driver, services.tracer, None
        if tracer is not None:
            trace = self.trace = begin_trace(tracer, request, self.client.base.secure)
        try:
            entry = self.entry = find(services, request, self.client)
        except RevisionNotFound as missing:
            self.state = DONE
            end.respond_not_found(self, missing)
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
        size = request.size + self.body.size
        # The driver calls its owner: ``ticket_assigned`` or ``ticket_expired``.
        ticket = self.ticket = Ticket(self, now + within, size)
        if throttler.key is not None:
            sticky, clients = throttler.sticky, services.clients
            ticket.key = key_of(request, throttler.key, sticky, self.client.base.address, clients)
        order = throttler.queued.order
        if order is not None:
            self._follow(order)
        if trace is not None:
            trace.found(revision)
        policies = revision.policies.requests
        if policies is not None:
            if policies.wait_seconds:
                limit_wait(self, policies, now)
            if not permission.may_enter(self, policies, now):
                return
        self._admit(now)

    def _follow(self, order: QueueOrder) -> None:
        """Pass on the class that a request selects; find its place if it may be queued."""
        request, throttler = self.request, self.entry.throttler
        if order.trusts_header and PRIORITY in request.fields:
            self.request = with_priority(request, self.client.base.address)
        if throttler.slots.holder is not None or not throttler.has_free_slot:
            set_place(self, order, request)

    def decided(self, verdict: Verdict) -> None:
        """Continue by a decision of the authorization server, or end."""
        now = self.services.driver.clock()
        if self.state is not AUTHORIZING or not permission.follow(self, verdict, now):
            return
        order = self.entry.throttler.queued.order
        if order is not None:
            set_place(self, order, self.request)
        self._admit(now)
        self.client.regulate()

    def _admit(self, now: float) -> None:
        """Queue a request, or send it if a pod has a free slot."""
        services, entry, ticket = self.services, self.entry, self.ticket
        driver, throttler = services.driver, entry.throttler
        if ticket.counts:
            self.count(now)
        try:
            pod = throttler.admit(ticket, now)
        except (RequestQueueFull, FlowFull, WaitTooLong) as full:
            response, ended = end.rejected(services, throttler, full)
            self.stop(response, ended)
            return
        if pod is not None:
            self.connect(pod, now)
            return
        if self.trace is not None:
            self.trace.no_pod(driver.why(throttler)[0].value)
        begin_wait(self, now)
        driver.began_waiting(throttler)
        wait = self.wait
        if wait is not None and wait.step_at <= now:
            step(self, wait, now)

    def count(self, now: float) -> None:
        """Count the request in its revision's load. Sample its client, if it arrives alone."""
        entry = self.entry
        agents = entry.agents
        if now >= agents.sample_from:
            if entry.throttler.idle:
                agents.record(self.request.value_of(b"user-agent"), now)
            else:
                agents.pause(now)
        entry.load.request_began(now)

    # -- it waits ---------------------------------------------------------------------------------

    def ticket_assigned(self) -> None:
        """Send a queued request to its pod; see throttler.ticket.TicketOwner."""
        now = self.services.driver.clock()
        wait = self.wait
        assert wait is not None
        wait.assigned(now)
        self.entry.counters.waits.observe(now - self.ticket.arrived)
        self._limit_response(now)
        if self.client.is_there(now):
            self.connect(self.pod(), now)

    def resume(self, now: float) -> None:
        """Send an assigned request, because its client is known to be there; ``now`` in seconds."""
        if self.state is WAITING and self.ticket.state is ASSIGNED:
            self.connect(self.pod(), now)

    def ticket_expired(self, reason: Reason, detail: str) -> None:
        """End a request whose wait has reached its deadline; see throttler.ticket.TicketOwner."""
        if interceptor.fall_back(self, self.services.driver.clock()):
            return
        detail = name_wait(self, detail)
        again = self.services.retry_after(self.entry.throttler)
        response = own_responses.timed_out(reason, detail, again)
        self.stop(interceptor.expired(self, response), "timed-out")

    def requeue(self, cause: str) -> None:
        """Put a request that has lost its pod at the front of the queue.

        Arguments:
            cause: one of ``counters.CAUSES``.
        """
        self.entry.counters.requeued(cause)
        if self.trace is not None:
            self.trace.waiting()
        driver, throttler = self.services.driver, self.entry.throttler
        now = driver.clock()
        self.pod_side = None
        order = throttler.queued.order
        if order is not None and self.wait is None:
            set_place(self, order, self.request)
        if self.limits is not None and self.limits.wait is not None:
            self.ticket.deadline = self.limits.wait.requeued()
        begin_wait(self, now)
        driver.requeue(throttler, self.ticket, now)
        if self.ticket.state is QUEUED:
            permission.end_if_asleep(self, now)

    def early_stream(self) -> EarlyStream | None:
        """Return the client's side if the client has the head of an event stream; else None."""
        return None if self.wait is None else self.wait.early

    # -- a pod gets it -----------------------------------------------------------------------------

    def pod(self) -> PodTracker:
        """Return the pod to which the request is assigned."""
        pod = self.ticket.pod
        assert pod is not None
        return pod

    def connect(self, pod: PodTracker, now: float) -> None:
        """Send a request to its pod on a connection that is free, or once one is open.

        Arguments:
            pod: the assigned pod.
            now: seconds.
        """
        attempts = self.attempts
        fresh = secure = False
        if attempts is not None:
            if attempts.admits:
                self.state = CONNECTING
                admission_port.respond(self, pod, now)
                return
            attempts.made += 1
            fresh, secure = attempts.fresh, attempts.secure
        if self.trace is not None:
            self.trace.assigned(pod.address)
        pools = self.services.pools
        pool = pools.secured(pod) if secure else pools.of(pod)
        side = pool.side_for(self.request, fresh=fresh)
        if side is not None:
            self._send(side, now)
            return
        self.state = CONNECTING
        self.pod_side = None
        self._limit_response(now)
        self.client.base.arm(self.ticket.deadline)
        pool.dial_for(self, self.request)

    def _limit_response(self, now: float) -> None:
        """Set the deadline of a request that has a pod, if its wait had one of its own."""
        if self.limits is not None:
            self.ticket.deadline = self.limits.deadline(self.ticket, now)

    @property
    def wants_connection(self) -> bool:
        return self.state is not DONE

    def on_connected(self, side: PodSide) -> None:
        if self.state is DONE:
            side.release()
        elif self.wait is not None and self.client.is_gone():
            side.release()
            self.client.base.transport.abort()
        else:
            self._send(side, self.services.driver.clock())

    def _send(self, side: PodSide, now: float) -> None:
        """Send a request on a connection; ``now`` in seconds."""
        self.state = SENT
        self.pod_side = side
        self.sent_at = now
        client, request, body = self.client, self.request, self.body
        when = self.ticket.deadline
        limits = self.limits
        if limits is not None:
            limits.sent(now, request.expects_continue)
            when = self.ticket.deadline = limits.deadline(self.ticket, now)
            when = min(when, limits.next())
        base = client.base
        if when < base.armed:
            base.arm(when)
        try:
            to_http2 = side.send_request(self, client, request, body, self.trace)
        except FramingError as error:
            self.pod_side = None
            what = f"{self.pod().address}: {error}"
            self._refuse(own_responses.refused(error.status, what))
            return
        if to_http2 is not (request.version is HTTP_2):
            self.translation = Translation(client, side, to_http2=to_http2)
        elif self.translation is not None:
            self.translation = None
        if body is not NO_BODY:
            self._sent_body(body, side, to_http2)

    def _refuse(self, response: OwnResponse) -> None:
        """End a request that its pod cannot get; one that was queued in the next turn of the loop.

        The end of one request assigns its slot to the next one, see ``admission_port.respond``.
        """
        if self.wait is None:
            self.stop(response, "refused")
        else:
            asyncio.get_running_loop().call_soon(self._stop_later, response)

    def _stop_later(self, response: OwnResponse) -> None:
        if self.state is not DONE:
            self.stop(response, "refused")

    # -- its body ----------------------------------------------------------------------------------

    def _sent_body(self, body: RequestBody, side: PodSide, to_http2: bool) -> None:
        """Record that a pod has the buffered part of the body; read the rest from the client."""
        if self.translation is not None:
            self.translation.sent_to_pod(sum(map(len, body.pieces)))
        may_return = to_http2 or self.entry.throttler.revision.behind_queue_proxy
        body.sent(may_return=may_return or not side.is_understood())
        if not body.complete:
            self.ticket.sent = inf
            self.client.regulate()

    def wants_body(self) -> bool:
        """Return whether more of the request's body may be read from the client now."""
        if self.pod_side is not None:
            return not self.pod_side.is_full()
        return not (self.body.full or self.state is AUTHORIZING)

    def on_request_body(self, payload: list[bytes], complete: bool, trailers: bytes) -> None:
        """Handle a part of the request's body.

        Arguments:
            payload: pieces; may be empty.
            complete: whether the request ends here.
            trailers: the trailers, if ``complete``, in the client's version.
        """
        body = self.body
        if complete:
            if trailers and self.state is not NEW:
                policies = self.entry.throttler.revision.policies.requests
                trailers = b"" if permission.takes_from_server(policies) else trailers
            body.complete = True
            body.trailers = trailers
            if self.limits is not None:
                self.limits.continued()
            if self.state is SENT and self.ticket.assigned:
                self.ticket.sent = self.services.driver.clock()
        if self.state is DONE:
            return
        size = len(payload[0]) if len(payload) == 1 else sum(map(len, payload))
        if not (size or complete):
            return
        side, translation = self.pod_side, self.translation
        if size and (side is None or (body.replayable and self.state not in RESPONSE_BEGUN)):
            data = payload[0] if len(payload) == 1 else b"".join(payload)
            body.keep(data, has_pod=side is not None)
            if self.state is not NEW:
                self._charge(size)
        if side is None:
            return
        if translation is None:
            side.send_body(payload, complete, trailers)
        else:
            side.send_body(payload, complete, translation.request_trailers(trailers))
            translation.sent_to_pod(size)

    def request_sink(self, unread: int) -> asyncio.Transport | None:
        """Return where the rest of the request's body goes as it is; None if nowhere.

        Arguments:
            unread: bytes of it that have arrived. They pass now or never: if they are too many to
                be held, the request cannot be sent again.
        """
        side = self.pod_side
        sink = None if side is None or self.translation is not None else side.sink()
        if sink is None or self.request.upgrade or self.body.holds(unread):
            return None
        return sink

    def _charge(self, size: int) -> None:
        """Count buffered bytes against the budgets; beyond them nothing more is read.

        Arguments:
            size: bytes that were buffered just now.
        """
        ticket, body = self.ticket, self.body
        if ticket.state is not QUEUED:
            ticket.size += size
        elif body.replayable:
            body.replayable = self.entry.throttler.queued.reserve_bytes(ticket, size)

    def pause_sending(self) -> None:
        self.client.regulate()

    def resume_sending(self) -> None:
        if self.translation is not None:
            self.translation.pod_accepts()
        self.client.regulate()

    # -- an attempt fails --------------------------------------------------------------------------

    def ensure_attempts(self) -> Attempts:
        """Return the record of its attempts; the first call makes it."""
        attempts = self.attempts
        if attempts is None:
            attempts = self.attempts = Attempts(self.services.driver)
        return attempts

    def on_dial_failed(self, error: str, cause: str) -> None:
        if self.state is not DONE:
            self.ensure_attempts().failed(self, Failure.NO_CONNECTION, error, cause)

    def on_lost(self, error: str, progress: Progress) -> None:
        side, attempts = self.pod_side, self._lose_pod()
        if attempts is not None:
            reused = side is not None and side.is_reused()
            attempts.failed(self, retry.lost(progress, reused=reused), error)

    def on_reset(self, code: int, progress: Progress) -> None:
        if (attempts := self._lose_pod()) is not None:
            attempts.reset(self, code, progress)

    def on_refused(self, error: str) -> None:
        if (attempts := self._lose_pod()) is not None:
            attempts.refused(self, error)

    def on_other_protocol(self, error: str) -> None:
        if (attempts := self._lose_pod()) is not None:
            attempts.misunderstood(self, error)

    def _lose_pod(self) -> Attempts | None:
        """Release the side of a pod that sends nothing more.

        Returns:
            The attempts of the request; None if the request has ended.
        """
        self.pod_side = None
        if self.attempts is not None:
            self.attempts.withheld = None
        return None if self.state is DONE else self.ensure_attempts()

    # -- its response ------------------------------------------------------------------------------

    def on_interim(self, response: Response | ResponseFields) -> None:
        if response.status == 101:
            assert isinstance(response, Response)
            tunnel.begin(self, response)
        elif response.status == 100:
            self.send_continue()
        elif self.request.version is not HTTP_1_0:
            self.response_began(self.services.driver.clock(), interim=True)
            if self.translation is not None:
                response = self.translation.response(response, to_head=self.to_head)
            self.client.interim(response)

    def send_continue(self) -> None:
        """Send the client a 100 if it waits for one."""
        if not self.request.expects_continue or self.limits is None or not self.limits.continued():
            return
        if self.state not in RESPONSE_BEGUN:
            self.client.send_continue()

    def on_response(
        self,
        response: Response | ResponseFields,
        raw: bytes | None,
        payload: list[bytes],
        complete: bool,
        trailers: bytes = b"",
    ) -> None:
        """Pass the head of the final response to the client, unless it judges the pod first.

        Arguments:
            response, raw, payload, complete: see Requester.on_response.
            trailers: the trailers, if ``complete``, in the pod's version.
        """
        pod = self.ticket.pod
        assert pod is not None
        status = response.status
        in_doubt = pod.ejection.consecutive_errors or status in DOUBTFUL
        if in_doubt and not self.ensure_attempts().passes(self, response, payload, complete):
            return
        self.status = status
        request, now = self.request, self.services.driver.clock()
        pod.last_response_at = self.ticket.first_byte = now
        attempts, wait = self.attempts, self.wait
        if attempts is not None:
            if attempts.made > 1:
                self.added_lines += end.ATTEMPTS % attempts.made
            if attempts.keeper is not None and self.early_stream() is None:
                attempts.keeper.begin(response)
                attempts.keeper.collect(payload, complete)
        if wait is not None:
            if wait.early is not None and not heartbeat.may_follow(
                self, response, payload, complete
            ):
                return
            self.added_lines += wait.responded(pod, now)
        self.state = RESPONDING
        # The deadline of a Revision without other limits covers the whole response already.
        stays = complete or self.entry.throttler.revision.behind_queue_proxy
        if self.limits is not None or not stays:
            self.response_began(now)
        if request.has_body:
            self.body.pieces = []
        if self.trace is not None:
            self.trace.responded(status)
        sticky = self.entry.throttler.sticky
        if sticky is not None:
            key = self.ticket.key
            if not key or (sticky.by_token and key not in sticky.tokens):
                stick(self, sticky, response)
        length = response.length
        if length < 0:
            self.counts_payload = True
            length = sum(map(len, payload))
        self.response_size = length
        # Pods get a request of HTTP/1.0 as HTTP/1.1.
        version = request.version or HTTP_1_1
        translation = self.translation
        if translation is not None:
            raw = None
            version = HTTP_2 if translation.to_http2 else HTTP_1_1
            if complete:
                trailers = translation.response_trailers(trailers or trailers_of(response))
            response = translation.response(response, to_head=self.to_head)
        self.entry.counters.responded(
            (pod.address, request.counted_as, version, status), now - self.sent_at, request.length
        )
        self.client.respond(response, raw, payload, complete, trailers)
        if complete:
            self._finish(now)

    def response_began(self, now: float, *, interim: bool = False) -> None:
        """Replace the limit for the beginning of the response by the one for its end.

        Arguments:
            now: seconds.
            interim: whether another response follows. It ends ``response_start_timeout`` alone.
        """
        limits, ticket = self.limits, self.ticket
        revision = self.entry.throttler.revision
        timeout = revision.timeout if interim else revision.whole_timeout
        began = ticket.arrived
        if limits is not None:
            limits.touch(now)
            began = limits.began(ticket)
            if not interim:
                self.added_lines += interceptor.cold_start_line(self)
        ticket.deadline = min(began + timeout, ticket.arrived + self.client_timeout)

    def on_payload(self, payload: list[bytes], complete: bool, trailers: bytes) -> None:
        attempts = self.attempts
        if attempts is not None:
            if attempts.withheld is not None:
                self._withhold(attempts, payload, complete, trailers)
                return
            if attempts.keeper is not None:
                attempts.keeper.collect(payload, complete)
        if self.counts_payload:
            for piece in payload:
                self.response_size += len(piece)
        translation = self.translation
        if translation is not None and trailers:
            trailers = translation.response_trailers(trailers)
        self.client.send_body(payload, complete, trailers)
        if payload and self.limits is not None:
            self.touch()
        if complete:
            self._finish(self.services.driver.clock())
        elif translation is not None:
            translation.sent_to_client(sum(map(len, payload)))

    def _withhold(
        self, attempts: Attempts, payload: list[bytes], complete: bool, trailers: bytes
    ) -> None:
        """Collect a response that may be queue-proxy's own, and judge it once it is complete."""
        withheld = attempts.withheld
        assert withheld is not None
        withheld.pieces += payload
        if withheld.ends_stream:
            heartbeat.stop_stream(self, withheld, complete)
        elif complete:
            attempts.withheld = None
            self.on_response(withheld.response, None, withheld.pieces, True, trailers)

    def response_sink(self) -> asyncio.Transport | None:
        attempts = self.attempts
        if attempts is not None and (attempts.withheld is not None or attempts.keeper is not None):
            return None
        changes = self.translation is not None or self.early_stream() is not None
        return self.client.sink() if self.state is RESPONDING and not changes else None

    def touch(self) -> None:
        if self.limits is not None:
            self.limits.touch(self.services.driver.clock())

    def on_client_room(self, full: bool) -> None:
        """Pause or resume the pod, by whether the client reads.

        Arguments:
            full: True if bytes wait because the client does not read; False if it reads again.
        """
        if not full:
            self.touch()
        if self.pod_side is not None:
            self.pod_side.pause(full)
        if self.translation is not None and not full:
            self.translation.client_accepted_all()

    def accepted(self, size: int) -> None:
        """Let the pod send more, because the client's stream has accepted a part of the response.

        Arguments:
            size: how many bytes it accepted.
        """
        early, side = self.early_stream(), self.pod_side
        if early is not None:
            size = early.pass_on(size)
        if side is None or not size:
            return
        if self.translation is None:
            side.accepted(size)
        else:
            self.translation.client_accepted()

    def has_begun(self) -> bool:
        """Return whether the client has any part of a final response."""
        return self.state in RESPONSE_BEGUN or self.early_stream() is not None

    # -- it ends -----------------------------------------------------------------------------------

    def _finish(self, now: float) -> None:
        """End a request whose response is complete."""
        self.pod_side = None
        self.end("served", self.status, self.response_size, now)
        self.client.finished(now)

    def end(self, ended: str, status: int, size: int, now: float, why: str = "") -> None:
        """Count the request, and release its ticket. Called once.

        Arguments:
            ended: one of ``counters.OUTCOMES``.
            status: the status that the client gets.
            size: bytes of the response's body.
            now: seconds.
            why: the Activator-Reason of the activator's own response; else empty.
        """
        self.state = DONE
        services, entry = self.services, self.entry
        request, ticket = self.request, self.ticket
        duration = now - ticket.arrived
        entry.counters.ended(
            (request.counted_as, request.version, status), ended, duration, request.length, size
        )
        if ticket.counts:
            entry.load.request_ended(now)
        if self.wait is not None:
            self.wait.ended(ended, now)
            if ended != "served" and ticket.counts:
                interceptor.keep_demand(self, now)
        if self.trace is not None:
            self.trace.ended(status, ended)
        if services.request_log is not None:
            end.log(self, services.request_log, status, size, duration, why)
        ticket.owner = NO_OWNER  # breaks the cycle: nothing is left for the garbage collector
        state = ticket.state
        if state is ASSIGNED:
            if ended == "served" and 101 < status < 502:
                changes = entry.throttler.release(ticket, now)
            else:
                changes = entry.throttler.release(ticket, now, end.of_pod(ended, status))
            if changes is not None:
                services.driver.carry_out(changes)
        elif state is QUEUED:
            services.driver.cancel(entry.throttler, ticket, now)

    def stop(self, response: OwnResponse, ended: str) -> None:
        """End the request with an error response, or break off a response that has begun.

        Arguments:
            response: the error response.
            ended: one of ``counters.OUTCOMES``.
        """
        if self.state is AUTHORIZING:
            permission.stop(self, response, ended)
            return
        attempts = self.attempts
        self._cancel_pod()
        if self.state in RESPONSE_BEGUN:
            code = 0 if attempts is None else attempts.broken_by
            end.break_off(self, response, ended, code)
        elif attempts is not None:
            end.respond_with_error(self, response, ended, attempts.made)
        else:
            made = 0 if self.ticket.pod is None else 1
            end.respond_with_error(self, response, ended, made)

    def _cancel_pod(self) -> None:
        """Cancel a request at its pod, if a pod has it."""
        side, self.pod_side = self.pod_side, None
        if side is not None:
            side.cancel()

    def leave(self) -> None:
        """End a request whose client has closed."""
        if self.state is NEW:
            self.state = DONE
        elif self.state is AUTHORIZING:
            permission.leave(self)
        elif self.state is not DONE:
            self._cancel_pod()
            end.end_now(self, "cancelled", 499, self.response_size)

    def drain(self) -> None:
        """End a request that no pod has: the client can retry at another activator."""
        if self.state is not DONE and self.pod_side is None:
            self.stop(own_responses.draining("no pod was free in time"), "draining")

    def force(self) -> None:
        """End a request, because the drain time is over."""
        if self.state is not DONE:
            began = self.state in RESPONSE_BEGUN
            detail = "this activator ends" if began else "the pod had not responded yet"
            self.stop(own_responses.draining(detail), "draining")

    def on_time(self, now: float) -> float:
        """Enforce the limits that have passed; return when to call this again, seconds."""
        state = self.state
        if state is DONE or state is NEW:
            return inf
        if state is AUTHORIZING:
            return permission.on_time(self, now)
        wait = self.wait
        step_at = inf if wait is None else step(self, wait, now)
        if not self.wants_connection or self.ticket.state is QUEUED:
            return step_at  # the driver enforces the deadline of a queued ticket
        return min(step_at, check(self, now))


def find(services: ProxyServices, request: Request, side: ClientSide) -> Entry:
    """Return the entry of the revision that a request names.

    A port that belongs to one plain Service decides alone: any client may reach it. On other ports,
    the two control fields name a revision of Knative, and the field ``Activator-Service`` a plain
    Service; the ingress sets them. Without them, the host decides.
    Knative's counterpart: pkg/activator/handler/context_handler.go.

    Arguments:
        services: have the entries of all revisions, and know which clients may name a Service.
        request: the client's request.
        side: of the client.

    Raises:
        RevisionNotFound: the request names no revision, or an unknown one.
    """
    entries, service = services.driver.entries, side.base.port.service
    if service:
        return entries.find_service(service)
    fields = request.fields
    if not fields:
        return entries.find_host(request.host, b"", request)
    namespace = fields.get(NAMESPACE, b"")
    name = fields.get(REVISION, b"")
    if namespace and name:
        if _COMMA in name or _COMMA in namespace:  # a repeated name, see ``contradiction``
            namespace, name = namespace.partition(b",")[0], name.partition(b",")[0]
        return entries.find(namespace.strip(b" \t"), name.strip(b" \t"))
    if SERVICE in fields:
        service, client = fields[SERVICE].partition(b",")[0].strip(b" \t"), side.base.address
        namers = services.namers
        if namers is None or namers.trusts(client) or _is_peer(entries, service, client):
            return entries.find_service(service)
    if name:  # few requests have one, and the two calls cost 640 instructions
        name = name.partition(b",")[0].strip(b" \t")
    return entries.find_host(request.host, name, request)


def _is_peer(entries: Entries, service: bytes, client: bytes) -> bool:
    """Return whether a client is another activator of a Service: throttler.backends sends to it."""
    try:
        addresses = entries.find_service(service).throttler.share.addresses
    except RevisionNotFound:
        return False
    return client.decode("latin-1") in (each.rpartition(":")[0].strip("[]") for each in addresses)


def end_stranded(ticket: Ticket) -> None:
    """End a queued request that may not start a pod; its revision has lost its last usable pod.

    Arguments:
        ticket: of the request. It may have left the queue meanwhile.
    """
    exchange = ticket.owner
    if ticket.state is QUEUED and isinstance(exchange, Exchange):
        permission.end_if_asleep(exchange, exchange.services.driver.clock())


class RequestBody:
    """The body of one request, as far as it has been read, without framing.

    It stays until a pod has it. It stays longer for a possible retry, if the method allows one and
    the body is small.

    Arguments:
        request: the request.
        limit: bytes that may be buffered.

    Attributes:
        pieces: the buffered payload.
        size: bytes of payload read so far.
        complete: whether the client has sent the whole body.
        trailers: the trailers, in the form of the client's HTTP version; set at the end.
        replayable: whether the buffer has all payload so far, so that a pod can get it from the
            start.
    """

    __slots__ = (
        "_idempotent",
        "_keeps",
        "_limit",
        "complete",
        "pieces",
        "replayable",
        "size",
        "trailers",
    )

    def __init__(self, request: Request, limit: int) -> None:
        self._keeps = self._idempotent = request.method in IDEMPOTENT
        self._limit = limit
        self.pieces: list[bytes] = []
        self.size = 0
        self.complete = not request.has_body
        self.trailers = b""
        self.replayable = True

    @property
    def full(self) -> bool:
        """Whether to stop reading until a pod has the buffered payload."""
        return self.size >= self._limit or not self.replayable

    def keep(self, data: bytes, *, has_pod: bool = False) -> None:
        """Buffer one more piece, even beyond the limit, since it has been read already.

        Arguments:
            data: the piece.
            has_pod: whether a pod has the piece too. Then it stays only for a possible retry.
        """
        if self.pieces:
            pile(self.pieces, data)
        else:
            self.pieces.append(data)
        self.size += len(data)
        if has_pod and (self.size > self._limit or not self._keeps):
            self.discard()

    def sent(self, *, may_return: bool) -> None:
        """Record that a pod has the buffered payload; keep it only for a possible retry.

        Arguments:
            may_return: whether the pod may return a request of any method unprocessed. In HTTP/2 it
                may (RFC 9113 section 8.7), and so may queue-proxy. A pod may not speak this version
                of HTTP.
        """
        self._keeps = keeps = may_return or self._idempotent
        if self.size > self._limit or (self.size and not keeps):
            self.discard()

    def holds(self, unread: int) -> bool:
        """Return whether so many bytes can be held too; if not, nothing is held any more."""
        if self.replayable and self.size + unread > self._limit:
            self.discard()
        return self.replayable

    def discard(self) -> None:
        """Discard the buffered payload: the request cannot be sent again."""
        self.replayable = False
        self.pieces = []


#: The body of every request without one.
NO_BODY: Final = RequestBody(Request(b"GET", b"/", HTTP_1_1, b"", {}, b""), 1)
