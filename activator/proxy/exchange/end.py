"""Ends requests that are not served: error response or break-off, failure record and log line.

A served request uses this module only while the request log is on. ``message.own_responses`` has
the texts of the responses.
"""

from __future__ import annotations

from dataclasses import replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from activator.keda.words import PROBERS
from activator.knative.words import KUBELET_AGENT
from activator.proxy.exchange.observers import RequestRecord, lines_to_send
from activator.proxy.http2.fields import ResponseFields
from activator.proxy.message import error_forms, own_responses
from activator.proxy.message.error_forms import negotiate_for_revision, negotiate_not_found
from activator.proxy.message.own_responses import OwnResponse, printable
from activator.proxy.message.response import Response
from activator.records.entries import Failed
from throttler.errors import (
    ActivatorError,
    FlowFull,
    RequestQueueFull,
    RevisionNotFound,
    WaitTooLong,
)
from throttler.pod import PodTracker
from throttler.reason import Reason
from throttler.request_policies import Profile
from throttler.revision import RevisionThrottler
from throttler.ticket import FAILED, NEUTRAL, SERVED, Outcome

if TYPE_CHECKING:
    from activator.proxy.exchange.exchange import Exchange
    from activator.proxy.exchange.services import ProxyServices
    from activator.runtime import RequestLog

#: The field line with the number of attempts.
ATTEMPTS: Final = b"\r\nActivator-Attempts: %d"
#: The first status of an error response (RFC 9110 section 15).
ERRORS: Final = 400
_PROBERS: Final = (KUBELET_AGENT, *PROBERS)
#: The status of an event stream, also of one that ends with an error.
OK: Final = 200
#: The throttler's outcome for the pod, by the word of ``counters.OUTCOMES``. Other outcomes say
#: nothing about the pod.
_FAILURES: Final = (502, 503)
_SWITCHED: Final = 101
_OF_POD: Final = {"served": SERVED, "upstream-failed": FAILED}


def of_pod(ended: str, status: int) -> Outcome:
    """Return the outcome of a request for its pod.

    Arguments:
        ended: one of ``counters.OUTCOMES``.
        status: the status that the client got; 502 and 503 are failures of the pod. A tunnel (101)
            ends when one side wants, so its end says nothing about the pod.
    """
    if status == _SWITCHED:
        return NEUTRAL
    return FAILED if ended == "served" and status in _FAILURES else _OF_POD.get(ended, NEUTRAL)


def respond_not_found(exchange: Exchange, error: RevisionNotFound) -> None:
    """Respond to a request for an unknown revision; some probes are none."""
    services, request, trace = exchange.services, exchange.request, exchange.trace
    health = services.health
    if health is not None and request.value_of(b"user-agent").startswith(_PROBERS):
        response = own_responses.health(health())
    else:
        services.counters.unknown_revisions += 1
        response = negotiate_not_found(error, request.lines)
    if trace is not None:
        trace.no_pod(Reason.UNKNOWN_REVISION.value)
        trace.ended(response.status, "unknown-revision")
    exchange.client.send_own_response(response)


def respond_with_error(
    exchange: Exchange, response: OwnResponse, ended: str, attempts: int
) -> None:
    """End a request with an error response of the activator.

    Arguments:
        exchange: the exchange of the request.
        response: the error response.
        ended: one of ``counters.OUTCOMES``.
        attempts: how often the request was assigned to a pod.
    """
    services = exchange.services
    now = services.driver.clock()
    revision = exchange.entry.throttler.revision.id
    if attempts > 1:
        exchange.added_lines += ATTEMPTS % attempts
    if exchange.wait is not None:
        exchange.added_lines += exchange.wait.fields(now)
    response = in_form(exchange, response, now, attempts)
    reason = response.reason
    assert reason is not None
    _end(exchange, response, ended, now)
    record_failure(exchange, response.status, reason, response.detail)
    services.log_own_response(revision, response)
    exchange.client.send_own_response(response)


def respond_to_waiting(exchange: Exchange, response: OwnResponse, ended: str, now: float) -> None:
    """End a waiting request with a response that is no failure of its revision.

    Arguments:
        exchange: the exchange of the request.
        response: the response, in the form for its client.
        ended: one of ``counters.OUTCOMES``.
        now: seconds.
    """
    if exchange.wait is not None:
        response = replace(response, fields=response.fields + exchange.wait.fields(now))
    _end(exchange, response, ended, now)
    exchange.client.send_own_response(response)


def respond_unadmitted(
    exchange: Exchange, response: OwnResponse, ended: str, now: float, *, is_in_form: bool = False
) -> None:
    """End a request that was never admitted: count, trace and log it, and send its response.

    Arguments:
        exchange: the exchange of the request; it becomes DONE.
        response: the response, as plain text. An error response gets the form for its client.
        ended: one of ``counters.OUTCOMES``.
        now: seconds.
        is_in_form: whether an error response has its form already.
    """
    if response.status >= ERRORS and not is_in_form:
        response = in_form(exchange, response, now)
    exchange.ticket.counts = False  # it is no load for the autoscaler
    _end(exchange, response, ended, now)
    exchange.client.send_own_response(response)


