"""The ClusterIP of a revision's Service: when it is probed, and when requests go there.

A mesh, or kube-proxy, chooses the pod behind it. It has a tracker like a pod's, with the same
states and its own probe, while no pod is reachable. Each change of the pods repeats the decision,
so requests return to pods as soon as one is reachable. Knows no queue. Knative's counterpart:
clusterIPHealthy and podsAddressable in pkg/activator/net/revision_backends.go, which never return
to pods.
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

#: The uid of its endpoint, so that a pod at the same address is another endpoint.
UID: Final = "ClusterIP"


class Service:
    """The ClusterIP of one revision as a backend.

    Attributes:
        address: ``ip:port``; empty without a ClusterIP.
        tracker: its record while the ClusterIP is needed; no requests go there before it passes a
            probe.
        used_since: when requests began to go there, seconds on the caller's clock; None if they do
            not.
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
        """Decide again whether the ClusterIP is needed; begin or end its use in ``changes``.

        Arguments:
            pods: all known pods; usable: whether any of them may get requests.

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
                # While they were not needed, their probes were rare: the next one may be far away.
                changes.probe += [pod for pod in pods if pod.state is PodState.PROBING]
        return tracker if healthy else None

    def depends_on(self, pod: PodTracker, before: bool | None) -> bool:
        """Return whether a pod's last probe can begin or end the use of the ClusterIP.

        Arguments:
            before: the pod's ``probe.mesh_like`` before that probe.
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
        ready count. Before the first probe, all pods that are listed as ready must have responded;
        a new pod without a response does not end the use. A pod whose container restarts also
        responds 503. So the use does not begin while a pod proves that pods are reachable.
        """
        listed = [pod for pod in pods if pod.state is not PodState.DRAINING]
        ready = [pod for pod in listed if pod.ready]
        if not ready:  # the ClusterIP has no backend
            return False
        if not reach.pods:
            return True
        if any(pod.probe.mesh_like is False for pod in listed):
            return False
        if self.tracker is not None:
            return True
        # Pods respond in about this order. So that not every response causes a scan of a thousand
        # pods, this awaits one pod: the last with a proof, or else the last without a response.
        proofs = (pod for pod in reversed(listed) if pod.proves_reach)
        missing = (pod for pod in reversed(ready) if not pod.probe.mesh_like)
        self._awaited = next(proofs, None) or next(missing, None)
        return self._awaited is None

    def _end_use(self, tracker: PodTracker, changes: Changes, now: float) -> None:
        """Send no new requests there; its requests in flight finish."""
        self.tracker = None
        tracker.apply(PodEvent.DELISTED, now)
        if not tracker.in_flight:
            tracker.apply(PodEvent.IDLE, now)
            changes.gone.append(tracker)
