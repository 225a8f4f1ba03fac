"""Turns traces on and off, as configured: on means a tracer with a queue and an exporter.

A change takes effect with the next request. The old exporter sends its remaining spans in its
thread. While traces are off, nothing of OpenTelemetry is imported, and a request's trace context
passes unchanged. Knative's activator reads this configuration once, at start.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final

from activator.knative.configmaps.observability import NONE, STDOUT, TracingConfig
from activator.telemetry.destination import Destination, Endpoints, Identity, Signal
from activator.telemetry.sampling import always, never, sampler
from activator.telemetry.trace_queue import TraceCounters, TraceExporter, TraceQueue
from activator.telemetry.tracing import RequestTracer

logger = logging.getLogger(__name__)

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
        sampler: OTEL_TRACES_SAMPLER, one of sampling.WORDS or empty; argument:
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
        decide = sampler(settings.sampler, settings.argument, config.sampling_rate)
        if decide is never and not settings.sampler and config.protocol != STDOUT:
            logger.warning("traces: no request is traced, since tracing-sampling-rate is 0")
        # Spans on stdout are for debugging: as in Knative, each request is traced.
        self._install(RequestTracer(always if config.protocol == STDOUT else decide, self._queue))

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

        def make() -> TraceExporter:
            from activator.telemetry.otlp import SpanSender

            return SpanSender(destination, identity)

        sys.setswitchinterval(min(sys.getswitchinterval(), _SWITCH))
        self._queue = TraceQueue(make, self.counters)
        logger.info("traces: sent to %s", destination)
