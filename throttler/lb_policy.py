"""The interface of load-balancing policies, and the policies without keys.

The throttler calls a policy only while some pod has a free slot. A call costs O(1) or O(log n) in
pods. Random numbers are an argument; ``throttler.balancing`` has the names of all policies.
Knative's counterpart: pkg/activator/net/lb_policy.go.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable
from heapq import heappop, heappush
from math import exp
from typing import Final, final

from throttler.pod import FreePods, PodTracker
from throttler.ticket import FAILED, Outcome, Ticket


class Policy(ABC):
    """Picks the pod for the next request.

    Attributes:
        follows: whether the throttler calls ``changed`` and ``ended``. A policy without a record of
            loads or responses saves these calls on each request.
        spans: whether the policy ignores the activator's share: it then picks among the free pods
            of all activators' shares.
        in_order: whether the policy picks by the numbers of the pods, which are the same at each
            activator. It then does not pick the pods that the activator borrows: all activators
            would borrow the same pod.
    """

    __slots__ = ("follows", "in_order", "spans")

    def __init__(
        self, *, follows: bool = False, spans: bool = False, in_order: bool = False
    ) -> None:
        self.follows: Final = follows
        self.spans: Final = spans
        self.in_order: Final = in_order

    @abstractmethod
    def pick(self, ticket: Ticket, pods: list[PodTracker], free_pods: FreePods) -> PodTracker:
        """Return one of ``pods`` whose number is in ``free_pods``, which is not empty.

        The pod gets the request.

        Arguments:
            ticket: the request; its ``key`` is set if the policy needs one.
        """

    def set_pods(self, pods: list[PodTracker]) -> None:  # noqa: B027 # few need it
        """Set the pods that get requests, with their numbers, sets of free pods and limits.

        Called before the first ``pick``, and after each change of the pods; may cost O(pods).
        """

    def changed(self, pod: PodTracker, has_free_slot: bool) -> None:  # noqa: B027 # few need it
        """Record a change of a pod's requests in flight, or of whether it has a free slot."""

    def ended(self, pod: PodTracker, ticket: Ticket, outcome: Outcome, now: float) -> bool:
        """Record that a request has left its pod; ``changed`` follows.

        Policies that weigh pods by response time or by failures need this hook, such as a peak
        EWMA. The pick alone cannot give them these facts.

        Arguments:
            ticket: the request, with the times of its assignment and of its first byte.
            outcome: how the request left the pod.
            now: seconds, on the clock of those times.

        Returns:
            Whether the policy has changed the pod's limit.
        """
        return False


