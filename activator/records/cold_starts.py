"""What happened between the first request for a revision that slept and its answer, and when.

Records what it is told and decides nothing. A wake-up begins when a request begins to wait while
nothing can be sent a request, nor could a moment ago, and ends with the first byte of the first
answer to one that waited so, or when all of them have ended without. Pure but for the wall clock
of its beginning: the time is passed in. Knows no HTTP. Knative has no counterpart: users measure
cold starts from outside (knative/serving issue 13459).
"""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from enum import Enum
from typing import Any

from activator.records.counters import WAIT_BOUNDS, Histogram
from activator.records.events import EventKind, Events
from activator.records.probe_lead import ProbeLead
from throttler.model import Dest, RevisionID
from throttler.pod import PodTracker
from throttler.revision import RevisionThrottler

#: Wake-ups that are kept of one revision: an afternoon of a service that is called now and then.
KEPT = 10
#: Revisions of which any are kept, those that woke last: with ``KEPT`` each 11 MB.
KEPT_REVISIONS = 1000


class Phase(Enum):
    """What a wake-up passes through, in this order; the value is its name for people."""

    STAT_SENT = "stat-sent"
    ADDRESS = "address"
    PROBE = "probe"
    PROBE_PASSED = "probe-passed"
    DISPATCHED = "dispatched"
    FIRST_BYTE = "first-byte"


_PLACE = {phase: place for place, phase in enumerate(Phase)}


class ColdStart:
    """One wake-up.

    Attributes:
        revision: which revision.
        began: when, on the caller's clock; began_at: the same as seconds since 1970.
        seen: when each phase was seen for the first time. What was there before, or came too late
            to matter, is not seen; so the times are in order.
        requests: how many waited for it; open: how many of them have not ended.
        dest: the pod, or ClusterIP, that answered first; None before.
        ended: when; None while it is under way.
        outcome: ``served``, or how the last request that waited ended (counters.OUTCOMES).
        lead: seconds by which our probe of ``dest`` was ahead of Kubernetes; None while it is not
            known, or was not.
    """

    __slots__ = (
        "_counts",
        "_throttler",
        "began",
        "began_at",
        "dest",
        "ended",
        "lead",
        "open",
        "outcome",
        "requests",
        "revision",
        "seen",
    )

    def __init__(
        self, throttler: RevisionThrottler, counts: dict[str, int], now: float, wall: float
    ) -> None:
        self.revision = throttler.revision.id
        self.began = now
        self.began_at = wall
        self.seen: dict[Phase, float] = {}
        self.requests = self.open = 0
        self.dest: Dest | None = None
        self.ended: float | None = None
        self.outcome = ""
        self.lead: float | None = None
        self._throttler: RevisionThrottler | None = throttler
        self._counts = counts

    def reached(self, phase: Phase, now: float) -> None:
        """Take that a phase was seen; not again, nor after a later one."""
        if not self.seen or _PLACE[phase] > _PLACE[next(reversed(self.seen))]:
            self.seen[phase] = now

    def listed(self, now: float) -> None:
        """Take that Kubernetes lists something else: is it a pod that was not there before?"""
        pods = self._throttler.pods() if self._throttler is not None else ()
        if Phase.ADDRESS not in self.seen and any(pod.listed_at > self.began for pod in pods):
            self.reached(Phase.ADDRESS, now)

    def answered(self, dispatched: float, dest: Dest, now: float) -> None:
        """Take the first byte; of the dispatches only that one was not in vain."""
        self.seen = {phase: when for phase, when in self.seen.items() if when <= dispatched}
        self.seen[Phase.DISPATCHED] = dispatched
        self.seen[Phase.FIRST_BYTE] = now
        self.dest = dest

    def end(self, outcome: str, now: float) -> None:
        """Take how it ended, count it, and let go of what only one under way has a use for."""
        self.ended = now
        self.outcome = outcome
        self._throttler = None
        self._counts[outcome] = self._counts.get(outcome, 0) + 1

    def durations(self) -> Iterable[tuple[Phase, float]]:
        """Yield each phase with the seconds since the one before it that was seen."""
        before = self.began
        for phase, when in self.seen.items():
            yield phase, when - before
            before = when

    def view(self) -> dict[str, Any]:
        """Return it in JSON's words, see docs/reference.md."""
        began = datetime.fromtimestamp(self.began_at, UTC).isoformat(timespec="milliseconds")
        return {
            "began": began.replace("+00:00", "Z"),
            "outcome": self.outcome or None,
            "seconds": None if self.ended is None else _rounded(self.ended - self.began),
            "requests": self.requests,
            "pod": None if self.dest is None else self.dest.address,
            "phases": {phase.value: _rounded(at - self.began) for phase, at in self.seen.items()},
            "probeAheadSeconds": None if self.lead is None else _rounded(self.lead),
        }


