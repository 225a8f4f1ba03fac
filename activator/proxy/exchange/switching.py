"""Changes the protocol of a request to which the pod responds 101 (RFC 9110 section 7.8)."""

from __future__ import annotations

from activator.proxy.exchange import error_responses, outcome
from activator.proxy.exchange.attempts import pod_of
from activator.proxy.exchange.ending import stop
from activator.proxy.exchange.record import ExchangeRecord
from activator.proxy.exchange.responding import response_began, stick, touch
from activator.proxy.exchange.states import DONE, TUNNEL
from activator.proxy.exchange.tunnel import is_wanted, switch
from activator.proxy.message.response import Response

_SWITCHED = 101


def begin_tunnel(exchange: ExchangeRecord, response: Response) -> None:
    """Pass on the pod's 101, and connect the client with the pod.

    Arguments:
        exchange: the exchange of the request.
        response: the pod's 101. One that the client did not ask for ends the request.
    """
    pod = pod_of(exchange.ticket)
    if not is_wanted(exchange.request, response):
        stop(exchange, error_responses.failed(pod, "an unrequested 101"), "upstream-failed")
        return
    driver = exchange.services.driver
    if pod.ejection.consecutive_errors:
        driver.responded_well(pod)
    exchange.status = _SWITCHED
    exchange.state = TUNNEL
    now = driver.clock()
    driver.response_began(exchange.ticket, pod, now)
    if exchange.wait is not None:
        exchange.added_lines += exchange.wait.responded(pod, now)
    response_began(exchange, now)
    if exchange.trace is not None:
        exchange.trace.responded(_SWITCHED)
    sticky = exchange.entry.throttler.sticky
    if sticky is not None:
        stick(exchange, sticky, response)
    switch(
        exchange.client,
        exchange.pod_side,
        response,
        exchange.added_lines,
        lambda: touch(exchange),
        lambda: _closed(exchange),
    )


def _closed(exchange: ExchangeRecord) -> None:
    """End the request, because a connection of the tunnel is lost."""
    exchange.pod_side = None
    if exchange.state is not DONE:
        outcome.end_now(exchange, "served", _SWITCHED, exchange.response_size)
