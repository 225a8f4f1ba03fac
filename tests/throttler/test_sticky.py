"""Requests that stay at one pod: by a cookie, by a session, or by a key."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.throttler.world import OWNER, One, addresses, revision
from throttler import rendezvous as rendezvous_module
from throttler.errors import FlowFull, RequestQueueFull
from throttler.model import (
    AdaptiveMode,
    Endpoint,
    FlowKey,
    HashKey,
    KeyKind,
    Overflow,
    Policies,
    QueueOrder,
)
from throttler.pod import PodTracker
from throttler.rendezvous import Sticky, token_of
from throttler.request_policies import HIGH, LOW, NORMAL
from throttler.ticket import Ticket

COOKIE = HashKey(kind=KeyKind.COOKIE)
SESSION = HashKey(b"mcp-session-id")
REQUESTS = 100_000


def world(
    container_concurrency: int = 0,
    key: HashKey = COOKIE,
    overflow: Overflow = Overflow.OTHER,
    load_balancing: str = "",
    order: QueueOrder | None = None,
    **more: Any,
) -> One:
    one = One(container_concurrency, **more)
    policies = Policies(load_balancing, None, key, overflow, order=order)
    one.throttler.set_revision(replace(revision(container_concurrency), policies=policies), 0.0)
    return one


def sticky_of(one: One) -> Sticky:
    found = one.throttler.slots.sticky
    assert found is not None
    return found


def keyed(one: One, key: bytes = b"", priority: int = NORMAL, flow: bytes = b"") -> Ticket:
    one.now += 0.001
    ticket = Ticket(OWNER, one.now + 60.0)
    ticket.key, ticket.priority, ticket.flow = key, priority, flow
    one.throttler.admit(ticket, one.now)
    return ticket


def address_of(ticket: Ticket) -> str:
    assert ticket.pod is not None
    return ticket.pod.address


def visit(one: One, key: bytes) -> tuple[str, bytes]:
    """Serve a request; return the pod's address, and the key that the client has from then on."""
    ticket = Ticket(OWNER, 60.0)
    ticket.key = key
    assert one.throttler.admit(ticket, 0.0) is not None
    address, token = address_of(ticket), sticky_of(one).cookie_for(ticket)
    one.throttler.release(ticket, 0.0)
    return address, token or key


@pytest.mark.untraced
def test_the_share_of_a_pod_that_comes_or_goes_moves_and_no_other() -> None:
    """100,000 requests of clients with cookies, over a fleet that changes its size."""
    one, clients, places = world(), 5_000, dict[int, str]()
    one.healthy(addresses(4))
    keys = [b""] * clients
    sizes = (4, 5, 6, 10, 9, 8, 4, 3, 2, 3)
    for size in (*sizes, *sizes):
        before = {pod.address for pod in one.throttler.slots.pods}
        one.healthy(addresses(size))
        now = {pod.address for pod in one.throttler.slots.pods}
        moved = 0
        for client in range(clients):
            address, keys[client] = visit(one, keys[client])
            moved += places.setdefault(client, address) != address
            assert places[client] == address or places[client] not in now
            places[client] = address
        gone = len(before - now)
        assert moved / clients <= gone / len(before) + 0.02
    assert clients * 2 * len(sizes) == REQUESTS


@pytest.mark.untraced
def test_without_cookies_the_share_of_a_key_is_as_small() -> None:
    one = world(key=HashKey(kind=KeyKind.CLIENT_IP))
    places = dict[int, str]()
    for size in (4, 5, 6, 5, 4):
        before = len(one.throttler.slots.pods) or size
        one.healthy(addresses(size))
        moved = 0
        for client in range(4_000):
            address, _ = visit(one, b"10.1.%d.%d" % divmod(client, 250))
            moved += places.setdefault(client, address) != address
            places[client] = address
        assert moved / 4_000 <= 1 / max(size, before) + 0.02


def test_a_token_is_a_hash_on_which_all_activators_agree_and_names_no_address() -> None:
    def tokens(uid: str, *pods: Endpoint) -> list[bytes]:
        one = One()
        one.throttler.set_revision(replace(revision(uid=uid)), 0.0)
        return [token_of(pod) for pod in one.healthy(pods)]

    pods = Endpoint("10.0.0.1:8012", "pod-1"), Endpoint("10.0.0.1:8012", "pod-2")
    found = {*tokens("a", *pods), *tokens("b", *pods)}
    assert len(found) == 4
    assert tokens("a", *pods) == tokens("a", *pods)
    assert all(len(token) == 24 and not set(token) - set(b"0123456789abcdef") for token in found)


