"""The throttler alone: one request, and one change among very many revisions."""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Iterator
from random import Random
from time import perf_counter, process_time

from benchmarks.report import Row, middle
from throttler.balancing import POLICIES
from throttler.model import (
    NO_POLICIES,
    AdaptiveMode,
    AppProtocol,
    Endpoint,
    FlowKey,
    HashKey,
    ListedEndpoints,
    MeshMode,
    Policies,
    QueueOrder,
    Revision,
    RevisionID,
)
from throttler.reason import Reason
from throttler.revision import RevisionThrottler
from throttler.throttler import Limits, Throttler
from throttler.ticket import Ticket

PODS = (1, 100, 1000)
POLICY_PODS = (1, 1000, 10_000)
#: Keys of requests: more than a policy remembers.
USERS = 10_000
KEY = HashKey(b"x-user")
CONTAINER_CONCURRENCY = 10
REQUESTS = 100_000
#: Tickets that are made at a time.
BATCH = 100
ROUNDS = 7
GOAL_SECONDS = 1e-6

#: Queued requests, and their flows.
WAITERS = 10_000
FLOWS = 512
RANKED = QueueOrder(has_classes=True, fair_by=FlowKey())

#: Pods of one revision that pass their first probe.
START_PODS = (1000, 3000, 5000)
PODS_PER_REVISION = 10
EVENTS = 200
GOAL_PAUSE = 0.005

NOW = 1000.0
DEFAULT_LIMITS = Limits()
DEADLINE = NOW + 300


class Owner:
    """The owner of a ticket that ignores the throttler's calls."""

    def ticket_assigned(self) -> None:
        """Ignore it: no request waits in this measurement."""

    def ticket_expired(self, reason: Reason, detail: str) -> None:
        """Ignore it: no request expires in this measurement."""


class Yardstick:
    """Two calls and two queue operations: the cost of this interpreter on this machine."""

    def __init__(self) -> None:
        self._queue: deque[object] = deque(range(100))

    def put(self, item: object) -> None:
        self._queue.append(item)

    def take(self) -> object:
        return self._queue.popleft()


def measure(revisions: int) -> Iterator[Row]:
    """Yield rows for admit and release, for each policy, and for the longest pause of a change."""
    for pods in PODS:
        yield _admit_row(pods)
    for policy in POLICIES:
        yield _policy_row(f"by {policy}", Policies(policy, KEY))
    yield _policy_row("with a sticky key", Policies(sticky=KEY))
    yield _policy_row("with adaptive concurrency", Policies(adaptive=AdaptiveMode.ON), 0)
    yield _queue_row()
    yield _pause_row(revisions)
    yield _start_row()


def _start_row() -> Row:
    """Return a row for an activator that starts beside one service with thousands of pods."""
    took = {pods: _pass_probes(pods) for pods in START_PODS}
    few, *_, many = START_PODS
    return Row(
        f"throttler: {many:,} pods of one revision pass their first probe, 1,000 a second",
        f"{took[many]:.2f} s CPU",
        ", ".join(f"{pods:,} pods {took[pods]:.2f} s" for pods in START_PODS[:-1]),
        took[many] / took[few],
        "",
        None,
        {f"{pods}": seconds for pods, seconds in took.items()},
    )


def _pass_probes(pods: int) -> float:
    """Return the CPU seconds in which all pods of one revision become usable, one each ms."""
    throttler = Throttler(DEFAULT_LIMITS, Random(1).random)
    revision = RevisionID("default", "large")
    throttler.set_revision(Revision(revision, container_concurrency=1), NOW)
    listed = ListedEndpoints(frozenset(Endpoint(f"10.0.{n // 250}.{n % 250}") for n in range(pods)))
    probed = throttler.set_endpoints(revision, {AppProtocol.HTTP1: listed}, NOW).probe
    large, now, began = throttler.find(*revision), NOW, process_time()
    for pod in probed:
        now += 0.001
        large.probe_passed(pod, pod.epoch, now)
        if (due := throttler.deadlines.next_due()) is not None and due <= now:
            throttler.run_due(now)
    return process_time() - began


