"""Collects what a plan needs to know of a Service: its facts, and the present load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, final

from activator.plain.annotations import Route
from activator.scale.decisions.effects import Guard
from activator.scale.decisions.plan import Hold, Seen
from activator.scale.decisions.record import Facts, Record
from activator.scale.decisions.sharing import Sharing
from activator.scale.reports.load import Loads, Name, ServiceLoad

_NEVER: Final = float("-inf")


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
            elder = min(sharing, key=self._age)
            if elder != name:
                decides = False
                other = f"Service {'/'.join(elder)}"
        slice_since = None
        if facts.service.asks.route is Route.TAKEOVER:
            slice_since = self._guard.slice_since(name, now)
        return Seen(
            *(current, stable, panic, last_busy, frozen, facts.replicas, facts.ready),
            *(other, slice_since, facts.lease, decides),
        )

    def _sum(self, names: Sequence[Name], now: float) -> tuple[float, float, float, float]:
        """Return as ``_load``, for several Services."""
        rows = [self._load(self._loads.of(each), now) for each in names]
        stable, panic, current = (sum(row[at] for row in rows) for at in range(3))
        return stable, panic, current, max(row[3] for row in rows)

    def _load(self, load: ServiceLoad | None, now: float) -> tuple[float, float, float, float]:
        """Return the load of both windows and of now, and when there was a request."""
        if load is None:
            return 0.0, 0.0, 0.0, _NEVER
        stable, panic = load.window.averages(int(now))
        return stable, panic, load.current(now, self._loads.lost), load.last_busy

    def _age(self, name: Name) -> tuple[str, Name]:
        return self._records[name].facts.service.created, name
