"""One run of a scenario under one rule: clients, network, pods, and the counts of requests.

Same scenario and same seed give the same arrivals, service times and faults under each rule.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final, final

from benchmarks.simulation.agenda import Agenda
from benchmarks.simulation.cluster import Cluster
from benchmarks.simulation.knative import Knative
from benchmarks.simulation.load import Arrival, Rate, service_times
from benchmarks.simulation.measures import Measures, Result
from benchmarks.simulation.pods import GONE, STARTING, Pod
from benchmarks.simulation.product import Product
from benchmarks.simulation.random_choice import RandomChoice
from benchmarks.simulation.requests import Activator, Request
from benchmarks.simulation.scaling import Scaler
from benchmarks.simulation.scenario import RuleName, Scenario

#: Seconds until an activator knows that a connection was refused, or that a pod has died.
ROUND_TRIP: Final = 0.001
#: Seconds between two samples of the pods' load.
SAMPLE_EVERY: Final = 0.5
#: Seconds after the last arrival in which requests may still end. Others count as failed.
PATIENCE: Final = 60.0


@final
class World:
    """One run.

    Arguments:
        scenario: see Scenario.
        rule: by which all activators decide.
        seed: of all random numbers.

    Attributes:
        agenda, cluster, scaler, measures: its parts.
        arrived: requests so far.
    """

    def __init__(self, scenario: Scenario, rule: RuleName, seed: int) -> None:
        def stream(name: str) -> Random:
            return Random(f"{scenario.name} {seed} {name}")

        self._scenario = scenario
        self._rule = rule
        self._rule_numbers = stream(f"rule {rule}")
        self._clients = stream("arrivals")
        self._rate = Rate(scenario.arrival_law, scenario.rate, self._clients, scenario.steps)
        self._service = service_times(
            scenario.service_law, scenario.service, stream("service times")
        )
        self.agenda = Agenda()
        self.measures = Measures()
        self.scaler = (
            Scaler(scenario.scaling, self.agenda, stream("reports")) if scenario.scaling else None
        )
        self.cluster = Cluster(scenario, self.agenda, stream("faults"), self)
        self.arrived = 0
        self._open: set[Request] = set()

    # -- one run --------------------------------------------------------------------------------

    def run(self) -> Result:
        """Run all arrivals, wait until the last request ends, and return the figures."""
        scenario, agenda = self._scenario, self.agenda
        self.cluster.begin()
        if self.scaler is not None:
            self.scaler.begin(self.cluster, self._decided)
        agenda.at(scenario.warm_up, self._sample)
        route, service = self._clients.random, self._service
        for at in self._rate.arrivals(scenario.seconds):
            if agenda.next() <= at:
                agenda.run(at)
            agenda.now = at
            self._arrive(Arrival(at, service(), route()))
        agenda.run(scenario.seconds)
        self._drain()
        return self.measures.result()

    def _drain(self) -> None:
        """Let the requests end that are left; the rest has failed."""
        agenda, until = self.agenda, self.agenda.now + PATIENCE
        while self._open and agenda.next() <= until:
            agenda.run(agenda.next())
        for request in list(self._open):
            self._end(request)
            if self._counts(request):
                self.measures.failed += 1

    def _arrive(self, arrival: Arrival) -> None:
        member = self.cluster.routed(arrival.route)
        request = Request(arrival, member.rule)
        self.arrived += 1
        self._open.add(request)
        if self.scaler is not None:
            self.scaler.began(request, member)
        self.cluster.arrived()
        member.rule.arrived(request)

    def make(self, address: str, *, settled: bool) -> Activator:
        """Return a new activator with the rule of this run."""
        limit = self._scenario.limit
        numbers = Random(self._rule_numbers.random())
        match self._rule:
            case RuleName.KNATIVE:
                return Knative(self, self.agenda, numbers, address, limit, settled=settled)
            case RuleName.RANDOM:
                return RandomChoice(self, numbers)
            case RuleName.PRODUCT | RuleName.STRICT:
                borrow = self._rule is RuleName.PRODUCT
                return Product(
                    *(self, self.agenda, numbers, address, limit), borrow=borrow, settled=settled
                )

    # -- the network ----------------------------------------------------------------------------

    def send(self, request: Request, address: str) -> None:
        """See Network."""
        pod = self.cluster.pods[address]
        request.pod = pod
        if not pod.takes_requests:
            self._return(request, pod, request.activator.refused)
        elif pod.has_free_slot:
            self._begin(request, pod)
        elif pod.is_full:
            self._return(request, pod, request.activator.rejected)
        else:
            self.measures.at_queue_proxy += self._counts(request)
            self.began_waiting(request)
            pod.queue.append(request)

    def _return(self, request: Request, pod: Pod, event: Callable[[Request, Pod], None]) -> None:
        self.agenda.at(self.agenda.now + ROUND_TRIP, self._returned, request, pod, event)

    def _returned(self, request: Request, pod: Pod, event: Callable[[Request, Pod], None]) -> None:
        request.pod = None
        event(request, pod)

    def began_waiting(self, request: Request) -> None:
        """See Network. Counts a request once."""
        if not request.waited:
            request.waited = True
            if self._counts(request):
                self.measures.waited += 1
                self.measures.beside_idle += self.cluster.free > 0

    def failed(self, request: Request) -> None:
        """See Network."""
        self._end(request)
        self.measures.failed += self._counts(request)

    def probe(self, address: str) -> bool | None:
        """See Network."""
        pod = self.cluster.pods[address]
        if pod.phase is GONE:
            return None
        return pod.phase is not STARTING

    # -- pods -----------------------------------------------------------------------------------

    def _begin(self, request: Request, pod: Pod) -> None:
        """Let the application of a pod begin to work on a request."""
        request.began = now = self.agenda.now
        pod.running.add(request)
        if pod.in_reach and not pod.has_free_slot:
            self.cluster.free -= 1
        self.agenda.at(now + request.service, self._complete, request, pod)

    def _complete(self, request: Request, pod: Pod) -> None:
        if request.pod is not pod:
            return  # the pod has died
        request.pod = None
        if pod.in_reach and not pod.has_free_slot:
            self.cluster.free += 1
        pod.running.remove(request)
        if pod.queue:
            self._begin(pod.queue.popleft(), pod)
        if self._counts(request):
            self.measures.served(request.began - request.arrived)
        self._end(request)
        request.activator.ended(request, pod)

    def lose(self, pod: Pod) -> None:
        """Return all requests of a pod that has died to their activators."""
        requests = [*pod.running, *pod.queue]
        requests.sort(key=lambda request: request.arrived)
        pod.running.clear()
        pod.queue.clear()
        for request in requests:
            request.pod = None
            self._return(request, pod, request.activator.lost)

    # -- counts ---------------------------------------------------------------------------------

    def _counts(self, request: Request) -> bool:
        return request.arrived >= self._scenario.warm_up

    def _end(self, request: Request) -> None:
        self._open.discard(request)
        if self.scaler is not None:
            self.scaler.ended(request)

    def _sample(self) -> None:
        self.measures.sample(self.cluster.serving())
        if self.agenda.now + SAMPLE_EVERY < self._scenario.seconds:
            self.agenda.at(self.agenda.now + SAMPLE_EVERY, self._sample)

    def _decided(self, desired: int) -> None:
        scaling = self._scenario.scaling
        assert scaling is not None
        if self._scenario.warm_up <= self.agenda.now <= self._scenario.seconds:
            ideal = -int(-self._rate.now * self._scenario.service // scaling.target)
            self.measures.decided(desired, ideal)


def run(scenario: Scenario, rule: RuleName, seed: int) -> Result:
    """Return the figures of one run."""
    return World(scenario, rule, seed).run()
