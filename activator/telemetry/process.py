"""What prometheus-client knows of any Python process: memory, CPU, descriptors, collections.

The only file that imports prometheus_client; with a registry of its own, since the package's
default one is shared by whoever imports it.
"""

from __future__ import annotations

from prometheus_client import (
    CollectorRegistry,
    GCCollector,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)


class ProcessMetrics:
    """The metrics ``process_*`` and ``python_*``."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        GCCollector(registry=self._registry)

    def render(self) -> str:
        """Return them as text; reads /proc."""
        return generate_latest(self._registry).decode()
