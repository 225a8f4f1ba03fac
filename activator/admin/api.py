"""Convert the throttler's state of revisions and pods to the JSON values of the admin API.

Pure: it changes nothing, and knows neither HTTP nor a clock. ``views`` has the types;
``activator status`` and ``activator explain`` read the values. Values from outside stay plain
strings; the program that displays them escapes them. Knative has no counterpart.
"""

from __future__ import annotations

from typing import cast

from activator.admin.queue_view import queue_order_view
from activator.admin.staleness import warnings_of
from activator.admin.views.cold_starts import ColdStartView
from activator.admin.views.pods import PodView, ProbeView
from activator.admin.views.revisions import (
    CapacityBreakdown,
    FailureView,
    RevisionDetailView,
    RevisionIdentity,
    RevisionPods,
    RevisionRequests,
    RevisionSettings,
    RevisionView,
    RouteView,
    StickyView,
)
from activator.admin.waiting_view import profile_view, while_waiting_view
from activator.admin.wake_view import authorization_view, kept_awake_view, wake_rules_view
from activator.records.agents import NO_AGENTS, Agents
from activator.records.cold_starts import ColdStarts
from activator.records.entries import Entry, Failures
from activator.records.source_status import SourceStatus
from throttler.balancing import adaptive_mode, policy_name
from throttler.capacity import CapacityTerms
from throttler.model import NO_TIMEOUT, ProbeKind, Revision, ServiceRoute
from throttler.pod import PodState, PodTracker
from throttler.pod_rule import verdict
from throttler.revision import RevisionThrottler
from throttler.statistics import Statistics
from throttler.wait_reason import waiting_reason

_LEAVING = (PodState.DRAINING, PodState.GONE)


#: For a revision without requests since the start.
_NONE = Failures()
_NO_ROUTE = ServiceRoute()


def revision_view(
    throttler: RevisionThrottler,
    now: float,
    autoscaler_lost: bool = False,
    failures: Failures = _NONE,
    failed_starts: int = 0,
) -> RevisionView:
    """Return one element of ``revisions``.

    Arguments:
        now: seconds, on the throttler's clock.
        autoscaler_lost: as for throttler.wait_reason.waiting_reason.
        failures: the failed requests of the revision.
        failed_starts: see ColdStarts.failed.
    """
    statistics = throttler.statistics()
    return {
        **_identity(throttler),
        **_settings(throttler),
        **_requests(throttler, statistics, now, autoscaler_lost, failures),
        "failedStarts": failed_starts,
        **_pods(throttler, statistics, now),
    }


def detail_view(
    throttler: RevisionThrottler,
    cold_starts: ColdStarts,
    now: float,
    autoscaler_lost: bool = False,
    failures: Failures = _NONE,
    source: SourceStatus | None = None,
    route: ServiceRoute = _NO_ROUTE,
    agents: Agents = NO_AGENTS,
    entry: Entry | None = None,
) -> RevisionDetailView:
    """Return a revision with all fields; most of them are too long for the list of all revisions.

    The reason why a new request would wait takes a walk over the pods, so it is only here.

    Arguments:
        now, autoscaler_lost, failures: as for ``revision_view``.
        source: the state of the source of objects, for ``objectWarnings``.
        route: of a plain Service.
        agents: the sample of its clients.
        entry: the records of the revision; None before its first request.
    """
    seen = cast("list[ColdStartView]", cold_starts.views(throttler.revision.id))
    reason, detail = None, ""
    if not (throttler.deleted or throttler.slots.count_free_pods()):
        reason, detail = waiting_reason(throttler, autoscaler_lost)
    failed = cold_starts.failed(throttler)
    view = revision_view(throttler, now, autoscaler_lost, failures, failed)
    revision, has_pods = throttler.revision.id, bool(view["pods"])
    return {
        **view,
        "tls": throttler.revision.tls,
        "probe": _probe_spec(throttler.revision),
        "route": _route(route),
        "queueOrder": queue_order_view(throttler),
        "wakeRules": wake_rules_view(throttler.revision),
        "authorization": authorization_view(throttler.revision),
        "keptAwakeBy": kept_awake_view(agents, now),
        "whileWaiting": while_waiting_view(throttler, entry, now),
        **profile_view(throttler),
        "nextReason": reason.value if reason else None,
        "nextReasonDetail": detail or None,
        "failures": {reason.value: count for reason, count in failures.by_reason.items()},
        "objectWarnings": warnings_of(source, revision, has_pods=has_pods, pods=route.pods),
        "coldStarts": seen,
        "wakeUps": seen,
    }


def _identity(throttler: RevisionThrottler) -> RevisionIdentity:
    revision = throttler.revision
    return {
        "namespace": revision.id.namespace,
        "name": revision.id.name,
        "kind": revision.id.kind.value,
        "uid": revision.uid,
        "deleted": throttler.deleted,
    }


def _settings(throttler: RevisionThrottler) -> RevisionSettings:
    revision = throttler.revision
    return {
        "containerConcurrency": revision.container_concurrency,
        "protocol": revision.protocol.value,
        "timeoutSeconds": 0 if revision.timeout == NO_TIMEOUT else _whole(revision.timeout),
        "readinessRule": revision.readiness.value,
        "loadBalancing": policy_name(revision),
        "hashKey": _text(revision.policies.hash_key),
        "sticky": _sticky(throttler),
        "adaptiveConcurrency": adaptive_mode(revision).value,
    }


