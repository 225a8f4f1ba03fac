"""The replies that an exchange gives in place of a pod, by what is wrong.

Builds them and decides nothing. The texts are those of ``message.replies``.
"""

from __future__ import annotations

from activator.proxy.exchange.services import Services
from activator.proxy.message import replies
from activator.proxy.message.replies import Reply
from throttler.errors import ActivatorError, RequestQueueFull, WaitTooLong
from throttler.pod import PodTracker
from throttler.reason import Reason
from throttler.revision import RevisionThrottler


def rejected(
    services: Services, throttler: RevisionThrottler, error: ActivatorError
) -> tuple[Reply, str]:
    """Return the reply to a request that may not even wait, and its outcome (``counters``)."""
    again = services.retry_after(throttler)
    if isinstance(error, WaitTooLong):
        return replies.shed(error, again), "shed"
    assert isinstance(error, RequestQueueFull)
    return replies.queue_full(error.bound, again), "queue-full"


def late(services: Services, throttler: RevisionThrottler, reason: Reason, detail: str) -> Reply:
    """Return the reply to a request whose time is over; ``detail`` is for people."""
    return replies.timed_out(reason, detail, services.retry_after(throttler))


def failed(pod: PodTracker, error: str) -> Reply:
    """Return the reply that names the pod that failed; ``error`` is for people."""
    return replies.upstream_failed(f"{pod.address}: {error}")
