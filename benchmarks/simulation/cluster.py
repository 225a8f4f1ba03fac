"""The pods and the activators of one run, and the lists of them that reach each activator late."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Final, Protocol, final

from benchmarks.simulation.agenda import Agenda
from benchmarks.simulation.pods import DRAINING, GONE, SERVING, Pod
from benchmarks.simulation.requests import Activator
from benchmarks.simulation.scenario import Scenario
from throttler.model import Endpoint, ListedEndpoints

#: Seconds from a new pod's creation until it serves, within START_VARIES of them; and seconds until
#: Kubernetes lists it as ready.
STARTS_AFTER: Final = 2.0
START_VARIES: Final = 0.25
READY_AFTER: Final = 1.0
#: Seconds for which a pod that ends still accepts connections (queue-proxy's quiet period).
DRAINS_FOR: Final = 30.0
#: Seconds until Kubernetes no longer lists a pod that has died.
DEATH_SEEN_AFTER: Final = 1.0
#: Seconds until the ingress no longer sends requests to an activator that ends.
LAME_DUCK: Final = 1.0


class Factory(Protocol):
    """Makes activators, and takes the requests of pods that die."""

    def make(self, address: str, *, settled: bool) -> Activator:
        """Return a new activator."""

    def lose(self, pod: Pod) -> None:
        """Return all requests of a pod that has died to their activators."""


@final
class Member:
    """One activator of the run.

    Attributes:
        number: from 0; address: its own; rule: its decisions.
    """

    __slots__ = ("address", "listed_at", "number", "rule")

    def __init__(self, number: int, rule: Activator, address: str) -> None:
        self.number = number
        self.rule = rule
        self.address = address
        self.listed_at = 0.0


@final
class Cluster:
    """All pods and activators.

    Attributes:
        pods: all that ever were, by address.
        free: pods in reach with a free slot.
    """

    def __init__(
        self, scenario: Scenario, agenda: Agenda, faults: Random, factory: Factory
    ) -> None:
        self._scenario = scenario
        self._agenda = agenda
        self._faults = faults
        self._factory = factory
        self._listed: dict[Endpoint, bool] = {}
        self._current: dict[Pod, None] = {}
        self._members: list[Member] = []
        self._made = 0
        self._asleep = scenario.cold
        self.pods: dict[str, Pod] = {}
        self.free = 0

    # -- the start ------------------------------------------------------------------------------

    def begin(self) -> None:
        """Start the first pods and activators, and plan the faults."""
        scenario = self._scenario
        for _ in range(0 if scenario.cold else scenario.pods):
            pod = self._new_pod()
            pod.phase = SERVING
            self._listed[pod.endpoint] = True
            self._reach(pod)
        for _ in range(scenario.activators):
            self._add_member(settled=not scenario.cold)
        listed, addresses = self._list(), self._addresses()
        for member in self._members:
            member.rule.set_activators(addresses)
            member.rule.set_endpoints(listed)
        span = scenario.seconds - scenario.warm_up
        for count, fault in (
            (scenario.replaced, self._replace),
            (scenario.killed, self._kill),
            (scenario.rolled, self._roll),
        ):
            for number in range(count):
                self._agenda.at(scenario.warm_up + span * number / count, fault)

    def arrived(self) -> None:
        """Start the pods of a cold scenario with the first request."""
        if self._asleep:
            self._asleep = False
            self.set_replicas(self._scenario.pods)

    # -- activators -----------------------------------------------------------------------------

    def routed(self, route: float) -> Member:
        """Return the activator that the ingress chooses by a random number in [0, 1)."""
        members, skew = self._members, self._scenario.skew
        if not skew:
            return members[int(route * len(members))]
        if route < skew:
            return members[0]
        return members[1 + int((route - skew) / (1.0 - skew) * (len(members) - 1))]

    def _add_member(self, *, settled: bool) -> Member:
        number = self._made_member()
        address = f"10.1.{number // 250}.{number % 250 + 1}"
        member = Member(number, self._factory.make(address, settled=settled), address)
        self._members.append(member)
        return member

    def _made_member(self) -> int:
        self._made += 1
        return self._made - 1

    def _addresses(self) -> frozenset[str]:
        return frozenset(member.address for member in self._members)

    def _roll(self) -> None:
        """Replace the oldest activator: its requests end, new ones go to another."""
        new = self._add_member(settled=False)
        new.rule.set_activators(self._addresses())
        new.rule.set_endpoints(self._list())
        self._publish_activators()
        self._agenda.at(self._agenda.now + LAME_DUCK, self._remove_member)

    def _remove_member(self) -> None:
        del self._members[0]
        self._publish_activators()

    def _publish_activators(self) -> None:
        addresses = self._addresses()
        for member in self._members:
            self._deliver(member, member.rule.set_activators, addresses)

    # -- pods -----------------------------------------------------------------------------------

    @property
    def replicas(self) -> int:
        """Number of pods that are wanted."""
        return len(self._current)

    @property
    def ready(self) -> int:
        """Number of pods that Kubernetes lists as ready."""
        return sum(self._listed.values())

    def serving(self) -> Iterator[Pod]:
        """Iterate over the pods that are wanted and serve."""
        return (pod for pod in self._current if pod.phase is SERVING)

    def set_replicas(self, wanted: int, starts_after: float = STARTS_AFTER) -> None:
        """Start new pods, or end the youngest."""
        while len(self._current) < wanted:
            pod = self._new_pod()
            self._listed[pod.endpoint] = False
            self._agenda.at(self._starts(starts_after), self._serves, pod, None)
        for pod in list(reversed(self._current))[: len(self._current) - wanted]:
            self._end(pod)
        self._publish()

    def _starts(self, after: float) -> float:
        """Return when a pod that starts now serves."""
        return self._agenda.now + after * (1 + START_VARIES * (2 * self._faults.random() - 1))

    def _new_pod(self) -> Pod:
        pod = Pod(len(self.pods), self._scenario.limit)
        self.pods[pod.address] = pod
        self._current[pod] = None
        return pod

    def _serves(self, pod: Pod, replaces: Pod | None) -> None:
        if pod in self._current:
            pod.phase = SERVING
            self._agenda.at(self._agenda.now + READY_AFTER, self._is_ready, pod, replaces)

    def _is_ready(self, pod: Pod, replaces: Pod | None) -> None:
        if pod not in self._current:
            return
        self._listed[pod.endpoint] = True
        if replaces is not None and replaces in self._current:
            self._end(replaces)
        self._publish()
        self._agenda.at(self._agenda.now + self._scenario.late + 1.0, self._reach, pod)

    def _reach(self, pod: Pod) -> None:
        """Record that each activator has had the time to know a pod."""
        if pod in self._current and pod.phase is SERVING and not pod.in_reach:
            pod.in_reach = True
            self.free += pod.has_free_slot

    def _unreach(self, pod: Pod) -> None:
        if pod.in_reach:
            self.free -= pod.has_free_slot
            pod.in_reach = False

    def _end(self, pod: Pod) -> None:
        """End a pod in order: no activator should send it requests; it still accepts some."""
        self._unreach(pod)
        del self._current[pod]
        self._listed.pop(pod.endpoint, None)
        pod.phase = DRAINING if pod.phase is SERVING else GONE
        self._agenda.at(self._agenda.now + DRAINS_FOR, self._gone, pod)

    def _gone(self, pod: Pod) -> None:
        if pod.in_flight:
            self._agenda.at(self._agenda.now + 1.0, self._gone, pod)
        else:
            pod.phase = GONE

    # -- faults ---------------------------------------------------------------------------------

    def _replace(self) -> None:
        """Start a pod that replaces the oldest one."""
        old, new = next(iter(self._current)), self._new_pod()
        self._listed[new.endpoint] = False
        self._agenda.at(self._starts(STARTS_AFTER), self._serves, new, old)
        self._publish()

    def _kill(self) -> None:
        """Let a random pod die, and start another one."""
        pods = list(self.serving())
        if not pods:
            return
        pod = pods[int(self._faults.random() * len(pods))]
        self._unreach(pod)
        pod.phase = GONE
        del self._current[pod]
        self._factory.lose(pod)
        self._agenda.at(self._agenda.now + DEATH_SEEN_AFTER, self._death_seen, pod)

    def _death_seen(self, pod: Pod) -> None:
        self._listed.pop(pod.endpoint, None)
        new = self._new_pod()
        self._listed[new.endpoint] = False
        self._agenda.at(self._starts(STARTS_AFTER), self._serves, new, None)
        self._publish()

    # -- lists ----------------------------------------------------------------------------------

    def _list(self) -> ListedEndpoints:
        return ListedEndpoints(
            frozenset(endpoint for endpoint, ready in self._listed.items() if ready),
            frozenset(endpoint for endpoint, ready in self._listed.items() if not ready),
        )

    def _publish(self) -> None:
        """Send the list of pods to each activator, each time late by another time."""
        listed = self._list()
        for member in self._members:
            self._deliver(member, member.rule.set_endpoints, listed)

    def _deliver(self, member: Member, event: object, value: object) -> None:
        """Deliver a list after a random time, and after all earlier lists."""
        assert callable(event)
        late = self._faults.random() * self._scenario.late
        member.listed_at = max(member.listed_at, self._agenda.now + late)
        self._agenda.at(member.listed_at, event, value)
