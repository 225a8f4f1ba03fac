"""The load of each revision: the time-weighted mean of its requests, queued and in flight.

Decides what a report contains, and when a revision is idle. Pure: the time is an argument, and the
module sends nothing. ``RevisionLoad.request_began`` and ``request_ended`` run once for every
request. So they do arithmetic on one object and look up nothing. Knows neither listeners nor the
period of reports.

A load has two states. *Dormant*: the autoscaler knows no load of the revision. *Reported*: every
report contains the load. The first request of a dormant load makes it reported and causes a *poke*:
a report of one request at once, instead of up to a second later. A period without any request makes
the load dormant again.

Knative: pkg/activator/handler/concurrency_reporter.go and pkg/network/stats.go. Differences: a
count is never negative. A revision whose requests are too short for the clock is still busy;
Knative would remove it, poke for its next request, and count that twice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from throttler.model import RevisionID

#: A poke reports one request.
POKE_COUNT: Final = 1


class Stat(NamedTuple):
    """The load of one revision over one period.

    Attributes:
        revision_id: the revision.
        concurrency: mean number of requests, queued and in flight.
        request_count: requests that arrived in the period (not per second).
    """

    revision_id: RevisionID
    concurrency: float
    request_count: int


class RevisionLoad:
    """The requests of one revision; ``ConcurrencyReporter.load`` makes it.

    Attributes:
        revision_id: the revision.
        in_flight: requests between ``request_began`` and ``request_ended``; read only.
        reported: whether the next report contains this revision; False after a period without
            requests; read only.
    """

    __slots__ = (
        "_arrivals",
        "_before",
        "_discount",
        "_period_start",
        "_removed",
        "_reporter",
        "_since",
        "_weight",
        "in_flight",
        "reported",
        "revision_id",
    )

    def __init__(self, revision_id: RevisionID, reporter: ConcurrencyReporter) -> None:
        self.revision_id = revision_id
        self.in_flight = 0
        self._reporter = reporter
        self.reported = False
        self._removed = False  # the revision was deleted
        self._arrivals = 0
        self._before = 0  # arrivals before this period, without what is no request
        self._weight = 0.0  # request-seconds of this period, up to _since
        self._since = 0.0
        self._period_start = 0.0
        self._discount = 0  # requests that the poke has reported already

    @property
    def arrived(self) -> int:
        """The number of requests since the load was made; it never falls."""
        return self._before + self._arrivals

    def demand_began(self, now: float) -> None:
        """Count what is no request as one in flight, so that pods start or stay.

        The caller must call ``request_ended`` once for it. ``arrived`` does not count it.
        """
        self._before -= 1
        self.request_began(now)

    def request_began(self, now: float) -> None:
        """Count a request that arrives.

        The caller must call ``request_ended`` exactly once for it, however the request ends.

        Arguments:
            now: seconds, on the clock of ``report``.
        """
        in_flight = self.in_flight
        if self.reported:
            self._weight += in_flight * (now - self._since)
            self._since = now
            self._arrivals += 1
            self.in_flight = in_flight + 1
        else:
            self._activate(now)

    def request_ended(self, now: float) -> None:
        """Count the end of a request, whatever its outcome; ``now`` is in seconds."""
        in_flight = self.in_flight
        self._weight += in_flight * (now - self._since)
        self._since = now
        self.in_flight = in_flight - 1

    def _activate(self, now: float) -> None:
        # All fields are set before the poke, so that its listeners see a counted request.
        self.reported = True
        self._discount = POKE_COUNT
        self._arrivals = 1
        self._weight = 0.0
        self._since = self._period_start = now
        self.in_flight = 1
        self._reporter._became_active(self)

    def _report(self, now: float) -> Stat:
        """Return the stat of the period that ends now; without requests, become dormant."""
        weight = self._weight + self.in_flight * (now - self._since)
        length = now - self._period_start
        mean = weight / length if length > 0 else 0.0
        stat = Stat(
            self.revision_id,
            max(mean - self._discount, 0.0),
            max(self._arrivals - self._discount, 0),
        )
        self.reported = bool(self._arrivals or self.in_flight or weight)
        self._before += self._arrivals
        self._arrivals = 0
        self._discount = 0
        self._weight = 0.0
        self._since = self._period_start = now
        return stat


class ConcurrencyReporter:
    """The loads of all revisions, and the report about the loads that are not dormant.

    Arguments:
        on_first: called inside ``request_began`` for the first request of a dormant revision, to
            report it at once (``poke_of`` makes the stat). It delays that request, so it must be
            quick and must not raise.
    """

    def __init__(self, on_first: Callable[[RevisionID], None]) -> None:
        self._on_first = on_first
        self._loads: dict[RevisionID, RevisionLoad] = {}
        self._active: list[RevisionLoad] = []

    def load(self, revision_id: RevisionID) -> RevisionLoad:
        """Return the load of a revision; a new dormant one for a new revision.

        The caller must ``remove`` a deleted revision, and must pass only revisions that exist.
        Otherwise, names that clients invent would fill the memory.
        """
        load = self._loads.get(revision_id)
        if load is None:
            load = self._loads[revision_id] = RevisionLoad(revision_id, self)
        load._removed = False
        return load

    def find(self, revision_id: RevisionID) -> RevisionLoad | None:
        """Return the load of a revision that has had a request; else None."""
        return self._loads.get(revision_id)

    def remove(self, revision_id: RevisionID) -> None:
        """Remove a deleted revision after its last requests have been reported.

        A ``load`` call before that returns the same load, so one revision never has two.
        """
        load = self._loads.get(revision_id)
        if load is None:
            return
        load._removed = True
        if not load.reported:
            del self._loads[revision_id]

    def report(self, now: float) -> list[Stat]:
        """Return the stats of the period that ends at ``now`` (seconds); empty if all are idle.

        Dormant revisions cost nothing. A revision that was idle for the whole period is reported
        once more, with zeros.
        """
        active = self._active
        stats = [load._report(now) for load in active]
        self._active = [load for load in active if load.reported]
        for load in active:
            if load._removed and not load.reported:
                del self._loads[load.revision_id]
        return stats

    def is_dormant(self) -> bool:
        """Return whether the next report is empty."""
        return not self._active

    def __len__(self) -> int:
        return len(self._loads)

    def _became_active(self, load: RevisionLoad) -> None:
        self._active.append(load)
        self._on_first(load.revision_id)
