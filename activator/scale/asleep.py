"""Writes the asleep mark of Services: the annotation that keeps requests from sleeping pods.

The mark is no state. The waker reads the state, and this part makes the mark follow it. The mark
has the words that wake the workload, so that it wakes also if its annotations are removed.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterable
from typing import Final, NamedTuple, final

from activator.discovery.api_server import MERGE_PATCH
from activator.plain.annotations import ASLEEP
from activator.scale.cluster.api import KeyedWriter
from activator.scale.decisions.record import Decided
from activator.scale.part import Part, PartContext
from activator.scale.reasons import Finding, ScaleReason
from activator.scale.reports.load import ServiceName
from activator.scale.wakers.waker import MARK_RULE

logger = logging.getLogger(__name__)

#: Seconds until a failed write is repeated.
AGAIN: Final = 2.0
#: Requests at a time.
MOST_REQUESTS: Final = 16


class _Mark(NamedTuple):
    """A change of a Service; ``value`` None removes the mark."""

    uid: str
    value: str | None


@final
class AsleepPart(Part):
    """Makes the mark of each Service follow its plan."""

    def __init__(self, context: PartContext) -> None:
        self._context = context
        self._writer = KeyedWriter[ServiceName, _Mark](context.start, self._write, MOST_REQUESTS)
        self._wanted: dict[ServiceName, _Mark] = {}
        self._failed: dict[ServiceName, str] = {}

    def carry_out(self, name: ServiceName, decided: Decided, now: float) -> None:
        service, plan = decided.facts.service, decided.plan
        # Without its object, there is nothing that could sleep.
        is_gone = decided.reason == ScaleReason.SCALE_TARGET_MISSING
        if plan is None and not is_gone:
            return
        words = service.words if plan is not None and plan.marked and not is_gone else None
        if (words or "") == service.mark:
            self.leave(name, now)
            return
        mark = _Mark(service.uid, words)
        if self._wanted.get(name) != mark:
            self._wanted[name] = mark
            self._writer.put(name, mark)

    def leave(self, name: ServiceName, now: float) -> None:
        self._wanted.pop(name, None)
        self._failed.pop(name, None)

    def stop(self, now: float) -> None:
        self._writer.clear()
        self._wanted.clear()
        self._failed.clear()

    def findings(self, name: ServiceName) -> Iterable[Finding]:
        if (detail := self._failed.get(name)) is not None:
            note = f"the annotation {ASLEEP} is not written: {detail}"
            yield Finding(ScaleReason.MARK_FAILED, note)

    async def _write(self, name: ServiceName, mark: _Mark) -> None:
        # Another Service of that name has another uid, and gets no mark of this one.
        body = {"metadata": {"uid": mark.uid, "annotations": {ASLEEP: mark.value}}}
        path = f"/api/v1/namespaces/{name.namespace}/services/{name.name}"
        content = json.dumps(body).encode()
        response = await self._context.api.send("PATCH", path, content, MERGE_PATCH)
        detail = MARK_RULE.problem(response)
        if not detail:
            self._failed.pop(name, None)
            logger.debug("Service %s/%s: %s: %s", *name, ASLEEP, mark.value)
        elif self._wanted.get(name) == mark:
            if self._failed.get(name) != detail:
                logger.warning("Service %s/%s: %s: %s", *name, ASLEEP, detail)
            self._failed[name] = detail
            asyncio.get_running_loop().call_later(AGAIN, self._repeat, name, mark)
        self._context.changed([name])

    def _repeat(self, name: ServiceName, mark: _Mark) -> None:
        if self._wanted.get(name) == mark:
            self._writer.put(name, mark)