def _end(exchange: Exchange, response: OwnResponse, ended: str, now: float) -> None:
    """Count, trace and log a request that ends with a response of the activator."""
    client = exchange.client
    if exchange.trace is not None and response.reason is not None:
        exchange.trace.no_pod(response.reason.value)
    client.base.idle_since = now
    status = OK if exchange.early_stream() is not None else response.status
    exchange.end(ended, status, len(client.body_of(response)), now, response.why)


def in_form(
    exchange: Exchange, response: OwnResponse, now: float, attempts: int = 1
) -> OwnResponse:
    """Return an error response in the form for its client.

    Arguments:
        exchange: the exchange of the request.
        response: the response as plain text.
        now: seconds.
        attempts: how often the request was assigned to a pod; the client learns a number above 1.
    """
    request, revision = exchange.request, exchange.entry.throttler.revision
    added_lines = exchange.added_lines
    policies = revision.policies.requests
    if exchange.early_stream() is not None:
        return error_forms.as_error(response, b"", revision.id.kind)
    if (
        policies is not None
        and policies.profile is Profile.OPENAI
        and error_forms.wants_json(request)
    ):
        return error_forms.as_error(response, added_lines, revision.id.kind)
    waited = now - exchange.ticket.arrived
    return negotiate_for_revision(
        response, request.lines, added_lines, revision.id, waited, attempts
    )


def break_off(exchange: Exchange, response: OwnResponse, ended: str, code: int) -> None:
    """End a response that has begun, so that the client detects that it is incomplete.

    Arguments:
        exchange: the exchange of the request.
        response: the error response that the client cannot get any more; for the failure record.
        ended: one of ``counters.OUTCOMES``.
        code: see ``ClientSide.break_off``.
    """
    client, status, size = exchange.client, exchange.status, exchange.response_size
    if exchange.early_stream() is not None:
        response = in_form(exchange, response, exchange.services.driver.clock())
        end_now(exchange, ended, status, size + len(client.body_of(response)))
        client.send_own_response(response)
    else:
        end_now(exchange, ended, status, size)
        client.break_off(ended, code)
    assert response.reason is not None
    record_failure(exchange, status, response.reason, f"{response.detail}; the response had begun")


def end_now(exchange: Exchange, ended: str, status: int, size: int) -> None:
    """End a request whose client gets nothing more."""
    now = exchange.services.driver.clock()
    exchange.client.base.idle_since = now
    exchange.end(ended, status, size, now)


def record_failure(exchange: Exchange, status: int, reason: Reason, detail: str) -> None:
    """Record why a request failed, for metrics and the admin API."""
    driver = exchange.services.driver
    failed = Failed(driver.clock(), status, reason, printable(detail))
    driver.failed(exchange.entry, failed)


def log(
    exchange: Exchange, request_log: RequestLog, status: int, size: int, duration: float, why: str
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
    request, trace = exchange.request, exchange.trace
    trace_id = "" if trace is None else trace.trace_id
    request_log.ended(
        RequestRecord(
            *(request.method, request.target, request.host, request.version),
            request.own_lines() + lines_to_send(request, traced=trace_id != ""),
            request.length,
            status,
            size,
            duration,
            exchange.client.base.peer(),
            exchange.entry.throttler.revision,
            trace_id,
            why,
        )
    )


def rejected(
    services: ProxyServices, throttler: RevisionThrottler, error: ActivatorError
) -> tuple[OwnResponse, str]:
    """Return the response to a request that may not wait, and its outcome (``counters.OUTCOMES``).

    Arguments:
        services: for Retry-After.
        throttler: the throttler of the request's revision.
        error: why the request may not wait.
    """
    again = services.retry_after(throttler)
    if isinstance(error, WaitTooLong):
        return own_responses.shed(error, again), "shed"
    if isinstance(error, FlowFull):
        return own_responses.tenant_full(error, again), "tenant-full"
    assert isinstance(error, RequestQueueFull)
    return own_responses.queue_full(error.limit, again), "queue-full"


def no_event_stream(
    pod: PodTracker, response: Response | ResponseFields, body: list[bytes], complete: bool
) -> tuple[OwnResponse, str]:
    """Return the error for a response that cannot follow an event stream, and its end.

    Arguments:
        pod: the pod that sent it.
        response: its head, in the pod's version.
        body: its body, as far as it has arrived.
        complete: whether that is the whole body.
    """
    status = response.status
    kind = response.value_of(b"content-type").partition(b";")[0].decode("latin-1")
    coding = response.value_of(b"content-encoding").decode("latin-1")
    what = f"{status} {kind or 'without a content type'}{f', {coding}' if coding else ''}"
    code = Reason.NO_EVENT_STREAM.value
    error = error_forms.error_in(b"".join(body), status, code) if complete else b""
    ended = (
        "served" if complete and status < HTTPStatus.INTERNAL_SERVER_ERROR else "upstream-failed"
    )
    return own_responses.no_event_stream(f"{pod.address}: {what}", error), ended
