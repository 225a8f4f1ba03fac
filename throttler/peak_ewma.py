"""The policy ``ewma-latency``: of two random pods, the one that would respond sooner.

The cost of a pod is its peak EWMA of the time to the first byte, times its requests in flight and
the new one. A slow response raises the average at once; faster ones lower it over seconds. So a pod
that begins to stall loses its traffic with the first slow response. Knative has no counterpart.
Sources: Finagle, "Peak EWMA" (aperture load balancers); Linkerd's balancer.
"""

from __future__ import annotations

from collections.abc import Callable
from math import exp
from typing import Final, final

from throttler.free_pods import FreePods
from throttler.lb_policy import Policy
from throttler.pod import PodTracker
from throttler.ticket import FAILED, Outcome, Ticket

#: Seconds in which an average loses 63 % of a difference (Finagle: 10).
DECAY: Final = 10.0
#: A pod that failed a request counts as so slow, seconds. Otherwise a pod that fails at once would
#: look like the fastest, and get all requests.
FAILURE: Final = 1.0
#: The cost of a request in flight at a pod that has not responded yet. Such a pod gets one request
#: before any other, and then none until it has responded, if another pod is free.
_UNKNOWN: Final = 1e6


@final
class _Average:
    """The peak EWMA of one pod: ``value`` in seconds, as of ``at``."""

    __slots__ = ("at", "value")

    def __init__(self) -> None:
        self.value = 0.0
        self.at = 0.0

    def add(self, sample: float, now: float) -> None:
        """Add a time to the first byte, seconds."""
        value = self.value
        if value == 0.0 or sample > value:
            self.value = sample
        else:
            weight = exp((self.at - now) / DECAY)
            self.value = value * weight + sample * (1.0 - weight)
        self.at = now

    def cost(self, in_flight: int, now: float) -> float:
        """Return the cost of one more request.

        Arguments:
            in_flight: requests in flight at the pod.
            now: seconds. Without responses, an average falls, so that each pod gets a request now
                and then and shows whether it is still slow.
        """
        if self.value == 0.0:
            return _UNKNOWN * in_flight
        return self.value * exp((self.at - now) / DECAY) * (in_flight + 1)


@final
class PeakEwma(Policy):
    """The cheaper of two random pods, by peak EWMA; O(1).

    Arguments:
        random: returns random numbers in [0, 1).
    """

    __slots__ = ("_averages", "_now", "_random")

    def __init__(self, random: Callable[[], float]) -> None:
        super().__init__(follows=True)
        self._random = random
        self._averages: dict[PodTracker, _Average] = {}
        self._now = 0.0  # the latest time that a call has shown

    def pick(self, ticket: Ticket, pods: list[PodTracker], free_pods: FreePods) -> PodTracker:
        """Return the pod of the lower cost; if a drawn pod is full, the next free one instead."""
        count = len(pods)
        if count == 1:
            return pods[0]
        first = int(self._random() * count)
        second = (first + 1 + int(self._random() * (count - 1))) % count
        a, b = pods[free_pods.next(first)], pods[free_pods.next(second)]
        now = max(self._now, ticket.arrived)
        averages = self._averages
        if averages[b].cost(b.in_flight, now) < averages[a].cost(a.in_flight, now):
            return b
        return a

    def set_pods(self, pods: list[PodTracker]) -> None:
        """See Policy; pods that stay keep their averages."""
        before = self._averages
        self._averages = {pod: before.get(pod) or _Average() for pod in pods}

    def ended(self, pod: PodTracker, ticket: Ticket, outcome: Outcome, now: float) -> bool:
        """See Policy."""
        self._now = now
        average = self._averages.get(pod)
        if average is None or not ticket.assigned:
            return False
        if outcome is FAILED:
            average.add(max(FAILURE, now - ticket.assigned), now)
        elif ticket.first_byte >= ticket.sent:
            average.add(ticket.first_byte - ticket.sent, now)
        elif not ticket.first_byte and now - ticket.sent > average.value:
            average.add(now - ticket.sent, now)  # the client did not wait for the response
        return False
