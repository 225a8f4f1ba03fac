"""The backends of a revision: its pods, and its Service where they cannot be reached.

Takes what Kubernetes lists, what probes met and how pods are reached, and says what may be used.
Knows no request and no queue; no clock either (``now`` is an argument). Knative's counterpart:
revisionWatcher in pkg/activator/net/revision_backends.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf
from operator import attrgetter
from typing import Final

from throttler.capacity import SLOW_START_STEP
from throttler.changes import Changes
from throttler.config import RevisionConfig
from throttler.health import PodEvent, PodState
from throttler.mesh import PROOF_LASTS, Reach, looks_like_mesh
from throttler.model import Endpoint, ListedEndpoints
from throttler.outliers import Outliers
from throttler.owners import Taken
from throttler.pod import PodTracker
from throttler.service import Service

_HEALTHY: Final = PodState.HEALTHY
#: By address; where two pods share one for a while, by uid, so that all activators agree.
by_endpoint = attrgetter("endpoint")


class Backends:
    """What is known of a revision's pods and of its Service.

    Arguments:
        config: what is in force for the revision; ``set_reach`` changes it.

    Attributes:
        pods: all that are known, by identity.
        outliers: those whose responses speak against them.
        listed: whether Kubernetes lists any; in_doubt: whether what could be used is lost for a
            moment, or half-open: nobody knows how long that takes. Both as ``choose`` found them.
        taken: those that are listed for it, while another revision has their address. For people.
        misnamed: how many are listed under the port of another protocol alone. For people.
    """

    __slots__ = (
        "_config",
        "listed",
        "misnamed",
        "outliers",
        "pods",
        "recovering",
        "service",
        "taken",
    )

    def __init__(self, config: RevisionConfig) -> None:
        self._config = config
        self.pods: dict[Endpoint, PodTracker] = {}
        self.service = Service(config)
        self.outliers = Outliers()
        self.listed = self.recovering = False
        self.taken: dict[Endpoint, PodTracker] = {}
        self.misnamed = 0

    # -- what there is --------------------------------------------------------------------------

    def choose(self, changes: Changes, now: float) -> list[PodTracker]:
        """Return what may be given requests: the usable pods by address, or the ClusterIP alone."""
        pods = sorted(filter(self._usable, self.pods.values()), key=by_endpoint)
        self.outliers.review(pods, changes, now)
        service = self.service.review(self.pods.values(), bool(pods), changes, now)
        used = pods if service is None else [service]
        self.listed = any(p.state is not PodState.DRAINING for p in self.pods.values())
        self.recovering = (
            all(p.ejection.half_open for p in used) if used else self._any_may_recover()
        )
        return used

    def _any_may_recover(self) -> bool:
        service = self.service.tracker
        return (service is not None and _may_recover(service)) or any(
            map(_may_recover, self.pods.values())
        )

    def _usable(self, pod: PodTracker) -> bool:
        suffices = pod.ready or self._config.revision.probe_suffices
        return pod.state is _HEALTHY and suffices and self._config.reach.pods

    def known_pods(self) -> Iterable[PodTracker]:
        """Return all pods that are known, and those that another revision has by now."""
        return (self.pods | self.taken).values()

    def ready(self) -> int:
        """Return how many pods Kubernetes lists as ready."""
        return sum(p.ready and p.state is not PodState.DRAINING for p in self.pods.values())

    def healthy(self) -> int:
        """Return how many pods are healthy."""
        return sum(p.state is _HEALTHY for p in self.pods.values())

    def unhealthy(self) -> list[PodTracker]:
        """Return what a waiter could have if it passed a probe.

        While the ClusterIP is in use pods are left to their own schedule: else each burst of
        requests would ask all pods behind a real mesh in vain.
        """
        pods: list[PodTracker] = []
        if self._config.reach.pods and self.service.used_since is None:
            pods += [p for p in self.pods.values() if p.state is PodState.PROBING]
        if (service := self.service.tracker) is not None and service.state is PodState.PROBING:
            pods.append(service)
        return pods

    # -- what Kubernetes says -------------------------------------------------------------------

    def set_endpoints(self, endpoints: ListedEndpoints, changes: Changes, now: float) -> None:
        """Take what Kubernetes lists now; whole, not a difference."""
        listed = dict.fromkeys(endpoints.ready, True) | dict.fromkeys(endpoints.not_ready, False)
        for endpoint, pod in list(self.pods.items()):
            if endpoint not in listed and pod.state is not PodState.DRAINING:
                pod.apply(PodEvent.DELISTED, now)
                self.outliers.clear(pod)
                if not pod.in_flight:
                    self.remove(pod, changes, now)
        for endpoint, ready in listed.items():
            self._add_listed(endpoint, ready, changes, now)

    def set_taken(self, taken: Mapping[Endpoint, Taken], changes: Changes, now: float) -> None:
        """Take which of its pods another revision has by now; before ``set_dests``."""
        for pod in self.taken.values():
            if pod.endpoint not in taken:
                pod.taken_by = None
        before, self.taken = self.taken, {}
        for endpoint, (owner, ready) in taken.items():
            pod = self.pods.get(endpoint) or before.get(endpoint) or self._untracked(endpoint, now)
            if pod.taken_by != owner:
                changes.taken.append(pod)
            pod.taken_by, pod.ready = owner, ready
            self.taken[endpoint] = pod

    def _untracked(self, endpoint: Endpoint, now: float) -> PodTracker:
        """Return a record of a pod that was another's when it was first listed."""
        pod = PodTracker(self._config, endpoint, False, now)
        pod.apply(PodEvent.DELISTED, now)
        pod.apply(PodEvent.IDLE, now)
        return pod

    def _add_listed(self, endpoint: Endpoint, ready: bool, changes: Changes, now: float) -> None:
        """Record that Kubernetes lists a pod; have it probed if that says anything new."""
        pod = self.pods.get(endpoint)
        if pod is None:
            pod = self.pods[endpoint] = PodTracker(self._config, endpoint, ready, now)
        else:
            was_ready, pod.ready = pod.ready, ready
            before = pod.epoch
            if pod.state is PodState.DRAINING:
                pod.apply(PodEvent.LISTED, now)
                pod.probe.reached_until = -inf
                pod.probe.error = ""  # what was met in its earlier life is void
                pod.ejection.active = False
            elif was_ready and not ready:
                pod.apply(PodEvent.BECAME_NOT_READY, now)
            if pod.epoch == before and (was_ready or not ready):
                return
            if ready:
                # A response from before the pod was ready is no evidence of a mesh.
                pod.probe.mesh_like = None
                if pod.proves_reach:
                    pod.probe.reached_until = inf
        self._request_probe(pod, changes, now)

    def _request_probe(self, pod: PodTracker, changes: Changes, now: float) -> None:
        """Have a pod probed; not where Kubernetes' word is enough, nor where it is out of reach."""
        if not self._skip_probe(pod, now) and pod.is_reachable:
            changes.probe.append(pod)

    def _skip_probe(self, pod: PodTracker, now: float) -> bool:
        """Take a pod for healthy without a probe, where Kubernetes' word is enough for that."""
        if not pod.is_trusted:
            return False
        if pod.state is not _HEALTHY:
            pod.apply(PodEvent.TRUSTED, now)
            pod.set_limit()
        return True

    def set_reach(self, reach: Reach, changes: Changes, now: float) -> None:
        """Take what requests may be sent to.

        Pods in use stay in use until the probe that follows says otherwise, so that a change of
        the setting is no outage by itself.
        """
        self._config.reach = reach
        for pod in self.pods.values():
            pod.probe.reached_until = -inf  # its proof is from before the change
            if pod.state is PodState.DRAINING:
                continue
            if reach.pods:
                self._request_probe(pod, changes, now)
            else:
                pod.apply(PodEvent.BYPASSED, now)
                self.outliers.clear(pod)

    def remove(self, pod: PodTracker, changes: Changes, now: float) -> None:
        """Let go of a pod that is not listed any more and has no request left."""
        pod.apply(PodEvent.IDLE, now)
        pod.free_pods = None
        if not pod.is_service:
            del self.pods[pod.endpoint]
        changes.gone.append(pod)

    # -- what was met; each returns whether anything else may be used than before ----------------

    def probe_passed(self, pod: PodTracker, epoch: int, now: float) -> bool:
        """Record a passed probe. Ignore one that began in an earlier epoch."""
        if epoch != pod.epoch or pod.state is PodState.GONE or not pod.is_reachable:
            return False
        if now < pod.ejection.until:
            return False
        was_healthy = pod.state is _HEALTHY
        pod.apply(PodEvent.PROBE_PASSED, now)
        pod.ejection.active = False
        probe = pod.probe
        probe.mesh_like = False
        probe.reached_until = inf
        probe.error = ""
        probe.status = 200
        probe.failures = 0
        probe.at = now
        if was_healthy or pod.state is not _HEALTHY:
            return False
        pod.set_limit()
        return True

    def probe_failed(
        self,
        pod: PodTracker,
        epoch: int,
        error: str,
        status: int | None,
        now: float,
        *,
        responded: bool,
    ) -> bool:
        """Record a failed probe. Ignore one that began in an earlier epoch.

        Arguments:
            responded: whether any byte of a response came. A server of gRPC has no status for us.
        """
        if epoch != pod.epoch or pod.state is PodState.GONE or not pod.is_reachable:
            return False
        probe = pod.probe
        probe.at, probe.status = now, status
        before, probe.mesh_like = probe.mesh_like, looks_like_mesh(status)
        lapsed = now >= probe.reached_until
        probe.reached_until = -inf if lapsed else min(probe.reached_until, now + PROOF_LASTS)
        if not pod.is_trusted:
            took_out = self._mark_unhealthy(pod, PodEvent.PROBE_FAILED, error, now)
            # The last answer that the ClusterIP waited for, or one against it?
            return took_out or self.service.depends_on(pod, before)
        # Kubernetes' word counts: no answer takes the pod out. One that refused a request is back
        # as soon as it answers anything, for then it listens again.
        _record_failure(pod, error, now)
        if not responded or pod.state is not PodState.PROBING or now < pod.ejection.until:
            return False
        return self._skip_probe(pod, now)

    def connect_failed(self, pod: PodTracker, error: str, now: float) -> bool:
        """Take that a pod refused or dropped a request before it had a byte of it."""
        return self._mark_unhealthy(pod, PodEvent.CONNECT_FAILED, error, now)

    def responded_badly(
        self, pod: PodTracker, error: str, untouched: bool, changes: Changes, now: float
    ) -> bool:
        """Take an answer that speaks against a pod; see Outliers.ejects.

        Who of several pods gave it is not known behind the ClusterIP, and a pod that is out
        already answers what it was asked before.
        """
        if pod.state is not _HEALTHY or pod.is_service:
            return False
        if self.outliers.ejects(pod, untouched, changes, now):
            pod.probe.record_failure(error, now)
            pod.ejection.active = True
            pod.apply(PodEvent.EJECTED, now)
            changes.probe.append(pod)
            return True
        return self.end_half_open(pod) or bool(changes.probe)

    def responded_well(self, pod: PodTracker, now: float) -> bool:
        """Record any other response of a pod that has consecutive errors."""
        if pod.state is not _HEALTHY:
            return False
        return self.outliers.recover(pod, now) | self.end_half_open(pod)

    def end_half_open(self, pod: PodTracker) -> bool:
        """End a pod's half-open time, if it is in it; return whether it was."""
        was, pod.ejection.half_open = pod.ejection.half_open, False
        if was:
            pod.set_limit()
        return was

    def raise_limit(self, pod: PodTracker, now: float) -> None:
        """Let a pod that is at its limit have more, if its limit is a slow start's."""
        if pod.ejection.half_open:
            # queue-proxy says within 2 ms that its application is not there. One that is silent
            # for longer has the request.
            if now - (pod.probe.at or 0.0) >= SLOW_START_STEP:
                self.end_half_open(pod)
        elif not self._config.revision.container_concurrency:
            pod.raise_limit()

    def _mark_unhealthy(self, pod: PodTracker, event: PodEvent, error: str, now: float) -> bool:
        if pod.state is PodState.GONE:
            return False
        _record_failure(pod, error, now)
        was_healthy = pod.state is _HEALTHY
        pod.apply(event, now)
        self.outliers.clear(pod)
        return was_healthy


def _may_recover(pod: PodTracker) -> bool:
    return pod.was_used and pod.state is PodState.PROBING


def _record_failure(pod: PodTracker, error: str, now: float) -> None:
    pod.probe.record_failure(error, now)
    pod.ejection.active = False
