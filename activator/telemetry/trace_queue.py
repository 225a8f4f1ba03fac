"""Queues ended requests for the exporter, which runs in a thread of its own.

The loop only appends. It never waits: a full queue drops requests and counts them. So a collector
that is down costs a fixed amount of memory and a log line now and then. The thread also imports
OpenTelemetry's packages, since that takes a tenth of a second. The defaults equal the defaults of
the batching span processor of OpenTelemetry's SDKs.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from activator.process.logs import Repeats
from activator.telemetry.tracing import RecordedTrace

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


class TraceExporter(Protocol):
    """Sends spans. Only the thread uses it, except for ``shutdown``."""

    def export(self, traces: list[RecordedTrace]) -> str:
        """Send requests; return the error, empty on success. May block without limit."""

    def shutdown(self) -> None:
        """Abort an attempt under way, and close; may be called from any thread."""


class TraceQueue:
    """Keeps ended requests until a thread has sent them.

    Arguments:
        make: makes the exporter, in the thread. If it raises, the thread logs the error and drops
            all requests.
        counters: the counters of exported and dropped requests.
        delay: seconds until the thread sends an incomplete batch.
    """

    def __init__(
        self, make: Callable[[], TraceExporter], counters: TraceCounters, delay: float = DELAY
    ) -> None:
        self._make = make
        self._counters = counters
        self._delay = delay
        self._queue: deque[RecordedTrace] = deque()
        self._wake = threading.Event()
        self._stopping = False
        self._exporter: TraceExporter | None = None
        self._repeats = Repeats(60.0)
        # A daemon thread: an exporter that hangs must not keep the process alive.
        self._thread = threading.Thread(target=self._run, name="traces", daemon=True)
        self._thread.start()

    def put(self, trace: RecordedTrace) -> None:
        """See tracing.Queue."""
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
            self._exporter = exporter = self._make()
        except Exception as error:  # no error of a package may harm requests
            logger.error("traces: no exporter, all spans are dropped: %s", error)
            exporter = _NoExporter()
        while True:
            self._wake.wait(self._delay)
            self._wake.clear()
            stopping = self._stopping
            while self._queue:
                # Only this thread removes requests, so the queue has at least that many.
                self._export(exporter, [self._queue.popleft() for _ in range(self._ready())])
            if stopping:
                break
        exporter.shutdown()

    def _ready(self) -> int:
        return min(len(self._queue), BATCH)

    def _export(self, exporter: TraceExporter, traces: list[RecordedTrace]) -> None:
        try:
            problem = exporter.export(traces)
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


class _NoExporter:
    """Replaces an exporter that could not be made; the error is in the log."""

    def export(self, traces: list[RecordedTrace]) -> str:
        """See TraceExporter."""
        return "there is no exporter"

    def shutdown(self) -> None:
        """See TraceExporter."""
