"""The zone of each request's pod: the activator's own first, while no pod gets more than its share.

Clouds bill the traffic between zones. Without limits, each pod should get the same part of the
load of all activators. So an activator keeps the part of its requests that the pods of its zone
can take: min(1, share of the pods there / share of the activators there). The rest goes to zones
with more pods than their own activators use. With a limit per pod, free slots of the own zone come
first. Knative has no counterpart; Envoy's is zone-aware routing, upstream/load_balancing/zone_aware
of its documentation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import accumulate
from typing import Final, final

from throttler.capacity import ActivatorShare
from throttler.lb_policy import Policy
from throttler.pod import FreePods, PodTracker
from throttler.ticket import Ticket

#: Turns go from 0 to this, without it. Each step is the golden ratio of it, so that any part of the
#: turns gets its share within a few requests.
_TURNS: Final = 1 << 32
_STEP: Final = 2_654_435_769
#: All further zones are one part, so that no list of pods makes a request expensive.
_MOST_PARTS: Final = 16


@final
class Zones:
    """The zones of one revision's pods, and which one gets the next request.

    Arguments:
        zone: the zone of this activator.

    Attributes:
        left: the requests that got a pod of another zone, or of an unknown one.
    """

    __slots__ = ("_bounds", "_numbers", "_turn", "left", "zone")

    def __init__(self, zone: str) -> None:
        self.zone = zone
        self.left = self._turn = 0
        # The part of the pods that gets a turn is the first with a higher bound. The first part is
        # the own zone.
        self._bounds: list[int] = []
        self._numbers: dict[str, int] = {}

    def weigh(self, pods: Sequence[PodTracker], share: ActivatorShare, limited: bool) -> bool:
        """Compute the share of each zone; O(pods). Then call ``divide`` for each set of free pods.

        Arguments:
            pods: the pods that get requests.
            share: has the zones of the activators; if none is known, all zones have as many.
            limited: whether each pod has a limit. The own zone comes first then, with no share.

        Returns:
            Whether there is a choice: a zone is known, and pods run outside of the own zone.
        """
        counts = Counter([pod.zone for pod in pods])
        if counts.keys() <= {""} or counts.keys() == {self.zone}:
            return False
        names = [self.zone, *sorted(counts.keys() - {self.zone})]
        last = 1 if limited else _MOST_PARTS - 1
        self._numbers = {name: min(number, last) for number, name in enumerate(names)}
        activators = Counter([*filter(None, share.zones)] or [*filter(None, names)])
        activators[self.zone] = max(activators[self.zone], 1)
        # What the pods of a zone can take, less what its activators send; in parts of all requests.
        total = activators.total()
        spare = [counts[each] * total - activators[each] * len(pods) for each in names]
        lack = 0 if limited else max(-spare[0], 0)
        leaves = _TURNS * lack // (activators[self.zone] * len(pods))
        sums = [*accumulate(max(each, 0) for each in spare[1:])]
        rest = [leaves * each // max(sums[-1], 1) for each in sums]
        bounds = [_TURNS - leaves, *(_TURNS - leaves + each for each in rest)]
        self._bounds = [*bounds[:last], _TURNS]
        return True

    def divide(
        self, pods: Sequence[PodTracker], free: FreePods, policy: Policy
    ) -> tuple[FreePods, Policy]:
        """Divide a set of free pods by zone; O(pods).

        Arguments:
            pods: the pods of this set, and others.
            policy: picks among the pods of a part.

        Returns:
            The set that replaces ``free``, which has the parts with a free pod, and its policy.
        """
        whole = FreePods(len(self._bounds))
        groups: list[list[PodTracker]] = [[] for _ in self._bounds]
        for pod in pods:
            if pod.free_pods is free:
                groups[self._numbers[pod.zone]].append(pod)
        parts = [FreePods(len(group), whole, number) for number, group in enumerate(groups)]
        for group, part in zip(groups, parts, strict=True):
            for number, pod in enumerate(group):
                part.take(pod, number)
        return whole, _NearFirst(self, policy, groups, parts)

    def next_part(self) -> int:
        """Return the number of the part that has the next turn."""
        self._turn = turn = (self._turn + _STEP) & (_TURNS - 1)
        number = 0
        while turn >= self._bounds[number]:
            number += 1
        return number


@final
class _NearFirst(Policy):
    """Picks a part of the pods; another policy picks one of its pods."""

    __slots__ = ("_groups", "_parts", "_policy", "_zones")

    def __init__(
        self,
        zones: Zones,
        policy: Policy,
        groups: list[list[PodTracker]],
        parts: list[FreePods],
    ) -> None:
        super().__init__()
        self._zones = zones
        self._policy = policy
        self._groups = groups
        self._parts = parts

    def pick(self, ticket: Ticket, pods: list[PodTracker], free_pods: FreePods) -> PodTracker:
        """Return a pod of the part that has the turn; while that is full, of the next part."""
        number = free_pods.next(self._zones.next_part())
        if number:
            self._zones.left += 1
        return self._policy.pick(ticket, self._groups[number], self._parts[number])
