"""The rule that decides whether a pod is used: a closed set, each with a sentence for people.

Pure, and for people alone: it reads the throttler's decisions and makes none. Knative has no
counterpart: at most, the log of its activator shows the state of a pod.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from throttler.model import ReadinessRule, RevisionID
from throttler.pod import PodState, PodTracker


class PodDecision(Enum):
    """The effect on requests: USE the pod, WAIT until it is usable, or LEAVE it unused."""

    USE = "use"
    WAIT = "wait"
    LEAVE = "leave"


class PodRule(Enum):
    """The rules. The names of a ReadinessRule mean that Kubernetes must also list the pod as ready.

    None has the name of a Reason: a rule is about one pod, a reason about a request.
    """

    PROBE_PASSED = "probe-passed"
    KUBERNETES_READY = "kubernetes-ready"
    EXEC_READINESS_PROBE = "exec-readiness-probe"
    STARTUP_PROBE = "startup-probe"
    SIDECAR_READINESS_PROBE = "sidecar-readiness-probe"
    KUBERNETES_POLICY = "kubernetes-policy"
    NO_PROBE = "no-probe"
    AWAITING_PROBE = "awaiting-probe"
    PROBE_FAILED = "probe-failed"
    ANSWERED_BADLY = "answered-badly"
    ON_TRIAL = "on-trial"
    BEYOND_SHARE = "beyond-share"
    MESH = "mesh"
    WORKLOAD_SLEEPS = "workload-sleeps"
    DELISTED = "delisted"
    TERMINATING = "terminating"
    TAKEN = "taken"


class PodVerdict(NamedTuple):
    """The decision about a pod, and the rule that caused it.

    Attributes:
        sentence: the same for people; names no pod, so that pods with one verdict have one
            sentence.
    """

    decision: PodDecision
    rule: PodRule
    sentence: str


_USE, _WAIT, _LEAVE = PodDecision

_PROBE_PASSED: Final = PodVerdict(
    _USE,
    PodRule.PROBE_PASSED,
    "Used: it passed the activator's own probe. That is enough, whether Kubernetes lists it as "
    "ready or not.",
)
_KUBERNETES_READY: Final = PodVerdict(
    _USE,
    PodRule.KUBERNETES_READY,
    "Used: Kubernetes lists it as ready, which is enough because mesh-compatibility-mode is "
    "disabled.",
)
_ANSWERED_BADLY: Final = PodVerdict(
    _WAIT,
    PodRule.ANSWERED_BADLY,
    "Waits: it is ejected. queue-proxy refused a request before its application got it, or the "
    "application responded 502 or 503 several times in a row. It is used again when a probe "
    "passes after the ejection.",
)
_ON_TRIAL: Final = PodVerdict(
    _USE,
    PodRule.ON_TRIAL,
    "Used, but half-open after an ejection: it gets one request more than it has, until it "
    "responds well to one.",
)
_BORROWED: Final = PodVerdict(
    _USE,
    PodRule.BEYOND_SHARE,
    "Used once all pods of this activator's share are full: it is in the share of another "
    "activator.",
)
_OF_OTHERS: Final = PodVerdict(
    _LEAVE,
    PodRule.BEYOND_SHARE,
    "Not used: it is in the share of another activator, and borrowing is off.",
)
_AWAITING_PROBE: Final = PodVerdict(
    _WAIT,
    PodRule.AWAITING_PROBE,
    "Waits for the activator's own probe: none has ended since Kubernetes lists it as it does.",
)
_PROBE_FAILED: Final = PodVerdict(
    _WAIT,
    PodRule.PROBE_FAILED,
    "Waits: the activator's last probe of it, or a connection for a request, failed. It is used "
    "when a probe passes.",
)
_MESH: Final = PodVerdict(
    _LEAVE,
    PodRule.MESH,
    "Not used: mesh-compatibility-mode is enabled, so requests go to the ClusterIP and the "
    "activator does not probe pods.",
)
_SLEEPS: Final = PodVerdict(
    _WAIT,
    PodRule.WORKLOAD_SLEEPS,
    "Waits, without probes: its Service has the annotation activator.dev/asleep, so the workload "
    "sleeps, or has not confirmed yet that it is awake.",
)
_DELISTED: Final = PodVerdict(
    _LEAVE,
    PodRule.DELISTED,
    "Not used: Kubernetes no longer lists it. Its requests in flight may finish.",
)

_TAKEN: Final = PodVerdict(
    _LEAVE,
    PodRule.TAKEN,
    "Not used: another revision, NAMESPACE/NAME, lists this address for another pod. The revision "
    "that listed it last owns it.",
)

_LAST_RESORT: Final = PodVerdict(
    _USE,
    PodRule.TERMINATING,
    "Used although it terminates: Kubernetes lists no other pod, and this one still serves.",
)
_LISTED: Final = PodVerdict(
    _USE,
    PodRule.NO_PROBE,
    "Used: Kubernetes lists it as ready, which is enough because the activator does not probe it.",
)
_NOT_LISTED: Final = PodVerdict(
    _WAIT,
    PodRule.NO_PROBE,
    "Waits: Kubernetes does not list it as ready, and the activator does not probe it.",
)

#: Why Kubernetes also has to list a pod as ready.
_BLIND: Final = {
    ReadinessRule.EXEC_READINESS_PROBE: "a container has an exec readiness probe, which only "
    "kubelet can run",
    ReadinessRule.STARTUP_PROBE: "a container has a startup probe, which only kubelet runs",
    ReadinessRule.SIDECAR_READINESS_PROBE: "another container has a readiness probe of its own",
    ReadinessRule.KUBERNETES_POLICY: "the readiness policy of the revision is kubernetes",
}
_BOTH_SAY_YES: Final = {
    readiness: PodVerdict(
        _USE,
        PodRule(readiness.value),
        "Used: it passed the activator's own probe, and Kubernetes lists it as ready. Both count "
        f"because {why}.",
    )
    for readiness, why in _BLIND.items()
}
_KUBERNETES_SAYS_NO: Final = {
    readiness: PodVerdict(
        _WAIT,
        PodRule(readiness.value),
        "Waits: it passed the activator's own probe, but Kubernetes does not list it as ready. Its "
        f"readiness counts because {why}.",
    )
    for readiness, why in _BLIND.items()
}

#: All verdicts, in the order of the rules.
VERDICTS: Final[tuple[PodVerdict, ...]] = (
    _PROBE_PASSED,
    _KUBERNETES_READY,
    *(both[readiness] for readiness in _BLIND for both in (_BOTH_SAY_YES, _KUBERNETES_SAYS_NO)),
    _LISTED,
    _NOT_LISTED,
    _AWAITING_PROBE,
    _PROBE_FAILED,
    _ANSWERED_BADLY,
    _ON_TRIAL,
    _BORROWED,
    _OF_OTHERS,
    _MESH,
    _SLEEPS,
    _DELISTED,
    _LAST_RESORT,
    _TAKEN,
)


def verdict(pod: PodTracker) -> PodVerdict:
    """Return the present verdict about a pod, or about the ClusterIP."""
    revision, reach = pod.config.revision, pod.config.reach
    if pod.state in (PodState.DRAINING, PodState.GONE):
        return _DELISTED if pod.taken_by is None else _taken(pod.taken_by)
    if pod.in_use:
        return _of_use(pod)
    if revision.asleep:
        return _SLEEPS
    if not (reach.pods or pod.is_service):
        return _MESH
    if revision.readiness is ReadinessRule.NO_PROBE and not pod.ready:
        return _NOT_LISTED
    if pod.state is PodState.HEALTHY:
        if pod.ready or revision.probe_suffices:
            return _OF_OTHERS
        return _KUBERNETES_SAYS_NO[revision.readiness]
    if pod.ejection.active:
        return _ANSWERED_BADLY
    return _PROBE_FAILED if pod.probe.failures else _AWAITING_PROBE


def _taken(owner: RevisionID) -> PodVerdict:
    return _TAKEN._replace(sentence=_TAKEN.sentence.replace("NAMESPACE/NAME", str(owner)))


def _of_use(pod: PodTracker) -> PodVerdict:
    revision, reach = pod.config.revision, pod.config.reach
    if pod.ejection.half_open:
        return _ON_TRIAL
    if not pod.in_share:
        return _BORROWED
    if pod.config.last_resort:
        return _LAST_RESORT
    if revision.readiness is ReadinessRule.NO_PROBE:
        return _LISTED
    if pod.is_service or (revision.probe_suffices and not reach.trusted):
        return _PROBE_PASSED
    if reach.trusted and pod.ready:
        return _KUBERNETES_READY
    return _BOTH_SAY_YES.get(revision.readiness, _PROBE_PASSED)
