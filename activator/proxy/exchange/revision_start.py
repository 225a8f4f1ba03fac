"""Finds how far the start of a revision is, as its waiting pages show it.

Changes nothing. O(pods).
"""

from __future__ import annotations

from math import inf

from activator.driver import Driver
from activator.proxy.message.waiting_page import Phase, Start, whole_seconds
from throttler.model import Revision
from throttler.pod import PodState
from throttler.revision import RevisionThrottler


def start_of(driver: Driver, throttler: RevisionThrottler, now: float) -> Start:
    """Return the start of a revision at which requests wait.

    Arguments:
        driver: knows why they wait.
        throttler: of the revision.
        now: seconds.
    """
    revision, forecast = throttler.revision, throttler.expected_wait(now)
    reason, detail = driver.why(throttler)
    phase, cold_start = phase_of(throttler), driver.cold_starts.under_way.get(revision.id)
    if cold_start is not None and now - cold_start.began >= _limit(revision):
        phase, forecast = Phase.FAILED, None
    return Start(
        revision.service or revision.id.name,
        revision.id.namespace,
        phase,
        whole_seconds(forecast),
        reason,
        detail,
        throttler.forecast.is_late(now),
    )


def _limit(revision: Revision) -> float:
    """Return for how many seconds a request of a revision may wait for a pod."""
    requests = revision.policies.requests
    whole = min(revision.timeout or inf, revision.response_start_timeout or inf)
    return (requests.wait_seconds if requests is not None else 0.0) or whole


def phase_of(throttler: RevisionThrottler) -> Phase:
    """Return the phase of a revision at which requests wait."""
    if throttler.slots.pods:
        return Phase.BUSY
    pods = [pod for pod in throttler.pods() if pod.state is not PodState.DRAINING]
    if not pods:
        return Phase.ASKED
    if any(pod.probe.at is not None or pod.probe.failures for pod in pods):
        return Phase.PROBED
    return Phase.LISTED
