"""The bounded queue in front of a revision: first in, first out; each operation O(1).

Decides who is next and whether one more may wait. Knows no pod and no clock. Knative's
counterpart: pkg/queue/breaker.go, whose bound cannot be reached and whose newcomers overtake.
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
        own: this revision's budget; total: that of all revisions, shared by their breakers.

    Attributes:
        waiting: how many wait; peak: the most that did at a time, since it was last set back.
    """

    __slots__ = ("_arrivals", "_requeued", "own", "peak", "total", "waiting")

    def __init__(self, own: Budget, total: SharedBudget) -> None:
        self.own = own
        self.total = total
        self.waiting = self.peak = 0
        self._arrivals: OrderedDict[Ticket, None] = OrderedDict()
        # Tickets that had a pod and lost it, oldest first: they precede all arrivals. Never more
        # than the requests that pods have at a time.
        self._requeued: list[Ticket] = []

    def append(self, ticket: Ticket) -> None:
        """Take one more waiter.

        Raises:
            RequestQueueFull: a bound is reached; nothing has changed.
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
        """Take back a ticket that was admitted before; to the front, in order of arrival.

        It is never refused: its place was granted when it arrived.
        """
        insort(self._requeued, ticket, key=_by_arrival)
        self._count(1, ticket.size)

    def popleft(self) -> Ticket:
        """Remove and return the oldest waiter. The caller has checked that there is one."""
        ticket = self._requeued.pop(0) if self._requeued else self._arrivals.popitem(last=False)[0]
        self._count(-1, -ticket.size)
        return ticket

    def discard(self, ticket: Ticket) -> None:
        """Remove a waiter, wherever it stands."""
        if ticket in self._arrivals:
            del self._arrivals[ticket]
        else:
            self._requeued.remove(ticket)
        self._count(-1, -ticket.size)

    def reserve_bytes(self, ticket: Ticket, size: int) -> bool:
        """Ask to keep ``size`` more bytes of a waiting request; counts them if granted.

        Returns:
            False if a byte budget is used up: the caller stops reading that request until it
            has a pod.
        """
        if not (self.own.fits(size) and self.total.fits_for(self.own, size)):
            return False
        ticket.size += size
        self._count(0, size)
        return True

    def oldest(self) -> Ticket | None:
        """Return the ticket that is next, or None."""
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
