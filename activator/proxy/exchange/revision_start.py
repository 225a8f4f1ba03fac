"""Finds how far the start of a revision is, as its waiting pages show it.

Changes nothing. O(pods).
"""

from __future__ import annotations

from activator.driver import Driver
from activator.proxy.message.waiting_page import Phase, Start, whole_seconds
from throttler.health import PodState
from throttler.revision import RevisionThrottler


def start_of(driver: Driver, throttler: RevisionThrottler, now: float) -> Start:
    """Return the start of a revision at which requests wait.

    Arguments:
        driver: knows why they wait.
        throttler: of the revision.
        now: seconds.
    """
    revision = throttler.revision
    reason, detail = driver.why(throttler)
    return Start(
        revision.service or revision.id.name,
        revision.id.namespace,
        phase_of(throttler),
        whole_seconds(throttler.expected_wait(now)),
        reason,
        detail,
    )


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
