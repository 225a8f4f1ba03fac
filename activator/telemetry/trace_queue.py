"""Requests that have ended, on their way to the exporter: a bounded queue and one thread.

The loop only appends. What is too much is dropped and counted, never waited for: a collector that
is down costs a fixed amount of memory and a log line now and then. OpenTelemetry's packages are
imported in the thread as well, since that takes a tenth of a second. Counterpart: the batching
span processor of OpenTelemetry's SDKs, whose defaults these are.
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

#: Requests that may wait for the thread: some 2 KiB each, so 4 MiB in all.
MAX_QUEUED: Final = 2048
#: Requests that are sent together: with four spans each the 512 of the specification.
BATCH: Final = 128
#: Seconds until what is less than a batch is sent.
DELAY: Final = 5.0


class TraceCounters:
    """What became of recorded requests; outlives a change of exporter.

    Attributes:
        exported: requests whose spans a collector has taken.
        dropped: by cause (``queue-full``, ``export-failed``), those that none has.
    """

    def __init__(self) -> None:
        self.exported = 0
        self.dropped = {"queue-full": 0, "export-failed": 0}


class TraceExporter(Protocol):
    """Sends spans; used by the thread alone, but for ``shutdown``."""

    def export(self, traces: list[RecordedTrace]) -> str:
        """Send them; return why that failed, or nothing. May block for as long as it takes."""

    def shutdown(self) -> None:
        """Give up what is being tried, and close; may be called from any thread."""


class TraceQueue:
    """Keeps ended requests until a thread has sent them.

    Arguments:
        make: makes the exporter, in the thread; what it raises is logged, and all is dropped.
        counters: counts what becomes of them.
        delay: seconds that less than a batch waits.
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
        # A daemon: one that hangs must not keep the process.
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
        """Send what is there, and end the thread; blocks for ``timeout`` seconds at most."""
        self._stopping = True
        self._wake.set()
        self._thread.join(timeout)
        if self._thread.is_alive() and self._exporter is not None:
            self._exporter.shutdown()

    def _run(self) -> None:
        try:
            self._exporter = exporter = self._make()
        except Exception as error:  # whatever a package raises: requests are not harmed by it
            logger.error("traces: no exporter, all spans are dropped: %s", error)
            exporter = _Nowhere()
        while True:
            self._wake.wait(self._delay)
            self._wake.clear()
            stopping = self._stopping
            while self._queue:
                # Only this thread takes away, so that many are there.
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


class _Nowhere:
    """Stands for an exporter that could not be made; that was logged."""

    def export(self, traces: list[RecordedTrace]) -> str:
        """See TraceExporter."""
        return "there is no exporter"

    def shutdown(self) -> None:
        """See TraceExporter."""
