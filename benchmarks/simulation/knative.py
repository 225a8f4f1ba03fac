"""Knative's rules: shares without borrowing, rounds of probes, and a gate that lets overtake.

A model of pkg/activator/net/{throttler,lb_policy,revision_backends}.go and pkg/queue/breaker.go.
Differences: dials to pods that are gone fail at once, instead of after up to 20 s.
"""

from __future__ import annotations

from collections import deque
from random import Random
from typing import Final, final

from benchmarks.simulation.agenda import Agenda
from benchmarks.simulation.pods import Pod
from benchmarks.simulation.requests import Network, Request
from throttler.model import ListedEndpoints
from throttler.pod import FreePods

#: Seconds between two rounds of probes (PROBE_FREQUENCY), and of one round (PROBE_TIMEOUT).
ROUND_EVERY: Final = 0.2
ROUND_TAKES: Final = 0.3
#: Seconds of a round in which each pod responds, if only to refuse.
ROUND_RESPONDS: Final = 0.001
#: Seconds from a freed slot until the goroutine that waits for it runs.
WAKES_AFTER: Final = 0.000_05
#: Up to this containerConcurrency, requests fill one pod before the next.
FIRST_AVAILABLE_UP_TO: Final = 3


def assign_slice(pods: list[str], index: int, count: int) -> list[str]:
    """Return the pods of one activator (assignSlice of throttler.go).

    Arguments:
        pods: sorted addresses.
        index: of the activator; -1 while it is not listed. count: number of activators.
    """
    if index < 0 or len(pods) <= 1 or count <= 1:
        return pods
    if count > len(pods):
        return [pods[index % len(pods)]]
    size, rest = divmod(len(pods), count)
    own = pods[index * size : (index + 1) * size]
    return [*own, pods[len(pods) - rest + index]] if index < rest else own


@final
class Knative:
    """One activator under Knative's rules.

    Arguments:
        address: its own address; limit: containerConcurrency.
        settled: whether the first list of endpoints is of pods that have passed their probes.
    """

    def __init__(
        self,
        network: Network,
        agenda: Agenda,
        random: Random,
        address: str,
        limit: int,
        *,
        settled: bool = True,
    ) -> None:
        self._network = network
        self._agenda = agenda
        self._random = random.random
        self._address = address
        self._limit = limit
        self._settled = settled
        self._index, self._count = -1, 0
        self._listed: frozenset[str] = frozenset()
        self._healthy: set[str] = set()
        self._next_list: frozenset[str] | None = None
        self._in_round = False
        self._ticks = False
        self._own: list[str] = []
        self._numbers: dict[str, int] = {}
        self._free = FreePods(0)
        self._in_flight: dict[str, int] = {}
        self._total = 0
        self._next = 0
        self._waiting: deque[Request] = deque()

    # -- requests -------------------------------------------------------------------------------

    def arrived(self, request: Request) -> None:
        """See Activator."""
        if self._has_capacity():
            self.assigned(request)
        else:
            self._waiting.append(request)
            self._network.began_waiting(request)

    def _has_capacity(self) -> bool:
        if self._limit == 0:
            return bool(self._own)
        # After a change of the pods, the gate may be open although all of them are full.
        return self._total < self._limit * len(self._own) and self._free.summary > 0

    def assigned(self, request: Request) -> None:
        """See Activator."""
        address = self._pick_of_two() if self._limit == 0 else self._pick()
        self._total += 1
        self._in_flight[address] += 1
        if self._in_flight[address] == self._limit:
            self._free.discard(self._numbers[address])
        self._network.send(request, address)

    def _pick(self) -> str:
        number = self._free.next(0 if self._limit <= FIRST_AVAILABLE_UP_TO else self._next)
        self._next = number + 1
        return self._own[number]

    def _pick_of_two(self) -> str:
        own = self._own
        first = int(self._random() * len(own))
        if len(own) == 1:
            return own[0]
        second = (first + 1 + int(self._random() * (len(own) - 1))) % len(own)
        a, b = own[first], own[second]
        return b if self._in_flight[b] < self._in_flight[a] else a

    def expired(self, request: Request) -> None:
        """See Activator."""
        self._network.failed(request)

    def ended(self, request: Request, pod: Pod) -> None:
        """See Activator."""
        self._total -= 1
        self._in_flight[pod.address] -= 1
        if (number := self._numbers.get(pod.address)) is not None and self._limit:
            self._free.add(number)
        self._wake(1)

    def refused(self, request: Request, pod: Pod) -> None:
        """See Activator."""
        self.ended(request, pod)
        self._network.failed(request)

    rejected = lost = refused

    def _wake(self, count: int) -> None:
        """Wake the goroutines that wait longest; a new request may be faster."""
        for _ in range(min(count, len(self._waiting))):
            self._agenda.at(self._agenda.now + WAKES_AFTER, self._woken)

    def _woken(self) -> None:
        if not self._waiting:
            return
        request = self._waiting.popleft()
        if self._has_capacity():
            self.assigned(request)
        else:
            self._waiting.append(request)  # overtaken: it waits again, behind all others

    # -- lists ----------------------------------------------------------------------------------

    def set_activators(self, addresses: frozenset[str]) -> None:
        """See Activator."""
        if self._address not in addresses:
            return
        self._index, self._count = sorted(addresses).index(self._address), len(addresses)
        self._assign()

    def set_endpoints(self, listed: ListedEndpoints) -> None:
        """See Activator."""
        both = frozenset(endpoint.address for endpoint in listed.ready | listed.not_ready)
        if self._settled:
            self._settled = False
            self._listed, self._healthy = both, set(both)
            self._assign()
        else:
            self._next_list = both
            if not self._in_round:
                self._begin_round()

    # -- probes ---------------------------------------------------------------------------------

    def _begin_round(self) -> None:
        if self._next_list is not None:
            self._listed, self._next_list = self._next_list, None
        before = len(self._healthy)
        self._healthy &= self._listed
        missing = self._listed - self._healthy
        if not missing:
            if len(self._healthy) != before:
                self._assign()
            return
        results = {address: self._network.probe(address) for address in missing}
        passed = {address for address, result in results.items() if result}
        self._in_round = True
        takes = ROUND_TAKES if None in results.values() else ROUND_RESPONDS
        self._agenda.at(self._agenda.now + takes, self._end_round, passed)

    def _end_round(self, passed: set[str]) -> None:
        self._in_round = False
        self._healthy |= passed
        self._assign()
        if self._next_list is not None:
            self._begin_round()
        elif self._healthy != self._listed and not self._ticks:
            self._ticks = True
            self._agenda.at(self._agenda.now + ROUND_EVERY, self._tick)

    def _tick(self) -> None:
        self._ticks = False
        if not self._in_round:
            self._begin_round()

    def _assign(self) -> None:
        """Take the share of the pods; wake requests for all new slots."""
        before = self._limit * len(self._own)
        pods = sorted(self._healthy)
        # Without a limit there are no shares.
        self._own = assign_slice(pods, self._index, self._count) if self._limit else pods
        self._numbers = {address: number for number, address in enumerate(self._own)}
        self._free = FreePods(len(self._own))
        for number, address in enumerate(self._own):
            if self._in_flight.setdefault(address, 0) < self._limit:
                self._free.add(number)
        if self._limit == 0:
            self._wake(len(self._waiting) if self._own else 0)
        else:
            self._wake(max(self._limit * len(self._own) - min(before, self._total), 0))
