"""Helpers of the throttler's tests: short ways to make a revision, its pods, a request."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType

from hypothesis import HealthCheck, settings

from throttler.model import (
    REACH,
    AppProtocol,
    Endpoint,
    ListedEndpoints,
    MeshMode,
    ReadinessRule,
    Revision,
    RevisionID,
)
from throttler.pod import PodTracker
from throttler.queue import Deadlines
from throttler.reason import Reason
from throttler.request_policies import QueueBudget, SharedBudget
from throttler.revision import RevisionThrottler
from throttler.slots import Silence
from throttler.throttler import Limits, Throttler
from throttler.ticket import FOLLOWS, Changes, Ticket, TicketState

NAME = RevisionID("default", "hello-00001")
HTTP1 = AppProtocol.HTTP1
H2C = AppProtocol.H2C
NO_ZONES: Mapping[str, str] = MappingProxyType({})
_PROBE, _EXEC = ReadinessRule.PROBE, ReadinessRule.EXEC_READINESS_PROBE

#: Judge the throttler's decisions, not the speed of the machine.
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


class Owner:
    """Has a ticket, and is never called: the throttler does no I/O."""

    def __init__(self, number: int) -> None:
        self.number = number

    def ticket_assigned(self) -> None:
        raise AssertionError("the throttler acts, but it may only decide")

    def ticket_expired(self, reason: Reason, detail: str) -> None:
        raise AssertionError("the throttler acts, but it may only decide")


OWNER = Owner(0)


def may_become(before: TicketState, after: TicketState) -> bool:
    """Return whether a ticket may get from one state to another, in any number of steps."""
    reached, seen = {before}, {before}
    while reached:
        reached = {state for each in reached for state in FOLLOWS[each]} - seen
        seen |= reached
    return after in seen


class Tickets(list[Ticket]):
    """The tickets of a world in order of their numbers, and the states that each was seen in."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: dict[Ticket, list[TicketState]] = {}

    def make(self, deadline: float, size: int = 0) -> Ticket:
        """Return a new ticket."""
        ticket = Ticket(Owner(len(self)), deadline, size)
        self.append(ticket)
        self._seen[ticket] = [ticket.state]
        return ticket

    def look(self) -> None:
        """Record the state of each ticket; fail where it could not follow the last one."""
        for ticket, states in self._seen.items():
            if ticket.state is not states[-1]:
                assert may_become(states[-1], ticket.state), f"{states} -> {ticket.state}"
                states.append(ticket.state)

    def states(self, ticket: Ticket) -> list[TicketState]:
        """Return the states that a ticket had."""
        return self._seen[ticket]


def revision(
    container_concurrency: int = 0,
    *,
    id: RevisionID = NAME,
    uid: str = "uid-1",
    protocol: AppProtocol = HTTP1,
    readiness: ReadinessRule = _PROBE,
    behind_queue_proxy: bool = True,
) -> Revision:
    return Revision(
        id=id,
        uid=uid,
        container_concurrency=container_concurrency,
        protocol=protocol,
        readiness=readiness,
        behind_queue_proxy=behind_queue_proxy,
    )


def endpoints(
    ready: Iterable[Endpoint | str] = (),
    not_ready: Iterable[Endpoint | str] = (),
    terminating: Iterable[Endpoint | str] = (),
) -> ListedEndpoints:
    def one(endpoint: Endpoint | str) -> Endpoint:
        return endpoint if isinstance(endpoint, Endpoint) else Endpoint(endpoint)

    return ListedEndpoints(*(frozenset(map(one, each)) for each in (ready, not_ready, terminating)))


def addresses(count: int, first: int = 0) -> list[str]:
    """Return that many addresses, sorted as strings."""
    return [f"10.0.{i // 100}.{100 + i % 100}:8012" for i in range(first, first + count)]


