"""What the throttler's tests have in common: short ways to make a revision, its pods, a request."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable

from hypothesis import HealthCheck, settings

from throttler.budget import Budget, SharedBudget
from throttler.changes import Changes
from throttler.deadlines import Deadlines
from throttler.mesh import REACH
from throttler.model import AppProtocol, Dest, Dests, MeshMode, ReadinessRule, Revision, RevisionID
from throttler.pod import PodTracker
from throttler.revision import RevisionThrottler
from throttler.silence import Silence
from throttler.throttler import Limits, Throttler
from throttler.ticket import FOLLOWS, Ticket, TicketState

NAME = RevisionID("default", "hello-00001")
HTTP1 = AppProtocol.HTTP1
H2C = AppProtocol.H2C
_PROBE, _EXEC = ReadinessRule.PROBE, ReadinessRule.EXEC_READINESS_PROBE

#: Judge what the throttler decides, not how busy the machine is while it does.
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


class Owner:
    """Nobody: the throttler itself never calls a ticket's owner."""

    def ticket_assigned(self) -> None:
        raise AssertionError("the throttler acts, but it may only decide")

    ticket_expired = ticket_assigned


OWNER = Owner()


class WatchedTicket(Ticket):
    """A ticket that refuses a state which may not follow, and remembers all that it had."""

    __slots__ = ("number", "states")
    number: int
    states: list[TicketState]

    def __init__(self, number: int, deadline: float, size: int = 0) -> None:
        object.__setattr__(self, "states", [])
        super().__init__(OWNER, deadline, size)
        self.number = number

    def __setattr__(self, name: str, value: object) -> None:
        if name == "state":
            assert isinstance(value, TicketState)
            if self.states:
                assert value in FOLLOWS[self.states[-1]], f"{self.states} -> {value}"
            self.states.append(value)
        super().__setattr__(name, value)

    def __repr__(self) -> str:
        return f"#{self.number}"


def revision(
    container_concurrency: int = 0,
    *,
    id: RevisionID = NAME,
    uid: str = "uid-1",
    protocol: AppProtocol = HTTP1,
    readiness: ReadinessRule = _PROBE,
) -> Revision:
    return Revision(
        id=id,
        uid=uid,
        container_concurrency=container_concurrency,
        protocol=protocol,
        readiness=readiness,
    )


def dests(ready: Iterable[Dest | str] = (), not_ready: Iterable[Dest | str] = ()) -> Dests:
    def one(dest: Dest | str) -> Dest:
        return dest if isinstance(dest, Dest) else Dest(dest)

    return Dests(frozenset(map(one, ready)), frozenset(map(one, not_ready)))


def addresses(count: int, first: int = 0) -> list[str]:
    """Return so many addresses, sorted as strings."""
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
        self.widening: set[RevisionThrottler] = set()
        self.total = SharedBudget(2 * depth, 2 * max_bytes)
        self.silence = Silence()
        self.throttler = RevisionThrottler(
            revision(container_concurrency, readiness=_PROBE if probe_suffices else _EXEC),
            Budget(depth, max_bytes),
            self.total,
            self.deadlines,
            self.widening,
            random.Random(seed).random,
            borrow,
            REACH[mode, addressable],
            shed_early,
            self.silence,
        )
        self.throttler.set_service(service, self.now)
        self.tickets: list[WatchedTicket] = []

    @property
    def widen_at(self) -> float | None:
        return self.throttler.slow_start.at

    def set_dests(
        self, ready: Iterable[Dest | str] = (), not_ready: Iterable[Dest | str] = ()
    ) -> Changes:
        return self.throttler.set_dests(dests(ready, not_ready), self.now)

    def pod(self, address: str, uid: str = "") -> PodTracker:
        """Return the pod at an address."""
        return next(p for p in self.throttler.pods() if p.dest == (address, uid))

    def failed(self, pod: PodTracker, status: int | None = 503) -> Changes | None:
        """A pod answers its probe with another status, or not at all."""
        return self.throttler.probe_failed(pod, pod.epoch, f"{status}", self.now, status)

    def passed(self, pod: PodTracker) -> Changes | None:
        return self.throttler.probe_passed(pod, pod.epoch, self.now)

    def healthy(self, ready: Collection[Dest | str]) -> list[PodTracker]:
        """List these pods and pass all their probes; return them sorted by address."""
        changes = self.set_dests(ready)
        for pod in changes.probe:
            self.passed(pod)
        return sorted(self.throttler.pods(), key=lambda p: p.address)

    def request(self, timeout: float = 60.0, size: int = 0) -> WatchedTicket:
        """Make a request a millisecond later, and admit it."""
        self.now += 0.001
        ticket = WatchedTicket(len(self.tickets), self.now + timeout, size)
        self.tickets.append(ticket)
        assert self.throttler.admit(ticket, self.now) is ticket.pod
        return ticket

    def requests(self, count: int) -> list[WatchedTicket]:
        return [self.request() for _ in range(count)]

    def release(self, ticket: Ticket) -> list[Ticket]:
        """End a request; return who got a pod by that."""
        changes = self.throttler.release(ticket, self.now)
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
    ) -> None:
        self.now = 0.0
        self.throttler = Throttler(
            limits or Limits(), random.Random(seed).random, own_ip=own_ip, borrow=borrow
        )
        self.made = 0

    def set_dests(
        self,
        ready: Iterable[Dest | str] = (),
        not_ready: Iterable[Dest | str] = (),
        *,
        id: RevisionID = NAME,
        protocol: AppProtocol = HTTP1,
    ) -> Changes | None:
        return self.throttler.set_dests(id, {protocol: dests(ready, not_ready)}, self.now)

    def find(self, id: RevisionID = NAME) -> RevisionThrottler:
        return self.throttler.find(id.namespace, id.name)

    def pass_all(self, changes: Changes | None) -> list[Ticket]:
        """Pass the probes that are asked for; return who got a pod by that."""
        assert changes is not None
        assigned: list[Ticket] = []
        for pod in changes.probe:
            follow = pod.revision.probe_passed(pod, pod.epoch, self.now)
            assigned += follow.assigned if follow else []
        return assigned

    def request(self, id: RevisionID = NAME, timeout: float = 60.0, size: int = 0) -> WatchedTicket:
        self.now += 0.001
        self.made += 1
        ticket = WatchedTicket(self.made, self.now + timeout, size)
        self.find(id).admit(ticket, self.now)
        return ticket
