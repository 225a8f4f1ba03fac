"""Sticky requests that wait for one pod, while other pods may have a free slot.

A request leaves the queue for this place when it has its turn. So it precedes all requests of its
class, and of lower ones, that are still queued. The requests that wait for one pod have the order
of the queue: by class and flow. A request whose former pod was lost precedes the others of its
class. Each operation is O(1), except that a rise costs O(log n), and that the loss of pods costs
O(n). Knows no policy and no clock.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import final

from throttler.pod import PodTracker
from throttler.queue_counts import QueueCounts
from throttler.ranked_queue import RankedQueue
from throttler.ticket import KEEPS_PLACE, Ticket


@final
class Parked:
    """The requests that wait for their own pod.

    Arguments:
        counts: of all queues of the revision.
    """

    __slots__ = ("_by_pod", "_counts", "_pod_of")

    def __init__(self, counts: QueueCounts) -> None:
        self._counts = counts
        self._by_pod: dict[PodTracker, RankedQueue] = {}
        self._pod_of: OrderedDict[Ticket, PodTracker] = OrderedDict()

    def add(self, ticket: Ticket, pod: PodTracker, now: float) -> None:
        """Add a request that waits for a pod.

        Arguments:
            now: seconds on the clock of the tickets.
        """
        self._pod_of[ticket] = pod
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
        del self._pod_of[ticket]
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
        pod = self._pod_of.pop(ticket)
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
        return self._take(list(self._pod_of))

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
        return next(iter(self._pod_of), None)

    def __contains__(self, ticket: Ticket) -> bool:
        return ticket in self._pod_of

    def tickets(self) -> list[Ticket]:
        """Return all requests, in no particular order; O(n)."""
        return list(self._pod_of)

    def __len__(self) -> int:
        return len(self._pod_of)
