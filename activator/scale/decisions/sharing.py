"""Knows which Services share a workload: they add their loads, and the oldest of them decides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from activator.scale.reports.load import Name
from activator.scale.workloads.actuator import Target


@final
class Sharing:
    """The Services of each workload; nearly all workloads have one."""

    def __init__(self) -> None:
        self._services: dict[Target, tuple[Name, ...]] = {}

    def of(self, target: Target) -> Sequence[Name]:
        """Return the Services of a workload, sorted; none for an unknown workload."""
        return self._services.get(target, ())

    def move(self, name: Name, before: Target | None, after: Target | None) -> None:
        """Record that a Service leaves one workload for another; None for no workload."""
        if before == after:
            return
        if before is not None:
            left = tuple(each for each in self._services[before] if each != name)
            if left:
                self._services[before] = left
            else:
                del self._services[before]
        if after is not None:
            self._services[after] = tuple(sorted({*self._services.get(after, ()), name}))

    def clear(self) -> None:
        """Remove all Services."""
        self._services.clear()
