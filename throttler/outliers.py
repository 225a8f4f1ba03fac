"""Pods that fail requests, or begin no response: which are ejected, and which are probed."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Final

from throttler.pod import PodState, PodTracker
from throttler.ticket import Changes

# Outlier ejection: which pods their responses eject, for how long, and when none is ejected.
#
# Uses responses to requests; throttler.health covers connections and probes. These responses can
# show a failure that probes miss. If queue-proxy cannot run the readiness probe itself, it passes
# a probe although its application is gone. Knows no requests and no clock. Knative has no
# counterpart; Envoy's outlier detection with a panic threshold is similar.

_HEALTHY: Final = PodState.HEALTHY
#: Consecutive errors of one pod that eject it: 502, 503, or an incomplete response head. Envoy's
#: default. An application with occasional errors stays usable.
CONSECUTIVE_ERRORS: Final = 5
#: Seconds of an ejection, doubling with each further one up to the maximum. A probe of the pod may
#: pass at once and prove nothing: queue-proxy responds 200 while its application restarts. A
#: container usually restarts within seconds, so a pod that stays broken costs one request in 5 s.
EJECTION_TIME: Final = 0.1
EJECTION_TIME_MAX: Final = 5.0
#: Seconds of good responses after which earlier ejections do not count any more.
RECOVERED_AFTER: Final = 10.0
#: Share of outliers among a revision's pods above which responses eject none. Then the application
#: itself fails, or a service that it depends on, and no pod is better. Envoy's default: half.
PANIC_THRESHOLD: Final = 0.5
#: Seconds between two requests to ejected pods of the whole revision in panic. Queued requests wait
#: for the first pod that recovers, and 50 tries a second cost little.
PANIC_PAUSE: Final = 0.02


def ejection_time(count: int) -> float:
    """Return the seconds of a pod's next ejection.

    Arguments:
        count: recent ejections; RECOVERED_AFTER seconds of good responses reset it.
    """
    return min(EJECTION_TIME * 2.0 ** min(count, 10), EJECTION_TIME_MAX)


class Outliers:
    """The outliers among one revision's pods; usually none.

    Attributes:
        panics: whether the application's responses eject no pod, since too few others are usable.
    """

    __slots__ = ("_outliers", "_usable", "panics")

    def __init__(self) -> None:
        self._outliers: set[PodTracker] = set()
        self._usable: Sequence[PodTracker] = ()
        self.panics = False

    def __contains__(self, pod: PodTracker) -> bool:
        """Return whether a pod is an outlier."""
        return pod in self._outliers

    def review(self, usable: Sequence[PodTracker], changes: Changes, now: float) -> None:
        """Set the usable pods, and shorten ejections if too few are left.

        Arguments:
            usable: the usable pods; O(pods) while there are outliers, else O(1).
        """
        self._usable = usable
        self._weigh(changes, now)

    def ejects(self, pod: PodTracker, untouched: bool, changes: Changes, now: float) -> bool:
        """Record an error response of a usable pod; return whether the pod is ejected for it.

        Arguments:
            untouched: whether queue-proxy itself responded, so that its application got nothing of
                the request.
        """
        ejection = pod.ejection
        ejection.consecutive_errors += 1
        known = self.panics and pod in self._outliers
        if not untouched and (known or ejection.consecutive_errors % CONSECUTIVE_ERRORS):
            return False
        self._outliers.add(pod)
        self._weigh(changes, now)
        if self.panics and not untouched:
            return False
        ejection.half_open = untouched
        ejection.until = now + (self._pause() if self.panics else self._time_for(pod, now))
        return True

    def recover(self, pod: PodTracker, now: float) -> bool:
        """Record a good response of a usable pod; return whether the pod was an outlier."""
        pod.ejection.consecutive_errors = 0
        if pod not in self._outliers:
            return False
        self._outliers.remove(pod)
        pod.ejection.recovered_at = now
        return True

    def clear(self, pod: PodTracker) -> None:
        """Discard the record of a pod that another rule keeps from use."""
        ejection = pod.ejection
        ejection.half_open = False
        ejection.consecutive_errors = ejection.count = 0
        ejection.until = ejection.recovered_at = -inf
        if ejection.active:
            ejection.active = False
            pod.probe.error = ""
            pod.probe.failures = 0
        if pod in self._outliers:
            self._outliers.remove(pod)
            self.panics = self.panics and self._too_few()

    def _time_for(self, pod: PodTracker, now: float) -> float:
        ejection = pod.ejection
        if now - ejection.recovered_at > RECOVERED_AFTER:
            ejection.count = 0
        ejection.recovered_at = inf
        ejection.count += 1
        return ejection_time(ejection.count - 1)

    def _pause(self) -> float:
        return min(PANIC_PAUSE * len(self._outliers), EJECTION_TIME_MAX)

    def _too_few(self) -> bool:
        outliers = self._outliers
        if not outliers:
            return False
        others = sum(p.state is _HEALTHY and p not in outliers for p in self._usable)
        return len(outliers) > PANIC_THRESHOLD * (len(outliers) + others)

    def _weigh(self, changes: Changes, now: float) -> None:
        """Update ``panics``; when a panic begins, shorten all ejections."""
        begins = not self.panics
        self.panics = self._too_few()
        if not (begins and self.panics):
            return
        until = now + self._pause()
        for pod in self._outliers:
            if pod.ejection.until > until:
                pod.ejection.until = until
                changes.probe.append(pod)


# Pods that have requests and begin no response: when to probe them.
#
# The connections of a pod that hangs stay open, so its requests do not fail: only its silence
# shows that it hangs. Scans the pods that have requests once a second. Other pods cost nothing,
# and a request costs almost nothing. Knows no clock. Knative has no counterpart: there, a pod
# that hangs gets requests until Kubernetes lists it as not ready.

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
