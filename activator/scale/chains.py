"""Names the Services that another one cannot wake; the engine wakes the others."""

from __future__ import annotations

from collections.abc import Iterator

from activator.scale.decisions.engine import may_call, woken_with
from activator.scale.part import Part, PartContext
from activator.scale.reasons import Finding, ScaleReason
from activator.scale.reports.load import ServiceName


class ChainPart(Part):
    """The findings about ``activator.dev/wake-with``."""

    def __init__(self, context: PartContext) -> None:
        self._services = context.services

    def findings(self, name: ServiceName) -> Iterator[Finding]:
        asks = self._services.asks(name)
        for other in woken_with(name, asks) if asks is not None else ():
            text = f"annotation activator.dev/wake-with: Service {'/'.join(other)}"
            theirs = self._services.asks(other)
            if theirs is None:
                text += " does not exist, or has no activator.dev/enabled"
            elif may_call(name, other, theirs):
                continue
            else:
                text += f" needs the annotation activator.dev/wake-from: {name.namespace}"
            yield Finding(ScaleReason.WAKE_WITH_UNKNOWN, text)
