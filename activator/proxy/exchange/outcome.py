"""Ends requests that are not served: error response or break-off, failure record and log line.

A served request uses this module only while the request log is on.
"""

from __future__ import annotations

from typing import Final, Protocol

from activator.proxy.exchange.observers import RequestLog, Trace, record_of
from activator.proxy.exchange.pod_wait import PodWait
from activator.proxy.exchange.services import Services
from activator.proxy.exchange.sides import ClientSide
from activator.proxy.message.own_responses import OwnResponse, printable
from activator.proxy.message.problem import negotiate_for_revision, negotiate_not_found
from activator.proxy.message.request import Request
from activator.records.entries import Entry
from activator.records.failures import Failed
from throttler.errors import RevisionNotFound
from throttler.reason import Reason
from throttler.ticket import FAILED, NEUTRAL, SERVED, Outcome, Ticket

#: The throttler's outcome for the pod, by the word of ``counters.OUTCOMES``. Other outcomes say
#: nothing about the pod.
_OF_POD: Final = {"served": SERVED, "upstream-failed": FAILED}


class Ending(Protocol):
    """The part of an exchange that this module uses."""

    client: ClientSide
    entry: Entry
    added_lines: bytes
    request: Request
    services: Services
    ticket: Ticket
    trace: Trace | None
    wait: PodWait | None

    def end(self, ended: str, status: int, size: int, now: float, why: str = "") -> None:
        """Count the request, and release its ticket. Called once.

        Arguments:
            ended: one of ``counters.OUTCOMES``.
            status: the status that the client gets.
            size: bytes of the response's body.
            now: the time, in seconds.
            why: the Activator-Reason of the activator's own response; else empty.
        """


def of_pod(ended: str) -> Outcome:
    """Return the outcome of a request for its pod; ``ended`` is one of ``counters.OUTCOMES``."""
    return _OF_POD.get(ended, NEUTRAL)


def respond_not_found(
    services: Services,
    client: ClientSide,
    request: Request,
    trace: Trace | None,
    error: RevisionNotFound,
) -> None:
    """Respond to a request for an unknown revision."""
    services.counters.unknown_revisions += 1
    response = negotiate_not_found(error, request.lines)
    if trace is not None:
        trace.no_pod(Reason.UNKNOWN_REVISION.value)
        trace.ended(response.status, "unknown-revision")
    client.send_own_response(response)


def respond_with_error(exchange: Ending, response: OwnResponse, ended: str, attempts: int) -> None:
    """End a request with an error response of the activator.

    Arguments:
        exchange: the exchange of the request.
        response: the error response.
        ended: one of ``counters.OUTCOMES``.
        attempts: how often the request was assigned to a pod.
    """
    services, client, request = exchange.services, exchange.client, exchange.request
    trace, added_lines, now = exchange.trace, exchange.added_lines, services.driver.clock()
    revision = exchange.entry.throttler.revision.id
    if attempts > 1:
        added_lines += attempts_line(attempts)
    if exchange.wait is not None:
        added_lines += exchange.wait.fields(now)
    waited = now - exchange.ticket.arrived
    response = negotiate_for_revision(
        response, request.lines, added_lines, revision, waited, attempts
    )
    reason = response.reason
    assert reason is not None
    if trace is not None:
        trace.no_pod(reason.value)
    client.set_idle_since(now)
    exchange.end(ended, response.status, len(client.body_of(response)), now, response.why)
    record_failure(exchange, response.status, reason, response.detail)
    services.log_own_response(revision, response)
    client.send_own_response(response)


def break_off(
    exchange: Ending, response: OwnResponse, ended: str, status: int, size: int, code: int
) -> None:
    """End a response that has begun, so that the client detects that it is incomplete.

    Arguments:
        exchange: the exchange of the request.
        response: the error response that the client cannot get any more; for the failure record.
        ended: one of ``counters.OUTCOMES``.
        status: the status of the begun response.
        size: bytes of its body so far.
        code: see ``ClientSide.break_off``.
    """
    end_now(exchange, ended, status, size)
    exchange.client.break_off(ended, code)
    assert response.reason is not None
    record_failure(exchange, status, response.reason, f"{response.detail}; the response had begun")


def end_now(exchange: Ending, ended: str, status: int, size: int) -> None:
    """End a request whose client gets nothing more."""
    now = exchange.services.driver.clock()
    exchange.client.set_idle_since(now)
    exchange.end(ended, status, size, now)


def record_failure(exchange: Ending, status: int, reason: Reason, detail: str) -> None:
    """Record why a request failed, for metrics and the admin API."""
    driver = exchange.services.driver
    failed = Failed(driver.clock(), status, reason, printable(detail))
    driver.failed(exchange.entry, failed)


def attempts_line(attempts: int) -> bytes:
    """Return the field line with the number of attempts."""
    return b"\r\nActivator-Attempts: %d" % attempts


def log(
    exchange: Ending, request_log: RequestLog, status: int, size: int, duration: float, why: str
) -> None:
    """Write an ended request to the request log.

    Arguments:
        exchange: the exchange of the request.
        request_log: the log.
        status: the status that the client got.
        size: bytes of the response's body.
        duration: seconds.
        why: the Activator-Reason of the activator's own response; empty if a pod responded.
    """
    trace = exchange.trace
    trace_id = "" if trace is None else trace.trace_id
    about = (exchange.client.peer(), exchange.entry.throttler.revision, trace_id, why)
    request_log.ended(record_of(exchange.request, status, size, duration, *about))
