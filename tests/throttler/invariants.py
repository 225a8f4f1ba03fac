"""What holds after each call of the throttler, in any state.

Each check compares the throttler with the ledger, or two views of the throttler with each other. No
check predicts the throttler's choice: the checks state which choices are allowed.
"""

from __future__ import annotations

from collections import Counter
from math import ceil

from tests.throttler.ledger import Fed, Ledger, Seen
from throttler.balancing import adaptive_mode, policy_name
from throttler.model import AdaptiveMode, Endpoint, QueueOrder, RevisionKind
from throttler.pod import PodState, PodTracker
from throttler.reason import Reason
from throttler.throttler import Limits, Throttler
from throttler.ticket import QUEUED, REJECTED, Ticket
from throttler.wait_reason import waiting_reason

#: The capacity of a pod without a limit.
UNLIMITED = 2_147_483_647


# Pods and Service that may be used.


def usable(fed: Fed) -> list[PodTracker]:
    """Return the pods that may get requests, by address."""
    suffices = fed.spec.probe_suffices
    found = [
        pod
        for pod in fed.real.backends.pods.values()
        if pod.state is PodState.HEALTHY and (pod.ready or suffices) and fed.real.config.reach.pods
    ]
    return sorted(found, key=lambda pod: pod.endpoint)


def by_service(fed: Fed) -> bool:
    """Return whether requests go to the ClusterIP of the Service."""
    service = fed.real.backends.service.tracker
    return service is not None and service.state is PodState.HEALTHY


def in_reach(fed: Fed) -> list[PodTracker]:
    """Return the pods that get requests of this activator, or the ClusterIP."""
    if by_service(fed):
        assert fed.real.backends.service.tracker is not None
        return [fed.real.backends.service.tracker]
    if fed.real.passes_on and fed.real.peer.tracker is not None:
        return [fed.real.peer.tracker]
    return [pod for pod in usable(fed) if pod.in_use]


def with_room(fed: Fed, ledger: Ledger) -> list[PodTracker]:
    """Return the pods in reach that have fewer tickets than their limit."""
    return [pod for pod in in_reach(fed) if ledger.count(pod) < pod.limit]


def check_reach(fed: Fed, borrow: bool) -> None:
    """All usable pods are in use; where activators share them, as many as the share's size."""
    found = in_reach(fed)
    if by_service(fed):
        assert usable(fed) == []
        return
    every = usable(fed)
    index, count = fed.share
    if fed.real.passes_on:
        assert 0 < len(every) <= index
        assert fed.spec.container_concurrency
        assert not fed.spec.behind_queue_proxy
        return
    if borrow or fed.spec.container_concurrency == 0 or index == -1 or count < 2:
        assert found == every
    elif count > len(every):
        assert found == every[index % len(every) :][:1] if every else not found
    else:
        each, rest = divmod(len(every), count)
        spare = every[each * count :]
        assert found == every[index * each : (index + 1) * each] + spare[index:][:1]
        assert len(found) == each + (index < rest)


def check_service(fed: Fed, seen: dict[PodTracker, Seen], began: bool) -> None:
    """The ClusterIP serves only where no pod can be reached, and begins only with a mesh."""
    if fed.real.backends.service.tracker is None:
        return
    reach = fed.real.config.reach
    listed = [pod for pod in fed.real.backends.pods.values() if pod.state is not PodState.DRAINING]
    assert reach.service
    assert any(pod.ready for pod in listed)
    if reach.pods:
        assert usable(fed) == []
        if began:
            assert all(seen.get(pod, Seen()).mesh_like for pod in listed if pod.ready)


def check_known(fed: Fed, ledger: Ledger, others: set[Endpoint], claimed: set[Endpoint]) -> None:
    """Each listed pod is known, unless another revision has its address; no other pod is.

    Arguments:
        others: what other revisions list; claimed: what the last event listed for one of them.
    """
    live = {
        pod.endpoint
        for pod in fed.real.backends.pods.values()
        if pod.state is not PodState.DRAINING
    }
    assert live <= set(fed.listed)
    for endpoint in live - others:
        assert endpoint.address not in {one.address for one in claimed}, f"{endpoint} is replaced"
    staying = {one for one, ready in fed.listed.items() if ready is not None}
    if live & staying:
        assert live <= staying, "in use though it terminates, and another pod does not"
    if not fed.deleted:
        elsewhere = {one.address for one in others}
        expected = staying if live & staying else set(fed.listed)
        assert all(one.address in elsewhere for one in expected - live)
    for pod in fed.real.backends.pods.values():
        if pod.state is PodState.DRAINING:
            assert ledger.count(pod), f"{pod.endpoint} drains without a request"
        else:
            assert pod.ready == (fed.listed[pod.endpoint] is not False)
            assert pod.config.last_resort == (fed.listed[pod.endpoint] is None)


def half_is_left(fed: Fed) -> bool:
    """Return whether at most half of the pods are ejected or would be."""
    outliers = fed.real.backends.outliers
    others = [pod for pod in usable(fed) if pod not in outliers]
    return sum(pod in outliers for pod in fed.real.backends.pods.values()) <= len(others)


