"""How busy each revision is: the time-weighted mean of its requests, queued and proxied.

Decides what is reported, and when a revision counts as idle. Pure: the time is passed in, nothing
is sent. ``RevisionLoad.enter`` and ``leave`` run once for every request, so they do arithmetic on
one object and look nothing up.
It must not know who listens, nor how often ``report`` is called.

A load has two states. *Dormant*: nothing is known of it to the autoscaler. *Reported*: it is part
of every report. The first ``enter`` of a dormant load makes it reported and pokes: the autoscaler
hears of one request at once instead of a second later. A period without any request makes it
dormant again.

Knative: pkg/activator/handler/concurrency_reporter.go and pkg/network/stats.go. Differences:
a count is never negative, and a revision whose requests were too short for the clock to see is
still busy (Knative would drop it and then poke for the next one, counting it double).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from throttler.model import RevisionID

# What a poke says: one request, now.
POKE_CONCURRENCY: Final = 1.0
POKE_COUNT: Final = 1


class Stat(NamedTuple):
    """The load of one revision over one period.

    ``concurrency`` is the mean number of requests held at a time, ``request_count`` the number
    that arrived in the period (not per second).
    """

    revision_id: RevisionID
    concurrency: float
    request_count: int


class RevisionLoad:
    """The requests of one revision. Keep it beside the revision; get it from the reporter.

    ``in_flight`` is the number of requests between ``enter`` and ``leave``; read only.
    """

    __slots__ = (
        "_arrivals",
        "_discount",
        "_forgotten",
        "_period_start",
        "_reported",
        "_reporter",
        "_since",
        "_weight",
        "in_flight",
        "revision_id",
    )

    def __init__(self, revision_id: RevisionID, reporter: ConcurrencyReporter) -> None:
        self.revision_id = revision_id
        self.in_flight = 0
        self._reporter = reporter
        self._reported = False
        self._forgotten = False  # no revision has it any more
        self._arrivals = 0
        self._weight = 0.0  # request-seconds of this period, up to _since
        self._since = 0.0
        self._period_start = 0.0
        self._discount = 0  # what the poke has told already

    @property
    def reported(self) -> bool:
        """Whether the next report speaks of this revision; False once it was idle for a period."""
        return self._reported

    def enter(self, now: float) -> None:
        """A request arrived at ``now`` (seconds, the clock of ``report``).

        The caller must call ``leave`` exactly once for it, whatever becomes of it.
        """
        in_flight = self.in_flight
        if self._reported:
            self._weight += in_flight * (now - self._since)
            self._since = now
            self._arrivals += 1
            self.in_flight = in_flight + 1
        else:
            self._wake(now)

    def leave(self, now: float) -> None:
        """A request that entered has ended at ``now`` (seconds): answered, expired or gone."""
        in_flight = self.in_flight
        self._weight += in_flight * (now - self._since)
        self._since = now
        self.in_flight = in_flight - 1

    def _wake(self, now: float) -> None:
        # Everything is in place before the poke, so that whatever listens sees a counted request.
        self._reported = True
        self._discount = POKE_COUNT
        self._arrivals = 1
        self._weight = 0.0
        self._since = self._period_start = now
        self.in_flight = 1
        self._reporter._woke(self)

    def _report(self, now: float) -> Stat:
        """Close the period at ``now``: its stat; goes dormant if nothing happened in it."""
        weight = self._weight + self.in_flight * (now - self._since)
        length = now - self._period_start
        mean = weight / length if length > 0 else 0.0
        stat = Stat(
            self.revision_id,
            max(mean - self._discount, 0.0),
            max(self._arrivals - self._discount, 0),
        )
        self._reported = bool(self._arrivals or self.in_flight or weight)
        self._arrivals = 0
        self._discount = 0
        self._weight = 0.0
        self._since = self._period_start = now
        return stat


class ConcurrencyReporter:
    """The loads of all revisions, and the report about those that are not dormant.

    ``on_first`` is called inside ``enter`` when a dormant revision gets a request: tell the
    autoscaler of concurrency 1 and count 1 now (``poke_of`` makes the stat). It runs in the path
    of that request: it must be quick and must not raise.
    """

    def __init__(self, on_first: Callable[[RevisionID], None]) -> None:
        self._on_first = on_first
        self._loads: dict[RevisionID, RevisionLoad] = {}
        self._awake: list[RevisionLoad] = []

    def load(self, revision_id: RevisionID) -> RevisionLoad:
        """The load of this revision, a new dormant one for a new revision.

        The caller must ``forget`` the revision when it is gone, and asks only for revisions that
        exist: names that clients make up would fill the memory.
        """
        load = self._loads.get(revision_id)
        if load is None:
            load = self._loads[revision_id] = RevisionLoad(revision_id, self)
        load._forgotten = False
        return load

    def remove(self, revision_id: RevisionID) -> None:
        """The revision was deleted. Its last requests are still reported until they have left.

        Whoever asks for it before that gets the same load: of one revision there are no two.
        """
        load = self._loads.get(revision_id)
        if load is None:
            return
        load._forgotten = True
        if not load._reported:
            del self._loads[revision_id]

    def report(self, now: float) -> list[Stat]:
        """The stats of the period that ends at ``now`` (seconds); empty when all is idle.

        Costs nothing for dormant revisions. A revision that was idle for the whole period is
        reported once more, with zeros, and then no longer.
        """
        awake = self._awake
        stats = [load._report(now) for load in awake]
        self._awake = [load for load in awake if load._reported]
        for load in awake:
            if load._forgotten and not load._reported:
                del self._loads[load.revision_id]
        return stats

    def is_dormant(self) -> bool:
        """Return whether the next report is empty."""
        return not self._awake

    def __len__(self) -> int:
        return len(self._loads)

    def _woke(self, load: RevisionLoad) -> None:
        self._awake.append(load)
        self._on_first(load.revision_id)


def poke_of(revision_id: RevisionID) -> Stat:
    """The stat that announces the first request of a dormant revision."""
    return Stat(revision_id, POKE_CONCURRENCY, POKE_COUNT)
