"""Gives pods more CPU until they are ready, by the annotation ``activator.dev/startup-cpu``.

It reads the pods only while some start. A scaler that begins to lead looks at all such workloads,
so no pod keeps the CPU of its start.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, final

from activator.objects.fields import ManifestError
from activator.plain.annotations import PREFIX, Cpu
from activator.scale.cluster.api import KeyedWriter
from activator.scale.decisions.record import Decided
from activator.scale.part import Part, PartContext
from activator.scale.reasons import Finding, ScaleReason
from activator.scale.reports.load import ServiceName
from activator.scale.wakers.resize import SizedPod, read_workload, resize
from activator.scale.wakers.waker import WakerFailed
from activator.scale.workloads.replicas import ScaleTarget

#: Seconds between two reads of the pods of a workload: at first, and at most.
FIRST, LAST = 0.1, 5.0
#: Workloads that are read or changed at a time.
MOST: Final = 16


class _Start(NamedTuple):
    """A workload; ``limit`` is the CPU of its pods until they are ready, in thousandths."""

    target: ScaleTarget
    limit: int


@final
class StartupPart(Part):
    """Follows the pods of each workload that starts some."""

    def __init__(self, context: PartContext) -> None:
        self._context = context
        self._room = asyncio.Semaphore(MOST)
        # Without a limit: pods that never become ready must not keep other workloads waiting.
        self._writer = KeyedWriter[ServiceName, _Start](context.start, self._follow)
        self._failed: dict[ServiceName, str] = {}

    def carry_out(self, name: ServiceName, decided: Decided, now: float) -> None:
        target, limit = decided.facts.target, decided.facts.service.asks.waker.startup_cpu
        if target is not None and limit:
            self._writer.put(name, _Start(target, limit))

    def leave(self, name: ServiceName, now: float) -> None:
        self._failed.pop(name, None)

    def stop(self, now: float) -> None:
        self._writer.clear()
        self._failed.clear()

    def findings(self, name: ServiceName) -> Iterable[Finding]:
        if detail := self._failed.get(name):
            yield Finding(ScaleReason.CANNOT_RESIZE, f"{PREFIX}startup-cpu: {detail}")

    async def _follow(self, name: ServiceName, start: _Start) -> None:
        pause, starts = FIRST, True
        while starts and (record := self._context.record(name)) and record.facts.replicas:
            detail, is_over = "", record.facts.service.asks.waker.startup_cpu != start.limit
            try:
                async with self._room:
                    starts = await self._adjust(start, is_over=is_over)
            except (WakerFailed, ManifestError) as error:
                pause, detail = LAST, str(error)
            if self._failed.get(name, "") != detail:
                self._failed[name] = detail
                self._context.changed([name])
            if starts:
                await asyncio.sleep(pause)
                pause = min(pause * 1.5, LAST)

    async def _adjust(self, start: _Start, *, is_over: bool) -> bool:
        """Change the CPU of pods once; return whether a pod starts, or is about to.

        Arguments:
            is_over: whether the annotation has changed, so that no pod may keep the CPU.

        Raises:
            WakerFailed, ManifestError: some pods may still have other CPU.
        """
        scale, pods = await read_workload(self._context.api, start.target)
        for pod in pods:
            raised = _raised(pod, start.limit)
            wanted = pod.full if pod.is_ready or is_over else raised
            if pod.now != wanted and pod.now in (pod.full, raised):
                response = await resize(self._context.api, start.target, pod, wanted)
                if not response.is_ok and response.status not in (404, 409):
                    why = f"Pod {pod.name}: {response.problem}"
                    raise WakerFailed(ScaleReason.CANNOT_RESIZE, why)
        return not is_over and sum(pod.is_ready for pod in pods) < max(scale.replicas, len(pods))


def _raised(pod: SizedPod, limit: int) -> Mapping[str, Cpu]:
    """Return the CPU of a pod that starts: only limits that are there, and only more."""
    return {
        name: Cpu(limit if pod.is_guaranteed else cpu.request, limit)
        if 0 < cpu.limit < limit
        else cpu
        for name, cpu in pod.full.items()
    }
