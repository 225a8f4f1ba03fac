"""The policy ``least-loaded``: the pod with the fewest requests in flight.

Free pods are in groups, one for each number of requests in flight; a heap has these numbers. A
request moves a pod from one group to the next. That costs the same for 1 pod as for 10,000, except
for the heap, whose length is the number of different loads. Knative has no counterpart.
"""

from __future__ import annotations

from collections import OrderedDict
from heapq import heappop, heappush
from typing import final

from throttler.free_pods import FreePods
from throttler.lb_policy import Policy
from throttler.pod import PodTracker
from throttler.ticket import Ticket


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
        """See Policy; O(pods)."""
        self._groups = {}
        for pod in pods:
            if (free_pods := pod.free_pods) is not None:
                groups = self._groups.get(free_pods)
                if groups is None:
                    groups = self._groups[free_pods] = _Groups()
                groups.put(pod, pod.in_flight < pod.limit)

    def changed(self, pod: PodTracker, has_free_slot: bool) -> None:
        """See Policy; O(1), except for the heap of loads."""
        if (free_pods := pod.free_pods) is not None:
            self._groups[free_pods].put(pod, has_free_slot)
