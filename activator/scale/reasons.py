"""The reasons why a Service is not scaled as it asks for: one table with one row for each.

The API, the log, the metrics, Events and the scaler's page read this table.
"""

from __future__ import annotations

from enum import Flag, StrEnum, auto
from typing import Final, NamedTuple

from throttler.reason import of_connections


class ReasonEffect(Flag):
    """The effect of a reason on the scaler.

    QUIET: it is part of normal work, so the log has no line. KEEPS_ASLEEP: no pod starts; with each
    other reason, the first request starts a pod. LASTING: it stays until a person changes
    something, so it is an Event; each other one is about the whole cluster or ends by itself.
    """

    QUIET = auto()
    KEEPS_ASLEEP = auto()
    LASTING = auto()


_PLAIN: Final = ReasonEffect(0)
_QUIET, _ASLEEP, _LASTING = ReasonEffect

_DESCRIBE: Final = "kubectl -n {namespace} describe service {name}"
_ANNOTATE: Final = "kubectl -n {namespace} annotate service {name} --overwrite activator.dev/"
_OTHERS: Final = "kubectl -n {namespace} get hpa,scaledobject"
_LEADER_LOG: Final = "kubectl -n {system} logs -l activator.dev/leader=true"
_ACTIVATORS: Final = (
    "kubectl -n {system} get endpointslices -l kubernetes.io/service-name=activator-service"
)


