"""The policy ``hash``: requests with one key go to one pod, by rendezvous hashing.

Each pair of a key and a pod has a weight that depends on nothing else. The pod of the highest
weight gets the request. So a removed pod loses its keys to all others, and a new pod gets its share
from all others. No other key moves. All activators agree, since they hash addresses.

To weigh all pods for each request would cost O(pods). So the weight is a distance that sorted lists
find. A key has one point on each of 8 rings, and a pod has 16. The weight is the least distance
from a point of the key to the next point of the pod. That takes 8 searches of O(log pods). A memo
has the pods of recent keys. Knative has no counterpart. Sources: Thaler and Ravishankar, "Using
name-based mappings to increase hit rates"; Appleton and O'Reilly, "Multi-probe consistent hashing".
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, insort
from collections.abc import Iterable
from hashlib import blake2b, shake_128
from struct import unpack
from typing import Final, final

from throttler.free_pods import FreePods
from throttler.lb_policy import Policy
from throttler.pod import PodTracker
from throttler.ticket import Ticket

#: Rings, and points of a pod on each. More make the shares of pods more equal, and cost time and
#: memory. With these, each of 2 pods gets between 48 and 52 % of all keys, and each of 100 pods is
#: within 20 % of its share.
RINGS: Final = 8
POINTS: Final = 16
#: Keys in the memo of recent picks; a full memo is cleared. A key has at most 64 bytes.
MEMO_KEYS: Final = 4096

#: A ring has so many points. The lowest bits of a pod's point are the slot of the pod.
_SIZE: Final = 1 << 62
_SLOT_BITS: Final = 20
_SLOT: Final = (1 << _SLOT_BITS) - 1
#: Points that a search for a free pod examines on each ring.
_STEPS: Final = 4
#: New pods from which on a ring is sorted as a whole.
_MANY: Final = 16


@final
class Rendezvous(Policy):
    """The pod of the highest weight for the request's key; the next one if that pod is full.

    Arguments:
        default: picks for requests without a key.
    """

    __slots__ = ("_default", "_free", "_memo", "_owners", "_rings", "_slots")

    def __init__(self, default: Policy) -> None:
        super().__init__(spans=True)
        self._default = default
        self._rings = [array("q") for _ in range(RINGS)]
        # Pods by slot (the number in their points), the slots of removed pods, and the slot of each
        # pod.
        self._owners: list[PodTracker] = []
        self._free: list[int] = []
        self._slots: dict[PodTracker, int] = {}
        self._memo: dict[bytes, PodTracker] = {}

    def pick(self, ticket: Ticket, pods: list[PodTracker], free_pods: FreePods) -> PodTracker:
        """Return the pod for a request's key; O(1) for a recent key, else O(log pods)."""
        key = ticket.key
        if not key:
            return self._default.pick(ticket, pods, free_pods)
        pod = self._memo.get(key)
        if pod is None:
            pod = self._find(key)
        return pod if free_pods.has(pod.number) else self._next(key, pods, free_pods)

    def set_pods(self, pods: list[PodTracker]) -> None:
        """See Policy; a pod that comes or goes moves 128 points in lists of all points."""
        there = {pod for pod in pods if pod.free_pods is not None}
        gone = [pod for pod in self._slots if pod not in there]
        new = [pod for pod in there if pod not in self._slots]
        if gone or new:
            self._memo.clear()
            self._remove(gone)
            self._add(new)

    def _remove(self, pods: list[PodTracker]) -> None:
        if len(pods) > _MANY:
            gone = set(pods)
            kept = [pod for pod in self._slots if pod not in gone]
            self._rings = [array("q") for _ in range(RINGS)]
            self._owners, self._free, self._slots = [], [], {}
            self._add(kept)
            return
        for pod in pods:
            slot = self._slots.pop(pod)
            self._free.append(slot)
            for ring, points in zip(self._rings, _points_of(pod, slot), strict=True):
                for point in points:
                    del ring[bisect_left(ring, point)]

    def _add(self, pods: list[PodTracker]) -> None:
        new: list[list[int]] = [[] for _ in range(RINGS)]
        for pod in pods:
            slot = self._take_slot(pod)
            for ring, points in zip(new, _points_of(pod, slot), strict=True):
                ring += points
        for number, points in enumerate(new):
            if len(pods) > _MANY:
                self._rings[number] = array("q", sorted((*self._rings[number], *points)))
            else:
                for point in points:
                    insort(self._rings[number], point)

    def _take_slot(self, pod: PodTracker) -> int:
        if self._free:
            slot = self._free.pop()
            self._owners[slot] = pod
        else:
            slot = len(self._owners)
            self._owners.append(pod)
        self._slots[pod] = slot
        return slot

    def _find(self, key: bytes) -> PodTracker:
        """Return the pod of the highest weight, free or full, and memorize it."""
        least, slot = _SIZE, 0
        for ring, point in zip(self._rings, _probes(key), strict=True):
            index = bisect_left(ring, point)
            if index == len(ring):
                index = 0
                point -= _SIZE
            found = ring[index]
            if found - point < least:
                least, slot = found - point, found & _SLOT
        if len(self._memo) >= MEMO_KEYS:
            self._memo.clear()
        pod = self._memo[key] = self._owners[slot]
        return pod

    def _next(self, key: bytes, pods: list[PodTracker], free_pods: FreePods) -> PodTracker:
        """Return the free pod of the highest weight.

        If nearly all pods are full, return the next free one by address, which costs O(1).
        """
        least, best = _SIZE, -1
        for ring, point in zip(self._rings, _probes(key), strict=True):
            index = bisect_left(ring, point)
            for _ in range(_STEPS):
                if index == len(ring):
                    index = 0
                    point -= _SIZE
                found = ring[index]
                if found - point >= least:
                    break
                number = self._owners[found & _SLOT].number
                if free_pods.has(number):
                    least, best = found - point, number
                    break
                index += 1
        return pods[free_pods.next(self._memo[key].number) if best < 0 else best]


def _probes(key: bytes) -> Iterable[int]:
    """Return the point of a key on each ring."""
    return [point >> 2 for point in unpack(f">{RINGS}Q", blake2b(key).digest())]


def _points_of(pod: PodTracker, slot: int) -> list[list[int]]:
    """Return the points of a pod on each ring, with the pod's slot in them."""
    digest = shake_128(pod.address.encode()).digest(8 * RINGS * POINTS)
    points = [point >> 2 & ~_SLOT | slot for point in unpack(f">{RINGS * POINTS}Q", digest)]
    return [points[ring::RINGS] for ring in range(RINGS)]
