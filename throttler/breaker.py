"""The bounded queue of a revision: by arrival, or by class and flow; operations are O(1)."""

from __future__ import annotations

from bisect import insort
from collections import OrderedDict
from collections.abc import Iterable
from operator import attrgetter
from typing import Final, final

from throttler.errors import FlowFull, RequestQueueFull
from throttler.model import QueueOrder
from throttler.pod import PodTracker
from throttler.ranked_queue import QueueCounts, RankedQueue
from throttler.request_policies import HIGH, share_of
from throttler.ticket import KEEPS_PLACE, Ticket

# The limits of queued requests and bytes: of one revision, and of all revisions, shared fairly.
#
# Counts the use and decides whether one more fits; knows neither queue nor tickets. Knative has
# no counterpart: its queues are unbounded.

#: One part in so many of the shared budget is reserved for revisions that use little of it.
RESERVED: Final = 4
#: The reserve is enough for so many revisions that queue at the same time. With the default limits
#: each may use 390 requests and 1 MiB of it.
RESERVED_FOR = 64


class QueueBudget:
    """A limit of queued requests and of their buffered bytes, with their current use.

    Attributes:
        depth: queued requests; max_depth: their limit.
        bytes: buffered bytes; max_bytes: their limit.
    """

    __slots__ = ("bytes", "depth", "max_bytes", "max_depth")

    def __init__(self, max_depth: int, max_bytes: int) -> None:
        self.max_depth = max_depth
        self.max_bytes = max_bytes
        self.depth = 0
        self.bytes = 0

    def exceeded_by(self, size: int) -> str | None:
        """Return the limit that one more request exceeds: depth, bytes or None."""
        if self.depth >= self.max_depth:
            return "depth"
        return None if self.fits(size) else "bytes"

    def fits(self, size: int) -> bool:
        """Return whether ``size`` more bytes are within the limit."""
        return self.bytes + size <= self.max_bytes


class SharedBudget(QueueBudget):
    """The budget of all revisions together; none can use it up alone.

    A revision above its small part of the reserve (``_reserve``) may use only the open part of the
    budget. So the reserve stays for revisions that use little. Such a revision is refused only if
    more than RESERVED_FOR revisions use their parts at the same time. The total never exceeds the
    limit, except for requeued requests, see Breaker.restore.
    """

    __slots__ = ()

    def exceeded_for(self, own: QueueBudget, size: int) -> str | None:
        """Return the limit that one more request of a revision with ``own`` exceeds; O(1)."""
        if self.depth >= self.max_depth - _reserve(self.max_depth, own.depth + 1):
            return "depth"
        return None if self.fits_for(own, size) else "bytes"

    def fits_for(self, own: QueueBudget, size: int) -> bool:
        """Return whether ``size`` more bytes of a revision with ``own`` fit; O(1)."""
        return self.bytes + size <= self.max_bytes - _reserve(self.max_bytes, own.bytes + size)


def _reserve(limit: int, would_use: int) -> int:
    """Return the part of the limit that is reserved for revisions that use less than this one.

    Arguments:
        would_use: use of this revision after the addition.
    """
    reserve = limit // RESERVED
    return reserve if would_use > max(reserve // RESERVED_FOR, 1) else 0


# Sticky requests that wait for one pod, while other pods may have a free slot.
#
# A request leaves the queue for this place when it has its turn. So it precedes all requests of
# its class, and of lower ones, that are still queued. The requests that wait for one pod have the
# order of the queue: by class and flow. A request whose former pod was lost precedes the others
# of its class. Each operation is O(1), except that a rise costs O(log n), and that the loss of
# pods costs O(n). Knows no policy and no clock.


@final
class Parked:
    """The requests that wait for their own pod.

    Arguments:
        counts: of all queues of the revision.
    """

    __slots__ = ("_by_pod", "_counts", "pod_of")

    def __init__(self, counts: QueueCounts) -> None:
        self._counts = counts
        self._by_pod: dict[PodTracker, RankedQueue] = {}
        self.pod_of: OrderedDict[Ticket, PodTracker] = OrderedDict()

    def add(self, ticket: Ticket, pod: PodTracker, now: float) -> None:
        """Add a request that waits for a pod.

        Arguments:
            now: seconds on the clock of the tickets.
        """
        self.pod_of[ticket] = pod
        waiting = self._by_pod.get(pod)
        if waiting is None:
            waiting = self._by_pod[pod] = RankedQueue(self._counts)
        if ticket.rank == KEEPS_PLACE:
            waiting.restore(ticket, now)
        else:
            waiting.append(ticket)

    def pop(self, pod: PodTracker, now: float) -> Ticket:
        """Remove and return the next request that waits for a pod; there must be one.

        Arguments:
            now: seconds on the clock of the tickets.
        """
        waiting = self._by_pod[pod]
        ticket = waiting.popleft(now)
        del self.pod_of[ticket]
        if not waiting.waiting:
            del self._by_pod[pod]
        return ticket

    def top(self, pod: PodTracker, now: float) -> int:
        """Return the class of the next request that waits for a pod; there must be one.

        Arguments:
            now: seconds on the clock of the tickets.
        """
        return self._by_pod[pod].top(now)

    def discard(self, ticket: Ticket) -> None:
        """Remove a request. The caller has checked that it is here."""
        pod = self.pod_of.pop(ticket)
        waiting = self._by_pod[pod]
        waiting.discard(ticket)
        if not waiting.waiting:
            del self._by_pod[pod]

    def take_lost(self) -> list[Ticket]:
        """Remove and return the requests whose pod gets no requests any more; O(pods here)."""
        lost = [pod for pod in self._by_pod if pod.free_pods is None]
        return self._take([ticket for pod in lost for ticket in self._by_pod[pod].tickets()])

    def take_all(self) -> list[Ticket]:
        """Remove and return all requests, because the policy has changed."""
        return self._take(list(self.pod_of))

    def _take(self, tickets: list[Ticket]) -> list[Ticket]:
        for ticket in tickets:
            self.discard(ticket)
        return tickets

    def pods(self) -> Iterable[PodTracker]:
        """Return the pods that requests wait for."""
        return tuple(self._by_pod)

    def has(self, pod: PodTracker) -> bool:
        """Return whether a request waits for a pod."""
        return pod in self._by_pod

    def first(self) -> Ticket | None:
        """Return the request that has been here for the longest time; None without one."""
        return next(iter(self.pod_of), None)

    def __contains__(self, ticket: Ticket) -> bool:
        return ticket in self.pod_of

    def tickets(self) -> list[Ticket]:
        """Return all requests, in no particular order; O(n)."""
        return list(self.pod_of)

    def __len__(self) -> int:
        return len(self.pod_of)


# The bounded queue of a revision: first in, first out, or by class and flow; operations are O(1).
#
# Decides which request is next and whether one more may be queued. Knows no policy and no clock.
# Knative's counterpart: pkg/queue/breaker.go. Its limit cannot be reached, and its new requests
# overtake queued ones.

_by_arrival = attrgetter("arrived")


class Breaker:
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

    __slots__ = (
        "_arrivals",
        "_ranked_first",
        "_requeued",
        "counts",
        "order",
        "own",
        "parked",
        "peak",
        "ranked",
        "total",
        "waiting",
    )

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
        return self.waiting - len(self.parked)

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
        parked = self.parked.first()
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
