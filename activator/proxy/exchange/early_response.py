"""Handles the pod's response to a client that has the head of an event stream already.

``early_stream`` is the client's side then. The response follows if it is an event stream too;
any other response ends the stream with an error.
"""

from __future__ import annotations

from collections.abc import Callable

from activator.proxy.exchange import error_responses, event_stream, heartbeat
from activator.proxy.exchange.attempts import WithheldResponse, pod_of
from activator.proxy.exchange.early_stream import EarlyStream
from activator.proxy.exchange.ending import detach, stop
from activator.proxy.exchange.record import ExchangeRecord, attempts_of
from activator.proxy.exchange.states import RESPONSE_BEGUN
from activator.proxy.http2.fields import ResponseFields
from activator.proxy.message.response import Response


def has_early_head(exchange: ExchangeRecord) -> bool:
    """Return whether the client has the head of an event stream from the activator."""
    return isinstance(exchange.client, EarlyStream)


def has_begun(exchange: ExchangeRecord) -> bool:
    """Return whether the client has any part of a final response."""
    return exchange.state in RESPONSE_BEGUN or has_early_head(exchange)


def may_follow(
    exchange: ExchangeRecord,
    response: Response | ResponseFields,
    payload: list[bytes],
    complete: bool,
) -> bool:
    """Return whether a response follows the client's event stream; if not, it ends with it.

    Arguments:
        exchange: the exchange of the request.
        response: the head of the response.
        payload: its payload so far.
        complete: whether the response is complete.
    """
    if event_stream.is_event_stream(response):
        if exchange.pod_side is not None and exchange.client.is_full():
            exchange.pod_side.pause(True)
        return True
    withheld = WithheldResponse(response, payload, ends_stream=True)
    attempts_of(exchange).withheld = withheld
    stop_stream(exchange, withheld, complete)
    return False


def stop_stream(exchange: ExchangeRecord, withheld: WithheldResponse, complete: bool) -> None:
    """End the client's event stream by a response of another kind, once that is complete.

    Arguments:
        exchange: the exchange of the request.
        withheld: the response.
        complete: whether it is complete.
    """
    if not complete and heartbeat.is_small(withheld.pieces):
        return
    attempts_of(exchange).withheld = None
    if complete:
        detach(exchange)
    pod, response = pod_of(exchange.ticket), withheld.response
    stop(exchange, *error_responses.no_event_stream(pod, response, withheld.pieces, complete))


def on_taken(exchange: ExchangeRecord) -> Callable[[int], None] | None:
    """Return the function to call when the client's stream has accepted bytes; None for none.

    Its argument is the number of bytes.
    """
    if exchange.pod_side is None:  # the client gets the head of an event stream early
        return lambda size: _pass_on_taken(exchange, size)
    if exchange.translation is not None:
        return exchange.translation.client_took
    return exchange.pod_side.took


def _pass_on_taken(exchange: ExchangeRecord, size: int) -> None:
    """Report to the pod how much of its event stream the client's stream has accepted."""
    if isinstance(exchange.client, EarlyStream):
        size = exchange.client.pass_on(size)
        taken = None if exchange.pod_side is None else on_taken(exchange)
        if size and taken is not None:
            taken(size)
