"""Records cold starts: from the first request for a sleeping revision to its response.

The module decides nothing. A cold start begins when a request is queued while no pod is usable, and
none was a moment ago. It ends with the first byte of the first response to such a request. It also
ends when the last such request ends without a response. The caller passes the time; only the wall
clock of the beginning is read here. The module knows no HTTP. Knative has no counterpart: users
measure cold starts from outside (knative/serving issue 13459).
"""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from itertools import pairwise
from typing import Any

from activator.records.counters import WAIT_BOUNDS, Histogram
from activator.records.narration import EventKind, Events
from throttler.forecast import UNKNOWN
from throttler.model import Endpoint, RevisionID
from throttler.pod import PodState, PodTracker
from throttler.reason import Reason
from throttler.revision import RevisionThrottler
from throttler.wait_reason import waiting_reason


class ProbeLead:
    """Measures by how many seconds the activator's own probes are ahead of Kubernetes.

    A pod that passes such a probe is usable before Kubernetes lists it as ready. The lead ends when
    Kubernetes does. Knative does not measure this.

    The caller removes each pod that is gone, so only existing pods take memory.

    Attributes:
        seconds: the leads that have ended.
    """

    __slots__ = ("_since", "seconds")

    def __init__(self) -> None:
        self.seconds = Histogram(WAIT_BOUNDS)
        # Usable pods that Kubernetes does not list as ready, and since when they are usable.
        self._since: dict[RevisionID, dict[PodTracker, float]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._since.values()))

    def passed(self, pod: PodTracker, now: float) -> None:
        """Record that a pod has become healthy; a pod that is not usable has no lead."""
        if not pod.ready and not pod.is_service and pod.in_use:
            self._since.setdefault(pod.config.revision.id, {})[pod] = now

    def listed(self, revision: RevisionID, now: float) -> list[tuple[PodTracker, float]]:
        """Record a new list of Kubernetes for a revision; O(pods with a lead).

        Returns:
            The pods whose lead has ended, with its seconds. A pod that failed meanwhile has no
            lead: Kubernetes was right to wait.
        """
        ended: list[tuple[PodTracker, float]] = []
        for pod, since in list(self._since.get(revision, {}).items()):
            if pod.ready:
                self.remove(pod)
                if pod.state is PodState.HEALTHY:
                    self.seconds.observe(now - since)
                    ended.append((pod, now - since))
        return ended

    def remove(self, pod: PodTracker) -> None:
        """Remove a pod that is gone, or whose lead has ended."""
        revision = pod.config.revision.id
        pods = self._since.get(revision)
        if pods is not None and pods.pop(pod, None) is not None and not pods:
            del self._since[revision]


Why = Callable[[RevisionThrottler], tuple[Reason, str]]

#: Cold starts kept of each revision: an afternoon of a service with occasional requests.
KEPT = 10
#: Revisions with kept cold starts, the latest ones: with ``KEPT`` each, they take 11 MB.
KEPT_REVISIONS = 1000


class ColdStartPhase(Enum):
    """The phases of a cold start, in order; the value is the name of the event that ends it."""

    STAT_SENT = "stat-sent"
    ADDRESS = "address"
    PROBE = "probe"
    PROBE_PASSED = "probe-passed"
    DISPATCHED = "dispatched"
    FIRST_BYTE = "first-byte"


_PLACE = {phase: place for place, phase in enumerate(ColdStartPhase)}


