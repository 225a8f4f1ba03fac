"""Sends traces and metrics to collectors, as the observability ConfigMap and the settings say.

It costs nothing while neither is on: OpenTelemetry's packages are not even imported then. Knative's
activator reads this configuration once, at start; here a change takes effect at once. Knative's
counterpart: knative.dev/pkg/observability and cmd/activator/main.go.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from activator.knative.configmaps.observability import (
    GRPC,
    HTTP_PROTOBUF,
    NONE,
    OTLP,
    PROMETHEUS,
    STDOUT,
    MetricsConfig,
    ObservabilityConfig,
    RequestLogConfig,
    TracingConfig,
)
from activator.process.logs import Repeats
from activator.process.outputs import Outputs
from activator.records.counters import LAG_BOUNDS, Histogram
from activator.settings.config import Settings
from activator.telemetry.request_log import RequestLog
from activator.telemetry.tracing import RecordedTrace, RequestTracer, always, never, sampler_of
from activator.tls.certificates import Certificates

if TYPE_CHECKING:  # OpenTelemetry's packages are imported by a thread
    from activator.telemetry.metric_writers import Point
    from activator.telemetry.otlp import MetricSender, SpanSender

logger = logging.getLogger(__name__)

# -- where traces and metrics are sent ------------------------------------------------------------

# Sources: knative.dev/pkg/observability (endpointFor), OpenTelemetry's specification of
# OTEL_EXPORTER_OTLP_ENDPOINT, and Go's WithEndpointURL.


@dataclass(frozen=True, slots=True)
class Identity:
    """The resource attributes of the process."""

    service_name: str
    namespace: str
    pod_name: str


@dataclass(frozen=True, slots=True)
class Destination:
    """The collector, or stdout.

    Attributes:
        protocol: http/protobuf, grpc or stdout.
        url: with scheme and, for HTTP, the whole path; empty for stdout.
    """

    protocol: str
    url: str = ""

    def __str__(self) -> str:
        return f"{self.url} ({self.protocol})" if self.url else self.protocol


@dataclass(frozen=True, slots=True)
class Endpoints:
    """The endpoints of the environment, which wins over the ConfigMap; empty where not set.

    Attributes:
        general: OTEL_EXPORTER_OTLP_ENDPOINT, to which HTTP adds the signal's path.
        traces, metrics: OTEL_EXPORTER_OTLP_TRACES_ENDPOINT and …_METRICS_ENDPOINT, used
            unchanged.
    """

    general: str = ""
    traces: str = ""
    metrics: str = ""

    def destination(self, signal: str, protocol: str, configured: str) -> Destination:
        """Return the destination of a signal.

        Arguments:
            signal: ``traces`` or ``metrics``, the last part of its path over HTTP.
            protocol: the ConfigMap's protocol.
            configured: the ConfigMap's endpoint: a URL, or ``host:port``, which means https as
                in Knative. HTTP's usual path is added to a URL without a path.
        """
        if protocol == STDOUT:
            return Destination(STDOUT)
        own = self.traces if signal == "traces" else self.metrics
        path = f"/v1/{signal}"
        if own:
            return Destination(protocol, with_scheme(own))
        if self.general:
            base = with_scheme(self.general)
            return Destination(protocol, base if protocol == GRPC else base.rstrip("/") + path)
        url = with_scheme(configured)
        bare = protocol == HTTP_PROTOBUF and not urlsplit(url).path
        return Destination(protocol, url + path if bare else url)


def with_scheme(endpoint: str) -> str:
    """Return a URL; ``host:port`` alone means https."""
    return endpoint if "://" in endpoint else f"https://{endpoint}"


# -- traces ---------------------------------------------------------------------------------------

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
        try:
            self._exporter = self._make()
        except Exception as error:  # no error of a package may harm requests
            logger.error("traces: no exporter, all spans are dropped: %s", error)
        while True:
            self._wake.wait(self._delay)
            self._wake.clear()
            stopping = self._stopping
            while self._queue:
                # Only this thread removes requests, so the queue has at least that many.
                ready = range(min(len(self._queue), BATCH))
                self._export([self._queue.popleft() for _ in ready])
            if stopping:
                break
        if self._exporter is not None:
            self._exporter.shutdown()

    def _export(self, traces: list[RecordedTrace]) -> None:
        try:
            exporter = self._exporter
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


#: Seconds to send the remaining spans or metrics when they are turned off or the process ends
#: (Knative: 10 for metrics and traces together).
FLUSH: Final = 10.0
#: Seconds after which the loop gets the interpreter from a thread that encodes spans. With the
#: default of 5 ms each turn of the loop waits that long while the thread sends traces.
_SWITCH: Final = 0.0005


class Traces:
    """Turns traces on and off: on means a tracer with a queue and an exporter.

    A change takes effect with the next request. The old exporter sends its remaining spans in its
    thread. While traces are off, a request's trace context passes unchanged.

    Arguments:
        identity, endpoints: from the environment, which wins over the ConfigMap.
        install: called with the tracer for the next requests, or None.
        start: runs a coroutine as a task.
        sampler: OTEL_TRACES_SAMPLER, one of tracing.SAMPLERS or empty; argument:
            OTEL_TRACES_SAMPLER_ARG, None where it is not set.
    """

    def __init__(
        self,
        identity: Identity,
        endpoints: Endpoints,
        install: Callable[[RequestTracer | None], None],
        start: Callable[[Coroutine[Any, Any, None]], object],
        sampler: str = "",
        argument: float | None = None,
    ) -> None:
        self._identity = identity
        self._endpoints = endpoints
        self._install = install
        self._start = start
        self._sampler = sampler
        self._argument = argument
        self._config = TracingConfig()
        self._destination: Destination | None = None
        self._queue: TraceQueue | None = None
        self.counters = TraceCounters()

    def apply(self, config: TracingConfig) -> None:
        """Apply the ConfigMap; one without a change has no effect."""
        if config == self._config:
            return
        self._config = config
        destination: Destination | None = None
        if config.protocol != NONE:
            destination = self._endpoints.destination("traces", config.protocol, config.endpoint)
        if destination != self._destination:
            self._replace(destination)
        if self._queue is None:
            self._install(None)
            return
        decide = sampler_of(self._sampler, self._argument, config.sampling_rate)
        if decide is never and not self._sampler and config.protocol != STDOUT:
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

    def _replace(self, destination: Destination | None) -> None:
        if self._queue is not None:
            self._start(asyncio.to_thread(self._queue.close, FLUSH))
        self._destination = destination
        self._queue = None
        if destination is None:
            logger.info("traces: off")
            return
        identity = self._identity

        def make() -> SpanSender:
            from activator.telemetry.otlp import SpanSender

            return SpanSender(destination, identity)

        sys.setswitchinterval(min(sys.getswitchinterval(), _SWITCH))
        self._queue = TraceQueue(make, self.counters)
        logger.info("traces: sent to %s", destination)


# -- metrics --------------------------------------------------------------------------------------

#: Seconds between two pushes without a setting (OpenTelemetry's default).
INTERVAL: Final = 60.0
#: Points that the loop collects in one turn: some 0.3 ms.
PIECES: Final = 256


class MetricPush:
    """Pushes metrics to a collector periodically, if the configuration says so.

    The loop collects the points, and serves requests between small pieces of that work. A thread
    converts the points and sends them. The port for Prometheus stays open. Knative's counterpart:
    knative.dev/pkg/observability/metrics.

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
            destination = self._endpoints.destination("metrics", config.protocol, config.endpoint)
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


