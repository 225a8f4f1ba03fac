"""Wakes the workloads of all Services once, for the end of an installation.

It is a scaler that takes the Lease and wants each workload awake. It ends when all of them are.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from operator import itemgetter
from typing import Final

from activator.scale import reasons
from activator.scale import scaler as scalers
from activator.scale.asleep import AsleepPart
from activator.scale.decisions.record import Decided
from activator.scale.owners import OwnersPart
from activator.scale.part import Part, PartContext
from activator.scale.reports.load import ServiceName
from activator.scale.scaler import ScalerProcess
from activator.scale.settings import ScaleSettings
from activator.scale.takeover.part import TakeoverPart

#: Seconds to take the Lease: that of a scaler that was killed is free after 15 s.
_LEASE: Final = 30.0
#: Seconds in which all workloads must be awake.
_AWAKE: Final = 120.0


class _Waking(Part):
    """Knows the last decision about each Service."""

    def __init__(self, context: PartContext) -> None:
        self.has_started = False
        self._news = asyncio.Event()
        self._decided: dict[ServiceName, Decided] = {}
        self._asleep: set[ServiceName] = set()

    def carry_out(self, name: ServiceName, decided: Decided, now: float) -> None:
        self._decided[name] = decided
        if decided.facts.replicas == 0 or decided.facts.service.mark:
            self._asleep.add(name)
        self._news.set()

    def leave(self, name: ServiceName, now: float) -> None:
        self._decided.pop(name, None)
        self._news.set()

    def start(self, now: float) -> None:
        self.has_started = True
        self._news.set()

    async def until(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Wait until a condition of this part holds; return whether it did in time."""
        try:
            async with asyncio.timeout(seconds):
                while not condition():
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            return False
        return True

    def is_done(self) -> bool:
        """Return whether all workloads are awake."""
        return self.has_started and all(map(_is_awake, self._decided.values()))

    def lines(self) -> Iterator[str]:
        """Yield one line for each Service whose workload slept, sorted."""
        for name, decided in sorted(self._decided.items(), key=itemgetter(0)):
            if not _is_awake(decided):
                why = reasons.text(decided.reason, decided.detail) or "it has not confirmed that"
                yield f"{name.namespace}/{name.name}: not awake: {why}"
            elif name in self._asleep:
                yield f"{name.namespace}/{name.name}: awake"


def _is_awake(decided: Decided) -> bool:
    return bool(decided.facts.replicas) and not decided.facts.service.mark


async def wake_all(settings: ScaleSettings) -> tuple[list[str], int]:
    """Wake all workloads.

    Arguments:
        settings: of a scaler; the ports do not count.

    Returns:
        Lines for people, and the exit status: 0 if all workloads are awake, else 1.
    """
    settings = replace(settings, stat_port=0, metrics_port=0, admin_port=0, dialect=("services",))
    makers = (OwnersPart, TakeoverPart, AsleepPart, _Waking)
    scaler = ScalerProcess(settings, os.environ, parts=makers, wakes_all=True)
    waking = next(each for each in scaler.parts if isinstance(each, _Waking))
    async with scalers.running(scaler):
        if not await waking.until(lambda: waking.has_started, _LEASE):
            why = scaler.candidate.error or scaler.status.readiness()
            return [f"nothing is done: {why}; stop the scalers first"], 1
        is_done = await waking.until(waking.is_done, _AWAKE)
        return [*waking.lines()] or ["no workload sleeps"], 0 if is_done else 1
