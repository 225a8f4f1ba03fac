"""The reasons why a Service is not as it asks for: one table with one row each."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple

from activator.plain.service import Refusal
from activator.scale.decisions.plan import Hold
from activator.scale.workloads.replicas import Problem
from activator.scale.workloads.services import TargetProblem


class Reason(Enum):
    """Why something is not as a Service asks for it; the value is the word that people read."""

    # The routes takeover and front.
    PORTS_EXHAUSTED = "ports-exhausted"
    PORT_CONFLICT = "port-conflict"
    SLICE_FORBIDDEN = "slice-forbidden"
    SLICE_REFUSED = "slice-refused"
    SLICE_NAME_TAKEN = "slice-name-taken"
    SLICE_CONTESTED = "slice-contested"
    NO_ACTIVATORS = "no-activators"
    NODE_WITHOUT_ACTIVATOR = "node-without-activator"
    FRONT_HAS_SELECTOR = "front-has-selector"
    STALE_SLICES = "stale-slices"
    # The Service itself.
    TAKEOVER_CANNOT_LIMIT = Refusal.TAKEOVER_CANNOT_LIMIT.value
    WRONG_PODS_SERVICE = Refusal.WRONG_PODS_SERVICE.value
    SERVICE_REFUSED = "service-refused"
    SERVICE_WARNING = "service-warning"
    # Other components that write replicas.
    TWO_OWNERS = "two-owners"
    OWNER_UNREADABLE = "owner-unreadable"
    HPA_CANNOT_WAKE = "hpa-cannot-wake"
    HPA_MISSING = "hpa-missing"
    SCALED_OBJECT_MISSING = "scaled-object-missing"
    SCALED_OBJECT_PAUSED = "scaled-object-paused"
    SCALE_IN_PAUSED = "scale-in-paused"
    KEDA_TRIGGER_MISSING = "keda-trigger-missing"
    LOAD_UNSEEN = "load-unseen"
    REPLICAS_RESET = "replicas-reset"


class Finding(NamedTuple):
    """One thing that a user must know about a Service.

    Attributes:
        note: for people: the fact first, then the remedy.
    """

    reason: Reason
    note: str


SERVICE_REFUSED: Final = "service-refused"
REPLICAS_UNKNOWN: Final = "replicas-unknown"

#: By the reason's word, for the API, the log and the metrics.
SENTENCES: Final[Mapping[str, str]] = {
    SERVICE_REFUSED: "the Service cannot be buffered",
    REPLICAS_UNKNOWN: "the scaler has not read the replicas of the workload yet",
    TargetProblem.NONE.value: "the Service has no workload that can be scaled",
    TargetProblem.SEVERAL.value: "the Service's selector matches several workloads",
    TargetProblem.UNKNOWN_KIND.value: "the kind of the target is unknown",
    Problem.CONFLICT.value: "other components change the workload again and again",
    Problem.FORBIDDEN.value: "the scaler's role lacks a rule",
    Problem.MISSING.value: "the workload does not exist, or has no scale subresource",
    Problem.REFUSED.value: "the API server refuses the number of replicas",
    Problem.UNAVAILABLE.value: "the API server does not respond, or responds with an error",
    Hold.TWO_OWNERS.value: "another component, or an older Service, scales the same workload",
    Hold.LOAD_UNKNOWN.value: "no activator reports, or one was just lost: no replica is removed",
    Hold.STALE.value: "the watch of the API server fails, so no replica is removed",
    Hold.NEW_LEADER.value: "this scaler has led for less than 60 s, so no replica is removed",
    Hold.NO_SLICE.value: "no activator is an endpoint of the Service yet, so the last pod stays",
    Hold.CLOSING.value: "the activators take over before the last pod goes",
    Hold.PAUSED.value: "KEDA's ScaledObject is paused, so no pod starts for a request",
    Hold.RETRY.value: "the last request for replicas was less than 2 s ago",
}

#: Reasons that are part of normal work: no line of the log.
QUIET: Final = frozenset(
    {"", REPLICAS_UNKNOWN, Hold.CLOSING.value, Hold.RETRY.value, Hold.NEW_LEADER.value}
)

#: Reasons that keep pods from starting. With each other one, the first request starts a pod.
CAUSES: Final = frozenset(
    {
        *(SERVICE_REFUSED, Reason.WRONG_PODS_SERVICE.value, Reason.REPLICAS_RESET.value),
        *(TargetProblem.NONE.value, TargetProblem.SEVERAL.value, TargetProblem.UNKNOWN_KIND.value),
        *(Problem.CONFLICT.value, Problem.FORBIDDEN.value, Problem.MISSING.value),
        *(Problem.REFUSED.value, Problem.UNAVAILABLE.value, Hold.PAUSED.value),
    }
)


def two_owners(other: str) -> str:
    """Return what it means that another component scales the workload.

    Arguments:
        other: the component, as in ``HorizontalPodAutoscaler hello``; an older Service of the
            workload as in ``Service shop/hello``.
    """
    if other.startswith("Service "):
        return (
            f"{other} has the same workload and is older, so its annotations decide: this Service "
            f"adds and removes no replicas, but its first request starts the workload; remove "
            f"activator.dev/enabled from one of them"
        )
    return (
        f"{other} scales the same workload, so no replica is removed; delete it, or name it in "
        f"the annotation activator.dev/owner"
    )


def text(reason: str, detail: str) -> str:
    """Return a reason for people, with the detail if there is one."""
    return detail or SENTENCES.get(reason, reason)
