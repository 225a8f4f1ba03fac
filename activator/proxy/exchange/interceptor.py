"""Treats the requests of the KEDA HTTP add-on's objects as its interceptor does.

Called only for revisions with ``InterceptorRules``. A request may get a static response, or the
placeholder while no pod is usable. The request that a pod gets has other fields. A request whose
wait has reached its limit may go to the fallback. Other modules do the rest as for all revisions.
Sources: KEDA HTTP add-on, interceptor/middleware and interceptor/handler.
"""

from __future__ import annotations

import re
from dataclasses import replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from activator.keda import words
from activator.plain.route_table import matches, path_of, without_port
from activator.proxy.exchange import end
from activator.proxy.exchange.limits import WaitLimit, rules_of, seconds_to_response
from activator.proxy.exchange.wait import begin_wait
from activator.proxy.http2.section import with_added, with_fields
from activator.proxy.message import own_responses
from activator.proxy.message.fields import HTTP_2
from activator.proxy.message.grpc import is_grpc
from activator.proxy.message.own_responses import PLAIN, OwnResponse
from activator.proxy.message.request import Request
from throttler.errors import FlowFull, RequestQueueFull, RevisionNotFound, WaitTooLong
from throttler.model import RevisionKind
from throttler.request_policies import InterceptorRules, StaticResponse, StaticRoute
from throttler.ticket import Ticket

if TYPE_CHECKING:
    from activator.proxy.exchange.exchange import Exchange

#: Seconds for which a request is demand while no pod is usable. The scaler polls each 0.5 s.
DEMAND: Final = 1.0
#: Seconds that a request waits for the fallback at most.
FALLBACK_WAIT: Final = 60.0
_LEAST_STATUS: Final = 200
_NO_CONTENT: Final = (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED)
#: The beginning of a body that is HTML, as Go's http.DetectContentType has it.
_HTML: Final = re.compile(
    rb"[\t\n\x0c\r ]*<(?:(?i:!doctype html|html|head|script|iframe|h1|div|font|table|a|style"
    rb"|title|b|body|br|p)[ >]|!--)"
)


def may_enter(exchange: Exchange, rules: InterceptorRules, now: float) -> bool:
    """Return whether a request may be queued or sent; if not, it has its response.

    Arguments:
        exchange, now: see ``permission.may_enter``.
        rules: of its revision.
    """
    base = exchange.client.base
    is_asleep = not exchange.entry.throttler.is_awake
    route = _static_route(exchange.request, rules) if rules.static_routes else None
    if route is not None:
        exchange.ticket.counts = False
        if route.always or is_asleep:
            response = _filled(exchange.request, route.response)
            end.respond_unadmitted(exchange, response, "served", now, is_in_form=True)
            return False
    elif is_asleep and not _may_wait(exchange, rules, now):
        return False
    exchange.request = _for_pod(exchange)
    if base.secure:
        attempts = exchange.ensure_attempts()
        attempts.secure = True
        attempts.made = 0
    return True


# -- responses of the object -----------------------------------------------------------------------


def _static_route(request: Request, rules: InterceptorRules) -> StaticRoute | None:
    """Return the first static route that a request matches."""
    host = without_port(request.host.decode("latin-1"))
    for route in rules.static_routes:
        for rule in route.rules:
            if matches(rule, host, request.target, request.values):
                return route
    return None


def _may_wait(exchange: Exchange, rules: InterceptorRules, now: float) -> bool:
    """Return whether a request may wait for the first pod; if not, count it and respond."""
    entry, placeholder = exchange.entry, rules.placeholder
    is_full = 0 < rules.max_pending <= entry.throttler.queued.waiting
    if not is_full and (placeholder is None or rules.overflow):
        return True
    exchange.count(now)
    if placeholder is not None:
        response = _filled(exchange.request, placeholder)
        end.respond_to_waiting(exchange, response, "page", now)
    else:
        detail = f"{words.MAX_PENDING} {rules.max_pending}"
        again = exchange.services.retry_after(entry.throttler)
        exchange.stop(own_responses.queue_full(detail, again), "queue-full")
    keep_demand(exchange, now)
    return False


def _filled(request: Request, static: StaticResponse) -> OwnResponse:
    """Return a response of the object with the body and the type for a request."""
    key, body, fields = static.key, static.body, static.fields
    if static.by_path:
        key = path_of(request.target) or words.INDEX
    if key:
        found = None if static.files is None else static.files.get(key)
        if static.files is None or (found is None and not static.by_path):
            return own_responses.of_add_on(OwnResponse(HTTPStatus.INTERNAL_SERVER_ERROR, PLAIN))
        body = found or b""
    status = max(static.status, _LEAST_STATUS)
    if status in _NO_CONTENT or is_grpc(request.fields):
        body = b""  # of a gRPC response it would be the text of the error
    if body and b"\r\ncontent-type:" not in fields.lower():
        fields += b"\r\nContent-Type: " + _type_of(key, body)
    return OwnResponse(status, fields, body)


