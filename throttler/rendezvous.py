"""The policy ``hash``: requests with one key go to one pod, by rendezvous hashing.

Each pair of a key and a pod has a weight that depends on nothing else. The pod of the highest
weight gets the request. So a removed pod loses its keys to all others, and a new pod gets its share
from all others. No other key moves. All activators agree, since they hash addresses.

To weigh all pods for each request would cost O(pods). So the weight is a distance that sorted lists
find. A key has one point on each of 8 rings, and a pod has 16. The weight is the least distance
from a point of the key to the next point of the pod. That takes 8 searches of O(log pods). A memo
has the pods of recent keys. Knative has no counterpart. Sources: Thaler and Ravishankar, "Using
name-based mappings to increase hit rates"; Appleton and O'Reilly, "Multi- probe consistent
hashing".
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from hashlib import blake2b, shake_128
from struct import unpack
from typing import Final, final

from throttler.lb_policy import Policy
from throttler.model import Overflow
from throttler.pod import FreePods, PodTracker
from throttler.ticket import Outcome, Ticket

# A ring of numbers that changes in small steps: finds the next numbers after a given one.
#
# A flat sorted list would move all numbers behind each new one, and would have to be sorted as a
# whole after many changes. So the numbers are in parts of limited length: a change costs O(√n).

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
        self._default.set_pods(pods)
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


# Sticky requests: the requests of one client, or of one session, go to one pod.
#
# A request's key is the value of a cookie or of a header field, or the client's address. A pod
# has a token, by which the activator's cookie names it. A header field may also carry a session
# that a pod has begun. Then the pod's response binds the value to that pod. For all other keys,
# rendezvous hashing over the usable pods decides. So a pod that comes or goes moves only its
# share of the keys. Sources: ``stick store-response`` of HAProxy; Envoy's stateful session.

#: Sessions that responses have bound, at most. The oldest is removed first; its requests then go to
#: the pod of their key.
MAX_SESSIONS = 16_384
#: Bytes of a token; in the cookie it has twice as many characters.
TOKEN_BYTES: Final = 12


def token_of(pod: PodTracker) -> bytes:
    """Return the token of a pod: a hash that all activators agree on, and that names no address.

    The uids of the pod and of its revision are random. So trying all addresses finds no token.
    """
    config, endpoint = pod.config, pod.endpoint
    identity = f"{config.revision.uid} {endpoint.uid} {endpoint.address}".encode()
    return blake2b(identity, digest_size=TOKEN_BYTES).hexdigest().encode()


@final
class StickyCounts:
    """Requests with a key, by their result.

    Attributes:
        kept: went to the pod that a token or a session names.
        hashed: went to the pod that rendezvous hashing gives the key.
        overflowed: went to another pod, since their own was full or had failed them.
        waited: waited for their own pod although another had a free slot.
    """

    __slots__ = ("hashed", "kept", "overflowed", "waited")

    def __init__(self) -> None:
        self.kept = self.hashed = self.overflowed = self.waited = 0

    def by_result(self) -> Iterator[tuple[str, int]]:
        """Yield each result with its number of requests."""
        yield "kept", self.kept
        yield "hashed", self.hashed
        yield "overflowed", self.overflowed
        yield "waited", self.waited


@final
class Sticky(Policy):
    """The pod of a request's key; requests without a key go by another policy.

    Arguments:
        base: picks for requests without a key.
        overflow: what a request does while its pod is full.
        by_token: whether keys are tokens, from the cookie that names a pod.

    Attributes:
        by_token: whether keys are tokens.
        holds: whether a request may have to wait for one pod while others are free, see ``home``.
        tokens: the usable pods by their tokens; read only.
        counts: requests with a key, by their result.
    """

    __slots__ = ("_base", "_hash", "by_token", "counts", "holds", "sessions", "tokens")

    def __init__(self, base: Policy, overflow: Overflow, *, by_token: bool = True) -> None:
        super().__init__(follows=base.follows, spans=True)
        self.by_token: Final = by_token
        self.holds: Final = overflow is Overflow.WAIT
        self._base = base
        self._hash = Rendezvous(base)
        # The pods by token, and by the sessions that they began.
        self.tokens: dict[bytes, PodTracker] = {}
        self.sessions: OrderedDict[bytes, PodTracker] = OrderedDict()
        self.counts = StickyCounts()

    def pick(self, ticket: Ticket, pods: list[PodTracker], free_pods: FreePods) -> PodTracker:
        """Return the pod of a request's key, or another one if that pod has no free slot."""
        key, counts = ticket.key, self.counts
        if not key:
            return self._base.pick(ticket, pods, free_pods)
        own = self.tokens.get(key) if self.by_token else None
        if own is None and self.sessions:
            own = self._session(key)
        if own is not None:
            if own.in_flight < own.limit and not ticket.failed:
                counts.kept += 1
                return own
        else:
            own = self._hash.find(key)
            if own.in_flight < own.limit and not ticket.failed:
                counts.hashed += 1
                return own
        counts.overflowed += 1
        return self._hash.pick(ticket, pods, free_pods)

    def home(self, ticket: Ticket) -> PodTracker | None:
        """Return the only pod that may get a request; None if each free pod may.

        Called only if the policy ``holds``, and only while a pod is usable.
        """
        key = ticket.key
        if not key or ticket.failed:
            return None
        return self.tokens.get(key) or self._session(key) or self._hash.find(key)

    def _session(self, key: bytes) -> PodTracker | None:
        """Return the usable pod that has begun a session; None without one."""
        pod = self.sessions.get(key)
        return pod if pod is not None and pod.free_pods is not None else None

    # -- what clients get and pods send ---------------------------------------------------------

    def cookie_for(self, ticket: Ticket) -> bytes:
        """Return the token that a client should get with the response; empty if it has a good one.

        Arguments:
            ticket: a request that has a pod.
        """
        pod = ticket.pod
        if pod is None or pod.is_service or ticket.key in self.tokens:
            return b""  # what forwards to pods is none: the next activator gives the cookie
        return token_of(pod)

    def began_session(self, key: bytes, ticket: Ticket) -> None:
        """Bind a session to the pod that has begun it.

        Arguments:
            key: the session, as the pod's response names it.
            ticket: the request. If it has a key, it belongs to another session, or to this one.
        """
        if not key or ticket.key or ticket.pod is None:
            return
        sessions = self.sessions
        sessions[key] = ticket.pod
        sessions.move_to_end(key)
        if len(sessions) > MAX_SESSIONS:
            sessions.popitem(last=False)

    # -- what the throttler reports -------------------------------------------------------------

    def set_pods(self, pods: list[PodTracker]) -> None:
        self._base.set_pods(pods)
        self._hash.set_pods(pods)
        if not self.by_token:
            return
        known = {pod: token for token, pod in self.tokens.items()}
        used = [pod for pod in pods if pod.free_pods is not None]
        self.tokens = {known.get(pod) or token_of(pod): pod for pod in used}

    def changed(self, pod: PodTracker, has_free_slot: bool) -> None:
        self._base.changed(pod, has_free_slot)

    def ended(self, pod: PodTracker, ticket: Ticket, outcome: Outcome, now: float) -> bool:
        return self._base.ended(pod, ticket, outcome, now)
