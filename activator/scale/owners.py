"""Knows the components that scale workloads: HPAs, KEDA, and any that sets replicas to zero.

It also knows whether they can do it as the Service asks. Sources: autoscaling/v2 in the Kubernetes
API reference, KEP-2021; the ScaledObject specification of KEDA 2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, final

from activator.objects.fields import Field, ManifestError, ObjectKey, root
from activator.plain.annotations import Annotations, Owner, Route
from activator.plain.workloads import Groups
from activator.scale.decisions.engine import may_call, woken_with
from activator.scale.decisions.record import Facts
from activator.scale.keda import SERVICE_KEY
from activator.scale.part import Part, PartContext
from activator.scale.reasons import Finding, ScaleReason, worded
from activator.scale.reports.load import ServiceName
from activator.scale.workloads.replicas import ScaleTarget, TargetRef

HPA: Final = "HorizontalPodAutoscaler"
SCALED_OBJECT: Final = "ScaledObject"

#: The kind of the component that an owner stands for.
_KINDS: Final = {Owner.HPA: HPA, Owner.KEDA: SCALED_OBJECT}
_PAUSED_REPLICAS: Final = "autoscaling.keda.sh/paused-replicas"
_ASLEEP: Final = "and the scaler starts no pod for a request"
#: How Go's strconv.ParseBool writes false. KEDA takes each other text as true.
_FALSE: Final = frozenset({"0", "f", "F", "false", "False", "FALSE"})
_PUSH: Final = ("external-push", "external")
#: KEDA's default ``pollingInterval``, in seconds, and the longest one that a lease follows.
_POLLS: Final = 30
_MOST_POLLS: Final = 600.0
#: Metrics that exist without pods: an HPA needs one of them to scale to or from zero.
_WITHOUT_PODS: Final = ("Object", "External")
#: Seconds for which the finding about a reset stays.
STAYS: Final = 600.0
_GROUP: Final = "apps"


#: Annotations of a ScaledObject that pause it, with their effects: each note goes on after the word
#: KEDA. KEDA reads all but the first as a boolean (apis/keda/v1alpha1/scaledobject_types.go).
_PAUSES: Final = {
    _PAUSED_REPLICAS: Finding(
        ScaleReason.SCALED_OBJECT_PAUSED, f"keeps this number of replicas, {_ASLEEP}"
    ),
    "autoscaling.keda.sh/paused": Finding(
        ScaleReason.SCALED_OBJECT_PAUSED, f"adds and removes no replica, {_ASLEEP}"
    ),
    "autoscaling.keda.sh/paused-scale-out": Finding(
        ScaleReason.SCALED_OBJECT_PAUSED, f"adds no replica, {_ASLEEP}"
    ),
    "autoscaling.keda.sh/paused-scale-in": Finding(
        ScaleReason.SCALE_IN_PAUSED, "removes no replica, so the workload does not sleep"
    ),
}


class _Found(NamedTuple):
    """An HPA or a ScaledObject.

    Attributes:
        measures: metrics or triggers that may be about the pods themselves: not this scaler's.
        can_wake: whether an HPA can scale to zero and back.
        made_by: the ScaledObject whose part an HPA is.
        services: the Services of a ScaledObject's triggers of this scaler.
        pauses: the annotations that pause a ScaledObject, at most one for each reason.
        polls: seconds between two of KEDA's polls.
    """

    key: ObjectKey
    target: TargetRef
    measures: int
    can_wake: bool = False
    made_by: str = ""
    services: frozenset[str] = frozenset()
    pauses: tuple[str, ...] = ()
    polls: float = 0.0


@final
class WorkloadOwners:
    """The components that scale workloads.

    Arguments:
        changed: called with the workloads whose components have changed.
        missing_rule: returns the RBAC rule without which a kind is not read; empty for none.
    """

    def __init__(
        self,
        changed: Callable[[Iterable[TargetRef]], object] = lambda targets: None,
        missing_rule: Callable[[str], str] = lambda kind: "",
    ) -> None:
        self._changed = changed
        self._missing_rule = missing_rule
        self._objects = Groups[ObjectKey, _Found, TargetRef]()

    def put(self, key: ObjectKey, obj: object) -> None:
        """Record a new or changed object.

        Arguments:
            key: its kind is ``HPA`` or ``SCALED_OBJECT``.
            obj: as decoded from JSON.

        Raises:
            ManifestError: a field is wrong; nothing has changed.
        """
        found = _hpa(key, obj) if key.kind == HPA else _scaled_object(key, obj)
        self._changed(self._objects.put(key, found.target, found))

    def remove(self, key: ObjectKey) -> None:
        """Record a deleted object; an unknown one is no error."""
        self._changed(self._objects.remove(key))

    def _of(self, target: ScaleTarget) -> tuple[Sequence[_Found], Sequence[_Found]]:
        """Return the HPAs and the ScaledObjects of a workload, without the HPAs that KEDA made."""
        if not (known := self._objects.of(target.ref)):
            return (), ()
        every = [each for _, each in sorted(known)]
        objects = [each for each in every if each.key.kind == SCALED_OBJECT]
        names = {each.key.name for each in objects}
        hpas = [each for each in every if each.key.kind == HPA and each.made_by not in names]
        return hpas, objects

    def other_owner(self, owner: Owner, target: ScaleTarget) -> str:
        """Return the component that scales a workload beside its owner; empty if there is none.

        Arguments:
            owner: the owner that the annotation of the Service names.

        Returns:
            As in ``HorizontalPodAutoscaler hello``. With owner ``none`` any component may scale.
        """
        hpas, objects = self._of(target)
        if owner is Owner.NONE:
            return ""
        # One that KEDA made is KEDA's, also before its ScaledObject is read.
        rest = hpas[owner is Owner.HPA :]
        others = [each for each in rest if owner is not Owner.KEDA or not each.made_by]
        others = [*objects[owner is Owner.KEDA :], *others]
        return ", ".join(f"{each.key.kind} {each.key.name}" for each in others)

    def lease(self, owner: Owner, target: ScaleTarget) -> float:
        """Return the seconds in which the owner of a workload reads it at least once."""
        if owner is not Owner.KEDA:
            return 0.0
        _, objects = self._of(target)
        return min(max((each.polls for each in objects), default=0.0), _MOST_POLLS)

    def findings(
        self, owner: Owner, target: ScaleTarget, service: str, bypass: Route | None = None
    ) -> Sequence[Finding]:
        """Return what a user must know of the components that scale a workload.

        Arguments:
            owner: as for ``other_owner``.
            service: the name of the Service.
            bypass: the route by which requests to ready pods bypass the activators.
        """
        hpas, objects = self._of(target)
        found = []
        if other := self.other_owner(owner, target):
            found.append(Finding(ScaleReason.TWO_OWNERS, _two_owners(owner, other, target)))
        kind = _KINDS.get(owner, "")
        if kind and (rule := self._missing_rule(kind)):
            found.append(Finding(ScaleReason.OWNER_UNREADABLE, _unreadable(owner, kind, rule)))
        elif owner is Owner.KEDA:
            found += _about_keda(objects, hpas, target, service)
        elif owner is Owner.HPA:
            found += _about_hpa(hpas, target)
        if bypass and owner in _KINDS:
            mine = objects if owner is Owner.KEDA else hpas
            found += [_load_unseen(each, bypass) for each in mine[:1] if not each.measures]
        return found


def _two_owners(owner: Owner, other: str, target: ScaleTarget) -> str:
    if owner is Owner.SELF:
        effect = "so the scaler removes no replica"
    else:
        effect = f"beside owner {owner.value}: each undoes the other's changes"
    return (
        f"{other} also scales {target.resource.kind} {target.name}, {effect}; delete it, or set "
        f"the annotation activator.dev/owner to the one component that may scale"
    )


def _unreadable(owner: Owner, kind: str, rule: str) -> str:
    return f"owner is {owner.value}, and {kind}s cannot be read; the scaler's role lacks {rule}"


def _load_unseen(found: _Found, route: Route) -> Finding:
    kind = "metric" if found.key.kind == HPA else "trigger"
    note = (
        f"with route {route.value}, requests to ready pods bypass the activators, so their load "
        f"asks for no second replica; add a {kind} of the pods' own load to {found.key.kind} "
        f"{found.key.name}, as cpu, or use route front "
        f"with activator.dev/container-concurrency"
    )
    return Finding(ScaleReason.LOAD_UNSEEN, note)


def _about_keda(
    objects: Sequence[_Found], hpas: Sequence[_Found], target: ScaleTarget, service: str
) -> Sequence[Finding]:
    if not objects:
        note = f"owner is keda, and no ScaledObject targets {target.resource.kind} {target.name}"
        if made := [each.made_by for each in hpas if each.made_by]:
            note = (
                f"owner is keda, and the scaler has not read ScaledObject {made[0]}: KEDA is newer "
                f"than the scaler, which looks for it every 5 minutes, and when it starts"
            )
        return [Finding(ScaleReason.SCALED_OBJECT_MISSING, note)]
    mine, found = objects[0], []
    if service not in mine.services:
        note = (
            f"ScaledObject {mine.key.name} has no trigger of type external-push with the metadata "
            f"{SERVICE_KEY}: {service}, so KEDA scales to zero while requests are in flight"
        )
        found.append(Finding(ScaleReason.KEDA_TRIGGER_MISSING, note))
    for name in mine.pauses:
        reason, effect = _PAUSES[name]
        note = f"ScaledObject {mine.key.name} has the annotation {name}: KEDA {effect}"
        found.append(Finding(reason, note))
    return found


def _about_hpa(hpas: Sequence[_Found], target: ScaleTarget) -> Sequence[Finding]:
    if not hpas:
        note = f"owner is hpa, and no {HPA} targets {target.resource.kind} {target.name}"
        return [Finding(ScaleReason.HPA_MISSING, note)]
    if hpas[0].can_wake:
        return []
    note = (
        f"{HPA} {hpas[0].key.name} cannot scale to zero and back: it needs minReplicas: 0 and a "
        f"metric of type Object or External"
    )
    return [Finding(ScaleReason.HPA_CANNOT_WAKE, note)]


# -- reading ---------------------------------------------------------------------------------------


def _hpa(key: ObjectKey, obj: object) -> _Found:
    hpa = root(obj, HPA)
    spec = hpa["spec"]
    least = spec["minReplicas"].whole(default=1)
    kinds = [metric["type"].text() for metric in spec["metrics"].items()]
    makers = (
        owner["name"].text()
        for owner in hpa["metadata"]["ownerReferences"].items()
        if owner["kind"].text() == SCALED_OBJECT
    )
    target = _ref(key.namespace, spec["scaleTargetRef"])
    can_wake = least == 0 and any(kind in _WITHOUT_PODS for kind in kinds)
    own = int("External" in kinds)
    return _Found(key, target, len(kinds) - own, can_wake, next(makers, ""))


def _scaled_object(key: ObjectKey, obj: object) -> _Found:
    scaled_object = root(obj, SCALED_OBJECT)
    annotations = scaled_object["metadata"]["annotations"]
    pauses = {
        _PAUSES[name].reason: name for name in reversed(_PAUSES) if _is_set(annotations, name)
    }
    spec = scaled_object["spec"]
    triggers = list(spec["triggers"].items())
    own = [each for each in triggers if each["type"].text() in _PUSH]
    return _Found(
        key,
        _ref(key.namespace, spec["scaleTargetRef"]),
        len(triggers) - len(own),
        services=frozenset(each["metadata"][SERVICE_KEY].text() for each in own),
        pauses=tuple(pauses.values()),
        polls=float(spec["pollingInterval"].whole(default=_POLLS)),
    )


def _is_set(annotations: Field, name: str) -> bool:
    field = annotations.at(name)
    if field.value is None:
        return False
    return name == _PAUSED_REPLICAS or field.text() not in _FALSE


def _ref(namespace: str, ref: Field) -> TargetRef:
    """Return the workload of a ``scaleTargetRef``; KEDA's default is a Deployment."""
    group, slash, _ = ref["apiVersion"].text(default="apps/v1").partition("/")
    kind = ref["kind"].text(default="Deployment")
    return TargetRef(namespace, group if slash else "", kind, ref["name"].text())


