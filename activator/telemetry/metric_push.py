"""Pushes metrics to a collector periodically, if the configuration says so.

The loop collects the points, and serves requests between small pieces of that work. A thread
converts the points and sends them. The port for Prometheus stays open. Knative's activator reads
this configuration once, at start. Its counterpart: knative.dev/pkg/observability/metrics.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any, Final

from activator.knative.configmaps.observability import OTLP, PROMETHEUS, MetricsConfig
from activator.process.logs import Repeats
from activator.telemetry.destination import Destination, Endpoints, Identity, Signal
from activator.telemetry.metric_writers import Point

if TYPE_CHECKING:  # OpenTelemetry's packages are imported by a thread
    from activator.telemetry.otlp import MetricSender

logger = logging.getLogger(__name__)

#: Seconds between two pushes without a setting (OpenTelemetry's default).
INTERVAL: Final = 60.0
#: Seconds that the last push may take (Knative: 10 for metrics and traces together).
FLUSH: Final = 10.0
#: Points that the loop collects in one turn: some 0.3 ms.
PIECES: Final = 256


class MetricPush:
    """Turns pushing on and off.

    Arguments:
        identity, endpoints: from the environment; interval: seconds, None if the environment does
            not set it.
        points: yields all series as they are now.
        start: runs a coroutine as a task.

    Attributes:
        pushes: the number of pushes by result: sent or failed.
    """

    def __init__(
        self,
        identity: Identity,
        endpoints: Endpoints,
        interval: float | None,
        points: Callable[[], Iterator[Point | None]],
        start: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
    ) -> None:
        self._identity = identity
        self._endpoints = endpoints
        self._interval = interval
        self._points = points
        self._start = start
        self._since = time.time_ns()
        self._config = MetricsConfig()
        self._sender: MetricSender | None = None
        self._task: asyncio.Task[None] | None = None
        self._repeats = Repeats(600.0)
        self.pushes = {"sent": 0, "failed": 0}

    def apply(self, config: MetricsConfig) -> None:
        """Apply the ConfigMap; one without a change has no effect."""
        if config == self._config:
            return
        self._config = config
        if self._task is not None:
            self._task.cancel()
            self._task = None
            if self._sender is not None:
                self._start(asyncio.to_thread(self._sender.shutdown))
                self._sender = None
            logger.info("metrics: the pushes to the previous destination have stopped")
        if config.protocol == PROMETHEUS and config.endpoint:
            logger.warning(
                "metrics: metrics-endpoint %s opens no port; METRICS_PROMETHEUS_PORT and "
                "METRICS_PROMETHEUS_HOST set the address for Prometheus, at start",
                config.endpoint,
            )
        if config.protocol in OTLP:
            endpoints = self._endpoints
            destination = endpoints.destination(Signal.METRICS, config.protocol, config.endpoint)
            interval = self._interval or config.export_interval or INTERVAL
            self._task = self._start(self._run(destination, interval))
            logger.info("metrics: pushed to %s every %g s", destination, interval)

    async def close(self) -> None:
        """Push once more, then stop; takes ``FLUSH`` seconds at most."""
        if self._task is None:
            return
        self._task.cancel()
        self._task = None
        sender = self._sender
        if sender is not None:
            try:
                async with asyncio.timeout(FLUSH):
                    await self._push(sender)
            except TimeoutError:
                logger.warning("metrics: the last push before the end took more than %g s", FLUSH)
            sender.shutdown()

    async def _run(self, destination: Destination, interval: float) -> None:
        try:
            sender = self._sender = await asyncio.to_thread(self._make, destination)
        except Exception as error:  # the packages raise anything for a wrong environment
            logger.error("metrics: cannot be pushed to %s: %s", destination, error)
            return
        while True:
            await asyncio.sleep(interval)
            await self._push(sender)

    def _make(self, destination: Destination) -> MetricSender:
        from activator.telemetry.otlp import MetricSender

        return MetricSender(destination, self._identity)

    async def _push(self, sender: MetricSender) -> None:
        points: list[Point] = []
        for taken, point in enumerate(self._points(), 1):
            if point is not None:
                points.append(point)
            if taken % PIECES == 0:
                await asyncio.sleep(0)
        problem = await asyncio.to_thread(sender.export, points, self._since, time.time_ns())
        self.pushes["failed" if problem else "sent"] += 1
        if not problem:
            return
        hidden = self._repeats.admit("push", time.monotonic())
        if hidden is not None:
            logger.warning("metrics: a push failed (%d times before): %s", hidden, problem)
