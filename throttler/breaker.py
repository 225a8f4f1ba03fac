"""The bounded queue of a revision: first in, first out; each operation O(1).

Decides which request is next and whether one more may be queued. Knows no pods and no clock.
Knative's counterpart: pkg/queue/breaker.go. Its limit cannot be reached, and its new requests
overtake queued ones.
"""

from __future__ import annotations

from bisect import insort
from collections import OrderedDict
from operator import attrgetter

from throttler.budget import Budget, SharedBudget
from throttler.errors import RequestQueueFull
from throttler.ticket import Ticket

_by_arrival = attrgetter("arrived")


class Breaker:
    """The queued tickets of one revision.

    Arguments:
        own: this revision's budget; total: the budget of all revisions, shared by their queues.

    Attributes:
        waiting: number of queued requests; peak: the maximum since the last reset.
    """

    __slots__ = ("_arrivals", "_requeued", "own", "peak", "total", "waiting")

    def __init__(self, own: Budget, total: SharedBudget) -> None:
        self.own = own
        self.total = total
        self.waiting = self.peak = 0
        self._arrivals: OrderedDict[Ticket, None] = OrderedDict()
        # Tickets that a pod failed, oldest first: they precede all arrivals. There are never more
        # than requests in flight.
        self._requeued: list[Ticket] = []

    def append(self, ticket: Ticket) -> None:
        """Queue one more request.

        Raises:
            RequestQueueFull: a limit is reached; nothing has changed.
        """
        if limit := self._exceeded_limit(ticket.size):
            raise RequestQueueFull(limit)
        self._arrivals[ticket] = None
        self._count(1, ticket.size)

    def _exceeded_limit(self, size: int) -> str:
        if broken := self.own.exceeded_by(size):
            return f"revision-{broken}"
        if broken := self.total.exceeded_for(self.own, size):
            return f"total-{broken}"
        return ""

    def restore(self, ticket: Ticket) -> None:
        """Requeue a ticket that was admitted before, at the front, in order of arrival.

        Never refused: the ticket was within the limits when it arrived.
        """
        insort(self._requeued, ticket, key=_by_arrival)
        self._count(1, ticket.size)

    def popleft(self) -> Ticket:
        """Remove and return the oldest request. The caller has checked that there is one."""
        ticket = self._requeued.pop(0) if self._requeued else self._arrivals.popitem(last=False)[0]
        self._count(-1, -ticket.size)
        return ticket

    def discard(self, ticket: Ticket) -> None:
        """Remove a queued request at any position. The caller has checked that it is queued."""
        if ticket in self._arrivals:
            del self._arrivals[ticket]
        else:
            self._requeued.remove(ticket)
        self._count(-1, -ticket.size)

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
        ticket.size += size
        self._count(0, size)
        return True

    def oldest(self) -> Ticket | None:
        """Return the next ticket, or None."""
        if self._requeued:
            return self._requeued[0]
        return next(iter(self._arrivals), None)

    def _count(self, depth: int, size: int) -> None:
        self.waiting += depth
        if self.waiting > self.peak:
            self.peak = self.waiting
        for budget in (self.own, self.total):
            budget.depth += depth
            budget.bytes += size
