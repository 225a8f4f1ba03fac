"""Has the remedy for each reason why a Service is not scaled, for the scaler's page.

The meaning is in ``reasons`` and in the notes of findings. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final, NamedTuple

from activator.scale.decisions import reasons
from activator.scale.decisions.plan import Hold
from activator.scale.decisions.reasons import Reason
from activator.scale.workloads.replicas import Problem
from activator.scale.workloads.services import TargetProblem

_DESCRIBE: Final = "kubectl -n {namespace} describe service {name}"
_ANNOTATE: Final = "kubectl -n {namespace} annotate service {name} --overwrite activator.dev/"
_OTHERS: Final = "kubectl -n {namespace} get hpa,scaledobject"
_LEADER_LOG: Final = "kubectl -n {system} logs -l activator.dev/leader=true"
_ACTIVATORS: Final = (
    "kubectl -n {system} get endpointslices -l kubernetes.io/service-name=activator-service"
)


class Advice(NamedTuple):
    """What to do.

    Attributes:
        text: one or two sentences.
        commands: to copy; ``{namespace}`` and ``{name}`` are the Service's, ``{system}`` is the
            scaler's namespace.
    """

    text: str
    commands: tuple[str, ...] = ()


def _event(text: str) -> Advice:
    return Advice(text, (_DESCRIBE,))


#: By the reason's word.
ADVICE: Final[Mapping[str, Advice]] = {
    reasons.SERVICE_REFUSED: _event("Correct the Service, or remove activator.dev/enabled."),
    reasons.REPLICAS_UNKNOWN: Advice("This ends within seconds."),
    TargetProblem.NONE.value: Advice(
        "Create the workload, or name another object in activator.dev/target.",
        (
            "kubectl -n {namespace} get deployments,statefulsets --show-labels",
            f"{_ANNOTATE}target=deployment/NAME",
        ),
    ),
    TargetProblem.SEVERAL.value: Advice(
        "Name one workload in activator.dev/target.", (f"{_ANNOTATE}target=deployment/NAME",)
    ),
    TargetProblem.UNKNOWN_KIND.value: Advice(
        "Correct activator.dev/target: GROUP/VERSION/KIND/NAME.", ("kubectl api-resources",)
    ),
    Problem.CONFLICT.value: Advice(
        "Find the component that changes the workload: the last field manager of spec.replicas.",
        ("kubectl -n {namespace} get deployment NAME -o yaml --show-managed-fields",),
    ),
    Problem.FORBIDDEN.value: _event("Add the missing rule, which the Event shows, to the role."),
    Problem.MISSING.value: Advice(
        "Create the workload. Its kind needs a scale subresource.",
        ("kubectl -n {namespace} get deployments,statefulsets",),
    ),
    Problem.REFUSED.value: _event(
        "Correct what refuses the number of replicas: often an admission webhook."
    ),
    Problem.UNAVAILABLE.value: Advice(
        "The scaler tries again until the API server responds.", (_LEADER_LOG,)
    ),
    Hold.TWO_OWNERS.value: Advice(
        "Delete the HPA or ScaledObject, or name it in activator.dev/owner. Of two Services with "
        "one workload, only the older one should have activator.dev/enabled.",
        (_OTHERS, f"{_ANNOTATE}owner=hpa"),
    ),
    Hold.LOAD_UNKNOWN.value: Advice(
        "This ends 30 s after all activators report. Check that they run.", (_ACTIVATORS,)
    ),
    Hold.STALE.value: Advice(
        "This ends when the watch of the API server works again.", (_LEADER_LOG,)
    ),
    Hold.NEW_LEADER.value: Advice("This ends 60 s after this scaler began to lead."),
    Hold.NO_SLICE.value: Advice(
        "This ends when the takeover slice lists an activator. Check that activators are ready.",
        (_ACTIVATORS,),
    ),
    Hold.CLOSING.value: Advice("This ends after at most 60 s."),
    Hold.RETRY.value: Advice("The scaler sends the next request within 2 s."),
    Reason.PORTS_EXHAUSTED.value: Advice(
        "Widen --takeover-ports, or use route shared.", (f"{_ANNOTATE}route=shared",)
    ),
    Reason.PORT_CONFLICT.value: Advice("The scaler allots another port. Nothing is to be done."),
    Reason.SLICE_FORBIDDEN.value: _event("Add the missing rule, which the Event shows."),
    Reason.SLICE_REFUSED.value: _event("Correct what refuses the takeover slice."),
    Reason.SLICE_NAME_TAKEN.value: Advice(
        "Rename or delete the EndpointSlice that has the name of the takeover slice.",
        ("kubectl -n {namespace} get endpointslices",),
    ),
    Reason.SLICE_CONTESTED.value: _event(
        "Find the component that changes the takeover slice: the Event has the command."
    ),
    Reason.NO_ACTIVATORS.value: Advice("Check that activators are ready.", (_ACTIVATORS,)),
    Reason.NODE_WITHOUT_ACTIVATOR.value: Advice(
        "Run an activator on each node, as a DaemonSet does, or use route shared.",
        (_ACTIVATORS, f"{_ANNOTATE}route=shared"),
    ),
    Reason.TAKEOVER_CANNOT_LIMIT.value: _event("Use route front, or remove the limit."),
    Reason.WRONG_PODS_SERVICE.value: _event("Name a Service that has the selector of the pods."),
    Reason.FRONT_HAS_SELECTOR.value: _event("Remove spec.selector: the Event has the command."),
    Reason.STALE_SLICES.value: _event("The scaler deletes them, as does the Event's command."),
    Reason.SERVICE_WARNING.value: _event("The Service works, with this limit."),
    Reason.OWNER_UNREADABLE.value: _event("Add the missing rule, which the Event shows."),
    Reason.HPA_CANNOT_WAKE.value: Advice(
        "Set minReplicas to 0, and use a metric of type Object or External.", (_OTHERS,)
    ),
    Reason.HPA_MISSING.value: Advice("Create an HPA that targets the workload.", (_OTHERS,)),
    Reason.SCALED_OBJECT_MISSING.value: Advice(
        "Create a ScaledObject that targets the workload.", (_OTHERS,)
    ),
    Reason.SCALED_OBJECT_PAUSED.value: Advice(
        "Remove the annotation that pauses the ScaledObject.",
        (
            "kubectl -n {namespace} annotate scaledobject NAME "
            "autoscaling.keda.sh/paused- autoscaling.keda.sh/paused-replicas- "
            "autoscaling.keda.sh/paused-scale-out-",
        ),
    ),
    Reason.SCALE_IN_PAUSED.value: Advice(
        "Remove the annotation, so that the workload sleeps again.",
        ("kubectl -n {namespace} annotate scaledobject NAME autoscaling.keda.sh/paused-scale-in-",),
    ),
    Reason.KEDA_TRIGGER_MISSING.value: Advice(
        "Add a trigger of type external-push for this Service.", (_OTHERS,)
    ),
    Reason.LOAD_UNSEEN.value: Advice(
        "Add a trigger or a metric of the pods' own load, or set a concurrency limit.",
        (f"{_ANNOTATE}container-concurrency=10",),
    ),
    Reason.REPLICAS_RESET.value: _event(
        "Leave spec.replicas out of the manifest that the other program applies."
    ),
}


def script() -> str:
    """Return the source of the page's module ``reasons.js``."""
    rows = {
        word: {
            "meaning": reasons.SENTENCES.get(word, ""),
            "quiet": word in reasons.QUIET,
            "advice": advice.text,
            "commands": advice.commands,
        }
        for word, advice in ADVICE.items()
    }
    return f"export const REASONS = {json.dumps(rows, indent=2)};\n"
