"""Scale the revisions of the demo by the statistics of an activator.

The number of pods follows the highest concurrency of the last `window` seconds. So the first
request starts a pod at once, and a burst adds pods at once. The number falls only after a whole
window with less load.
Knative's counterpart: pkg/autoscaler/scaling/autoscaler.go, which also has a panic window.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from activator.lab.cluster import ToyCluster
from activator.lab.kubelet import PERIOD, Probes
from activator.lab.objects import revision

#: Requests at a time for each pod of a service without a limit.
DEFAULT_TARGET = 10.0
#: Tolerance for rounding errors of floating point numbers.
EPSILON = 1e-9


class ToyScaler:
    """The desired number of pods of one service, from its statistics."""

    def __init__(self, target: float, max_pods: int, window: float, min_pods: int = 0) -> None:
        """
        Arguments:
            target: requests at a time that one pod should have; above 0.
            max_pods: the largest number of pods.
            window: seconds without load after which a service scales to zero.
            min_pods: the smallest number of pods.

        Raises:
            ValueError: the arguments contradict each other.
        """
        if target <= 0 or window <= 0 or not 0 <= min_pods <= max_pods:
            raise ValueError(f"{target=}, {window=}, {min_pods=}, {max_pods=}: cannot scale so")
        self._target = target
        self._max_pods = max_pods
        self._min_pods = min_pods
        self._window = window
        # Decreasing needs from oldest to newest. An older need that is not larger than a newer one
        # can never be the maximum again, so `observe` removes it.
        self.needs: deque[tuple[float, int]] = deque()

    def observe(self, now: float, concurrency: float, count: float) -> None:
        """Add a statistic: average concurrency of a period, and requests that arrived in it.

        A request shorter than the period has an average near 0 and still needs a pod.
        """
        need = math.ceil(concurrency / self._target - EPSILON)
        if count > 0 or concurrency > 0:
            need = max(need, 1)
        while self.needs and self.needs[-1][1] <= need:
            self.needs.pop()
        self.needs.append((now, need))

    def desired(self, now: float) -> int:
        """Return the desired number of pods now."""
        while self.needs and self.needs[0][0] + self._window <= now:
            self.needs.popleft()
        need = self.needs[0][1] if self.needs else 0
        return min(max(need, self._min_pods), self._max_pods)

    def next_change(self) -> float | None:
        """Return when `desired` may fall without a new statistic; None for never."""
        return self.needs[0][0] + self._window if self.needs else None


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


Tell = Callable[[DemoEvent], object]


class ToyAutoscaler:
    """Scales all revisions of a cluster. It needs a running loop."""

    def __init__(
        self,
        cluster: ToyCluster,
        services: Iterable[DemoService],
        tell: Tell,
        readiness_period: float = PERIOD,
    ) -> None:
        """Create the revisions, with their least numbers of pods.

        Arguments:
            tell: called with each event; must return at once.
            readiness_period: seconds between kubelet's checks of a pod.
        """
        self._services = {
            (service.namespace, service.name): _ScaledRevision(
                cluster, service, tell, readiness_period
            )
            for service in services
        }

    def on_stats(self, stats: Iterable[Stat]) -> None:
        """Use the load that an activator reports; ignore unknown revisions. Do not block.

        The caller must be on the thread of the loop.
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

    def close(self) -> None:
        """Start and stop no pod any more."""
        for service in self._services.values():
            service.close()


class _ScaledRevision:
    """One revision: its scaler and its pods."""

    def __init__(
        self, cluster: ToyCluster, service: DemoService, tell: Tell, period: float
    ) -> None:
        self._cluster = cluster
        self._service = service
        self._tell = tell
        target = service.target or service.container_concurrency or DEFAULT_TARGET
        self._scaler = ToyScaler(target, service.max_pods, service.idle, service.min_pods)
        self._timer: asyncio.TimerHandle | None = None
        concurrency = service.container_concurrency
        found = revision(
            service.name,
            namespace=service.namespace,
            container_concurrency=concurrency,
            timeout=service.timeout,
            exec_readiness=service.exec_readiness,
        )
        probes = Probes(period, exec_readiness=service.exec_readiness)
        options = {"start_after": service.start_after, "container_concurrency": concurrency}
        cluster.add_revision(found, probes, options)
        self._reconcile()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def observe(self, concurrency: float, count: float) -> None:
        self._scaler.observe(time.monotonic(), concurrency, count)
        # Only without any pod is it certain that the request is queued. The activator probes pods
        # itself, so a pod that Kubernetes does not list as ready may have responded already.
        if concurrency > 0 and not self._running:
            self._happened("queued", concurrency=concurrency)
        self._reconcile()

    def waits(self, reason: str) -> None:
        # Without a pod, `observe` has reported this. A queue at capacity is normal: the service is
        # being scaled.
        if self._running and reason != "at-capacity":
            self._happened("queued", reason=reason)

    @property
    def _running(self) -> list[str]:
        return self._cluster.running(self._service.name, self._service.namespace)

    def _reconcile(self) -> None:
        """Start and stop pods, and come back when the desired number may change by itself."""
        now, running = time.monotonic(), self._running
        wanted = self._scaler.desired(now)
        name, namespace = self._service.name, self._service.namespace
        if wanted != len(running):
            self._happened("scaled", pods=len(running), wanted=wanted)
        self._cluster.start_pods(name, wanted - len(running), namespace)
        for pod in running[wanted:]:
            self._cluster.stop_pod(pod, namespace)
        self.close()
        if (change := self._scaler.next_change()) is not None:
            delay = max(change - now, 0)
            self._timer = asyncio.get_running_loop().call_later(delay, self._reconcile)

    def _happened(self, kind: str, **details: Any) -> None:
        self._tell(DemoEvent(time.monotonic(), self._service, kind, "", details))