def _queue_row() -> Row:
    """Return a row for a request that is queued and one that leaves, in a long queue."""
    arrival = [_queue_and_serve(None, 1) for _ in range(ROUNDS)]
    ranked = [_queue_and_serve(RANKED, FLOWS) for _ in range(ROUNDS)]
    few = [_queue_and_serve(RANKED, FLOWS, WAITERS // 100) for _ in range(ROUNDS)]
    took, beside, short = middle(ranked), middle(arrival), middle(few)
    return Row(
        f"throttler: queue and serve, {WAITERS:,} queued requests, 3 classes, {FLOWS} flows",
        f"{took * 1e6:.2f} µs",
        f"in order of arrival {beside * 1e6:.2f} µs; with {WAITERS // 100} queued "
        f"{short * 1e6:.2f} µs",
        took / beside,
        "",
        None,
        {"ranked": ranked, "arrival": arrival, "few": few},
    )


def _queue_and_serve(order: QueueOrder | None, flows: int, waiters: int = 0) -> float:
    """Return the seconds in which one request is queued and another one gets its pod."""
    # Class low may fill three quarters of the queue.
    revision = _healthy(1, Policies(order=order), limits=Limits(queue_depth=2 * WAITERS))
    owner, luck = Owner(), Random(1)

    def ticket() -> Ticket:
        made = Ticket(owner, DEADLINE)
        made.priority, made.flow = luck.randrange(3), b"%d" % luck.randrange(flows)
        return made

    running = deque(ticket() for _ in range(CONTAINER_CONCURRENCY))
    for each in running:
        revision.admit(each, NOW)
    for _ in range(waiters or WAITERS):
        revision.admit(ticket(), NOW)
    took = 0.0
    for _ in range(REQUESTS // 10 // BATCH):
        tickets = [ticket() for _ in range(BATCH)]
        began = perf_counter()
        for each in tickets:
            changes = revision.release(running.popleft(), NOW)
            assert changes is not None
            running.append(changes.assigned[0])
            revision.admit(each, NOW)
        took += perf_counter() - began
    return took / (REQUESTS // 10)


def _admit_row(pods: int) -> Row:
    revision = _healthy(pods)
    pairs = [(_admit_and_release(revision), _yardstick()) for _ in range(ROUNDS)]
    took, beside = (middle([pair[i] for pair in pairs]) for i in (0, 1))
    return Row(
        f"throttler: admit and release, {pods:,} pods",
        f"{took * 1e6:.2f} µs",
        f"two calls on a deque {beside * 1e6:.2f} µs",
        middle([mine / other for mine, other in pairs]),
        f"<= {GOAL_SECONDS * 1e6:.0f} µs",
        took <= GOAL_SECONDS,
        {"pairs": pairs},
    )


def _admit_and_release(revision: RevisionThrottler) -> float:
    """Return the seconds of one request while half of the capacity is in flight.

    The tickets are created before: an interpreted loop would create them ten times as slowly as
    the activator's compiled code.
    """
    owner = Owner()
    held: list[Ticket] = []
    for _ in range(len(revision.backends.pods) * 5):
        ticket = Ticket(owner, DEADLINE)
        if revision.admit(ticket, NOW) is None:  # an adaptive limit begins lower
            revision.cancel(ticket, NOW)
            for each in held[len(held) // 2 :]:
                revision.release(each, NOW)
            del held[len(held) // 2 :]
            break
        held.append(ticket)
    took, luck = 0.0, Random(1)
    for _ in range(REQUESTS // BATCH):
        tickets = [Ticket(owner, DEADLINE) for _ in range(BATCH)]
        for ticket in tickets:
            ticket.key = b"user-%d" % luck.randrange(USERS)
        began = perf_counter()
        for ticket in tickets:
            revision.admit(ticket, NOW)
            revision.release(ticket, NOW)
        took += perf_counter() - began
    for ticket in held:
        revision.release(ticket, NOW)
    return took / REQUESTS


def _policy_row(name: str, policies: Policies, concurrency: int = CONTAINER_CONCURRENCY) -> Row:
    """Return a row for admit and release by policies, with few pods and with very many."""
    took = []
    for pods in POLICY_PODS:
        revision = _healthy(pods, policies, concurrency)
        took.append(middle([_admit_and_release(revision) for _ in range(ROUNDS)]) * 1e6)
    shown = " / ".join(f"{each:.2f}" for each in took)
    counts = " / ".join(f"{pods:,}" for pods in POLICY_PODS)
    return Row(
        f"throttler: admit and release {name}, {counts} pods",
        f"{shown} µs",
        "one pod",
        took[-1] / took[0],
        "",
        None,
        {"microseconds": took},
    )


def _yardstick() -> float:
    queue = Yardstick()
    began = perf_counter()
    for number in range(REQUESTS):
        queue.put(number)
        queue.take()
    return (perf_counter() - began) / REQUESTS


def _healthy(
    pods: int,
    policies: Policies = NO_POLICIES,
    concurrency: int = CONTAINER_CONCURRENCY,
    limits: Limits = DEFAULT_LIMITS,
) -> RevisionThrottler:
    """Return a revision with usable pods; it needs no probes, as the mesh mode is disabled."""
    throttler = Throttler(limits, Random(1).random)
    throttler.set_mesh(MeshMode.DISABLED, False, NOW)
    revision = Revision(
        RevisionID("default", "core"),
        container_concurrency=concurrency,
        policies=policies,
    )
    throttler.set_revision(revision, NOW)
    throttler.set_endpoints(revision.id, {AppProtocol.HTTP1: _endpoints(0, pods)}, NOW)
    return throttler.find(*revision.id)


def _pause_row(revisions: int) -> Row:
    throttler = Throttler(Limits(), Random(1).random)
    names = [RevisionID("default", f"core-{number}") for number in range(revisions)]
    for number, name in enumerate(names):
        throttler.set_revision(Revision(name, container_concurrency=CONTAINER_CONCURRENCY), NOW)
        _list_pods(throttler, name, number, PODS_PER_REVISION)
        revision = throttler.find(*name)
        for pod in list(revision.backends.unhealthy()):
            revision.probe_passed(pod, pod.epoch, NOW)
    pauses = sorted(_one_event(throttler, names, number) for number in range(EVENTS))
    return Row(
        f"throttler: one change among {revisions:,} revisions, {PODS_PER_REVISION} pods each",
        f"longest pause {pauses[-1] * 1e3:.2f} ms",
        f"median {middle(pauses) * 1e3:.2f} ms",
        pauses[-1] / middle(pauses),
        f"<= {GOAL_PAUSE * 1e3:.0f} ms",
        pauses[-1] <= GOAL_PAUSE,
        {"seconds": pauses, "trackedByGarbageCollector": len(gc.get_objects())},
    )


def _one_event(throttler: Throttler, names: list[RevisionID], number: int) -> float:
    """Return the seconds for replacing one pod of a revision."""
    index = number * len(names) // EVENTS
    began = perf_counter()
    _list_pods(throttler, names[index], index + 1, PODS_PER_REVISION)
    throttler.deadlines.next_due()
    return perf_counter() - began


def _list_pods(throttler: Throttler, name: RevisionID, first: int, count: int) -> None:
    throttler.set_endpoints(name, {AppProtocol.HTTP1: _endpoints(first, count)}, NOW)


def _endpoints(first: int, count: int) -> ListedEndpoints:
    listed = (Endpoint(_address(number), f"uid-{number}") for number in range(first, first + count))
    return ListedEndpoints(ready=frozenset(listed))


def _address(number: int) -> str:
    return f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}:8012"
