"""Makes the metrics of the process, for the activator and the scaler."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import (
    CollectorRegistry,
    GCCollector,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)

from activator.telemetry.families import Family, MetricKind
from activator.telemetry.metric_writers import Point


class ProcessMetrics:
    """The metrics ``process_*`` and ``python_*``."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        GCCollector(registry=self._registry)

    def render(self) -> str:
        """Return the metrics as text; reads /proc."""
        return generate_latest(self._registry).decode()

    def points(self) -> Iterator[Point]:
        """Yield the metrics as points; reads /proc."""
        for metric in self._registry.collect():
            kind = MetricKind.COUNTER if metric.type == "counter" else MetricKind.GAUGE
            for sample in metric.samples:
                if not sample.name.endswith("_created"):
                    family = Family(sample.name, kind, (*sample.labels,), metric.documentation)
                    yield Point(family, (*sample.labels.items(),), sample.value)
