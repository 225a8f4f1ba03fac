"""The requests of one revision that wait: who may wait, for how long, and who gets a pod next.

Joins the queue with the deadlines, the forecast and the slow start that follow it. Knows no clock.
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
    """The queue of one revision, and what goes with it.

    Arguments:
        config: what is in force for the revision.
        backends: its pods and its Service; slots: what pods have.
        deadlines: where the deadlines of queued tickets are kept, shared by all revisions.
        widening: the doublings of limits that are due, of all revisions.
        shed_early: whether a request that would wait beyond its deadline may not wait at all.

    Attributes:
        breaker: the queue.
        forecast: what starts and turnovers took.
        slow_start: when pods without a limit of their own may have more.
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

    # -- who waits ------------------------------------------------------------------------------

    def add(self, ticket: Ticket, now: float) -> None:
        """Take a new request that finds no room.

        Raises:
            RequestQueueFull: it may not wait; the ticket has ended.
            WaitTooLong: nor may it where it would be in vain (``shed_early``).
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
        """Take back a request that has lost its pod; it precedes all that came later."""
        self.breaker.restore(ticket)
        self._queued(ticket, now)

    def _queued(self, ticket: Ticket, now: float) -> None:
        ticket.state = QUEUED
        self._deadlines.add(ticket, self.breaker.total.depth)
        if self.breaker.waiting == 1:
            self.forecast.queue_began(now, listed=self._backends.listed)

    def cancel(self, ticket: Ticket, now: float) -> None:
        """End a request whose client has left."""
        self.end(ticket, CANCELLED, now)
        self._deadlines.trim(self.breaker.total.depth)

    def end(self, ticket: Ticket, state: TicketState, now: float) -> None:
        """End a request, in this state."""
        self.breaker.discard(ticket)
        ticket.state = state
        if not self.breaker.waiting:
            self.forecast.queue_emptied(now)

    # -- who is next ----------------------------------------------------------------------------

    def dispatch(self, changes: Changes, now: float) -> Changes:
        """Assign waiters, in order, to the pods that have room."""
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
        """Arm the next widening while requests wait for pods that may have more before long."""
        if not (self._slots.pods and self.breaker.waiting):
            return
        if self._config.revision.container_concurrency and not self._slots.has_half_open:
            return
        self.slow_start.arm(now)

    # -- for how long ---------------------------------------------------------------------------

    @property
    def awaits_start(self) -> bool:
        """Whether a request waits for a pod to start: none can be used, nor was a moment ago."""
        return not (self._slots.pods or self._backends.recovering)

    def expected_wait(self, now: float) -> float | None:
        """Return how long a request that comes now would wait, seconds; None if not known."""
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
