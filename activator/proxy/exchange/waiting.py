"""Queues a request without a pod, and continues once it is assigned one.

``pod_wait`` records the wait, and ``waiting_client`` chooses what the client gets meanwhile.
"""

from __future__ import annotations

from activator.proxy.exchange import arrival, error_responses, waiting_client
from activator.proxy.exchange.attempts import pod_of
from activator.proxy.exchange.ending import stop
from activator.proxy.exchange.pod_wait import PodWait, join_cold_start
from activator.proxy.exchange.queue_place import set_place
from activator.proxy.exchange.record import ExchangeRecord
from activator.proxy.exchange.sending import connect, limit_response
from activator.proxy.exchange.states import WAITING
from activator.proxy.exchange.time_limits import name_wait
from throttler.reason import Reason
from throttler.ticket import ASSIGNED, QUEUED, Ticket


def begin_wait(exchange: ExchangeRecord, now: float) -> None:
    """Record that a request begins to wait, for the first time or again.

    Arguments:
        exchange: the exchange of the request.
        now: seconds.
    """
    exchange.state = WAITING
    wait = exchange.wait
    if wait is None:
        services = exchange.services
        cold_starts, timing = services.driver.cold_starts, services.server_timing
        wait = PodWait(cold_starts, exchange.ticket.arrived, server_timing=timing)
        exchange.wait = wait
    exchange.added_lines = join_cold_start(wait, exchange.entry, exchange.added_lines, now)
    policies = exchange.entry.throttler.revision.policies.requests
    if policies is not None and policies.waiting is not None:
        waiting_client.begin_mode(exchange, wait, policies.waiting)


def on_assigned(exchange: ExchangeRecord) -> None:
    """Send a queued request to its pod; see throttler.ticket.TicketOwner."""
    now = exchange.services.driver.clock()
    wait = exchange.wait
    assert wait is not None
    wait.assigned(now)
    exchange.entry.counters.waits.observe(now - exchange.ticket.arrived)
    limit_response(exchange, now)
    if exchange.client.may_send(now):
        connect(exchange, pod_of(exchange.ticket), now)


def on_expired(exchange: ExchangeRecord, reason: Reason, detail: str) -> None:
    """End a request whose wait has reached its deadline; see throttler.ticket.TicketOwner."""
    detail = name_wait(exchange, detail)
    throttler = exchange.entry.throttler
    late = error_responses.expired(exchange.services, throttler, reason, detail)
    stop(exchange, late, "timed-out")


def resume(exchange: ExchangeRecord, now: float) -> None:
    """Send an assigned request, because its client is known to be there.

    Arguments:
        exchange: the exchange of the request.
        now: seconds.
    """
    if exchange.state is WAITING and exchange.ticket.state is ASSIGNED:
        connect(exchange, pod_of(exchange.ticket), now)


def requeue(exchange: ExchangeRecord, cause: str) -> None:
    """Put a request that has lost its pod at the front of the queue.

    Arguments:
        exchange: the exchange of the request.
        cause: one of ``counters.CAUSES``.
    """
    exchange.entry.counters.requeued(cause)
    if exchange.trace is not None:
        exchange.trace.waiting()
    driver, throttler = exchange.services.driver, exchange.entry.throttler
    now = driver.clock()
    exchange.pod_side = None
    order = throttler.breaker.order
    if order is not None and exchange.wait is None:
        peer, clients = exchange.client.address(), exchange.services.clients
        set_place(exchange.ticket, order, exchange.request, peer, clients)
    limits = exchange.limits
    if limits is not None and limits.wait is not None:
        exchange.ticket.deadline = limits.wait.requeued()
    begin_wait(exchange, now)
    driver.requeue(throttler, exchange.ticket, now)
    if exchange.ticket.state is QUEUED:
        arrival.end_if_asleep(exchange, now)


def end_stranded(ticket: Ticket) -> None:
    """End a queued request that may not start a pod; its revision has lost its last usable pod.

    Arguments:
        ticket: of the request. It may have left the queue meanwhile.
    """
    exchange = ticket.owner
    if ticket.state is QUEUED and isinstance(exchange, ExchangeRecord):
        arrival.end_if_asleep(exchange, exchange.services.driver.clock())
