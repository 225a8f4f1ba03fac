"""Convert the throttler's state of revisions and pods to the JSON values of the admin API.

Pure: it changes nothing, and knows neither HTTP nor a clock. ``views`` has the types;
``activator status`` and ``activator explain`` read the values. Values from outside stay plain
strings; the program that displays them escapes them. Must not know where objects come from.
Knative has no counterpart.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from itertools import islice
from typing import TYPE_CHECKING, Final, cast

from activator.admin.views import activators, details, revisions
from activator.records.entries import NO_AGENTS, Agents, Entry, queued_by_mode
from activator.records.narration import WORDS
from activator.records.source_status import NO_SOURCE, ObjectWarning, SourceStatus
from throttler.balancing import adaptive_mode, policy_name
from throttler.capacity import CapacityTerms
from throttler.model import NO_TIMEOUT, ProbeKind, QueueOrder, Revision, RevisionID, ServiceRoute
from throttler.pod import PodState, PodTracker
from throttler.pod_rule import verdict
from throttler.request_policies import HIGH, LOW, NAMES, NORMAL, RequestPolicies
from throttler.revision import RevisionThrottler, Statistics

if TYPE_CHECKING:
    from activator.runtime import AutoscalerLink, Driver

_LEAVING = (PodState.DRAINING, PodState.GONE)
_NO_ROUTE = ServiceRoute()
_NO_POLICIES: Final = RequestPolicies()
#: Most rules of one revision in a response.
MOST_RULES: Final = 1000


def revision_view(driver: Driver, throttler: RevisionThrottler) -> revisions.RevisionView:
    """Return one element of ``revisions``."""
    now = driver.clock()
    revision, statistics = throttler.revision, throttler.statistics()
    rules = revision.policies.interceptor
    capacity, service = statistics.capacity, statistics.service
    reason, detail = None, ""
    if statistics.waiting:
        reason, detail = driver.why(throttler)
    return {
        "namespace": revision.id.namespace,
        "name": revision.id.name,
        "kind": revision.id.kind.value,
        "object": None if rules is None else rules.kind,
        "uid": revision.uid,
        "deleted": throttler.deleted,
        "containerConcurrency": revision.container_concurrency,
        "protocol": revision.protocol.value,
        "timeoutSeconds": 0 if revision.timeout == NO_TIMEOUT else _whole(revision.timeout),
        "readinessRule": revision.readiness.value,
        "loadBalancing": policy_name(revision),
        "hashKey": _text(revision.policies.hash_key),
        "sticky": _sticky(throttler),
        "adaptiveConcurrency": adaptive_mode(revision).value,
        "capacity": capacity if revision.container_concurrency > 0 or not capacity else None,
        "capacityBreakdown": _breakdown(statistics.capacity_terms),
        "inFlight": statistics.in_flight,
        "queued": statistics.waiting,
        "oldestWaiterSeconds": _ago(statistics.oldest_arrival, now),
        "queueDepth": statistics.queue_depth,
        "heldBytes": statistics.queued_bytes,
        "reason": reason.value if reason else None,
        "reasonDetail": detail or None,
        "lastFailure": _failure(driver.entries.known(revision.id), now),
        "forecast": {
            "startSeconds": _rounded(statistics.start, 6),
            "startingSeconds": _rounded(throttler.forecast.starting(now), 6),
            "drainSecondsPerRequest": _rounded(_per_request(statistics), 6),
            "expectedWaitSeconds": _rounded(throttler.expected_wait(now), 6),
        },
        "failedStarts": driver.cold_starts.failed(throttler),
        "reachableHealthyPods": statistics.in_reach,
        "activatorIndex": statistics.share.index,
        "activatorCount": statistics.share.count,
        "clusterIP": pod_view(throttler, service, now) if service else None,
        "pods": [pod_view(throttler, pod, now) for pod in statistics.pods],
    }


def detail_view(
    driver: Driver, throttler: RevisionThrottler, source: SourceStatus = NO_SOURCE
) -> revisions.RevisionDetailView:
    """Return a revision with all fields; most of them are too long for the list of all revisions.

    The reason why a new request would wait takes a walk over the pods, so it is only here.

    Arguments:
        source: the state of the source of objects, for ``objectWarnings``.
    """
    revision, now = throttler.revision.id, driver.clock()
    entry, route = driver.entries.known(revision), driver.entries.route_of(revision)
    requests = throttler.revision.policies.requests or _NO_POLICIES
    failures = {} if entry is None else entry.failures.by_reason
    seen = cast("list[details.ColdStartView]", driver.cold_starts.views(revision))
    reason, detail = None, ""
    if not (throttler.deleted or throttler.slots.count_free_pods()):
        reason, detail = driver.why(throttler)
    view = revision_view(driver, throttler)
    has_pods = bool(view["pods"])
    return {
        **view,
        "tls": throttler.revision.tls,
        "probe": _probe_spec(throttler.revision),
        "route": None if route == _NO_ROUTE else _route(driver, revision, route),
        "interceptor": interceptor_view(requests),
        "queueOrder": queue_order_view(throttler),
        "wakeRules": wake_rules_view(throttler.revision),
        "authorization": authorization_view(throttler.revision),
        "keptAwakeBy": kept_awake_view(NO_AGENTS if entry is None else entry.agents, now),
        "keepAwake": keep_awake_view(throttler.revision),
        "whileWaiting": while_waiting_view(throttler, entry, now),
        **profile_view(throttler),
        "nextReason": reason.value if reason else None,
        "nextReasonDetail": detail or None,
        "failures": {reason.value: count for reason, count in failures.items()},
        "objectWarnings": warnings_of(source, revision, has_pods=has_pods, pods=route.pods),
        "coldStarts": seen,
        "wakeUps": seen,
    }


def _route(driver: Driver, revision: RevisionID, route: ServiceRoute) -> revisions.RouteView:
    owners = driver.entries.owners_of(revision)
    own = [key for key, owner in owners.items() if owner == revision]
    taken = {
        str(key): f"{WORDS[owner.kind]} {owner}"
        for key, owner in owners.items()
        if owner != revision
    }
    return {
        "hosts": list(dict.fromkeys(key.host for key in own)),
        "rules": list(map(str, own[:MOST_RULES])),
        "taken": dict(islice(taken.items(), MOST_RULES)),
        "port": route.port or None,
        "reconnect": route.reconnect,
        "podsService": route.pods,
    }


def interceptor_view(requests: RequestPolicies) -> details.InterceptorView | None:
    """Return what an object of the KEDA HTTP add-on asks for; None for other revisions."""
    rules = requests.interceptor
    if rules is None:
        return None
    wait = requests.wait_seconds
    return {
        "object": rules.kind,
        "target": rules.target,
        "problem": rules.problem or None,
        "readinessSeconds": None if wait == NO_TIMEOUT else _whole(wait),
        "requestSeconds": _whole(rules.request_timeout) or None,
        "fallback": rules.fallback,
        "placeholderStatus": None if rules.placeholder is None else rules.placeholder.status,
        "maxPendingRequests": rules.max_pending or None,
        "overflow": rules.overflow,
        "staticRoutes": len(rules.static_routes),
    }


def _probe_spec(revision: Revision) -> details.ProbeView:
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


def _failure(entry: Entry | None, now: float) -> revisions.FailureView | None:
    if entry is None or (last := entry.failures.last) is None:
        return None
    return {
        "secondsAgo": round(max(0.0, now - last.at), 3),
        "status": last.status,
        "reason": last.reason.value,
        "detail": last.detail or None,
    }


def pod_view(throttler: RevisionThrottler, pod: PodTracker, now: float) -> details.PodView:
    """Return one element of ``pods``.

    Arguments:
        throttler: of the pod's revision.
        now: seconds, on the throttler's clock.
    """
    decided, adaptive, zones = verdict(pod), throttler.slots.adaptive, throttler.slots.zones
    # A rule limits the requests in flight at a pod, beside slow start.
    is_limited = throttler.revision.container_concurrency or throttler.slots.limiter
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
        "silentSeconds": _rounded(throttler.silence.silent_for(pod, now)),
        "limit": pod.limit if is_limited else None,
        "adaptiveLimit": None if adaptive is None else adaptive.limit_of(pod),
        "lastError": pod.probe.error or None,
        "zone": pod.zone or None,
        "near": pod.zone == zones.zone if pod.zone and zones is not None else None,
        "inSlice": pod.in_share,
    }


def _sticky(throttler: RevisionThrottler) -> revisions.StickyView | None:
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


def _breakdown(terms: CapacityTerms) -> revisions.CapacityBreakdown:
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


def _rounded(seconds: float | None, digits: int = 3) -> float | None:
    return None if seconds is None else round(seconds, digits)


def _ago(when: float | None, now: float) -> float | None:
    return None if when is None else round(max(0.0, now - when), 3)


def _whole(seconds: float) -> float:
    """Return an integer for whole seconds: JSON then has 300, as the manifest does."""
    return int(seconds) if seconds % 1 == 0 else seconds


# -- the order of the queue
#
# Names of flows come from clients and may be secret, so people see them only if an annotation
# allows it. Otherwise they see hashes, which are the same in all activators and differ between
# revisions.

#: So many flows are shown: the ones with the most queued requests.
MOST_FLOWS: Final = 5
_HASH_BYTES: Final = 6
#: Characters of the longest name of a flow that is shown.
_LONGEST_NAME: Final = 64


def queue_order_view(throttler: RevisionThrottler) -> details.QueueOrderView | None:
    """Return the order of a revision's queue; None for the order of arrival."""
    order, queued = throttler.queued.order, throttler.queued.counts
    if order is None:
        return None
    classes: details.ClassesView | None = None
    if order.has_classes:
        counts = queued.by_priority
        classes = {"high": counts[HIGH], "normal": counts[NORMAL], "low": counts[LOW]}
    largest: list[details.FlowView] = []
    if order.fair_by is not None:
        salt = throttler.revision.uid.encode()[:64]
        largest = [
            {"flow": flow_name(name, order, salt), "queued": count}
            for name, count in queued.largest(MOST_FLOWS).items()
        ]
    return {
        "priority": NAMES[order.priority] if order.has_classes else None,
        "trustsHeader": order.trusts_header,
        "queuedByClass": classes,
        "fairBy": None if order.fair_by is None else str(order.fair_by),
        "flows": len(queued.flows) if order.fair_by is not None else 0,
        "largestFlows": largest,
    }