class ScaleReason(StrEnum):
    """The words that people read, each with its row; a page of the docs lists them.

    Attributes:
        advice: the remedy, as one or two sentences.
        commands: to copy; ``{namespace}`` and ``{name}`` are the Service's, ``{system}`` is the
            scaler's namespace.
        sentence: the meaning; empty for a reason whose findings have a note of their own.
        effect: its effect on the scaler.
    """

    advice: str
    commands: tuple[str, ...]
    sentence: str
    effect: ReasonEffect

    def __new__(
        cls,
        word: str,
        advice: str = "",
        commands: str = "",
        sentence: str = "",
        effect: ReasonEffect = _PLAIN,
    ) -> ScaleReason:
        reason = str.__new__(cls, word)
        reason._value_, reason.advice, reason.commands = word, advice, tuple(commands.splitlines())
        reason.sentence, reason.effect = sentence, effect
        return reason

    # One row is one block; the formatter would put each value on a line of its own.
    # fmt: off
    SERVICE_REFUSED = (
        "service-refused", "Correct the Service, or remove activator.dev/enabled.", _DESCRIBE,
        "the Service cannot be buffered", _ASLEEP | _LASTING,
    )
    REPLICAS_UNKNOWN = (
        "replicas-unknown", "This ends within seconds.", "",
        "the scaler has not read the replicas of the workload yet", _QUIET,
    )
    NO_SCALABLE_TARGET = (
        "no-scalable-target",
        "Create the workload, or name another object in activator.dev/target.",
        f"kubectl -n {{namespace}} get deployments,statefulsets --show-labels\n"
        f"{_ANNOTATE}target=deployment/NAME",
        "the Service has no workload that can be scaled", _ASLEEP | _LASTING,
    )
    SEVERAL_TARGETS = (
        "several-targets", "Name one workload in activator.dev/target.",
        f"{_ANNOTATE}target=deployment/NAME", "the Service's selector matches several workloads",
        _ASLEEP | _LASTING,
    )
    UNKNOWN_TARGET_KIND = (
        "unknown-target-kind", "Correct activator.dev/target: GROUP/VERSION/KIND/NAME.",
        "kubectl api-resources", "the kind of the target is unknown", _ASLEEP | _LASTING,
    )
    CONFLICT = (
        "conflict",
        "Find the component that changes the workload: the last field manager of spec.replicas.",
        "kubectl -n {namespace} get deployment NAME -o yaml --show-managed-fields",
        "other components change the workload again and again", _ASLEEP | _LASTING,
    )
    SCALE_FORBIDDEN = (
        "scale-forbidden", "Add the missing rule, which the Event shows, to the role.", _DESCRIBE,
        "the scaler's role lacks a rule", _ASLEEP | _LASTING,
    )
    SCALE_TARGET_MISSING = (
        "scale-target-missing", "Create the workload. Its kind needs a scale subresource.",
        "kubectl -n {namespace} get deployments,statefulsets",
        "the workload does not exist, or has no scale subresource", _ASLEEP | _LASTING,
    )
    SCALE_REFUSED = (
        "scale-refused", "Correct what refuses the number of replicas: often an admission webhook.",
        _DESCRIBE, "the API server refuses the number of replicas", _ASLEEP | _LASTING,
    )
    WAKER_REFUSED = (
        "waker-refused", "Correct the annotations that the Event names.", _DESCRIBE,
        "the waker does not fit the other annotations", _ASLEEP | _LASTING,
    )
    WAKER_FAILED = (
        "waker-failed", "Correct what the detail names: the URL, or the server behind it.",
        _DESCRIBE, "a call of the workload's own server failed, or had no effect", _ASLEEP,
    )
    CANNOT_RESIZE = (
        "cannot-resize", "Correct what the Event names, or remove the annotation.", _DESCRIBE,
        "the CPU of a pod cannot be changed", _LASTING,
    )
    NOT_AWAKE_YET = (
        "not-awake-yet", "If it stays so, find out why the workload does not start.", _DESCRIBE,
        "the workload wakes, and has not confirmed that it is awake", _ASLEEP,
    )
    MARK_FAILED = (
        "mark-failed", "Correct what refuses the annotation activator.dev/asleep.", _DESCRIBE,
    )
    API_SERVER_UNAVAILABLE = (
        "api-server-unavailable", "The scaler tries again until the API server responds.",
        _LEADER_LOG, "the API server does not respond, or responds with an error", _ASLEEP,
    )
    TWO_OWNERS = (
        "two-owners",
        "Delete the HPA or ScaledObject, or name it in activator.dev/owner. Of two Services "
        "with one workload, only the older one should have activator.dev/enabled.",
        f"{_OTHERS}\n{_ANNOTATE}owner=hpa",
        "another component, or an older Service, scales the same workload", _LASTING,
    )
    ACTIVATORS_UNREACHABLE = (
        "activators-unreachable",
        "This ends 30 s after all activators report. Check that they run.", _ACTIVATORS,
        "no activator reports, or one was just lost: no replica is removed",
    )
    STALE_STATE = (
        "stale-state", "This ends when the watch of the API server works again.", _LEADER_LOG,
        "the watch of the API server fails, so no replica is removed",
    )
    NEW_LEADER = (
        "new-leader", "This ends 60 s after this scaler began to lead.", "",
        "this scaler has led for less than 60 s, so no replica is removed", _QUIET,
    )
    TAKEOVER_NOT_IN_PLACE = (
        "takeover-not-in-place",
        "This ends when the takeover slice lists an activator. Check that activators are ready.",
        _ACTIVATORS, "no activator is an endpoint of the Service yet, so the last pod stays",
    )
    TAKING_OVER = (
        "taking-over", "This ends after at most 60 s.", "",
        "the activators take over before the last pod goes", _QUIET,
    )
    DRY_RUN = (
        "dry-run", "Remove the annotation activator.dev/dry-run, so that the workload sleeps.",
        f"{_ANNOTATE.replace(' --overwrite', '')}dry-run-",
        "a trial run: the scaler changes no replicas, and counts what it would save", _QUIET,
    )
    WAKE_WITH_UNKNOWN = (
        "wake-with-unknown", "Correct activator.dev/wake-with, or allow it by wake-from.",
        f"{_ANNOTATE}wake-with=NAME",
    )
    WAITING_TO_RETRY = (
        "waiting-to-retry", "The scaler sends the next request within 2 s.", "",
        "the last request for replicas was less than 2 s ago", _QUIET,
    )
    PORTS_EXHAUSTED = (
        "ports-exhausted", "Widen --takeover-ports, or use route shared.",
        f"{_ANNOTATE}route=shared",
    )
    PORT_CONFLICT = "port-conflict", "The scaler allots another port. Nothing is to be done."
    SLICE_FORBIDDEN = "slice-forbidden", "Add the missing rule, which the Event shows.", _DESCRIBE
    SLICE_REFUSED = "slice-refused", "Correct what refuses the takeover slice.", _DESCRIBE
    SLICE_NAME_TAKEN = (
        "slice-name-taken",
        "Rename or delete the EndpointSlice that has the name of the takeover slice.",
        "kubectl -n {namespace} get endpointslices",
    )
    SLICE_CONTESTED = (
        "slice-contested",
        "Find the component that changes the takeover slice: the Event has the command.", _DESCRIBE,
    )
    NO_ACTIVATORS = "no-activators", "Check that activators are ready.", _ACTIVATORS
    NODE_WITHOUT_ACTIVATOR = (
        "node-without-activator",
        "Run an activator on each node, as a DaemonSet does, or use route shared.",
        f"{_ACTIVATORS}\n{_ANNOTATE}route=shared",
    )
    TAKEOVER_CANNOT_LIMIT = (
        "takeover-cannot-limit", "Use route front, or remove the limit.", _DESCRIBE, "", _LASTING,
    )
    WRONG_PODS_SERVICE = (
        "wrong-pods-service", "Name a Service that has the selector of the pods.", _DESCRIBE, "",
        _ASLEEP | _LASTING,
    )
    FRONT_HAS_SELECTOR = (
        "front-has-selector", "Remove spec.selector: the Event has the command.", _DESCRIBE,
    )
    STALE_SLICES = (
        "stale-slices", "The scaler deletes them, as does the Event's command.", _DESCRIBE,
    )
    SERVICE_WARNING = "service-warning", "The Service works, with this limit.", _DESCRIBE
    OWNER_UNREADABLE = "owner-unreadable", "Add the missing rule, which the Event shows.", _DESCRIBE
    HPA_CANNOT_WAKE = (
        "hpa-cannot-wake", "Set minReplicas to 0, and use a metric of type Object or External.",
        _OTHERS,
    )
    HPA_MISSING = "hpa-missing", "Create an HPA that targets the workload.", _OTHERS
    SCALED_OBJECT_MISSING = (
        "scaled-object-missing", "Create a ScaledObject that targets the workload.", _OTHERS,
    )
    SCALED_OBJECT_PAUSED = (
        "scaled-object-paused", "Remove the annotation that pauses the ScaledObject.",
        "kubectl -n {namespace} annotate scaledobject NAME autoscaling.keda.sh/paused- "
        "autoscaling.keda.sh/paused-replicas- autoscaling.keda.sh/paused-scale-out-",
        "KEDA's ScaledObject is paused, so no pod starts for a request", _ASLEEP,
    )
    SCALE_IN_PAUSED = (
        "scale-in-paused", "Remove the annotation, so that the workload sleeps again.",
        "kubectl -n {namespace} annotate scaledobject NAME autoscaling.keda.sh/paused-scale-in-",
    )
    KEDA_TRIGGER_MISSING = (
        "keda-trigger-missing", "Add a trigger of type external-push for this Service.", _OTHERS,
    )
    LOAD_UNSEEN = (
        "load-unseen",
        "Add a trigger or a metric of the pods' own load, or set a concurrency limit.",
        f"{_ANNOTATE}container-concurrency=10",
    )
    REPLICAS_RESET = (
        "replicas-reset", "Leave spec.replicas out of the manifest that the other program applies.",
        _DESCRIBE, "", _ASLEEP,
    )
    # fmt: on


