"""A long random life of two revisions, step by step beside a model that is slow and plain.

The model keeps lists, searches them anew for every question and shares no code with the throttler.
It does not foretell which pod a policy picks; it checks that the pick was allowed. A walk that
fails prints its shortest form.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import pytest

from tests.throttler.world import Tickets, endpoints
from throttler import backends as backends_module
from throttler import budget as budget_module
from throttler import pod as pod_module
from throttler import silence as silence_module
from throttler import slow_start as slow_start_module
from throttler.balancing import POLICIES, policy_name
from throttler.changes import Changes
from throttler.errors import RequestQueueFull, RevisionNotFound, WaitTooLong
from throttler.health import PodState
from throttler.model import (
    AppProtocol,
    Endpoint,
    HashKey,
    MeshMode,
    Policies,
    ReadinessRule,
    Revision,
    RevisionID,
)
from throttler.pod import PodTracker
from throttler.reason import Reason
from throttler.revision import RevisionThrottler
from throttler.throttler import Limits, Throttler
from throttler.ticket import ASSIGNED, QUEUED, REJECTED, Ticket
from throttler.wait_reason import waiting_reason

OWN_IP = "10.9.0.2"
IDS = (RevisionID("default", "a"), RevisionID("default", "b"))
LIMITS = Limits(queue_depth=9, queue_bytes=120, queue_depth_total=14, queue_bytes_total=180)
#: Few addresses, so that they are often used again by another pod; one pod has no uid.
PLACES = [
    Endpoint(address, uid)
    for address in ("10.0.0.1:8012", "10.0.0.10:8012", "10.0.0.2:8012", "10.0.0.3:8012")
    for uid in ("", "u1", "u2")
]
#: A quarter of the totals is kept, a request and 15 bytes for each of three revisions.
SMALL_RESERVE = 3
CONCURRENCIES = (0, 1, 3, 10)
READINESS = (ReadinessRule.EXEC_READINESS_PROBE, ReadinessRule.PROBE)
#: As by containerConcurrency, and every policy.
BALANCING = ("", *POLICIES)
TIMEOUTS = (0.05, 0.5, 2.0, 30.0)
ENDS = {"released", "timed-out", "cancelled", "rejected"}
#: A slow start from 64 to 65,536 would need as many requests.
SMALL_START, SMALL_END, UNLIMITED = 2, 8, 2_147_483_647
#: Seconds for which a pod that fails proves that pods can be reached: a walk takes some 20.
SHORT_PROOF = 0.5
#: Seconds without a response after which a pod counts as silent.
SHORT_SILENCE = 1.0
MAX = UNLIMITED

Step = tuple[str, int, int]


@dataclass(eq=False)
class Pod:
    endpoint: Endpoint
    ready: bool
    limit: int
    is_service: bool = False
    mesh_like: bool | None = None
    proof: bool = False  # that pods can be reached: it has passed a probe
    failing_since: float | None = None  # the same, or since it was listed as ready
    state: str = "probing"
    error: str = ""  # what was met last, if it was not good
    generation: int = 0  # answers to probes that were asked in an earlier one are void
    passed_at: float = 0.0
    strikes: int = 0
    suspect: bool = False
    complained: bool = False
    on_trial: bool = False
    held: float = -1.0  # until then no probe has it back
    well_since: float = -1000.0
    relapses: int = 0
    real: PodTracker | None = None
    has: list[Ticket] = field(default_factory=list)
    busy_since: float = 0.0


@dataclass(eq=False)
class Asked:
    pod: Pod
    epoch: int
    generation: int


@dataclass(eq=False)
class Rev:
    spec: Revision
    real: RevisionThrottler
    share: tuple[int, int] = (-1, 0)
    pods: dict[Endpoint, Pod] = field(default_factory=dict)
    address: str = ""
    reach: tuple[bool, bool, bool] = (True, True, False)  # pods, service, trusted
    service: Pod | None = None
    panics: bool = False
    lists: dict[Endpoint, bool] = field(default_factory=dict)
    left: list[Pod] = field(default_factory=list)  # ClusterIPs that only finish their requests
    back: list[Ticket] = field(default_factory=list)  # had a pod and lost it
    queue: list[Ticket] = field(default_factory=list)

    def waiting(self) -> list[Ticket]:
        return self.back + self.queue

    def everything(self) -> list[Pod]:
        return [*self.pods.values(), *([self.service] if self.service else []), *self.left]

    def via_service(self) -> bool:
        return self.service is not None and self.service.state == "healthy"

    def usable(self) -> list[Pod]:
        if not self.reach[0]:
            return []
        pods = [p for p in self.pods.values() if p.state == "healthy"]
        pods = [p for p in pods if p.ready or self.spec.probe_suffices]
        return sorted(pods, key=lambda p: (p.endpoint.address, p.endpoint.uid))

    def slice(self) -> list[Pod]:
        """Deal the sorted pods out among the activators and return ours."""
        pods = self.usable()
        index, count = self.share
        if self.spec.container_concurrency == 0 or index == -1 or count < 2:
            return pods
        if count > len(pods):
            return [pods[index % len(pods)]] if pods else []
        each = len(pods) // count
        owners = [owner for owner in range(count) for _ in range(each)]
        owners += range(len(pods) - len(owners))
        return [pod for pod, owner in zip(pods, owners, strict=True) if owner == index]


class Walk:
    """The throttler and its model; each step does the same to both and compares them."""

    def __init__(self, seed: int) -> None:
        self.borrow = seed % 3 != 0
        self.sheds = seed % 2 == 0
        limits = replace(LIMITS, shed_early=self.sheds)
        self.throttler = Throttler(
            limits, random.Random(seed).random, own_ip=OWN_IP, borrow=self.borrow
        )
        self.shed = 0
        self.now = 100.0
        self.known: dict[RevisionID, Rev] = {}
        self.revs: dict[RevisionID, Rev] = {}  # also those that were deleted
        self.listed: dict[RevisionID, dict[AppProtocol, dict[Endpoint, bool]]] = {
            i: {} for i in IDS
        }
        self.activators: dict[RevisionID, list[str]] = {i: [] for i in IDS}
        self.services: dict[RevisionID, dict[AppProtocol, str]] = {i: {} for i in IDS}
        self.reach = (True, True, False)
        self.tickets = Tickets()
        self.asked: list[Asked] = []
        self.gone: set[PodTracker] = set()
        self.ended: dict[Ticket, int] = {}
        self.via_service = 0
        self.homes: dict[tuple[bytes, frozenset[str]], str] = {}
        self.picked: Counter[str] = Counter()
        self.silent = 0
        self.kept_off = 0  # how often only one proof prevented the ClusterIP
        self.told: set[str] = set()
        self.failed: dict[Ticket, list[Pod]] = {}
        self.claims: list[tuple[RevisionID, Endpoint]] = []  # the newest last
        self.flat: dict[RevisionID, dict[Endpoint, bool]] = {}
        self.taken_away = 0
        self.taken_out = 0
        self.panicked = 0
        self.new_probes: list[Pod] = []
        self.new_gone: list[Pod] = []

    # -- the steps; a and b are arbitrary numbers from which each takes its choices -------------

    def request(self, a: int, b: int) -> None:
        id = IDS[a % 2]
        if id not in self.known:
            with pytest.raises(RevisionNotFound):
                self.throttler.find(*id)
            return
        rev = self.known[id]
        assert self.throttler.find(*id) is rev.real
        ticket = self.tickets.make(self.now + TIMEOUTS[b % 4], b % 7 * 5)
        ticket.key = b"%d" % (b // 28 % 5)
        full = self.full(rev, ticket.size)
        room = self.with_room(rev)
        pod, refused = None, ""
        try:
            pod = rev.real.admit(ticket, self.now)
        except RequestQueueFull as refusal:
            refused = refusal.limit
        except WaitTooLong as refusal:
            self.check_shed(rev, ticket, refusal.expected)
            self.end(ticket)
            return
        if refused:
            assert not room
            assert refused == full
            assert ticket.state is REJECTED
            self.end(ticket)
        elif pod is None:
            assert not room, f"{ticket} waits although there is room"
            assert not full
            assert ticket.state is QUEUED
            rev.queue.append(ticket)
        else:
            assert not rev.waiting(), f"{ticket} overtakes {rev.waiting()}"
            self.assigned(rev, ticket)

    def check_shed(self, rev: Rev, ticket: Ticket, expected: float) -> None:
        """Nobody is shed who has room, has time, or is among the first."""
        self.shed += 1
        assert self.sheds
        assert not self.with_room(rev)
        assert expected > ticket.deadline - self.now
        assert len(rev.waiting()) >= max(1, sum(len(p.has) for p in rev.everything()))
        assert ticket.state is REJECTED

    def release(self, a: int, b: int) -> None:
        if running := self.running():
            ticket = running[a % len(running)]
            rev = self.take_from_pod(ticket)
            self.end(ticket)
            self.carry_out(rev.real.release(ticket, self.now))

    def hang_up(self, a: int, b: int) -> None:
        """A client leaves; also one whose request has ended already."""
        if not self.tickets:
            return
        pool: Sequence[Ticket] = self.tickets
        if b % 2:
            pool = [t for rev in self.revs.values() for t in rev.waiting()] or pool
        ticket = pool[a % len(pool)]
        if ticket in self.ended:
            assert ticket.config is not None
            real = self.throttler.of(ticket.config)
            assert real is None or real.cancel(ticket, self.now) is None
            return
        if ticket.state is ASSIGNED:
            rev = self.take_from_pod(ticket)
        else:
            rev = self.take_from_queue(ticket)
        self.end(ticket)
        self.carry_out(rev.real.cancel(ticket, self.now))

    def lose(self, a: int, b: int) -> None:
        """A pod drops a request that it has seen nothing of; mostly its connect failed, too."""
        running = self.running()
        if not running:
            return
        ticket = running[a % len(running)]
        pod = self.pod_of(ticket)
        if b % 4:
            assert pod.real is not None
            self.fail(pod)
            pod.error, pod.complained = "refused", False
            self.review()
            self.carry_out(self.of(pod).connect_failed(pod.real, "refused", self.now))
            self.check()
        rev = self.take_from_pod(ticket)
        self.failed.setdefault(ticket, []).append(pod)
        late = ticket.deadline <= self.now
        if late:
            self.end(ticket)
        else:
            rev.back = sorted([*rev.back, ticket], key=lambda t: t.arrived)
        changes = rev.real.requeue(ticket, self.now)
        assert changes.expired == ([ticket] if late else [])
        changes.expired.clear()
        self.carry_out(changes)

    def answer_badly(self, a: int, b: int) -> None:
        """A pod answers 502 or 503 a few times, often the same one as before."""
        pods = [p for rev in self.all_revs for p in rev.everything()]
        pods = [p for p in pods if p.state == "healthy" or b % 8 == 0]
        if pods:
            pod = pods[a % min(len(pods), 2)]
            for _ in range(1 if b % 4 == 0 else 5):
                if pod.state != "gone":
                    self.bad_answer(pod, untouched=b % 4 == 0)
                    self.check()

    def bad_answer(self, pod: Pod, untouched: bool) -> None:
        rev = next(r for r in self.all_revs if pod in r.everything())
        assert pod.real is not None
        if pod.state == "healthy" and not pod.is_service:
            self.condemn(rev, pod, untouched)
        self.review()
        text = "responded 502"
        self.carry_out(self.of(pod).responded_badly(pod.real, text, self.now, untouched=untouched))

    def condemn(self, rev: Rev, pod: Pod, untouched: bool) -> None:
        pod.strikes += 1
        known = rev.panics and pod.suspect
        if untouched or (pod.strikes % 5 == 0 and not known):
            pod.suspect = True
            self.weigh(rev)
            if untouched or not rev.panics:
                self.take_out(rev, pod, untouched)
                return
        self.end_trial(rev, pod)

    def take_out(self, rev: Rev, pod: Pod, untouched: bool) -> None:
        self.taken_out += 1
        pod.on_trial = untouched
        if rev.panics:
            self.panicked += 1
            pod.held = self.now + min(0.02 * sum(p.suspect for p in rev.pods.values()), 5.0)
        else:
            if self.now - pod.well_since > 10:
                pod.relapses = 0
            pod.held = self.now + min(0.1 * 2**pod.relapses, 5.0)
            pod.relapses += 1
            pod.well_since = float("inf")
        pod.error = "responded 502"
        pod.complained = True
        self.suspect(pod)
        self.new_probes.append(pod)

    def end_trial(self, rev: Rev, pod: Pod) -> None:
        if pod.on_trial:
            pod.on_trial = False
            pod.limit = self.first_limit(rev, pod)

    def weigh(self, rev: Rev) -> None:
        """Where suspects outnumber the other usable pods, none is left alone for long."""
        suspects = [p for p in rev.pods.values() if p.suspect]
        others = [p for p in rev.usable() if not p.suspect]
        before, rev.panics = rev.panics, len(suspects) > len(others)
        if rev.panics and not before:
            until = self.now + min(0.02 * len(suspects), 5.0)
            for pod in suspects:
                if pod.held > until:
                    pod.held = until
                    self.new_probes.append(pod)

    def answer_well(self, a: int, b: int) -> None:
        """A pod with strikes answers a request as it should."""
        pods = [p for rev in self.all_revs for p in rev.everything() if p.strikes]
        if not pods:
            return
        pod = pods[a % len(pods)]
        assert pod.real is not None
        if pod.state == "healthy":
            rev = next(r for r in self.all_revs if pod in r.everything())
            pod.strikes = 0
            if pod.suspect:
                pod.suspect = False
                pod.well_since = self.now
            self.end_trial(rev, pod)
        self.review()
        self.carry_out(self.of(pod).responded_well(pod.real, self.now))

    def forget_answers(self, pod: Pod) -> None:
        pod.suspect = pod.on_trial = False
        pod.strikes = pod.relapses = 0
        pod.held, pod.well_since = -1.0, -1000.0
        if pod.complained:
            pod.error, pod.complained = "", False

    def of(self, pod: Pod) -> RevisionThrottler:
        assert pod.real is not None
        found = self.throttler.of(pod.real.config)
        assert found is not None
        return found

    def hold(self, a: int, b: int) -> None:
        waiting = [(rev, t) for rev in self.revs.values() for t in rev.waiting()]
        if waiting:
            rev, ticket = waiting[a % len(waiting)]
            more = b % 40
            held = self.bytes(rev) + more
            open_bytes = LIMITS.queue_bytes_total - (45 if held > 15 else 0)
            granted = (
                held <= LIMITS.queue_bytes
                and sum(map(self.bytes, self.revs.values())) + more <= open_bytes
            )
            before = ticket.size
            assert rev.real.breaker.reserve_bytes(ticket, more) is granted
            assert ticket.size == before + more * granted

    def probe(self, a: int, b: int) -> None:
        """Ask a pod; the answer may come much later, or never."""
        pods = [p for rev in self.revs.values() for p in rev.everything()]
        if pods:
            pod = pods[a % len(pods)]
            assert pod.real is not None
            self.asked.append(Asked(pod, pod.real.epoch, pod.generation))

    def answer(self, a: int, b: int) -> None:
        if not self.asked:
            return
        index = -1 if a % 2 else a // 2 % len(self.asked)
        asked = self.asked.pop(index)
        if b % 5 > 1:
            self.pass_probe(asked)
        else:
            self.fail_probe(asked, (None, 502, 503, 503, 503, 404)[b // 5 % 6])

    def prove(self, a: int, b: int) -> None:
        """Ask some pod that is not healthy, and have a good answer at once."""
        pods = [p for r in self.revs.values() for p in r.everything() if p.state == "probing"]
        if pods:
            pod = pods[a % len(pods)]
            assert pod.real is not None
            self.pass_probe(Asked(pod, pod.real.epoch, pod.generation))

    def refuse(self, a: int, b: int) -> None:
        """All pods of a revision answer at once as a mesh would."""
        rev = self.revs.get(IDS[a % 2])
        for pod in list(rev.pods.values()) if rev else []:
            assert pod.real is not None
            self.fail_probe(Asked(pod, pod.real.epoch, pod.generation), (None, 503)[b % 2])
            self.check()

    def change_service(self, a: int, b: int) -> None:
        """The private Service comes, moves or goes."""
        id = IDS[a % 2]
        self.services[id] = {
            protocol: f"10.96.0.{b // 2 % 3}:80" for protocol in AppProtocol if b % 8
        }
        changes = self.throttler.set_service(id, self.services[id], self.now)
        if id in self.revs:
            self.find_service(id, self.revs[id])
        self.review()
        self.carry_out(changes)

    def find_service(self, id: RevisionID, rev: Rev) -> None:
        rev.address = self.services[id].get(rev.spec.protocol, "")

    def set_mesh(self, a: int, b: int) -> None:
        """The cluster's operator changes his mind; mostly he wants ``auto``."""
        mode = (MeshMode.AUTO, MeshMode.ENABLED, MeshMode.DISABLED)[max(a % 5 - 2, 0)]
        addressable = b % 4 == 0
        before, self.reach = (
            self.reach,
            (
                mode is not MeshMode.ENABLED or addressable,
                mode is not MeshMode.DISABLED and not addressable,
                mode is MeshMode.DISABLED,
            ),
        )
        changes = self.throttler.set_mesh(mode, addressable, self.now)
        if self.reach != before:
            for rev in self.revs.values():
                self.reach_anew(rev)
        self.review()
        self.carry_out(changes)

    def reach_anew(self, rev: Rev) -> None:
        rev.reach = self.reach
        for pod in rev.pods.values():
            pod.proof = False
            if pod.state == "draining":
                continue
            if not self.reach[0]:
                self.forget_answers(pod)
                if pod.state == "healthy":
                    self.suspect(pod)
            elif not self.trust(rev, pod):
                self.new_probes.append(pod)

    def trust(self, rev: Rev, pod: Pod) -> bool:
        """Kubernetes' word may be enough."""
        if not (rev.reach[2] and pod.ready and not pod.is_service):
            return False
        if pod.state == "probing":
            pod.state = "healthy"
            pod.limit = self.first_limit(rev, pod)
        return True

    def review(self) -> None:
        """The ClusterIP is sought or not, for reasons that are all at hand."""
        for rev in self.all_revs:
            self.weigh(rev)
            was, sought = rev.via_service(), self.sought(rev)
            old = rev.service
            if old and not (sought and old.endpoint.address == rev.address):
                rev.service = None
                old.state = "draining"
                rev.left.append(old)
                self.bury_if_idle(rev, old)
            if rev.service is None and sought:
                limit = rev.spec.container_concurrency
                rev.service = Pod(Endpoint(rev.address, "ClusterIP"), True, limit, is_service=True)
                self.new_probes.append(rev.service)
            if was and not rev.via_service() and rev.reach[0]:
                self.new_probes += [p for p in rev.pods.values() if p.state == "probing"]
            if rev.via_service() and rev.spec.container_concurrency:
                assert rev.service is not None
                ready = sum(p.ready for p in rev.pods.values() if p.state != "draining")
                share = rev.spec.container_concurrency * ready // max(rev.share[1], 1)
                rev.service.limit = max(share, 1)

    def sought(self, rev: Rev) -> bool:
        pods, service, _ = rev.reach
        listed = [p for p in rev.pods.values() if p.state != "draining"]
        ready = [p for p in listed if p.ready]
        if not (service and rev.address and ready):
            return False
        if not pods:
            return True
        if rev.usable() or [p for p in listed if p.mesh_like is False]:
            return False
        if rev.service is not None:
            return True
        if not all(p.mesh_like for p in ready):
            return False
        proofs = [p for p in listed if p.proof]
        self.kept_off += bool(proofs)
        return not proofs

    def endpoints(self, a: int, b: int) -> None:
        """Kubernetes lists other pods: some leave, some come, some turn ready or not ready."""
        id = IDS[a % 2]
        chance = random.Random(b)
        protocol = AppProtocol.H2C if chance.random() < 0.1 else AppProtocol.HTTP1
        if chance.random() < 0.1:
            self.listed[id] = {}
        else:
            old = self.listed[id].get(protocol, {})
            new = {endpoint: ready for endpoint, ready in old.items() if chance.random() < 0.8}
            new.update(dict.fromkeys(chance.sample(PLACES, chance.randrange(4)), True))
            new = {endpoint: chance.random() < 0.7 for endpoint in new}
            self.listed[id] = self.listed[id] | {protocol: new}
        self.tell_endpoints(id)

    def tell_endpoints(self, id: RevisionID) -> None:
        before = self.flat.get(id, {})
        after = self.flat[id] = self.all_listed(id)
        self.claims = [c for c in self.claims if c[0] != id or c[1] in after]
        for endpoint, ready in after.items():
            if before.get(endpoint) != ready:
                self.claims = [c for c in self.claims if c != (id, endpoint)] + [(id, endpoint)]
        changes = self.throttler.set_endpoints(
            id,
            {
                protocol: endpoints(
                    [d for d, ready in listed.items() if ready],
                    [d for d, ready in listed.items() if not ready],
                )
                for protocol, listed in self.listed[id].items()
            },
            self.now,
        )
        self.forget_idle()
        for each in (*(other for other in IDS if other != id), id):
            rev = self.revs.get(each)
            if rev is not None and (each in self.known or self.has_requests(rev)):
                kept = self.kept(each, rev.spec.protocol)
                if each == id or kept.keys() != rev.lists.keys():
                    self.list_pods(rev, kept)
                    self.review()
        self.review()
        self.carry_out(changes)

    def all_listed(self, id: RevisionID) -> dict[Endpoint, bool]:
        """What a revision lists, of whatever protocol."""
        listed = self.listed[id].values()
        return {d: any(one.get(d) for one in listed) for each in listed for d in each}

    def kept(self, id: RevisionID, protocol: AppProtocol) -> dict[Endpoint, bool]:
        """What a revision lists, but for what another has listed since for another pod."""
        kept = {}
        for endpoint, ready in self.listed[id].get(protocol, {}).items():
            owner = [c[0] for c in self.claims if c[1].address == endpoint.address][-1]
            if owner == id or endpoint in self.flat[owner]:
                kept[endpoint] = ready
            else:
                self.taken_away += 1
        return kept

    def revise(self, a: int, b: int) -> None:
        """A Revision comes, changes, is replaced under its name, or comes back."""
        id = IDS[a % 2]
        spec = Revision(
            id,
            uid=f"uid-{b % 2}",
            container_concurrency=CONCURRENCIES[b // 2 % 4],
            protocol=AppProtocol.H2C if b // 8 % 8 == 0 else AppProtocol.HTTP1,
            readiness=READINESS[b // 64 % 4 != 0],
            policies=Policies(BALANCING[b // 256 % len(BALANCING)], HashKey(b"x-user")),
        )
        changes = self.throttler.set_revision(spec, self.now)
        real = self.throttler.find(*id)
        rev = self.revs.get(id)
        if rev is None or rev.real is not real:
            # Only a revision of which nothing is left may begin anew.
            assert rev is None or (id not in self.known and not rev.waiting() and not rev.pods)
            rev = self.revs[id] = Rev(spec, real, reach=self.reach)
        self.known[id] = rev
        old, rev.spec = rev.spec, spec
        if old.protocol is not spec.protocol:
            self.list_pods(rev, {})
            self.review()
        if old.container_concurrency != spec.container_concurrency:
            for pod in [
                *rev.pods.values(),
                *([rev.service] if rev.via_service() and rev.service else []),
            ]:
                pod.limit = self.first_limit(rev, pod)
        self.review()
        self.find_share(id, rev)
        self.find_service(id, rev)
        self.review()
        self.list_pods(rev, self.kept(id, spec.protocol))
        self.review()
        self.carry_out(changes)

    def delete(self, a: int, b: int) -> None:
        id = IDS[a % 2]
        changes = self.throttler.delete_revision(id)
        self.known.pop(id, None)
        self.forget_idle()
        self.carry_out(changes)

    def forget_idle(self) -> None:
        """Pods of a deleted revision that has no request left are nobody's."""
        for id, rev in self.revs.items():
            if id not in self.known and not self.has_requests(rev):
                self.list_pods(rev, {})
        self.review()

    @staticmethod
    def has_requests(rev: Rev) -> bool:
        return bool(rev.waiting()) or any(pod.has for pod in rev.everything())

    def change_activators(self, a: int, b: int) -> None:
        id = IDS[a % 2]
        others = [f"10.9.0.{i}" for i in (1, 3, 11, 4, 5, 6, 7)][: b % 8]
        self.activators[id] = [*others, OWN_IP] if b // 8 % 5 else others
        listed = dict.fromkeys(AppProtocol, self.activators[id])
        changes = self.throttler.set_activators(id, listed, self.now)
        if id in self.revs:
            self.find_share(id, self.revs[id])
        self.review()
        self.carry_out(changes)

    def later(self, a: int, b: int) -> None:
        """Time passes; the timer may be late, so that other steps come before it."""
        due = self.throttler.next_due()
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
        for rev in self.all_revs:
            for pod in rev.everything():
                silent = self.now - pod.busy_since if pod.has else 0.0
                assert pod.real is not None
                assert rev.real.silence.silent_for(pod.real, self.now) == (
                    silent if silent >= SHORT_SILENCE else None
                )
                if pod.real in probed:
                    self.silent += 1
                    assert silent >= SHORT_SILENCE
                    assert pod in rev.usable()
                    assert not rev.reach[2] or not pod.ready

    # -- what follows ---------------------------------------------------------------------------

    def wake(self) -> None:
        overdue = [t for rev in self.revs.values() for t in rev.waiting() if t.deadline <= self.now]
        for ticket in overdue:
            self.take_from_queue(ticket)
            self.end(ticket)
        changes = self.throttler.run_due(self.now)
        assert sorted(changes.expired, key=id) == sorted(overdue, key=id)
        deadlines = [t.deadline for t in changes.expired]
        assert deadlines == sorted(deadlines)
        changes.expired.clear()
        for rev in self.revs.values():
            for pod in rev.everything():
                self.follow_widening(rev, pod)
        self.carry_out(changes)
        wakeup = self.throttler.next_due()
        assert wakeup is None or wakeup > self.now, "the timer would run in a circle"

    def follow_widening(self, rev: Rev, pod: Pod) -> None:
        """A full pod without a limit of its own may have been given twice as much, or no bound."""
        assert pod.real is not None
        if pod.on_trial and not pod.real.ejection.half_open:
            # Also of a pod that has left our share since it got the request that it is tried with.
            assert pod in rev.usable()
            assert len(pod.has) >= pod.limit
            assert self.now >= pod.passed_at + 0.02, "a trial is given the time to fail"
            self.end_trial(rev, pod)
        if pod.real.limit != pod.limit:
            assert rev.spec.container_concurrency == 0, "widened beyond containerConcurrency"
            assert pod in self.reach_of(rev)
            assert len(pod.has) >= pod.limit
            wider = pod.limit * 2 if pod.limit < SMALL_END else UNLIMITED
            assert pod.real.limit == wider
            pod.limit = wider

    def list_pods(self, rev: Rev, listed: dict[Endpoint, bool]) -> None:
        rev.lists = listed
        for endpoint, pod in list(rev.pods.items()):
            if endpoint not in listed:
                pod.state = "draining"
                taken = self.listed[rev.spec.id].get(rev.spec.protocol, {})
                pod.ready = taken.get(endpoint, pod.ready)
                self.forget_answers(pod)
                self.bury_if_idle(rev, pod)
        for endpoint, ready in listed.items():
            news = endpoint not in rev.pods
            if news:
                rev.pods[endpoint] = Pod(endpoint, ready, rev.spec.container_concurrency)
            pod = rev.pods[endpoint]
            if ready and not pod.ready:
                news = True
            if pod.state == "draining":
                pod.error, pod.complained = "", False  # of an earlier life
                pod.proof = False
            if pod.state == "draining" or (pod.state == "healthy" and pod.ready and not ready):
                self.suspect(pod)
                news = True
            pod.ready = ready
            if news:
                if ready:
                    pod.mesh_like = None
                    pod.failing_since = None
                if rev.reach[0] and not self.trust(rev, pod):
                    self.new_probes.append(pod)

    def suspect(self, pod: Pod) -> None:
        pod.state = "probing"
        pod.generation += 1
        pod.mesh_like = None

    def fail(self, pod: Pod) -> None:
        self.forget_answers(pod)
        if pod.state == "healthy":
            self.suspect(pod)
            self.new_probes.append(pod)

    def pass_probe(self, asked: Asked) -> None:
        pod = asked.pod
        real = pod.real
        assert real is not None
        if (rev := self.counting(asked)) is not None and self.now >= pod.held:
            pod.mesh_like = False
            pod.proof, pod.failing_since = True, None
            pod.error, pod.complained = "", False
            pod.passed_at = self.now
            if pod.state == "probing":
                pod.state = "healthy"
                pod.limit = self.first_limit(rev, pod)
        self.review()
        if (throttler := self.throttler.of(real.config)) is not None:
            self.carry_out(throttler.probe_passed(real, asked.epoch, self.now))

    def counting(self, asked: Asked) -> Rev | None:
        """Return the revision for which an answer counts, if it does for any."""
        pod = asked.pod
        rev = next((r for r in self.all_revs if pod in r.everything()), None)
        if rev is None or asked.generation != pod.generation:
            return None
        return rev if rev.reach[0] or pod.is_service else None

    def fail_probe(self, asked: Asked, status: int | None) -> None:
        pod, real = asked.pod, asked.pod.real
        assert real is not None
        if (rev := self.counting(asked)) is not None:
            pod.mesh_like = status in (None, 502, 503)
            if pod.failing_since is None:
                pod.failing_since = self.now
            elif self.now >= pod.failing_since + SHORT_PROOF:
                pod.proof = False
            pod.error, pod.complained = "bad", False
            if not (rev.reach[2] and pod.ready and not pod.is_service):
                self.fail(pod)
            elif status is not None and self.now >= pod.held:
                self.trust(rev, pod)
        self.review()
        if (throttler := self.throttler.of(real.config)) is not None:
            self.carry_out(throttler.probe_failed(real, asked.epoch, "bad", self.now, status))

    def first_limit(self, rev: Rev, pod: Pod) -> int:
        most = rev.spec.container_concurrency or len(pod.has) + SMALL_START
        return min(most, len(pod.has) + 1) if pod.on_trial else most

    def find_share(self, id: RevisionID, rev: Rev) -> None:
        present = sorted(self.activators[id])
        if OWN_IP in present:
            rev.share = (present.index(OWN_IP), len(present))

    @property
    def all_revs(self) -> list[Rev]:
        return list(self.revs.values())

    def bury_if_idle(self, rev: Rev, pod: Pod) -> None:
        if pod.state == "draining" and not pod.has:
            pod.state = "gone"
            if pod.is_service:
                rev.left.remove(pod)
            else:
                del rev.pods[pod.endpoint]
            self.new_gone.append(pod)

    def running(self) -> list[Ticket]:
        return [t for r in self.all_revs for p in r.everything() for t in p.has]

    def pod_of(self, ticket: Ticket) -> Pod:
        return next(p for r in self.all_revs for p in r.everything() if ticket in p.has)

    def take_from_pod(self, ticket: Ticket) -> Rev:
        pod = self.pod_of(ticket)
        rev = next(r for r in self.all_revs if pod in r.everything())
        pod.has.remove(ticket)
        self.bury_if_idle(rev, pod)
        return rev

    def take_from_queue(self, ticket: Ticket) -> Rev:
        rev = next(r for r in self.all_revs if ticket in r.waiting())
        (rev.back if ticket in rev.back else rev.queue).remove(ticket)
        return rev

    def end(self, ticket: Ticket) -> None:
        assert ticket not in self.ended, f"{ticket} ended twice"
        self.ended[ticket] = 1

    def reach_of(self, rev: Rev) -> list[Pod]:
        if rev.via_service():
            assert rev.service is not None
            return [rev.service]
        return rev.usable() if self.borrow else rev.slice()

    def with_room(self, rev: Rev) -> list[Pod]:
        return [p for p in self.reach_of(rev) if len(p.has) < p.limit]

    def bytes(self, rev: Rev) -> int:
        return sum(t.size for t in rev.waiting())

    def full(self, rev: Rev, size: int) -> str:
        """Return which bound one more waiter breaks, if any."""
        all_waiting = [t for r in self.all_revs for t in r.waiting()]
        if len(rev.waiting()) >= LIMITS.queue_depth:
            return "revision-depth"
        if self.bytes(rev) + size > LIMITS.queue_bytes:
            return "revision-bytes"
        if len(all_waiting) >= LIMITS.queue_depth_total - (3 if rev.waiting() else 0):
            return "total-depth"
        kept = 45 if self.bytes(rev) + size > 15 else 0
        if sum(t.size for t in all_waiting) + size > LIMITS.queue_bytes_total - kept:
            return "total-bytes"
        return ""

    def assigned(self, rev: Rev, ticket: Ticket) -> None:
        """Check that the pod which a ticket was given is one that it may have."""
        assert ticket.state is ASSIGNED
        room = self.with_room(rev)
        pod = next((p for p in room if p.real is ticket.pod), None)
        assert pod is not None, f"{ticket} on {ticket.pod}, but only {room} have room"
        for failed in self.failed.get(ticket, [])[-3:]:
            room = [p for p in room if p is not failed] or room
        preferred = [p for p in room if p in rev.slice()] or room
        policy = policy_name(rev.spec)
        if policy == "hash":
            preferred = room
            self.check_hash(rev, ticket, pod)
        assert pod in preferred, f"{ticket} borrows {pod} beside {preferred}"
        if policy == "first-available":
            assert pod is preferred[0]
        if policy == "least-loaded":
            assert len(pod.has) == min(len(p.has) for p in preferred)
        self.picked[policy] += 1
        self.via_service += pod.is_service
        if not pod.has:
            pod.busy_since = self.now
        pod.has.append(ticket)

    def check_hash(self, rev: Rev, ticket: Ticket, pod: Pod) -> None:
        """The same pods, all with room, have the same pod for a key whenever it comes."""
        reach = self.reach_of(rev)
        if self.with_room(rev) == reach and ticket not in self.failed:
            pods = frozenset(p.endpoint.address for p in reach)
            if len(pods) == len(reach):  # else two have one point
                home = self.homes.setdefault((ticket.key, pods), pod.endpoint.address)
                assert pod.endpoint.address == home

    def carry_out(self, changes: Changes | None) -> None:
        changes = changes or Changes()
        self.match_pods()
        for ticket in changes.assigned:
            rev = next(r for r in self.all_revs if r.real.config is ticket.config)
            assert rev.waiting(), f"{ticket} did not wait"
            assert ticket is rev.waiting()[0], f"{ticket} overtakes {rev.waiting()}"
            self.take_from_queue(ticket)
            self.assigned(rev, ticket)
        assert changes.expired == []
        for real in changes.gone:
            assert real not in self.gone, f"{real} is gone twice"
            self.gone.add(real)
        assert {p.real for p in self.new_gone} == set(changes.gone)
        wanted = {p.real for p in self.new_probes if p.state == "probing"}
        assert wanted <= set(changes.probe)
        for real in changes.probe:
            assert real.is_service or real.config.reach.pods
        assert all(p.state is not PodState.GONE for p in changes.probe)
        self.new_gone.clear()
        self.new_probes.clear()

    def match_pods(self) -> None:
        for rev in self.all_revs:
            if rev.service is not None and rev.service.real is None:
                rev.service.real = rev.real.service
            assert rev.real.service is (rev.service and rev.service.real)
            reals = {p.endpoint: p for p in rev.real.pods()}
            assert reals.keys() == rev.pods.keys()
            for endpoint, pod in rev.pods.items():
                if pod.real is None:
                    pod.real = reals[endpoint]
                    assert pod.real not in self.gone
                assert pod.real is reals[endpoint]

    # -- what holds after every step ------------------------------------------------------------

    def check(self) -> None:
        self.tickets.look()
        for rev in self.all_revs:
            self.check_revision(rev)
        waiting = [t for rev in self.all_revs for t in rev.waiting()]
        assert self.throttler.total.depth == len(waiting)
        assert self.throttler.total.bytes == sum(t.size for t in waiting)
        self.check_wakeup(waiting)
        assert all(t.state.value in ENDS for t in self.ended)

    def check_revision(self, rev: Rev) -> None:
        real, waiting = rev.real, rev.waiting()
        assert not (waiting and self.with_room(rev)), f"{waiting} beside {self.with_room(rev)}"
        assert all(t.state is QUEUED and t.pod is None and t.config is real.config for t in waiting)
        if waiting:
            self.check_reason(rev)
        arrivals = [t.arrived for t in waiting]
        assert arrivals == sorted(arrivals)
        statistics = real.statistics()
        assert statistics.waiting == real.breaker.own.depth == len(waiting)
        assert statistics.queued_bytes == real.breaker.own.bytes == self.bytes(rev)
        assert real.breaker.oldest() is (waiting[0] if waiting else None)
        assert statistics.in_flight == sum(len(p.has) for p in rev.everything())
        expected = real.expected_wait(self.now)
        assert expected is None or expected >= 0
        assert expected == 0 or not self.with_room(rev)
        assert 1 <= real.retry_after(self.now) <= 120
        assert statistics.in_reach == (0 if rev.via_service() else len(self.reach_of(rev)))
        limit = rev.spec.container_concurrency
        if rev.via_service():
            assert rev.service is not None
            capacity = rev.service.limit if limit else MAX
        else:
            capacity = len(self.reach_of(rev)) * (limit or MAX)
        assert statistics.capacity == min(capacity, MAX)
        if rev in self.known.values():
            assert (statistics.share.index, statistics.share.count) == rev.share
        for pod in rev.everything():
            assert pod.real is not None
            assert pod.real.endpoint == pod.endpoint
            assert pod.real.state.value == pod.state
            assert pod.real.ready == pod.ready
            assert pod.real.in_flight == len(pod.has)
            assert pod.real.limit == pod.limit
            assert pod.real.ejection.half_open == pod.on_trial
            assert (pod.real in real.backends.outliers) == pod.suspect
            assert all(t.pod is pod.real for t in pod.has)

    def check_reason(self, rev: Rev) -> None:
        """Of all words that could be said of what waits, one is true; it is the one that is said,
        and its detail says no more than is so."""
        lost = len(self.tickets) % 2 == 0
        reason, detail = waiting_reason(rev.real, lost)
        true = {word: details for word, details in self.whys(rev, lost).items() if details}
        assert list(true) == [reason.value], f"{reason.value} is said, {true} is so"
        assert detail in true[reason.value]
        self.told.add(reason.value)

    def whys(self, rev: Rev, lost: bool) -> dict[str, set[str]]:
        """What each word claims, and the details that it may come with; none where it is untrue."""
        listed = [p for p in rev.pods.values() if p.state != "draining"]
        ready = [p for p in listed if p.ready]
        used, by_pods = self.reach_of(rev), rev.reach[0]
        requests = sum(len(p.has) for p in used)
        passed = by_pods and any(p.state == "healthy" for p in listed)
        failing = [p for p in ready if p.error and p.state == "probing"]
        no_address = not by_pods and ready and not rev.address
        out = [p for p in listed if p.complained and (p.ready or rev.spec.probe_suffices)]
        not_ready = (not ready) if not by_pods else (passed or not (failing or out))
        id = rev.real.revision.id
        deleted = id not in self.known
        all_listed = self.listed[id].get(rev.spec.protocol, {})
        taken = len(all_listed) - len(rev.lists)
        misnamed = 0 if all_listed else sum(map(len, self.listed[id].values()))
        known = taken or misnamed or deleted  # why there is none
        if no_address:
            nothing = {"mesh mode is enabled, the private Service has no ClusterIP"}
        else:
            nothing = set() if listed else {""}
            if taken and not listed:
                other = next(other for other in IDS if other != id)
                nothing = {f"{taken} address{'es' * (taken > 1)} taken by {other}"}
            if misnamed and not listed:
                speaks, port = rev.spec.protocol.value, rev.spec.protocol.port_name
                which = f"{misnamed} address{'es' * (misnamed > 1)}"
                nothing = {f"{which} without a port named {port}: the revision speaks {speaks}"}
            if deleted and not listed:
                nothing = {"the revision was deleted"}
        met = {self.met(p) for p in listed if p.error and p.state == "probing"}
        if passed:
            unready = {"probe passed, not listed as ready"}
        else:
            unready = met if by_pods and met else {""}
        at_fault = {self.met(p) for p in failing} if by_pods else {""}
        if rev.service is not None and rev.service.error:
            told = self.met(rev.service, "ClusterIP ")
            at_fault = {f"{one}; {told}" if one else told for one in at_fault}
        stuck = listed and not used and not no_address
        return {
            "autoscaler-unreachable": ({""} if lost and not (listed or known) else set()),
            "no-endpoints": nothing if no_address or known or not lost else set(),
            "at-capacity": {f"{requests}/{sum(p.limit for p in used)}"} if used else set(),
            "pods-not-ready": unready if stuck and not_ready else set(),
            "bad-answers": {self.met(p) for p in out}
            if by_pods and stuck and not passed
            else set(),
            "probe-failing": at_fault
            if stuck and not not_ready and not (by_pods and out)
            else set(),
        }

    @staticmethod
    def met(pod: Pod, what: str = "") -> str:
        return f"{what}{pod.endpoint.address}: {pod.error}"

    def check_wakeup(self, waiting: list[Ticket]) -> None:
        wakeup = self.throttler.next_due()
        if waiting:
            assert wakeup is not None
            assert wakeup <= min(t.deadline for t in waiting)
        for rev in self.all_revs:
            reach = self.reach_of(rev)
            grows = rev.spec.container_concurrency == 0 or any(p.on_trial for p in reach)
            if rev.waiting() and reach and grows:
                assert wakeup is not None
                assert wakeup <= self.now + 0.02, "a slow start that nobody widens"

    def finish(self) -> None:
        """All requests end and all objects are deleted: nothing may be left."""
        for ticket in self.running():
            if ticket.state is ASSIGNED:
                self.end(ticket)
                rev = self.take_from_pod(ticket)
                self.carry_out(rev.real.release(ticket, self.now))
                self.check()
        self.now += 100
        self.wake()
        for ticket in self.running():
            self.end(ticket)
            rev = self.take_from_pod(ticket)
            self.carry_out(rev.real.release(ticket, self.now))
        self.check()
        for number, id in enumerate(IDS):
            self.delete(number, 0)
            self.listed[id] = {}
            self.tell_endpoints(id)
        assert set(self.ended) == set(self.tickets)
        assert self.throttler.total.depth == self.throttler.total.bytes == 0
        assert list(self.throttler) == []
        self.throttler.run_due(self.now + 1)
        assert self.throttler.next_due() is None
        for ticket in self.tickets:
            assert [s.value in ENDS for s in self.tickets.states(ticket)].count(True) == 1


WEIGHTS = {
    "request": 34,
    "release": 16,
    "hang_up": 5,
    "lose": 6,
    "hold": 3,
    "probe": 6,
    "answer": 6,
    "prove": 17,
    "endpoints": 7,
    "revise": 3,
    "delete": 1,
    "change_activators": 2,
    "change_service": 2,
    "refuse": 5,
    "answer_badly": 6,
    "answer_well": 2,
    "set_mesh": 1,
    "later": 9,
}


def random_steps(seed: int, count: int) -> list[Step]:
    chance = random.Random(seed)
    names = chance.choices(list(WEIGHTS), list(WEIGHTS.values()), k=count)
    start = [("revise", n, chance.randrange(1 << 16)) for n in (0, 1)]
    return start + [(n, chance.randrange(1 << 16), chance.randrange(1 << 16)) for n in names]


def take(seed: int, steps: Sequence[Step]) -> Walk:
    walk = Walk(seed)
    for name, a, b in steps:
        getattr(walk, name)(a, b)
        walk.check()
        walk.now += 1e-6  # no two requests arrive at the same time
    walk.finish()
    return walk


def failure(seed: int, steps: Sequence[Step]) -> BaseException | None:
    try:
        take(seed, steps)
    except Exception as error:
        return error
    return None


def shortest(
    steps: list[Step], fails: Callable[[list[Step]], object], tries: int = 2000
) -> list[Step]:
    """Leave out what a failure does not need: first large pieces, then single steps."""
    size = len(steps) // 2
    while size and tries > 0:
        at = 0
        while at < len(steps) and tries > 0:
            fewer = steps[:at] + steps[at + size :]
            tries -= 1
            if fails(fewer):
                steps = fewer
            else:
                at += size
        size //= 2
    return steps


@pytest.fixture(autouse=True)
def small_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget_module, "RESERVED_FOR", SMALL_RESERVE)
    monkeypatch.setattr(pod_module, "SLOW_START", SMALL_START)
    monkeypatch.setattr(slow_start_module, "SLOW_START_END", SMALL_END)
    monkeypatch.setattr(backends_module, "PROOF_LASTS", SHORT_PROOF)
    monkeypatch.setattr(silence_module, "SILENT_AFTER", SHORT_SILENCE)


@pytest.mark.parametrize("seed", range(120))
def test_a_random_life_agrees_with_the_plain_model_at_every_step(seed: int) -> None:
    steps = random_steps(seed, 300)
    if failure(seed, steps) is None:
        return
    fewest = shortest(steps, lambda fewer: failure(seed, fewer))
    lines = "\n".join(f"    {step}," for step in fewest)
    pytest.fail(f"take({seed}, [\n{lines}\n]): {failure(seed, fewest)!r}", pytrace=False)


def test_the_walks_go_where_it_matters() -> None:
    """Else they would agree on nothing much."""
    paths: set[tuple[str, ...]] = set()
    told: set[str] = set()
    picked: Counter[str] = Counter()
    gone = via_service = kept_off = silent = taken_out = taken_away = panicked = shed = 0
    for seed in range(30):
        walk = take(seed, random_steps(seed, 300))
        paths |= {tuple(s.value for s in walk.tickets.states(t)) for t in walk.tickets}
        gone += len(walk.gone)
        via_service += walk.via_service
        kept_off += walk.kept_off
        silent += walk.silent
        told |= walk.told
        picked += walk.picked
        taken_out += walk.taken_out
        taken_away += walk.taken_away
        panicked += walk.panicked
        shed += walk.shed
    assert ("new", "assigned", "released") in paths
    assert ("new", "queued", "assigned", "released") in paths
    assert ("new", "queued", "timed-out") in paths
    assert ("new", "queued", "cancelled") in paths
    assert ("new", "rejected") in paths
    assert ("new", "assigned", "queued", "assigned", "released") in paths
    assert ("new", "assigned", "timed-out") in paths
    assert told == {reason.value for reason in list(Reason)[:6]}
    assert all(picked[policy] > 100 for policy in POLICIES), picked
    assert gone > 100
    assert via_service > 15, via_service
    assert kept_off > 30, kept_off
    assert silent > 15, silent
    assert taken_out - panicked > 30, taken_out
    assert panicked > 15, panicked
    assert taken_away > 30, taken_away
    assert shed > 30, shed


def test_a_failing_walk_is_cut_down_to_the_steps_that_it_needs() -> None:
    steps = [("request", n, 0) for n in range(100)]
    needed = {("request", 17, 0), ("request", 60, 0)}
    assert set(shortest(steps, lambda fewer: needed <= set(fewer))) == needed
