"""How many requests a revision may have at a time, and which pods are this activator's share.

Knative's counterpart: calculateCapacity, inferIndex and assignSlice of
pkg/activator/net/throttler.go.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

#: No pod and no revision is given more than this at a time (Knative: revisionMaxConcurrency).
MAX_CAPACITY: Final = 2_147_483_647

#: Requests that a pod with containerConcurrency 0 is given at once when it becomes healthy. A
#: server's listen backlog is 128 to 4,096 as a rule (Python 100, Go 4,096): all waiters at once
#: overflow it, and a dropped SYN costs a second.
SLOW_START = 64
#: Seconds after which that limit doubles, as long as requests wait and more at a time helps: where
#: each answer takes minutes, 5,000 waiters are all released after 140 ms.
SLOW_START_STEP: Final = 0.02
#: A doubled limit was worth it if the pod then answers this many times as much as before.
WORTH_RAISING: Final = 1.5
#: After this many steps without a widening it is tried again.
RAISE_ANYWAY: Final = 8
#: From here on the limit of such a pod is off.
SLOW_START_END = 1 << 16


@dataclass(frozen=True, slots=True)
class ActivatorShare:
    """Which of how many activators this one is for a revision.

    ``index`` is -1 while the public Endpoints do not list our own address; then every pod is ours.
    """

    index: int = -1
    count: int = 0


def infer_share(own_ip: str, addresses: Collection[str]) -> ActivatorShare | None:
    """Return our share among the activators at ``addresses``, or None if we are not among them.

    Every activator sorts the same addresses as strings, so that all agree without talking.
    """
    if own_ip not in addresses:
        return None
    ordered = sorted(set(addresses))
    return ActivatorShare(ordered.index(own_ip), len(ordered))


def assign_share(pods: int, share: ActivatorShare) -> frozenset[int] | None:
    """Return the indices, in a list of ``pods`` sorted pods, that are ours; None means all.

    With more activators than pods several share one pod, each at its full limit; else no pod is
    in two slices, and every pod is in one.
    """
    if share.index < 0 or share.count <= 1 or pods <= 1:
        return None
    if share.count > pods:
        return frozenset((share.index % pods,))
    size, remnant = divmod(pods, share.count)
    start = share.index * size
    tail = (pods - remnant + share.index,) if share.index < remnant else ()
    return frozenset((*range(start, start + size), *tail))


@dataclass(frozen=True, slots=True)
class CapacityTerms:
    """What a revision's capacity is made of, so that it can be written out.

    Attributes:
        container_concurrency: requests that a pod may have at a time; 0 for no limit.
        usable: pods that may have requests from anybody; by the ClusterIP, those that Kubernetes
            lists as ready.
        own: numbers of those in our share, in the order of their addresses.
        share: which of how many activators we are.
        borrow: whether we use pods beyond our share, once those in it are full.
        by_service: whether requests go to the ClusterIP.
    """

    container_concurrency: int
    usable: int
    own: Sequence[int]
    share: ActivatorShare
    borrow: bool
    by_service: bool = False

    @property
    def in_reach(self) -> int:
        """How many pods this activator may send requests to."""
        return self.usable if self.borrow else len(self.own)

    @property
    def capacity(self) -> int:
        """How many requests may be in flight at a time, from this activator."""
        if self.by_service:
            return service_capacity(self.container_concurrency, self.usable, self.share.count)
        return revision_capacity(self.container_concurrency, self.in_reach)

    @property
    def sentence(self) -> str:
        """How that came about, for people."""
        limit, capacity, count = self.container_concurrency, self.capacity, self.share.count
        pods = _pods(self.usable, "ready" if self.by_service else "usable")
        way = ", by way of the ClusterIP" if self.by_service else ""
        if limit == 0 and capacity:
            return f"{pods} without limit (containerConcurrency is 0){way}"
        if limit == 0:
            return f"{pods}, without a limit each (containerConcurrency is 0){way}"
        whole = f"{pods} × {limit}"
        if self.by_service:
            divided = f" ÷ {count} activators" if count > 1 else ""
            return f"{whole}{divided} = {capacity}{way}"
        if len(self.own) == self.usable:
            return f"{whole} = {capacity}"
        us = f"as activator {self.share.index + 1} of {count}"
        part = revision_capacity(limit, len(self.own))
        ours = f"{_pods(len(self.own))} ({_ranges(self.own)}) × {limit} = {part}"
        if not self.borrow:
            return f"{pods} ÷ {count} activators; {us} we have {ours}"
        return f"{whole} = {capacity}; our share {us}: {ours}, others are borrowed beyond that"


def _pods(count: int, which: str = "") -> str:
    return " ".join(filter(None, (str(count), which, "pod" if count == 1 else "pods")))


def _ranges(numbers: Iterable[int]) -> str:
    """Return numbers, counted from 0, as people count, from 1: ``1-3, 7``."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1]:
            runs[-1][-1] = number + 1
        else:
            runs.append([number + 1, number + 1])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def service_capacity(container_concurrency: int, ready: int, activators: int) -> int:
    """Return how many requests one ClusterIP may have at a time from this activator.

    Nobody can share out pods that a mesh chooses, so what they can have is divided instead.

    Arguments:
        container_concurrency: 0 for no limit.
        ready: pods that Kubernetes lists as ready; without one nothing is behind the address.
        activators: how many there are; 0 if that is not known.
    """
    whole = revision_capacity(container_concurrency, ready)
    if container_concurrency == 0 or ready == 0:
        return whole
    return max(whole // max(activators, 1), 1)


def revision_capacity(container_concurrency: int, pods: int) -> int:
    """Return how many requests ``pods`` pods may have at a time; 0 if there is none.

    Without a limit per pod (containerConcurrency 0) any pod makes the capacity unbounded.
    """
    if pods == 0:
        return 0
    return min(container_concurrency * pods, MAX_CAPACITY) or MAX_CAPACITY