def _type_of(key: str, body: bytes) -> bytes:
    """Return the media type of a body, by the extension of its key, else by its beginning."""
    _, dot, extension = key.rpartition(".")
    known = words.TYPES.get(extension.lower()) if dot else None
    if known is not None:
        return known
    return b"text/html; charset=utf-8" if _HTML.match(body) else b"text/plain; charset=utf-8"


# -- demand ----------------------------------------------------------------------------------------


def keep_demand(exchange: Exchange, now: float) -> None:
    """Keep an ended request as demand until it is ``DEMAND`` old, if no pod is usable.

    So a scaler that polls finds it, although it ended early.

    Arguments:
        exchange: the exchange of a request that was counted, and not served by a pod.
        now: seconds.
    """
    entry, until = exchange.entry, exchange.ticket.arrived + DEMAND
    if rules_of(exchange) is not None and now < until and not entry.throttler.is_awake:
        exchange.services.keep_demand(entry, until, now)


# -- fields ----------------------------------------------------------------------------------------


def _for_pod(exchange: Exchange) -> Request:
    """Return the request that a pod gets."""
    request, base = exchange.request, exchange.client.base
    id_ = exchange.entry.throttler.revision.id
    lines = words.REF_LINES % (id_.name.encode(), id_.namespace.encode())
    removed: tuple[bytes, ...] = words.REMOVED
    if not request.value_of(b"x-forwarded-host"):  # a field without a value is replaced
        removed += (b"x-forwarded-host",)
        lines += b"\r\nX-Forwarded-Host: " + request.host
    if not request.value_of(b"x-forwarded-proto"):
        removed += (b"x-forwarded-proto",)
        lines += b"\r\nX-Forwarded-Proto: " + (b"https" if base.secure else b"http")
    if _may_have(request, removed):
        return with_fields(request, removed, lines, base.address)
    return with_added(request, lines, base.address)


def _may_have(request: Request, removed: tuple[bytes, ...]) -> bool:
    """Return whether a request may have one of the fields that a pod does not get from it."""
    if request.version is HTTP_2:
        return any(name in removed or name.find(b"keda") >= 0 for name in request.fields)
    block = request.lines.lower()
    if block.find(b"\r\nforwarded") >= 0 or block.find(b"keda") >= 0:
        return True
    if block.find(b"\r\nx-forwarded-") < 0:
        return False
    return any(block.find(b"\r\n%b:" % name) >= 0 for name in removed)


def cold_start_line(exchange: Exchange) -> bytes:
    """Return the field that a pod's response gets, preceded by its CRLF; empty without one."""
    rules, wait = rules_of(exchange), exchange.wait
    is_main = exchange.entry.throttler.revision.id.kind is RevisionKind.HTTP_ROUTE
    if rules is None or not (rules.cold_start_header and is_main):
        return b""
    waited = wait is not None and wait.cold_start is not None
    return words.COLD_START_LINE % (b"true" if waited else b"false")


# -- the end of the wait ---------------------------------------------------------------------------


def fall_back(exchange: Exchange, now: float) -> bool:
    """Send a request whose wait has reached its limit to the fallback, if there is one.

    It keeps the rest of its time. It stays load of its object until it ends.

    Arguments:
        exchange: the exchange of a request whose ticket has expired.
        now: seconds.

    Returns:
        Whether the request goes on.
    """
    rules, limits, wait = rules_of(exchange), exchange.limits, exchange.wait
    if rules is None or limits is None or limits.wait is None or wait is None:
        return False
    if not rules.fallback or limits.wait.ends_with_client:
        return False
    driver, ticket = exchange.services.driver, exchange.ticket
    id_ = exchange.entry.throttler.revision.id._replace(kind=RevisionKind.FALLBACK)
    try:
        entry = driver.entries.of(id_)
    except RevisionNotFound:
        return False
    theirs = entry.throttler.revision.policies.interceptor
    if theirs is not None and theirs.problem:
        return False  # its Service is missing, so no pod would come
    exchange.entry = entry
    wait.ended("timed-out", now)
    within = seconds_to_response(entry.throttler.revision, idle_from_arrival=False)
    until = ticket.arrived + exchange.client_timeout
    limits.wait = WaitLimit(FALLBACK_WAIT, now, within, until)
    again = Ticket(exchange, limits.wait.wait_until, exchange.request.size + exchange.body.size)
    again.counts = ticket.counts
    exchange.ticket = again
    try:
        pod = entry.throttler.admit(again, now)
    except (RequestQueueFull, FlowFull, WaitTooLong) as full:
        again.arrived = ticket.arrived
        exchange.stop(*end.rejected(exchange.services, entry.throttler, full))
        return True
    again.arrived = ticket.arrived
    if pod is None:
        begin_wait(exchange, now)
        driver.began_waiting(entry.throttler)
    else:
        exchange.ticket_assigned()
    return True


def expired(exchange: Exchange, response: OwnResponse) -> OwnResponse:
    """Return the response to a request that expired in the queue: 500 if no pod can be found."""
    rules = rules_of(exchange)
    if rules is None or not rules.problem:
        return response
    return replace(response, status=int(HTTPStatus.INTERNAL_SERVER_ERROR), detail=rules.problem)
