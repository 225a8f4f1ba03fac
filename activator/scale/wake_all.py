"""Wakes the workloads of all Services once, for the end of an installation.

It is a scaler that takes the Lease and wants each workload awake. It ends when all of them are.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from activator.scale import reasons
from activator.scale import scaler as scalers
from activator.scale.asleep import AsleepPart
from activator.scale.decisions.engine import Engine
from activator.scale.decisions.record import Record
from activator.scale.owners import OwnersPart
from activator.scale.scaler import ScalerProcess
from activator.scale.settings import ScaleSettings
from activator.scale.takeover.part import TakeoverPart

#: Seconds to take the Lease: that of a scaler that was killed is free after 15 s.
_LEASE: Final = 30.0
#: Seconds in which all workloads must be awake.
_AWAKE: Final = 120.0
#: Seconds between two looks at the workloads.
_LOOK: Final = 0.1


async def _until(condition: Callable[[], bool], seconds: float) -> bool:
    """Wait until a condition holds; return whether it did in time."""
    clock = asyncio.get_running_loop().time
    end = clock() + seconds
    while not condition():
        if clock() >= end:
            return False
        await asyncio.sleep(_LOOK)
    return True


def _is_awake(record: Record) -> bool:
    return bool(record.facts.replicas) and not record.facts.service.mark


def _lines(engine: Engine) -> Iterator[str]:
    """Yield one line for each Service whose workload slept, sorted."""
    for name, record in sorted(engine, key=lambda each: each[0]):
        change, decided = record.workload.change, record.decided
        if not _is_awake(record):
            why = decided and reasons.text(decided.reason, decided.detail)
            yield f"{'/'.join(name)}: not awake: {why or 'it has not confirmed that'}"
        elif change is not None and not change.before:
            yield f"{'/'.join(name)}: awake"


async def wake_all(settings: ScaleSettings) -> tuple[list[str], int]:
    """Wake all workloads.

    Arguments:
        settings: of a scaler; the ports do not count.

    Returns:
        Lines for people, and the exit status: 0 if all workloads are awake, else 1.
    """
    settings = replace(settings, stat_port=0, metrics_port=0, admin_port=0, dialect=("services",))
    makers = (OwnersPart, TakeoverPart, AsleepPart)
    scaler = ScalerProcess(settings, os.environ, parts=makers, wakes_all=True)
    engine = scaler.engine

    def is_done() -> bool:
        return engine.decides and all(_is_awake(record) for _, record in engine)

    async with scalers.running(scaler):
        if not await _until(lambda: engine.decides, _LEASE):
            why = scaler.candidate.error or scaler.status.readiness()
            return [f"nothing is done: {why}; stop the scalers first"], 1
        status = 0 if await _until(is_done, _AWAKE) else 1
        return [*_lines(engine)] or ["no workload sleeps"], status