@dataclass(slots=True, eq=False)
class ColdStart:
    """One cold start.

    Attributes:
        throttler: of its revision; None after its end.
        counts: counts the revision's cold starts by outcome.
        revision: its revision.
        began: its beginning on the caller's clock; began_at: the same as seconds since 1970.
        seen: the time of each phase's first event. A phase is absent if its event came before the
            cold start, or too late to matter. So the times are in order.
        requests: how many requests have waited for it; open: how many of them have not ended.
        endpoint: the pod, or ClusterIP, that responded first; None before.
        ended: its end; None while it is under way.
        outcome: ``served``, or the outcome of the last waiting request (counters.OUTCOMES).
        leased: the outcome if no request waits but clients are expected back, see ``lease``; empty
            without such clients.
        why: reason and detail of the wait if it failed: a request expired, or left a late start.
            Empty if none did.
        successes: how often a pod had become usable when it failed.
        lead: seconds by which the activator's probe of the pod was ahead of Kubernetes; None
            while unknown, or if Kubernetes was first.
    """

    throttler: RevisionThrottler | None
    counts: dict[str, int]
    revision: RevisionID
    began: float
    began_at: float
    seen: dict[ColdStartPhase, float] = field(default_factory=dict)
    requests: int = 0
    open: int = 0
    endpoint: Endpoint | None = None
    ended: float | None = None
    outcome: str = ""
    lead: float | None = None
    leased: str = ""
    why: str = ""
    successes: int = 0

    def reached(self, phase: ColdStartPhase, now: float) -> None:
        """Record the event of a phase, unless this phase or a later one has been seen."""
        if not self.seen or _PLACE[phase] > _PLACE[next(reversed(self.seen))]:
            self.seen[phase] = now

    def listed(self, now: float) -> None:
        """Record a new list of Kubernetes, if it has a pod that is new since the beginning."""
        pods = self.throttler.backends.pods.values() if self.throttler is not None else ()
        if ColdStartPhase.ADDRESS not in self.seen and any(
            pod.listed_at > self.began for pod in pods
        ):
            self.reached(ColdStartPhase.ADDRESS, now)

    def probe_started(self, pod: PodTracker, now: float) -> None:
        """Record a probe. It proves the phase before it if the pod is new since the beginning.

        The list of another revision adds the pod if that revision releases the pod's address.
        """
        if pod.listed_at > self.began:
            self.reached(ColdStartPhase.ADDRESS, now)
        self.reached(ColdStartPhase.PROBE, now)

    def responded(self, dispatched: float, endpoint: Endpoint, now: float) -> None:
        """Record the first byte, and the dispatch that led to it; other dispatches failed."""
        self.seen = {phase: when for phase, when in self.seen.items() if when <= dispatched}
        self.seen[ColdStartPhase.DISPATCHED] = dispatched
        self.seen[ColdStartPhase.FIRST_BYTE] = now
        self.endpoint = endpoint

    def left(self, outcome: str, now: float, why: Why) -> None:
        """Record why requests wait if one leaves without a response, and the start has failed.

        A client that leaves sooner than pods usually start proves nothing. The reason costs
        O(pods), and many requests may leave together: so the first and the last one record it.
        """
        throttler = self.throttler
        if throttler is None or not throttler.queue.awaits_start or (self.why and self.open):
            return
        took = throttler.forecast.starting(now) or now - self.began
        if outcome == "timed-out" or took > (throttler.forecast.starts.median or UNKNOWN):
            reason, detail = why(throttler)
            self.why = f"{reason.value}; {detail}" if detail else reason.value
            self.successes = throttler.forecast.successes

    def end(self, outcome: str, now: float) -> None:
        """Record and count the outcome, and release references that nothing needs any more."""
        self.ended = now
        self.outcome = outcome
        self.throttler = None
        self.counts[outcome] = self.counts.get(outcome, 0) + 1

    def durations(self) -> dict[ColdStartPhase, float]:
        """Return the seconds of each seen phase since the previous seen phase."""
        times = [self.began, *self.seen.values()]
        return {
            phase: when - before
            for phase, (before, when) in zip(self.seen, pairwise(times), strict=True)
        }

    def view(self) -> dict[str, Any]:
        """Return the cold start as the API shows it, see docs/reference.md."""
        began = datetime.fromtimestamp(self.began_at, UTC).isoformat(timespec="milliseconds")
        return {
            "began": began.replace("+00:00", "Z"),
            "outcome": self.outcome or None,
            "seconds": None if self.ended is None else _rounded(self.ended - self.began),
            "requests": self.requests,
            "pod": None if self.endpoint is None else self.endpoint.address,
            "phases": {phase.value: _rounded(at - self.began) for phase, at in self.seen.items()},
            "probeAheadSeconds": None if self.lead is None else _rounded(self.lead),
            "why": self.why or None,
        }


