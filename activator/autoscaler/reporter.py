"""Passes the load of revisions to its sinks: the first request of one at once, all every second.

Knows neither sockets nor the format of frames: a sink is any callable. The link to the autoscaler
is one sink (``wire.frame_sink(link.send, pod_name)``). Knative: the loop in
pkg/activator/handler/concurrency_reporter.go (Run) and cmd/activator.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Sequence

from activator.autoscaler.concurrency import ConcurrencyReporter, RevisionLoad, Stat, poke_of
from throttler.model import RevisionID, RevisionKind

# Knative's report period, seconds; the windows of the autoscaler have buckets of one second.
PERIOD = 1.0
#: Share of a period by which a timer may be early.
_EARLY = 0.01

Sink = Callable[[list[Stat]], None]

_log = logging.getLogger(__name__)


def of_kind(kind: RevisionKind, sink: Sink) -> Sink:
    """Return a sink that passes on the stats of one kind, and no empty batch."""

    def passing(stats: list[Stat]) -> None:
        if wanted := [stat for stat in stats if stat.revision_id.kind is kind]:
            sink(wanted)

    return passing


class StatReporter:
    """Counts requests by revision, and passes the counts to every sink.

    Arguments:
        sinks: called with a list of stats that they must not change. A sink must not block. If it
            raises, the batch is lost for this sink alone, and the log has the error.
        clock: returns seconds; callers of ``request_began`` and ``request_ended`` read the same
            clock.
        period: seconds between reports.
        kept: returns how many requests of a revision are at pods, while another activator gets, and
            reports, the others; None while none does.
    """

    def __init__(
        self,
        sinks: Sequence[Sink],
        *,
        clock: Callable[[], float],
        period: float = PERIOD,
        kept: Callable[[RevisionID], int | None] = lambda revision: None,
    ) -> None:
        self._sinks = tuple(sinks)
        self._kept = kept
        self._failing: set[int] = set()
        self._clock = clock
        self._period = period
        self._concurrency = ConcurrencyReporter(self._poke)
        self._busy = asyncio.Event()  # set while a revision is not dormant

    def load(self, revision_id: RevisionID) -> RevisionLoad:
        """Return the load of a revision; see ``ConcurrencyReporter.load``."""
        return self._concurrency.load(revision_id)

    def remove(self, revision_id: RevisionID) -> None:
        """Remove a deleted revision; see ``ConcurrencyReporter.remove``."""
        self._concurrency.remove(revision_id)

    async def run(self) -> None:
        """Report every period until cancelled; pokes work without it.

        While every revision is dormant, there is nothing to report and no timer.
        """
        loop = asyncio.get_running_loop()
        began = loop.time()
        while True:
            await self._busy.wait()
            # Periods that passed in dormancy, or while the loop was busy, get no report. The next
            # one covers them.
            passed = math.floor((loop.time() - began) / self._period + _EARLY)
            await asyncio.sleep(began + (passed + 1) * self._period - loop.time())
            self.report()

    async def busy(self) -> None:
        """Return at once while a revision has requests, or had one in the last period.

        Otherwise, return as soon as a revision gets a request.
        """
        await self._busy.wait()

    def report(self) -> None:
        """Close the period now, and pass its stats to the sinks if a revision is not dormant."""
        stats = self._concurrency.report(self._clock())
        if stats:
            self._pass_on(stats)
        if self._concurrency.is_dormant():
            self._busy.clear()

    def _poke(self, revision_id: RevisionID) -> None:
        self._busy.set()
        self._pass_on([poke_of(revision_id)])

    def _pass_on(self, stats: list[Stat]) -> None:
        stats = [
            s if kept is None else Stat(s.revision_id, min(s.concurrency, kept), 0)
            for s in stats
            for kept in [self._kept(s.revision_id)]
        ]
        for index, sink in enumerate(self._sinks):
            try:
                sink(stats)
            except Exception:  # a failing sink must not fail the request that pokes
                self._log_failure(index, sink)
            else:
                self._failing.discard(index)

    def _log_failure(self, index: int, sink: Sink) -> None:
        if index not in self._failing:  # log once, not every second
            self._failing.add(index)
            message = "a sink of load reports failed; it lost this batch"
            _log.exception(message, extra={"sink": repr(sink)})
