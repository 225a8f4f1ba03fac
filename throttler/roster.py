"""All that may carry a revision's requests: its pods, and its Service where they cannot be reached.

Takes what Kubernetes lists, what probes met and how pods are reached, and says what may be used.
Knows no request and no queue; no clock either (``now`` is an argument). Knative's counterpart:
revisionWatcher in pkg/activator/net/revision_backends.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from throttler.changes import Changes
from throttler.health import PodEvent, PodState
from throttler.mesh import PROOF_LASTS, Reach, looks_like_mesh
from throttler.model import Dest, Dests
from throttler.outliers import Outliers
from throttler.owners import Taken
from throttler.pod import PodTracker
from throttler.service import Service

if TYPE_CHECKING:  # a roster knows its revision and a revision its roster
    from throttler.revision import RevisionThrottler

_HEALTHY: Final = PodState.HEALTHY
#: By address; where two pods share one for a while, by uid, so that all activators agree.
by_dest = attrgetter("dest")


class Roster:
    """What is known of a revision's pods and of its Service.

    Arguments:
        reach: what requests may be sent to.

    Attributes:
        pods: all that are known, by identity.
        outliers: those whose answers speak against them.
        listed: whether Kubernetes lists any; in_doubt: whether what could be used is lost for a
            moment, or on trial: nobody knows how long that takes. Both as ``choose`` found them.
        taken: those that are listed for it, while another revision has their address. For people.
        misnamed: how many are listed under the port of another protocol alone. For people.
    """

    __slots__ = (
        "_revision",
        "in_doubt",
        "listed",
        "misnamed",
        "outliers",
        "pods",
        "reach",
        "service",
        "taken",
    )

    def __init__(self, revision: RevisionThrottler, reach: Reach) -> None:
        self._revision = revision
        self.reach = reach
        self.pods: dict[Dest, PodTracker] = {}
        self.service = Service(revision)
        self.outliers = Outliers()
        self.listed = self.in_doubt = False
        self.taken: dict[Dest, PodTracker] = {}
        self.misnamed = 0

    # -- what there is --------------------------------------------------------------------------

    def choose(self, changes: Changes, now: float) -> list[PodTracker]:
        """Return what may be given requests: the usable pods by address, or the ClusterIP alone."""
        pods = sorted(filter(self._usable, self.pods.values()), key=by_dest)
        self.outliers.review(pods, changes, now)
        service = self.service.review(self.reach, self.pods.values(), bool(pods), changes, now)
        used = pods if service is None else [service]
        self.listed = any(p.state is not PodState.DRAINING for p in self.pods.values())
        self.in_doubt = all(p.on_trial for p in used) if used else self._has_lost_any()
        return used

    def _has_lost_any(self) -> bool:
        service = self.service.tracker
        return (service is not None and _is_lost(service)) or any(map(_is_lost, self.pods.values()))

    def _usable(self, pod: PodTracker) -> bool:
        suffices = pod.ready or self._revision.revision.probe_suffices
        return pod.state is _HEALTHY and suffices and self.reach.pods

    def seen(self) -> Iterable[PodTracker]:
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
        if self.reach.pods and self.service.used_since is None:
            pods += [p for p in self.pods.values() if p.state is PodState.PROBING]
        if (service := self.service.tracker) is not None and service.state is PodState.PROBING:
            pods.append(service)
        return pods

    def wants_probe(self, pod: PodTracker) -> bool:
        """Return whether a pod is to be probed again when its time comes."""
        if pod.state is _HEALTHY and self._trusts(pod):
            return False
        return pod.state in (PodState.PROBING, _HEALTHY) and self._in_question(pod)

    def _in_question(self, pod: PodTracker) -> bool:
        """Return whether an answer to a probe is of any use: not where pods are out of reach."""
        return self.reach.pods or pod.is_service

    # -- what Kubernetes says -------------------------------------------------------------------

    def set_dests(self, dests: Dests, changes: Changes, now: float) -> None:
        """Take what Kubernetes lists now; whole, not a difference."""
        listed = dict.fromkeys(dests.ready, True) | dict.fromkeys(dests.not_ready, False)
        for dest, pod in list(self.pods.items()):
            if dest not in listed and pod.state is not PodState.DRAINING:
                pod.apply(PodEvent.DELISTED, now)
                self.outliers.forget(pod)
                if not pod.in_flight:
                    self.bury(pod, changes, now)
        for dest, ready in listed.items():
            self._list(dest, ready, changes, now)

    def set_taken(self, taken: Mapping[Dest, Taken], changes: Changes, now: float) -> None:
        """Take which of its pods another revision has by now; before ``set_dests``."""
        for pod in self.taken.values():
            if pod.dest not in taken:
                pod.taken_by = None
        before, self.taken = self.taken, {}
        for dest, (owner, ready) in taken.items():
            pod = self.pods.get(dest) or before.get(dest) or self._never_had(dest, now)
            if pod.taken_by != owner:
                changes.taken.append(pod)
            pod.taken_by, pod.ready = owner, ready
            self.taken[dest] = pod

    def _never_had(self, dest: Dest, now: float) -> PodTracker:
        """Return a record of a pod that was another's when it was first listed."""
        limit = self._revision.revision.container_concurrency
        pod = PodTracker(self._revision, dest, False, limit, now)
        pod.apply(PodEvent.DELISTED, now)
        pod.apply(PodEvent.IDLE, now)
        return pod

    def _list(self, dest: Dest, ready: bool, changes: Changes, now: float) -> None:
        """Record that Kubernetes lists a pod; have it probed if that says anything new."""
        pod = self.pods.get(dest)
        if pod is None:
            limit = self._revision.revision.container_concurrency
            pod = self.pods[dest] = PodTracker(self._revision, dest, ready, limit, now)
        else:
            was_ready, pod.ready = pod.ready, ready
            before = pod.epoch
            if pod.state is PodState.DRAINING:
                pod.apply(PodEvent.LISTED, now)
                pod.reached_until = -inf
                pod.last_error = ""  # what was met in its earlier life is void
                pod.complained = False
            elif was_ready and not ready:
                pod.apply(PodEvent.BECAME_NOT_READY, now)
            if pod.epoch == before and (was_ready or not ready):
                return
            if ready:
                pod.mesh_like = (
                    None  # a response from before the pod was ready is no evidence of a mesh
                )
                if pod.proves_reach:
                    pod.reached_until = inf
        self._question(pod, changes, now)

    def _question(self, pod: PodTracker, changes: Changes, now: float) -> None:
        """Have a pod probed; not where Kubernetes' word is enough, nor where it is out of reach."""
        if not self._trust(pod, now) and self._in_question(pod):
            changes.probe.append(pod)

    def _trust(self, pod: PodTracker, now: float) -> bool:
        """Take a pod for healthy without a probe, where Kubernetes' word is enough for that."""
        if not self._trusts(pod):
            return False
        if pod.state is not _HEALTHY:
            pod.apply(PodEvent.TRUSTED, now)
            pod.set_limit(self._revision.revision.container_concurrency)
        return True

    def _trusts(self, pod: PodTracker) -> bool:
        return self.reach.trusted and pod.ready and not pod.is_service

    def set_reach(self, reach: Reach, changes: Changes, now: float) -> None:
        """Take what requests may be sent to.

        Pods in use stay in use until the probe that follows says otherwise, so that a change of
        the setting is no outage by itself.
        """
        self.reach = reach
        for pod in self.pods.values():
            pod.reached_until = -inf  # its proof is from before the change
            if pod.state is PodState.DRAINING:
                continue
            if reach.pods:
                self._question(pod, changes, now)
            else:
                pod.apply(PodEvent.DOUBTED, now)
                self.outliers.forget(pod)

    def bury(self, pod: PodTracker, changes: Changes, now: float) -> None:
        """Let go of a pod that is not listed any more and has no request left."""
        pod.apply(PodEvent.IDLE, now)
        pod.room = None
        if not pod.is_service:
            del self.pods[pod.dest]
        changes.gone.append(pod)

    # -- what was met; each returns whether anything else may be used than before ----------------

    def passed(self, pod: PodTracker, epoch: int, now: float) -> bool:
        """Record a passed probe. Ignore one that began in an earlier epoch."""
        if epoch != pod.epoch or pod.state is PodState.GONE or not self._in_question(pod):
            return False
        if now < pod.held_until:
            return False
        was_healthy = pod.state is _HEALTHY
        pod.apply(PodEvent.PROBE_PASSED, now)
        pod.mesh_like = False
        pod.reached_until = inf
        pod.last_error = ""
        pod.complained = False
        pod.last_status = 200
        pod.failures = 0
        pod.last_probe_at = now
        if was_healthy or pod.state is not _HEALTHY:
            return False
        pod.set_limit(self._revision.revision.container_concurrency)
        return True

    def failed(
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
        if epoch != pod.epoch or pod.state is PodState.GONE or not self._in_question(pod):
            return False
        pod.last_probe_at, pod.last_status = now, status
        before, pod.mesh_like = pod.mesh_like, looks_like_mesh(status)
        lapsed = now >= pod.reached_until
        pod.reached_until = -inf if lapsed else min(pod.reached_until, now + PROOF_LASTS)
        if not self._trusts(pod):
            took_out = self._lose(pod, PodEvent.PROBE_FAILED, error, now)
            # The last answer that the ClusterIP waited for, or one against it?
            return took_out or self.service.hangs_on(pod, before)
        # Kubernetes' word counts: no answer takes the pod out. One that refused a request is back
        # as soon as it answers anything, for then it listens again.
        _note_failure(pod, error, now)
        if not responded or pod.state is not PodState.PROBING or now < pod.held_until:
            return False
        return self._trust(pod, now)

    def unreachable(self, pod: PodTracker, error: str, now: float) -> bool:
        """Take that a pod refused or dropped a request before it had a byte of it."""
        return self._lose(pod, PodEvent.CONNECT_FAILED, error, now)

    def answered_badly(
        self, pod: PodTracker, error: str, untouched: bool, changes: Changes, now: float
    ) -> bool:
        """Take an answer that speaks against a pod; see Outliers.condemns.

        Who of several pods gave it is not known behind the ClusterIP, and a pod that is out
        already answers what it was asked before.
        """
        if pod.state is not _HEALTHY or pod.is_service:
            return False
        if self.outliers.condemns(pod, untouched, changes, now):
            _note_failure(pod, error, now)
            pod.complained = True
            pod.apply(PodEvent.SUSPECTED, now)
            changes.probe.append(pod)
            return True
        return self.end_trial(pod) or bool(changes.probe)

    def answered_well(self, pod: PodTracker, now: float) -> bool:
        """Take any other answer of a pod that has strikes."""
        if pod.state is not _HEALTHY:
            return False
        return self.outliers.absolve(pod, now) | self.end_trial(pod)

    def end_trial(self, pod: PodTracker) -> bool:
        """Let a pod have what it may have; return whether that is more than before."""
        was, pod.on_trial = pod.on_trial, False
        if was:
            pod.set_limit(self._revision.revision.container_concurrency)
        return was

    def _lose(self, pod: PodTracker, event: PodEvent, error: str, now: float) -> bool:
        if pod.state is PodState.GONE:
            return False
        _note_failure(pod, error, now)
        was_healthy = pod.state is _HEALTHY
        pod.apply(event, now)
        self.outliers.forget(pod)
        return was_healthy


def _is_lost(pod: PodTracker) -> bool:
    return pod.was_used and pod.state is PodState.PROBING


def _note_failure(pod: PodTracker, error: str, now: float) -> None:
    if not pod.failures:
        pod.failing_since = now
    pod.failures += 1
    pod.last_error = error
    pod.complained = False