class Finding(NamedTuple):
    """One thing that a user must know about a Service.

    Attributes:
        note: for people: the fact first, then the remedy.
    """

    reason: ScaleReason
    note: str


#: The reasons by their effect; the empty one is of a Service that is scaled.
QUIET: Final = frozenset({"", *(each for each in ScaleReason if each.effect & _QUIET)})
CAUSES: Final = frozenset(each for each in ScaleReason if each.effect & _ASLEEP)
LASTING: Final = frozenset(each for each in ScaleReason if each.effect & _LASTING)


def worded(text: str, *, is_tcp: bool) -> str:
    """Return a text about requests of clients; it speaks of connections for a TCP Service."""
    return of_connections(text) if is_tcp else text


def two_owners(other: str) -> str:
    """Return what it means that another component scales the workload.

    Arguments:
        other: the component, as in ``HorizontalPodAutoscaler hello``; an older Service of the
            workload as in ``Service shop/hello``; a different ``waker of Service shop/hello``.
    """
    if other.startswith("waker of "):
        return (
            f"the {other} differs, and both have the same workload, so it does not sleep; give "
            f"both the same annotations of a waker, or remove activator.dev/enabled from one"
        )
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
    """Return a reason for people: the detail if there is one, else the sentence."""
    return detail or ScaleReason(reason).sentence or reason
