"""Outlier ejection: which pods their responses eject, for how long, and when none is ejected.

Evidence of requests, where throttler.health has that of connects and probes. queue-proxy vouches
for a pod whose application is gone, where the readiness probe is none that it can ask; its
responses to requests show it. Knows no request and no clock. Knative has no counterpart; Envoy's
outlier detection with a panic threshold is alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Final

from throttler.changes import Changes
from throttler.health import PodState
from throttler.pod import PodTracker

_HEALTHY: Final = PodState.HEALTHY
#: Consecutive errors of one pod (502, 503, or a head broken off by the application) that eject it.
#: Envoy's default; an application that responds so now and then stays.
CONSECUTIVE_ERRORS: Final = 5
#: Seconds of an ejection, doubling with each further one up to the most. A probe of the pod may
#: pass at once and prove nothing: queue-proxy responds 200 while its application restarts. A
#: container is back in seconds as a rule, so a pod that stays ill costs a request in 5 s.
EJECTION_TIME: Final = 0.1
EJECTION_TIME_MAX: Final = 5.0
#: Seconds of good responses after which earlier ejections count no longer.
RECOVERED_AFTER: Final = 10.0
#: Share of a revision's pods above which responses eject none: then it is the application, or
#: what it depends on, that fails, and no pod is better than another. Envoy: by default half, too.
PANIC_THRESHOLD: Final = 0.5
#: Seconds between two tries of the whole revision in panic: requests wait for the first pod whose
#: application is back, and 50 tries a second cost little.
PANIC_PAUSE: Final = 0.02


def ejection_time(count: int) -> float:
    """Return for how many seconds a pod is ejected.

    Arguments:
        count: how often it was ejected before, since it last served well for RECOVERED_AFTER.
    """
    return min(EJECTION_TIME * 2.0 ** min(count, 10), EJECTION_TIME_MAX)


class Outliers:
    """The outliers among one revision's pods. Most revisions have none at any time.

    Attributes:
        panics: whether the application's responses eject no pod, since too few would be left.
    """

    __slots__ = ("_outliers", "_usable", "panics")

    def __init__(self) -> None:
        self._outliers: set[PodTracker] = set()
        self._usable: Sequence[PodTracker] = ()
        self.panics = False

    def __contains__(self, pod: PodTracker) -> bool:
        """Whether a pod's responses speak against it."""
        return pod in self._outliers

    def review(self, usable: Sequence[PodTracker], changes: Changes, now: float) -> None:
        """Take which pods may be used, and end ejections sooner where those are too few."""
        self._usable = usable
        self._weigh(changes, now)

    def ejects(self, pod: PodTracker, untouched: bool, changes: Changes, now: float) -> bool:
        """Record a bad response of a pod that is in use; return whether the pod is ejected for it.

        Arguments:
            untouched: it is queue-proxy's own: the application has seen nothing of the request.
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
        """Record a good response of a pod that is in use; return whether it was an outlier."""
        pod.ejection.consecutive_errors = 0
        if pod not in self._outliers:
            return False
        self._outliers.remove(pod)
        pod.ejection.recovered_at = now
        return True

    def clear(self, pod: PodTracker) -> None:
        """Drop what a pod's responses said: something else keeps it from use, and decides."""
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
        """Find out whether too few are left; when that begins, cut all ejections short."""
        begins = not self.panics
        self.panics = self._too_few()
        if not (begins and self.panics):
            return
        until = now + self._pause()
        for pod in self._outliers:
            if pod.ejection.until > until:
                pod.ejection.until = until
                changes.probe.append(pod)
