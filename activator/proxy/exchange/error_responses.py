"""Builds the error responses of an exchange, with their texts and Retry-After.

Decides nothing. ``message.own_responses`` has the texts.
"""

from __future__ import annotations

from activator.proxy.exchange.services import Services
from activator.proxy.message import own_responses
from activator.proxy.message.grammar import FramingError
from activator.proxy.message.own_responses import OwnResponse
from throttler.errors import ActivatorError, RequestQueueFull, WaitTooLong
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
    assert isinstance(error, RequestQueueFull)
    return own_responses.queue_full(error.limit, again), "queue-full"


def expired(
    services: Services, throttler: RevisionThrottler, reason: Reason, detail: str
) -> OwnResponse:
    """Return the response to an expired request; ``detail`` is for people."""
    return own_responses.timed_out(reason, detail, services.retry_after(throttler))


def too_large(pod: PodTracker, error: FramingError) -> OwnResponse:
    """Return the response to a request that exceeds a limit of its pod."""
    return own_responses.refused(error.status, f"{pod.address}: {error}")


def failed(pod: PodTracker, error: str) -> OwnResponse:
    """Return the response that names a failed pod; ``error`` is for people."""
    return own_responses.upstream_failed(f"{pod.address}: {error}")