@final
class Flapping:
    """Detects another component that sets a workload to zero replicas while it is active.

    A GitOps controller that applies ``spec.replicas: 0`` again undoes each cold start. The writer
    is in ``metadata.managedFields`` of the workload, unless it wrote through the scale subresource,
    as KEDA, an HPA and ``kubectl scale`` do. A workload that no watch follows is not checked.

    Arguments:
        is_active: returns whether a workload must not be scaled to zero: it has requests, or a
            cold start is under way. The scaler itself never scales such a workload to zero.
        clock: seconds, monotonic.
        changed: called with the workload that another component has set to zero.
    """

    def __init__(
        self,
        is_active: Callable[[TargetRef], bool],
        clock: Callable[[], float],
        changed: Callable[[Iterable[TargetRef]], object],
    ) -> None:
        self._is_active = is_active
        self._clock = clock
        self._changed = changed
        self._awake: set[ObjectKey] = set()
        self._found: dict[TargetRef, tuple[float, Finding]] = {}

    def put(self, key: ObjectKey, obj: object) -> None:
        """Record a new or changed workload.

        Arguments:
            obj: as decoded from JSON, with its ``managedFields``.

        Raises:
            ManifestError: ``spec.replicas`` is wrong; nothing has changed.
        """
        replicas = root(obj, key.kind)["spec"]["replicas"]
        if replicas.whole(default=1):
            self._awake.add(key)
        elif key in self._awake:
            self._awake.remove(key)
            target = TargetRef(key.namespace, _GROUP, key.kind, key.name)
            if self._is_active(target):
                self._found[target] = self._clock(), _finding(target, replicas_manager(obj))
                self._changed([target])

    def remove(self, key: ObjectKey) -> None:
        """Record a deleted workload; an unknown one is no error."""
        self._awake.discard(key)
        self._found.pop(TargetRef(key.namespace, _GROUP, key.kind, key.name), None)

    def finding(self, target: TargetRef) -> Finding | None:
        """Return what a user must know of a workload; None if nothing sets it to zero."""
        at, found = self._found.get(target, (0.0, None))
        if found is not None and self._clock() - at > STAYS:
            del self._found[target]
            return None
        return found


