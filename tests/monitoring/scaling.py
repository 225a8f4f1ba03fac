"""A scaler with work that gives each of its metrics a value."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.activator.scale.world import Activator, Cluster, Running, cluster, leader
from tests.process import until


class Scaling:
    """The scaler; ``run`` lets a workload start, and another fail to.

    Attributes:
        metrics: address and port of its metrics.
    """

    def __init__(self, kube: Cluster, running: Running, activator: Activator) -> None:
        self._kube = kube
        self._activator = activator
        self._running = running
        self.metrics = running.scaler.addresses["metrics"]

    async def run(self) -> None:
        """Report a request for each workload, and wait until the scaler has acted on it."""
        await self._activator.report(1)
        await until(self._starts, "a replica")
        self._kube.plane.faults.forbid("patch", "deployments/scale", "apps")
        self._activator.hold(1, "refused")

        async def refused() -> bool:
            return (await self._running.service("refused"))["reason"] == "scale-forbidden"

        await until(refused, "a change that fails")

    async def _starts(self) -> bool:
        return self._kube.replicas() == 1


@asynccontextmanager
async def scaling(folder: Path) -> AsyncIterator[Scaling]:
    """Run a scaler that leads, before anything has happened."""
    own = folder / "scaler"
    own.mkdir()
    async with cluster(own) as kube:
        for name in ("hello", "refused"):
            await kube.add(name)
        async with leader(kube) as running, running.activator() as activator:
            yield Scaling(kube, running, activator)
