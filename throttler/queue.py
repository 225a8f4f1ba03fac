"""The queued requests of a revision: which may be queued, until when, and which gets a pod next.

Joins the bounded queue with the deadlines, the forecast and slow start. Knows no clock.
"""

from __future__ import annotations

from bisect import insort
from collections import OrderedDict
from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from operator import attrgetter
from typing import Final, final

from throttler.adaptive import UNMEASURED
from throttler.backends import Backends
from throttler.capacity import SLOW_START, SLOW_START_STEP
from throttler.errors import ActivatorError, FlowFull, RequestQueueFull
from throttler.forecast import Demand, Forecast
from throttler.model import QueueOrder, RevisionConfig
from throttler.pod import FreePods, PodTracker, SlowStart
from throttler.ranked_queue import Parked, QueueCounts, RankedQueue
from throttler.request_policies import HIGH, RESERVED, QueueBudget, SharedBudget, share_of
from throttler.slots import Slots
from throttler.ticket import CANCELLED, KEEPS_PLACE, QUEUED, REJECTED, Changes, Ticket, TicketState

# The bounded queue of a revision: first in, first out, or by class and flow; operations are O(1).
#
# Decides which request is next and whether one more may be queued. Knative's counterpart:
# pkg/queue/breaker.go. Its limit cannot be reached, and its new requests overtake queued ones.

_by_arrival = attrgetter("arrived")