# -- the lag of the event loop --------------------------------------------------------------------

# A blocked loop delays every request by this time. A long computation blocks it, or a container
# that may not use a CPU.

#: Seconds between timers. Each timer makes an idle process run. Scrapes usually come every 15 s,
#: and still get 15 values.
EVERY = 1.0


class LoopLag:
    """Measures how late the event loop is, by a timer once a second, from ``start`` to ``close``.

    Attributes:
        seconds: how late each timer came.
    """

    def __init__(self) -> None:
        self.seconds = Histogram(LAG_BOUNDS)
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Start in the running loop."""
        self._arm(asyncio.get_running_loop())

    def close(self) -> None:
        """Stop; may be called at any time."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self, loop: asyncio.AbstractEventLoop) -> None:
        # The timer of activator.servers is due then, too: an idle process runs once for both.
        due = loop.time() // EVERY * EVERY + EVERY
        self._timer = loop.call_at(due, self._look, loop, due)

    def _look(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        self.seconds.observe(loop.time() - due)
        self._arm(loop)


#: The Combined Log Format. Escapes keep a client from writing lines of its own.
COMBINED_LOG: Final = (
    "{{.Request.RemoteAddr}} - - [{{.Received}}] "
    '"{{.Request.Method}} {{js .Request.URL.EscapedPath}} {{.Request.Proto}}" '
    "{{.Response.Code}} {{.Response.Size}} "
    '"{{js .Request.Referer}}" "{{js .Request.UserAgent}}"'
)
#: Where OpenTelemetry's SDKs send to without OTEL_EXPORTER_OTLP_ENDPOINT, which wins.
_COLLECTORS: Final = {HTTP_PROTOBUF: "http://localhost:4318", GRPC: "http://localhost:4317"}


def initial_config(settings: Settings) -> ObservabilityConfig:
    """Return the configuration until there is a ConfigMap, by the add-on's variables.

    Sources: its interceptor/middleware/logging.go and pkg/observability.
    """
    if "keda" not in settings.dialect:
        return ObservabilityConfig()
    words = {"console": STDOUT}
    protocol = words.get(settings.keda_otlp_protocol, settings.keda_otlp_protocol)
    traces = protocol if settings.keda_otlp_traces else NONE
    metrics = HTTP_PROTOBUF if settings.keda_otlp_metrics else NONE
    return ObservabilityConfig(
        RequestLogConfig(settings.keda_log_requests, COMBINED_LOG),
        MetricsConfig(metrics, _COLLECTORS.get(metrics, "")),
        TracingConfig(traces, _COLLECTORS.get(traces, ""), sampling_rate=1.0),
    )


# -- all parts ------------------------------------------------------------------------------------


class Observers:
    """The parts of one activator that observe the others, and print or send the observations.

    Each part works alone. Metrics read their counters.

    Arguments:
        settings: they win over the ConfigMap.
        install: called with the tracer for the next requests, or None.
        start: runs a coroutine as a task.
        points: yields all metrics as they are now.
        outputs: stdout gets the request log, as with Knative; stderr gets the process log.
        clock: seconds, monotonic.

    Attributes:
        identity: the identity of this activator.
        traces, push: turn traces and pushes of metrics on and off, and count them.
        request_log: a line for each request, if a ConfigMap asks for lines.
        outputs: see above.
        loop_lag: the delay of the event loop.
        pauses: the seconds of each check for garbage.
        certificates: the certificates of the listeners.
        initial: the configuration until there is a ConfigMap.
    """

    def __init__(
        self,
        settings: Settings,
        install: Callable[[RequestTracer | None], None],
        start: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
        points: Callable[[], Iterator[Point | None]],
        outputs: Outputs,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.identity = identity = Identity(
            settings.otel_service_name, settings.system_namespace, settings.pod_name
        )
        endpoints = Endpoints(
            settings.otel_exporter_otlp_endpoint or "",
            settings.otel_exporter_otlp_traces_endpoint or "",
            settings.otel_exporter_otlp_metrics_endpoint or "",
        )
        sampler, argument = settings.otel_traces_sampler or "", settings.otel_traces_sampler_arg
        self.traces = Traces(identity, endpoints, install, start, sampler, argument)
        milliseconds = settings.otel_metric_export_interval
        interval = milliseconds / 1000 if milliseconds is not None else None
        self.push = MetricPush(identity, endpoints, interval, points, start)
        self.request_log = RequestLog(outputs.stdout.write, clock)
        self.outputs = outputs
        self.loop_lag = LoopLag()
        self.pauses = Histogram(LAG_BOUNDS)
        self.certificates = Certificates()
        self.initial = initial_config(settings)

    def apply(self, config: ObservabilityConfig) -> RequestLog | None:
        """Apply the observability ConfigMap.

        Returns:
            The request log; None if requests get no line.
        """
        self.traces.apply(config.tracing)
        self.push.apply(config.metrics)
        return self.request_log if self.request_log.configure(config.request_log) else None

    async def close(self) -> None:
        """Send the remaining traces and metrics; takes ten seconds at most."""
        await asyncio.gather(self.traces.close(), self.push.close())