# Requests.


def check_assigned(
    ticket: Ticket, pod: PodTracker, fed: Fed, ledger: Ledger, failed: list[PodTracker]
) -> None:
    """The pod is in reach, has room, and is one that the policy may choose."""
    room = with_room(fed, ledger)
    assert pod in room, f"{ticket} on {pod.endpoint}, which has no free slot, or is not in reach"
    limit = fed.spec.container_concurrency
    assert pod.is_service or not limit or pod.limit <= limit
    for one in failed:
        room = [other for other in room if other is not one] or room
    policy = "sticky" if fed.spec.policies.sticky is not None else policy_name(fed.spec)
    if policy not in ("hash", "sticky"):
        room = [other for other in room if other.in_share] or room
    assert pod in room, f"{ticket} borrows {pod.endpoint}, or has a pod that failed it"
    zones = fed.real.slots.zones
    if zones is not None and policy not in ("hash", "sticky"):
        near = [other for other in room if other.zone == zones.zone]
        assert not limit or not near or pod in near, f"{ticket} leaves its zone for {pod.endpoint}"
        room = [other for other in room if other.zone == pod.zone]
    if policy == "first-available" and pod.in_share:
        assert pod is room[0]
    if policy == "least-loaded":
        assert ledger.count(pod) == min(map(ledger.count, room))


def most_bytes(order: QueueOrder | None, ticket: Ticket, limits: Limits) -> int:
    """Return the bytes up to which the class of a ticket may fill the queue."""
    if order is None or not order.has_classes:
        return limits.queue_bytes
    return ceil(limits.queue_bytes * (1.0, 0.9, 0.75)[ticket.priority])


def check_refused(fed: Fed, ledger: Ledger, limits: Limits, ticket: Ticket, bound: str) -> None:
    """A refused request would exceed a limit; the reserve is for other revisions."""
    own, size, order = ledger.waiting(fed.real), ticket.size, fed.spec.policies.order
    size_own, size_all = (sum(t.size for t in one) + size for one in (own, ledger.queued))
    exceeded = {
        "revision-depth": len(own) >= limits.queue_depth,
        "revision-bytes": size_own > limits.queue_bytes,
        "total-depth": len(ledger.queued) >= limits.queue_depth_total - (3 if own else 0),
        "total-bytes": size_all > limits.queue_bytes_total - (45 if size_own > 15 else 0),
    }
    if order is not None and order.has_classes:
        share = (1.0, 0.9, 0.75)[ticket.priority]
        exceeded["class-depth"] = len(own) >= limits.queue_depth * share
        exceeded["class-bytes"] = size_own > most_bytes(order, ticket, limits)
    first = next((name for name, is_so in exceeded.items() if is_so), "")
    assert bound == first
    assert fed.real.slots.holder is not None or not with_room(fed, ledger)


