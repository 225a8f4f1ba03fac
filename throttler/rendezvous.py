"""The policy ``hash``: requests with one key go to one pod, by rendezvous hashing."""

from __future__ import annotations

from array import array
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from hashlib import blake2b, shake_128
from struct import unpack
from typing import Final, final

from throttler.lb_policy import Policy
from throttler.pod import FreePods, PodTracker
from throttler.ticket import Ticket

# A ring of numbers that changes in small steps: finds the next numbers after a given one.
#
# A flat sorted list would move all numbers behind each new one, and would have to be sorted as a
# whole after many changes. So the numbers are in parts of limited length: a change costs O(√n).
# Knows neither pods nor keys.

#: The numbers of a ring are from 0 to this, without it.
SIZE: Final = 1 << 62
#: A longer part is split in two.
_LONGEST: Final = 512


@final
class Ring:
    """Different numbers in ascending order; the first follows the last."""

    __slots__ = ("_lasts", "_parts")

    def __init__(self) -> None:
        self._parts: list[array[int]] = []
        self._lasts: list[int] = []  # the last number of each part

    def add(self, number: int) -> None:
        """Add a number that the ring lacks."""
        parts, lasts = self._parts, self._lasts
        if not parts:
            parts.append(array("q", (number,)))
            lasts.append(number)
            return
        index = min(bisect_left(lasts, number), len(parts) - 1)
        part = parts[index]
        insort(part, number)
        if len(part) > _LONGEST:
            half = len(part) // 2
            parts.insert(index + 1, part[half:])  # ordered: half of the length
            del part[half:]
            lasts.insert(index, part[-1])
            index += 1
        lasts[index] = parts[index][-1]

    def remove(self, number: int) -> None:
        """Remove a number that the ring has."""
        index = bisect_left(self._lasts, number)
        part = self._parts[index]
        del part[bisect_left(part, number)]
        if part:
            self._lasts[index] = part[-1]
        else:
            del self._parts[index], self._lasts[index]

    def first(self, number: int) -> int:
        """Return the first number from ``number`` on; one beyond the end has ``SIZE`` added.

        The ring is not empty.
        """
        index = bisect_left(self._lasts, number)
        if index == len(self._parts):
            return self._parts[0][0] + SIZE
        part = self._parts[index]
        return part[bisect_left(part, number)]

    def after(self, number: int) -> Iterator[int]:
        """Yield the numbers from ``number`` on, once around the ring.

        Numbers beyond the end have ``SIZE`` added, so the order is ascending.
        """
        first = bisect_left(self._lasts, number)
        if first < len(self._parts):
            part = self._parts[first]
            for index in range(bisect_left(part, number), len(part)):
                yield part[index]
        for index in range(first + 1, len(self._parts)):
            yield from self._parts[index]
        for part in self._parts[: first + 1]:  # ordered: from the start
            for found in part:
                if found >= number:
                    return
                yield found + SIZE


# The policy ``hash``: requests with one key go to one pod, by rendezvous hashing.
#
# Each pair of a key and a pod has a weight that depends on nothing else. The pod of the highest
# weight gets the request. So a removed pod loses its keys to all others, and a new pod gets its
# share from all others. No other key moves. All activators agree, since they hash addresses.
#
# To weigh all pods for each request would cost O(pods). So the weight is a distance that sorted
# lists find. A key has one point on each of 8 rings, and a pod has 16. The weight is the least
# distance from a point of the key to the next point of the pod. That takes 8 searches of O(log
# pods). A memo has the pods of recent keys. Knative has no counterpart. Sources: Thaler and
# Ravishankar, "Using name-based mappings to increase hit rates"; Appleton and O'Reilly, "Multi-
# probe consistent hashing".

#: Rings, and points of a pod on each. More make the shares of pods more equal, and cost time and
#: memory. With these, each of 2 pods gets between 48 and 52 % of all keys. Each of 100 pods is
#: within 20 % of its share.
RINGS: Final = 8
POINTS: Final = 16
#: Keys in the memo of recent picks; a full memo is cleared. A key has at most 64 bytes.
MEMO_KEYS: Final = 4096
#: Pods that ``set_pods``, and after it each pick, adds to the rings or removes. So a change of
#: 10,000 pods, which takes about two seconds in all, delays other requests only for milliseconds.
AT_ONCE: Final = 32
PER_PICK: Final = 8

#: The lowest bits of a pod's point are the slot of the pod.
_SLOT_BITS: Final = 20
_SLOT: Final = (1 << _SLOT_BITS) - 1
#: Removed pods on the rings for each other pod, at most: searches pass their points.
_MOST_GONE: Final = 16
#: Points that a search for a free pod examines on each ring.
_STEPS: Final = 4