class ColdStarts:
    """The cold starts of all revisions: the current and the last ones.

    Arguments:
        events: gets an event for each ended cold start.
        wall: returns seconds since 1970.
        why: returns why requests of a revision wait.

    Attributes:
        under_way: the current cold starts by revision.
        seconds: durations of served cold starts; phase_seconds: durations of their phases.
        leads: the times by which the activator's probes were ahead of Kubernetes.
    """

    def __init__(
        self, events: Events, wall: Callable[[], float] = time.time, why: Why = waiting_reason
    ) -> None:
        self._events = events
        self._wall = wall
        self._why = why
        self.under_way: dict[RevisionID, ColdStart] = {}
        self.seconds = Histogram(WAIT_BOUNDS)
        self.phase_seconds = {phase: Histogram(WAIT_BOUNDS) for phase in ColdStartPhase}
        self.leads = ProbeLead()
        self._past: OrderedDict[RevisionID, deque[ColdStart]] = OrderedDict()

    # -- requests -------------------------------------------------------------------------------

    def join(
        self, throttler: RevisionThrottler, counts: dict[str, int], now: float
    ) -> ColdStart | None:
        """Record that a request is queued.

        Arguments:
            counts: counts the revision's cold starts by outcome.

        Returns:
            The cold start that the request waits for. The caller calls ``responded`` at most once,
            and then ``request_ended`` once. None if it waits for something else: a pod is usable,
            or was a moment ago.
        """
        if not throttler.queue.awaits_start:
            return None
        cold_start = self.under_way.get(throttler.revision.id)
        if cold_start is None:
            revision = throttler.revision.id
            cold_start = ColdStart(throttler, counts, revision, now, self._wall())
            self.under_way[cold_start.revision] = cold_start
        cold_start.requests += 1
        cold_start.open += 1
        return cold_start

    def responded(
        self, cold_start: ColdStart, dispatched: float, endpoint: Endpoint, now: float
    ) -> None:
        """Record the first byte of a response.

        Arguments:
            dispatched: when the request was last dispatched to its pod.
            endpoint: the pod.
        """
        if cold_start.ended is None:
            cold_start.responded(dispatched, endpoint, now)
            self._end(cold_start, "served", now)

    def request_ended(self, cold_start: ColdStart, outcome: str, now: float) -> None:
        """Record the end of a request that ``join`` has counted.

        Arguments:
            outcome: one of counters.OUTCOMES.
        """
        cold_start.open -= 1
        if outcome != "served" and cold_start.ended is None:
            cold_start.left(outcome, now, self._why)
        if not cold_start.open and cold_start.ended is None:
            self._end(cold_start, outcome, now)

    def lease(self, cold_start: ColdStart, outcome: str) -> None:
        """Continue a cold start for clients that have no request now, and will be back.

        It then ends when a pod becomes healthy and no request waits, or by ``lease_ended``.

        Arguments:
            outcome: one of counters.OUTCOMES, for that end.
        """
        if cold_start.ended is None and not cold_start.leased:
            cold_start.open += 1
            cold_start.leased = outcome

    def lease_ended(self, cold_start: ColdStart, now: float) -> None:
        """Record that no such client is expected back any more."""
        if cold_start.ended is None and cold_start.leased:
            outcome, cold_start.leased = cold_start.leased, ""
            self.request_ended(cold_start, outcome, now)

    # -- autoscaler, Kubernetes, probes ---------------------------------------------------------

    def stats_sent(self, revisions: Iterable[RevisionID], arose: float, now: float) -> None:
        """Record that a report about revisions was sent to the autoscaler.

        Arguments:
            arose: when the report was made. A report from before a cold start does not count.
        """
        for revision in revisions if self.under_way else ():
            cold_start = self.under_way.get(revision)
            if cold_start is not None and cold_start.began <= arose:
                cold_start.reached(ColdStartPhase.STAT_SENT, now)

    def listed(self, revision: RevisionID, now: float) -> None:
        """Record a new list of Kubernetes."""
        if (cold_start := self.under_way.get(revision)) is not None:
            cold_start.listed(now)
        for pod, lead in self.leads.listed(revision, now):
            for cold_start in self._of(revision):
                if cold_start.endpoint == pod.endpoint and cold_start.lead is None:
                    cold_start.lead = lead

    def probe_started(self, pod: PodTracker, now: float) -> None:
        """Record that a probe of a pod has started."""
        if (cold_start := self.under_way.get(pod.config.revision.id)) is not None:
            cold_start.probe_started(pod, now)

    def probe_passed(self, pod: PodTracker, now: float) -> None:
        """Record that a pod has become healthy because of a probe."""
        if (cold_start := self.under_way.get(pod.config.revision.id)) is not None:
            cold_start.reached(ColdStartPhase.PROBE_PASSED, now)
            if cold_start.leased and cold_start.open == 1:
                self.lease_ended(cold_start, now)
        self.leads.passed(pod, now)

    def remove(self, revision: RevisionID) -> None:
        """Remove a deleted revision. Its current cold start ends by itself, and is not kept."""
        self.under_way.pop(revision, None)
        self._past.pop(revision, None)

    # -- views ----------------------------------------------------------------------------------

    def views(self, revision: RevisionID) -> list[dict[str, Any]]:
        """Return the cold starts of a revision as the API shows them, the newest first."""
        return [cold_start.view() for cold_start in self._of(revision)]

    def failed(self, throttler: RevisionThrottler) -> int:
        """Return how many of the last cold starts failed, if no pod became usable since."""
        now, every = throttler.forecast.successes, self._of(throttler.revision.id)
        return sum(bool(each.why) and each.successes == now for each in every)

    def _of(self, revision: RevisionID) -> list[ColdStart]:
        cold_starts = list(reversed(self._past.get(revision, ())))
        if (cold_start := self.under_way.get(revision)) is not None:
            cold_starts.insert(0, cold_start)
        return cold_starts

    def _end(self, cold_start: ColdStart, outcome: str, now: float) -> None:
        cold_start.end(outcome, now)
        if self.under_way.get(cold_start.revision) is cold_start:
            del self.under_way[cold_start.revision]
            self._keep(cold_start)
        if outcome == "served":
            durations = cold_start.durations()
            self.seconds.observe(now - cold_start.began)
            for phase, seconds in durations.items():
                self.phase_seconds[phase].observe(seconds)
        if self._events.listeners:
            self._events.publish(
                EventKind.COLD_START_FINISHED, cold_start.revision, cold_start.view()
            )

    def _keep(self, cold_start: ColdStart) -> None:
        """Keep an ended cold start, and evict the revision whose last one is the oldest."""
        past = self._past.setdefault(cold_start.revision, deque(maxlen=KEPT))
        past.append(cold_start)
        self._past.move_to_end(cold_start.revision)
        if len(self._past) > KEPT_REVISIONS:
            self._past.popitem(last=False)


def _rounded(seconds: float) -> float:
    """Return seconds rounded to 0.1 ms: on the loopback a phase takes no more."""
    return round(seconds, 4)
