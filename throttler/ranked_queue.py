"""The queue of a revision with classes or flows: strict between classes, fair between flows.

The highest class with a request goes first. A request rises with age, so none starves. Inside a
class, the flows take turns. Each operation costs O(1), except that the heap
of ages costs O(log n) at worst. Knows no pods and no clock. Knative has no counterpart. Kubernetes
has API Priority and Fairness, which gives each level seats of its own instead of ageing.
"""

from __future__ import annotations

from bisect import insort
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from heapq import heapify, heappop, heappush, nsmallest
from math import inf
from operator import attrgetter
from typing import Final, final

from throttler.pod import PodTracker
from throttler.request_policies import HIGH, NAMES, rank_at, rises_at
from throttler.ticket import KEEPS_PLACE, UNRANKED, Ticket

# The queued requests of a revision by class and by flow, and how many one flow may have.
#
# The queue and the requests that wait for one pod share these counts: a limit holds for both
# together.

#: The number of flows with a queue of their own. Further flows share as many queues, by a hash.
MOST_FLOWS: Final = 512
#: One flow may have this many queued requests, or FAIR_SHARES fair shares if that is more.
LEAST_OF_FLOW = 10
FAIR_SHARES: Final = 2
#: One tenth of the queue is reserved for flows with fewer requests than LEAST_OF_FLOW.
RESERVED = 10


@final
class QueueCounts:
    """Counts of the requests that are queued by class and flow.

    Attributes:
        by_priority: number of queued requests by the class in which they arrived.
        flows: number of queued requests by flow.
        shared: the shared queue of each flow that has no queue of its own.
    """

    __slots__ = ("_served", "by_priority", "flows", "shared")

    def __init__(self) -> None:
        self.by_priority = [0] * len(NAMES)
        self.flows: dict[bytes, int] = {}
        self.shared: dict[bytes, bytes] = {}
        # By class: the arrival of the latest request that was popped.
        self._served = [-inf] * len(NAMES)

    # -- one request ----------------------------------------------------------------------------

    def enter(self, ticket: Ticket) -> None:
        """Count a ticket that is queued now; a new flow gets a queue, if necessary a shared one.

        Flows beyond MOST_FLOWS share queues by Python's hash, which no client can predict.
        """
        self.by_priority[ticket.priority] += 1
        flow = ticket.flow
        held = self.flows.get(flow, 0)
        if not held and len(self.flows) - len(self.shared) >= MOST_FLOWS:
            # No field of HTTP has a zero byte, so no flow has such a name.
            self.shared[flow] = b"\0%d" % (hash(flow) % MOST_FLOWS)
        self.flows[flow] = held + 1

    def leave(self, ticket: Ticket) -> None:
        """Count a ticket no more."""
        self.by_priority[ticket.priority] -= 1
        flow = ticket.flow
        held = self.flows[flow] - 1
        if held:
            self.flows[flow] = held
        else:
            del self.flows[flow]
            self.shared.pop(flow, None)

    def served(self, ticket: Ticket) -> None:
        """Record that it was the turn of a ticket."""
        if ticket.arrived > self._served[ticket.priority]:
            self._served[ticket.priority] = ticket.arrived

    # -- views ----------------------------------------------------------------------------------

    def is_full(self, flow: bytes, depth: int, waiting: int) -> bool:
        """Return whether a flow may have no further request in the queue.

        Arguments:
            flow: of a new ticket. Flows with a shared queue are counted one by one, too.
            depth: limit of queued requests of the revision; waiting: their number.
        """
        held = self.flows.get(flow, 0)
        if held < LEAST_OF_FLOW:
            return False
        return held >= max(LEAST_OF_FLOW, FAIR_SHARES * depth // len(self.flows)) or (
            waiting >= depth - depth // RESERVED
        )

    def is_outranked(self, ticket: Ticket) -> bool:
        """Return whether it was the turn of a later request of a higher class before this one."""
        return any(arrived > ticket.arrived for arrived in self._served[: ticket.priority])

    def largest(self, count: int) -> Mapping[bytes, int]:
        """Return the flows with the most queued requests, most first; O(flows)."""
        return dict(nsmallest(count, self.flows.items(), key=lambda flow: (-flow[1], flow[0])))