class QueuedTickets:
    """The queued tickets of one revision.

    Arguments:
        own: this revision's budget; total: the budget of all revisions, shared by their queues.

    Attributes:
        order: how new requests are ordered; None: by arrival.
        ranked: the requests by class and flow; None while there are none and ``order`` is None.
        counts: the requests in ``ranked`` and ``parked``, by class and by flow.
        waiting: number of queued requests; peak: the maximum since the last reset.
        parked: the queued requests that wait for one pod only; ``popleft`` ignores them.
    """

    def __init__(self, own: QueueBudget, total: SharedBudget) -> None:
        self.own = own
        self.total = total
        self.order: QueueOrder | None = None
        self.ranked: RankedQueue | None = None
        self.counts = QueueCounts()
        self.parked = Parked(self.counts)
        # Which of the two queues had requests first, if their oldest arrived at the same time.
        self._ranked_first = False
        self.waiting = self.peak = 0
        self._arrivals: OrderedDict[Ticket, None] = OrderedDict()
        # Tickets that a pod failed, or that waited for a pod that went, oldest first: they precede
        # all arrivals.
        self._requeued: list[Ticket] = []

    def set_order(self, order: QueueOrder | None) -> None:
        """Set how requests are ordered that are queued from now on; queued ones keep their order.

        Of the queue in order of arrival and the queue by class and flow, the one with the oldest
        request goes first.
        """
        if (order is None) is not (self.order is None):
            self._ranked_first = order is None
        self.order = order
        if order is not None and self.ranked is None:
            self.ranked = RankedQueue(self.counts)
        self._remove_unused()

    # -- entering and leaving -------------------------------------------------------------------

    def append(self, ticket: Ticket) -> None:
        """Queue one more request.

        Raises:
            RequestQueueFull: a limit is reached; nothing has changed.
            FlowFull: its flow has reached its limit; nothing has changed.
        """
        self.check(ticket)
        if self.order is None:
            self._arrivals[ticket] = None
        else:
            assert self.ranked is not None
            self.ranked.append(ticket)
        self._count(1, ticket.size)

    def check(self, ticket: Ticket) -> None:
        """Check that a new request may be queued; set how it ages.

        Raises:
            RequestQueueFull: a limit is reached.
            FlowFull: its flow has reached its limit.
        """
        if limit := self._exceeded_limit(ticket.size):
            raise RequestQueueFull(limit)
        if self.order is not None:
            self._check_share(ticket, self.order)

    def _exceeded_limit(self, size: int) -> str:
        own, total = self.own, self.total
        if (
            own.depth < own.max_depth
            and own.bytes + size <= own.max_bytes
            and total.depth < total.max_depth - total.max_depth // RESERVED
            and total.bytes + size <= total.max_bytes - total.max_bytes // RESERVED
        ):
            return ""  # the usual case, without a further call: the reserve does not count
        if broken := own.exceeded_by(size):
            return f"revision-{broken}"
        if broken := total.exceeded_for(own, size):
            return f"total-{broken}"
        return ""

    def _check_share(self, ticket: Ticket, order: QueueOrder) -> None:
        counts, own = self.counts, self.own
        if order.has_classes:
            if own.depth >= share_of(own.max_depth, ticket.priority):
                raise RequestQueueFull("class-depth")
            if not self._fits_class(ticket, ticket.size):
                raise RequestQueueFull("class-bytes")
        if order.fair_by is not None and counts.is_full(ticket.flow, own.max_depth, own.depth):
            raise FlowFull(counts.flows[ticket.flow])
        ticket.ages = order.has_classes

    def _fits_class(self, ticket: Ticket, size: int) -> bool:
        """Return whether ``size`` more bytes are within the share of a ticket's class."""
        return self.own.bytes + size <= share_of(self.own.max_bytes, ticket.priority)

    def restore(self, ticket: Ticket, now: float) -> None:
        """Requeue a ticket that was admitted before, at the front, in order of arrival.

        With classes, the front is that of its class. Never refused: the ticket was within the
        limits when it arrived.

        Arguments:
            now: seconds on the clock of the tickets.
        """
        self._put_back(ticket, now)
        self._count(1, ticket.size)

    def _put_back(self, ticket: Ticket, now: float) -> None:
        if self.order is None:
            insort(self._requeued, ticket, key=_by_arrival)
        else:
            assert self.ranked is not None
            ticket.ages = ticket.ages or self.order.has_classes
            self.ranked.restore(ticket, now)

    def popleft(self, now: float) -> Ticket:
        """Remove and return the next request. The caller has checked that there is one.

        Arguments:
            now: seconds on the clock of the tickets.
        """
        if self.ranked is not None and self._ranked_is_next(self.ranked):
            ticket = self.ranked.popleft(now)
            self._remove_unused()
        elif self._requeued:
            ticket = self._requeued.pop(0)
            ticket.rank = KEEPS_PLACE
        else:
            ticket = self._arrivals.popitem(last=False)[0]
        self._count(-1, -ticket.size)
        return ticket

    def _ranked_is_next(self, ranked: RankedQueue) -> bool:
        """Return whether the next request is in the ranked queue: it has the oldest request."""
        first = self._first_by_arrival()
        return ranked.waiting > 0 and (first is None or self._oldest_of(ranked, first) is not first)

    def discard(self, ticket: Ticket) -> None:
        """Remove a queued request at any position. The caller has checked that it is queued."""
        if ticket in self._arrivals:
            del self._arrivals[ticket]
        elif ticket in self.parked:
            self.parked.discard(ticket)
        elif ticket.rank >= HIGH:
            assert self.ranked is not None
            self.ranked.discard(ticket)
            self._remove_unused()
        else:
            self._requeued.remove(ticket)
        self._count(-1, -ticket.size)

    def _remove_unused(self) -> None:
        """Remove the ranked queue when it is off and empty."""
        if self.order is None and self.ranked is not None and not self.ranked.waiting:
            self.ranked = None

    # -- requests that wait for one pod -----------------------------------------------------------

    @property
    def unparked(self) -> int:
        """Number of queued requests that may have any pod."""
        return self.waiting - len(self.parked.pod_of)

    def park(self, ticket: Ticket, pod: PodTracker, now: float) -> None:
        """Let a request wait for one pod.

        Never refused: ``popleft`` has returned the request, or ``check`` has accepted it.

        Arguments:
            now: seconds on the clock of the tickets.
        """
        self.parked.add(ticket, pod, now)
        self._count(1, ticket.size)

    def pop_parked(self, pod: PodTracker, now: float) -> Ticket | None:
        """Remove and return the next request that waits for a pod; None if another goes first.

        Without one, or while a request of a higher class is queued, ``popleft`` goes first. So the
        requests that wait for a pod cannot delay a higher class.

        Arguments:
            now: seconds on the clock of the tickets.
        """
        if not self.parked.has(pod) or self._outranks(pod, now):
            return None
        ticket = self.parked.pop(pod, now)
        self._count(-1, -ticket.size)
        return ticket

    def _outranks(self, pod: PodTracker, now: float) -> bool:
        """Return whether the next request has a higher class than the next one for a pod."""
        ranked = self.ranked
        if ranked is None or not self._ranked_is_next(ranked):
            return False
        return ranked.top(now) < self.parked.top(pod, now)

    def unpark(self, now: float, *, everything: bool = False) -> None:
        """Put requests that wait for a pod back to the front of the queue, or of their class.

        Arguments:
            now: seconds on the clock of the tickets.
            everything: whether to put back all of them; else only requests for unused pods.
        """
        tickets = self.parked.take_all() if everything else self.parked.take_lost()
        for ticket in sorted(tickets, key=_by_arrival):
            self._put_back(ticket, now)

    # -- bytes ----------------------------------------------------------------------------------

    def reserve_bytes(self, ticket: Ticket, size: int) -> bool:
        """Count more bytes of a queued request, if the budgets allow.

        Arguments:
            size: bytes to add.

        Returns:
            False if a byte budget is used up: the caller stops reading that request until it has a
            pod.
        """
        if not (self.own.fits(size) and self.total.fits_for(self.own, size)):
            return False
        if self.order is not None and self.order.has_classes and not self._fits_class(ticket, size):
            return False
        ticket.size += size
        self._count(0, size)
        return True

    # -- views ----------------------------------------------------------------------------------

    def tickets(self) -> list[Ticket]:
        """Return all queued tickets, in no particular order; O(n)."""
        ranked = [] if self.ranked is None else self.ranked.tickets()
        return [*self._requeued, *self._arrivals, *ranked, *self.parked.tickets()]

    def oldest(self) -> Ticket | None:
        """Return the ticket that arrived first, or None; without ``order`` it is the next one.

        Of the requests that wait for one pod, the one that has done so for the longest time counts.
        """
        first = self._first_by_arrival()
        if self.ranked is not None:
            first = self._oldest_of(self.ranked, first)
        parked = self.parked.first() if self.parked.pod_of else None
        if first is None or (parked is not None and parked.arrived < first.arrived):
            return parked
        return first

    def _first_by_arrival(self) -> Ticket | None:
        """Return the next ticket of the queue in order of arrival, or None."""
        return self._requeued[0] if self._requeued else next(iter(self._arrivals), None)

    def _oldest_of(self, ranked: RankedQueue, first: Ticket | None) -> Ticket | None:
        """Return the older one of ``first`` and the oldest ticket by class and flow."""
        other = ranked.oldest()
        if first is None or other is None:
            return other or first
        if other.arrived == first.arrived:
            return other if self._ranked_first else first
        return other if other.arrived < first.arrived else first

    def ahead_of(self, ticket: Ticket) -> int:
        """Return about how many queued requests get a pod before a new one.

        Requests that wait for one pod do not count: they leave all other pods to the new one.
        """
        if self.order is None or self.ranked is None:
            return self.unparked
        return self.unparked - self.ranked.waiting + self.ranked.ahead_of(ticket)

    def _count(self, depth: int, size: int) -> None:
        self.waiting += depth
        if self.waiting > self.peak:
            self.peak = self.waiting
        own, total = self.own, self.total
        own.depth += depth
        own.bytes += size
        total.depth += depth
        total.bytes += size


