"""How long a request may take beyond its one deadline, and which limit it was that ended it.

A revision bounds a request's whole duration, the time until its answer begins, and the silence
of its pod. The ticket's deadline enforces the first two. This module enforces the third, and the
wait for a pod's 100. Knows no socket; ``now`` is an argument. An exchange calls it when a limit
may have passed.
Knative's counterpart: pkg/http/handler/timeout.go.
"""

from __future__ import annotations

from math import inf
from typing import Protocol

from activator.proxy.exchange import error_responses
from activator.proxy.exchange.services import Services
from activator.proxy.exchange.sides import ClientSide, PodSide
from activator.proxy.message.own_responses import OwnResponse
from activator.records.entries import Entry
from throttler.model import Revision
from throttler.reason import Reason
from throttler.ticket import Ticket

#: Seconds that a client waits for the pod's 100 before it gets ours (Go's transport: 1).
CONTINUE_AFTER = 1.0


def seconds_to_response(revision: Revision, idle_from_arrival: bool) -> float:
    """Return within how many seconds after its arrival a request must get the head of a response.

    Arguments:
        idle_from_arrival: whether silence counts from the arrival, as in Knative, where a cold
            start can use up all of it; else it counts from when a pod has the request.
    """
    limits = [revision.timeout]
    if revision.response_start_timeout:
        limits.append(revision.response_start_timeout)
    if revision.idle_timeout and idle_from_arrival:
        limits.append(revision.idle_timeout)
    return min(limits)


class TimeLimits:
    """The limits of one request that move; requests of most revisions have none."""

    __slots__ = ("_active_at", "_continue_at", "_continued", "_idle_timeout")

    def __init__(self, revision: Revision) -> None:
        self._idle_timeout = revision.idle_timeout or inf
        self._active_at = inf
        self._continue_at = inf
        self._continued = False

    def sent(self, now: float, expects_continue: bool) -> None:
        """Record that a pod has the request; a wait for a connection was no silence of its own.

        Arguments:
            expects_continue: whether the client waits for a 100, unless it has got one.
        """
        self._active_at = now
        waits = expects_continue and not self._continued
        self._continue_at = now + CONTINUE_AFTER if waits else inf

    def touch(self, now: float) -> None:
        """Record that bytes pass, or could pass: the silence ends."""
        self._active_at = now

    def continued(self) -> bool:
        """Record that the client waits for no 100; return whether it did until now."""
        did, self._continued = not self._continued, True
        self._continue_at = inf
        return did

    def next(self) -> float:
        """Return when to look again, infinite for not at all."""
        return min(self._active_at + self._idle_timeout, self._continue_at)

    def is_idle(self, now: float) -> bool:
        """Whether the pod has been silent for too long."""
        return now >= self._active_at + self._idle_timeout

    def wants_continue(self, now: float) -> bool:
        """Whether the client has waited for a 100 for long enough."""
        return now >= self._continue_at


class Timed(Protocol):
    """An exchange whose ticket has a pod, as its limits see it."""

    client: ClientSide
    entry: Entry
    limits: TimeLimits | None
    patience: float
    pod_side: PodSide | None
    services: Services
    ticket: Ticket

    def send_continue(self) -> None:
        """Have the client send its body, if it waits for leave to do so."""

    def stop(self, response: OwnResponse, ended: str) -> None:
        """See attempts.Retrying."""


def look(exchange: Timed, now: float) -> float:
    """Do what is due for a request; return when to look again, infinite for not at all."""
    deadline, limits = exchange.ticket.deadline, exchange.limits
    if now >= deadline:
        return _expire(exchange, idle=False)
    if limits is None or exchange.pod_side is None:
        return deadline
    if exchange.client.is_full():
        limits.touch(now)  # the pod's silence is the client's
    if limits.is_idle(now):
        return _expire(exchange, idle=True)
    if limits.wants_continue(now):
        exchange.send_continue()
    return min(deadline, limits.next())


def _expire(exchange: Timed, *, idle: bool) -> float:
    """End a request that a pod has, or is about to get, since its time is over."""
    throttler = exchange.entry.throttler
    limit = limit_of(throttler.revision, exchange.ticket, exchange.patience, idle=idle)
    if exchange.pod_side is None:
        limit += exchange.services.still_connecting()
    response = error_responses.late(exchange.services, throttler, Reason.RESPONSE_LATE, limit)
    exchange.stop(response, "timed-out")
    return inf


def limit_of(revision: Revision, ticket: Ticket, patience: float, *, idle: bool) -> str:
    """Return which limit ended a request, with its value.

    Arguments:
        patience: seconds that the client waits; infinite where it does not say.
        idle: whether it was the silence of the pod.
    """
    if not idle and ticket.deadline >= ticket.arrived + patience:
        return f"grpc-timeout {patience:g}"
    return name_of(revision, idle=idle)


def name_of(revision: Revision, *, idle: bool) -> str:
    """Return the field of the Revision, with its value, that ended an unanswered request."""
    if idle:
        return f"idleTimeoutSeconds {revision.idle_timeout:g}"
    if 0 < revision.response_start_timeout < revision.timeout:
        return f"responseStartTimeoutSeconds {revision.response_start_timeout:g}"
    return f"timeoutSeconds {revision.timeout:g}"
