"""Passes the load of the revisions to its listeners: pokes at once, a report every second.

Acts, and knows neither sockets nor the form of a frame: a listener is any callable. The link to
the autoscaler is one (``wire.frame_sink(link.send, pod_name)``), the demo and the lab listen
without a socket.
Knative: the loop in pkg/activator/handler/concurrency_reporter.go (Run) and cmd/activator.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence

import structlog

from activator.autoscaler.concurrency import ConcurrencyReporter, RevisionLoad, Stat, poke_of
from throttler.model import RevisionID

# Knative's report period; the autoscaler keeps its windows in buckets of one second.
PERIOD = 1.0
#: Share of a period by which a timer may be early.
_EARLY = 0.01

Sink = Callable[[list[Stat]], None]

_log = structlog.get_logger(__name__)


class StatReporter:
    """Counts by ``load(...).enter`` and ``leave`` and tells every sink.

    ``clock`` returns seconds and is the one that the callers of ``enter`` and ``leave`` read.
    A sink gets a list that it must not change; it must not block. When it raises, the batch is
    lost for it alone, and the error is logged.
    """

    def __init__(
        self, sinks: Sequence[Sink], *, clock: Callable[[], float], period: float = PERIOD
    ) -> None:
        self._sinks = tuple(sinks)
        self._failing: set[int] = set()
        self._clock = clock
        self._period = period
        self._concurrency = ConcurrencyReporter(self._poke)
        self._busy = asyncio.Event()  # while a revision is not dormant

    def load(self, revision_id: RevisionID) -> RevisionLoad:
        """The load of this revision: see ``ConcurrencyReporter.load``."""
        return self._concurrency.load(revision_id)

    def remove(self, revision_id: RevisionID) -> None:
        """The revision was deleted: see ``ConcurrencyReporter.remove``."""
        self._concurrency.remove(revision_id)

    async def run(self) -> None:
        """Report every period until cancelled; pokes need no running loop.

        While every revision is dormant, there is nothing to report and no timer.
        """
        loop = asyncio.get_running_loop()
        began = loop.time()
        while True:
            await self._busy.wait()
            # Periods that passed in dormancy, or while the loop was busy, are skipped: the next
            # report covers them.
            passed = math.floor((loop.time() - began) / self._period + _EARLY)
            await asyncio.sleep(began + (passed + 1) * self._period - loop.time())
            self.report()

    async def busy(self) -> None:
        """Return at once while a revision has requests, or had one in the last period.

        Otherwise, return as soon as a revision gets a request.
        """
        await self._busy.wait()

    def report(self) -> None:
        """Close the period now and tell the sinks, unless every revision is dormant."""
        stats = self._concurrency.report(self._clock())
        if stats:
            self._tell(stats)
        if self._concurrency.is_dormant():
            self._busy.clear()

    def _poke(self, revision_id: RevisionID) -> None:
        self._busy.set()
        self._tell([poke_of(revision_id)])

    def _tell(self, stats: list[Stat]) -> None:
        for index, sink in enumerate(self._sinks):
            try:
                sink(stats)
            except Exception:  # a listener's fault must not fail the request that pokes
                self._log_failure(index, sink)
            else:
                self._failing.discard(index)

    def _log_failure(self, index: int, sink: Sink) -> None:
        if index not in self._failing:  # once, not every second
            self._failing.add(index)
            _log.exception("a listener of the stats failed; this batch is lost", sink=repr(sink))
