"""Builds the error responses of an exchange, with their texts and Retry-After.

Decides nothing. ``message.own_responses`` has the texts.
"""

from __future__ import annotations

from http import HTTPStatus

from activator.proxy.exchange.services import Services
from activator.proxy.http2.fields import ResponseFields
from activator.proxy.message import error_forms, own_responses
from activator.proxy.message.grammar import FramingError
from activator.proxy.message.own_responses import OwnResponse
from activator.proxy.message.response import Response
from throttler.errors import ActivatorError, FlowFull, RequestQueueFull, WaitTooLong
from throttler.pod import PodTracker
from throttler.reason import Reason
from throttler.revision import RevisionThrottler


def rejected(
    services: Services, throttler: RevisionThrottler, error: ActivatorError
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


def expired(
    services: Services, throttler: RevisionThrottler, reason: Reason, detail: str
) -> OwnResponse:
    """Return the response to an expired request; ``detail`` is for people."""
    return own_responses.timed_out(reason, detail, services.retry_after(throttler))


def no_event_stream(
    pod: PodTracker, response: Response | ResponseFields, body: list[bytes], complete: bool
) -> tuple[OwnResponse, str]:
    """Return the error for a response that cannot follow an event stream, and its outcome.

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


def too_large(pod: PodTracker, error: FramingError) -> OwnResponse:
    """Return the response to a request that exceeds a limit of its pod."""
    return own_responses.refused(error.status, f"{pod.address}: {error}")


def no_upgrade(pod: PodTracker) -> OwnResponse:
    """Return the response to a request that changes the protocol, and whose pod cannot do that."""
    text = f"{pod.address}: the pod speaks only HTTP/2, which has no Upgrade"
    return own_responses.no_upgrade(text)


def failed(pod: PodTracker, error: str) -> OwnResponse:
    """Return the response that names a failed pod; ``error`` is for people."""
    return own_responses.upstream_failed(f"{pod.address}: {error}")
