"""The queued requests of a revision by class and by flow, and how many one flow may have.

The queue and the requests that wait for one pod share these counts: a limit holds for both
together. Knows no order, no pods and no clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from heapq import nsmallest
from math import inf
from typing import Final, final

from throttler.priority import NAMES
from throttler.ticket import Ticket

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
        return dict(nsmallest(count, self.flows.items(), key=_by_waiting))


def _by_waiting(flow: tuple[bytes, int]) -> tuple[int, bytes]:
    return -flow[1], flow[0]
