"""Why a request waits: a small closed set, from the throttler's state alone.

Pure. Knative has no counterpart: there every cause is "activator request timeout".
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import TYPE_CHECKING

from throttler.health import PodState

if TYPE_CHECKING:  # a revision asks for its reason
    from throttler.pod import PodTracker
    from throttler.revision import RevisionThrottler


class Reason(Enum):
    """Why a request has no pod (yet), or got our own answer."""

    NO_ENDPOINTS = "no-endpoints"
    PODS_NOT_READY = "pods-not-ready"
    PROBE_FAILING = "probe-failing"
    AT_CAPACITY = "at-capacity"
    QUEUE_FULL = "queue-full"
    UNKNOWN_REVISION = "unknown-revision"
    UPSTREAM_FAILED = "upstream-failed"
    DRAINING = "draining"
    BAD_REQUEST = "bad-request"
    RESPONSE_LATE = "response-late"


def waiting_reason(revision: RevisionThrottler) -> tuple[Reason, str]:
    """Return why a request of this revision would wait now, and a detail, often empty.

    Pods that passed our probe but that Kubernetes does not list as ready, where its word counts,
    outrank pods that fail our probe: they are the nearer to serving.
    """
    pods = [pod for pod in revision.pods() if pod.state is not PodState.DRAINING]
    if not pods:
        return Reason.NO_ENDPOINTS, ""
    service = revision.service
    if service is not None and service.bit:
        return Reason.AT_CAPACITY, f"{revision.in_flight}/{service.limit}"
    if not revision.reach.pods:
        return _service_reason(service, pods)
    healthy = [pod for pod in pods if pod.state is PodState.HEALTHY]
    if not healthy:
        failing = next((pod for pod in pods if pod.last_error), None)
        if failing is None or not any(pod.ready for pod in pods):
            return Reason.PODS_NOT_READY, _met(failing)
        both = filter(None, (_met(failing), _met(service)))
        return Reason.PROBE_FAILING, "; ".join(both)
    if not any(pod.bit for pod in healthy):
        return Reason.PODS_NOT_READY, "probe passed, not listed as ready"
    limit = sum(pod.limit for pod in healthy if pod.bit)
    return Reason.AT_CAPACITY, f"{revision.in_flight}/{limit}"


def _service_reason(service: PodTracker | None, pods: Iterable[PodTracker]) -> tuple[Reason, str]:
    """Return why a request waits where the ClusterIP is the only way."""
    if not any(pod.ready for pod in pods):
        return Reason.PODS_NOT_READY, ""
    if service is None:
        return Reason.NO_ENDPOINTS, "mesh mode is enabled, the private Service has no ClusterIP"
    return Reason.PROBE_FAILING, _met(service)


def _met(pod: PodTracker | None) -> str:
    """Return what the last probe met, or nothing."""
    if pod is None or not pod.last_error:
        return ""
    return f"{'ClusterIP ' if pod.is_service else ''}{pod.address}: {pod.last_error}"