def test_a_client_gets_a_cookie_once_and_again_when_its_pod_is_gone() -> None:
    one = world()
    first, second = one.healthy(addresses(2))
    ticket = keyed(one)
    assert ticket.pod is not None
    token = sticky_of(one).cookie_for(ticket)
    assert token == token_of(ticket.pod)
    again = keyed(one, token)
    assert (again.pod, sticky_of(one).cookie_for(again)) == (ticket.pod, b"")
    other = second if ticket.pod is first else first
    one.set_endpoints([other.address])
    moved = keyed(one, token)
    assert (moved.pod, sticky_of(one).cookie_for(moved)) == (other, token_of(other))


def test_a_forged_token_leads_to_some_pod_always_the_same() -> None:
    one = world()
    one.healthy(addresses(5))
    for forged in (b"0" * 24, b"f" * 24):
        assert len({address_of(keyed(one, forged)) for _ in range(10)}) == 1


def test_a_session_that_a_pod_began_stays_there() -> None:
    one = world(key=SESSION, load_balancing="round-robin")
    pods = one.healthy(addresses(5))
    sticky = sticky_of(one)
    for number in range(20):
        begin = keyed(one)
        assert begin.pod is pods[number % 5]
        sticky.began_session(b"session-%d" % number, begin)
    for number in range(20):
        assert keyed(one, b"session-%d" % number).pod is pods[number % 5]
    assert sticky.counts.kept == 20
    one.set_endpoints([pod.address for pod in pods[1:]])
    assert keyed(one, b"session-0").pod in pods[1:]
    assert keyed(one, b"session-1").pod is pods[1]


def test_a_response_within_a_session_does_not_move_it() -> None:
    one = world(1, key=SESSION, load_balancing="round-robin")
    pods = one.healthy(addresses(2))
    begin = keyed(one)
    sticky_of(one).began_session(b"s", begin)
    elsewhere = keyed(one, b"s")  # its pod is full
    assert elsewhere.pod is pods[1]
    sticky_of(one).began_session(b"s", elsewhere)
    one.release(begin)
    one.release(elsewhere)
    assert keyed(one, b"s").pod is pods[0]


def test_sessions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendezvous_module, "MAX_SESSIONS", 10)
    one = world(key=SESSION)
    one.healthy(addresses(3))
    for number in range(100):
        sticky_of(one).began_session(b"%d" % number, keyed(one))
    assert len(sticky_of(one).sessions) == 10


def full_world(
    overflow: Overflow, order: QueueOrder | None = None, **more: Any
) -> tuple[One, PodTracker, Ticket, bytes]:
    """Return a world of two pods with one slot each, one of them full, and the token for it."""
    one = world(1, overflow=overflow, order=order, **more)
    one.healthy(addresses(2))
    ticket = keyed(one)
    assert ticket.pod is not None
    return one, ticket.pod, ticket, token_of(ticket.pod)


def test_a_request_of_a_full_pod_gets_another_and_keeps_its_cookie() -> None:
    one, full, _, token = full_world(Overflow.OTHER)
    other = keyed(one, token)
    assert other.pod is not None
    assert other.pod is not full
    assert sticky_of(one).cookie_for(other) == b""
    assert sticky_of(one).counts.overflowed == 1


def test_a_request_gets_another_pod_if_the_pod_of_its_key_is_full_or_has_failed_it() -> None:
    one = world(1, key=SESSION)
    one.healthy(addresses(3))
    first, second = keyed(one, b"s"), keyed(one, b"s")
    used = {first.pod, second.pod}
    assert len(used) == 2
    assert one.throttler.requeue(first, one.now).assigned == [first]
    assert first.pod not in used
    counts = sticky_of(one).counts
    assert (counts.hashed, counts.overflowed) == (1, 2)


def test_a_request_may_wait_for_its_own_pod_under_a_limit_that_responses_set() -> None:
    one = One()
    policies = Policies(sticky=COOKIE, sticky_overflow=Overflow.WAIT, adaptive=AdaptiveMode.ON)
    one.throttler.set_revision(replace(revision(), policies=policies), 0.0)
    pod, _ = one.healthy(addresses(2))
    tickets = [keyed(one, token_of(pod)) for _ in range(pod.limit + 1)]
    waiting = tickets.pop()
    assert {ticket.pod for ticket in tickets} == {pod}
    assert waiting.pod is None
    assert one.release(tickets[0]) == [waiting]
    assert waiting.pod is pod