def _requests(
    throttler: RevisionThrottler,
    statistics: Statistics,
    now: float,
    autoscaler_lost: bool,
    failures: Failures,
) -> RevisionRequests:
    limited = throttler.revision.container_concurrency > 0
    reason, detail = None, ""
    if statistics.waiting:
        reason, detail = waiting_reason(throttler, autoscaler_lost)
    return {
        "capacity": statistics.capacity if limited or not statistics.capacity else None,
        "capacityBreakdown": _breakdown(statistics.capacity_terms),
        "inFlight": statistics.in_flight,
        "queued": statistics.waiting,
        "oldestWaiterSeconds": _ago(statistics.oldest_arrival, now),
        "queueDepth": statistics.queue_depth,
        "heldBytes": statistics.queued_bytes,
        "reason": reason.value if reason else None,
        "reasonDetail": detail or None,
        "lastFailure": _failure(failures, now),
        "forecast": {
            "startSeconds": _rounded(statistics.start),
            "startingSeconds": _rounded(throttler.forecast.starting(now)),
            "drainSecondsPerRequest": _rounded(_per_request(statistics)),
            "expectedWaitSeconds": _rounded(throttler.expected_wait(now)),
        },
    }


def _pods(throttler: RevisionThrottler, statistics: Statistics, now: float) -> RevisionPods:
    service = statistics.service
    return {
        "reachableHealthyPods": statistics.in_reach,
        "activatorIndex": statistics.share.index,
        "activatorCount": statistics.share.count,
        "clusterIP": pod_view(throttler, service, now) if service else None,
        "pods": [pod_view(throttler, pod, now) for pod in statistics.pods],
    }


def _route(route: ServiceRoute) -> RouteView | None:
    if route == _NO_ROUTE:
        return None
    return {
        "hosts": list(route.hosts),
        "port": route.port or None,
        "reconnect": route.reconnect,
        "podsService": route.pods,
    }


def _probe_spec(revision: Revision) -> ProbeView:
    spec = revision.probe
    target = {ProbeKind.HTTP: spec.path, ProbeKind.GRPC: spec.service}.get(spec.kind, b"")
    return {
        "kind": spec.kind.value,
        "target": target.decode("ascii", "replace") or None,
        "host": spec.host.decode("ascii", "replace") or None,
        "tls": spec.tls,
        "timeoutSeconds": _whole(spec.timeout) or None,
        "why": revision.probe_why or None,
    }


def _failure(failures: Failures, now: float) -> FailureView | None:
    if (last := failures.last) is None:
        return None
    return {
        "secondsAgo": round(max(0.0, now - last.at), 3),
        "status": last.status,
        "reason": last.reason.value,
        "detail": last.detail or None,
    }


def pod_view(throttler: RevisionThrottler, pod: PodTracker, now: float) -> PodView:
    """Return one element of ``pods``.

    Arguments:
        throttler: of the pod's revision.
        now: as for ``revision_view``.
    """
    decided, adaptive = verdict(pod), throttler.slots.adaptive
    return {
        "address": pod.endpoint.address,
        "uid": pod.endpoint.uid,
        "kubernetes": _kubernetes(pod),
        "probe": _probe(pod),
        "probeStatus": pod.probe.status,
        "lastProbeSecondsAgo": _ago(pod.probe.at, now),
        "state": pod.state.value,
        "stateSecondsAgo": _ago(pod.state_since, now),
        "usable": pod.in_use,
        "decision": decided.decision.value,
        "decidedBy": decided.rule.value,
        "explanation": decided.sentence,
        "inFlight": pod.in_flight,
        "silentSeconds": _seconds(throttler.silence.silent_for(pod, now)),
        "limit": pod.limit if _is_limited(throttler) else None,
        "adaptiveLimit": None if adaptive is None else adaptive.limit_of(pod),
        "lastError": pod.probe.error or None,
        "inSlice": pod.in_share,
    }


def _is_limited(throttler: RevisionThrottler) -> bool:
    """Return whether a rule limits the requests in flight at a pod, beside slow start."""
    return bool(throttler.revision.container_concurrency or throttler.slots.limiter)


def _sticky(throttler: RevisionThrottler) -> StickyView | None:
    policies, sticky = throttler.revision.policies, throttler.slots.sticky
    if sticky is None:
        return None
    counts = sticky.counts
    return {
        "key": str(policies.sticky),
        "overflow": policies.sticky_overflow.value,
        "kept": counts.kept,
        "hashed": counts.hashed,
        "overflowed": counts.overflowed,
        "waited": counts.waited,
    }


def _breakdown(terms: CapacityTerms) -> CapacityBreakdown:
    return {
        "way": "cluster-ip" if terms.by_service else "pods",
        "pods": terms.usable,
        "limitPerPod": terms.container_concurrency or None,
        "activators": terms.share.count,
        "ownPods": len(terms.own),
        "borrows": terms.borrow,
        "sentence": terms.sentence,
    }


def _kubernetes(pod: PodTracker) -> str:
    if pod.is_service:
        return "service"
    if pod.state in _LEAVING and pod.taken_by is None:
        return "gone"
    return "ready" if pod.ready else "not-ready"


def _probe(pod: PodTracker) -> str:
    """Return the result of the last probe, or of the last connection for a request."""
    if pod.probe.failures and not pod.ejection.active:
        return "failed"
    return "unknown" if pod.probe.at is None else "passed"


def _per_request(statistics: Statistics) -> float | None:
    """Return the seconds between two requests that leave the queue; None if unknown."""
    if statistics.turnover is None or not statistics.in_flight:
        return None
    return statistics.turnover / statistics.in_flight


def _text(value: object | None) -> str | None:
    return None if value is None else str(value)


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 6)


def _seconds(passed: float | None) -> float | None:
    return None if passed is None else round(passed, 3)


def _ago(when: float | None, now: float) -> float | None:
    return None if when is None else round(max(0.0, now - when), 3)


def _whole(seconds: float) -> float:
    """Return an integer for whole seconds: JSON then has 300, as the manifest does."""
    return int(seconds) if seconds.is_integer() else seconds
