"""A toy cluster for one machine: services whose pods are processes, scaled by statistics.

Does what autoscaler, scheduler, kubelet and the ServerlessService controller do together, as far as
the activator can see it: the wanted number of pods runs, and the manifests folder says which
addresses there are and which are ready. Must not know the activator; statistics come in by
`Cluster.on_stats`. How many pods are wanted is decided in :mod:`.scaler`.
"""

from __future__ import annotations

import asyncio
import time
from asyncio import TaskGroup
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from activator.lab.addresses import AddressPool, Place
from activator.lab.checks import PERIOD, Probes
from activator.lab.deployment import Deployment
from activator.lab.kubelet import PodProcess
from activator.lab.objects import Object, revision
from activator.lab.pod import PodOptions
from activator.lab.scaler import Scaler

#: Requests at a time that a pod without a limit should have.
DEFAULT_TARGET = 10.0
#: Seconds before a pod is replaced that ended by itself: one that cannot run must not be started
#: in a tight loop.
REPLACE_AFTER = 1.0

#: ((namespace, name), average concurrency, requests counted), as the activator reports them.
Stat = tuple[tuple[str, str], float, float]


@dataclass(frozen=True, slots=True)
class Service:
    """What the cluster is told about a service; its revision has the same name.

    Attributes:
        container_concurrency: requests that one pod may have at a time; 0 is no limit.
        start_after: seconds from a pod's start to its listening.
        target: requests at a time that one pod should have; 0 takes container_concurrency.
        idle: seconds without requests after which pods are taken away.
        timeout: seconds that a request may take in all.
        exec_readiness: the container has an exec readiness probe.
    """

    name: str
    namespace: str = "default"
    container_concurrency: int = 0
    start_after: float = 2.0
    target: float = 0.0
    min_pods: int = 0
    max_pods: int = 3
    idle: float = 15.0
    timeout: int = 300
    exec_readiness: bool = False


class Event(NamedTuple):
    """Something that happened. ``kind`` is one of: asked, scaled, started, listening, listed,
    switched, probe passed, probe failed, ready, not ready, killing, restarted, answered, draining,
    stopped, ended by itself."""

    at: float
    service: Service
    kind: str
    pod: str = ""
    details: dict[str, object] = {}  # noqa: RUF012  never changed, and made anew where there are any


Tell = Callable[[Event], None]


class Cluster:
    """All services and their pods."""

    def __init__(
        self,
        folder: Path,
        services: Iterable[Service],
        *,
        tell: Tell = lambda event: None,
        addresses: AddressPool | None = None,
        readiness_period: float = PERIOD,
    ) -> None:
        """Writes the services' manifests, without pods, into the existing folder.

        Arguments:
            tell: called with each event; must return at once.
            readiness_period: seconds between kubelet's checks of a pod.

        Raises:
            OSError: the folder cannot be written to.
        """
        pool = addresses or AddressPool()
        self._services = {
            (service.namespace, service.name): _ScaledService(
                folder, service, tell, pool, readiness_period
            )
            for service in services
        }

    def on_stats(self, stats: Iterable[Stat]) -> None:
        """Takes an activator's statistics; unknown revisions are ignored. Returns at once.

        Must be called on the thread of the loop that `run` runs on.
        """
        for revision_id, concurrency, count in stats:
            service = self._services.get(revision_id)
            if service is not None:
                service.observe(concurrency, count)

    def on_queue(self, revision_id: tuple[str, str], reason: str) -> None:
        """Takes that requests of a revision begin to wait at the activator, and its word for why.

        As `on_stats`: returns at once, on the loop's thread.
        """
        service = self._services.get(revision_id)
        if service is not None:
            service.waits(reason)

    async def run(self) -> None:
        """Keeps the pods as wanted until cancelled, and then ends them all."""
        async with TaskGroup() as tasks:
            for service in self._services.values():
                tasks.create_task(service.run())


class _ScaledService:
    """One service: its scaler, its pods, its manifests."""

    def __init__(
        self, folder: Path, service: Service, tell: Tell, addresses: AddressPool, period: float
    ) -> None:
        self._service = service
        self._tell = tell
        self._probes = Probes(period, exec_readiness=service.exec_readiness)
        target = service.target or service.container_concurrency or DEFAULT_TARGET
        self._scaler = Scaler(target, service.max_pods, service.idle, service.min_pods)
        self._not_before = 0.0
        self._wake = asyncio.Event()
        self._deployment = Deployment(folder, _revision_of(service), self._happened, addresses)

    def observe(self, concurrency: float, count: float) -> None:
        self._scaler.observe(time.monotonic(), concurrency, count)
        # Only without any pod is it certain that the request waits: one that Kubernetes does not
        # call ready yet may have answered already, since the activator asks pods itself.
        if concurrency > 0 and not self._deployment.running:
            self._happened("asked", concurrency=concurrency)
        self._wake.set()

    def waits(self, reason: str) -> None:
        # Without a pod the statistics say so. A queue behind busy pods is no news: more are coming.
        if self._deployment.running and reason != "at-capacity":
            self._happened("asked", reason=reason)

    async def run(self) -> None:
        async with TaskGroup() as tasks:
            while True:
                self._wake.clear()
                # One time for both: a moment that passes between two readings would be missed.
                now = time.monotonic()
                self._reconcile(tasks, now)
                await self._wait(now)

    async def _wait(self, now: float) -> None:
        """Wait for a statistic, a pod's end, or the time at which the desired number may change."""
        times = [self._scaler.next_change()]
        if self._not_before > now:
            times.append(self._not_before)
        known = [at for at in times if at is not None]
        # Not wait_for: on Python 3.11 that swallows a cancellation that comes with the wake-up.
        with suppress(TimeoutError):
            async with asyncio.timeout(max(min(known) - now, 0) if known else None):
                await self._wake.wait()

    def _reconcile(self, tasks: TaskGroup, now: float) -> None:
        wanted = self._scaler.desired(now)
        running = self._deployment.running
        if wanted == len(running) or (wanted > len(running) and now < self._not_before):
            return
        self._happened("scaled", pods=len(running), wanted=wanted)
        for _ in range(wanted - len(running)):
            self._deployment.start_pod(tasks, self._probes, self._options, self._ended)
        for pod in running[wanted:]:
            pod.stop()  # out of the Endpoints first, then told to end: requests stop coming
        self._deployment.publish()

    def _options(self, name: str, place: Place) -> PodOptions:
        return PodOptions(
            name=name,
            address=place.ip,
            port=place.port,
            admin_port=place.admin_port,
            start_after=self._service.start_after,
            container_concurrency=self._service.container_concurrency,
            tell_requests=True,
        )

    def _ended(self, pod: PodProcess) -> None:
        if not pod.stopping:
            self._not_before = time.monotonic() + REPLACE_AFTER
        self._wake.set()

    def _happened(self, kind: str, pod: str = "", **details: object) -> None:
        self._tell(Event(time.monotonic(), self._service, kind, pod, details))


def _revision_of(service: Service) -> Object:
    return revision(
        service.name,
        namespace=service.namespace,
        container_concurrency=service.container_concurrency,
        timeout=service.timeout,
        exec_readiness=service.exec_readiness,
    )
