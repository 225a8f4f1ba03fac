"""The capacity of a revision, and the share of its pods that this activator uses first.

Knative's counterpart: calculateCapacity, inferIndex and assignSlice of
pkg/activator/net/throttler.go.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

#: The largest limit of a pod or a revision (Knative: revisionMaxConcurrency).
MAX_CAPACITY: Final = 2_147_483_647

#: The first limit of a pod with containerConcurrency 0 in slow start. The listen backlog of a
#: server is usually 128 to 4,096 (Python 100, Go 4,096). All queued requests at once would overflow
#: it, and a dropped SYN costs a second.
SLOW_START = 64
#: Seconds after which that limit doubles, as long as requests are queued and a higher limit helps.
#: If each response takes minutes, 5,000 queued requests all have a pod after 140 ms.
SLOW_START_STEP: Final = 0.02
#: A doubled limit helped if the pod then ends this many times as many requests as before.
WORTH_RAISING: Final = 1.5
#: After this many steps without a raise, the limit is raised once more, to try.
RAISE_ANYWAY: Final = 8
#: From this limit on, slow start ends and the pod has no limit.
SLOW_START_END = 1 << 16


@dataclass(frozen=True, slots=True)
class ActivatorShare:
    """The position of this activator among the activators of a revision.

    Attributes:
        index: from 0; -1 while the public Endpoints do not list this activator, which then uses all
            pods.
        count: number of activators.
        addresses: ``ip:port`` of each, in order; they are no part of the position.
        zones: the zone of each, in order; empty if none is known. No part of the position either.
    """

    index: int = -1
    count: int = 0
    addresses: tuple[str, ...] = field(default=(), compare=False)
    zones: tuple[str, ...] = field(default=(), compare=False)


def infer_share(own_ip: str, addresses: Collection[str], port: int = 8012) -> ActivatorShare | None:
    """Return the share of the activator at ``own_ip``; None if it is not among ``addresses``.

    Every activator sorts the same addresses as strings, so all agree without messages.

    Arguments:
        addresses: without port; a mapping also has the zone of each.
        port: on which each of them listens for requests.
    """
    if own_ip not in addresses:
        return None
    ordered = sorted(set(addresses))
    listeners = (f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}" for ip in ordered)
    zones = tuple(map(addresses.__getitem__, ordered)) if isinstance(addresses, Mapping) else ()
    return ActivatorShare(ordered.index(own_ip), len(ordered), tuple(listeners), zones)


def assign_share(pods: int, share: ActivatorShare) -> frozenset[int] | None:
    """Return the indices of this activator's share in a list of sorted pods; None means all.

    With more activators than pods, several share one pod, each at its full limit. Otherwise every
    pod is in exactly one share.

    Arguments:
        pods: length of the list.
    """
    if share.index < 0 or share.count <= 1 or pods <= 1:
        return None
    if share.count > pods:
        return frozenset((share.index % pods,))
    size, remainder = divmod(pods, share.count)
    start = share.index * size
    tail = (pods - remainder + share.index,) if share.index < remainder else ()
    return frozenset((*range(start, start + size), *tail))


@dataclass(frozen=True, slots=True)
class CapacityTerms:
    """The values that make up a revision's capacity, so that it can be explained.

    Attributes:
        container_concurrency: limit of requests in flight at one pod; 0 for no limit.
        usable: usable pods; with the ClusterIP, pods that Kubernetes lists as ready.
        own: numbers of the pods in the activator's share, in the order of their addresses.
        share: the position of this activator among the activators of the revision.
        borrow: whether the activator uses pods beyond its share once its own are full.
        by_service: whether requests go to the ClusterIP.
        setting: the name of the field or annotation that has ``container_concurrency``; empty
            if none has.
        peer: the activator that gets this one's requests, see throttler.backends; empty for none.
    """

    container_concurrency: int
    usable: int
    own: Sequence[int]
    share: ActivatorShare
    borrow: bool
    by_service: bool = False
    setting: str = "containerConcurrency"
    peer: str = ""

    @property
    def in_reach(self) -> int:
        """Number of pods that this activator may send requests to."""
        return self.usable if self.borrow else len(self.own)

    @property
    def capacity(self) -> int:
        """Limit of requests in flight from this activator."""
        if self.by_service:
            return service_capacity(self.container_concurrency, self.usable, self.share.count)
        return revision_capacity(self.container_concurrency, self.in_reach)

    @property
    def sentence(self) -> str:
        """The calculation as one sentence, for people."""
        limit, capacity, count = self.container_concurrency, self.capacity, self.share.count
        pods = _pods(self.usable, "ready" if self.by_service else "usable")
        way = ", through the ClusterIP" if self.by_service else ""
        zero = f" ({self.setting} is 0)" if self.setting else ""
        if limit == 0:
            return f"{pods} without {'limit' if capacity else 'a limit per pod'}{zero}{way}"
        whole = f"{pods} × {limit}"
        if self.by_service:
            divided = f" ÷ {count} activators" if count > 1 else ""
            return f"{whole}{divided} = {capacity}{way}"
        position = f"activator {self.share.index + 1} of {count}"
        if self.peer:
            return f"fewer pods than activators: {position} sends requests to activator {self.peer}"
        if len(self.own) == self.usable:
            return f"{whole} = {capacity}"
        in_share = revision_capacity(limit, len(self.own))
        share = f"{_pods(len(self.own))} ({_ranges(self.own)}) × {limit} = {in_share}"
        if not self.borrow:
            return f"{pods} ÷ {count} activators; share of {position}: {share}"
        return f"{whole} = {capacity}; share of {position}: {share}, then it borrows the others"


def _pods(count: int, which: str = "") -> str:
    return " ".join(filter(None, (str(count), which, "pod" if count == 1 else "pods")))


def _ranges(numbers: Iterable[int]) -> str:
    """Return numbers, counted from 0, as ranges that count from 1: ``1-3, 7``."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1]:
            runs[-1][-1] = number + 1
        else:
            runs.append([number + 1, number + 1])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def service_capacity(container_concurrency: int, ready: int, activators: int) -> int:
    """Return the limit of requests in flight at one ClusterIP from this activator.

    A mesh chooses the pod, so the activators cannot share pods. They divide the capacity instead.

    Arguments:
        container_concurrency: limit of one pod; 0 for no limit.
        ready: pods that Kubernetes lists as ready; without one the ClusterIP has no backend.
        activators: number of activators; 0 if unknown.
    """
    whole = revision_capacity(container_concurrency, ready)
    if container_concurrency == 0 or ready == 0:
        return whole
    return max(whole // max(activators, 1), 1)


def revision_capacity(container_concurrency: int, pods: int) -> int:
    """Return the limit of requests in flight at ``pods`` pods together; 0 without a pod.

    Without a limit per pod (containerConcurrency 0), the capacity is unbounded with the first pod.
    """
    if pods == 0:
        return 0
    return min(container_concurrency * pods, MAX_CAPACITY) or MAX_CAPACITY
