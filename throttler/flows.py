"""The queued requests of one class: deficit round robin over their flows; each operation O(1).

A flow has the requests of one tenant. The flows take turns in rounds. Each request costs its flow
one turn, and more if it is large. A new flow still has its turn in the current round. So a tenant
with few requests does not wait for one with many. Source: M. Shreedhar and G. Varghese, "Efficient
Fair Queuing Using Deficit Round Robin", SIGCOMM 1995. Here a flow may go into debt for a large
request. So a flow without debt always has a request served in its turn.
"""

from __future__ import annotations

from bisect import insort
from collections import OrderedDict
from collections.abc import Mapping
from operator import attrgetter
from typing import Final, final

from throttler.priority import NAMES
from throttler.ticket import Ticket

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
class Flow:
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

    __slots__ = ("_joins", "_later", "_requeued", "_round", "_shared", "flows", "waiting")

    def __init__(self, shared: Mapping[bytes, bytes] | None = None) -> None:
        self.waiting = self.flows = 0
        self._shared = {} if shared is None else shared
        # The flows that have a turn in this round, and in the next one. The next flow comes first.
        self._round: OrderedDict[bytes, Flow] = OrderedDict()
        self._later: OrderedDict[bytes, Flow] = OrderedDict()
        self._joins = LEAST_JOINS  # so many new flows may still join this round
        # Requests that a pod failed, oldest first. They have had their turn, and precede all flows.
        # There are never more of them than requests in flight.
        self._requeued: list[Ticket] = []

    def append(self, ticket: Ticket) -> None:
        """Add a request at the end of its flow; a new flow is the last of the round."""
        key = self._shared.get(ticket.flow, ticket.flow)
        flow = self._round.get(key) or self._later.get(key) or self._join(key)
        if not flow.waiting:
            self.flows += 1
        flow.append(ticket)
        self.waiting += 1

    def _join(self, key: bytes) -> Flow:
        """Add a new flow to this round; to the next one if many have joined."""
        flow = Flow()
        if self._joins:
            self._joins -= 1
            self._round[key] = flow
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

    def _next(self) -> Flow:
        """Return the flow whose turn it is, and move it to the next round."""
        while True:
            if not self._round:
                self._round, self._later = self._later, self._round
                self._joins = LEAST_JOINS + self.flows // FLOWS_PER_JOIN
            key, flow = self._round.popitem(last=False)
            flow.credit += 1  # no flow in a round has a turn left over
            if flow.waiting or flow.credit <= 0:
                self._later[key] = flow
            if flow.waiting and flow.credit > 0:
                return flow

    def _begin_again(self) -> None:
        """Remove all flows with their turns and debts, because none has a request."""
        self._round.clear()
        self._later.clear()
        self._joins = LEAST_JOINS

    def discard(self, ticket: Ticket) -> bool:
        """Remove a request at any position.

        Returns:
            Whether its pod failed it before, so that it preceded the flows.
        """
        self.waiting -= 1
        key = self._shared.get(ticket.flow, ticket.flow)
        flow = self._round.get(key) or self._later.get(key)
        if flow is None or not flow.discard(ticket):
            self._requeued.remove(ticket)
            return True
        if not flow.waiting:
            self.flows -= 1
            if not self.flows:
                self._begin_again()
            elif not flow.had_turn:
                self._round.pop(key, None)
                self._later.pop(key, None)
        return False

    def oldest_requeued(self) -> Ticket | None:
        """Return the oldest request that its pod failed, or None."""
        return self._requeued[0] if self._requeued else None
