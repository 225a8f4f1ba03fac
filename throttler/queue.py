"""The queued requests of a revision: which may be queued, until when, and which gets a pod next."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from math import ceil
from typing import Final, NamedTuple, final

from throttler.adaptive import UNMEASURED
from throttler.backends import Backends
from throttler.breaker import Breaker
from throttler.capacity import SLOW_START, SLOW_START_STEP
from throttler.errors import ActivatorError, WaitTooLong
from throttler.model import RevisionConfig
from throttler.pod import FreePods, PodTracker, SlowStart
from throttler.slots import Slots
from throttler.ticket import CANCELLED, QUEUED, REJECTED, Changes, Ticket, TicketState

# The deadlines of queued tickets: a heap whose obsolete entries cost almost nothing.
#
# A ticket that leaves the queue stays in the heap, since a search would cost O(tickets). Its
# entry is removed when it reaches the top, or when obsolete entries outnumber the others.

#: Below this many entries the heap is never rebuilt.
_SMALL: Final = 64


class Deadlines:
    """The deadlines of all queued tickets.

    ``add`` is O(1) if time-outs are equal, since a later deadline stays at the heap's end, and
    O(log n) at worst. The tickets that left since the last rebuild pay for the next one.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Ticket]] = []
        self._added = 0

    def add(self, ticket: Ticket, waiting: int) -> None:
        """Add the deadline of a queued ticket.

        Arguments:
            waiting: number of queued tickets of all revisions, for ``trim``.
        """
        self._added += 1
        heappush(self._heap, (ticket.deadline, self._added, ticket))
        self.trim(waiting)

    def trim(self, waiting: int) -> None:
        """Remove the entries of tickets that have left, once they outnumber the others.

        Arguments:
            waiting: number of queued tickets of all revisions.
        """
        if len(self._heap) > _SMALL + 2 * waiting:
            # By ticket: a requeued one has an entry for each time that it was queued.
            live = {entry[2]: entry for entry in self._heap if entry[2].state is QUEUED}
            self._heap = list(live.values())
            heapify(self._heap)

    def next(self) -> float | None:
        """Return the earliest deadline of a queued ticket, seconds; None without one."""
        heap = self._heap
        while heap and heap[0][2].state is not QUEUED:
            heappop(heap)
        return heap[0][0] if heap else None

    def passed(self, now: float) -> Iterator[Ticket]:
        """Remove and yield each queued ticket whose deadline has come; the caller ends it."""
        while (deadline := self.next()) is not None and deadline <= now:
            yield heappop(self._heap)[2]

    def __len__(self) -> int:
        return len(self._heap)


# How long a request would wait, by the recent starts and turnovers of its revision.
#
# A *start* is the time from the first request without a listed pod until a pod is usable. In a
# *turnover*, as many queued requests get a pod as requests are in flight. By Little's law, that
# is the time for which a request keeps its slot. So the forecast follows the number of slots when
# pods come and go. Each forecast uses the lower median of a few values. So one pull of a large
# image does not count as the next start, and a few new values correct a wrong forecast. Knows no
# clock. Knative has no counterpart: it sends no ``Retry-After``, and refuses no request early.

#: Number of starts in the median; the eighth different one changes it.
STARTS: Final = 15
#: Number of turnovers in the median; the third different one changes it.
TURNOVERS: Final = 5
#: Seconds for which a start continues after its only request has left. The autoscaler keeps the pod
#: for so long (Knative: stable-window of config-autoscaler). A later request begins another start.
SAME_START: Final = 60.0

#: Seconds of ``Retry-After`` without a forecast. Usually a start is in progress, which takes some
#: seconds. Clients that retry sooner find the same state, and would fill the queue with retries.
UNKNOWN: Final = 5.0
#: Seconds; a forecast of a longer wait is too uncertain.
LONGEST_RETRY: Final = 100.0
#: ``Retry-After`` varies by up to this part, so that clients refused together return apart.
JITTER: Final = 0.2


