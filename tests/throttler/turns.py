"""Whose turn it is: which of the queued requests may get the next free slot.

The record computes class and flow of each request by itself. It predicts no choice: it states which
choices classes, ageing, flows and the order of arrival allow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from operator import attrgetter

from throttler.model import QueueOrder, RevisionConfig
from throttler.pod import PodTracker
from throttler.rendezvous import Sticky
from throttler.revision import RevisionThrottler
from throttler.ticket import ASSIGNED, QUEUED, Ticket

#: Class and flow in the queue, or among the requests that wait for one pod.
_Place = tuple[RevisionConfig, int, bytes, PodTracker | None]


_arrival = attrgetter("arrived")


class Turns:
    """The order under which each queued ticket was queued, and the turns of the flows.

    Arguments:
        been: counts where a walk has been.
    """

    def __init__(self, been: Counter[str]) -> None:
        self._been = been
        self._orders: dict[Ticket, QueueOrder | None] = {}
        self._requeued: set[Ticket] = set()
        # A request that was queued with classes once keeps its class and its age.
        self._ages: set[Ticket] = set()
        # The requests that wait for one pod, or did so until this step.
        self._parked: dict[Ticket, PodTracker] = {}
        # The turns that other flows had since a flow had one, by class and flow.
        self._turns: dict[_Place, Counter[bytes]] = {}

    def queue(self, ticket: Ticket, order: QueueOrder | None) -> None:
        """Record the order that a new ticket was queued under."""
        self._orders[ticket] = order
        if order is not None and order.has_classes:
            self._ages.add(ticket)

    def requeue(self, ticket: Ticket, order: QueueOrder | None) -> None:
        """Record that a pod failed a ticket; it may not have been queued before."""
        self.queue(ticket, order)
        self._requeued.add(ticket)

    def look(self, real: RevisionThrottler) -> None:
        """Record which requests wait for one pod; one that does so no more keeps its place."""
        parked, order = real.queued.parked.pod_of, real.queued.order
        for ticket, pod in [*self._parked.items()]:
            if ticket.config is not real.config or parked.get(ticket) is pod:
                continue
            lost = pod.free_pods is None or real.slots.holder is None
            if ticket.state is QUEUED or (ticket.state is ASSIGNED and lost):
                self.requeue(ticket, order)
            if lost or ticket.state is not ASSIGNED:
                del self._parked[ticket]
        for ticket, pod in parked.items():
            self._parked[ticket] = pod

    def rank(self, ticket: Ticket, now: float) -> int:
        """Return the class in which a ticket waits: half of its time-out is worth a class."""
        if ticket not in self._ages:
            return ticket.priority
        age = (now - ticket.arrived) / (ticket.deadline - ticket.arrived)
        # The walk takes these times themselves, so the quotient is compared with some tolerance.
        return max(ticket.priority - (age >= 0.5 - 1e-9) - (age >= 0.75 - 1e-9), 0)

    def check(self, ticket: Ticket, waiting: list[Ticket], now: float) -> None:
        """Check that a ticket may be the next, of all that wait for its revision by arrival."""
        if self._orders[waiting[0]] is None:
            assert ticket is waiting[0], f"{ticket} overtakes {waiting}"
            self._been["by arrival"] += len(waiting) > 1
            self._requeued.discard(ticket)
            return
        ranked = [one for one in waiting if self._orders[one] is not None]
        assert ticket in ranked, "a request overtakes those that were queued before a change"
        ranks = {one: self.rank(one, now) for one in ranked}
        rank = ranks[ticket]
        assert rank == min(ranks.values()), "a request of a higher class waits"
        self._been["by class"] += ticket is not waiting[0] and rank < ranks[waiting[0]]
        self._been["aged"] += rank < ticket.priority
        peers = [one for one in ranked if ranks[one] == rank]
        if requeued := [one for one in peers if one in self._requeued]:
            assert ticket is requeued[0], "a request that lost its pod lost its place"
            self._been["kept its place"] += len(peers) > 1
        else:
            self._check_flow(ticket, peers, rank)
        self._requeued.discard(ticket)

    def check_at_pod(
        self, ticket: Ticket, waiting: list[Ticket], holder: Sticky, now: float
    ) -> None:
        """Check that a ticket may be the next at its pod, while requests wait for one pod.

        Arguments:
            waiting: all that wait for its revision, by arrival.
            holder: the policy that lets them wait.
        """
        pod, before = ticket.pod, self._parked.pop(ticket, None)
        was_parked = before is not None and before is pod
        rivals = [
            one
            for one in waiting
            if one is not ticket and (self._parked.get(one) or holder.home(one)) in (None, pod)
        ]
        queued = [one for one in waiting if one not in self._parked]
        rank = self.rank(ticket, now)
        if all(self._orders[one] is not None for one in queued):
            ranks = [self.rank(one, now) for one in rivals]
            assert rank <= min(ranks, default=rank), "a request of a higher class waits"
            self._been["parked by class"] += was_parked and rank < max(ranks, default=rank)
            aged = was_parked and rank < ticket.priority
            self._been["parked and aged"] += aged
        for one in rivals:
            if one.arrived < ticket.arrived and self._is_alike(one, ticket):
                kept = self._requeued & {one, ticket}
                assert (one in kept and was_parked) or kept == {ticket}, f"overtakes {one}"
        if was_parked:
            peers = [one for one in rivals if self._parked.get(one) is pod]
            peers = [one for one in peers if self.rank(one, now) == rank]
            if first := [one for one in (ticket, *peers) if one in self._requeued]:
                assert ticket is min(first, key=_arrival), "a request that lost its pod overtaken"
                self._been["parked again"] += len(peers) > 0
            else:
                self._check_flow(ticket, peers, rank, pod)
        self._requeued.discard(ticket)

    def _is_alike(self, one: Ticket, other: Ticket) -> bool:
        """Return whether only their arrival decides which of two tickets goes first."""
        return (
            (one.flow, one.priority, one in self._ages)
            == (other.flow, other.priority, other in self._ages)
            and abs(one.deadline - one.arrived - other.deadline + other.arrived) < 1e-9
            and (self._orders[one] is None) is (self._orders[other] is None)
        )

    def _check_flow(
        self, ticket: Ticket, peers: list[Ticket], rank: int, pod: PodTracker | None = None
    ) -> None:
        """First in, first out inside a flow; no flow has two turns while another has none."""
        for one in peers:
            if one.flow == ticket.flow and one.arrived < ticket.arrived:
                assert one.priority != rank or ticket.priority != rank
                assert one.deadline - one.arrived != ticket.deadline - ticket.arrived
        assert ticket.config is not None
        for flow in {one.flow for one in peers} - {ticket.flow}:
            turns = self._turns.setdefault((ticket.config, rank, flow, pod), Counter())
            turns[ticket.flow] += 1
            assert turns[ticket.flow] <= 2, f"{ticket.flow!r} has turns and {flow!r} has none"
            self._been["in turn" if pod is None else "parked in turn"] += 1
        self._turns.pop((ticket.config, rank, ticket.flow, pod), None)

    def forget(self, queued: Iterable[Ticket], now: float) -> None:
        """Remove the turns of flows that have no request any more."""
        there = {
            (one.config, self.rank(one, now), one.flow, self._parked.get(one))
            for one in queued
            if one not in self._requeued
        }
        for place in [place for place in self._turns if place not in there]:
            del self._turns[place]
