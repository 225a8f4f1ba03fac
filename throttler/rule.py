"""Which rule decides whether a pod is used: a small closed set, each with a sentence for people.

Pure, and for people alone: it reads what the roster and the throttler have decided and decides
nothing itself. Knative has no counterpart: what its activator thinks of a pod is in its log, if at
all.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from throttler.health import PodState
from throttler.model import ReadinessRule
from throttler.pod import PodTracker


class Decision(Enum):
    """What follows for requests: USE it, WAIT until it may be used, or LEAVE it alone."""

    USE = "use"
    WAIT = "wait"
    LEAVE = "leave"


class Rule(Enum):
    """What decides. Those that a ReadinessRule has as well demand Kubernetes' word besides ours."""

    PROBE_PASSED = "probe-passed"
    KUBERNETES_READY = "kubernetes-ready"
    EXEC_READINESS_PROBE = "exec-readiness-probe"
    STARTUP_PROBE = "startup-probe"
    SIDECAR_READINESS_PROBE = "sidecar-readiness-probe"
    KUBERNETES_POLICY = "kubernetes-policy"
    AWAITING_PROBE = "awaiting-probe"
    PROBE_FAILING = "probe-failing"
    BEYOND_SHARE = "beyond-share"
    MESH = "mesh"
    DRAINING = "draining"


class Verdict(NamedTuple):
    """What follows for a pod, and from which rule."""

    decision: Decision
    rule: Rule

    @property
    def sentence(self) -> str:
        """The same for people; names no pod, so that pods with one verdict have one sentence."""
        return SENTENCES[self]


_USE, _WAIT, _LEAVE = Decision

#: Why Kubernetes has the last word, by rule.
_BLIND = {
    Rule.EXEC_READINESS_PROBE: "a container has an exec readiness probe, which queue-proxy "
    "cannot run",
    Rule.STARTUP_PROBE: "a container has a startup probe, in which queue-proxy has no part",
    Rule.SIDECAR_READINESS_PROBE: "a sidecar has a readiness probe, which queue-proxy may not ask",
    Rule.KUBERNETES_POLICY: "the readiness policy of the revision says so",
}

#: Every verdict that there is. A pair that is absent cannot happen.
SENTENCES: dict[tuple[Decision, Rule], str] = {
    (_USE, Rule.PROBE_PASSED): "Used: our own probe passed, which is enough for this revision, "
    "whatever Kubernetes says.",
    (_USE, Rule.KUBERNETES_READY): "Used: Kubernetes lists it as ready, which is enough where "
    "mesh-compatibility-mode is disabled.",
    (_USE, Rule.BEYOND_SHARE): "Used once all pods of our own share are full: it belongs to "
    "another activator's.",
    (_LEAVE, Rule.BEYOND_SHARE): "Left to the activator to whose share it belongs, since "
    "borrowing is off.",
    (_WAIT, Rule.AWAITING_PROBE): "Waits for an answer to our own probe: there is none since "
    "Kubernetes lists it as it does.",
    (_WAIT, Rule.PROBE_FAILING): "Waits: our last probe of it, or a connection for a request, "
    "failed. It is used as soon as a probe passes.",
    (_LEAVE, Rule.MESH): "Left alone: mesh-compatibility-mode is enabled, so requests go to the "
    "ClusterIP and pods are not probed.",
    (_LEAVE, Rule.DRAINING): "Left alone: Kubernetes lists it no more. The requests that it has "
    "may finish.",
}
for _rule, _why in _BLIND.items():
    SENTENCES[_USE, _rule] = (
        f"Used: our own probe passed, and Kubernetes lists it as ready, which counts since {_why}."
    )
    SENTENCES[_WAIT, _rule] = (
        f"Waits: our own probe passed, but Kubernetes does not list it as ready, which counts "
        f"since {_why}."
    )


def verdict(pod: PodTracker) -> Verdict:
    """Return what follows for a pod, or for the ClusterIP, at this moment."""
    revision = pod.revision
    if pod.state in (PodState.DRAINING, PodState.GONE):
        return Verdict(_LEAVE, Rule.DRAINING)
    if pod.bit:
        return Verdict(_USE, _rule_of_use(pod) if pod.in_slice else Rule.BEYOND_SHARE)
    if not (revision.reach.pods or pod.is_service):
        return Verdict(_LEAVE, Rule.MESH)
    if pod.state is PodState.HEALTHY:
        if pod.ready or revision.revision.probe_suffices:
            return Verdict(_LEAVE, Rule.BEYOND_SHARE)
        return Verdict(_WAIT, Rule(revision.revision.readiness.value))
    return Verdict(_WAIT, Rule.PROBE_FAILING if pod.failures else Rule.AWAITING_PROBE)


def _rule_of_use(pod: PodTracker) -> Rule:
    readiness = pod.revision.revision.readiness
    if pod.is_service:
        return Rule.PROBE_PASSED
    if pod.revision.reach.trusted and pod.ready:
        return Rule.KUBERNETES_READY
    return Rule.PROBE_PASSED if readiness is ReadinessRule.PROBE else Rule(readiness.value)