# The queued requests of one class: deficit round robin over their flows; each operation O(1).
#
# A flow has the requests of one tenant. The flows take turns in rounds. Each request costs its
# flow one turn, and more if it is large. A new flow still has its turn in the current round. So a
# tenant with few requests does not wait for one with many. Source: M. Shreedhar and G. Varghese,
# "Efficient Fair Queuing Using Deficit Round Robin", SIGCOMM 1995. Here a flow may go into debt
# for a large request. So a flow without debt always has a request served in its turn.

#: A request costs one turn more for each of these bytes, and at most MOST_TURNS.
BYTES_PER_TURN: Final = 64 << 10
MOST_TURNS: Final = 4
#: LEAST_JOINS new flows may join a round, and one more for each FLOWS_PER_JOIN flows that have a
#: request when the round begins. Further new flows wait for the next round. So a client that
#: invents flows delays the others only a little.
LEAST_JOINS: Final = 16
FLOWS_PER_JOIN: Final = 4

_by_arrival = attrgetter("arrived")


def turns_of(size: int) -> int:
    """Return how many turns a request of ``size`` bytes costs its flow."""
    return min(1 + size // BYTES_PER_TURN, MOST_TURNS)


@final
class FairFlow:
    """The requests of one flow in one class.

    Attributes:
        credit: turns that the flow may use; 0 or negative while it owes turns.
        had_turn: whether it has had a turn. It is remembered until its next one, so that a tenant
            has no second turn in a round.
        waiting: number of requests.
    """

    __slots__ = ("_lanes", "credit", "had_turn", "waiting")

    def __init__(self) -> None:
        self.credit = 0
        self.had_turn = False
        self.waiting = 0
        # By the class in which the requests arrived. Each lane is in order of arrival if all
        # requests have the same time-out. Otherwise requests that rose are in the order of their
        # rises.
        self._lanes: list[OrderedDict[Ticket, None] | None] = [None] * len(NAMES)

    def append(self, ticket: Ticket) -> None:
        """Add a request behind the others that arrived in its class."""
        lane = self._lanes[ticket.priority]
        if lane is None:
            lane = self._lanes[ticket.priority] = OrderedDict()
        lane[ticket] = None
        self.waiting += 1

    def pop(self) -> Ticket:
        """Remove and return the request that arrived first. There must be one."""
        first: Ticket | None = None
        for lane in self._lanes:
            if lane:
                ticket = next(iter(lane))
                if first is None or ticket.arrived < first.arrived:
                    first = ticket
        assert first is not None
        self.discard(first)
        return first

    def discard(self, ticket: Ticket) -> bool:
        """Remove a request at any position; return False if the flow does not have it."""
        lane = self._lanes[ticket.priority]
        if lane is None or ticket not in lane:
            return False
        del lane[ticket]
        self.waiting -= 1
        return True


@final
class ClassQueue:
    """The requests that wait in one class.

    Arguments:
        shared: the shared queue of each flow that has no queue of its own; read only.

    Attributes:
        waiting: number of requests; flows: number of queues of flows with a request.
    """

    __slots__ = ("_joins", "_later", "_requeued", "_shared", "flows", "round", "waiting")

    def __init__(self, shared: Mapping[bytes, bytes] | None = None) -> None:
        self.waiting = self.flows = 0
        self._shared = {} if shared is None else shared
        # The flows that have a turn in this round, and in the next one. The next flow comes first.
        self.round: OrderedDict[bytes, FairFlow] = OrderedDict()
        self._later: OrderedDict[bytes, FairFlow] = OrderedDict()
        self._joins = LEAST_JOINS  # so many new flows may still join this round
        # Requests that a pod failed, oldest first. They have had their turn, and precede all flows.
        # There are never more of them than requests in flight.
        self._requeued: list[Ticket] = []

    def append(self, ticket: Ticket) -> None:
        """Add a request at the end of its flow; a new flow is the last of the round."""
        key = self._shared.get(ticket.flow, ticket.flow)
        flow = self.round.get(key) or self._later.get(key) or self._join(key)
        if not flow.waiting:
            self.flows += 1
        flow.append(ticket)
        self.waiting += 1

    def _join(self, key: bytes) -> FairFlow:
        """Add a new flow to this round; to the next one if many have joined."""
        flow = FairFlow()
        if self._joins:
            self._joins -= 1
            self.round[key] = flow
        else:
            self._later[key] = flow
        return flow

    def restore(self, ticket: Ticket) -> None:
        """Add a request that its pod failed: before all others, in order of arrival."""
        insort(self._requeued, ticket, key=_by_arrival)
        self.waiting += 1

    def pop(self) -> Ticket:
        """Remove and return the next request; there must be one.

        A visit of a flow serves a request, repays a turn, or removes an empty flow. So it costs
        O(1) on average over the requests that were served.
        """
        self.waiting -= 1
        if self._requeued:
            return self._requeued.pop(0)
        flow = self._next()
        ticket = flow.pop()
        flow.credit -= turns_of(ticket.size)
        flow.had_turn = True
        if not flow.waiting:
            self.flows -= 1
            if not self.flows:
                self._begin_again()
        return ticket

    def _next(self) -> FairFlow:
        """Return the flow whose turn it is, and move it to the next round."""
        while True:
            if not self.round:
                self.round, self._later = self._later, self.round
                self._joins = LEAST_JOINS + self.flows // FLOWS_PER_JOIN
            key, flow = self.round.popitem(last=False)
            flow.credit += 1  # no flow in a round has a turn left over
            if flow.waiting or flow.credit <= 0:
                self._later[key] = flow
            if flow.waiting and flow.credit > 0:
                return flow

    def _begin_again(self) -> None:
        """Remove all flows with their turns and debts, because none has a request."""
        self.round.clear()
        self._later.clear()
        self._joins = LEAST_JOINS

    def discard(self, ticket: Ticket) -> bool:
        """Remove a request at any position.

        Returns:
            Whether its pod failed it before, so that it preceded the flows.
        """
        self.waiting -= 1
        key = self._shared.get(ticket.flow, ticket.flow)
        flow = self.round.get(key) or self._later.get(key)
        if flow is None or not flow.discard(ticket):
            self._requeued.remove(ticket)
            return True
        if not flow.waiting:
            self.flows -= 1
            if not self.flows:
                self._begin_again()
            elif not flow.had_turn:
                self.round.pop(key, None)
                self._later.pop(key, None)
        return False

    def oldest_requeued(self) -> Ticket | None:
        """Return the oldest request that its pod failed, or None."""
        return self._requeued[0] if self._requeued else None


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

    __slots__ = ("_added", "_all", "_classes", "_counts", "_requeued", "rises", "waiting")

    def __init__(self, counts: QueueCounts) -> None:
        self.waiting = 0
        self._counts = counts
        self._classes = [ClassQueue(counts.shared) for _ in NAMES]
        # Every ticket: in the order in which they came here, and the requeued ones.
        self._all: OrderedDict[Ticket, None] = OrderedDict()
        self._requeued: set[Ticket] = set()
        # When tickets rise. The entries of tickets that have left are removed late.
        self.rises: list[tuple[float, int, Ticket]] = []
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
            heappush(self.rises, (at, self._added, ticket))
            if len(self.rises) > _SMALL + 2 * self.waiting:
                self._remove_void()

    def _remove_void(self) -> None:
        """Keep the earliest time at which each ticket rises, if it is still here; O(n log n)."""
        latest_first = sorted(self.rises, reverse=True)
        kept = {entry[2]: entry for entry in latest_first if self._may_rise(entry[2])}
        self.rises[:] = kept.values()
        heapify(self.rises)

    def _may_rise(self, ticket: Ticket) -> bool:
        """Return whether a ticket is here, below the highest class; another queue may have it."""
        return ticket.rank > HIGH and (ticket in self._all or ticket in self._requeued)

    def _rise(self, now: float) -> None:
        """Move the tickets that are old enough to a higher class; at most MOST_RISES."""
        rises = self.rises
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


# Sticky requests that wait for one pod, while other pods may have a free slot.
#
# A request leaves the queue for this place when it has its turn. So it precedes all requests of
# its class, and of lower ones, that are still queued. The requests that wait for one pod have the
# order of the queue: by class and flow. A request whose former pod was lost precedes the others
# of its class. Each operation is O(1), except that a rise costs O(log n), and that the loss of
# pods costs O(n).


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
