"""The queued requests of one revision: which may be queued, until when, and which gets a pod next.

Joins the bounded queue with the deadlines, the forecast and slow start. Knows no clock.
"""

from __future__ import annotations

from typing import final

from throttler.backends import Backends
from throttler.breaker import Breaker
from throttler.changes import Changes
from throttler.config import RevisionConfig
from throttler.deadlines import Deadlines
from throttler.errors import ActivatorError
from throttler.forecast import Demand, Forecast
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
            RequestQueueFull: the queue has reached a limit; the ticket has ended.
            WaitTooLong: the expected wait exceeds the deadline (``shed_early``); the ticket has
                ended.
        """
        try:
            if self._shed_early:
                self.forecast.check(ticket, self._demand(), now)
            self.breaker.append(ticket)
        except ActivatorError:
            ticket.state = REJECTED
            raise
        self._queued(ticket, now)
        self._arm(now)

    def restore(self, ticket: Ticket, now: float) -> None:
        """Requeue a request that its pod failed; it precedes all later arrivals."""
        self.breaker.restore(ticket)
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

    def dispatch(self, changes: Changes, now: float) -> Changes:
        """Assign queued requests, in order, to the pods with a free slot; return ``changes``."""
        slots = self._slots
        while self.breaker.waiting and (free_pods := slots.free_pods).summary:
            ticket = self.breaker.popleft()
            if ticket.failed:
                slots.assign_another(ticket, now)
            else:
                slots.assign(ticket, free_pods, now)
            changes.assigned.append(ticket)
        self._deadlines.trim(self.breaker.total.depth)
        self._arm(now)
        return changes

    def _arm(self, now: float) -> None:
        """Schedule slow start while requests are queued for pods whose limit may rise."""
        if not (self._slots.pods and self.breaker.waiting):
            return
        if self._config.revision.container_concurrency and not self._slots.has_half_open:
            return
        self.slow_start.arm(now)

    # -- expected wait --------------------------------------------------------------------------

    @property
    def awaits_start(self) -> bool:
        """Whether a request waits for a pod to start: none is usable, and none was a moment ago."""
        return not (self._slots.pods or self._backends.recovering)

    def expected_wait(self, now: float) -> float | None:
        """Return how long a request that arrives now would wait, seconds; None if unknown."""
        if self._slots.free_pods.summary:
            return 0.0
        return self.forecast.expected_wait(self._demand(), now)

    def _demand(self) -> Demand:
        return Demand(
            waiting=self.breaker.waiting,
            in_flight=self._slots.in_flight,
            limit=self._config.revision.container_concurrency,
            listed=self._backends.listed,
            recovering=self._backends.recovering,
            awaits_start=self.awaits_start,
        )
