"""The queued requests of one revision: which may be queued, until when, and which gets a pod next.

Joins the bounded queue with the deadlines, the forecast and slow start. Knows no clock.
"""

from __future__ import annotations

from typing import final

from throttler.adaptive import UNMEASURED
from throttler.backends import Backends
from throttler.breaker import Breaker
from throttler.capacity import SLOW_START, SLOW_START_STEP
from throttler.changes import Changes
from throttler.config import RevisionConfig
from throttler.deadlines import Deadlines
from throttler.errors import ActivatorError
from throttler.forecast import Demand, Forecast
from throttler.free_pods import FreePods
from throttler.pod import PodTracker
from throttler.slots import Slots
from throttler.slow_start import SlowStart
from throttler.ticket import CANCELLED, QUEUED, REJECTED, Ticket, TicketState


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
        "_shed_early",
        "_slots",
        "breaker",
        "forecast",
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
        self._shed_early = shed_early

    # -- entering and leaving -------------------------------------------------------------------

    def add(self, ticket: Ticket, now: float) -> None:
        """Queue a new request that gets no pod at once.

        Raises:
            RequestQueueFull, FlowFull: the queue has reached a limit; the ticket has ended.
            WaitTooLong: the expected wait exceeds the deadline (``shed_early``); the ticket has
                ended.
        """
        try:
            if self._shed_early:
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
