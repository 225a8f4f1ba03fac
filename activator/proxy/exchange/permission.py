"""Decides about a request before it has a place: whether it may be queued or sent at all.

Called only for revisions with annotations for requests without a pod. A request that ends here is
never queued. It is no load for the autoscaler, and it starts no cold start. A request that may not
wake its revision is no load while pods are usable either: it must not keep the revision awake.

Knative has no counterpart. Sources for authorization: nginx auth_request; Traefik ForwardAuth, for
the fields X-Forwarded-Method, X-Forwarded-Host and X-Forwarded-Uri.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Final

from activator.knative import words
from activator.proxy.exchange import end, interceptor, model_list, wait
from activator.proxy.exchange.sides import AUTHORIZING
from activator.proxy.http2.frames import STREAM_WINDOW
from activator.proxy.http2.section import with_fields
from activator.proxy.message import grpc, own_responses
from activator.proxy.message.fields import HTTP_2, is_lookalike
from activator.proxy.message.own_responses import OwnResponse
from activator.proxy.message.request import Request
from throttler.errors import RevisionNotFound
from throttler.reason import Reason
from throttler.request_policies import (
    Authorization,
    Profile,
    RequestPolicies,
    Verdict,
    WaitMode,
    WakeRules,
    WhileWaiting,
)
from throttler.revision import RevisionThrottler
from throttler.ticket import Ticket

if TYPE_CHECKING:
    from activator.proxy.exchange.exchange import Exchange

#: A peek that needs credentials gets no challenge: the browser would ask for a password over the
#: waiting page. The page reloads instead, and the challenge belongs to that request.
_FORBIDDEN: Final = Verdict(403)
#: A gRPC client cannot follow a redirect to a page for people.
_UNAUTHENTICATED: Final = Verdict(401)
#: Fields of the client that the server does not get: the activator's own, and those about a body,
#: a condition or a range. The sub-request has no body, and the body of its response is not used. A
#: client must not choose the fields that describe its request, in any of the usual spellings.
_LEFT_OUT_PREFIXES: Final = (
    *words.PREFIXES,
    *(b"activator-", b"content-", b"if-", b"x-original-"),
)
_LEFT_OUT: Final = frozenset(
    (
        *(b"range", b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-method"),
        *(b"x-forwarded-uri", b"x-rewrite-url"),
    )
)
UNDECIDED: Final = Verdict(0, error="no authorization server is configured")
WRONG: Final = Verdict(0, error="an annotation activator.dev/auth-* has a wrong value")
#: The decision about a request whose server has not responded in time.
TOO_LATE: Final = Verdict(0, error="the authorization server did not respond in time")


def may_enter(exchange: Exchange, policies: RequestPolicies, now: float) -> bool:
    """Return whether a request may be queued or sent now.

    If not, the request has its response, or ``decided`` of the exchange follows.

    Arguments:
        exchange: the exchange of the request, with its ticket and without a place.
        policies: the policies of its revision.
        now: seconds.
    """
    throttler, ticket = exchange.entry.throttler, exchange.ticket
    ticket.arrived = now
    if policies.interceptor is not None:
        return interceptor.may_enter(exchange, policies.interceptor, now)
    ticket.counts = _may_wake(exchange, policies)
    if not _may_start_pod(exchange, policies, now):
        return False
    if policies.profile is Profile.OPENAI and model_list.starts_no_pod(exchange.request):
        model_list.keep_response(exchange, policies)
    policy = policies.authorization
    if policy is None or not (policy.always or would_wait(throttler, ticket)):
        _identify(exchange, policies, b"")
        return _has_no_response(exchange, policies, now)
    return _is_authorized(exchange, policy, now)


def _has_no_response(exchange: Exchange, policies: RequestPolicies, now: float) -> bool:
    """Respond to a peek; return whether the request is none, so that it needs a pod."""
    if not wait.is_peek(exchange.request, exchange.client.base.port, policies):
        return True
    end.respond_unadmitted(exchange, wait.respond_to_peek(exchange, now), "peek", now)
    return False


# -- may it wake its revision ----------------------------------------------------------------------


def _may_start_pod(exchange: Exchange, policies: RequestPolicies, now: float) -> bool:
    """Return whether a request may be queued or sent; if not, it has its response."""
    response = _response_of_sleeping(exchange, policies, now)
    if response is not None:
        end.respond_unadmitted(exchange, response, "asleep", now)
    return response is None


def end_if_asleep(exchange: Exchange, now: float) -> None:
    """End a queued request that may not start a pod, if no pod is usable any more.

    Arguments:
        exchange: the exchange of a queued request.
        now: seconds.
    """
    policies = exchange.entry.throttler.revision.policies.requests
    if policies is None:
        return
    response = _response_of_sleeping(exchange, policies, now)
    if response is not None:
        if response.status >= end.ERRORS:
            response = end.in_form(exchange, response, now)
        end.respond_to_waiting(exchange, response, "asleep", now)


def _response_of_sleeping(
    exchange: Exchange, policies: RequestPolicies, now: float
) -> OwnResponse | None:
    """Return the response to a request that may not start a pod; None if it needs a pod."""
    request, wake = exchange.request, policies.wake
    if exchange.entry.throttler.is_awake or _may_wake(exchange, policies):
        return None
    if is_prefetch(policies.waiting, request):
        return _asleep(exchange, 503)  # a browser would show a good response later
    if policies.profile is Profile.OPENAI and model_list.starts_no_pod(request):
        is_stream = exchange.early_stream() is not None
        kept = None if is_stream else model_list.response_to(exchange, policies, now)
        if kept is not None:
            return kept
    return _asleep(exchange, 503 if wake is None else wake.asleep_status)


def _asleep(exchange: Exchange, status: int) -> OwnResponse:
    """Return the response to a request that may not wake its revision.

    A gRPC client gets 503 for each status: a successful call would need a message. So does a proxy
    on the admission port: it would take 200 or 204 as permission. So does the client of an event
    stream that has begun: it would take the end of the stream as a complete response.
    """
    again = exchange.services.retry_after(exchange.entry.throttler)
    is_admission = exchange.client.base.port.admission is not None
    is_stream = exchange.early_stream() is not None
    if is_admission or is_stream or grpc.is_grpc(exchange.request.fields):
        status = 503
    return own_responses.asleep(status, again)


def _may_wake(exchange: Exchange, policies: RequestPolicies) -> bool:
    """Return whether a request may start a pod, and keep one."""
    request, wake = exchange.request, policies.wake
    if is_prefetch(policies.waiting, request) or (
        policies.profile is Profile.OPENAI and model_list.starts_no_pod(request)
    ):
        return False
    # A peek follows the rules of the request that its page replaced.
    method = (
        b"GET" if wait.is_peek(request, exchange.client.base.port, policies) else request.method
    )
    return wake is None or may_wake(wake, request, method)


def is_prefetch(waiting: WhileWaiting | None, request: Request) -> bool:
    """Return whether a browser loads a page in advance, of a service with a waiting page.

    Arguments:
        waiting: the policy of the revision; None without one.
        request: the client's request.
    """
    if waiting is None or WaitMode.PAGE not in waiting.modes:
        return False
    purpose = request.value_of(b"sec-purpose") or request.value_of(b"purpose")
    return purpose.lower().startswith(b"prefetch")


def may_wake(rules: WakeRules, request: Request, method: bytes) -> bool:
    """Return whether a request may wait for a pod; each rule must allow it.

    Arguments:
        rules: the rules of the revision.
        request: the client's request.
        method: its method; of a peek, the method of the request that its page replaced.
    """
    return (
        (not rules.methods or method in rules.methods)
        and not _is_under(request.target, rules.not_paths)
        and not _is_from(request, rules.not_user_agents)
        and (not rules.required_header or bool(request.value_of(rules.required_header)))
    )


def _is_under(target: bytes, paths: tuple[bytes, ...]) -> bool:
    """Return whether the path of a target is one of some paths, or below it."""
    # A loop: mypyc has no quick form of startswith with a tuple.
    for path in paths:
        if target.startswith(path):
            length = len(path)
            if path[-1:] == b"/" or target[length : length + 1] in (b"", b"/", b"?"):
                return True
    return False


def _is_from(request: Request, agents: tuple[bytes, ...]) -> bool:
    """Return whether the User-Agent contains one of the texts, whatever the case of its letters."""
    if not agents:
        return False
    name = request.value_of(b"user-agent").lower()
    for agent in agents:  # noqa: SIM110
        if name.find(agent) >= 0:
            return True
    return False


# -- is it authorized ------------------------------------------------------------------------------


def would_wait(throttler: RevisionThrottler, ticket: Ticket) -> bool:
    """Return whether a new request would be queued, or would wait for its own pod; O(1)."""
    if not throttler.has_free_slot:
        return True
    slots = throttler.slots
    return slots.holder is not None and slots.awaited(ticket) is not None


def _is_authorized(exchange: Exchange, policy: Authorization, now: float) -> bool:
    """Return whether a request is allowed already; if not, begin a sub-request."""
    services, ticket = exchange.services, exchange.ticket
    exchange.state = AUTHORIZING
    exchange.client.base.arm(ticket.deadline)
    verdict: Verdict | None = UNDECIDED if policy.url else WRONG
    if services.authorizer is not None and policy.url:
        revision, request = exchange.entry.throttler.revision.id, exchange.request
        fields = fields_of(request, exchange.client.base.address)
        # So many bytes of the body may arrive before the decision: in HTTP/1 none.
        is_read = request.version is HTTP_2 and not exchange.body.complete
        size = ticket.size + (STREAM_WINDOW if is_read else 0)
        verdict = services.authorizer.ask(exchange, revision, policy, fields, size)
    return verdict is not None and follow(exchange, verdict, now)


def fields_of(request: Request, client: bytes) -> list[tuple[bytes, bytes]]:
    """Return the fields of the sub-request for a request of a client.

    Arguments:
        request: the client's request. Its hop-by-hop fields are not among its ``lines``.
        client: the client's IP address.
    """
    fields: list[tuple[bytes, bytes]] = []
    for line in request.lines.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if _is_forwarded(name.lower()):
            fields.append((name, value.strip(b" \t")))
    before = request.fields.get(b"x-forwarded-for", b"").strip(b" \t")
    fields.append((b"X-Forwarded-For", before + b", " + client if before else client))
    fields.append((b"X-Forwarded-Method", request.method))
    fields.append((b"X-Forwarded-Host", request.host))
    fields.append((b"X-Forwarded-Uri", request.target))
    return fields


def _is_forwarded(name: bytes) -> bool:
    if name in _LEFT_OUT or is_lookalike(name):
        return False
    for prefix in _LEFT_OUT_PREFIXES:  # noqa: SIM110 # see _is_under
        if name.startswith(prefix):
            return False
    return True


def follow(exchange: Exchange, verdict: Verdict, now: float) -> bool:
    """Return whether a request may enter by a decision of the authorization server.

    If not, the request has its response.

    Arguments:
        exchange: the exchange of the request.
        verdict: the decision.
        now: seconds.
    """
    services = exchange.services
    try:  # the revision may be deleted meanwhile, and may have returned
        entry = services.driver.entries.of(exchange.entry.throttler.revision.id)
    except RevisionNotFound as missing:
        end.respond_unadmitted(exchange, own_responses.not_found(missing), "refused", now)
        return False
    exchange.entry = entry
    policies = entry.throttler.revision.policies.requests
    if verdict.allows:
        if policies is None:
            return True
        _identify(exchange, policies, verdict.lines)
        # The last pod may be gone meanwhile.
        return _may_start_pod(exchange, policies, now) and _has_no_response(exchange, policies, now)
    port = exchange.client.base.port
    if verdict.denies and policies is not None and wait.is_peek(exchange.request, port, policies):
        verdict = _FORBIDDEN
    elif verdict.denies and verdict.status < end.ERRORS and grpc.is_grpc(exchange.request.fields):
        verdict = _UNAUTHENTICATED
    if verdict.denies:
        response = own_responses.denied(verdict.status, verdict.lines, verdict.body)
        end.respond_unadmitted(exchange, response, "denied", now, is_in_form=bool(verdict.body))
        return False
    why = verdict.error or f"the authorization server responded {verdict.status}"
    response = own_responses.not_authorized(why, services.retry_after(entry.throttler))
    end.record_failure(exchange, response.status, Reason.NOT_AUTHORIZED, why)
    services.log_own_response(entry.throttler.revision.id, response)
    end.respond_unadmitted(exchange, response, "not-authorized", now)
    return False


def _identify(exchange: Exchange, policies: RequestPolicies, lines: bytes) -> None:
    """Give a request the fields of the authorization server, and none of the client's like them.

    Arguments:
        exchange: the exchange of the request.
        policies: of its revision.
        lines: the fields, each preceded by its CRLF; empty if the server has not decided.
    """
    names = takes_from_server(policies)
    if names:
        exchange.request = with_fields(exchange.request, names, lines, exchange.client.base.address)
        if exchange.body.trailers:
            exchange.body.trailers = b""  # a server may treat them like header fields
        if exchange.client.base.port.admission is not None:
            exchange.added_lines += lines  # the proxy sends the request


def takes_from_server(policies: RequestPolicies | None) -> tuple[bytes, ...]:
    """Return the names of the fields that a pod gets only from the authorization server."""
    if policies is None or policies.authorization is None:
        return ()
    return policies.authorization.response_headers


def on_time(exchange: Exchange, now: float) -> float:
    """End a request whose deadline passes before the authorization server has responded.

    Other requests may share the sub-request, and have more time.

    Arguments:
        exchange: the exchange of a request that waits for the server.
        now: seconds.

    Returns:
        When to call this again, seconds; infinite for never.
    """
    deadline = exchange.ticket.deadline
    if now < deadline:
        return deadline
    _cancel(exchange)
    follow(exchange, TOO_LATE, now)
    return inf


def stop(exchange: Exchange, response: OwnResponse, ended: str) -> None:
    """End a request that waits for the authorization server, because the activator drains.

    Arguments:
        exchange, response, ended: see ``end.respond_unadmitted``.
    """
    _cancel(exchange)
    end.respond_unadmitted(exchange, response, ended, exchange.services.driver.clock())


def leave(exchange: Exchange) -> None:
    """End a request that waits for the authorization server, because its client has closed."""
    _cancel(exchange)
    exchange.ticket.counts = False  # it is no load for the autoscaler
    end.end_now(exchange, "cancelled", 499, 0)


def _cancel(exchange: Exchange) -> None:
    authorizer = exchange.services.authorizer
    if authorizer is not None:
        authorizer.cancel(exchange)