def _finding(target: TargetRef, manager: str) -> Finding:
    if manager:
        cause = (
            f"the field manager {manager} has written spec.replicas; remove the field from its "
            f"source, or let it ignore the difference"
        )
    else:
        cause = (
            "no field manager has spec.replicas, so the writer used the scale subresource: KEDA, "
            "an HPA or kubectl scale"
        )
    note = f"another component set {target.kind} {target.name} to 0 replicas while it was active"
    return Finding(ScaleReason.REPLICAS_RESET, f"{note}; {cause}")


def replicas_manager(obj: object) -> str:
    """Return the field manager that wrote ``spec.replicas`` last; empty if none has it."""
    try:
        entries = root(obj, "workload")["metadata"]["managedFields"].sequence()
    except ManifestError:
        return ""
    found = [
        (str(entry.get("time") or ""), str(entry.get("manager") or "unknown")[:128])
        for entry in entries
        if isinstance(entry, Mapping) and not entry.get("subresource") and _has_replicas(entry)
    ]
    return max(found)[1] if found else ""


def _has_replicas(entry: Mapping[str, object]) -> bool:
    fields = entry.get("fieldsV1")
    spec = fields.get("f:spec") if isinstance(fields, Mapping) else None
    return isinstance(spec, Mapping) and "f:replicas" in spec


