"""The zone of each request's pod: the activator's own first, while no pod gets more than its share.

Clouds bill the traffic between zones. Without limits, each pod should get the same part of the
load of all activators. So an activator keeps the part of its requests that the pods of its zone
can take: min(1, share of the pods there / share of the activators there). The rest goes to zones
with more pods than their own activators use. With a limit per pod, free slots of the own zone come
first. Knative has no counterpart; Envoy's is zone-aware routing, upstream/load_balancing/zone_aware
of its documentation.
"""

from __future__ import annotations

from bisect import bisect
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate
from typing import Final, final

from throttler.capacity import ActivatorShare
from throttler.lb_policy import Policy
from throttler.pod import FreePods, PodTracker
from throttler.ticket import Ticket

#: The fraction of the golden ratio. Its multiples, without their whole part, spread evenly over
#: [0, 1): any part of them gets its share within a few requests.
_STEP: Final = 0.6180339887498949


@final
class _Tier:
    """The pods of one set of free pods, by the numbers of their zones.

    Attributes:
        policy: picks among the pods of a zone.
    """

    __slots__ = ("free", "pods", "policy")

    def __init__(self, policy: Policy, zones: int) -> None:
        self.policy = policy
        self.pods: list[list[PodTracker]] = [[] for _ in range(zones)]
        self.free: list[FreePods] = []


@final
class NearFirst(Policy):
    """Picks a zone for each request; another policy picks a pod there.

    Arguments:
        zone: the zone of this activator.

    Attributes:
        left: the requests that got a pod of another zone, or of an unknown one.
    """

    __slots__ = ("_bounds", "_keeps_all", "_others", "_tiers", "_turn", "_zones", "left", "zone")

    def __init__(self, zone: str) -> None:
        super().__init__()
        self.zone = zone
        self.left = 0
        self._turn = 0.0
        self._keeps_all = True
        self._zones: dict[str, int] = {}
        # Up to which turn a zone gets the request: as it should, and while that one is full.
        self._bounds: list[float] = []
        self._others: list[float] = []
        self._tiers: dict[FreePods, _Tier] = {}

    def weigh(self, pods: Sequence[PodTracker], share: ActivatorShare, limited: bool) -> bool:
        """Compute the share of each zone; O(pods). Then call ``divide`` for each set of free pods.

        Arguments:
            pods: the pods that get requests.
            share: has the zones of the activators; if none is known, all zones have as many.
            limited: whether each pod has a limit. No share applies then.

        Returns:
            Whether there is a choice: a zone is known, and pods run outside of the own zone.
        """
        self._tiers = {}
        counts = Counter([pod.zone for pod in pods])
        if not counts.keys() - {""} or counts.keys() == {self.zone}:
            return False
        names = [self.zone, *sorted(counts.keys() - {self.zone})]
        self._zones = {name: number for number, name in enumerate(names)}
        activators = Counter(list(filter(None, share.zones)) or list(filter(None, names)))
        activators[self.zone] = max(activators[self.zone], 1)
        # What the pods of a zone can take, less what its own activators send, in whole numbers.
        total = activators.total()
        spare = [counts[each] * total - activators[each] * len(pods) for each in names]
        lack = 0 if limited else max(-spare[0], 0)
        others = [max(each, 0) for each in spare[1:]]
        rest = lack / max(sum(others), 1)
        self._keeps_all = not lack
        keeps = counts[self.zone] * total if lack else 1
        self._bounds = _bounds([keeps, *(rest * each for each in others)])
        self._others = _bounds([0, *(counts[each] for each in names[1:])])
        return True

    def divide(self, pods: Sequence[PodTracker], policy: Policy) -> FreePods:
        """Give each zone a set of free pods; O(pods).

        Arguments:
            policy: picks among the pods of a zone.

        Returns:
            The numbers of the zones with a free pod, the own zone first.
        """
        whole = FreePods(len(self._zones))
        tier = _Tier(policy, len(self._zones))
        for pod in pods:
            tier.pods[self._zones[pod.zone]].append(pod)
        for number, group in enumerate(tier.pods):
            free = FreePods(len(group), whole, number)
            tier.free.append(free)
            for index, pod in enumerate(group):
                free.take(pod, index)
        self._tiers[whole] = tier
        return whole

    def pick(self, ticket: Ticket, pods: list[PodTracker], free_pods: FreePods) -> PodTracker:
        """Return a pod of the zone whose turn it is; while that one is full, of another zone.

        Arguments:
            free_pods: as ``divide`` has returned it.
        """
        tier = self._tiers[free_pods]
        number = 0
        if not self._keeps_all or not free_pods.has(0):
            self._turn = turn = (self._turn + _STEP) % 1.0
            number = bisect(self._bounds, turn)
            if not free_pods.has(number):
                number = 0 if free_pods.has(0) else free_pods.next(bisect(self._others, turn))
            self.left += number > 0
        return tier.policy.pick(ticket, tier.pods[number], tier.free[number])


def _bounds(weights: Sequence[float]) -> list[float]:
    """Return the sums of the first weights; the last one is 1, whatever the others add up to."""
    sums = list(accumulate(weights))
    return [each / sums[-1] for each in sums[:-1]] + [1.0]
