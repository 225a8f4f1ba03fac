"""Ends a request: releases its pod and its ticket, and counts it.

A request ends once, for one of these causes: its response is complete, the activator responds
itself, the client leaves, or the process ends. ``outcome`` has the responses.
"""

from __future__ import annotations

from activator.proxy.exchange import arrival, outcome
from activator.proxy.exchange.record import ExchangeRecord
from activator.proxy.exchange.states import AUTHORIZING, DONE, NEW, RESPONSE_BEGUN
from activator.proxy.message import own_responses
from activator.proxy.message.own_responses import OwnResponse
from throttler.ticket import ASSIGNED, NO_OWNER, QUEUED


def finish(exchange: ExchangeRecord, now: float) -> None:
    """End a request whose response is complete.

    Arguments:
        exchange: the exchange of the request.
        now: seconds.
    """
    side, exchange.pod_side = exchange.pod_side, None
    if side is not None:  # as in ``detach``: a call for each request costs instructions
        side.detach(exchange.body.complete)
    end(exchange, "served", exchange.status, exchange.response_size, now)
    exchange.client.finished(now)


def detach(exchange: ExchangeRecord) -> None:
    """Release the pod's side, because its response is complete."""
    side, exchange.pod_side = exchange.pod_side, None
    if side is not None:
        side.detach(exchange.body.complete)


def end(
    exchange: ExchangeRecord, ended: str, status: int, size: int, now: float, why: str = ""
) -> None:
    """Count a request, and release its ticket; see outcome.Ending."""
    exchange.state = DONE
    services, entry = exchange.services, exchange.entry
    request, ticket = exchange.request, exchange.ticket
    duration = now - ticket.arrived
    entry.counters.ended(
        (request.counted_as, request.version, status), ended, duration, request.length, size
    )
    if ticket.counts:
        entry.load.request_ended(now)
    if exchange.wait is not None:
        exchange.wait.ended(ended, now)
    if exchange.trace is not None:
        exchange.trace.ended(status, ended)
    if services.request_log is not None:
        outcome.log(exchange, services.request_log, status, size, duration, why)
    ticket.owner = NO_OWNER  # breaks the cycle: nothing is left for the garbage collector
    state = ticket.state
    if state is ASSIGNED:
        if ended == "served" and 101 < status < 502:
            services.driver.release(entry.throttler, ticket, now)
        else:
            services.driver.release(entry.throttler, ticket, now, outcome.of_pod(ended, status))
    elif state is QUEUED:
        services.driver.cancel(entry.throttler, ticket, now)


def stop(exchange: ExchangeRecord, response: OwnResponse, ended: str) -> None:
    """End a request with an error response, or break off a begun response; see Retrying.stop."""
    if exchange.state is AUTHORIZING:
        arrival.stop(exchange, response, ended)
        return
    attempts = exchange.attempts
    cancel_pod(exchange)
    if exchange.state in RESPONSE_BEGUN:
        code = 0 if attempts is None else attempts.broken_by
        size = exchange.response_size
        outcome.break_off(exchange, response, ended, exchange.status, size, code)
    elif attempts is not None:
        outcome.respond_with_error(exchange, response, ended, attempts.made)
    else:
        made = 0 if exchange.ticket.pod is None else 1
        outcome.respond_with_error(exchange, response, ended, made)


def cancel_pod(exchange: ExchangeRecord) -> None:
    """Cancel a request at its pod, if a pod has it."""
    side, exchange.pod_side = exchange.pod_side, None
    if side is not None:
        side.cancel()


def leave(exchange: ExchangeRecord) -> None:
    """End a request whose client has closed."""
    if exchange.state is NEW:
        exchange.state = DONE
    elif exchange.state is AUTHORIZING:
        arrival.leave(exchange)
    elif exchange.state is not DONE:
        cancel_pod(exchange)
        outcome.end_now(exchange, "cancelled", 499, exchange.response_size)


def drain(exchange: ExchangeRecord) -> None:
    """End a request that no pod has: the client can retry at another activator."""
    if exchange.state is not DONE and exchange.pod_side is None:
        stop(exchange, own_responses.draining("no pod was free in time"), "draining")


def force(exchange: ExchangeRecord) -> None:
    """End a request, because the drain time is over."""
    if exchange.state is not DONE:
        began = exchange.state in RESPONSE_BEGUN
        detail = "this activator ends" if began else "the pod had not responded yet"
        stop(exchange, own_responses.draining(detail), "draining")