def flow_name(name: bytes, order: QueueOrder, salt: bytes) -> str:
    """Return the name of a flow for people: as it is, or its hash.

    A long name is a digest here, which cannot be printed: see ``bounded`` in
    proxy/exchange/placement.py.

    Arguments:
        name: as the client sent it; empty for requests that name no flow.
        order: whether names are shown.
        salt: makes the hashes of two revisions differ; at most 64 bytes.
    """
    if not name:
        return "(none)"
    text = name.decode("utf-8", "replace")
    if order.shows_names and text.isprintable():
        return text[:_LONGEST_NAME]
    return blake2b(name, digest_size=_HASH_BYTES, key=salt).hexdigest()


# -- clients that wait


def while_waiting_view(
    throttler: RevisionThrottler, entry: Entry | None, now: float
) -> details.WhileWaitingView | None:
    """Return what waiting clients of a revision get; None if they all get nothing.

    Arguments:
        throttler: of the revision.
        entry: its records; None before its first request.
        now: seconds.
    """
    waiting = throttler.revision.policies.waiting
    if waiting is None:
        return None
    return {
        "modes": [mode.value for mode in waiting.modes],
        "pageAfterSeconds": waiting.page_after,
        "pageTemplate": waiting.page_template or None,
        "heartbeatSeconds": waiting.heartbeat_every,
        "earlyHeads": 0 if entry is None else entry.counters.early_heads,
        "queuedByMode": cast("details.ModesView", queued_by_mode(throttler, entry)),
        "leaseSeconds": 0.0 if entry is None else round(entry.lease.seconds_left(now), 1),
    }


