"""Passes the load of revisions to its sinks, such as the links to the autoscalers.

Knative's autoscaler scales Revisions, and this project's scaler scales Services. A sink is any
callable, and gets the first request of a revision at once, and all loads every second. Must not
know how a link works; imports it only if there is a URL. Knative: the loop in
pkg/activator/handler/concurrency_reporter.go (Run) and cmd/activator.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from activator.autoscaler.concurrency import POKE_COUNT, ConcurrencyReporter, Stat
from activator.autoscaler.queue_counts import RouteCounts
from throttler.model import Revision, RevisionID, RevisionKind

if TYPE_CHECKING:
    from activator.autoscaler.link import AutoscalerLink


# Knative's report period, seconds; the windows of the autoscaler have buckets of one second.
PERIOD = 1.0
#: Share of a period by which a timer may be early.
_EARLY = 0.01

Sink = Callable[[list[Stat]], None]

_log = logging.getLogger(__name__)


# A poke reports one request at this moment.
POKE_CONCURRENCY: Final = 1.0


def poke_of(revision_id: RevisionID) -> Stat:
    """Return the stat that reports the first request of a dormant revision."""
    return Stat(revision_id, POKE_CONCURRENCY, POKE_COUNT)


class StatReporter:
    """Counts requests by revision, and passes the counts to every sink.

    Arguments:
        sinks: called with a list of stats that they must not change. A sink must not block. If it
            raises, the batch is lost for this sink alone, and the log has the error.
        clock: returns seconds; callers of ``request_began`` and ``request_ended`` read the same
            clock.
        period: seconds between reports.
        revisions: returns all revisions that exist.
        kept: returns how many requests of a revision are at pods, while another activator gets, and
            reports, the others; None while none does.

    Attributes:
        loads: the load of each revision.
        queue: the counts for a scaler that polls.
        busy: set while a revision has requests, or had one in the last period.
    """

    def __init__(
        self,
        sinks: Sequence[Sink],
        *,
        clock: Callable[[], float],
        period: float = PERIOD,
        revisions: Callable[[], Iterable[Revision]] = tuple,
        kept: Callable[[RevisionID], int | None] = lambda revision: None,
    ) -> None:
        self._kept = kept
        self._failing: set[int] = set()
        self._clock = clock
        self._period = period
        self.loads = ConcurrencyReporter(self._poke)
        self.queue = RouteCounts(revisions, self.loads.find, clock)
        self._sinks = (*sinks, self.queue.on_stats)
        self.busy = asyncio.Event()

    async def run(self) -> None:
        """Report every period until cancelled; pokes work without it.

        While every revision is dormant, there is nothing to report and no timer.
        """
        loop = asyncio.get_running_loop()
        began = loop.time()
        while True:
            await self.busy.wait()
            # Periods that passed in dormancy, or while the loop was busy, get no report. The next
            # one covers them.
            passed = math.floor((loop.time() - began) / self._period + _EARLY)
            await asyncio.sleep(began + (passed + 1) * self._period - loop.time())
            self.report()

    def report(self) -> None:
        """Close the period now, and pass its stats to the sinks if a revision is not dormant."""
        stats = self.loads.report(self._clock())
        if stats:
            self._pass_on(stats)
        if self.loads.is_dormant():
            self.busy.clear()

    def _poke(self, revision_id: RevisionID) -> None:
        self.busy.set()
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
                if index not in self._failing:  # log once, not every second
                    self._failing.add(index)
                    message = "a sink of load reports failed; it lost this batch"
                    _log.exception(message, extra={"sink": repr(sink)})
            else:
                self._failing.discard(index)


#: Seconds for which a lost autoscaler makes the activator not ready. In Knative's Deployment,
#: kubelet's liveness probe is the same request as its readiness probe. Kubelet restarts the
#: container after twelve failures, ten seconds apart.
LOST: Final = 90.0


_REVISIONS: Final = (RevisionKind.REVISION,)
_OF_SCALER: Final = (RevisionKind.SERVICE, RevisionKind.HTTP_ROUTE)


class Links:
    """The links of one activator.

    Arguments:
        autoscaler_url, scaler_url: ``ws://host:port``; empty for no link.
        token_file: has the token for the scaler; empty for none.

    Attributes:
        autoscaler: the link to the autoscaler of Revisions; None without one.
        scaler: the link to the scaler of Services and route objects; None without one.

    Raises:
        ValueError: a URL is no WebSocket URL.
    """

    def __init__(
        self, autoscaler_url: str = "", scaler_url: str = "", token_file: str = ""
    ) -> None:
        self.autoscaler = _link(autoscaler_url, "autoscaler")
        self.scaler = _link(scaler_url, "scaler", token_file)

    def __iter__(self) -> Iterator[AutoscalerLink]:
        return (link for link in (self.autoscaler, self.scaler) if link is not None)

    def is_lost(self, kind: RevisionKind) -> bool:
        """Return whether the autoscaler of a kind is configured but not connected."""
        link = self.autoscaler if kind is RevisionKind.REVISION else self.scaler
        return link is not None and not link.connected

    def misses_autoscaler(self) -> bool:
        """Return whether a missing autoscaler makes the activator not ready.

        After a long loss it does not. A restart of all activators would not bring the autoscaler
        back, and would end all requests. The scaler of Services never does: its fail-over takes
        up to a minute, and Services with pods do not need it.
        """
        link = self.autoscaler
        if link is None or link.connected:
            return False
        return not link.ever_connected or link.lost_for() < LOST

    def sinks(
        self, pod_name: str, on_sent_of: Callable[[list[Stat]], Callable[[], None]]
    ) -> Iterator[Sink]:
        """Yield a sink for each link, which gets the kinds of its peer alone.

        Nothing scales the fallbacks of route objects, so no peer gets their load.

        Arguments:
            pod_name: the pod of this activator.
            on_sent_of: returns a function to call when a frame with these stats has been sent.
        """
        for link, kinds in ((self.autoscaler, _REVISIONS), (self.scaler, _OF_SCALER)):
            if link is not None:
                from activator.autoscaler.wire import frame_sink

                yield frame_sink(link.send, pod_name, on_sent_of, kinds)


def _link(url: str, peer: str, token_file: str = "") -> AutoscalerLink | None:
    if not url:
        return None
    from activator.autoscaler.link import AutoscalerLink

    return AutoscalerLink(url, peer=peer, token_file=token_file)