def test_a_request_may_wait_for_its_own_pod_and_delays_no_other() -> None:
    one, full, first, token = full_world(Overflow.WAIT)
    waiting = [keyed(one, token) for _ in range(3)]
    assert [ticket.pod for ticket in waiting] == [None] * 3
    assert one.throttler.queued.waiting == 3
    passing = keyed(one)
    assert passing.pod not in (None, full)
    behind = keyed(one)  # both pods are full
    assert behind.pod is None
    assert one.release(passing) == [behind]
    for previous, ticket in zip([first, *waiting], waiting, strict=False):
        assert one.release(previous) == [ticket]
        assert ticket.pod is full
    assert sticky_of(one).counts.waited == 3


def test_requests_that_wait_for_a_pod_get_another_when_it_is_gone() -> None:
    one, full, _, token = full_world(Overflow.WAIT)
    waiting = [keyed(one, token) for _ in range(2)]
    left = next(pod for pod in one.throttler.slots.pods if pod is not full)
    changes = one.set_endpoints([left.address])
    assert changes.assigned == waiting[:1]
    assert waiting[0].pod is left
    assert one.release(waiting[0]) == waiting[1:]


def test_a_request_that_waits_for_its_pod_may_leave_or_expire() -> None:
    one, _, first, token = full_world(Overflow.WAIT)
    leaves, expires, stays = (keyed(one, token) for _ in range(3))
    one.throttler.cancel(leaves, one.now)
    one.throttler.expire(expires)
    assert one.release(first) == [stays]
    assert one.throttler.queued.waiting == one.total.depth == 0


def test_requests_that_wait_for_a_pod_count_against_the_limits() -> None:
    one = world(1, overflow=Overflow.WAIT, depth=2)
    one.healthy(addresses(2))
    full = keyed(one).pod
    assert full is not None
    for _ in range(2):
        keyed(one, token_of(full))
    with pytest.raises(RequestQueueFull):
        keyed(one, token_of(full))
    assert one.throttler.queued.waiting == 2


def test_a_request_that_its_pod_failed_goes_elsewhere_and_does_not_wait() -> None:
    one, full, first, _ = full_world(Overflow.WAIT)
    first.key = token_of(full)
    assert one.throttler.requeue(first, one.now).assigned == [first]
    assert first.pod not in (None, full)


def test_waiting_requests_are_assigned_when_the_annotation_is_gone() -> None:
    one, full, _, token = full_world(Overflow.WAIT)
    waiting = keyed(one, token)
    changes = one.throttler.set_revision(revision(1), one.now)
    assert changes.assigned == [waiting]
    assert waiting.pod is not full


