"""Measures by how many seconds the activator's own probes are ahead of Kubernetes.

A pod that passes such a probe is usable before Kubernetes lists it as ready. The lead ends when
Kubernetes does. The module is pure: the time is an argument. It knows no request and no cold start.
Knative does not measure this.
"""

from __future__ import annotations

from activator.records.counters import WAIT_BOUNDS, Histogram
from throttler.model import RevisionID
from throttler.pod import PodState, PodTracker


class ProbeLead:
    """The leads of all pods.

    The caller removes each pod that is gone, so only existing pods take memory.

    Attributes:
        seconds: the leads that have ended.
    """

    __slots__ = ("_since", "seconds")

    def __init__(self) -> None:
        self.seconds = Histogram(WAIT_BOUNDS)
        # Usable pods that Kubernetes does not list as ready, and since when they are usable.
        self._since: dict[RevisionID, dict[PodTracker, float]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._since.values()))

    def passed(self, pod: PodTracker, now: float) -> None:
        """Record that a pod has become healthy; a pod that is not usable has no lead."""
        if pod.in_use and not pod.ready and not pod.is_service:
            self._since.setdefault(pod.config.revision.id, {})[pod] = now

    def listed(self, revision: RevisionID, now: float) -> list[tuple[PodTracker, float]]:
        """Record a new list of Kubernetes for a revision; O(pods with a lead).

        Returns:
            The pods whose lead has ended, with its seconds. A pod that failed meanwhile has no
            lead: Kubernetes was right to wait.
        """
        ended: list[tuple[PodTracker, float]] = []
        for pod, since in list(self._since.get(revision, {}).items()):
            if pod.ready:
                self.remove(pod)
                if pod.state is PodState.HEALTHY:
                    self.seconds.observe(now - since)
                    ended.append((pod, now - since))
        return ended

    def remove(self, pod: PodTracker) -> None:
        """Remove a pod that is gone, or whose lead has ended."""
        revision = pod.config.revision.id
        pods = self._since.get(revision)
        if pods is not None and pods.pop(pod, None) is not None and not pods:
            del self._since[revision]