class One:
    """One revision by itself, its clock, and its requests by number."""

    def __init__(
        self,
        container_concurrency: int = 0,
        *,
        borrow: bool = True,
        depth: int = 1000,
        max_bytes: int = 1 << 20,
        probe_suffices: bool = True,
        seed: int = 1,
        mode: MeshMode = MeshMode.AUTO,
        addressable: bool = False,
        service: str = "",
        shed_early: bool = False,
    ) -> None:
        self.now = 0.0
        self.deadlines = Deadlines()
        self.total = SharedBudget(2 * depth, 2 * max_bytes)
        self.silence = Silence()
        self.throttler = RevisionThrottler(
            revision(container_concurrency, readiness=_PROBE if probe_suffices else _EXEC),
            QueueBudget(depth, max_bytes),
            self.total,
            self.deadlines,
            random.Random(seed).random,
            borrow,
            REACH[mode, addressable],
            shed_early,
            self.silence,
        )
        self.throttler.set_service(service, self.now)
        self.tickets = Tickets()

    @property
    def raise_at(self) -> float | None:
        return self.throttler.queue.slow_start.at

    def set_endpoints(
        self,
        ready: Iterable[Endpoint | str] = (),
        not_ready: Iterable[Endpoint | str] = (),
        terminating: Iterable[Endpoint | str] = (),
    ) -> Changes:
        listed = endpoints(ready, not_ready, terminating)
        return self.throttler.set_endpoints(listed, self.now)

    def pod(self, address: str, uid: str = "") -> PodTracker:
        """Return the pod at an address."""
        return next(
            p for p in self.throttler.backends.pods.values() if p.endpoint == (address, uid)
        )

    def failed(self, pod: PodTracker, status: int | None = 503) -> Changes | None:
        """Fail a pod's probe, by another status or a time-out."""
        return self.throttler.probe_failed(pod, pod.epoch, f"{status}", self.now, status)

    def passed(self, pod: PodTracker) -> Changes | None:
        return self.throttler.probe_passed(pod, pod.epoch, self.now)

    def healthy(self, ready: Collection[Endpoint | str]) -> list[PodTracker]:
        """List these pods and pass all their probes; return them sorted by address."""
        changes = self.set_endpoints(ready)
        for pod in changes.probe:
            self.passed(pod)
        return sorted(self.throttler.backends.pods.values(), key=lambda p: p.address)

    def request(self, timeout: float = 60.0, size: int = 0) -> Ticket:
        """Make a request a millisecond later, and admit it."""
        self.now += 0.001
        ticket = self.tickets.make(self.now + timeout, size)
        assert self.throttler.admit(ticket, self.now) is ticket.pod
        self.tickets.look()
        return ticket

    def requests(self, count: int) -> list[Ticket]:
        return [self.request() for _ in range(count)]

    def release(self, ticket: Ticket) -> list[Ticket]:
        """End a request; return the tickets that got its slot."""
        changes = self.throttler.release(ticket, self.now)
        self.tickets.look()
        return changes.assigned if changes else []


class Many:
    """A throttler of several revisions, and its clock."""

    def __init__(
        self,
        *,
        limits: Limits | None = None,
        own_ip: str = "",
        borrow: bool = True,
        seed: int = 1,
        zone: str = "",
    ) -> None:
        self.now = 0.0
        self.throttler = Throttler(
            limits or Limits(), random.Random(seed).random, own_ip, borrow, zone=zone
        )
        self.tickets = Tickets()

    def set_endpoints(
        self,
        ready: Iterable[Endpoint | str] = (),
        not_ready: Iterable[Endpoint | str] = (),
        terminating: Iterable[Endpoint | str] = (),
        *,
        id: RevisionID = NAME,
        protocol: AppProtocol = HTTP1,
        zones: Mapping[str, str] = NO_ZONES,
    ) -> Changes | None:
        listed = replace(endpoints(ready, not_ready, terminating), zones=zones)
        return self.throttler.set_endpoints(id, {protocol: listed}, self.now)

    def find(self, id: RevisionID = NAME) -> RevisionThrottler:
        return self.throttler.find(*id)

    def pass_all(self, changes: Changes | None) -> list[Ticket]:
        """Pass the probes that are due; return the tickets that got a pod."""
        assert changes is not None
        assigned: list[Ticket] = []
        for pod in changes.probe:
            revision = self.throttler.of(pod.config)
            assert revision is not None
            follow = revision.probe_passed(pod, pod.epoch, self.now)
            assigned += follow.assigned if follow else []
        return assigned

    def request(self, id: RevisionID = NAME, timeout: float = 60.0, size: int = 0) -> Ticket:
        self.now += 0.001
        ticket = self.tickets.make(self.now + timeout, size)
        self.find(id).admit(ticket, self.now)
        self.tickets.look()
        return ticket
