"""Why requests of a revision wait now: a word and a detail, from the throttler's state alone.

Reads and changes nothing. Knative has no counterpart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from itertools import islice
from typing import Final

from throttler.health import PodState
from throttler.pod import PodTracker
from throttler.reason import Reason
from throttler.revision import RevisionThrottler

_DRAINING, _HEALTHY = PodState.DRAINING, PodState.HEALTHY
#: Revisions that a detail names as those that have taken addresses.
_TAKERS: Final = 3


def waiting_reason(
    revision: RevisionThrottler, autoscaler_lost: bool = False
) -> tuple[Reason, str]:
    """Return why a request of this revision would wait now, and a detail, often empty; O(pods).

    Pods that passed our probe but that Kubernetes does not list as ready, where its word counts,
    outrank those that are out for their answers, and these outrank pods that fail our probe: so
    those are named that are the nearest to serving.

    Arguments:
        autoscaler_lost: there should be a connection to the autoscaler, and is none. That matters
            only while there is no pod: of those that are there Kubernetes tells.
    """
    pods = [pod for pod in revision.pods() if pod.state is not _DRAINING]
    if not pods:
        if revision.deleted:  # nobody will start one, whatever the autoscaler does
            return Reason.NO_ENDPOINTS, "the revision was deleted"
        if taken := _taken(revision):
            return Reason.NO_ENDPOINTS, taken
        if revision.backends.misnamed:  # as by hand: Knative's controllers name them alike
            return Reason.NO_ENDPOINTS, _misnamed(revision)
        return (Reason.AUTOSCALER_UNREACHABLE if autoscaler_lost else Reason.NO_ENDPOINTS), ""
    service = revision.service
    if service is not None and service.in_use:
        return Reason.AT_CAPACITY, _of(service)
    if not revision.reach.pods:
        return _service_reason(service, pods)
    if in_use := [pod for pod in pods if pod.in_use]:
        return Reason.AT_CAPACITY, _of(*in_use)
    if any(pod.state is _HEALTHY for pod in pods):
        return Reason.PODS_NOT_READY, "probe passed, not listed as ready"
    suffices = revision.revision.probe_suffices
    out = next((pod for pod in pods if pod.ejection.active and (pod.ready or suffices)), None)
    if out is not None:
        return Reason.BAD_ANSWERS, _met(out)
    failing = next((pod for pod in pods if pod.probe.error and pod.ready), None)
    if failing is not None:
        both = filter(None, (_met(failing), _met(service)))
        return Reason.PROBE_FAILING, "; ".join(both)
    return Reason.PODS_NOT_READY, _met(next((pod for pod in pods if pod.probe.error), None))


def _taken(revision: RevisionThrottler) -> str:
    """Return who has the addresses that are listed for this revision; empty if nobody has."""
    by = Counter(str(pod.taken_by) for pod in revision.backends.taken.values())
    said = (f"{n} address{'' if n == 1 else 'es'} taken by {owner}" for owner, n in by.items())
    return ", ".join(islice(said, _TAKERS))


def _misnamed(revision: RevisionThrottler) -> str:
    """Return which name the port of the addresses that are listed should have."""
    count, protocol = revision.backends.misnamed, revision.revision.protocol
    which = f"{count} address{'' if count == 1 else 'es'} without a port named {protocol.port_name}"
    return f"{which}: the revision speaks {protocol.value}"


def _service_reason(service: PodTracker | None, pods: Collection[PodTracker]) -> tuple[Reason, str]:
    """Return why a request waits where the ClusterIP is the only way."""
    if not any(pod.ready for pod in pods):
        return Reason.PODS_NOT_READY, ""
    if service is None:
        return Reason.NO_ENDPOINTS, "mesh mode is enabled, the private Service has no ClusterIP"
    return Reason.PROBE_FAILING, _met(service)


def _of(*pods: PodTracker) -> str:
    """Return how many requests these have, and how many they may have at a time."""
    return f"{sum(pod.in_flight for pod in pods)}/{sum(pod.limit for pod in pods)}"


def _met(pod: PodTracker | None) -> str:
    """Return what the last probe met, or nothing."""
    if pod is None or not pod.probe.error:
        return ""
    return f"{'ClusterIP ' if pod.is_service else ''}{pod.address}: {pod.probe.error}"