@final
class OwnersPart(Part):
    """Knows what else scales workloads, and which Services have or wake each workload."""

    def __init__(self, context: PartContext) -> None:
        self._context = context
        self._owners = WorkloadOwners(self._decide_again, context.missing_rule)
        self._flapping = Flapping(self._is_active, context.clock, self._decide_again)
        self.views = {
            HPA: self._owners,
            SCALED_OBJECT: self._owners,
            "Deployment": self._flapping,
            "StatefulSet": self._flapping,
        }

    def complete(self, name: ServiceName, facts: Facts) -> Facts:
        target = facts.target
        if target is None:
            return facts
        owner = facts.service.asks.owner
        return facts._replace(
            findings=facts.findings + tuple(self._about(name, facts)),
            other_owner=facts.other_owner or self._owners.other_owner(owner, target),
            lease=max(facts.lease, self._owners.lease(owner, target)),
        )

    def findings(self, name: ServiceName) -> Iterable[Finding]:
        record = self._context.record(name)
        return self._about(name, record.facts) if record is not None else ()

    def _about(self, name: ServiceName, facts: Facts) -> Iterator[Finding]:
        """Yield the findings about a Service; none about one without a workload."""
        if (target := facts.target) is None:
            return
        asks = facts.service.asks
        bypass = asks.route if asks.owner in _KINDS and asks.is_bypassed else None
        for each in self._owners.findings(asks.owner, target, name.name, bypass):
            yield each._replace(note=worded(each.note, is_tcp=asks.tcp.chosen))
        if (found := self._flapping.finding(target.ref)) is not None:
            yield found
        if asks.wake_with:
            yield from self._unwoken(name, asks)

    def _unwoken(self, name: ServiceName, asks: Annotations) -> Iterator[Finding]:
        """Yield a finding for each Service that a Service cannot wake."""
        for other in woken_with(name, asks):
            text = f"annotation activator.dev/wake-with: Service {'/'.join(other)}"
            theirs = self._context.services.asks(other)
            if theirs is None:
                text += " does not exist, or has no activator.dev/enabled"
            elif may_call(name, other, theirs):
                continue
            else:
                text += f" needs the annotation activator.dev/wake-from: {name.namespace}"
            yield Finding(ScaleReason.WAKE_WITH_UNKNOWN, text)

    def _decide_again(self, targets: Iterable[TargetRef]) -> None:
        """Decide again about the Services of workloads."""
        sharing = self._context.sharing
        self._context.changed(each.name for target in targets for each in sharing(target))

    def _is_active(self, target: TargetRef) -> bool:
        plans = (record.plan for record in self._context.sharing(target))
        return any(plan is not None and plan.active for plan in plans)
