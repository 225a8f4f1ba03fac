"""Turns traces on and off, as configured: on means a tracer with a queue and an exporter.

A change takes effect with the next request. The old exporter sends its remaining spans in its
thread. While traces are off, nothing of OpenTelemetry is imported, and a request's trace context
passes unchanged. Knative's activator reads this configuration once, at start.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from activator.knative.configmaps.observability import NONE, STDOUT, TracingConfig
from activator.process.logs import Repeats
from activator.telemetry.destination import Destination, Endpoints, Identity, Signal
from activator.telemetry.tracing import RecordedTrace, RequestTracer, always, never, sampler_of

if TYPE_CHECKING:  # OpenTelemetry's packages are imported by a thread
    from activator.telemetry.otlp import SpanSender

logger = logging.getLogger(__name__)

#: Most requests in the queue: some 2 KiB each, so 4 MiB in all.
MAX_QUEUED: Final = 2048
#: Requests of a batch: with four spans each, the specification's 512 spans.
BATCH: Final = 128
#: Seconds until the thread sends an incomplete batch.
DELAY: Final = 5.0


class TraceCounters:
    """Counts recorded requests; outlives a change of exporter.

    Attributes:
        exported: requests whose spans a collector has accepted.
        dropped: all other requests, by cause (``queue-full``, ``export-failed``).
    """

    def __init__(self) -> None:
        self.exported = 0
        self.dropped = {"queue-full": 0, "export-failed": 0}


class TraceQueue:
    """Keeps ended requests until a thread has sent them.

    The loop only appends. It never waits: a full queue drops requests and counts them. So a
    collector that is down costs a fixed amount of memory and a log line now and then. The thread
    also imports OpenTelemetry's packages, since that takes a tenth of a second. The defaults equal
    the defaults of the batching span processor of OpenTelemetry's SDKs.

    Arguments:
        make: makes the exporter, in the thread. If it raises, the thread logs the error and drops
            all requests.
        counters: the counters of exported and dropped requests.
        delay: seconds until the thread sends an incomplete batch.
    """

    def __init__(
        self, make: Callable[[], SpanSender], counters: TraceCounters, delay: float = DELAY
    ) -> None:
        self._make = make
        self._counters = counters
        self._delay = delay
        self._queue: deque[RecordedTrace] = deque()
        self._wake = threading.Event()
        self._stopping = False
        self._exporter: SpanSender | None = None
        self._repeats = Repeats(60.0)
        # A daemon thread: an exporter that hangs must not keep the process alive.
        self._thread = threading.Thread(target=self._run, name="traces", daemon=True)
        self._thread.start()

    def put(self, trace: RecordedTrace) -> None:
        """Queue an ended request for the exporter, or drop it if the queue is full."""
        queue = self._queue
        if len(queue) >= MAX_QUEUED or self._stopping:
            self._counters.dropped["queue-full"] += 1
            return
        queue.append(trace)
        if len(queue) == BATCH:
            self._wake.set()

    def close(self, timeout: float) -> None:
        """Send the queued requests, and end the thread; blocks for ``timeout`` seconds at most."""
        self._stopping = True
        self._wake.set()
        self._thread.join(timeout)
        if self._thread.is_alive() and self._exporter is not None:
            self._exporter.shutdown()

    def _run(self) -> None:
        exporter: SpanSender | None
        try:
            exporter = self._exporter = self._make()
        except Exception as error:  # no error of a package may harm requests
            logger.error("traces: no exporter, all spans are dropped: %s", error)
            exporter = None
        while True:
            self._wake.wait(self._delay)
            self._wake.clear()
            stopping = self._stopping
            while self._queue:
                # Only this thread removes requests, so the queue has at least that many.
                self._export(exporter, [self._queue.popleft() for _ in range(self._ready())])
            if stopping:
                break
        if exporter is not None:
            exporter.shutdown()

    def _ready(self) -> int:
        return min(len(self._queue), BATCH)

    def _export(self, exporter: SpanSender | None, traces: list[RecordedTrace]) -> None:
        try:
            problem = exporter.export(traces) if exporter else "there is no exporter"
        except Exception as error:  # as above
            problem = f"{type(error).__name__}: {error}"
        if not problem:
            self._counters.exported += len(traces)
            return
        self._counters.dropped["export-failed"] += len(traces)
        hidden = self._repeats.admit("export", time.monotonic())
        if hidden is not None:
            logger.warning(
                "traces: the spans of %d requests were dropped (%d times before): %s",
                *(len(traces), hidden, problem),
            )


#: Seconds to send the remaining spans when traces are turned off or the process ends
#: (Knative: 10 for metrics and traces together).
FLUSH: Final = 10.0
#: Seconds after which the loop gets the interpreter from a thread that encodes spans. With the
#: default of 5 ms each turn of the loop waits that long while the thread sends traces.
_SWITCH: Final = 0.0005


@dataclass(frozen=True, slots=True)
class TraceSettings:
    """The environment's settings of traces.

    Attributes:
        sampler: OTEL_TRACES_SAMPLER, one of tracing.SAMPLERS or empty; argument:
            OTEL_TRACES_SAMPLER_ARG, None where it is not set.
    """

    identity: Identity
    endpoints: Endpoints
    sampler: str = ""
    argument: float | None = None


class Traces:
    """Turns traces on and off.

    Arguments:
        settings: from the environment, which wins over the ConfigMap.
        install: called with the tracer for the next requests, or None.
        start: runs a coroutine as a task.
    """

    def __init__(
        self,
        settings: TraceSettings,
        install: Callable[[RequestTracer | None], None],
        start: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        self._settings = settings
        self._install = install
        self._start = start
        self._config = TracingConfig()
        self._destination: Destination | None = None
        self._queue: TraceQueue | None = None
        self.counters = TraceCounters()

    def apply(self, config: TracingConfig) -> None:
        """Apply the ConfigMap; one without a change has no effect."""
        if config == self._config:
            return
        self._config = config
        destination = self._wanted(config)
        if destination != self._destination:
            self._replace(destination)
        if self._queue is None:
            self._install(None)
            return
        settings = self._settings
        decide = sampler_of(settings.sampler, settings.argument, config.sampling_rate)
        if decide is never and not settings.sampler and config.protocol != STDOUT:
            logger.warning("traces: no request is traced, since tracing-sampling-rate is 0")
        # Spans on stdout are for debugging: as in Knative, each request is traced.
        self._install(
            RequestTracer(always if config.protocol == STDOUT else decide, self._queue.put)
        )

    async def close(self) -> None:
        """Send the remaining spans; takes ``FLUSH`` seconds at most."""
        self._install(None)
        queue, self._queue = self._queue, None
        if queue is not None:
            await asyncio.to_thread(queue.close, FLUSH)

    def _wanted(self, config: TracingConfig) -> Destination | None:
        if config.protocol == NONE:
            return None
        endpoints = self._settings.endpoints
        return endpoints.destination(Signal.TRACES, config.protocol, config.endpoint)

    def _replace(self, destination: Destination | None) -> None:
        if self._queue is not None:
            self._start(asyncio.to_thread(self._queue.close, FLUSH))
        self._destination = destination
        self._queue = None
        if destination is None:
            logger.info("traces: off")
            return
        identity = self._settings.identity

        def make() -> SpanSender:
            from activator.telemetry.otlp import SpanSender

            return SpanSender(destination, identity)

        sys.setswitchinterval(min(sys.getswitchinterval(), _SWITCH))
        self._queue = TraceQueue(make, self.counters)
        logger.info("traces: sent to %s", destination)