def profile_view(throttler: RevisionThrottler) -> details.ProfileView:
    """Return the kind of application of a revision, and the limit of waits for its pods.

    Arguments:
        throttler: of the revision.
    """
    requests = throttler.revision.policies.requests or _NO_POLICIES
    profile = None if requests.profile is None else requests.profile.value
    wait = requests.wait_seconds
    return {"profile": profile, "waitSeconds": wait if 0 < wait < NO_TIMEOUT else None}


# -- what wakes a revision, and keeps it awake


def keep_awake_view(revision: Revision) -> str | None:
    """Return which connections of a TCP Service are load; None for another revision."""
    connections = revision.policies.connections
    if connections is None:
        return None
    return "bytes" if connections.by_bytes else "connections"


#: So many clients are shown: the ones with the most requests.
MOST_AGENTS: Final = 3


def wake_rules_view(revision: Revision) -> details.WakeRulesView | None:
    """Return the wake rules of a revision; None without any."""
    rules = (revision.policies.requests or _NO_POLICIES).wake
    if rules is None:
        return None
    return {
        "methods": _texts(rules.methods),
        "notUserAgents": _texts(rules.not_user_agents),
        "notPaths": _texts(rules.not_paths),
        "requiredHeader": rules.required_header.decode("ascii") or None,
        "asleepStatus": rules.asleep_status,
    }


