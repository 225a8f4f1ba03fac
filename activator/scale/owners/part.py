"""Knows the components that scale workloads: HPAs, KEDA, and any that sets replicas to zero."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import final

from activator.plain.matches import Index
from activator.plain.service import PlainService
from activator.scale.decisions.effects import Decided
from activator.scale.decisions.findings import Finding
from activator.scale.owners.flapping import Flapping
from activator.scale.owners.owners import HPA, SCALED_OBJECT, Owners, Scaled, scaled
from activator.scale.part import Context, Part
from activator.scale.reports.load import Name
from activator.scale.workloads.actuator import Target


@final
class Targets:
    """Knows which Services have a workload (effects.Effect).

    Arguments:
        changed: decides again about Services.
    """

    def __init__(self, changed: Callable[[Iterable[Name]], object]) -> None:
        self._changed = changed
        self._target: dict[Name, Scaled] = {}
        self._names = Index[Scaled, Name]()

    def put(self, name: Name, decided: Decided, now: float) -> None:
        """See effects.Effect."""
        target = scaled(decided.target) if decided.target is not None else None
        if self._target.get(name) == target:
            return
        self.remove(name, now)
        if target is not None:
            self._target[name] = target
            self._names.add(target, name)

    def remove(self, name: Name, now: float) -> None:
        """See effects.Effect."""
        target = self._target.pop(name, None)
        if target is not None:
            self._names.discard(target, name)

    def start(self, now: float) -> None:
        """See effects.Effect."""

    def stop(self, now: float) -> None:
        """See effects.Effect."""
        self._target.clear()
        self._names = Index[Scaled, Name]()

    def names(self, target: Scaled) -> Iterable[Name]:
        """Return the Services that have a workload."""
        return self._names.get(target)

    def report(self, target: Scaled) -> None:
        """Decide again about the Services of a workload."""
        self._changed(list(self.names(target)))


def make(context: Context) -> Part:
    """Return the part that knows the other components."""
    targets = Targets(context.changed)
    owners = Owners(targets.report, context.missing_rule)

    def is_active(target: Scaled) -> bool:
        plans = (
            record.decided.plan
            for name in targets.names(target)
            if (record := context.record(name)) is not None and record.decided is not None
        )
        return any(plan is not None and plan.active for plan in plans)

    flapping = Flapping(is_active, context.clock, targets.report)

    def other_owner(name: Name, service: PlainService, target: Target) -> str:
        return owners.other_owner(service.asks.owner, target)

    def findings(name: Name) -> Iterator[Finding]:
        record = context.record(name)
        target = record.facts.target if record is not None else None
        if record is None or target is None:
            return
        asks = record.facts.service.asks
        bypass = asks.route if asks.is_bypassed else None
        yield from owners.findings(asks.owner, target, name.name, bypass)
        if (found := flapping.finding(scaled(target))) is not None:
            yield found

    return Part(
        views={
            HPA: owners,
            SCALED_OBJECT: owners,
            "Deployment": flapping,
            "StatefulSet": flapping,
        },
        effect=targets,
        other_owner=other_owner,
        lease=lambda service, target: owners.lease(service.asks.owner, target),
        findings=findings,
    )