class RecentMedian:
    """The lower median of the last few values; None before the first.

    Arguments:
        size: number of values.
    """

    __slots__ = ("_size", "median", "values")

    def __init__(self, size: int) -> None:
        self.median: float | None = None
        self.values: list[float] = []
        self._size = size

    def add(self, value: float) -> None:
        """Add a value; it replaces the oldest if there are enough."""
        self.values.append(value)
        if len(self.values) > self._size:
            del self.values[0]
        self.median = sorted(self.values)[(len(self.values) - 1) // 2]


class Demand(NamedTuple):
    """The state of a revision that a forecast uses.

    Attributes:
        waiting: queued requests; in_flight: requests in flight.
        limit: limit of requests in flight at one pod; 0 for no limit.
        listed: whether Kubernetes lists a pod.
        recovering: whether usable pods are expected back soon, see Backends.
        awaits_start: whether a request would wait for a pod to start.
    """

    waiting: int
    in_flight: int
    limit: int
    listed: bool
    recovering: bool
    awaits_start: bool


class Forecast:
    """The recent starts and turnovers of one revision, and forecasts from them.

    Each method costs O(1). The throttler calls them for queued and refused requests, never for a
    request that gets a pod at once. ``now`` is in seconds of the caller's clock.

    Attributes:
        starts, turnovers: the recent times, seconds.
        successes: how often a pod became usable while none was.
    """

    __slots__ = (
        "_dispatched",
        "_emptied_at",
        "_round_began",
        "_start_began",
        "starts",
        "successes",
        "turnovers",
    )

    def __init__(self) -> None:
        self.starts = RecentMedian(STARTS)
        self.turnovers = RecentMedian(TURNOVERS)
        self.successes = 0
        self._start_began: float | None = None
        # When the last queued request left; None while one is queued.
        self._emptied_at: float | None = None
        self._round_began = 0.0
        self._dispatched = 0

    # -- events ---------------------------------------------------------------------------------

    def queue_began(self, now: float, *, listed: bool) -> None:
        """Record that a request is queued and none was before.

        Without a listed pod, a start begins, unless one is in progress whose first client has left.

        Arguments:
            listed: whether Kubernetes lists a pod.
        """
        self._begin_round(now)
        in_progress = self._start_in_progress(now)
        if in_progress is not None or not listed:
            self._start_began = now if in_progress is None else in_progress
            self._emptied_at = None

    def queue_emptied(self, now: float) -> None:
        """Record that the last queued request has left without a pod."""
        self._emptied_at = now

    def clients_return(self, now: float) -> None:
        """Record that clients are expected back, so that a start in progress continues for them."""
        if self._start_in_progress(now) is not None and self._emptied_at is not None:
            self._emptied_at = now

    def pod_became_usable(self, now: float) -> None:
        """Record that a pod is usable and none was before.

        If the queued requests left only a moment ago, they caused this start, so its time counts.
        Much later, the start had another cause.
        """
        if (took := self.starting(now)) is not None:
            self.starts.add(took)
        self._start_began = None
        self.successes += 1
        self._begin_round(now)

    def starting(self, now: float) -> float | None:
        """Return for how many seconds the start in progress lasts; None if none is in progress."""
        began = self._start_in_progress(now)
        return None if began is None else now - began

    def is_late(self, now: float) -> bool:
        """Return whether the start in progress takes longer than usual."""
        usual, took = self.starts.median, self.starting(now)
        return usual is not None and took is not None and took > usual

    def _start_in_progress(self, now: float) -> float | None:
        """Return when the start in progress began; None if none is in progress."""
        if self._emptied_at is not None and now - self._emptied_at > SAME_START:
            return None
        return self._start_began

    def slot_reused(self, in_flight: int, now: float) -> None:
        """Record that a queued request gets the slot of a request that ended.

        A round ends when as many queued requests have got a slot as requests are in flight. In a
        shorter round, requests that end together would look like a queue that drains in no time.

        Arguments:
            in_flight: requests in flight, without the one that gets the slot.
        """
        self._dispatched += 1
        if self._dispatched > in_flight:
            self.turnovers.add(now - self._round_began)
            self._begin_round(now)

    def _begin_round(self, now: float) -> None:
        self._round_began = now
        self._dispatched = 0

    # -- forecasts ------------------------------------------------------------------------------

    def check(self, ticket: Ticket, demand: Demand, now: float) -> None:
        """Refuse a request that would expire in the queue.

        Some requests may always wait: as many as are in flight, or one. So the next turnover or
        start is measured, and corrects a wrong forecast.

        Raises:
            WaitTooLong: the expected wait exceeds the deadline.
        """
        expected = self.expected_wait(demand, now)
        if expected is None or demand.waiting < max(demand.in_flight, 1):
            return
        left = ticket.deadline - now
        if expected > left:
            raise WaitTooLong(expected, left)

    def expected_wait(self, demand: Demand, now: float) -> float | None:
        """Return how long a request that arrives now would wait.

        Ignores that clients ahead of it may leave.

        Returns:
            Seconds; None without a similar value, or if no forecast is possible.
        """
        position = demand.waiting + 1
        if demand.recovering:
            return None
        if demand.awaits_start:
            return self._start_wait(position, demand, now)
        if not demand.limit:
            return 0.0  # slow start raises the limits until all have a pod
        turnover = self.turnovers.median
        if turnover is None:
            return None
        if position > 1:  # a round is in progress; it has taken so long already
            turnover = max(turnover, now - self._round_began)
        return position * turnover / max(demand.in_flight, 1)

    def _start_wait(self, position: int, demand: Demand, now: float) -> float | None:
        """Return the seconds until the start ends, plus the wait for the first pod's queue.

        A start that is overdue is expected to take as long again as it is overdue. There is no
        forecast for a start that no request caused, since its beginning is unknown.
        """
        limit, start, took = demand.limit, self.starts.median, self.starting(now)
        if start is None or (took is None and demand.listed):
            return None
        left = start if took is None else abs(start - took)
        turnover = self.turnovers.median
        if not limit or turnover is None or position <= limit:
            return left
        return left + (position - limit) * turnover / limit


def retry_after(expected: float | None, chance: float) -> int:
    """Return the value of ``Retry-After`` for a client (RFC 9110 section 10.2.3).

    Arguments:
        expected: expected wait, seconds; None if unknown.
        chance: random number in [0, 1), for the jitter.

    Returns:
        Whole seconds, 1 to 120.
    """
    seconds = UNKNOWN if expected is None else min(expected, LONGEST_RETRY)
    return max(ceil(seconds * (1 - JITTER + 2 * JITTER * chance)), 1)


# The queued requests of one revision: which may be queued, until when, and which gets a pod next.
#
# Joins the bounded queue with the deadlines, the forecast and slow start. Knows no clock.


@final
class Queue:
    """The queue of one revision, with its deadlines, forecast and slow start.

    Arguments:
        config: the settings in force for the revision.
        backends: its pods and its Service; slots: the slots of its pods.
        breaker: the bounded queue.
        deadlines: the deadlines of queued tickets of all revisions.
        slow_starts: the armed slow starts of all revisions.
        shed_early: whether to refuse a request at once if the expected wait exceeds its deadline.

    Attributes:
        breaker: the bounded queue.
        forecast: the recent starts and turnovers.
        slow_start: schedules the next raise of limits.
    """

    __slots__ = (
        "_backends",
        "_config",
        "_deadlines",
        "_slots",
        "breaker",
        "forecast",
        "shed_early",
        "slow_start",
    )

    def __init__(
        self,
        config: RevisionConfig,
        backends: Backends,
        slots: Slots,
        breaker: Breaker,
        deadlines: Deadlines,
        slow_starts: set[SlowStart],
        shed_early: bool,
    ) -> None:
        self._config = config
        self._backends = backends
        self._slots = slots
        self.breaker = breaker
        self.forecast = Forecast()
        self.slow_start = SlowStart(config.revision.id, slow_starts)
        self._deadlines = deadlines
        self.shed_early = shed_early

    # -- entering and leaving -------------------------------------------------------------------

    def add(self, ticket: Ticket, now: float) -> None:
        """Queue a new request that gets no pod at once.

        Raises:
            RequestQueueFull, FlowFull: the queue has reached a limit; the ticket has ended.
            WaitTooLong: the expected wait exceeds the deadline (``shed_early``); the ticket has
                ended.
        """
        try:
            if self.shed_early:
                self.forecast.check(ticket, self._demand(self.breaker.ahead_of(ticket)), now)
            self.breaker.append(ticket)
        except ActivatorError:
            ticket.state = REJECTED
            raise
        self._queued(ticket, now)
        self._arm(now)

    def park(self, ticket: Ticket, pod: PodTracker, now: float) -> None:
        """Queue a new sticky request whose own pod is full while another has a free slot.

        Raises:
            RequestQueueFull, FlowFull: the queue has reached a limit; the ticket has ended.
        """
        try:
            self.breaker.check(ticket)
        except ActivatorError:
            ticket.state = REJECTED
            raise
        self._park(ticket, pod, now)
        self._queued(ticket, now)
        self._arm(now)

    def _park(self, ticket: Ticket, pod: PodTracker, now: float) -> None:
        holder = self._slots.holder
        assert holder is not None
        self.breaker.park(ticket, pod, now)
        holder.counts.waited += 1

    def restore(self, ticket: Ticket, now: float) -> None:
        """Requeue a request that its pod failed; it precedes all later arrivals of its class."""
        self.breaker.restore(ticket, now)
        self._queued(ticket, now)

    def _queued(self, ticket: Ticket, now: float) -> None:
        ticket.state = QUEUED
        self._deadlines.add(ticket, self.breaker.total.depth)
        if self.breaker.waiting == 1:
            self.forecast.queue_began(now, listed=self._backends.listed)

    def cancel(self, ticket: Ticket, now: float) -> None:
        """End a queued request whose client has left."""
        self.end(ticket, CANCELLED, now)
        self._deadlines.trim(self.breaker.total.depth)

    def end(self, ticket: Ticket, state: TicketState, now: float) -> None:
        """End a queued request in the given final state."""
        self.breaker.discard(ticket)
        ticket.state = state
        if not self.breaker.waiting:
            self.forecast.queue_emptied(now)

    # -- assignment -----------------------------------------------------------------------------

    def dispatch(self, changes: Changes, now: float, freed: PodTracker | None = None) -> Changes:
        """Assign queued requests, in order, to the pods with a free slot; return ``changes``.

        Arguments:
            freed: the only pod that may have got a free slot; None if several may have.
        """
        breaker, slots = self.breaker, self._slots
        if breaker.parked:
            self._dispatch_parked(changes, now, freed)
        # The cheapest tests first: most calls assign one request.
        while breaker.waiting:
            free_pods = slots.own_free if slots.own_free.summary else slots.borrowable
            if not free_pods.summary or not breaker.unparked:
                break
            self._assign_next(free_pods, changes, now)
        self._deadlines.trim(breaker.total.depth)
        self._arm(now)
        return changes

    def _assign_next(self, free_pods: FreePods, changes: Changes, now: float) -> None:
        """Assign the next request to one of ``free_pods``, or let it wait for its own pod."""
        slots = self._slots
        ticket = self.breaker.popleft(now)
        if slots.holder is not None and (pod := slots.awaited(ticket)) is not None:
            self._park(ticket, pod, now)
            return
        if ticket.failed:
            slots.assign_another(ticket, now)
        else:
            slots.assign(ticket, free_pods, now)
        changes.assigned.append(ticket)

    def _dispatch_parked(self, changes: Changes, now: float, freed: PodTracker | None) -> None:
        """Assign requests that wait for one pod; first, put back requests for lost pods."""
        slots, breaker = self._slots, self.breaker
        if freed is None:
            breaker.unpark(now, everything=slots.holder is None)
        for pod in breaker.parked.pods() if freed is None else (freed,):
            while slots.has_free_slot(pod) and breaker.parked.has(pod):
                ticket = breaker.pop_parked(pod, now)
                if ticket is None:
                    self._assign_next(slots.free_pods, changes, now)
                    continue
                slots.assign(ticket, slots.free_pods, now, pod)
                changes.assigned.append(ticket)

    def _arm(self, now: float) -> None:
        """Schedule slow start while requests are queued for pods whose limit may rise."""
        slots = self._slots
        if not (slots.pods and self.breaker.waiting):
            return
        if self._config.revision.container_concurrency and not slots.has_half_open:
            return
        limiter = slots.limiter
        if limiter is not None:
            limiter.waits(now)
        measures = limiter is not None and not slots.has_half_open
        self.slow_start.arm(now, UNMEASURED if measures else SLOW_START_STEP)

    # -- expected wait --------------------------------------------------------------------------

    @property
    def awaits_start(self) -> bool:
        """Whether a request waits for a pod to start: none is usable, and none was a moment ago."""
        return not (self._slots.pods or self._backends.recovering)

    def expected_wait(self, now: float) -> float | None:
        """Return how long a request that arrives now would wait, seconds; None if unknown."""
        if self._slots.free_pods.summary:
            return 0.0
        return self.forecast.expected_wait(self._demand(self.breaker.waiting), now)

    def _demand(self, waiting: int) -> Demand:
        return Demand(
            waiting=waiting,
            in_flight=self._slots.in_flight,
            limit=self._config.revision.container_concurrency
            or (SLOW_START if self._slots.limiter is not None else 0),
            listed=self._backends.listed,
            recovering=self._backends.recovering,
            awaits_start=self.awaits_start,
        )
