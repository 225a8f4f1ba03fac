"""Traces as the configuration wants them: none, or a tracer with a queue and an exporter.

A change takes effect with the next request; what the old exporter still has, it sends in its
thread. While traces are off nothing of OpenTelemetry is imported, and requests pass with the
context that they came with. Knative's activator reads this once at start.
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

#: Seconds in which what is there has to be sent when traces are turned off or the process ends
#: (Knative: 10 for metrics and traces together).
FLUSH: Final = 10.0
#: Seconds after which the loop gets the interpreter from a thread that is encoding spans. With
#: the default of 5 ms each turn of the loop waits that long while traces are sent.
_SWITCH: Final = 0.0005


@dataclass(frozen=True, slots=True)
class TraceSettings:
    """What the environment says of traces.

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
        settings: what the environment says, which wins over the ConfigMap.
        install: takes the tracer for requests from now on, or None.
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
        """Do as the ConfigMap says; the same as before changes nothing."""
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
            logger.warning("traces: none is sent, since tracing-sampling-rate is 0")
        # What is written to stdout is for looking at: as in Knative, nothing is left out.
        self._install(RequestTracer(always if config.protocol == STDOUT else decide, self._queue))

    async def close(self) -> None:
        """Send what is there; takes ``FLUSH`` seconds at most."""
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
