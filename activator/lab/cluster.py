"""A toy cluster for one machine: services whose pods are processes, scaled by statistics.

It replaces autoscaler, scheduler, kubelet and the ServerlessService controller. It runs the
desired number of pods, and writes their addresses and readiness into the manifests folder.
:mod:`.scaler` calculates the desired number from statistics, which `Cluster.on_stats` receives.
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

from activator.lab.addresses import AddressPool, PodPlace
from activator.lab.deployment import Deployment
from activator.lab.kubelet import PERIOD, PodProcess, Probes
from activator.lab.objects import Object, revision
from activator.lab.pod import PodOptions
from activator.lab.scaler import ToyScaler

#: Requests at a time for each pod of a service without a limit.
DEFAULT_TARGET = 10.0
#: Seconds before the cluster replaces a pod that ended by itself. This prevents a tight loop if
#: the pod cannot run.
REPLACE_AFTER = 1.0

#: ((namespace, name), average concurrency, requests counted), as the activator reports them.
Stat = tuple[tuple[str, str], float, float]


@dataclass(frozen=True, slots=True)
class DemoService:
    """A service of the cluster; its revision has the same name.

    Attributes:
        container_concurrency: requests that one pod may have at a time; 0 is no limit.
        start_after: seconds from a pod's start to its listening.
        target: requests at a time that one pod should have; 0 takes container_concurrency.
        idle: seconds without requests before the service scales to zero.
        timeout: seconds that a request may take in total.
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


class DemoEvent(NamedTuple):
    """One event of a service or pod.

    Attributes:
        kind: one of queued, scaled, started, listening, listed, switched, probe passed,
            probe failed, ready, not ready, killing, restarted, responded, draining, stopped,
            ended by itself.
        pod: the pod's name; empty for an event of the service.
    """

    at: float
    service: DemoService
    kind: str
    pod: str = ""
    details: dict[str, object] = {}  # noqa: RUF012  never changed


Tell = Callable[[DemoEvent], None]


class Cluster:
    """All services and their pods."""

    def __init__(
        self,
        folder: Path,
        services: Iterable[DemoService],
        *,
        tell: Tell = lambda event: None,
        addresses: AddressPool | None = None,
        readiness_period: float = PERIOD,
    ) -> None:
        """Write the services' manifests, without pods, into the existing folder.

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
        """Use the load that an activator reports; ignore unknown revisions. Do not block.

        The caller must be on the thread of the loop that `run` uses.
        """
        for revision_id, concurrency, count in stats:
            service = self._services.get(revision_id)
            if service is not None:
                service.observe(concurrency, count)

    def on_queue(self, revision_id: tuple[str, str], reason: str) -> None:
        """Note that the activator has begun to queue requests of a revision, with the reason.

        Like `on_stats`, it returns at once, and must be called on the loop's thread.
        """
        service = self._services.get(revision_id)
        if service is not None:
            service.waits(reason)

    async def run(self) -> None:
        """Run the desired number of pods until cancelled, then end them all."""
        async with TaskGroup() as tasks:
            for service in self._services.values():
                tasks.create_task(service.run())


class _ScaledService:
    """One service: its scaler, its pods, its manifests."""

    def __init__(
        self, folder: Path, service: DemoService, tell: Tell, addresses: AddressPool, period: float
    ) -> None:
        self._service = service
        self._tell = tell
        self._probes = Probes(period, exec_readiness=service.exec_readiness)
        target = service.target or service.container_concurrency or DEFAULT_TARGET
        self._scaler = ToyScaler(target, service.max_pods, service.idle, service.min_pods)
        self._not_before = 0.0
        self._wake = asyncio.Event()
        self._deployment = Deployment(folder, _revision_of(service), self._happened, addresses)

    def observe(self, concurrency: float, count: float) -> None:
        self._scaler.observe(time.monotonic(), concurrency, count)
        # Only without any pod is it certain that the request is queued. The activator probes pods
        # itself, so a pod that Kubernetes does not list as ready may have responded already.
        if concurrency > 0 and not self._deployment.running:
            self._happened("queued", concurrency=concurrency)
        self._wake.set()

    def waits(self, reason: str) -> None:
        # Without a pod, `observe` has reported this. A queue at capacity is normal: the service is
        # being scaled.
        if self._deployment.running and reason != "at-capacity":
            self._happened("queued", reason=reason)

    async def run(self) -> None:
        async with TaskGroup() as tasks:
            while True:
                self._wake.clear()
                # Read the clock once: two readings could miss a time between them.
                now = time.monotonic()
                self._reconcile(tasks, now)
                await self._wait(now)

    async def _wait(self, now: float) -> None:
        """Wait for a statistic, a pod's end, or the time at which the desired number may change."""
        times = [self._scaler.next_change()]
        if self._not_before > now:
            times.append(self._not_before)
        known = [at for at in times if at is not None]
        # Not wait_for: on Python 3.11 it loses a cancellation that comes together with the event.
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
            pod.stop()  # `publish` removes it from the Endpoints, so new requests avoid it
        self._deployment.publish()

    def _options(self, name: str, place: PodPlace) -> PodOptions:
        return PodOptions(
            name=name,
            address=place.ip,
            port=place.port,
            admin_port=place.admin_port,
            start_after=self._service.start_after,
            container_concurrency=self._service.container_concurrency,
            report_requests=True,
        )

    def _ended(self, pod: PodProcess) -> None:
        if not pod.stopping:
            self._not_before = time.monotonic() + REPLACE_AFTER
        self._wake.set()

    def _happened(self, kind: str, pod: str = "", **details: object) -> None:
        self._tell(DemoEvent(time.monotonic(), self._service, kind, pod, details))


def _revision_of(service: DemoService) -> Object:
    return revision(
        service.name,
        namespace=service.namespace,
        container_concurrency=service.container_concurrency,
        timeout=service.timeout,
        exec_readiness=service.exec_readiness,
    )
