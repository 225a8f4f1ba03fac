"""Sends a waiting client the head of an event stream, and comments, until its pod responds.

Proxies and clients close a connection on which nothing passes for a minute or so; a model may load
for several. A comment is no event, so programs do not see it. ``early_stream`` is the client's side
from then on. The pod's response follows if it is an event stream too; any other response ends the
stream with an error. Knative has no counterpart.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, inf
from typing import TYPE_CHECKING, Final

from activator.proxy.exchange import end, event_stream
from activator.proxy.exchange.early_stream import EarlyStream
from activator.proxy.exchange.request_copies import with_identity_coding
from activator.proxy.exchange.retry import WithheldResponse
from activator.proxy.exchange.states import RESPONSE_BEGUN
from activator.proxy.http2.fields import ResponseFields
from activator.proxy.message import error_forms, grpc, json_member
from activator.proxy.message.error_forms import prefers_event_stream
from activator.proxy.message.request import Request
from activator.proxy.message.response import Response
from throttler.request_policies import HEARTBEAT_EVERY
from throttler.ticket import QUEUED

if TYPE_CHECKING:
    from activator.proxy.exchange.exchange import Exchange

#: Bytes of a pod's response that wait until it is complete, if it is no event stream: an error.
MOST_ERROR_BYTES: Final = 16 << 10
#: Seconds until a body that has not arrived completely is read again; doubles each time.
FIRST_LOOK: Final = 0.1
#: The comment while a pod has the request.
_HAS_POD: Final = event_stream.comment("waiting reason=response-pending")


def fits(exchange: Exchange) -> bool:
    """Return whether the client expects an event stream, as far as the request has arrived."""
    request = exchange.request
    if exchange.early_stream() is not None:
        return True
    if _is_grpc(request):
        return False
    if request.expects_continue and not exchange.body.size:
        return False  # the client has not sent its body, and no 100 may follow the head
    if prefers_event_stream(request.lines):
        return True
    return _may_be_json(exchange) and json_member.is_true(_beginning(exchange), "stream")


def may_fit_later(exchange: Exchange) -> bool:
    """Return whether ``fits`` may become true with the rest of the request's body."""
    body = exchange.body
    arrives = not (body.complete or body.full) and body.size < json_member.MOST_BYTES
    return arrives and _may_be_json(exchange) and not _is_grpc(exchange.request)


def _is_grpc(request: Request) -> bool:
    """Return whether a request is gRPC or gRPC-Web, which cannot follow the head."""
    return request.value_of(b"content-type").startswith(grpc.CONTENT_TYPE)


def _may_be_json(exchange: Exchange) -> bool:
    request = exchange.request
    return request.has_body and (
        error_forms.sends_json(request) or not request.value_of(b"content-type")
    )


def _beginning(exchange: Exchange) -> bytes:
    """Return the buffered beginning of the body: nothing that is read only for this."""
    return b"".join(exchange.body.pieces)


def every(exchange: Exchange) -> float:
    """Return the seconds between two comments."""
    policies = exchange.entry.throttler.revision.policies.requests
    if policies is None or policies.waiting is None:
        return HEARTBEAT_EVERY
    return policies.waiting.heartbeat_every


def look_again(exchange: Exchange, now: float) -> float:
    """Return when to read a body again that has not arrived completely, seconds."""
    waited = max(now - exchange.ticket.arrived, FIRST_LOOK)
    return min(exchange.ticket.arrived + every(exchange), now + waited)


def beat(exchange: Exchange, now: float) -> float:
    """Send the head, or another comment; return when to call this again, infinite for never.

    Only a request without a pod gets an early head. One that has a pod may soon get the pod's own
    head, which says more.

    Arguments:
        exchange: the exchange of a request that ``fits``.
        now: seconds.
    """
    client = exchange.client
    if exchange.state in RESPONSE_BEGUN:
        return inf
    early = exchange.early_stream()
    if early is not None:
        early.wait(_comment(exchange, now))
        return now + every(exchange)
    wait = exchange.wait
    if exchange.ticket.state is not QUEUED or wait is None:
        return inf
    services, request = exchange.services, exchange.request
    exchange.request = with_identity_coding(request, client.base.address)
    exchange.client = wait.early = early = EarlyStream(client, services.driver.clock)
    exchange.entry.counters.early_heads += 1
    early.begin(request.version, _comment(exchange, now))
    return now + every(exchange)


def _comment(exchange: Exchange, now: float) -> bytes:
    """Return the comment with the reason of the wait, and the forecast in seconds if there is one.

    All requests of a revision share one for a second, since the reason costs O(pods).
    """
    if exchange.ticket.state is not QUEUED:
        return _HAS_POD
    services, throttler = exchange.services, exchange.entry.throttler
    until, comment = services.comments.get(throttler.revision.id, (0.0, b""))
    if now >= until:
        expected = throttler.expected_wait(now)
        eta = "" if expected is None else f" eta={ceil(max(expected, 1.0))}"
        reason = services.driver.why(throttler)[0].value
        comment = event_stream.comment(f"waiting reason={reason}{eta}")
        services.remember_comment(throttler.revision.id, now + 1.0, comment)
    return comment


def is_small(pieces: Sequence[bytes]) -> bool:
    """Return whether a part of a pod's response may wait for the rest; see MOST_ERROR_BYTES."""
    return sum(map(len, pieces)) <= MOST_ERROR_BYTES


def may_follow(
    exchange: Exchange,
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
    exchange.ensure_attempts().withheld = withheld
    stop_stream(exchange, withheld, complete)
    return False


def stop_stream(exchange: Exchange, withheld: WithheldResponse, complete: bool) -> None:
    """End the client's event stream by a response of another kind, once that is complete.

    Arguments:
        exchange: the exchange of the request.
        withheld: the response.
        complete: whether it is complete.
    """
    if not complete and is_small(withheld.pieces):
        return
    exchange.ensure_attempts().withheld = None
    if complete:
        exchange.pod_side = None
    pod, response = exchange.pod(), withheld.response
    exchange.stop(*end.no_event_stream(pod, response, withheld.pieces, complete))


def pass_on_taken(exchange: Exchange, size: int) -> None:
    """Report to the pod how much of its event stream the client's stream has accepted."""
    early = exchange.early_stream()
    if early is not None:
        size = early.pass_on(size)
        taken = None if exchange.pod_side is None else exchange.on_taken()
        if size and taken is not None:
            taken(size)