class TestOrder:
    """Classes and flows among the requests that wait for one pod."""

    CLASSES = QueueOrder(has_classes=True)
    FLOWS = QueueOrder(fair_by=FlowKey(b"x-tenant"))

    def test_the_requests_of_a_pod_go_by_class(self) -> None:
        one, _, first, token = full_world(Overflow.WAIT, self.CLASSES)
        low, normal, high = (keyed(one, token, each) for each in (LOW, NORMAL, HIGH))
        for previous, ticket in ((first, high), (high, normal), (normal, low)):
            assert one.release(previous) == [ticket]

    def test_a_higher_class_in_the_queue_precedes_those_that_wait_for_the_pod(self) -> None:
        one, full, first, token = full_world(Overflow.WAIT, self.CLASSES)
        low = [keyed(one, token, LOW) for _ in range(3)]
        other = keyed(one)
        elsewhere = other.pod
        assert elsewhere is not None
        high = keyed(one, token_of(elsewhere), HIGH)
        urgent, equal = keyed(one, priority=HIGH), keyed(one, priority=LOW)
        assert one.release(first) == [urgent], "the first one waits for the other pod"
        assert urgent.pod is full
        assert one.release(urgent) == low[:1], "of two equal classes, it has had its turn"
        assert one.release(other) == [high]
        assert high.pod is elsewhere
        assert one.release(high) == [equal]

    def test_a_request_that_waits_for_its_pod_rises(self) -> None:
        one, full, first, token = full_world(Overflow.WAIT, self.CLASSES)
        low = keyed(one, token, LOW)
        keyed(one)
        one.now += 46.0
        high = keyed(one, priority=HIGH)
        assert one.release(first) == [low], "it has waited for three quarters of its time-out"
        assert one.release(low) == [high]
        assert high.pod is full

    def test_a_class_has_one_part_of_the_queue(self) -> None:
        one, _, _, token = full_world(Overflow.WAIT, self.CLASSES, depth=20)
        for _ in range(15):
            keyed(one, token, LOW)
        with pytest.raises(RequestQueueFull) as caught:
            keyed(one, token, LOW)
        assert caught.value.limit == "class-depth"
        keyed(one, token, HIGH)
        assert one.throttler.queued.counts.by_priority == [1, 0, 15]

    def test_a_flow_has_one_part_of_the_queue(self) -> None:
        one, _, _, token = full_world(Overflow.WAIT, self.FLOWS, depth=20)
        for _ in range(9):
            keyed(one, token, flow=b"greedy")
        keyed(one)
        keyed(one, flow=b"modest")
        keyed(one, flow=b"greedy")
        for _ in range(4):
            keyed(one, flow=b"%d" % one.throttler.queued.waiting)
        for key in (token, b""):
            with pytest.raises(FlowFull):
                keyed(one, key, flow=b"greedy")

    def test_requests_of_a_lost_pod_return_to_the_front_of_their_class(self) -> None:
        one, full, _, token = full_world(Overflow.WAIT, self.CLASSES)
        low, normal = keyed(one, token, LOW), keyed(one, token)
        other = keyed(one)
        later, high = keyed(one), keyed(one, priority=HIGH)
        assert other.pod is not None
        one.set_endpoints([other.pod.address])
        for previous, ticket in ((other, high), (high, normal), (normal, later), (later, low)):
            assert one.release(previous) == [ticket]
        assert full.in_flight == 1

    @pytest.mark.parametrize("order", [None, CLASSES, FLOWS])
    def test_a_request_of_a_lost_pod_precedes_those_that_wait_for_its_next_pod(
        self, order: QueueOrder | None
    ) -> None:
        def home(key: bytes, pods: list[str]) -> str:
            alone = world(1, SESSION)
            alone.healthy(pods)
            return address_of(keyed(alone, key))

        lost, kept, free = places = addresses(3)
        keys = [b"%d" % number for number in range(99)]
        moves = next(k for k in keys if (home(k, places), home(k, [kept, free])) == (lost, kept))
        stays = next(k for k in keys if home(k, places) == kept)
        one = world(1, SESSION, Overflow.WAIT, order=order)
        one.healthy(places)
        keyed(one, moves)
        served = keyed(one, stays)
        early, late = keyed(one, moves), keyed(one, stays)
        assert one.set_endpoints([kept, free]).assigned == []
        assert one.release(served) == [early]
        assert one.release(early) == [late]

    def test_a_changed_order_keeps_the_sessions_that_pods_have_begun(self) -> None:
        one = world(key=SESSION)
        one.healthy(addresses(4))
        begun = keyed(one)
        keys = (b"%d" % number for number in range(99))
        key = next(key for key in keys if keyed(one, key).pod is not begun.pod)
        sticky_of(one).began_session(key, begun)
        policies = replace(one.throttler.revision.policies, order=self.CLASSES)
        one.throttler.set_revision(replace(revision(0), policies=policies), one.now)
        assert keyed(one, key).pod is begun.pod

    @pytest.mark.parametrize("orders", [(None, CLASSES), (CLASSES, None), (CLASSES, FLOWS)])
    def test_a_changed_order_keeps_those_that_wait(
        self, orders: tuple[QueueOrder | None, QueueOrder | None]
    ) -> None:
        before, after = orders
        one, _, first, token = full_world(Overflow.WAIT, before)
        early = keyed(one, token)
        policies = replace(one.throttler.revision.policies, order=after)
        one.throttler.set_revision(replace(revision(1), policies=policies), one.now)
        late = keyed(one, token)
        assert one.release(first) == [early]
        assert one.release(early) == [late]


@pytest.mark.parametrize("load_balancing", ["least-loaded", "ewma-latency", "round-robin"])
def test_requests_without_a_key_go_by_the_other_policy(load_balancing: str) -> None:
    one = world(load_balancing=load_balancing)
    one.healthy(addresses(4))
    tickets = [keyed(one) for _ in range(8)]
    spread = {address_of(ticket) for ticket in tickets}
    assert len(spread) >= 3
    for ticket in tickets:
        one.release(ticket)