class ColdStarts:
    """The wake-ups of all revisions: those under way, and the last ones.

    Arguments:
        events: is told of each that has ended.
        wall: gives seconds since 1970.

    Attributes:
        under_way: by revision.
        seconds: how long those took that were served; phase_seconds: the same of each phase.
        leads: how far our probes were ahead of Kubernetes.
    """

    def __init__(self, events: Events, wall: Callable[[], float] = time.time) -> None:
        self._events = events
        self._wall = wall
        self.under_way: dict[RevisionID, ColdStart] = {}
        self.seconds = Histogram(WAIT_BOUNDS)
        self.phase_seconds = {phase: Histogram(WAIT_BOUNDS) for phase in Phase}
        self.leads = ProbeLead()
        self._past: OrderedDict[RevisionID, deque[ColdStart]] = OrderedDict()

    # -- requests -------------------------------------------------------------------------------

    def join(
        self, throttler: RevisionThrottler, counts: dict[str, int], now: float
    ) -> ColdStart | None:
        """Take that a request begins to wait.

        Arguments:
            counts: where the revision's wake-ups are counted, by outcome.

        Returns:
            The wake-up that it waits for: the caller says ``answered`` or nothing, and then
            ``left``, once. None if it waits for something else: there is a pod to be sent to, or
            was a moment ago.
        """
        if not throttler.asleep:
            return None
        cold_start = self.under_way.get(throttler.revision.id)
        if cold_start is None:
            cold_start = ColdStart(throttler, counts, now, self._wall())
            self.under_way[cold_start.revision] = cold_start
        cold_start.requests += 1
        cold_start.open += 1
        return cold_start

    def answered(self, cold_start: ColdStart, dispatched: float, dest: Dest, now: float) -> None:
        """Take the first byte of an answer.

        Arguments:
            dispatched: when that request was given to its pod for the last time.
            dest: the pod.
        """
        if cold_start.ended is None:
            cold_start.answered(dispatched, dest, now)
            self._end(cold_start, "served", now)

    def left(self, cold_start: ColdStart, outcome: str, now: float) -> None:
        """Take the end of a request that waited.

        Arguments:
            outcome: one of counters.OUTCOMES.
        """
        cold_start.open -= 1
        if not cold_start.open and cold_start.ended is None:
            self._end(cold_start, outcome, now)

    # -- the rest of the world ------------------------------------------------------------------

    def stats_sent(self, revisions: Iterable[RevisionID], arose: float, now: float) -> None:
        """Take that a report on these left for the autoscaler.

        Arguments:
            arose: when it was made: one from before a wake-up says nothing of it.
        """
        for revision in revisions if self.under_way else ():
            cold_start = self.under_way.get(revision)
            if cold_start is not None and cold_start.began <= arose:
                cold_start.reached(Phase.STAT_SENT, now)

    def listed(self, revision: RevisionID, now: float) -> None:
        """Take that Kubernetes lists something else."""
        if (cold_start := self.under_way.get(revision)) is not None:
            cold_start.listed(now)
        for pod, lead in self.leads.listed(revision, now):
            for cold_start in self._of(revision):
                if cold_start.dest == pod.dest and cold_start.lead is None:
                    cold_start.lead = lead

    def probe_started(self, pod: PodTracker, now: float) -> None:
        """Take that a pod is asked."""
        if (cold_start := self.under_way.get(pod.revision.revision.id)) is not None:
            cold_start.reached(Phase.PROBE, now)

    def probe_passed(self, pod: PodTracker, now: float) -> None:
        """Take that a pod has become healthy by a probe."""
        if (cold_start := self.under_way.get(pod.revision.revision.id)) is not None:
            cold_start.reached(Phase.PROBE_PASSED, now)
        self.leads.passed(pod, now)

    def forget(self, revision: RevisionID) -> None:
        """Take that a revision was deleted; a wake-up under way ends on its own, unrecorded."""
        self.under_way.pop(revision, None)
        self._past.pop(revision, None)

    # -- what there is to see -------------------------------------------------------------------

    def views(self, revision: RevisionID) -> list[dict[str, Any]]:
        """Return the wake-ups of a revision in JSON's words, the newest first."""
        return [cold_start.view() for cold_start in self._of(revision)]

    def _of(self, revision: RevisionID) -> list[ColdStart]:
        cold_starts = list(reversed(self._past.get(revision, ())))
        if (cold_start := self.under_way.get(revision)) is not None:
            cold_starts.insert(0, cold_start)
        return cold_starts

    def _end(self, cold_start: ColdStart, outcome: str, now: float) -> None:
        cold_start.end(outcome, now)
        if outcome == "served":
            self.seconds.observe(now - cold_start.began)
            for phase, seconds in cold_start.durations():
                self.phase_seconds[phase].observe(seconds)
        if self.under_way.get(cold_start.revision) is cold_start:
            del self.under_way[cold_start.revision]
            self._keep(cold_start)
        if self._events.listeners:
            self._events.publish(EventKind.WAKE_UP_FINISHED, cold_start.revision, cold_start.view())

    def _keep(self, cold_start: ColdStart) -> None:
        """Keep it among the last ones; the revision whose last wake-up is the oldest goes."""
        past = self._past.setdefault(cold_start.revision, deque(maxlen=KEPT))
        past.append(cold_start)
        self._past.move_to_end(cold_start.revision)
        if len(self._past) > KEPT_REVISIONS:
            self._past.popitem(last=False)


def _rounded(seconds: float) -> float:
    """Return whole tenths of a millisecond: on the loopback a phase takes no more."""
    return round(seconds, 4)
