"""A random life of two revisions: what a walk records of each result, and checks after each step.

``tests/throttler/steps.py`` has the steps, ``tests/throttler/invariants.py`` the invariants.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

from tests.throttler import invariants
from tests.throttler.ledger import Fed, Ledger, Listed, Seen
from tests.throttler.turns import Turns
from tests.throttler.world import Tickets
from throttler.backends import PEER_UID as PEER
from throttler.balancing import policy_name
from throttler.model import REACH, AppProtocol, Endpoint, MeshMode, RevisionID, RevisionKind
from throttler.pod import PodState, PodTracker
from throttler.revision import RevisionThrottler
from throttler.throttler import Limits, Throttler
from throttler.ticket import ASSIGNED, QUEUED, Changes, Ticket

OWN_IP = "10.9.0.2"
#: A Revision and a Service with the same name; see ``Walk.plain``.
IDS = (RevisionID("default", "a"), RevisionID("default", "a", RevisionKind.SERVICE))
LIMITS = Limits(queue_depth=9, queue_bytes=120, queue_depth_total=14, queue_bytes_total=180)
#: Small numbers instead of the throttler's: see ``small_numbers`` of the test.
SMALL_START, SMALL_END, SHORT_PROOF, SHORT_SILENCE = 2, 8, 0.5, 1.0

ENDS = {"released", "timed-out", "cancelled", "rejected"}
Asked = tuple[PodTracker, int, int]


class Walk:
    """A throttler, its ledger, and the counts that show where a walk has been."""

    def __init__(self, seed: int, *, parks: bool = False) -> None:
        self.borrow = seed % 3 != 0
        self.sheds = seed % 2 == 0
        self.parks = parks  # requests wait for one pod, by class or flow
        self.plain = seed % 5 == 1  # the pods of the Service have no queue-proxy
        self.zoned = seed % 4 < 2  # this activator knows its zone
        self.throttler = Throttler(
            replace(LIMITS, shed_early=self.sheds),
            random.Random(seed).random,
            own_ip=OWN_IP,
            borrow=self.borrow,
            zone="a" if self.zoned else "",
        )
        self.now = 100.0
        self.step = 1
        self.in_two_steps = False
        self.feds: dict[RevisionID, Fed] = {}
        self.listed: dict[RevisionID, dict[AppProtocol, Listed]] = {id: {} for id in IDS}
        self.claimed: tuple[RevisionID, set[Endpoint]] = (IDS[0], set())
        self.activators: dict[RevisionID, list[str]] = {id: [] for id in IDS}
        self.reach = REACH[MeshMode.AUTO, False]
        self.tickets = Tickets()
        self.ledger = Ledger()
        self.seen: dict[PodTracker, Seen] = {}
        self.asked: list[Asked] = []
        self.gone: set[PodTracker] = set()
        self.services: dict[RevisionID, PodTracker | None] = {}
        self.cookies: list[bytes] = []
        self.failed: dict[Ticket, list[PodTracker]] = {}
        self.homes: dict[tuple[bytes, frozenset[str]], str] = {}
        self.been = Counter[str]()
        self.turns = Turns(self.been)

    # -- results of calls -----------------------------------------------------------------------

    def pods(self) -> list[PodTracker]:
        """Return all known pods and the ClusterIPs, in a repeatable order."""
        found = list[PodTracker]()
        for fed in self.feds.values():
            found += fed.real.backends.pods.values()
            service = fed.real.backends.service.tracker
            found += [service] if service else []
        held = {**dict.fromkeys(self.ledger.held.values())}
        return [*found, *(pod for pod in held if pod not in found)]

    def real_of(self, pod: PodTracker) -> RevisionThrottler:
        real = self.throttler.of(pod.config)
        assert real is not None
        return real

    def fed_of(self, ticket: Ticket) -> Fed:
        return next(fed for fed in self.feds.values() if fed.real.config is ticket.config)

    def assigned(self, ticket: Ticket) -> None:
        """Check the pod that a ticket got, and record it."""
        fed, pod = self.fed_of(ticket), ticket.pod
        assert pod is not None
        failed = self.failed.get(ticket, [])[-3:]
        policy = policy_name(fed.spec)
        if not self.in_two_steps:
            invariants.check_assigned(ticket, pod, fed, self.ledger, failed)
            if policy == "hash" and not failed and fed.real.slots.sticky is None:
                self.check_home(fed, ticket, pod)
        self.been["sticky"] += fed.real.slots.sticky is not None
        self.been[policy] += 1
        self.been["via service"] += pod.is_service
        self.been["in its zone"] += self.zoned and pod.zone == "a"
        self.been["outside of its zone"] += self.zoned and pod.zone in ("b", "c")
        if not self.ledger.count(pod):
            self.seen.setdefault(pod, Seen()).busy_since = self.now
        self.ledger.hold(ticket, pod)

    def check_home(self, fed: Fed, ticket: Ticket, pod: PodTracker) -> None:
        """The same set of free pods has the same pod for a key each time."""
        reach = invariants.in_reach(fed)
        places = frozenset(other.address for other in reach)
        if invariants.with_room(fed, self.ledger) == reach and len(places) == len(reach):
            assert pod.address == self.homes.setdefault((ticket.key, places), pod.address)

    def wake(self) -> None:
        overdue = [ticket for ticket in self.ledger.queued if ticket.deadline <= self.now]
        changes = self.throttler.run_due(self.now)
        assert sorted(changes.expired, key=id) == sorted(overdue, key=id)
        assert changes.expired == sorted(changes.expired, key=lambda t: t.deadline)
        for ticket in overdue:
            self.ledger.end(ticket)
        changes.expired.clear()
        for pod in self.pods():
            self.check_widening(pod)
        self.carry_out(changes)
        due = self.throttler.deadlines.next_due()
        assert due is None or due > self.now, "the timer would run in a circle"

    def check_widening(self, pod: PodTracker) -> None:
        """Only a full pod without a limit of its own gets a wider one: double, or none."""
        before = self.seen[pod].limit
        real = self.real_of(pod)
        if (
            real.slots.limiter is None
            and pod.limit != before
            and not real.revision.container_concurrency
        ):
            wider = before * 2 if before < SMALL_END else invariants.UNLIMITED
            assert pod.limit in (wider, self.ledger.count(pod) + SMALL_START)
            assert self.ledger.count(pod) >= before
            self.been["widened"] += 1

    def all_listed(self, id: RevisionID) -> Listed:
        """Return a revision's listed endpoints of all protocols."""
        found: Listed = {}
        for each in self.listed[id].values():
            for endpoint, ready in each.items():
                if not found.get(endpoint):
                    found[endpoint] = found.get(endpoint) if ready is None else ready
        return found

    def carry_out(self, changes: Changes | None) -> None:
        changes = changes or Changes()
        for fed in self.feds.values():
            self.turns.look(fed.real)
        for ticket in changes.assigned:
            real = self.fed_of(ticket).real
            waiting = self.ledger.waiting(real)
            if real.slots.holder is None:
                self.turns.check(ticket, waiting, self.now)
            else:
                self.turns.check_at_pod(ticket, waiting, real.slots.holder, self.now)
            self.assigned(ticket)
        assert changes.expired == []
        for pod in changes.gone:
            assert pod not in self.gone, f"{pod.endpoint} is removed twice"
            assert pod.state is PodState.GONE
            assert not self.ledger.count(pod)
            self.gone.add(pod)
        assert not self.gone & set(self.pods())
        assert all(pod.is_service or pod.config.reach.pods for pod in changes.probe)
        assert all(pod.state is not PodState.GONE for pod in changes.probe)
        self.look(set(changes.probe))

    def look(self, probed: set[PodTracker]) -> None:
        """Note each pod's state; check the reason of each recovery and of each probe."""
        for pod in self.pods():
            new = pod not in self.seen
            seen = self.seen.setdefault(pod, Seen())
            before, seen.state = seen.state, pod.state
            if pod.state is PodState.PROBING and (new or before is not PodState.PROBING):
                seen.void = self.step
                seen.errors = 0
                if pod.wants_probe:
                    assert pod in probed, f"{pod.endpoint} is not probed"
            if before is PodState.DRAINING and pod.state is PodState.PROBING:
                seen.passed_at = -1000.0
            if pod.state is PodState.HEALTHY and (new or before is not PodState.HEALTHY):
                is_listed = pod.is_trusted or pod.endpoint.uid == PEER
                assert is_listed or seen.passed >= seen.void, "healthy by an old probe"
                assert pod.limit >= 1
            if seen.ready and not pod.ready:
                assert pod.state is not PodState.HEALTHY, "in use though it is no longer ready"
            seen.ready, seen.limit = pod.ready, pod.limit

    # -- what holds after every step ------------------------------------------------------------

    def check(self) -> None:
        self.tickets.look()
        feds = list(self.feds.values())
        for id, fed in self.feds.items():
            others = {one for other in IDS if other != id for one in self.all_listed(other)}
            claimed = self.claimed[1] if self.claimed[0] != id else set()
            invariants.check_known(fed, self.ledger, others, claimed)
            pods = fed.real.backends.pods.values()
            self.been["last resort"] += any(pod.config.last_resort and pod.in_use for pod in pods)
            service, before = fed.real.backends.service.tracker, self.services.get(id)
            self.services[id] = service
            invariants.check_service(fed, self.seen, before is None)
            invariants.check_reach(fed, self.borrow and fed.spec.behind_queue_proxy)
            invariants.check_capacity(fed)
            invariants.check_queue(fed, self.ledger, self.now)
            self.been["parked"] += len(fed.real.queued.parked)
            self.been["taken"] += bool(fed.real.backends.taken)
            if self.ledger.waiting(fed.real):
                lost = len(self.tickets) % 2 == 0
                self.been[invariants.check_reason(fed, lost).value] += 1
        invariants.check_time(self.throttler, feds, self.ledger, self.now)
        total = self.throttler.total
        assert total.depth == len(self.ledger.queued)
        assert total.bytes == sum(ticket.size for ticket in self.ledger.queued)
        for pod in self.pods():
            assert pod.in_flight == self.ledger.count(pod)
        for ticket, pod in self.ledger.held.items():
            assert ticket.state is ASSIGNED
            assert ticket.pod is pod
        assert all(ticket.state is QUEUED for ticket in self.ledger.queued)
        assert all(ticket.state.value in ENDS for ticket in self.ledger.ended)
        assert len(self.ledger.queued) + len(self.ledger.held) + len(self.ledger.ended) == len(
            self.tickets
        )
        for fed in feds:
            self.turns.look(fed.real)
        self.turns.forget(self.ledger.queued, self.now)
        self.step += 1
