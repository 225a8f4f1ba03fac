"""The queue of a revision with classes or flows: strict between classes, fair between flows.

The highest class with a request goes first. A request rises with age, so none starves. Inside a
class, the flows take turns (``throttler.flows``). Each operation costs O(1), except that the heap
of ages costs O(log n) at worst. Knows no pods and no clock. Knative has no counterpart. Kubernetes
has API Priority and Fairness, which gives each level seats of its own instead of ageing.
"""

from __future__ import annotations

from collections import OrderedDict
from heapq import heapify, heappop, heappush
from typing import Final, final

from throttler.flows import ClassQueue
from throttler.priority import HIGH, NAMES, rank_at, rises_at
from throttler.queue_counts import QueueCounts
from throttler.ticket import KEEPS_PLACE, UNRANKED, Ticket

#: At most so many requests rise in one step, so that no step takes long.
MOST_RISES: Final = 32
#: Below this many entries the heap is never rebuilt.
_SMALL: Final = 64


@final
class RankedQueue:
    """Queued requests of one revision, by class and flow.

    Arguments:
        counts: of all queues of the revision.

    Attributes:
        waiting: number of queued requests.
    """

    __slots__ = ("_added", "_all", "_classes", "_counts", "_requeued", "_rises", "waiting")

    def __init__(self, counts: QueueCounts) -> None:
        self.waiting = 0
        self._counts = counts
        self._classes = [ClassQueue(counts.shared) for _ in NAMES]
        # Every ticket: in the order in which they came here, and the requeued ones.
        self._all: OrderedDict[Ticket, None] = OrderedDict()
        self._requeued: set[Ticket] = set()
        # When tickets rise. The entries of tickets that have left are removed late.
        self._rises: list[tuple[float, int, Ticket]] = []
        self._added = 0

    # -- entering and leaving -------------------------------------------------------------------

    def append(self, ticket: Ticket) -> None:
        """Queue one more request, which has its place."""
        self._all[ticket] = None
        self._enter(ticket, ticket.priority)
        self._classes[ticket.priority].append(ticket)
        if ticket.ages:
            self._schedule(ticket)

    def restore(self, ticket: Ticket, now: float) -> None:
        """Requeue a request that has had its turn: before all others of its class.

        Arguments:
            now: seconds on the clock of the tickets.
        """
        rank = ticket.priority
        if ticket.ages:
            rank = rank_at(rank, ticket.arrived, ticket.deadline, now)
        self._requeued.add(ticket)
        self._enter(ticket, rank)
        self._classes[rank].restore(ticket)
        if ticket.ages:
            self._schedule(ticket)

    def popleft(self, now: float) -> Ticket:
        """Remove and return the next request; there must be one.

        Arguments:
            now: seconds on the clock of the tickets.
        """
        ticket = self._classes[self.top(now)].pop()
        self._leave(ticket)
        self._counts.served(ticket)
        return ticket

    def top(self, now: float) -> int:
        """Return the class of the next request; there must be one.

        Arguments:
            now: seconds on the clock of the tickets.
        """
        self._rise(now)
        rank = HIGH
        while not self._classes[rank].waiting:
            rank += 1
        return rank

    def discard(self, ticket: Ticket) -> None:
        """Remove a queued request at any position."""
        self._classes[ticket.rank].discard(ticket)
        self._leave(ticket)

    def _enter(self, ticket: Ticket, rank: int) -> None:
        ticket.rank = rank
        self.waiting += 1
        self._counts.enter(ticket)

    def _leave(self, ticket: Ticket) -> None:
        if ticket in self._all:
            del self._all[ticket]
            ticket.rank = UNRANKED
        else:
            self._requeued.remove(ticket)
            ticket.rank = KEEPS_PLACE
        self.waiting -= 1
        self._counts.leave(ticket)

    # -- ageing ---------------------------------------------------------------------------------

    def _schedule(self, ticket: Ticket) -> None:
        """Add the time at which a ticket rises next."""
        step = ticket.priority - ticket.rank
        if ticket.rank > HIGH:
            self._added += 1
            at = rises_at(ticket.arrived, ticket.deadline, step)
            heappush(self._rises, (at, self._added, ticket))
            if len(self._rises) > _SMALL + 2 * self.waiting:
                self._remove_void()

    def _remove_void(self) -> None:
        """Keep the earliest time at which each ticket rises, if it is still here; O(n log n)."""
        latest_first = sorted(self._rises, reverse=True)
        kept = {entry[2]: entry for entry in latest_first if self._may_rise(entry[2])}
        self._rises[:] = kept.values()
        heapify(self._rises)

    def _may_rise(self, ticket: Ticket) -> bool:
        """Return whether a ticket is here, below the highest class; another queue may have it."""
        return ticket.rank > HIGH and (ticket in self._all or ticket in self._requeued)

    def _rise(self, now: float) -> None:
        """Move the tickets that are old enough to a higher class; at most MOST_RISES."""
        rises = self._rises
        for _ in range(MOST_RISES):
            if not rises or rises[0][0] > now:
                return
            ticket = heappop(rises)[2]
            rank = ticket.rank
            if not self._may_rise(ticket):  # it has left, or an earlier entry has moved it
                continue
            higher = rank_at(ticket.priority, ticket.arrived, ticket.deadline, now)
            if higher < rank:
                requeued = self._classes[rank].discard(ticket)
                ticket.rank = higher
                if requeued:
                    self._classes[higher].restore(ticket)
                else:
                    self._classes[higher].append(ticket)
            self._schedule(ticket)

    # -- views ----------------------------------------------------------------------------------

    def tickets(self) -> list[Ticket]:
        """Return all requests, in no particular order; O(n)."""
        return [*self._requeued, *self._all]

    def oldest(self) -> Ticket | None:
        """Return the ticket that arrived first, or None; it may not be the next one."""
        first = next(iter(self._all), None)
        for queue in self._classes:
            ticket = queue.oldest_requeued()
            if ticket is not None and (first is None or ticket.arrived < first.arrived):
                first = ticket
        return first

    def ahead_of(self, ticket: Ticket) -> int:
        """Return about how many requests precede a new one: higher classes, and its own class.

        In its class each flow has a turn for each request of the ticket's flow.
        """
        own = self._classes[ticket.priority]
        higher = sum([queue.waiting for queue in self._classes[: ticket.priority]])
        return higher + min(own.waiting, (self._counts.flows.get(ticket.flow, 0) + 1) * own.flows)
