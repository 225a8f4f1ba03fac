"""Passes the pod's response to the client, and counts it."""

from __future__ import annotations

from activator.knative.queue_proxy import DOUBTFUL
from activator.proxy.exchange import outcome
from activator.proxy.exchange.attempts import Attempts
from activator.proxy.exchange.early_response import has_early_head, may_follow, stop_stream
from activator.proxy.exchange.ending import finish
from activator.proxy.exchange.record import ExchangeRecord, attempts_of
from activator.proxy.exchange.request_key import (
    COOKIE_KIND,
    bounded,
    cookie_line,
    is_forwarded_https,
)
from activator.proxy.exchange.states import RESPONDING
from activator.proxy.exchange.translation import trailers_of
from activator.proxy.http2.fields import ResponseFields
from activator.proxy.message.fields import HTTP_1_1, HTTP_2
from activator.proxy.message.response import Response
from throttler.sticky import Sticky


def begin_response(
    exchange: ExchangeRecord,
    response: Response | ResponseFields,
    raw: bytes | None,
    payload: list[bytes],
    complete: bool,
    trailers: bytes = b"",
) -> None:
    """Pass the head of the final response to the client, unless it judges the pod first.

    Arguments:
        exchange: the exchange of the request.
        response, raw, payload, complete: see Requester.on_response.
        trailers: the trailers, if ``complete``, in the pod's version.
    """
    pod = exchange.ticket.pod
    assert pod is not None
    status = response.status
    in_doubt = pod.ejection.consecutive_errors or status in DOUBTFUL
    if in_doubt and not attempts_of(exchange).passes(exchange, response, payload, complete):
        return
    exchange.status = status
    request, driver = exchange.request, exchange.services.driver
    now = driver.clock()
    driver.response_began(exchange.ticket, pod, now)
    attempts, wait = exchange.attempts, exchange.wait
    if attempts is not None and attempts.made > 1:
        exchange.added_lines += outcome.attempts_line(attempts.made)
    if wait is not None:
        if has_early_head(exchange) and not may_follow(exchange, response, payload, complete):
            return
        exchange.added_lines += wait.responded(pod, now)
    exchange.state = RESPONDING
    # The time-out of a Revision without other limits ends with the last byte: it stays as it is.
    stays = complete or exchange.entry.throttler.revision.behind_queue_proxy
    if exchange.limits is not None or not stays:
        response_began(exchange, now)
    if request.has_body:
        exchange.body.pieces = []
    if exchange.trace is not None:
        exchange.trace.responded(status)
    sticky = exchange.entry.throttler.sticky
    if sticky is not None:
        key = exchange.ticket.key
        if not key or (sticky.by_token and key not in sticky.tokens):
            stick(exchange, sticky, response)
    length = response.length
    if length < 0:
        exchange.counts_payload = True
        length = sum(map(len, payload))
    exchange.response_size = length
    # Pods get a request of HTTP/1.0 as HTTP/1.1.
    version = request.version or HTTP_1_1
    translation = exchange.translation
    if translation is not None:
        raw = None
        version = HTTP_2 if translation.to_http2 else HTTP_1_1
        if complete:
            trailers = translation.response_trailers(trailers or trailers_of(response))
        response = translation.response(response, to_head=exchange.to_head)
    exchange.entry.counters.responded(
        (pod.address, request.counted_as, version, status), now - exchange.sent_at, request.length
    )
    exchange.client.respond(response, raw, payload, complete, trailers)
    if complete:
        finish(exchange, now)


def stick(exchange: ExchangeRecord, sticky: Sticky, response: Response | ResponseFields) -> None:
    """Let the client's next requests come to this pod: by a cookie, or by the session's name.

    Arguments:
        exchange: the exchange of the request.
        sticky: the policy of the revision.
        response: the pod's response.
    """
    key, ticket = exchange.entry.throttler.key, exchange.ticket
    if key is None:
        return
    if key.kind is COOKIE_KIND:
        if token := sticky.cookie_for(ticket):
            secure = exchange.client.is_secure() or is_forwarded_https(exchange.request)
            exchange.added_lines += cookie_line(token, secure=secure)
    elif key.header and not ticket.key:
        sticky.began_session(bounded(response.value_of(key.header)), ticket)


def response_began(exchange: ExchangeRecord, now: float, *, interim: bool = False) -> None:
    """Replace the limit for the beginning of the response by the one for its end.

    Arguments:
        exchange: the exchange of the request.
        now: seconds.
        interim: whether another response follows. It ends ``response_start_timeout`` alone.
    """
    limits, ticket = exchange.limits, exchange.ticket
    revision = exchange.entry.throttler.revision
    timeout = revision.timeout if interim else revision.whole_timeout
    began = ticket.arrived
    if limits is not None:
        limits.touch(now)
        began = limits.began(ticket)
    until = min(began + timeout, ticket.arrived + exchange.client_timeout)
    exchange.services.driver.extend(ticket, until)


def touch(exchange: ExchangeRecord) -> None:
    """Record that bytes pass, so that the pod does not count as silent."""
    if exchange.limits is not None:
        exchange.limits.touch(exchange.services.driver.clock())


def pass_interim(exchange: ExchangeRecord, response: Response | ResponseFields) -> None:
    """Pass on an interim response other than 100 and 101; see ClientSide.interim."""
    response_began(exchange, exchange.services.driver.clock(), interim=True)
    if exchange.translation is not None:
        response = exchange.translation.response(response, to_head=exchange.to_head)
    exchange.client.interim(response)


def pass_payload(
    exchange: ExchangeRecord, payload: list[bytes], complete: bool, trailers: bytes
) -> None:
    """Pass more of the response's body to the client; see Requester.on_payload."""
    attempts = exchange.attempts
    if attempts is not None and attempts.withheld is not None:
        _withhold(exchange, attempts, payload, complete, trailers)
        return
    if exchange.counts_payload:
        for piece in payload:
            exchange.response_size += len(piece)
    translation = exchange.translation
    if translation is not None and trailers:
        trailers = translation.response_trailers(trailers)
    exchange.client.send_body(payload, complete, trailers)
    if payload and exchange.limits is not None:
        touch(exchange)
    if complete:
        finish(exchange, exchange.services.driver.clock())
    elif translation is not None:
        translation.passed(sum(map(len, payload)))


def _withhold(
    exchange: ExchangeRecord,
    attempts: Attempts,
    payload: list[bytes],
    complete: bool,
    trailers: bytes,
) -> None:
    """Collect a response that may be queue-proxy's own, and judge it once it is complete."""
    withheld = attempts.withheld
    assert withheld is not None
    withheld.pieces += payload
    if withheld.ends_stream:
        stop_stream(exchange, withheld, complete)
    elif complete:
        attempts.withheld = None
        begin_response(exchange, withheld.response, None, withheld.pieces, True, trailers)


def on_client_room(exchange: ExchangeRecord, full: bool) -> None:
    """Pause or resume the pod, by whether the client reads.

    Arguments:
        exchange: the exchange of the request.
        full: True if bytes wait because the client does not read; False if it reads again.
    """
    if not full:
        touch(exchange)
    if exchange.pod_side is not None:
        exchange.pod_side.pause(full)
    if exchange.translation is not None and not full:
        exchange.translation.client_took_all()
