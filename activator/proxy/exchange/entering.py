"""Begins a request: finds its revision, makes its ticket, and queues it or sends it to a pod.

Knative's counterpart: pkg/activator/handler/handler.go.
"""

from __future__ import annotations

from activator.proxy.exchange import admission, arrival, error_responses, outcome, waiting_client
from activator.proxy.exchange.ending import stop
from activator.proxy.exchange.lookup import find
from activator.proxy.exchange.observers import begin_trace, sample
from activator.proxy.exchange.queue_place import set_place, with_priority
from activator.proxy.exchange.record import ExchangeRecord, attempts_of
from activator.proxy.exchange.request_key import key_of
from activator.proxy.exchange.sending import connect
from activator.proxy.exchange.states import AUTHORIZING, DONE
from activator.proxy.exchange.time_limits import TimeLimits, limit_wait, seconds_to_response
from activator.proxy.exchange.waiting import begin_wait
from activator.proxy.message.fields import PRIORITY
from throttler.errors import FlowFull, RequestQueueFull, RevisionNotFound, WaitTooLong
from throttler.model import QueueOrder
from throttler.request_policies import Verdict
from throttler.ticket import Ticket


def begin(exchange: ExchangeRecord) -> None:
    """Find the revision, and admit the request. Everything else follows from callbacks."""
    services, request, port = exchange.services, exchange.request, exchange.client.port()
    if port.admission is not None:
        if not admission.read(exchange, port.admission):
            return
        request = exchange.request
        attempts_of(exchange).admits = True
    driver, tracer, trace = services.driver, services.tracer, None
    if tracer is not None:
        trace = exchange.trace = begin_trace(tracer, request, exchange.client.is_secure())
    try:
        entry = exchange.entry = find(
            driver.entries, request, port, exchange.client, services.namers
        )
    except RevisionNotFound as missing:
        exchange.state = DONE
        outcome.respond_not_found(services, exchange.client, request, trace, missing)
        return
    now = driver.clock()
    throttler = entry.throttler
    revision = throttler.revision
    within = revision.timeout
    if revision.response_start_timeout or revision.idle_timeout or request.expects_continue:
        within = seconds_to_response(revision, services.idle_from_arrival)
        exchange.limits = TimeLimits(revision)
    if exchange.client_timeout < within:
        within = exchange.client_timeout
    size = request.size() + exchange.body.size
    ticket = exchange.ticket = Ticket(exchange, now + within, size)
    if throttler.key is not None:
        sticky, clients = throttler.sticky, services.clients
        ticket.key = key_of(request, throttler.key, sticky, exchange.client.address(), clients)
    order = throttler.breaker.order
    if order is not None:
        _follow(exchange, order)
    if trace is not None:
        trace.found(revision)
    policies = revision.policies.requests
    if policies is not None:
        if policies.wait_seconds:
            limit_wait(exchange, policies.wait_seconds, now)
        if not arrival.may_enter(exchange, policies, now):
            return
    admit(exchange, now)


def admit(exchange: ExchangeRecord, now: float) -> None:
    """Queue a request, or send it if a pod has a free slot.

    Arguments:
        exchange: the exchange of the request.
        now: seconds.
    """
    services, entry, ticket = exchange.services, exchange.entry, exchange.ticket
    driver, throttler = services.driver, entry.throttler
    if ticket.counts:
        if now >= entry.agents.sample_from:
            sample(entry, exchange.request, now)
        entry.load.request_began(now)
    try:
        pod = driver.admit(throttler, ticket, now)
    except (RequestQueueFull, FlowFull, WaitTooLong) as full:
        response, ended = error_responses.rejected(services, throttler, full)
        stop(exchange, response, ended)
        return
    if pod is not None:
        connect(exchange, pod, now)
        return
    if exchange.trace is not None:
        exchange.trace.no_pod(driver.why(throttler)[0].value)
    begin_wait(exchange, now)
    driver.began_waiting(throttler)
    wait = exchange.wait
    if wait is not None and wait.step_at <= now:
        waiting_client.on_time(exchange, wait, now)


def _follow(exchange: ExchangeRecord, order: QueueOrder) -> None:
    """Pass on the class that a request selects; find its place if it may be queued."""
    request, peer = exchange.request, exchange.client.address()
    throttler = exchange.entry.throttler
    if order.trusts_header and PRIORITY in request.fields:
        exchange.request = with_priority(request, peer)
    if throttler.slots.holder is not None or not throttler.has_free_slot:
        set_place(exchange.ticket, order, request, peer, exchange.services.clients)


def decided(exchange: ExchangeRecord, verdict: Verdict) -> None:
    """Continue by a decision of the authorization server; see authorizing.Authorized."""
    now = exchange.services.driver.clock()
    if exchange.state is not AUTHORIZING or not arrival.follow(exchange, verdict, now):
        return
    order = exchange.entry.throttler.breaker.order
    if order is not None:
        peer, clients = exchange.client.address(), exchange.services.clients
        set_place(exchange.ticket, order, exchange.request, peer, clients)
    admit(exchange, now)
    exchange.client.regulate()