# The deadlines of queued tickets: a heap whose obsolete entries cost almost nothing.
#
# A ticket that leaves the queue stays in the heap, since a search would cost O(tickets). Its
# entry is removed when it reaches the top, or when obsolete entries outnumber the others.

#: Below this many entries the heap is never rebuilt.
_SMALL: Final = 64


class Deadlines:
    """The deadlines of all queued tickets, and the armed slow starts.

    ``add`` is O(1) if time-outs are equal, since a later deadline stays at the heap's end, and
    O(log n) at worst. The tickets that left since the last rebuild pay for the next one.

    Attributes:
        slow_starts: the armed slow starts of all revisions; each adds and removes itself.
    """

    def __init__(self) -> None:
        self.slow_starts: set[SlowStart] = set()
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

    def next_due(self) -> float | None:
        """Return the earliest deadline or slow start, seconds on the caller's clock, or None."""
        due = self.next()
        for each in self.slow_starts:  # twice for each queued request, so without a list
            at = each.at
            if at is not None and (due is None or at < due):
                due = at
        return due

    def passed(self, now: float) -> Iterator[Ticket]:
        """Remove and yield each queued ticket whose deadline has come; the caller ends it."""
        while (deadline := self.next()) is not None and deadline <= now:
            yield heappop(self._heap)[2]

    def __len__(self) -> int:
        return len(self._heap)


