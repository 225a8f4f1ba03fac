"""Enforces the idle time-out of a request and its wait for 100, and names the limit that ended it.

A revision limits the whole duration of a request, the time until its response begins, and the
silence of its pod. The deadline of the ticket enforces the first two limits. This module enforces
the third, and the wait for a pod's 100. An exchange calls it when a limit may have passed. Pure:
``now`` is an argument. Knative's counterpart: pkg/http/handler/timeout.go.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Final, final

from activator.keda import words
from activator.proxy.message import own_responses
from throttler.model import Revision, RevisionKind
from throttler.reason import Reason
from throttler.request_policies import InterceptorRules, RequestPolicies
from throttler.ticket import Ticket

if TYPE_CHECKING:
    from activator.proxy.exchange.exchange import Exchange

#: Seconds until a client that waits for the pod's 100 gets the activator's (Go's transport: 1).
CONTINUE_AFTER = 1.0


#: The names of the three time-outs, as users write them: of the whole, to the response, idle.
_NAMES: Final = {
    RevisionKind.REVISION: ("timeoutSeconds", "responseStartTimeoutSeconds", "idleTimeoutSeconds"),
    RevisionKind.SERVICE: (
        "timeout-seconds",
        "response-start-timeout-seconds",
        "idle-timeout-seconds",
    ),
    RevisionKind.HTTP_ROUTE: (words.RESPONSE_HEADER,) * 3,
    RevisionKind.FALLBACK: (words.RESPONSE_HEADER,) * 3,
}


def seconds_to_response(revision: Revision, idle_from_arrival: bool) -> float:
    """Return the seconds from the arrival of a request within which its response must begin.

    Arguments:
        revision: the revision of the request.
        idle_from_arrival: whether the idle time-out counts from the arrival. So it does in Knative,
            where a cold start can use it up. Otherwise it counts from when a pod has the request.
    """
    limits = [revision.timeout]
    if revision.response_start_timeout:
        limits.append(revision.response_start_timeout)
    if revision.idle_timeout and idle_from_arrival:
        limits.append(revision.idle_timeout)
    return min(limits)


@final
class WaitLimit:
    """The deadlines of a request whose wait for a pod has a limit of its own (``wait-seconds``).

    Arguments:
        seconds: limit of the wait.
        arrived: when the request arrived, seconds.
        within: seconds from the assignment of a pod within which the response must begin.
        client_until: when the client gives up (grpc-timeout), seconds; infinite if unknown.

    Attributes:
        assigned_at: when the request was assigned its pod, seconds; infinite while it is queued.
    """

    __slots__ = ("_client_until", "_within", "assigned_at", "seconds", "wait_until")

    def __init__(self, seconds: float, arrived: float, within: float, client_until: float) -> None:
        self.seconds = seconds
        self._within = within
        self._client_until = client_until
        self.wait_until = min(arrived + seconds, client_until)
        self.assigned_at = inf

    @property
    def ends_with_client(self) -> bool:
        """Whether the wait ends because the time of the whole request is over."""
        return self.wait_until >= self._client_until

    def assigned(self, now: float) -> float:
        """Return the deadline of the request, which has a pod; ``now`` in seconds."""
        self.assigned_at = min(self.assigned_at, now)
        return min(self.assigned_at + self._within, self._client_until)

    def requeued(self) -> float:
        """Return the deadline of the request, which has lost its pod: the first one."""
        self.assigned_at = inf
        return self.wait_until


class TimeLimits:
    """The limits of one request whose end moves. Requests of most revisions have none.

    Arguments:
        revision: the revision of the request.

    Attributes:
        wait: the deadlines, if the wait has a limit of its own; else None.
    """

    __slots__ = ("_active_at", "_continue_at", "_continued", "_idle_timeout", "wait")

    def __init__(self, revision: Revision) -> None:
        self._idle_timeout = revision.idle_timeout or inf
        self._active_at = inf
        self._continue_at = inf
        self._continued = False
        self.wait: WaitLimit | None = None

    def deadline(self, ticket: Ticket, now: float) -> float:
        """Return the deadline of a request that has a pod.

        Arguments:
            ticket: the ticket of the request.
            now: seconds.
        """
        return ticket.deadline if self.wait is None else self.wait.assigned(now)

    def began(self, ticket: Ticket) -> float:
        """Return when the time-out of a request began whose response has begun, seconds."""
        return ticket.arrived if self.wait is None else self.wait.assigned_at

    def sent(self, now: float, expects_continue: bool) -> None:
        """Record that a pod has the request. The silence counts from here.

        Arguments:
            now: seconds.
            expects_continue: whether the client asked for a 100. It waits for one unless it has
                got one already.
        """
        self._active_at = now
        waits = expects_continue and not self._continued
        self._continue_at = now + CONTINUE_AFTER if waits else inf

    def touch(self, now: float) -> None:
        """Record that bytes pass, or that the client does not read: the silence starts again."""
        self._active_at = now

    def continued(self) -> bool:
        """Record that the client waits for a 100 no more; return whether it did until now."""
        waited, self._continued = not self._continued, True
        self._continue_at = inf
        return waited

    def next(self) -> float:
        """Return when the next limit ends, seconds; infinite for none."""
        return min(self._active_at + self._idle_timeout, self._continue_at)

    def is_idle(self, now: float) -> bool:
        """Return whether the pod has been silent for the idle time-out."""
        return now >= self._active_at + self._idle_timeout

    def wants_continue(self, now: float) -> bool:
        """Return whether the client has waited ``CONTINUE_AFTER`` for a 100."""
        return now >= self._continue_at


def limit_wait(exchange: Exchange, policies: RequestPolicies, now: float) -> None:
    """Limit the wait of a request by itself; its time-out then counts from the assignment.

    An object of the KEDA HTTP add-on may limit the whole request too, as a client of gRPC does.

    Arguments:
        exchange: the exchange of a request that has arrived just now.
        policies: of its revision, with ``wait_seconds``.
        now: seconds.
    """
    revision, ticket = exchange.entry.throttler.revision, exchange.ticket
    rules = policies.interceptor
    if rules is not None and 0 < rules.request_timeout < exchange.client_timeout:
        exchange.client_timeout = rules.request_timeout
    limits = exchange.limits
    if limits is None:
        limits = exchange.limits = TimeLimits(revision)
    within = seconds_to_response(revision, exchange.services.idle_from_arrival)
    limits.wait = WaitLimit(policies.wait_seconds, now, within, now + exchange.client_timeout)
    ticket.deadline = limits.wait.wait_until


def name_wait(exchange: Exchange, detail: str) -> str:
    """Return the detail of a request that expired in the queue, with the limit of its wait.

    Arguments:
        exchange: the exchange of the request.
        detail: why it was queued, for people; may be empty.
    """
    limits = exchange.limits
    if limits is None or limits.wait is None:
        return detail
    name, rules = "wait-seconds", rules_of(exchange)
    if rules is not None and exchange.entry.throttler.revision.id.kind is RevisionKind.FALLBACK:
        name = words.FALLBACK
    elif rules is not None:
        name = words.READINESS[rules.kind]
    limit = _limit(name, limits.wait.seconds)
    if rules is not None and limits.wait.ends_with_client:
        limit = _name_of_client(exchange)
    return "; ".join(filter(None, (detail, limit)))


def rules_of(exchange: Exchange) -> InterceptorRules | None:
    """Return what the object of a request asks for; None for other revisions."""
    return exchange.entry.throttler.revision.policies.interceptor


def _name_of_client(exchange: Exchange) -> str:
    """Return the limit of the whole request, which its client or its object has set."""
    timeout, rules = exchange.client_timeout, rules_of(exchange)
    is_own = rules is not None and rules.request_timeout == timeout
    return _limit(words.REQUEST if is_own else "grpc-timeout", timeout)


def _limit(name: str, seconds: float) -> str:
    """Return a limit and its value, with its unit unless the name has it."""
    return f"{name} {seconds:g}{'' if 'seconds' in name.lower() else 's'}"


def check(exchange: Exchange, now: float) -> float:
    """Enforce the limits that have passed.

    Arguments:
        exchange: the exchange of a request that a pod has, or is about to get.
        now: seconds.

    Returns:
        When to call this again; infinite for never.
    """
    deadline, limits = exchange.ticket.deadline, exchange.limits
    if now >= deadline:
        return _expire(exchange, idle=False)
    if limits is None or exchange.pod_side is None:
        return deadline
    if exchange.client.is_full():
        limits.touch(now)  # the pod is silent because the client does not read
    if limits.is_idle(now):
        return _expire(exchange, idle=True)
    if limits.wants_continue(now):
        exchange.send_continue()
    return min(deadline, limits.next())


def _expire(exchange: Exchange, *, idle: bool) -> float:
    """End a request whose limit has passed; return infinity, for ``check``."""
    throttler, ticket, timeout = exchange.entry.throttler, exchange.ticket, exchange.client_timeout
    limit = name_of(throttler.revision, idle=idle)
    if not idle and ticket.deadline >= ticket.arrived + timeout:
        limit = _name_of_client(exchange)
    if exchange.pod_side is None:
        limit += exchange.services.still_connecting()
    again = exchange.services.retry_after(throttler)
    response = own_responses.timed_out(Reason.RESPONSE_LATE, limit, again)
    exchange.stop(response, "timed-out")
    return inf


def name_of(revision: Revision, *, idle: bool) -> str:
    """Return the field that ended a request without a response, and its value.

    A Revision has fields, and a Service annotations with the prefix ``activator.dev/``.
    """
    whole, response_start, silence = _NAMES[revision.id.kind]
    if idle:
        return _limit(silence, revision.idle_timeout)
    if 0 < revision.response_start_timeout < revision.timeout:
        return _limit(response_start, revision.response_start_timeout)
    return _limit(whole, revision.timeout)
