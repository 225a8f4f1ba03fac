"""Why a request waits, or got an answer of our own: a small closed set of words.

What a waiting request waits for follows from the throttler's state alone. Pure. Each word has a
page in docs/reasons. Knative has no counterpart: there every cause is "activator request timeout".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from enum import Enum
from itertools import islice
from typing import TYPE_CHECKING, Final

from throttler.health import PodState

if TYPE_CHECKING:  # a revision asks for its reason
    from throttler.pod import PodTracker
    from throttler.revision import RevisionThrottler


_DRAINING, _HEALTHY = PodState.DRAINING, PodState.HEALTHY
#: Revisions that a detail names as those that have taken addresses.
_TAKERS: Final = 3


class Reason(Enum):
    """Why a request has no pod (yet), or got our own answer; the first six are of waiting."""

    AUTOSCALER_UNREACHABLE = "autoscaler-unreachable"
    NO_ENDPOINTS = "no-endpoints"
    PODS_NOT_READY = "pods-not-ready"
    PROBE_FAILING = "probe-failing"
    BAD_ANSWERS = "bad-answers"
    AT_CAPACITY = "at-capacity"
    QUEUE_FULL = "queue-full"
    WAIT_TOO_LONG = "wait-too-long"
    RESPONSE_LATE = "response-late"
    UPSTREAM_FAILED = "upstream-failed"
    DRAINING = "draining"
    UNKNOWN_REVISION = "unknown-revision"
    BAD_REQUEST = "bad-request"


#: Each word in a sentence, for people.
MEANINGS: Final[Mapping[Reason, str]] = {
    Reason.AUTOSCALER_UNREACHABLE: (
        "Kubernetes lists no pod of this revision, and the autoscaler, which has one made, cannot "
        "be reached."
    ),
    Reason.NO_ENDPOINTS: "Kubernetes lists no pod of this revision.",
    Reason.PODS_NOT_READY: "Pods are listed, but none may be used yet.",
    Reason.PROBE_FAILING: (
        "Kubernetes lists pods as ready, but the activator's own probe of them fails."
    ),
    Reason.BAD_ANSWERS: (
        "Pods answer the activator's own probe, but their answers to requests speak against them."
    ),
    Reason.AT_CAPACITY: "All pods have as many requests as they may have at a time.",
    Reason.QUEUE_FULL: "The activator holds as much as it may.",
    Reason.WAIT_TOO_LONG: "The wait would be longer than the request may take.",
    Reason.RESPONSE_LATE: "A pod was given the request and did not begin to answer in time.",
    Reason.UPSTREAM_FAILED: "The pod failed with the request in its hands.",
    Reason.DRAINING: "This activator ends before it could serve the request.",
    Reason.UNKNOWN_REVISION: "No such revision is known.",
    Reason.BAD_REQUEST: "The request is malformed, or larger than allowed.",
}


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
        if revision.roster.misnamed:  # as by hand: Knative's controllers name them alike
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
    out = next((pod for pod in pods if pod.complained and (pod.ready or suffices)), None)
    if out is not None:
        return Reason.BAD_ANSWERS, _met(out)
    failing = next((pod for pod in pods if pod.last_error and pod.ready), None)
    if failing is not None:
        both = filter(None, (_met(failing), _met(service)))
        return Reason.PROBE_FAILING, "; ".join(both)
    return Reason.PODS_NOT_READY, _met(next((pod for pod in pods if pod.last_error), None))


def _taken(revision: RevisionThrottler) -> str:
    """Return who has the addresses that are listed for this revision; empty if nobody has."""
    by = Counter(str(pod.taken_by) for pod in revision.roster.taken.values())
    said = (f"{n} address{'' if n == 1 else 'es'} taken by {owner}" for owner, n in by.items())
    return ", ".join(islice(said, _TAKERS))


def _misnamed(revision: RevisionThrottler) -> str:
    """Return which name the port of the addresses that are listed should have."""
    count, protocol = revision.roster.misnamed, revision.revision.protocol
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
    if pod is None or not pod.last_error:
        return ""
    return f"{'ClusterIP ' if pod.is_service else ''}{pod.address}: {pod.last_error}"
