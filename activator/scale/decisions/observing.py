"""Collects what a plan needs to know of a Service: its facts, and the present load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import final

from activator.plain.annotations import Annotations
from activator.scale.decisions.effects import Guard
from activator.scale.decisions.findings import Reason
from activator.scale.decisions.plan import NEVER, Hold, Seen
from activator.scale.decisions.record import Facts, Record
from activator.scale.decisions.sharing import Sharing
from activator.scale.reports.load import Loads, Name, ServiceLoad
from activator.scale.workloads.actuator import Target


@final
class Observer:
    """Observes Services for their plans.

    Arguments:
        records: the Services.
        loads: the reports of the activators.
        sharing: knows which Services share a workload.
        guard: knows the other components.
    """

    def __init__(
        self, records: Mapping[Name, Record], loads: Loads, sharing: Sharing, guard: Guard
    ) -> None:
        self._records = records
        self._loads = loads
        self._sharing = sharing
        self._guard = guard

    def seen(self, name: Name, facts: Facts, now: float, frozen: Hold) -> Seen:
        """Return what a plan needs; the loads of Services with one workload are added.

        Arguments:
            facts: of the Service; it has a workload, and its replicas are known.
            now: seconds, on the clock of the loads.
            frozen: why no replicas of any workload may be removed.
        """
        assert facts.target is not None
        assert facts.replicas is not None
        other, decides = facts.other_owner, True
        sharing = self._sharing.of(facts.target)
        if len(sharing) == 1:
            stable, panic, current, last_busy = self._load(self._loads.of(name), now)
        else:
            stable, panic, current, last_busy = self._sum(sharing, now)
            eldest = self._eldest(facts.target)
            if eldest != name:
                decides = False
                other = f"Service {'/'.join(eldest)}"
        slice_since = None
        if facts.service.asks.route.has_slices:
            slice_since = self._guard.slice_since(name, now)
        return Seen(
            *(current, stable, panic, last_busy, frozen, facts.replicas, facts.ready),
            *(other, slice_since, facts.lease, decides),
            paused=any(each.reason is Reason.SCALED_OBJECT_PAUSED for each in facts.findings),
        )

    def asks(self, facts: Facts, seen: Seen) -> Annotations:
        """Return what the annotations of a Service ask for.

        Any Service starts a shared workload, but always with the replicas of the oldest one.

        Arguments:
            seen: as ``seen`` returns it.
        """
        asks = facts.service.asks
        if seen.decides or seen.replicas:
            return asks
        assert facts.target is not None
        eldest = self._records[self._eldest(facts.target)]
        return replace(asks, scale=eldest.facts.service.asks.scale)

    def _eldest(self, target: Target) -> Name:
        """Return the oldest Service of a workload, which decides about its replicas."""
        return min(self._sharing.of(target), key=self._age)

    def _sum(self, names: Sequence[Name], now: float) -> tuple[float, float, float, float]:
        """Return as ``_load``, for several Services."""
        rows = [self._load(self._loads.of(each), now) for each in names]
        stable, panic, current = (sum(row[at] for row in rows) for at in range(3))
        return stable, panic, current, max(row[3] for row in rows)

    def _load(self, load: ServiceLoad | None, now: float) -> tuple[float, float, float, float]:
        """Return the load of both windows and of now, and when there was a request."""
        if load is None:
            return 0.0, 0.0, 0.0, NEVER
        stable, panic = load.window.averages(int(now))
        return stable, panic, load.current(now, self._loads.lost), load.last_busy

    def _age(self, name: Name) -> tuple[str, Name]:
        return self._records[name].facts.service.created, name
