"""Which rule decides whether a pod is used: a closed set, each with a sentence for people.

Pure, and for people alone: it reads what the throttler has decided and decides
nothing itself. Knative has no counterpart: what its activator thinks of a pod is in its log, if at
all.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from throttler.health import PodState
from throttler.model import ReadinessRule, RevisionID
from throttler.pod import PodTracker


class Decision(Enum):
    """What follows for requests: USE it, WAIT until it may be used, or LEAVE it alone."""

    USE = "use"
    WAIT = "wait"
    LEAVE = "leave"


class Rule(Enum):
    """What decides. Those that a ReadinessRule has as well demand Kubernetes' word besides ours.

    None has the name of a Reason: a rule is about one pod, a reason about a request.
    """

    PROBE_PASSED = "probe-passed"
    KUBERNETES_READY = "kubernetes-ready"
    EXEC_READINESS_PROBE = "exec-readiness-probe"
    STARTUP_PROBE = "startup-probe"
    KUBERNETES_POLICY = "kubernetes-policy"
    AWAITING_PROBE = "awaiting-probe"
    PROBE_FAILED = "probe-failed"
    ANSWERED_BADLY = "answered-badly"
    ON_TRIAL = "on-trial"
    BEYOND_SHARE = "beyond-share"
    MESH = "mesh"
    DELISTED = "delisted"
    TAKEN = "taken"


class Verdict(NamedTuple):
    """What follows for a pod, and from which rule.

    Attributes:
        sentence: the same for people; names no pod, so that pods with one verdict have one
            sentence.
    """

    decision: Decision
    rule: Rule
    sentence: str


_USE, _WAIT, _LEAVE = Decision

_PROBE_PASSED: Final = Verdict(
    *(_USE, Rule.PROBE_PASSED),
    "Used: our own probe passed, which is enough for this revision, whatever Kubernetes says.",
)
_KUBERNETES_READY: Final = Verdict(
    *(_USE, Rule.KUBERNETES_READY),
    "Used: Kubernetes lists it as ready, which is enough where mesh-compatibility-mode is "
    "disabled.",
)
_ANSWERED_BADLY: Final = Verdict(
    _WAIT,
    Rule.ANSWERED_BADLY,
    "Waits: queue-proxy gave back a request that its application had nothing of, or the "
    "application answered 502 or 503 several times in a row. It is left alone for a moment, then "
    "used as soon as a probe passes.",
)
_ON_TRIAL: Final = Verdict(
    *(_USE, Rule.ON_TRIAL),
    "Used for one request more than it has, until one is answered well: its answers spoke against "
    "it.",
)
_BORROWED: Final = Verdict(
    *(_USE, Rule.BEYOND_SHARE),
    "Used once all pods of our own share are full: it belongs to another activator's.",
)
_OF_OTHERS: Final = Verdict(
    *(_LEAVE, Rule.BEYOND_SHARE),
    "Left to the activator to whose share it belongs, since borrowing is off.",
)
_AWAITING_PROBE: Final = Verdict(
    *(_WAIT, Rule.AWAITING_PROBE),
    "Waits for an answer to our own probe: there is none since Kubernetes lists it as it does.",
)
_PROBE_FAILED: Final = Verdict(
    *(_WAIT, Rule.PROBE_FAILED),
    "Waits: our last probe of it, or a connection for a request, failed. It is used as soon as a "
    "probe passes.",
)
_MESH: Final = Verdict(
    *(_LEAVE, Rule.MESH),
    "Left alone: mesh-compatibility-mode is enabled, so requests go to the ClusterIP and pods are "
    "not probed.",
)
_DELISTED: Final = Verdict(
    *(_LEAVE, Rule.DELISTED),
    "Left alone: Kubernetes lists it no more. The requests that it has may finish.",
)

_TAKEN: Final = Verdict(
    *(_LEAVE, Rule.TAKEN),
    "Left alone: another revision, NAMESPACE/NAME, lists this address for another pod. Whoever has "
    "listed it last has it.",
)

#: Why Kubernetes also has to list a pod as ready.
_BLIND: Final = {
    ReadinessRule.EXEC_READINESS_PROBE: "a container has an exec readiness probe, which "
    "queue-proxy cannot run",
    ReadinessRule.STARTUP_PROBE: "a container has a startup probe, which queue-proxy does not run",
    ReadinessRule.KUBERNETES_POLICY: "the readiness policy of the revision is kubernetes",
}
_BOTH_SAY_YES: Final = {
    readiness: Verdict(
        *(_USE, Rule(readiness.value)),
        "Used: our own probe passed, and Kubernetes lists the pod as ready. Both count here "
        f"because {why}.",
    )
    for readiness, why in _BLIND.items()
}
_KUBERNETES_SAYS_NO: Final = {
    readiness: Verdict(
        *(_WAIT, Rule(readiness.value)),
        "Waits: our own probe passed, but Kubernetes does not list the pod as ready. Its readiness "
        f"counts here because {why}.",
    )
    for readiness, why in _BLIND.items()
}

#: All that there are, in the order of the rules.
VERDICTS: Final[tuple[Verdict, ...]] = (
    *(_PROBE_PASSED, _KUBERNETES_READY),
    *(both[readiness] for readiness in _BLIND for both in (_BOTH_SAY_YES, _KUBERNETES_SAYS_NO)),
    *(
        _AWAITING_PROBE,
        _PROBE_FAILED,
        _ANSWERED_BADLY,
        _ON_TRIAL,
        _BORROWED,
        _OF_OTHERS,
        _MESH,
        _DELISTED,
        _TAKEN,
    ),
)


def verdict(pod: PodTracker) -> Verdict:
    """Return what follows for a pod, or for the ClusterIP, at this moment."""
    revision, reach = pod.config.revision, pod.config.reach
    if pod.state in (PodState.DRAINING, PodState.GONE):
        return _DELISTED if pod.taken_by is None else _taken(pod.taken_by)
    if pod.in_use:
        return _of_use(pod)
    if not (reach.pods or pod.is_service):
        return _MESH
    if pod.state is PodState.HEALTHY:
        if pod.ready or revision.probe_suffices:
            return _OF_OTHERS
        return _KUBERNETES_SAYS_NO[revision.readiness]
    if pod.ejection.active:
        return _ANSWERED_BADLY
    return _PROBE_FAILED if pod.probe.failures else _AWAITING_PROBE


def _taken(owner: RevisionID) -> Verdict:
    return _TAKEN._replace(sentence=_TAKEN.sentence.replace("NAMESPACE/NAME", str(owner)))


def _of_use(pod: PodTracker) -> Verdict:
    revision, reach = pod.config.revision, pod.config.reach
    if pod.ejection.half_open:
        return _ON_TRIAL
    if not pod.in_share:
        return _BORROWED
    if pod.is_service or (revision.probe_suffices and not reach.trusted):
        return _PROBE_PASSED
    if reach.trusted and pod.ready:
        return _KUBERNETES_READY
    return _BOTH_SAY_YES.get(revision.readiness, _PROBE_PASSED)
