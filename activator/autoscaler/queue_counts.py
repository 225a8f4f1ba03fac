"""The counts of route objects, which the scaler of the KEDA HTTP add-on polls at ``/queue``.

Reads the loads of revisions, and costs a request nothing. Knows no HTTP server. Source: KEDA HTTP
add-on, pkg/queue; up to version 0.13 its scaler reads RPS, and later ones read RequestCount.
"""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from activator.autoscaler.concurrency import RevisionLoad, Stat
from throttler.model import Revision, RevisionID, RevisionKind
from throttler.request_policies import InterceptorRules

#: Objects of one piece of the document.
_BLOCK: Final = 500


class WindowMean:
    """The mean of a growing counter's increase per bucket, over a window.

    Arguments:
        window, granularity: seconds of the window, and of a bucket.
    """

    def __init__(self, window: float, granularity: float) -> None:
        self.form = window, granularity
        self._size = max(math.ceil(window / granularity), 1)
        self._granularity = granularity
        self._buckets: deque[tuple[int, int]] = deque()  # their numbers, and increases
        self._first = 0  # the first bucket after a window without an increase
        self._sum = 0
        self._seen = 0

    def count(self, counter: int, now: float) -> None:
        """Note the value of the counter; it may also have begun again at zero."""
        added = counter - self._seen if counter >= self._seen else counter
        self._seen = counter
        if not added:
            return
        bucket = self._expire(now)
        if not self._buckets:
            self._first = bucket
        elif self._buckets[-1][0] == bucket:
            added_before = self._buckets.pop()[1]
            self._sum -= added_before
            added += added_before
        self._buckets.append((bucket, added))
        self._sum += added

    def mean(self, now: float) -> float:
        """Return the mean; its divisor is the number of buckets from the first to the last."""
        self._expire(now)
        if not self._buckets:
            return 0.0
        divisor = min(self._buckets[-1][0] - self._first + 1, self._size)
        return round(self._sum / divisor, 6)

    def _expire(self, now: float) -> int:
        """Remove the buckets before the window, and return the number of the present one."""
        bucket = int(now // self._granularity)
        while self._buckets and self._buckets[0][0] <= bucket - self._size:
            self._sum -= self._buckets.popleft()[1]
        return bucket


class QueueCounts:
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
        self._means: dict[RevisionID, WindowMean] = {}

    def on_stats(self, stats: Iterable[Stat]) -> None:
        """Note the counters of revisions whose load is reported, which is each second."""
        now = self._clock() if self._means else 0.0
        for id_, _, _ in stats:
            load, mean = self._find(id_), self._means.get(id_)
            if load is not None and mean is not None:
                mean.count(load.arrived, now)

    def pieces(self) -> Iterator[bytes]:
        """Yield the JSON document in pieces that each take a millisecond or two.

        An object has a key from its appearance to its deletion. ``Concurrency`` is the number of
        requests that have not ended, and ``RequestCount`` of all requests. ``RPS`` is not zero only
        for objects with the metric ``requestRate``.
        """
        known = [each for each in self._revisions() if each.id.kind is RevisionKind.HTTP_ROUTE]
        for gone in self._means.keys() - {revision.id for revision in known}:
            del self._means[gone]
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
        rules = _rules(revision)
        if rules is None or not rules.window:
            return 0.0
        mean = self._means.get(revision.id)
        if mean is None or mean.form != (rules.window, rules.granularity):
            mean = self._means[revision.id] = WindowMean(rules.window, rules.granularity)
        mean.count(arrived, now)
        return mean.mean(now)


def _rules(revision: Revision) -> InterceptorRules | None:
    requests = revision.policies.requests
    return None if requests is None else requests.interceptor
