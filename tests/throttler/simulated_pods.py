"""Pods whose response time depends on their requests in flight, in virtual time.

A run sends random arrivals through one revision's throttler, and measures each request from its
arrival to its response. Tests and benchmarks share it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush

from tests.throttler.world import OWNER, One, addresses, revision
from throttler.model import Policies
from throttler.ticket import FAILED, SERVED, Ticket

#: Returns the seconds that a response takes, by the requests in flight at the pod.
Speed = Callable[[int], float]


def collapsing(base: float, beyond: int) -> Speed:
    """Return a pod that gets slower with the square of its requests beyond a number."""
    return lambda in_flight: base * max(1.0, (in_flight / beyond) ** 2)


def steady(base: float) -> Speed:
    """Return a pod that is as fast with any number of requests."""
    return lambda in_flight: base


@dataclass
class Run:
    """One simulation, and its result.

    Attributes:
        speed: of each pod; pods: their number.
        arrivals: pairs of seconds and requests a second, one after the other.
        spread: response times vary by so much to both sides, as a share.
        failing: returns whether a pod fails a request, by its requests in flight.
    """

    policies: Policies
    speed: Speed
    arrivals: list[tuple[float, float]]
    pods: int = 1
    spread: float = 0.2
    seed: int = 1
    failing: Callable[[int], bool] = lambda in_flight: False
    latencies: list[float] = field(default_factory=list)
    most: int = 0
    limits: list[int] = field(default_factory=list)

    def run(self) -> Run:
        """Run to the end of the arrivals; requests that have not ended count as that old."""
        luck, one = random.Random(self.seed), One(depth=1_000_000, max_bytes=1 << 30)
        self.one = one
        spec = replace(revision(), policies=self.policies)
        one.throttler.set_revision(spec, 0.0)
        self.tracked = one.healthy(addresses(self.pods))
        events: list[tuple[float, int, Ticket | None]] = []
        number, at = 0, 0.0
        for seconds, rate in self.arrivals:
            until = at + seconds
            while (at := at + luck.expovariate(rate)) < until:
                events.append((at, number := number + 1, None))
            at = until
        end, waiting = at, set[Ticket]()

        def begin(ticket: Ticket) -> None:
            nonlocal number
            assert ticket.pod is not None
            in_flight = ticket.pod.in_flight
            self.most = max(self.most, in_flight)
            took = self.speed(in_flight) * (1 + self.spread * (2 * luck.random() - 1))
            heappush(events, (one.now + took, number := number + 1, ticket))

        while events and events[0][0] <= end:
            one.now, _, ticket = heappop(events)
            changes = (
                one.throttler.raise_limits(one.now)
                if one.raise_at and one.raise_at <= one.now
                else None
            )
            for each in changes.assigned if changes else ():
                begin(each)
            if ticket is None:
                ticket = Ticket(OWNER, one.now + 1000.0)
                waiting.add(ticket)
                if one.throttler.admit(ticket, one.now) is not None:
                    begin(ticket)
                continue
            waiting.remove(ticket)
            self.latencies.append(one.now - ticket.arrived)
            assert ticket.pod is not None
            failed = self.failing(ticket.pod.in_flight)
            ticket.first_byte = ticket.pod.last_response_at = one.now
            changes = one.throttler.release(ticket, one.now, FAILED if failed else SERVED)
            self.limits.append(self.tracked[0].limit)
            for each in changes.assigned if changes else ():
                begin(each)
        self.served = len(self.latencies)
        self.latencies += [end - ticket.arrived for ticket in waiting]
        self.latencies.sort()
        return self

    def percentile(self, share: float) -> float:
        """Return a percentile of the times from arrival to response, seconds."""
        return self.latencies[int(share * (len(self.latencies) - 1))]
