"""Why requests of a revision wait now: a reason and a detail, from the throttler's state alone.

Changes nothing. Knative has no counterpart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from itertools import islice
from operator import attrgetter
from typing import Final

from throttler.model import RevisionKind
from throttler.pod import PodState, PodTracker
from throttler.reason import Reason
from throttler.request_policies import NAMES
from throttler.revision import RevisionThrottler
from throttler.ticket import Ticket

#: The reason if the program that starts pods of a kind is out of reach.
_LOST: Final = {
    RevisionKind.REVISION: Reason.AUTOSCALER_UNREACHABLE,
    RevisionKind.SERVICE: Reason.SCALER_UNREACHABLE,
    RevisionKind.HTTP_ROUTE: Reason.SCALER_UNREACHABLE,
    RevisionKind.FALLBACK: Reason.SCALER_UNREACHABLE,
}
_DRAINING, _HEALTHY = PodState.DRAINING, PodState.HEALTHY
_by_address = attrgetter("address")
#: The most revisions that a detail names as new owners of addresses.
_NAMED_OWNERS: Final = 3


def waiting_reason(
    throttler: RevisionThrottler, autoscaler_lost: bool = False
) -> tuple[Reason, str]:
    """Return why a request of this revision would wait now, and a detail; O(pods).

    The pods that are nearest to serving decide. First come pods that passed the activator's probe,
    but that Kubernetes must also list as ready. Ejected pods come next, then pods that fail their
    probe.

    Arguments:
        autoscaler_lost: whether an autoscaler is configured but not connected. It matters only
            while Kubernetes lists no pod, or while the pods sleep.
    """
    pods = [pod for pod in throttler.backends.pods.values() if pod.state is not _DRAINING]
    if not pods:
        if throttler.deleted:  # no pod will start, with or without an autoscaler
            return Reason.NO_ENDPOINTS, "the object was deleted"
        requests = throttler.revision.policies.requests
        rules = None if requests is None else requests.interceptor
        if rules is not None and rules.problem:
            return Reason.NO_ENDPOINTS, rules.problem
        if taken := _taken(throttler):
            return Reason.NO_ENDPOINTS, taken
        if throttler.backends.misnamed:  # only objects written by hand have this fault
            return Reason.NO_ENDPOINTS, _misnamed(throttler)
        return (_LOST[throttler.revision.id.kind] if autoscaler_lost else Reason.NO_ENDPOINTS), ""
    if throttler.revision.asleep:
        lost = "the activator cannot reach `activator scale`, which wakes them"
        return Reason.PODS_ASLEEP, lost if autoscaler_lost else ""
    service = throttler.backends.service.tracker
    if service is not None and service.in_use:
        return Reason.AT_CAPACITY, _load_of(service)
    if not throttler.config.reach.pods:
        return _service_reason(service, pods)
    if in_use := [pod for pod in pods if pod.in_use]:
        return Reason.AT_CAPACITY, _load_of(*in_use) + _parked(throttler)
    if any(pod.state is _HEALTHY for pod in pods):
        return Reason.PODS_NOT_READY, "probe passed, not listed as ready"
    suffices = throttler.revision.probe_suffices
    ejected = _first(pod for pod in pods if pod.ejection.active and (pod.ready or suffices))
    if ejected is not None:
        return Reason.BAD_ANSWERS, _error_of(ejected)
    failing = _first(pod for pod in pods if pod.probe.error and pod.ready)
    if failing is not None:
        errors = filter(None, (_error_of(failing), _error_of(service)))
        return Reason.PROBE_FAILING, "; ".join(errors)
    return Reason.PODS_NOT_READY, _error_of(_first(pod for pod in pods if pod.probe.error))


def expired_reason(
    throttler: RevisionThrottler, ticket: Ticket, why: tuple[Reason, str]
) -> tuple[Reason, str]:
    """Return why a request of this revision expired in the queue, and a detail; O(1).

    Arguments:
        ticket: of the request.
        why: the result of ``waiting_reason``.
    """
    if why[0] is Reason.AT_CAPACITY and throttler.queued.counts.is_outranked(ticket):
        return Reason.OUTRANKED, f"class {NAMES[ticket.priority]}, {why[1]}"
    return why


def _first(pods: Iterable[PodTracker]) -> PodTracker | None:
    """Return the pod of the lowest address, so that all activators give the same detail."""
    return min(pods, key=_by_address, default=None)


def _taken(throttler: RevisionThrottler) -> str:
    """Return the owners of addresses that the revision lists but lost; empty if none."""
    counts = Counter(str(pod.taken_by) for pod in throttler.backends.taken.values())
    parts = (f"{n} address{'' if n == 1 else 'es'} taken by {owner}" for owner, n in counts.items())
    return ", ".join(islice(parts, _NAMED_OWNERS))


def _misnamed(throttler: RevisionThrottler) -> str:
    """Return the port name that the listed addresses should have."""
    count, protocol = throttler.backends.misnamed, throttler.revision.protocol
    which = f"{count} address{'' if count == 1 else 'es'} without a port named {protocol.port_name}"
    return f"{which}: the revision speaks {protocol.value}"


def _service_reason(service: PodTracker | None, pods: Collection[PodTracker]) -> tuple[Reason, str]:
    """Return why a request waits while only the ClusterIP may be used."""
    if not any(pod.ready for pod in pods):
        return Reason.PODS_NOT_READY, ""
    if service is None:
        return Reason.NO_ENDPOINTS, "mesh mode is enabled, the private Service has no ClusterIP"
    return Reason.PROBE_FAILING, _error_of(service)


def _parked(throttler: RevisionThrottler) -> str:
    """Return how many requests wait for their own pod only; empty if none does."""
    parked = len(throttler.queued.parked)
    what = "requests" if throttler.revision.policies.connections is None else "connections"
    return f"; sticky {what} that wait for their own pod: {parked}" if parked else ""


def _load_of(*pods: PodTracker) -> str:
    """Return the requests in flight of these pods, and their limit."""
    return f"{sum(pod.in_flight for pod in pods)}/{sum(pod.limit for pod in pods)}"


def _error_of(pod: PodTracker | None) -> str:
    """Return the error of the last probe, or nothing."""
    if pod is None or not pod.probe.error:
        return ""
    return f"{'ClusterIP ' if pod.is_service else ''}{pod.address}: {pod.probe.error}"
