"""Has one sentence for each reason why a Service is not scaled as its load asks for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from activator.scale.decisions.findings import Reason
from activator.scale.decisions.plan import Hold
from activator.scale.workloads.subresource import Problem
from activator.scale.workloads.targets import TargetProblem

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
