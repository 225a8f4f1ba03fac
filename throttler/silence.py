"""Pods that have requests and begin no response: when to probe them.

The connections of a pod that hangs stay open, so its requests do not fail: only its silence
shows that it hangs. Scans the pods that have requests once a second. Other pods cost nothing,
and a request costs almost nothing. Knows no clock. Knative has no counterpart: there, a pod
that hangs gets requests until Kubernetes lists it as not ready.
"""

from __future__ import annotations

from math import inf
from typing import Final

from throttler.pod import PodTracker

#: Seconds without the beginning of a response after which a pod with requests is probed.
SILENT_AFTER = 5.0
#: Limits of the seconds until the next probe of a silent pod. Between them, the pause is as long as
#: the silence was at the last probe. A probe may take 5 s to connect and 5 s for its response.
AGAIN_AFTER: Final = 10.0
AGAIN_AFTER_MAX: Final = 30.0
#: Seconds between two scans.
SCAN_PERIOD: Final = 1.0
#: The most pods in one scan, about a millisecond. The next scan continues with the others.
MAX_PODS = 5000


class Silence:
    """The pods of all revisions that have requests.

    Attributes:
        busy_since: since when each pod has had requests. A pod without requests stays here until
            the next scan.
    """

    __slots__ = ("_probed_at", "_to_scan", "busy_since")

    def __init__(self) -> None:
        self.busy_since: dict[PodTracker, float] = {}
        self._probed_at: dict[PodTracker, float] = {}
        self._to_scan: list[PodTracker] = []

    def scan(self, now: float) -> list[PodTracker]:
        """Return the silent pods to probe now; due every second."""
        if not self._to_scan:
            self._to_scan = list(self.busy_since)
        turn = self._to_scan[-MAX_PODS:]
        del self._to_scan[-MAX_PODS:]
        return [pod for pod in turn if self._is_due(pod, now)]

    def silent_for(self, pod: PodTracker, now: float) -> float | None:
        """Return for how many seconds a pod with requests has begun no response.

        Returns:
            None below ``SILENT_AFTER``, and while the pod has no request. Bytes of a response
            that has begun do not count.
        """
        if not pod.in_flight:
            return None
        silent = now - max(self.busy_since[pod], pod.last_response_at)
        return silent if silent >= SILENT_AFTER else None

    def _is_due(self, pod: PodTracker, now: float) -> bool:
        if not pod.in_flight:
            self.busy_since.pop(pod, None)
            self._probed_at.pop(pod, None)
            return False
        silent = self.silent_for(pod, now)
        if silent is None or not _failure_matters(pod):
            return False
        probed_after = self._probed_at.get(pod, -inf) - (now - silent)
        if probed_after > 0:
            wait = min(max(probed_after, AGAIN_AFTER), AGAIN_AFTER_MAX)
            if silent < probed_after + wait:
                return False
        self._probed_at[pod] = now
        return True


def _failure_matters(pod: PodTracker) -> bool:
    """Return whether a failed probe would keep requests from a pod."""
    return pod.in_use and not pod.is_service and pod.wants_probe
