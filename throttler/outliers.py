"""Pods whose answers speak against them: who is out for it, for how long, and when nobody is.

Evidence of requests, where throttler.health has that of connects and probes. queue-proxy vouches
for a pod whose application is gone, where the readiness probe is none that it can ask; what it
answers to requests shows it. Knows no request and no clock. Knative has no counterpart; elsewhere
this is outlier detection with a panic threshold (Envoy).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Final

from throttler.changes import Changes
from throttler.health import PodState
from throttler.pod import PodTracker

_HEALTHY: Final = PodState.HEALTHY
#: Answers of the application's own (502, 503, or broken off in their head) in a row, from one pod,
#: that make it suspect. Envoy's default; an application that answers one now and then stays.
STRIKES: Final = 5
#: Seconds that a suspect is left alone, doubling with each relapse up to the most. Its probe may
#: pass at once and prove nothing: queue-proxy answers 200 while its application restarts. A
#: container is back in seconds as a rule, so a pod that stays ill costs a request in 5 s.
HOLD: Final = 0.1
HOLD_MAX: Final = 5.0
#: Seconds of good answers after which earlier relapses count no longer.
FORGET_AFTER: Final = 10.0
#: Share of a revision's pods above which answers take none out: then it is the application, or
#: what it depends on, that fails, and no pod is better than another. Envoy: by default half, too.
PANIC: Final = 0.5
#: Seconds between two tries of the whole revision where too few would be left: requests wait for
#: the first pod whose application is back, and 50 tries a second cost nothing to speak of.
PAUSE: Final = 0.02


def hold_down(relapses: int) -> float:
    """Return for how many seconds a pod is left alone.

    Arguments:
        relapses: how often it was suspect before, since it last served well for FORGET_AFTER.
    """
    return min(HOLD * 2.0 ** min(relapses, 10), HOLD_MAX)


class Outliers:
    """The suspects among one revision's pods. Most revisions have none at any time.

    Attributes:
        panics: whether the application's answers take nobody out, since too few would be left.
    """

    __slots__ = ("_suspects", "_usable", "panics")

    def __init__(self) -> None:
        self._suspects: set[PodTracker] = set()
        self._usable: Sequence[PodTracker] = ()
        self.panics = False

    def __contains__(self, pod: PodTracker) -> bool:
        """Whether a pod's answers speak against it."""
        return pod in self._suspects

    def review(self, usable: Sequence[PodTracker], changes: Changes, now: float) -> None:
        """Take which pods may be used, and let suspects back sooner where those are too few."""
        self._usable = usable
        self._weigh(changes, now)

    def condemns(self, pod: PodTracker, untouched: bool, changes: Changes, now: float) -> bool:
        """Take a bad answer of a pod that is in use; return whether the pod is out for it.

        Arguments:
            untouched: it is queue-proxy's own: the application has seen nothing of the request.
        """
        pod.strikes += 1
        known = self.panics and pod in self._suspects
        if not untouched and (known or pod.strikes % STRIKES):
            return False
        self._suspects.add(pod)
        self._weigh(changes, now)
        if self.panics and not untouched:
            return False
        pod.on_trial = untouched
        pod.held_until = now + (self._pause() if self.panics else self._hold(pod, now))
        return True

    def absolve(self, pod: PodTracker, now: float) -> bool:
        """Take a good answer of a pod that is in use; return whether it was suspect."""
        pod.strikes = 0
        if pod not in self._suspects:
            return False
        self._suspects.remove(pod)
        pod.well_since = now
        return True

    def forget(self, pod: PodTracker) -> None:
        """Drop what its answers said: something else keeps it from being used, and decides."""
        pod.on_trial = False
        pod.strikes = pod.relapses = 0
        pod.held_until = pod.well_since = -inf
        if pod.complained:
            pod.complained = False
            pod.last_error = ""
            pod.failures = 0
        if pod in self._suspects:
            self._suspects.remove(pod)
            self.panics = self.panics and self._too_few()

    def _hold(self, pod: PodTracker, now: float) -> float:
        if now - pod.well_since > FORGET_AFTER:
            pod.relapses = 0
        pod.well_since = inf
        pod.relapses += 1
        return hold_down(pod.relapses - 1)

    def _pause(self) -> float:
        return min(PAUSE * len(self._suspects), HOLD_MAX)

    def _too_few(self) -> bool:
        suspects = self._suspects
        if not suspects:
            return False
        others = sum(p.state is _HEALTHY and p not in suspects for p in self._usable)
        return len(suspects) > PANIC * (len(suspects) + others)

    def _weigh(self, changes: Changes, now: float) -> None:
        """Find out whether too few are left; when that begins, cut all holds short."""
        begins = not self.panics
        self.panics = self._too_few()
        if not (begins and self.panics):
            return
        until = now + self._pause()
        for pod in self._suspects:
            if pod.held_until > until:
                pod.held_until = until
                changes.probe.append(pod)
