"""Publishes the state of each Service to the components that scale it: KEDA, and HPAs.

They read it at any time. So the engine publishes a decision before it sends the request for
replicas: a component that reads a load of 0 in between would undo the cold start.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from activator.objects.fields import shared
from activator.scale.decisions.record import Decided
from activator.scale.part import Part
from activator.scale.reports.load import Loads, ServiceName

#: Seconds whose largest load is published: KEDA and HPAs read every 15 to 30 s, and a burst between
#: two reads must count.
PEAK: Final = 30


class Published(NamedTuple):
    """What other components may know of a Service.

    Attributes:
        active: whether its workload must not be scaled to zero.
        load: requests in flight or queued, the largest of the last ``PEAK`` seconds.
        target: concurrent requests per pod.
    """

    active: bool
    load: float
    target: float

    @property
    def shown(self) -> float:
        """The load as a metric: while active at least 1, so that no component scales to zero."""
        return max(self.load, 1.0) if self.active else self.load


class Board(Part):
    """The published states.

    Arguments:
        loads: the reports of the activators.
        clock: seconds, monotonic.

    Attributes:
        is_open: whether the states are complete. They are not before the first decisions of a
            leader.
    """

    def __init__(self, loads: Loads, clock: Callable[[], float]) -> None:
        self._loads = loads
        self._clock = clock
        # Without their loads, which change with each report.
        self._states: dict[ServiceName, Published] = {}
        self._waiting: dict[ServiceName, asyncio.Event] = {}
        self.is_open = False

    def start(self, now: float) -> None:
        self.is_open = True

    def carry_out(self, name: ServiceName, decided: Decided, now: float) -> None:
        if decided.plan is not None:
            target = decided.facts.service.asks.scale.target
            self.publish(name, active=decided.plan.active, target=target)

    def stop(self, now: float) -> None:
        self.is_open = False
        self._states.clear()
        for name in list(self._waiting):
            self._notify(name)

    def publish(self, name: ServiceName, *, active: bool, target: float) -> None:
        """Publish the state of a Service, before the request for replicas that belongs to it.

        Arguments:
            active: whether its workload must not be scaled to zero.
            target: concurrent requests per pod.
        """
        before = self._states.get(name)
        self._states[name] = shared(Published(active, 0.0, target))
        if before is None or before.active != active:
            self._notify(name)

    def leave(self, name: ServiceName, now: float) -> None:
        self._states.pop(name, None)
        self._notify(name)

    def workload(self, service: ServiceName) -> Published | None:
        """Return the state of a Service; None for a Service that does not opt in."""
        state = self._states.get(service)
        if state is None:
            return None
        return state._replace(load=self._loads.peak(service, self._clock(), PEAK))

    def of_namespace(self, namespace: str) -> Iterator[tuple[ServiceName, Published]]:
        """Yield the states of a namespace's Services, by name."""
        for name in sorted(name for name in self._states if name.namespace == namespace):
            workload = self.workload(name)
            assert workload is not None
            yield name, workload

    async def differs(self, service: ServiceName, active: bool) -> None:
        """Return as soon as a Service is gone, or ``active`` of it differs from the argument."""
        while (state := self._states.get(service)) is not None and state.active == active:
            await self._waiting.setdefault(service, asyncio.Event()).wait()

    def _notify(self, name: ServiceName) -> None:
        event = self._waiting.pop(name, None)
        if event is not None:
            event.set()