@final
class Rendezvous(Policy):
    """The pod of the highest weight for the request's key; the next one if that pod is full.

    Arguments:
        default: picks for requests without a key.
    """

    __slots__ = ("_default", "_gone", "_memo", "_new", "_owners", "_rings", "_slots", "_unused")

    def __init__(self, default: Policy) -> None:
        super().__init__(spans=True)
        self._default = default
        self._new: list[PodTracker] = []  # pods that the rings still lack
        self._clear()

    def _clear(self) -> None:
        self._memo: dict[bytes, PodTracker] = {}
        self._rings = [Ring() for _ in range(RINGS)]
        # The slot of each pod on the rings, the pods by slot, and the slots without points.
        self._slots: dict[PodTracker, int] = {}
        self._owners: list[PodTracker | None] = []
        self._unused: list[int] = []
        # Removed pods whose points are still on the rings.
        self._gone: list[tuple[PodTracker, int]] = []

    def pick(self, ticket: Ticket, pods: list[PodTracker], free_pods: FreePods) -> PodTracker:
        """Return the pod for a request's key; O(1) for a recent key, else O(log pods)."""
        key = ticket.key
        if not key:
            return self._default.pick(ticket, pods, free_pods)
        pod = self.find(key)
        return pod if free_pods.has(pod.number) else self._next(key, pods, free_pods)

    def find(self, key: bytes) -> PodTracker:
        """Return the pod for a key, free or full; O(1) for a recent key, else O(log pods)."""
        if self._new or self._gone:
            self._update_rings(PER_PICK)
        pod = self._memo.get(key)
        return self._find(key) if pod is None else pod

    def set_pods(self, pods: list[PodTracker]) -> None:
        """Set the pods; later picks do the rest of a large change.

        Until then, the keys of pods that the rings lack go to the other pods.
        """
        there = {pod: None for pod in pods if pod.free_pods is not None}
        gone = [pod for pod in self._slots if pod not in there]
        if len(gone) + len(self._gone) > _MOST_GONE * (len(self._slots) - len(gone)):
            self._clear()
            gone = []
        for pod in gone:
            slot = self._slots.pop(pod)
            self._owners[slot] = None
            self._gone.append((pod, slot))
        self._new = [pod for pod in there if pod not in self._slots]
        if self._new or self._gone:
            self._update_rings(AT_ONCE)

    def _update_rings(self, pods: int) -> None:
        """Add so many pods to the rings; if fewer are new, remove points of removed pods."""
        self._memo.clear()
        for _ in range(pods):
            if self._new:
                self._add(self._new.pop())
            elif self._gone:
                self._remove(*self._gone.pop())
            else:
                return

    def _add(self, pod: PodTracker) -> None:
        if self._unused:
            slot = self._unused.pop()
            self._owners[slot] = pod
        else:
            slot = len(self._owners)
            self._owners.append(pod)
        self._slots[pod] = slot
        for ring, points in zip(self._rings, _points_of(pod, slot), strict=True):
            for point in points:
                ring.add(point)

    def _remove(self, pod: PodTracker, slot: int) -> None:
        self._unused.append(slot)
        for ring, points in zip(self._rings, _points_of(pod, slot), strict=True):
            for point in points:
                ring.remove(point)

    def _find(self, key: bytes) -> PodTracker:
        """Return the pod of the highest weight, free or full, and memorize it."""
        least, slot = SIZE, 0
        for ring, point in zip(self._rings, _probes(key), strict=True):
            found = self._first_listed(ring, point) if self._gone else ring.first(point)
            if found - point < least:
                least, slot = found - point, found & _SLOT
        pod = self._owners[slot]
        assert pod is not None
        if len(self._memo) >= MEMO_KEYS:
            self._memo.clear()
        self._memo[key] = pod
        return pod

    def _first_listed(self, ring: Ring, point: int) -> int:
        """Return the first point on a ring that belongs to no removed pod."""
        owners = self._owners
        return next(found for found in ring.after(point) if owners[found & _SLOT] is not None)

    def _next(self, key: bytes, pods: list[PodTracker], free_pods: FreePods) -> PodTracker:
        """Return the free pod of the highest weight.

        If nearly all pods are full, return the next free one by address, which costs O(1).
        """
        least, best = SIZE, -1
        for ring, point in zip(self._rings, _probes(key), strict=True):
            for found, _ in zip(ring.after(point), range(_STEPS), strict=False):
                if found - point >= least:
                    break
                pod = self._owners[found & _SLOT]
                if pod is not None and free_pods.has(pod.number):
                    least, best = found - point, pod.number
                    break
        return pods[free_pods.next(self._memo[key].number) if best < 0 else best]


def _probes(key: bytes) -> Iterable[int]:
    """Return the point of a key on each ring."""
    return [point >> 2 for point in unpack(f">{RINGS}Q", blake2b(key).digest())]


def _points_of(pod: PodTracker, slot: int) -> list[list[int]]:
    """Return the points of a pod on each ring, with the pod's slot in them."""
    digest = shake_128(pod.address.encode()).digest(8 * RINGS * POINTS)
    points = [point >> 2 & ~_SLOT | slot for point in unpack(f">{RINGS * POINTS}Q", digest)]
    return [points[ring::RINGS] for ring in range(RINGS)]