@final
class FirstAvailable(Policy):
    """The first free pod: fills one pod before the next, for a low containerConcurrency."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(in_order=True)

    def pick(self, ticket: Ticket, pods: list[PodTracker], free_pods: FreePods) -> PodTracker:
        """Return the free pod with the lowest number."""
        return pods[free_pods.next(0)]


@final
class RoundRobin(Policy):
    """Each pod in turn, without the full ones."""

    __slots__ = ("_sets",)

    def __init__(self) -> None:
        super().__init__(in_order=True)
        self._sets: dict[FreePods, None] = {}

    def pick(self, ticket: Ticket, pods: list[PodTracker], free_pods: FreePods) -> PodTracker:
        """Return the free pod after the last one picked; the first pod follows the last."""
        number = free_pods.next(free_pods.after)
        free_pods.after = number + 1
        return pods[number]

    def set_pods(self, pods: list[PodTracker]) -> None:
        """Set the pods; O(pods). Their sets are new, and continue where the others were."""
        after = max((each.after for each in self._sets), default=0)
        self._sets = {p.free_pods: None for p in pods if p.free_pods is not None}
        for each in self._sets:
            each.after = after


@final
class RandomChoice2(Policy):
    """The pod with fewer requests of two random ones (power of two choices).

    Arguments:
        random: returns random numbers in [0, 1).
    """

    __slots__ = ("_random",)

    def __init__(self, random: Callable[[], float]) -> None:
        super().__init__()
        self._random = random

    def pick(self, ticket: Ticket, pods: list[PodTracker], free_pods: FreePods) -> PodTracker:
        """Return the less loaded of two pods; the first drawn, so a random one, if they are equal.

        If a drawn pod is full, the next free one replaces it.
        """
        count = len(pods)
        if count == 1:
            return pods[0]
        first = int(self._random() * count)
        # The second is any other pod; of two pods there is only one.
        second = 1 - first
        if count > 2:
            second = (first + 1 + int(self._random() * (count - 1))) % count
        a = pods[free_pods.next(first)]
        b = pods[free_pods.next(second)]
        return b if b.in_flight < a.in_flight else a


# The policy ``least-loaded``: the pod with the fewest requests in flight.
#
# Free pods are in groups, one for each number of requests in flight; a heap has these numbers. A
# request moves a pod from one group to the next. That costs the same for 1 pod as for 10,000,
# except for the heap, whose length is the number of different loads.


@final
class _Groups:
    """Free pods, by their requests in flight."""

    __slots__ = ("_by_load", "_load_of", "_loads")

    def __init__(self) -> None:
        # The first pod of a group has had this number of requests for the longest time.
        self._by_load: dict[int, OrderedDict[PodTracker, None]] = {}
        self._load_of: dict[PodTracker, int] = {}
        self._loads: list[int] = []  # a heap of the keys of _by_load

    def put(self, pod: PodTracker, has_free_slot: bool) -> None:
        """Record the load of a pod; a full pod is in no group."""
        before = self._load_of.pop(pod, None)
        if before is not None:
            del self._by_load[before][pod]
        if not has_free_slot:
            return
        load = self._load_of[pod] = pod.in_flight
        group = self._by_load.get(load)
        if group is None:
            group = self._by_load[load] = OrderedDict()
            heappush(self._loads, load)
        group[pod] = None

    def first(self) -> PodTracker:
        """Return a pod of the lowest load. The caller has checked that a pod is free."""
        group = self._by_load[self._loads[0]]
        while not group:
            del self._by_load[heappop(self._loads)]
            group = self._by_load[self._loads[0]]
        return next(iter(group))


@final
class LeastLoaded(Policy):
    """The pod with the fewest requests; of equal pods, each in turn."""

    __slots__ = ("_groups",)

    def __init__(self) -> None:
        super().__init__(follows=True)
        self._groups: dict[FreePods, _Groups] = {}

    def pick(self, ticket: Ticket, pods: list[PodTracker], free_pods: FreePods) -> PodTracker:
        """Return the least loaded pod of ``free_pods``, as ``changed`` has reported the loads."""
        return self._groups[free_pods].first()

    def set_pods(self, pods: list[PodTracker]) -> None:
        """Set the pods; O(pods)."""
        self._groups = {}
        for pod in pods:
            if (free_pods := pod.free_pods) is not None:
                groups = self._groups.get(free_pods)
                if groups is None:
                    groups = self._groups[free_pods] = _Groups()
                groups.put(pod, pod.in_flight < pod.limit)

    def changed(self, pod: PodTracker, has_free_slot: bool) -> None:
        """Record a change; O(1), except for the heap of loads."""
        if (free_pods := pod.free_pods) is not None:
            self._groups[free_pods].put(pod, has_free_slot)


# The policy ``ewma-latency``: of two random pods, the one that would respond sooner.
#
# The cost of a pod is its peak EWMA of the time to the first byte, times its requests in flight
# and the new one. A slow response raises the average at once; faster ones lower it over seconds.
# So a pod that begins to stall loses its traffic with the first slow response. Sources: Finagle,
# "Peak EWMA" (aperture load balancers); Linkerd's balancer.

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
        """Set the pods; pods that stay keep their averages."""
        before = self._averages
        self._averages = {pod: before.get(pod) or _Average() for pod in pods}

    def ended(self, pod: PodTracker, ticket: Ticket, outcome: Outcome, now: float) -> bool:
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