@final
class Queue:
    """The queue of one revision, with its deadlines, forecast and slow start.

    Arguments:
        config: the settings in force for the revision.
        backends: its pods and its Service; slots: the slots of its pods.
        queued: the bounded queue.
        deadlines: the deadlines of queued tickets, and the slow starts, of all revisions.
        shed_early: whether to refuse a request at once if the expected wait exceeds its deadline.

    Attributes:
        queued: the bounded queue.
        forecast: the recent starts and turnovers.
        slow_start: schedules the next raise of limits.
    """

    def __init__(
        self,
        config: RevisionConfig,
        backends: Backends,
        slots: Slots,
        queued: QueuedTickets,
        deadlines: Deadlines,
        shed_early: bool,
    ) -> None:
        self._config = config
        self._backends = backends
        self._slots = slots
        self.queued = queued
        self.forecast = Forecast()
        self.slow_start = SlowStart(config.revision.id, deadlines.slow_starts)
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
                self.forecast.check(ticket, self._demand(self.queued.ahead_of(ticket)), now)
            self.queued.append(ticket)
        except ActivatorError:
            ticket.state = REJECTED
            raise
        self._note_queued(ticket, now)
        self._arm(now)

    def park(self, ticket: Ticket, pod: PodTracker, now: float) -> None:
        """Queue a new sticky request whose own pod is full while another has a free slot.

        Raises:
            RequestQueueFull, FlowFull: the queue has reached a limit; the ticket has ended.
        """
        try:
            self.queued.check(ticket)
        except ActivatorError:
            ticket.state = REJECTED
            raise
        self._park(ticket, pod, now)
        self._note_queued(ticket, now)
        self._arm(now)

    def _park(self, ticket: Ticket, pod: PodTracker, now: float) -> None:
        holder = self._slots.holder
        assert holder is not None
        self.queued.park(ticket, pod, now)
        holder.counts.waited += 1

    def restore(self, ticket: Ticket, now: float) -> None:
        """Requeue a request that its pod failed; it precedes all later arrivals of its class."""
        self.queued.restore(ticket, now)
        self._note_queued(ticket, now)

    def _note_queued(self, ticket: Ticket, now: float) -> None:
        ticket.state = QUEUED
        self._deadlines.add(ticket, self.queued.total.depth)
        if self.queued.waiting == 1:
            self.forecast.queue_began(now, listed=self._backends.listed)

    def cancel(self, ticket: Ticket, now: float) -> None:
        """End a queued request whose client has left."""
        self.end(ticket, CANCELLED, now)
        self._deadlines.trim(self.queued.total.depth)

    def end(self, ticket: Ticket, state: TicketState, now: float) -> None:
        """End a queued request in the given final state."""
        self.queued.discard(ticket)
        ticket.state = state
        if not self.queued.waiting:
            self.forecast.queue_emptied(now)

    # -- assignment -----------------------------------------------------------------------------

    def dispatch(self, changes: Changes, now: float, freed: PodTracker | None = None) -> Changes:
        """Assign queued requests, in order, to the pods with a free slot; return ``changes``.

        Arguments:
            freed: the only pod that may have got a free slot; None if several may have.
        """
        queued, slots = self.queued, self._slots
        if queued.parked.pod_of:
            self._dispatch_parked(changes, now, freed)
        # The cheapest tests first: most calls assign one request.
        while queued.waiting:
            free_pods = slots.own_free if slots.own_free.summary else slots.borrowable
            if not free_pods.summary or not queued.unparked:
                break
            self._assign_next(free_pods, changes, now)
        self._deadlines.trim(queued.total.depth)
        self._arm(now)
        return changes

    def _assign_next(self, free_pods: FreePods, changes: Changes, now: float) -> None:
        """Assign the next request to one of ``free_pods``, or let it wait for its own pod."""
        slots = self._slots
        ticket = self.queued.popleft(now)
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
        slots, queued = self._slots, self.queued
        if freed is None:
            queued.unpark(now, everything=slots.holder is None)
        for pod in queued.parked.pods() if freed is None else (freed,):
            while slots.has_free_slot(pod) and queued.parked.has(pod):
                ticket = queued.pop_parked(pod, now)
                if ticket is None:
                    self._assign_next(slots.free_pods, changes, now)
                    continue
                slots.assign(ticket, slots.free_pods, now, pod)
                changes.assigned.append(ticket)

    def _arm(self, now: float) -> None:
        """Schedule slow start while requests are queued for pods whose limit may rise."""
        slots = self._slots
        if not (slots.pods and self.queued.waiting):
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
        return self.forecast.expected_wait(self._demand(self.queued.waiting), now)

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
