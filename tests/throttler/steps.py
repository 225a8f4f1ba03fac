"""The steps of a random life of two revisions.

Each step calls the throttler as its driver would. It takes its choices from two arbitrary numbers,
``a`` and ``b``.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from dataclasses import replace

import pytest

from tests.throttler import invariants
from tests.throttler.ledger import Fed, Listed
from tests.throttler.walk import ENDS, IDS, LIMITS, OWN_IP, SHORT_SILENCE, Asked, Walk
from tests.throttler.world import endpoints
from throttler.balancing import POLICIES
from throttler.errors import FlowFull, RequestQueueFull, RevisionNotFound, WaitTooLong
from throttler.model import (
    HTTP_PROTOCOLS,
    REACH,
    AdaptiveMode,
    AppProtocol,
    Endpoint,
    FlowKey,
    HashKey,
    KeyKind,
    MeshMode,
    Overflow,
    Policies,
    QueueOrder,
    ReadinessRule,
    Revision,
    RevisionID,
)
from throttler.pod import PodState, PodTracker
from throttler.ticket import FAILED, REJECTED, SERVED, Ticket

#: Few addresses, so that other pods often use them again; one pod has no uid.
PLACES = [
    Endpoint(address, uid)
    for address in ("10.0.0.1:8012", "10.0.0.10:8012", "10.0.0.2:8012", "10.0.0.3:8012")
    for uid in ("", "u1", "u2")
]
_NUMBERED = tuple(enumerate(PLACES))
_ZONES = ("a", "b", "c", "")
CONCURRENCIES: Sequence[int] = (0, 1, 3, 10)
NO_PROBE = ReadinessRule.NO_PROBE
READINESS = (ReadinessRule.EXEC_READINESS_PROBE, ReadinessRule.PROBE)
#: As by containerConcurrency, and every policy.
BALANCING = ("", *POLICIES)
#: By arrival, with classes, with flows, with both.
ORDERS: Sequence[QueueOrder | None] = (
    None,
    QueueOrder(has_classes=True),
    QueueOrder(fair_by=FlowKey()),
    QueueOrder(has_classes=True, fair_by=FlowKey()),
)
TIMEOUTS = (0.05, 0.5, 2.0, 30.0)
#: Where requests wait for one pod: half of each passes in a few steps.
TIMEOUTS_PARKED = (0.5, 1.5, 2.0, 4.0)
ADAPTIVE = (AdaptiveMode.ON, AdaptiveMode.OBSERVE, AdaptiveMode.ON, AdaptiveMode.OFF)
STICKY, COOKIE = HashKey(b"x-session"), HashKey(kind=KeyKind.COOKIE)
#: What requests with a key do: most revisions are not sticky.
STICKINESS: Sequence[tuple[HashKey | None, Overflow]] = (
    *((None, Overflow.OTHER),) * 4,
    (COOKIE, Overflow.OTHER),
    (STICKY, Overflow.WAIT),
    (COOKIE, Overflow.WAIT),
)


class Steps(Walk):
    """A walk, and the steps that it can take."""

    # -- requests; a and b are arbitrary numbers from which a step takes its choices --------------

    def request(self, a: int, b: int) -> None:
        fed = self.feds.get(IDS[a % 2])
        if fed is None or fed.deleted:
            with pytest.raises(RevisionNotFound):
                self.throttler.find(*IDS[a % 2])
            return
        assert self.throttler.find(*IDS[a % 2]) is fed.real
        timeouts = TIMEOUTS_PARKED if self.parks else TIMEOUTS
        ticket = self.tickets.make(self.now + timeouts[b % 4], b % 7 * 5)
        ticket.key = b"%d" % (b // 28 % 5)
        if self.cookies and b // 140 % 4 == 0:
            ticket.key = self.cookies[b // 560 % len(self.cookies)]
        order = fed.spec.policies.order
        if order is not None and order.has_classes:
            ticket.priority = b // 140 % 3
        if order is not None and order.fair_by is not None:
            ticket.flow = b"%d" % (b // 2240 % 4)
        waited = self.ledger.waiting(fed.real)
        try:
            pod = fed.real.admit(ticket, self.now)
        except RequestQueueFull as refusal:
            assert ticket.state is REJECTED
            invariants.check_refused(fed, self.ledger, LIMITS, ticket, refusal.limit)
            self.been[refusal.limit] += 1
            self.ledger.end(ticket)
        except FlowFull as refusal:
            invariants.check_flow_full(fed, self.ledger, LIMITS, ticket, refusal.waiting)
            self.been["flow full"] += 1
            self.ledger.end(ticket)
        except WaitTooLong as refusal:
            assert self.sheds
            invariants.check_shed(fed, self.ledger, ticket, refusal.expected, self.now)
            self.been["shed"] += 1
            self.ledger.end(ticket)
        else:
            if pod is None:
                invariants.check_refused(fed, self.ledger, LIMITS, ticket, "")
                invariants.check_flow_full(fed, self.ledger, LIMITS, ticket, None)
                self.turns.queue(ticket, order)
                self.ledger.queue(ticket, fed.real)
            else:
                waited = [each for each in waited if each not in fed.real.queued.parked]
                assert not waited, f"{ticket} overtakes {waited}"
                self.assigned(ticket)

    def release(self, a: int, b: int) -> None:
        if running := list(self.ledger.held):
            ticket = running[a % len(running)]
            real = self.fed_of(ticket).real
            self.respond(ticket, a, b)
            self.ledger.end(ticket)
            pod = ticket.pod
            assert pod is not None
            before = pod.limit
            outcome = FAILED if b % 4 == 0 else SERVED
            self.carry_out(real.release(ticket, self.now, outcome))
            self.been["adapted"] += pod.limit != before

    def respond(self, ticket: Ticket, a: int, b: int) -> None:
        """A pod responds; it may begin a session, or get a client's cookie."""
        ticket.first_byte = self.now
        sticky = self.fed_of(ticket).real.slots.sticky
        if sticky is not None:
            token = sticky.cookie_for(ticket)
            sticky.began_session(b"%d" % (b % 5), ticket)
            if token and b % 3 == 0:
                self.cookies.append(token)
            self.been["token"] += bool(token)

    def hang_up(self, a: int, b: int) -> None:
        """A client cancels, also when its request has ended already."""
        pool: Sequence[Ticket] = (list(self.ledger.queued) if b % 2 else []) or self.tickets
        if not pool:
            return
        ticket = pool[a % len(pool)]
        assert ticket.config is not None
        real = self.throttler.of(ticket.config)
        if ticket in self.ledger.ended:
            assert real is None or real.cancel(ticket, self.now) is None
        else:
            assert real is not None
            self.ledger.end(ticket)
            self.carry_out(real.cancel(ticket, self.now))

    def lose(self, a: int, b: int) -> None:
        """A pod loses a request before it read any byte; often its connect failed, too."""
        running = list(self.ledger.held)
        if not running:
            return
        ticket = running[a % len(running)]
        real, pod = self.fed_of(ticket).real, self.ledger.held[ticket]
        if b % 4:
            self.seen[pod].errors = 0
            self.carry_out(real.connect_failed(pod, "refused", self.now))
            assert pod.state is not PodState.HEALTHY
            self.check()
        self.failed.setdefault(ticket, []).append(pod)
        late = ticket.deadline <= self.now
        if late:
            self.ledger.end(ticket)
        else:
            del self.ledger.held[ticket]
            self.ledger.queued[ticket] = real
            self.turns.requeue(ticket, real.queued.order)
        changes = real.requeue(ticket, self.now)
        assert changes.expired == ([ticket] if late else [])
        changes.expired.clear()
        self.carry_out(changes)

    def hold(self, a: int, b: int) -> None:
        """The body of a queued request takes memory."""
        if waiting := list(self.ledger.queued):
            ticket = waiting[a % len(waiting)]
            real, before = self.ledger.queued[ticket], ticket.size
            held = sum(t.size for t in self.ledger.waiting(real)) + b % 40
            total = sum(t.size for t in self.ledger.queued) + b % 40
            most = LIMITS.queue_bytes_total - (45 if held > 15 else 0)
            own = invariants.most_bytes(real.queued.order, ticket, LIMITS)
            granted = real.queued.reserve_bytes(ticket, b % 40)
            assert granted is (held <= own and total <= most)
            assert ticket.size == before + b % 40 * granted

    # -- responses and probes -------------------------------------------------------------------

    def answer_badly(self, a: int, b: int) -> None:
        """A pod responds with 502 or 503 a few times; often it is the same pod as before."""
        pods = [p for p in self.pods() if p.state is PodState.HEALTHY or b % 8 == 0]
        if pods:
            pod = pods[a % min(len(pods), 2)]
            for _ in range(1 if b % 4 == 0 else 5):
                if pod.state is not PodState.GONE:
                    self.bad_answer(pod, untouched=b % 4 == 0)
                    self.check()

    def bad_answer(self, pod: PodTracker, untouched: bool) -> None:
        """Five consecutive errors eject a pod; so does one error for an unread request."""
        seen, real = self.seen[pod], self.real_of(pod)
        counts = pod.state is PodState.HEALTHY and not pod.is_service
        seen.errors += counts
        panicked = real.backends.outliers.panics
        self.carry_out(real.responded_badly(pod, "responded 502", self.now, untouched=untouched))
        ejected = pod.state is not PodState.HEALTHY
        if counts and untouched:
            assert ejected
        elif counts and seen.errors % 5:
            assert not ejected, f"ejected after {seen.errors} errors"
        elif counts:
            panics = real.backends.outliers.panics
            assert ejected or panicked or panics, f"in use after {seen.errors} errors"
        if counts and ejected:
            assert self.now < pod.ejection.until <= self.now + 5
            fed = next(fed for fed in self.feds.values() if fed.real is real)
            assert untouched or invariants.half_is_left(fed)
            assert pod.ejection.active
            self.been["panics" if real.backends.outliers.panics else "ejected"] += 1

    def answer_well(self, a: int, b: int) -> None:
        """A pod with errors serves a request."""
        if pods := [pod for pod in self.pods() if self.seen[pod].errors]:
            pod = pods[a % len(pods)]
            if pod.state is PodState.HEALTHY:
                self.seen[pod].errors = 0
            self.carry_out(self.real_of(pod).responded_well(pod, self.now))
            assert pod.state is not PodState.HEALTHY or pod not in (
                self.real_of(pod).backends.outliers
            )

    def probe(self, a: int, b: int) -> None:
        """Begin a probe; its result may come much later, or never."""
        if pods := self.pods():
            pod = pods[a % len(pods)]
            self.asked.append((pod, pod.epoch, self.step))

    def answer(self, a: int, b: int) -> None:
        if self.asked:
            asked = self.asked.pop(-1 if a % 2 else a // 2 % len(self.asked))
            if b % 5 > 1:
                self.pass_probe(asked)
            else:
                self.fail_probe(asked, (None, 502, 503, 503, 503, 404)[b // 5 % 6])

    def prove(self, a: int, b: int) -> None:
        """Begin a probe of an unhealthy pod, and pass it at once."""
        if pods := [pod for pod in self.pods() if pod.state is PodState.PROBING]:
            pod = pods[a % len(pods)]
            self.pass_probe((pod, pod.epoch, self.step))

    def refuse(self, a: int, b: int) -> None:
        """All pods of a revision respond at once as a mesh would."""
        fed = self.feds.get(IDS[a % 2])
        for pod in list(fed.real.backends.pods.values()) if fed else []:
            self.fail_probe((pod, pod.epoch, self.step), (None, 503)[b % 2])
            self.check()

    def pass_probe(self, asked: Asked) -> None:
        pod, epoch, step = asked
        counts, was, healthy = self.counts(pod, epoch), pod.state, self.now >= pod.ejection.until
        if counts and healthy:
            seen = self.seen[pod]
            seen.passed, seen.mesh_like, seen.passed_at = step, False, self.now
        if (real := self.throttler.of(pod.config)) is not None:
            self.carry_out(real.probe_passed(pod, epoch, self.now))
        if counts and was is PodState.PROBING and not pod.is_service:
            assert (pod.state is PodState.HEALTHY) is healthy
            assert not healthy or (pod.probe.error == "" and not pod.ejection.active)

    def fail_probe(self, asked: Asked, status: int | None) -> None:
        pod, epoch, _ = asked
        counts = self.counts(pod, epoch)
        if counts:
            self.seen[pod].mesh_like = status in (None, 502, 503)
        if (real := self.throttler.of(pod.config)) is not None:
            self.carry_out(real.probe_failed(pod, epoch, "bad", self.now, status))
        if counts and not pod.is_trusted:
            assert pod.state is not PodState.HEALTHY
            assert pod not in self.real_of(pod).backends.outliers
            self.seen[pod].errors = 0

    def counts(self, pod: PodTracker, epoch: int) -> bool:
        """Return whether the result of a probe may change anything."""
        if pod.state is PodState.GONE or epoch != pod.epoch or pod not in self.pods():
            return False
        return pod.config.reach.pods or pod.is_service

    # -- what Kubernetes says -------------------------------------------------------------------

    def endpoints(self, a: int, b: int) -> None:
        """Kubernetes lists other pods: some removed, some new, some with another readiness."""
        id = IDS[a % 2]
        chance = random.Random(b)
        protocol = AppProtocol.H2C if chance.random() < 0.1 else AppProtocol.HTTP1
        if chance.random() < 0.1:
            self.list_pods(id, {})
        else:
            old = self.listed[id].get(protocol, {})
            kept = [endpoint for endpoint in old if chance.random() < 0.8]
            places = dict.fromkeys((*kept, *chance.sample(PLACES, chance.randrange(4))))
            words = (True, True, True, False, None) if chance.random() < 0.9 else (None,)
            new: Listed = {endpoint: chance.choice(words) for endpoint in places}
            self.list_pods(id, self.listed[id] | {protocol: new})

    def list_pods(self, id: RevisionID, now: dict[AppProtocol, Listed]) -> None:
        before, self.listed[id] = self.all_listed(id), now
        after = self.all_listed(id)
        self.claimed = (
            id,
            {one for one, ready in after.items() if ready is not None and before.get(one) != ready},
        )
        if id in self.feds:
            self.feds[id].listed = now.get(self.feds[id].spec.protocol, {})
        # Now and then a zone has another name; one is unknown.
        at = {one.address: _ZONES[(n // 3 + self.step // 50) % 4] for n, one in _NUMBERED}
        listed = {
            protocol: replace(
                endpoints(
                    [endpoint for endpoint, ready in each.items() if ready],
                    [endpoint for endpoint, ready in each.items() if ready is False],
                    [endpoint for endpoint, ready in each.items() if ready is None],
                ),
                zones=at,
            )
            for protocol, each in now.items()
        }
        self.carry_out(self.throttler.set_endpoints(id, listed, self.now))

    def revise(self, a: int, b: int) -> None:
        """A Revision is created, changed, replaced under its name, or created again."""
        id = IDS[a % 2]
        plain = self.plain and id is IDS[1]
        sticky, orders, limits = STICKINESS, ORDERS, CONCURRENCIES
        if self.parks:
            sticky, orders, limits = sticky[-2:], orders[1:], limits[1:3]
        spec = Revision(
            id,
            uid=f"uid-{b % 2}",
            container_concurrency=limits[b // 2 % len(limits)],
            protocol=AppProtocol.H2C if b // 8 % 8 == 0 else AppProtocol.HTTP1,
            readiness=NO_PROBE if plain and b // 4096 % 4 == 0 else READINESS[b // 64 % 4 != 0],
            behind_queue_proxy=not plain,
            asleep=plain and (a + b) % 5 == 0,
            policies=Policies(
                BALANCING[b // 256 % len(BALANCING)],
                HashKey(b"x-user"),
                *sticky[a // 2 % len(sticky)],
                ADAPTIVE[a // 16 % len(ADAPTIVE)],
                orders[b // 1536 % len(orders)],
            ),
        )
        changes = self.throttler.set_revision(spec, self.now)
        real, old = self.throttler.find(*id), self.feds.get(id)
        if old is None or old.real is not real:
            assert old is None or (old.deleted and old.real.idle)
            self.feds[id] = Fed(spec, real)
        fed = self.feds[id]
        # The throttler applies the limit first, and then which pods need no probe, or sleep.
        self.in_two_steps = NO_PROBE in {fed.spec.readiness, spec.readiness}
        self.in_two_steps |= fed.spec.asleep or spec.asleep
        fed.spec, fed.deleted = spec, False
        fed.listed = self.listed[id].get(spec.protocol, {})
        self.find_share(id)
        self.carry_out(changes)
        self.in_two_steps = False

    def delete(self, a: int, b: int) -> None:
        changes = self.throttler.delete_revision(IDS[a % 2])
        if fed := self.feds.get(IDS[a % 2]):
            fed.deleted = True
        self.carry_out(changes)

    def change_activators(self, a: int, b: int) -> None:
        id = IDS[a % 2]
        others = [f"10.9.0.{i}" for i in (1, 3, 11, 4, 5, 6, 7)][: b % 8]
        self.activators[id] = [*others, OWN_IP] if b // 8 % 5 else others
        zones = {ip: "abc"[n % (1 + b // 64 % 3)] for n, ip in enumerate(self.activators[id])}
        found: Collection[str] = zones if b // 512 % 4 else self.activators[id]
        listed = dict.fromkeys(AppProtocol, found)
        changes = self.throttler.set_activators(id, listed, self.now)
        self.find_share(id)
        self.carry_out(changes)

    def find_share(self, id: RevisionID) -> None:
        present = sorted(self.activators[id])
        if id in self.feds and OWN_IP in present:
            self.feds[id].share = (present.index(OWN_IP), len(present))
        elif id in self.feds and not (present or self.feds[id].spec.behind_queue_proxy):
            self.feds[id].share = (-1, 0)

    def change_service(self, a: int, b: int) -> None:
        """The private Service is created, moved or deleted."""
        service = {protocol: f"10.96.0.{b // 2 % 3}:80" for protocol in HTTP_PROTOCOLS if b % 8}
        self.carry_out(self.throttler.set_service(IDS[a % 2], service, self.now))

    def set_mesh(self, a: int, b: int) -> None:
        """The network ConfigMap changes; mostly to ``auto``."""
        mode = (MeshMode.AUTO, MeshMode.ENABLED, MeshMode.DISABLED)[max(a % 5 - 2, 0)]
        before, self.reach = self.reach, REACH[mode, b % 4 == 0]
        if before != self.reach:
            for seen in self.seen.values():
                seen.passed_at = -1000.0  # the proof is older than the change
        self.carry_out(self.throttler.set_mesh(mode, b % 4 == 0, self.now))

    # -- time -----------------------------------------------------------------------------------

    def later(self, a: int, b: int) -> None:
        """Time passes; the timer may be late, so that other steps come before it."""
        due = self.throttler.deadlines.next_due()
        if a % 3 == 0 and due is not None:
            self.now = max(self.now, due)
        else:
            self.now += (0.001, 0.02, 0.3, 1.0)[a // 3 % 4]
        if b % 5:
            self.wake()
        if b % 7 == 0:
            self.probe_silent_pods()

    def probe_silent_pods(self) -> None:
        """No pod in a walk responds: a pod with a request for a second is silent."""
        probed = self.throttler.probe_silent_pods(self.now).probe
        for pod in self.pods():
            since = self.seen[pod].busy_since
            silent = self.now - since if self.ledger.count(pod) else 0.0
            found = self.real_of(pod).silence.silent_for(pod, self.now)
            assert found == (silent if silent >= SHORT_SILENCE else None)
            if pod in probed:
                self.been["silent"] += 1
                assert found is not None
                assert pod.state is PodState.HEALTHY
                assert not pod.is_trusted

    # -- the end ---------------------------------------------------------------------------------

    def finish(self) -> None:
        """All requests end and all objects are deleted: nothing may be left."""
        for ticket in list(self.ledger.held):
            if ticket in self.ledger.held:
                self.end(ticket)
        self.now += 100
        self.wake()
        for ticket in list(self.ledger.held):
            self.end(ticket)
        for number, id in enumerate(IDS):
            self.delete(number, 0)
            self.list_pods(id, {})
        self.check()
        assert self.ledger.ended == set(self.tickets)
        assert self.throttler.total.depth == self.throttler.total.bytes == 0
        assert list(self.throttler) == []
        self.throttler.run_due(self.now + 1)
        assert self.throttler.deadlines.next_due() is None
        for ticket in self.tickets:
            assert [s.value in ENDS for s in self.tickets.states(ticket)].count(True) == 1

    def end(self, ticket: Ticket) -> None:
        real = self.fed_of(ticket).real
        self.ledger.end(ticket)
        self.carry_out(real.release(ticket, self.now))
        self.check()