def authorization_view(revision: Revision) -> details.AuthorizationView | None:
    """Return the authorization server of a revision; None without one."""
    server = (revision.policies.requests or _NO_POLICIES).authorization
    if server is None:
        return None
    url = server.url.partition("?")[0]  # the rest may be secret
    return {"url": url, "always": server.always, "cacheSeconds": server.cache_seconds}


def kept_awake_view(agents: Agents, now: float) -> list[details.AgentView]:
    """Return the clients that keep a revision awake; ``now`` in seconds."""
    named = agents.keep_awake(now)[:MOST_AGENTS]
    return [{"agent": name, "requestsPerMinute": count} for name, count in named]


def _texts(values: Iterable[bytes]) -> list[str]:
    return [value.decode("ascii") for value in values]


# -- the source of objects, and the links to autoscalers
#
# Traffic continues without both, with the last known state; their ages make that visible.

#: Maximum of warnings in the list of all. Each revision has its own, too.
MOST_WARNINGS: Final = 100


def watches_view(source: SourceStatus) -> dict[str, activators.WatchView]:
    """Return ``watches``, by kind."""
    return {
        kind: {
            "ageSeconds": _rounded(each.age),
            "error": each.error or None,
            "drifted": source.missed.found.get(kind, 0),
        }
        for kind, each in source.watched.items()
    }


def warnings_view(source: SourceStatus) -> list[activators.ObjectWarningView]:
    """Return ``objectWarnings`` of the activator, at most ``MOST_WARNINGS``."""
    return [_warning(each) for each in source.warnings[:MOST_WARNINGS]]


def warnings_of(
    source: SourceStatus, revision: RevisionID, *, has_pods: bool, pods: str = ""
) -> list[activators.ObjectWarningView]:
    """Return ``objectWarnings`` of a revision.

    Arguments:
        has_pods: whether an object lists a pod of it. If none does, an object of its namespace
            that names no revision may be meant for it.
        pods: the name of the Service whose EndpointSlices list its pods; empty for its own.
    """
    names = (revision.name,) if has_pods else (revision.name, "")
    listing = ("EndpointSlice", pods or revision.name)
    return [
        _warning(each)
        for each in source.warnings
        if each.namespace == revision.namespace
        and (each.revision in names or (each.kind, each.revision) == listing)
        and each.revision_kind in (revision.kind, None)
    ]


def _warning(one: ObjectWarning) -> activators.ObjectWarningView:
    return {
        "kind": one.kind,
        "namespace": one.namespace,
        "name": one.name,
        "reason": one.reason or None,
        "warning": one.text,
    }


def manifests_view(source: SourceStatus) -> activators.ManifestsView | None:
    """Return ``manifests``; None if the source reads no files."""
    if (files := source.files) is None:
        return None
    return {
        "folder": files.path,
        "ageSeconds": round(files.age, 3),
        "lastChangeSecondsAgo": round(files.changed_age, 3),
    }


def autoscaler_view(link: AutoscalerLink | None) -> activators.AutoscalerView | None:
    """Return ``autoscaler``. Call it in the event loop."""
    if link is None:
        return None
    return {
        "connected": link.connected,
        "ageSeconds": _rounded(link.age()),
        "lastSentSecondsAgo": _rounded(link.last_sent_age()),
        "lastError": link.last_error or None,
    }
