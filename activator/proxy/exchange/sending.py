"""Sends a request to the pod that its ticket has, and the rest of its body as it arrives."""

from __future__ import annotations

import asyncio
from math import inf

from activator.proxy.exchange import admission, error_responses
from activator.proxy.exchange.arrival import takes_from_server
from activator.proxy.exchange.attempts import pod_of
from activator.proxy.exchange.ending import stop
from activator.proxy.exchange.pod_side import PodSide
from activator.proxy.exchange.record import ExchangeRecord
from activator.proxy.exchange.request_body import NO_BODY, RequestBody
from activator.proxy.exchange.states import (
    AUTHORIZING,
    CONNECTING,
    DONE,
    NEW,
    RESPONSE_BEGUN,
    SENT,
)
from activator.proxy.exchange.translation import Translation
from activator.proxy.message.fields import HTTP_2
from activator.proxy.message.grammar import FramingError
from activator.proxy.message.own_responses import OwnResponse
from throttler.pod import PodTracker
from throttler.ticket import QUEUED


def connect(exchange: ExchangeRecord, pod: PodTracker, now: float) -> None:
    """Send a request to its pod on a connection that is free, or once one is open.

    Arguments:
        exchange: the exchange of the request.
        pod: the assigned pod.
        now: seconds.
    """
    attempts = exchange.attempts
    fresh = False
    if attempts is not None:
        if attempts.admits:
            exchange.state = CONNECTING
            admission.respond(exchange, pod, now)
            return
        attempts.made += 1
        fresh = attempts.fresh
    if exchange.trace is not None:
        exchange.trace.assigned(pod.address)
    pool = exchange.services.pools.of(pod)
    side = pool.side_for(exchange.request, fresh=fresh)
    if side is not None:
        send(exchange, side, now)
        return
    exchange.state = CONNECTING
    exchange.pod_side = None
    limit_response(exchange, now)
    exchange.client.arm(exchange.ticket.deadline)
    pool.dial_for(exchange, exchange.request)


def on_connected(exchange: ExchangeRecord, side: PodSide) -> None:
    """Use a connection that was opened; see Requester."""
    if exchange.state is DONE:
        side.release()
    elif exchange.wait is not None and exchange.client.is_gone():
        side.release()
        exchange.client.drop()
    else:
        send(exchange, side, exchange.services.driver.clock())


def send(exchange: ExchangeRecord, side: PodSide, now: float) -> None:
    """Send a request on a connection; ``now`` in seconds."""
    exchange.state = SENT
    exchange.pod_side = side
    exchange.sent_at = now
    client, request, body = exchange.client, exchange.request, exchange.body
    when = exchange.ticket.deadline
    limits = exchange.limits
    if limits is not None:
        limits.sent(now, request.expects_continue)
        when = exchange.ticket.deadline = limits.deadline(exchange.ticket, now)
        when = min(when, limits.next())
    client.arm(when)
    try:
        to_http2 = side.send_request(exchange, client, request, body, exchange.trace)
    except FramingError as error:
        exchange.pod_side = None
        _refuse(exchange, error_responses.too_large(pod_of(exchange.ticket), error))
        return
    if to_http2 is not (request.version is HTTP_2):
        exchange.translation = Translation(client, side, to_http2=to_http2)
    elif exchange.translation is not None:
        exchange.translation = None
    if body is not NO_BODY:
        _sent_body(exchange, body, side, to_http2)


def _refuse(exchange: ExchangeRecord, response: OwnResponse) -> None:
    """End a request that its pod cannot get; one that was queued in the next turn of the loop.

    The end of one request assigns its slot to the next one, see ``admission.respond``.
    """
    if exchange.wait is None:
        stop(exchange, response, "refused")
    else:
        asyncio.get_running_loop().call_soon(_stop_later, exchange, response)


def _stop_later(exchange: ExchangeRecord, response: OwnResponse) -> None:
    if exchange.state is not DONE:
        stop(exchange, response, "refused")


def limit_response(exchange: ExchangeRecord, now: float) -> None:
    """Set the deadline of a request that has a pod, if its wait had one of its own."""
    if exchange.limits is not None:
        exchange.ticket.deadline = exchange.limits.deadline(exchange.ticket, now)


# -- the body --------------------------------------------------------------------------------------


def _sent_body(exchange: ExchangeRecord, body: RequestBody, side: PodSide, to_http2: bool) -> None:
    """Record that a pod has the buffered part of the body; read the rest from the client."""
    if exchange.translation is not None:
        exchange.translation.sent(sum(map(len, body.pieces)))
    may_return = to_http2 or exchange.entry.throttler.revision.behind_queue_proxy
    body.sent(may_return=may_return or not side.is_understood())
    if not body.complete:
        exchange.ticket.sent = inf
        exchange.client.regulate()


def wants_body(exchange: ExchangeRecord) -> bool:
    """Return whether more of the request's body may be read from the client now."""
    if exchange.pod_side is not None:
        return not exchange.pod_side.is_full()
    return not (exchange.body.full or exchange.state is AUTHORIZING)


def on_request_body(
    exchange: ExchangeRecord, payload: list[bytes], complete: bool, trailers: bytes
) -> None:
    """Handle a part of the request's body.

    Arguments:
        exchange: the exchange of the request.
        payload: pieces; may be empty.
        complete: whether the request ends here.
        trailers: the trailers, if ``complete``, in the client's version.
    """
    body = exchange.body
    if complete:
        if trailers and exchange.state is not NEW:
            policies = exchange.entry.throttler.revision.policies.requests
            trailers = b"" if takes_from_server(policies) else trailers
        body.complete = True
        body.trailers = trailers
        if exchange.limits is not None:
            exchange.limits.continued()
        if exchange.state is SENT and exchange.ticket.assigned:
            exchange.ticket.sent = exchange.services.driver.clock()
    if exchange.state is DONE:
        return
    size = len(payload[0]) if len(payload) == 1 else sum(map(len, payload))
    if not (size or complete):
        return
    side = exchange.pod_side
    if side is not None:
        translation = exchange.translation
        if translation is None:
            side.send_body(payload, complete, trailers)
        else:
            side.send_body(payload, complete, translation.request_trailers(trailers))
            translation.sent(size)
        if not body.replayable or exchange.state in RESPONSE_BEGUN:
            return
    if size:
        body.keep(payload[0] if len(payload) == 1 else b"".join(payload))
        if exchange.state is not NEW:
            _charge(exchange, size)


def _charge(exchange: ExchangeRecord, size: int) -> None:
    """Count buffered bytes against the budgets; beyond them nothing more is read.

    Arguments:
        exchange: the exchange of the request.
        size: bytes that were buffered just now.
    """
    ticket, body = exchange.ticket, exchange.body
    if ticket.state is not QUEUED:
        ticket.size += size
        if exchange.pod_side is not None:
            body.trim()
    elif body.replayable:
        throttler = exchange.entry.throttler
        body.replayable = exchange.services.driver.reserve_bytes(throttler, ticket, size)
