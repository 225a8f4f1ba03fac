"""The policy ``least-loaded``: the pod that has the fewest requests in flight.

Pods with room are in groups, one for each number of requests in flight; a heap has the numbers. A
request moves a pod from one group to the next, so it costs the same for 1 pod as for 10,000, but
for the heap, which is as long as there are different loads. Knative has no counterpart.
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
    """Pods that have room, by their requests in flight."""

    __slots__ = ("_by_load", "_load_of", "_loads")

    def __init__(self) -> None:
        # The pod that has waited the longest at its load is the first of its group.
        self._by_load: dict[int, OrderedDict[PodTracker, None]] = {}
        self._load_of: dict[PodTracker, int] = {}
        self._loads: list[int] = []  # a heap of the keys of _by_load

    def put(self, pod: PodTracker, has_free_slot: bool) -> None:
        """Take what a pod has now; one without room is in no group."""
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
        """Return a pod of the lowest load; there is one."""
        group = self._by_load[self._loads[0]]
        while not group:
            del self._by_load[heappop(self._loads)]
            group = self._by_load[self._loads[0]]
        return next(iter(group))


@final
class LeastLoaded(Policy):
    """The pod that has the fewest requests; of equals, each in turn."""

    __slots__ = ("_groups",)

    def __init__(self) -> None:
        super().__init__(follows=True)
        self._groups: dict[FreePods, _Groups] = {}

    def pick(self, ticket: Ticket, pods: list[PodTracker], free_pods: FreePods) -> PodTracker:
        """Return the least loaded of the pods in ``room``, as ``changed`` has reported them."""
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
        """See Policy; O(1), but for the heap of loads."""
        if (free_pods := pod.free_pods) is not None:
            self._groups[free_pods].put(pod, has_free_slot)
