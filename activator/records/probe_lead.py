"""How far our own probe was ahead of Kubernetes: the seconds for which a pod took requests early.

A pod that passes our probe is used although Kubernetes does not list it as ready yet; the lead
ends when it does. Pure: the time is passed in. Knows no request and no wake-up. Knative has no
counterpart: there it is not measured.
"""

from __future__ import annotations

from activator.records.counters import WAIT_BOUNDS, Histogram
from throttler.health import PodState
from throttler.model import RevisionID
from throttler.pod import PodTracker


class ProbeLead:
    """The leads of all pods.

    The caller tells of each pod that is gone: what is kept is of pods that exist.

    Attributes:
        seconds: the leads that have ended.
    """

    __slots__ = ("_since", "seconds")

    def __init__(self) -> None:
        self.seconds = Histogram(WAIT_BOUNDS)
        # Pods that are used although Kubernetes does not list them as ready, and since when.
        self._since: dict[RevisionID, dict[PodTracker, float]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._since.values()))

    def passed(self, pod: PodTracker, now: float) -> None:
        """Take that a pod has become healthy; one that is of no use yet has no lead."""
        if pod.in_use and not pod.ready and not pod.is_service:
            self._since.setdefault(pod.revision.revision.id, {})[pod] = now

    def listed(self, revision: RevisionID, now: float) -> list[tuple[PodTracker, float]]:
        """Take that Kubernetes lists something else for a revision; O(pods with a lead).

        Returns:
            The pods whose lead has ended, and the seconds of it. A pod that failed in between had
            none: Kubernetes was right to wait.
        """
        ended: list[tuple[PodTracker, float]] = []
        for pod, since in list(self._since.get(revision, {}).items()):
            if pod.ready:
                self.forget(pod)
                if pod.state is PodState.HEALTHY:
                    self.seconds.observe(now - since)
                    ended.append((pod, now - since))
        return ended

    def forget(self, pod: PodTracker) -> None:
        """Take that a pod is gone, or has no lead any more."""
        revision = pod.revision.revision.id
        pods = self._since.get(revision)
        if pods is not None and pods.pop(pod, None) is not None and not pods:
            del self._since[revision]
