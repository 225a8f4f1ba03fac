"""The counts of route objects, which the scaler of the KEDA HTTP add-on polls at ``/queue``.

Reads the loads of revisions, and costs a request nothing. Knows no HTTP server. Source: KEDA HTTP
add-on, pkg/queue; up to version 0.13 its scaler reads RPS, and later ones read RequestCount.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from activator.autoscaler.concurrency import RevisionLoad, Stat
from activator.keda.metrics import RateWindow
from throttler.model import Revision, RevisionID, RevisionKind

#: Objects of one piece of the document.
_BLOCK: Final = 500


class CounterRate:
    """The rate of a counter that grows, or begins again at zero."""

    def __init__(self, window: float, granularity: float) -> None:
        self.window = RateWindow(window, granularity)
        self._seen = 0

    def count(self, counter: int, now: float) -> None:
        """Note the value of the counter."""
        added = counter - self._seen if counter >= self._seen else counter
        self._seen = counter
        if added:
            self.window.record(added, now)

    def mean(self, now: float) -> float:
        """Return the increase per bucket, from the first increase to the last one."""
        return self.window.mean(now, until_last=True)


class RouteCounts:
    """The counts of all route objects.

    Arguments:
        revisions: returns all revisions that exist.
        find: returns the load of one that has had a request; else None.
        clock: seconds, monotonic.
    """

    def __init__(
        self,
        revisions: Callable[[], Iterable[Revision]],
        find: Callable[[RevisionID], RevisionLoad | None],
        clock: Callable[[], float],
    ) -> None:
        self._revisions = revisions
        self._find = find
        self._clock = clock
        self._rates: dict[RevisionID, CounterRate] = {}

    def on_stats(self, stats: Iterable[Stat]) -> None:
        """Note the counters of revisions whose load is reported, which is each second."""
        now = self._clock() if self._rates else 0.0
        for id_, _, _ in stats:
            load, rate = self._find(id_), self._rates.get(id_)
            if load is not None and rate is not None:
                rate.count(load.arrived, now)

    def pieces(self) -> Iterator[bytes]:
        """Yield the JSON document in pieces that each take a millisecond or two.

        An object has a key from its appearance to its deletion. ``Concurrency`` is the number of
        requests that have not ended, and ``RequestCount`` of all requests. ``RPS`` is not zero only
        for objects with the metric ``requestRate``.
        """
        known = [each for each in self._revisions() if each.id.kind is RevisionKind.HTTP_ROUTE]
        for gone in self._rates.keys() - {revision.id for revision in known}:
            del self._rates[gone]
        start = "{"
        for block in range(0, len(known), _BLOCK):
            now = self._clock()
            members = (self._member(each, now) for each in known[block : block + _BLOCK])
            yield (start + ",".join(members)).encode()
            start = ","
        yield b"}" if known else b"{}"

    def _member(self, revision: Revision, now: float) -> str:
        load, key = self._find(revision.id), json.dumps(str(revision.id))
        in_flight, arrived = (0, 0) if load is None else (load.in_flight, load.arrived)
        rate = self._mean(revision, arrived, now)
        return f'{key}:{{"Concurrency":{in_flight},"RequestCount":{arrived},"RPS":{rate}}}'

    def _mean(self, revision: Revision, arrived: int, now: float) -> float:
        rules = revision.policies.interceptor
        if rules is None or not rules.window:
            return 0.0
        rate, form = self._rates.get(revision.id), (rules.window, rules.granularity)
        if rate is None or rate.window.form != form:
            rate = self._rates[revision.id] = CounterRate(*form)
        rate.count(arrived, now)
        return rate.mean(now)
