"""The backends of a revision: its pods, which of them fail, and the ClusterIP of its Service.

Takes the endpoints that Kubernetes lists, the results of probes and responses, and the reach.
Decides which backends are usable. Knows no requests, no queue and no clock (``now`` is an
argument). Knative's counterpart: revisionWatcher in pkg/activator/net/revision_backends.go.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from math import inf
from operator import attrgetter
from typing import Final

from throttler.capacity import MAX_CAPACITY, SLOW_START_STEP, ActivatorShare
from throttler.model import (
    PROOF_LASTS,
    Endpoint,
    ListedEndpoints,
    ProbeSpec,
    Reach,
    ReadinessRule,
    RevisionConfig,
    Taken,
    looks_like_mesh,
)
from throttler.pod import PodEvent, PodState, PodTracker
from throttler.ticket import Changes

_HEALTHY: Final = PodState.HEALTHY

# Outlier ejection: which pods their responses eject, for how long, and when none is ejected.
#
# Uses responses to requests; throttler.pod covers connections and probes. These responses can
# show a failure that probes miss. If queue-proxy cannot run the readiness probe itself, it passes
# a probe although its application is gone. Knative has no counterpart; Envoy's outlier detection
# with a panic threshold is similar.

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


# The ClusterIP of a revision's Service: when it is probed, and when requests go there.
#
# A mesh, or kube-proxy, chooses the pod behind it. It has a tracker like a pod's, with the same
# states and its own probe, while no pod is reachable. Each change of the pods repeats the
# decision, so requests return to pods as soon as one is reachable. Knative's counterpart:
# clusterIPHealthy and podsAddressable in pkg/activator/net/revision_backends.go, which never
# return to pods.

#: The uid of its endpoint, so that a pod at the same address is another endpoint.
SERVICE_UID: Final = "ClusterIP"


class ServiceBackend:
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
            endpoint = Endpoint(self.address, SERVICE_UID)
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


# The activator that gets the requests of this one, while it has no pod of its own.
#
# With fewer pods than activators, each pod belongs to one activator, which alone counts its
# requests. So a limit per pod holds without messages between activators. The others send their
# requests to the owner, as to a pod without limit. A request goes from a later address to an
# earlier one, so it can never come back. Only for pods without queue-proxy: queue-proxy enforces
# the limit itself. Knative has no counterpart: there several activators send to one pod.

#: The uid of its endpoint. Log lines name the backend by it.
PEER_UID: Final = "activator"


class PeerBackend:
    """Another activator as the backend of a revision.

    Attributes:
        tracker: its record while this activator has no pod of its own; else None.
    """

    __slots__ = ("_config", "tracker")

    def __init__(self, config: RevisionConfig) -> None:
        self._config = config
        self.tracker: PodTracker | None = None

    def choose(
        self, pods: list[PodTracker], share: ActivatorShare, changes: Changes, now: float
    ) -> list[PodTracker]:
        """Return the backends that get requests: the pods, or only the activator that has them.

        Arguments:
            pods: the usable pods, sorted by address.
            share: the position of this activator among the activators.
        """
        address = self._owner(pods, share)
        tracker = self.tracker
        if tracker is not None and tracker.address != address:
            tracker.apply(PodEvent.DELISTED, now)
            if not tracker.in_flight:
                tracker.apply(PodEvent.IDLE, now)
                changes.gone.append(tracker)
            self.tracker = tracker = None
        if address and tracker is None:
            # An activator that its Service lists as ready listens. It speaks no TLS there, and the
            # probe of the pods is not its own.
            revision = replace(
                self._config.revision,
                container_concurrency=0,
                readiness=ReadinessRule.PROBE,
                probe=ProbeSpec(),
                tls=False,
            )
            config = RevisionConfig(revision, self._config.reach)
            tracker = self.tracker = PodTracker(
                config, Endpoint(address, PEER_UID), True, now, True
            )
            tracker.apply(PodEvent.PROBE_PASSED, now)
        if tracker is None or tracker.state is not PodState.HEALTHY:
            return pods
        tracker.limit = MAX_CAPACITY
        return [tracker]

    def _owner(self, pods: Sequence[PodTracker], share: ActivatorShare) -> str:
        """Return the address of the activator that has a pod for this one; empty for none."""
        revision = self._config.revision
        if revision.behind_queue_proxy or not revision.container_concurrency:
            return ""
        return share.addresses[share.index % len(pods)] if 0 < len(pods) <= share.index else ""


#: By address, then by uid, since two pods may share an address for a while. So all activators
#: agree.
by_endpoint = attrgetter("endpoint")


class Backends:
    """The pods of a revision, and its Service.

    Arguments:
        config: the settings in force for the revision; ``set_reach`` changes them.

    Attributes:
        pods: all known pods, by endpoint.
        service: the ClusterIP.
        outliers: the pods whose responses are errors.
        listed: whether Kubernetes lists a pod, as of the last ``choose``.
        recovering: whether usable pods are expected back soon, so that no forecast holds.
            Then all backends in use are half-open, or none is usable and one was a moment ago. As
            of the last ``choose``.
        taken: listed pods whose address moved to another revision. For people.
        misnamed: number of addresses that are listed under the port of another protocol only. For
            people.
    """

    def __init__(self, config: RevisionConfig) -> None:
        self._config = config
        self.pods: dict[Endpoint, PodTracker] = {}
        self.service = ServiceBackend(config)
        self.outliers = Outliers()
        self.listed = self.recovering = False
        self.taken: dict[Endpoint, PodTracker] = {}
        self.misnamed = 0

    # -- the pods -------------------------------------------------------------------------------

    def choose(self, changes: Changes, now: float) -> list[PodTracker]:
        """Return the backends that get requests: the usable pods by address, or only the ClusterIP.

        O(pods · log pods). Reviews outliers and the use of the ClusterIP, whose effects it adds to
        ``changes``.
        """
        pods = sorted(filter(self._usable, self.pods.values()), key=by_endpoint)
        self.outliers.review(pods, changes, now)
        service = self.service.review(self.pods.values(), bool(pods), changes, now)
        used = pods if service is None else [service]
        self.listed = any(p.state is not PodState.DRAINING for p in self.pods.values())
        if used:
            self.recovering = all(p.ejection.half_open for p in used)
        else:
            known = filter(None, (self.service.tracker, *self.pods.values()))
            self.recovering = any(p.was_used and p.state is PodState.PROBING for p in known)
        return used

    def _usable(self, pod: PodTracker) -> bool:
        suffices = pod.ready or self._config.revision.probe_suffices
        return pod.state is _HEALTHY and suffices and self._config.reach.pods

    def known_pods(self) -> Iterable[PodTracker]:
        """Return all known pods, and pods whose address moved to another revision."""
        return (self.pods | self.taken).values()

    def ready(self) -> int:
        """Return the number of pods that Kubernetes lists as ready; O(pods)."""
        return sum(p.ready and p.state is not PodState.DRAINING for p in self.pods.values())

    def healthy(self) -> int:
        """Return the number of healthy pods; O(pods)."""
        return sum(p.state is _HEALTHY for p in self.pods.values())

    def unhealthy(self) -> list[PodTracker]:
        """Return the backends that a queued request could use if they passed a probe.

        While the ClusterIP is in use, pods keep their own schedule of probes. Otherwise each burst
        of requests would probe all pods behind a mesh in vain.
        """
        pods: list[PodTracker] = []
        if self._config.reach.pods and self.service.used_since is None:
            pods += [p for p in self.pods.values() if p.state is PodState.PROBING]
        if (service := self.service.tracker) is not None and service.state is PodState.PROBING:
            pods.append(service)
        return pods

    # -- events of Kubernetes -------------------------------------------------------------------

    def set_endpoints(self, endpoints: ListedEndpoints, changes: Changes, now: float) -> None:
        """Replace the list of endpoints.

        Arguments:
            endpoints: all that Kubernetes lists, not a difference. Pods that terminate count as
                ready while there is no other pod, and else as delisted.
        """
        listed = dict.fromkeys(endpoints.ready, True) | dict.fromkeys(endpoints.not_ready, False)
        self._config.last_resort = not listed
        self._config.zones = endpoints.zones
        if not listed:
            listed = dict.fromkeys(endpoints.terminating, True)
        for endpoint, pod in list(self.pods.items()):
            if endpoint not in listed and pod.state is not PodState.DRAINING:
                pod.apply(PodEvent.DELISTED, now)
                self.outliers.clear(pod)
                if not pod.in_flight:
                    self.remove(pod, changes, now)
        for endpoint, ready in listed.items():
            known = self.pods.get(endpoint)
            # Nearly all pods of a list are as before.
            if known is None or known.ready is not ready or known.state is PodState.DRAINING:
                self._add_listed(endpoint, ready, changes, now)

    def set_taken(self, taken: Mapping[Endpoint, Taken], changes: Changes, now: float) -> None:
        """Record which pods have an address that moved to another revision.

        The caller calls ``set_endpoints`` after it.

        Arguments:
            taken: the new owner of each such endpoint.
        """
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
        """Return a record of a pod whose address belonged to another revision from the start."""
        pod = PodTracker(self._config, endpoint, False, now)
        pod.apply(PodEvent.DELISTED, now)
        pod.apply(PodEvent.IDLE, now)
        return pod

    def _add_listed(self, endpoint: Endpoint, ready: bool, changes: Changes, now: float) -> None:
        """Record a listed pod that is new, or was listed otherwise; request a probe if it may help.

        The caller passes over pods that are listed as before, which saves a call for most pods.
        """
        pod = self.pods.get(endpoint)
        if pod is None:
            pod = self.pods[endpoint] = PodTracker(self._config, endpoint, ready, now)
        else:
            pod.ready, before = ready, pod.epoch
            if pod.state is PodState.DRAINING:
                pod.apply(PodEvent.LISTED, now)
                pod.probe.reached_until = -inf
                pod.probe.error = ""  # results from before the delisting are void
                pod.ejection.active = False
            elif not ready:
                pod.apply(PodEvent.BECAME_NOT_READY, now)
            if pod.epoch == before and not ready:
                return
            if ready:
                # A response from before the pod was ready proves no mesh.
                pod.probe.mesh_like = None
                if pod.proves_reach:
                    pod.probe.reached_until = inf
        self._request_probe(pod, changes, now)

    def _request_probe(self, pod: PodTracker, changes: Changes, now: float) -> None:
        """Probe a pod, unless Kubernetes' list is enough or the pod is bypassed."""
        if not self._accept_listing(pod, now) and pod.wants_probe:
            changes.probe.append(pod)

    def _accept_listing(self, pod: PodTracker, now: float) -> bool:
        """Make a pod healthy if Kubernetes' list is enough; return whether it is."""
        if not pod.is_trusted:
            return False
        if pod.state is not _HEALTHY:
            pod.apply(PodEvent.TRUSTED, now)
            pod.set_limit()
        return True

    def set_reach(self, reach: Reach, changes: Changes, now: float) -> None:
        """Set the destinations that requests may have.

        Usable pods stay usable until the next probe fails. So a change of the setting by itself is
        no outage.
        """
        self._config.reach = reach
        for pod in self.pods.values():
            pod.probe.reached_until = -inf  # the proof is older than the change
            if pod.state is PodState.DRAINING:
                continue
            if reach.pods:
                self._request_probe(pod, changes, now)
            else:
                pod.apply(PodEvent.BYPASSED, now)
                self.outliers.clear(pod)

    def remove(self, pod: PodTracker, changes: Changes, now: float) -> None:
        """Remove a delisted pod that has no request left."""
        pod.apply(PodEvent.IDLE, now)
        pod.free_pods = None
        if not pod.is_service:
            del self.pods[pod.endpoint]
        changes.gone.append(pod)

    # -- events of probes and requests ----------------------------------------------------------

    def probe_passed(
        self, pod: PodTracker, epoch: int, now: float, status: int | None = 200
    ) -> bool:
        """Record a passed probe.

        Arguments:
            epoch: of the pod when the probe began; the result of an earlier epoch is ignored.
            status: of the response; None for a probe without an HTTP status, such as TCP.

        Returns:
            Whether the usable backends may differ now.
        """
        if epoch != pod.epoch or pod.state is PodState.GONE or not pod.is_reachable:
            return False
        if now < pod.ejection.until:
            return False
        was_healthy = pod.state is _HEALTHY
        pod.apply(PodEvent.PROBE_PASSED, now)
        pod.ejection.active = False
        pod.probe.record_success(now, status)
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
        """Record a failed probe.

        Arguments:
            epoch: of the pod when the probe began; the result of an earlier epoch is ignored.
            error: the cause, for people.
            status: of the response; None without a status.
            responded: whether any byte of a response came. The response of a gRPC server has no
                status.

        Returns:
            Whether the usable backends may differ now.
        """
        if epoch != pod.epoch or pod.state is PodState.GONE or not pod.is_reachable:
            return False
        probe = pod.probe
        probe.at, probe.status = now, status
        before, probe.mesh_like = probe.mesh_like, looks_like_mesh(status)
        lapsed = now >= probe.reached_until
        probe.reached_until = -inf if lapsed else min(probe.reached_until, now + PROOF_LASTS)
        if not pod.is_trusted:
            was_healthy = self._mark_unhealthy(pod, PodEvent.PROBE_FAILED, error, now)
            # Is it the last result that the use of the ClusterIP depends on, or one against it?
            return was_healthy or self.service.depends_on(pod, before)
        # Kubernetes' list counts, so no failed probe ejects the pod. A pod that refused a request
        # recovers with any response, since then it listens again.
        _record_failure(pod, error, now)
        if not responded or pod.state is not PodState.PROBING or now < pod.ejection.until:
            return False
        return self._accept_listing(pod, now)

    def connect_failed(self, pod: PodTracker, error: str, now: float) -> bool:
        """Record that a request got no byte of a response, or could not be sent at all."""
        return self._mark_unhealthy(pod, PodEvent.CONNECT_FAILED, error, now)

    def responded_badly(
        self, pod: PodTracker, error: str, untouched: bool, changes: Changes, now: float
    ) -> bool:
        """Record an error response of a pod; see Outliers.ejects.

        A response from behind the ClusterIP does not count, since the pod is unknown. Nor does one
        of an unhealthy pod: it belongs to an older request.

        Arguments:
            error: the response, for people.
            untouched: whether queue-proxy reports that its application got nothing of the request.
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
        """End the half-open time of a pod; return whether it was half-open."""
        was, pod.ejection.half_open = pod.ejection.half_open, False
        if was:
            pod.set_limit()
        return was

    def raise_limit(self, pod: PodTracker, now: float) -> None:
        """Raise the limit of a pod that is full, if it is half-open or in slow start."""
        if pod.ejection.half_open:
            # queue-proxy reports within 2 ms that its application is gone. After a longer time
            # without a response, the application has the request.
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


def _record_failure(pod: PodTracker, error: str, now: float) -> None:
    pod.probe.record_failure(error, now)
    pod.ejection.active = False
