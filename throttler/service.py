"""The ClusterIP of a revision's Service: when it is asked, and when requests go there.

Behind it a mesh, or kube-proxy, chooses the pod. It is a tracker like a pod's, with the same life
and its own probe, that exists while pods cannot be reached; looked at anew whenever anything
about them changes, so nothing stays in force longer than its reason. Knows no queue. Knative's
counterpart: clusterIPHealthy and podsAddressable in pkg/activator/net/revision_backends.go, which
never go back to pods.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from throttler.changes import Changes
from throttler.config import RevisionConfig
from throttler.health import PodEvent, PodState
from throttler.mesh import Reach
from throttler.model import Endpoint
from throttler.pod import PodTracker

#: Takes the place of a pod's uid, so that a pod at the same address is not taken for it.
UID: Final = "ClusterIP"


class Service:
    """The ClusterIP of one revision as a destination.

    Attributes:
        address: ``ip:port``; empty while there is none.
        tracker: its record, while it is sought; it gets no requests before it passed a probe.
        used_since: since when requests go there; None if they do not.
    """

    __slots__ = ("_awaited", "_config", "_needed", "address", "tracker", "used_since")

    def __init__(self, config: RevisionConfig) -> None:
        self._config = config
        self._needed = True
        self._awaited: PodTracker | None = None
        self.address = ""
        self.tracker: PodTracker | None = None
        self.used_since: float | None = None

    def review(
        self, pods: Collection[PodTracker], usable: bool, changes: Changes, now: float
    ) -> PodTracker | None:
        """Look anew whether the ClusterIP is needed; begin and end its use in ``changes``.

        Arguments:
            pods: all that are known; usable: whether requests may be given to any of them.

        Returns:
            The tracker if requests go there from now on, else None.
        """
        reach = self._config.reach
        self._needed = reach.service and not (reach.pods and usable)
        self._awaited = None
        sought = self.address and self._needed and self._should_probe(reach, pods)
        old = self.tracker
        if old is not None and not (sought and old.address == self.address):
            self._end_use(old, changes, now)
        tracker = self.tracker
        if sought and tracker is None:
            endpoint = Endpoint(self.address, UID)
            tracker = PodTracker(self._config, endpoint, True, now, is_service=True)
            changes.probe.append(tracker)
            self.tracker = tracker
        healthy = tracker is not None and tracker.state is PodState.HEALTHY
        if healthy != (self.used_since is not None):
            changes.service = tracker if healthy else old
            self.used_since = now if healthy else None
            if not healthy and reach.pods:
                # Their own schedule, slow while they were not needed, may be far from coming round.
                changes.probe += [pod for pod in pods if pod.state is PodState.PROBING]
        return tracker if healthy else None

    def depends_on(self, pod: PodTracker, before: bool | None) -> bool:
        """Return whether a pod's last answer can begin or end the use of the ClusterIP.

        Arguments:
            before: its ``probe.mesh_like`` before that.
        """
        if not self._needed or not self.address:
            return False
        if self.tracker is None and pod is self._awaited:
            return pod.probe.mesh_like is True and not pod.proves_reach
        if pod.probe.mesh_like is before:
            return False
        return pod.probe.mesh_like is False if self.tracker is not None else before is False

    def _should_probe(self, reach: Reach, pods: Collection[PodTracker]) -> bool:
        """Return whether to probe the ClusterIP, and use it if it passes.

        A pod that starts responds 503, as a mesh does. So only responses after a pod's listing as
        ready count. All pods that are listed as ready must have responded before this begins; a
        new pod without a response does not end it. A pod whose container restarts also responds
        503, so this does not begin while one proves that pods can be reached.
        """
        listed = [pod for pod in pods if pod.state is not PodState.DRAINING]
        ready = [pod for pod in listed if pod.ready]
        if not ready:  # nothing is behind it
            return False
        if not reach.pods:
            return True
        if any(pod.probe.mesh_like is False for pod in listed):
            return False
        if self.tracker is not None:
            return True
        # Pods respond in about this order. So that not every response causes a scan of a thousand
        # pods, one pod is awaited: the last with a proof, or else the last without a response.
        proofs = (pod for pod in reversed(listed) if pod.proves_reach)
        missing = (pod for pod in reversed(ready) if not pod.probe.mesh_like)
        self._awaited = next(proofs, None) or next(missing, None)
        return self._awaited is None

    def _end_use(self, tracker: PodTracker, changes: Changes, now: float) -> None:
        """Send nothing there any more; requests that it has finish."""
        self.tracker = None
        tracker.apply(PodEvent.DELISTED, now)
        if not tracker.in_flight:
            tracker.apply(PodEvent.IDLE, now)
            changes.gone.append(tracker)