def check_flow_full(
    fed: Fed, ledger: Ledger, limits: Limits, ticket: Ticket, held: int | None
) -> None:
    """A flow has at most twice its fair share, or two requests, and none of the reserve."""
    order, depth = fed.spec.policies.order, limits.queue_depth
    if order is None or order.fair_by is None:
        assert held is None
        return
    waiting = ledger.waiting(fed.real)
    # Requests that were queued in order of arrival before the annotation belong to no flow.
    ranked = [one for one in waiting if one.rank >= 0 and one is not ticket]
    own = sum(one.flow == ticket.flow for one in ranked)
    flows = len({one.flow for one in ranked})
    full = own >= 2 and (own >= max(2, 2 * depth // flows) or len(waiting) >= depth - 2)
    assert held == (own if full else None)


def check_queue(fed: Fed, ledger: Ledger, now: float) -> None:
    """No request waits beside a free slot; counters equal a recount."""
    real, waiting = fed.real, ledger.waiting(fed.real)
    room = with_room(fed, ledger)
    parked = [ticket for ticket in waiting if ticket in real.queued.parked]
    assert len(parked) == len(waiting) or not room, f"{waiting} wait beside {room}"
    assert not parked or real.slots.holder is not None
    for pod in real.queued.parked.pods():
        assert pod in in_reach(fed), f"requests wait for {pod}, which gets none"
        assert pod not in room, f"requests wait for {pod}, which has a free slot"
    for ticket in waiting:
        assert ticket.state is QUEUED
        assert ticket.pod is None
        assert ticket.config is real.config
    found = real.statistics()
    assert found.waiting == real.queued.own.depth == len(waiting)
    size = sum(ticket.size for ticket in waiting)
    assert found.queued_bytes == real.queued.own.bytes == size
    first = waiting[0] if waiting else None
    assert real.queued.oldest() is first or first in parked
    ranked = [ticket for ticket in waiting if ticket.rank >= 0]
    unparked = len(ranked) - len(parked)
    assert (real.queued.ranked is None) is (real.queued.order is None and not unparked)
    assert real.queued.ranked is None or real.queued.ranked.waiting == unparked
    assert real.queued.counts.flows == Counter(ticket.flow for ticket in ranked)
    counts = Counter(ticket.priority for ticket in ranked)
    assert real.queued.counts.by_priority == [counts[n] for n in range(3)]
    mine = [pod for pod in ledger.held.values() if pod.config.revision.id == real.revision.id]
    assert found.in_flight == real.slots.in_flight == len(mine)
    expected = real.expected_wait(now)
    assert expected is None or expected >= 0
    assert expected == 0 or not room
    assert 1 <= real.retry_after(now) <= 120


def check_capacity(fed: Fed) -> None:
    """The capacity is the sum over the pods in reach."""
    found, limit = fed.real.statistics(), fed.spec.container_concurrency
    assert fed.deleted or (found.share.index, found.share.count) == fed.share
    if by_service(fed):
        assert fed.real.backends.service.tracker is not None
        ready = sum(
            p.ready for p in fed.real.backends.pods.values() if p.state is not PodState.DRAINING
        )
        share = max(limit * ready // max(fed.share[1], 1), 1)
        assert found.capacity == (share if limit else UNLIMITED)
        assert found.in_reach == 0
        assert not limit or fed.real.backends.service.tracker.limit == share
    else:
        assert found.in_reach == len(in_reach(fed))
        assert found.capacity == min(found.in_reach * (limit or UNLIMITED), UNLIMITED)


def check_time(throttler: Throttler, feds: list[Fed], ledger: Ledger, now: float) -> None:
    """The next timer is due before a deadline passes, and soon while a limit may grow."""
    due = throttler.deadlines.next_due()
    if ledger.queued:
        assert due is not None
        assert due <= min(ticket.deadline for ticket in ledger.queued)
    for fed in feds:
        reach = in_reach(fed)
        grows = not fed.spec.container_concurrency or any(p.ejection.half_open for p in reach)
        if reach and grows and ledger.waiting(fed.real):
            measures = adaptive_mode(fed.spec) is AdaptiveMode.ON
            measures = measures and not any(p.ejection.half_open for p in reach)
            assert due is not None
            assert due <= now + (1.0 if measures else 0.02), "no timer for a slow start"


def check_shed(fed: Fed, ledger: Ledger, ticket: Ticket, expected: float, now: float) -> None:
    """The throttler sheds no request that has a free slot, has time, or is among the first."""
    assert not with_room(fed, ledger)
    assert expected > ticket.deadline - now
    running = sum(pod.config.revision.id == fed.real.revision.id for pod in ledger.held.values())
    assert len(ledger.waiting(fed.real)) >= max(1, running)
    assert ticket.state is REJECTED


# Reasons.


def check_reason(fed: Fed, lost: bool) -> Reason:
    """Return the reason why requests wait; it and its detail are true."""
    reason, detail = waiting_reason(fed.real, lost)
    listed = [pod for pod in fed.real.backends.pods.values() if pod.state is not PodState.DRAINING]
    used, reach = in_reach(fed), fed.real.config.reach
    errors = {f"{pod.address}: {pod.probe.error}" for pod in listed if pod.probe.error}
    if (service := fed.real.backends.service.tracker) is not None and service.probe.error:
        told = f"ClusterIP {service.address}: {service.probe.error}"
        errors |= {told} | {f"{error}; {told}" for error in errors}
    if used or reason is Reason.AT_CAPACITY:
        requests, limits = sum(p.in_flight for p in used), sum(p.limit for p in used)
        parked = len(fed.real.queued.parked)
        more = f"; sticky requests that wait for their own pod: {parked}" if parked else ""
        assert (reason, detail) == (Reason.AT_CAPACITY, f"{requests}/{limits}{more}")
    elif not listed:
        lost = lost and not (fed.deleted or fed.listed or fed.real.backends.misnamed)
        is_service = fed.spec.id.kind is RevisionKind.SERVICE
        away = Reason.SCALER_UNREACHABLE if is_service else Reason.AUTOSCALER_UNREACHABLE
        assert reason is (away if lost else Reason.NO_ENDPOINTS)
        assert bool(detail) == bool(fed.deleted or fed.listed or fed.real.backends.misnamed), (
            "a detail says why none is listed"
        )
    elif reason is Reason.PODS_ASLEEP:
        assert fed.spec.asleep
        assert bool(detail) is lost
    elif reason is Reason.NO_ENDPOINTS:
        assert not reach.pods
        assert not fed.real.backends.service.address
    elif reason is Reason.BAD_ANSWERS:
        assert detail in errors
        assert any(pod.ejection.active for pod in listed)
    elif reason is Reason.PROBE_FAILING:
        assert any(pod.ready and pod.state is PodState.PROBING for pod in listed)
        assert detail in errors | {""}
    else:
        assert reason is Reason.PODS_NOT_READY
        passed = any(pod.state is PodState.HEALTHY for pod in listed)
        assert passed or not any(pod.ready and pod.probe.error for pod in listed) or not reach.pods
    return reason
