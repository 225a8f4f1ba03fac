"""One revision: which request gets which pod, which waits, and when a pod may be used."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from tests.rows import in_one_test
from tests.throttler.world import OWNER, One, addresses, revision
from throttler.capacity import MAX_CAPACITY, SLOW_START_STEP, ActivatorShare
from throttler.errors import RequestQueueFull
from throttler.model import Endpoint, HashKey, Overflow, Policies, QueueOrder
from throttler.pod import PodState
from throttler.request_policies import RequestPolicies
from throttler.ticket import (
    ASSIGNED,
    CANCELLED,
    QUEUED,
    REJECTED,
    RELEASED,
    TIMED_OUT,
    Changes,
    Ticket,
)

A, B, C, D = addresses(4)


def pods_of(tickets: list[Ticket]) -> list[str]:
    return [t.pod.address if t.pod else "waits" for t in tickets]


def some(changes: Changes | None) -> Changes:
    assert changes is not None
    return changes


class TestAdmission:
    def test_a_request_waits_while_there_is_no_pod_and_has_the_first_that_passes(self) -> None:
        one = One(1)
        ticket = one.request()
        assert pods_of([ticket]) == ["waits"]
        (pod,) = one.set_endpoints([A]).probe
        assert pods_of([ticket]) == ["waits"]
        assert some(one.passed(pod)).assigned == [ticket]
        assert pods_of([ticket]) == [A]

    def test_no_more_than_container_concurrency_at_a_time(self) -> None:
        one = One(3)
        one.healthy([A])
        tickets = one.requests(5)
        assert pods_of(tickets) == [A, A, A, "waits", "waits"]
        assert one.release(tickets[1]) == [tickets[3]]
        assert one.release(tickets[3]) == [tickets[4]]
        assert one.release(tickets[0]) == []
        assert one.throttler.slots.in_flight == 2

    def test_with_a_low_limit_one_pod_is_filled_before_the_next(self) -> None:
        one = One(3)
        one.healthy([A, B, C])
        assert pods_of(one.requests(4)) == [A, A, A, B]

    def test_with_a_higher_limit_the_pods_take_turns(self) -> None:
        one = One(5)
        one.healthy([A, B, C])
        assert pods_of(one.requests(4)) == [A, B, C, A]

    def test_without_a_limit_the_pods_share_the_load(self) -> None:
        one = One(0)
        one.healthy([A, B, C])
        counts = Counter(pods_of(one.requests(90)))
        assert set(counts) == {A, B, C}
        assert max(counts.values()) - min(counts.values()) <= 4

    def test_waiters_leave_in_order_of_arrival_up_to_the_free_slots(self) -> None:
        one = One(2)
        tickets = one.requests(5)
        one.set_endpoints([A])
        assert some(one.passed(one.pod(A))).assigned == tickets[:2]
        one.set_endpoints([A, B])
        assert some(one.passed(one.pod(B))).assigned == tickets[2:4]

    def test_peaks_are_those_since_the_last_look_however_short(self) -> None:
        one = One(2)
        one.healthy([A])
        assert one.throttler.take_peaks() == (0, 0)
        tickets = one.requests(5)
        for ticket in tickets[:4]:
            one.release(ticket)
        assert one.throttler.take_peaks() == (3, 2)
        assert one.throttler.take_peaks() == (0, 1)
        one.release(tickets[4])
        assert one.throttler.take_peaks() == (0, 1)
        assert one.throttler.take_peaks() == (0, 0)

    def test_a_full_queue_refuses_and_the_request_has_ended(self) -> None:
        one = One(1, depth=2)
        one.requests(2)
        ticket = Ticket(OWNER, 60.0)
        with pytest.raises(RequestQueueFull):
            one.throttler.admit(ticket, one.now)
        assert ticket.state is REJECTED
        assert one.throttler.cancel(ticket, one.now) is None
        assert one.throttler.queued.waiting == 2

    def test_a_full_queue_refuses_no_request_with_a_free_slot(self) -> None:
        one = One(1, depth=0)
        one.healthy([A])
        assert pods_of([one.request()]) == [A]


class TestLeaving:
    def test_a_client_that_leaves_the_queue_makes_way(self) -> None:
        one = One(1)
        one.healthy([A])
        running, first, second = one.requests(3)
        assert one.throttler.cancel(first, one.now) is None
        assert first.state is CANCELLED
        assert one.release(running) == [second]

    def test_a_client_that_leaves_its_pod_frees_the_slot_for_the_next(self) -> None:
        one = One(1)
        one.healthy([A])
        running, waiting = one.requests(2)
        assert some(one.throttler.cancel(running, one.now)).assigned == [waiting]
        assert running.state is RELEASED

    def test_a_client_that_left_already_changes_nothing(self) -> None:
        one = One(1)
        one.healthy([A])
        running, waiting = one.requests(2)
        one.release(running)
        assert one.throttler.cancel(running, one.now) is None
        assert one.throttler.slots.in_flight == 1
        assert waiting.state is ASSIGNED

    @pytest.mark.untraced
    @pytest.mark.parametrize("way", ["their clients leave", "a pod comes"])
    def test_when_very_many_leave_the_queue_none_is_remembered(self, way: str) -> None:
        one = One(1000, depth=1000)
        tickets = one.requests(1000)
        if way == "a pod comes":
            one.healthy([A])
        else:
            for ticket in tickets:
                one.throttler.cancel(ticket, one.now)
        assert one.throttler.queued.waiting == 0
        assert len(one.deadlines) <= 64

    def test_an_expired_request_at_the_head_does_not_stall_the_others(self) -> None:
        one = One(1)
        head, second = one.requests(2)
        one.throttler.expire(head)
        assert head.state is TIMED_OUT
        one.set_endpoints([A])
        assert some(one.passed(one.pod(A))).assigned == [second]


class TestRequeue:
    def test_a_request_that_its_pod_never_saw_is_next_again(self) -> None:
        one = One(1)
        one.healthy([A, B])
        first, second, third = one.requests(3)
        pod = first.pod
        assert pod is not None
        assert some(one.throttler.connect_failed(pod, "refused", one.now)).probe == [pod]
        assert one.throttler.requeue(first, one.now).assigned == []
        assert first.state is QUEUED
        assert one.release(second) == [first]
        assert third.pod is None

    def test_it_has_another_pod_at_once_if_one_has_room(self) -> None:
        one = One(1)
        one.healthy([A, B])
        ticket = one.request()
        pod = one.pod(A)
        one.throttler.connect_failed(pod, "refused", one.now)
        assert one.throttler.requeue(ticket, one.now).assigned == [ticket]
        assert pods_of([ticket]) == [B]
        assert pod.in_flight == 0

    def test_several_come_back_in_their_order_of_arrival(self) -> None:
        one = One(3)
        (pod,) = one.healthy([A])
        tickets = one.requests(5)
        one.throttler.connect_failed(pod, "refused", one.now)
        for ticket in (tickets[2], tickets[0], tickets[1]):
            one.throttler.requeue(ticket, one.now)
        assert some(one.passed(pod)).assigned == tickets[:3]

    def test_it_ends_if_its_deadline_has_passed_and_its_slot_goes_to_the_next(self) -> None:
        one = One(1)
        one.healthy([A])
        late, waiting = one.request(timeout=1.0), one.request()
        one.now = 2.0
        changes = one.throttler.requeue(late, one.now)
        assert (changes.expired, changes.assigned) == ([late], [waiting])
        assert late.state is TIMED_OUT

    def test_its_deadline_still_counts_in_the_queue(self) -> None:
        one = One(1)
        (pod,) = one.healthy([A])
        ticket = one.request(timeout=5.0)
        one.throttler.connect_failed(pod, "refused", one.now)
        one.throttler.requeue(ticket, one.now)
        assert one.deadlines.next() == ticket.deadline

    def test_the_last_request_of_a_leaving_pod_takes_the_pod_with_it(self) -> None:
        one = One(1)
        (pod,) = one.healthy([A])
        ticket = one.request()
        assert one.set_endpoints([]).gone == []
        changes = one.throttler.requeue(ticket, one.now)
        assert (changes.gone, changes.assigned) == ([pod], [])
        assert ticket.state is QUEUED


class TestPods:
    def test_a_pod_that_leaves_finishes_its_requests_and_gets_no_more(self) -> None:
        one = One(2)
        (pod,) = one.healthy([A])
        running = one.request()
        assert one.set_endpoints([]).gone == []
        waiting = one.request()
        assert waiting.pod is None
        assert some(one.throttler.release(running, one.now)).gone == [pod]
        assert (pod.state, list(one.throttler.backends.pods.values())) == (PodState.GONE, [])

    def test_an_idle_pod_that_leaves_is_gone_at_once_and_once_only(self) -> None:
        one = One(2)
        (pod,) = one.healthy([A])
        assert one.set_endpoints([]).gone == [pod]
        assert one.set_endpoints([]).gone == []

    def test_a_pod_that_comes_back_must_pass_a_new_probe(self) -> None:
        one = One(1)
        (pod,) = one.healthy([A])
        running, epoch = one.request(), pod.epoch
        one.set_endpoints([])
        assert one.set_endpoints([A]).probe == [pod]
        assert one.throttler.probe_passed(pod, epoch, one.now) is None
        assert pod.state is PodState.PROBING
        one.passed(pod)
        assert one.request().pod is None, "it still has the request of before"
        assert len(one.release(running)) == 1

    def test_the_same_address_with_another_uid_is_another_pod(self) -> None:
        one = One(1)
        (old,) = one.healthy([Endpoint(A, "old")])
        running, waiting = one.requests(2)
        (new,) = one.set_endpoints([Endpoint(A, "new")]).probe
        assert new is not old
        assert one.release(running) == []
        assert some(one.passed(new)).assigned == [waiting]
        assert (old.state, new.in_flight) == (PodState.GONE, 1)

    def test_a_flap_does_not_give_a_pod_more_than_its_limit(self) -> None:
        one = One(2)
        (pod,) = one.healthy([A])
        running = one.requests(2)
        waiting = one.request()
        one.throttler.probe_failed(pod, pod.epoch, "500", one.now)
        one.passed(pod)
        assert (pod.in_flight, waiting.pod) == (2, None)
        assert one.release(running[0]) == [waiting]

    def test_an_unhealthy_pod_that_frees_a_slot_gets_no_request(self) -> None:
        one = One(1)
        (pod,) = one.healthy([A])
        running, waiting = one.requests(2)
        one.throttler.probe_failed(pod, pod.epoch, "500", one.now)
        assert one.throttler.release(running, one.now) is None
        assert waiting.pod is None

    def test_ready_that_turns_not_ready_is_probed_again_before_the_next_request(self) -> None:
        one = One(1)
        (pod,) = one.healthy([A])
        assert one.set_endpoints([], [A]).probe == [pod]
        assert one.request().pod is None
        assert one.set_endpoints([A]).probe == [pod], "ready again is a hint that it may pass now"

    def test_what_does_not_change_asks_for_no_probe(self) -> None:
        one = One(1)
        one.healthy([A])
        one.set_endpoints([A], [B])
        changes = one.set_endpoints([A], [B])
        assert (changes.probe, changes.gone, changes.assigned) == ([], [], [])

    def test_a_pod_that_kubernetes_calls_not_ready_serves_when_our_probe_passes(self) -> None:
        one = One(1)
        one.set_endpoints([], [A])
        one.passed(one.pod(A))
        assert pods_of([one.request()]) == [A]

    def test_unless_our_probe_does_not_suffice(self) -> None:
        one = One(1, probe_suffices=False)
        ticket = one.request()
        one.set_endpoints([], [A])
        assert some(one.passed(one.pod(A))).assigned == []
        assert one.set_endpoints([A]).assigned == [ticket]

    def test_a_later_word_that_our_probe_suffices_lets_waiters_go(self) -> None:
        one = One(1, probe_suffices=False)
        ticket = one.request()
        one.set_endpoints([], [A])
        one.passed(one.pod(A))
        assert one.throttler.set_revision(revision(1), one.now).assigned == [ticket]


class TestProbeAnswers:
    def test_a_second_passed_probe_changes_only_the_time_of_the_last_probe(self) -> None:
        one = One(1)
        (pod,) = one.healthy([A])
        one.now = 9.0
        assert one.passed(pod) is None
        assert (pod.last_response_at, pod.probe.at) == (0.0, 9.0)

    def test_failures_are_counted_from_the_first(self) -> None:
        one = One(1)
        one.set_endpoints([A])
        pod = one.pod(A)
        for now in (3.0, 4.0, 5.0):
            assert one.throttler.probe_failed(pod, pod.epoch, f"at {now}", now) is None
        assert (pod.probe.failures, pod.probe.failing_since, pod.probe.error) == (3, 3.0, "at 5.0")
        one.passed(pod)
        assert (pod.probe.failures, pod.probe.error) == (0, "")

    def test_a_failure_of_a_healthy_pod_asks_for_a_probe(self) -> None:
        one = One(1)
        (pod,) = one.healthy([A])
        epoch = pod.epoch
        changes = some(one.throttler.probe_failed(pod, epoch, "500", one.now))
        assert (changes.probe, pod.state) == ([pod], PodState.PROBING)
        assert one.throttler.probe_failed(pod, epoch, "late", one.now) is None
        assert (pod.probe.failures, pod.probe.error) == (1, "500")

    def test_probe_results_of_a_leaving_pod_do_not_bring_it_back(self) -> None:
        one = One(1)
        (pod,) = one.healthy([A])
        one.request()
        one.set_endpoints([])
        assert one.passed(pod) is None
        assert one.throttler.probe_failed(pod, pod.epoch, "500", one.now) is None
        assert one.throttler.connect_failed(pod, "refused", one.now) is None
        assert pod.state is PodState.DRAINING

    def test_probe_results_of_a_removed_pod_are_ignored(self) -> None:
        one = One(1)
        (pod,) = one.healthy([A])
        one.set_endpoints([])
        assert one.passed(pod) is None
        assert one.throttler.probe_failed(pod, pod.epoch, "500", one.now) is None
        assert one.throttler.connect_failed(pod, "refused", one.now) is None
        assert pod.state is PodState.GONE

    def test_the_pods_worth_a_quick_probe_are_those_that_have_not_passed(self) -> None:
        one = One(1)
        one.healthy([A, B])
        one.request()
        one.set_endpoints([B, C], [D])
        assert {p.address for p in one.throttler.backends.unhealthy()} == {C, D}


class TestThousandsOfPods:
    """From 256 usable pods on, pods that pass their probe are added together."""

    @pytest.fixture
    def one(self) -> One:
        one = One(1)
        changes = one.set_endpoints(addresses(260))
        for pod in changes.probe[:256]:
            one.passed(pod)
        self.late = changes.probe[256:]
        return one

    def test_pods_that_pass_are_used_together_a_moment_later(self, one: One) -> None:
        assert one.throttler.has_free_slot
        for pod in self.late:
            one.now += 0.001
            one.passed(pod)
        assert not any(pod.in_use for pod in self.late)
        assert one.raise_at == pytest.approx(one.now - 0.003 + 0.02)
        one.now += 0.02
        one.throttler.raise_limits(one.now)
        assert all(pod.in_use for pod in self.late)
        assert one.throttler.capacity() == 260

    def test_a_request_that_needs_such_a_pod_gets_it_at_once(self, one: One) -> None:
        one.requests(255)
        one.passed(self.late[0])
        assert "waits" not in pods_of(one.requests(2))
        assert pods_of([one.request()]) == ["waits"]
        one.passed(self.late[1])  # a request waits for it
        assert self.late[1].in_flight == 1

    def test_a_request_that_loses_its_pod_gets_such_a_pod(self, one: One) -> None:
        ticket, *_ = one.requests(1)
        lost = ticket.pod
        assert lost is not None
        one.passed(self.late[0])
        one.set_endpoints([each for each in addresses(260) if each != lost.address])
        one.requests(255)
        one.passed(self.late[1])
        one.requests(1)
        assert not one.throttler.has_free_slot
        changes = one.throttler.requeue(ticket, one.now)  # the pod refuses it, because it drains
        assert (changes.assigned, pods_of([ticket])) == ([ticket], [self.late[1].address])

    def test_requests_wait_for_one_pod_only_once_all_pods_are_used(self, one: One) -> None:
        """So the next request that needs such a pod finds none queued."""
        throttler = one.throttler
        policies = Policies(sticky=HashKey(b"session"), sticky_overflow=Overflow.WAIT)
        throttler.set_revision(replace(throttler.revision, policies=policies), one.now)
        tickets = [Ticket(OWNER, 60.0) for _ in range(2)]
        for ticket in tickets:
            ticket.key = b"own"
        throttler.admit(tickets[0], one.now)
        one.passed(self.late[0])
        assert throttler.outdated
        throttler.admit(tickets[1], one.now)
        assert not throttler.outdated
        assert self.late[0].in_use


class TestSlices:
    def test_pods_of_the_own_share_come_first_and_others_before_requests_wait(self) -> None:
        one = One(1)
        one.healthy([A, B, C])
        one.throttler.set_share(ActivatorShare(1, 3), one.now)
        assert pods_of(one.requests(4)) == [B, A, C, "waits"]

    @pytest.mark.untraced
    @pytest.mark.parametrize("container_concurrency", [1, 4])
    def test_activators_do_not_all_borrow_the_same_pod(self, container_concurrency: int) -> None:
        """Each of 10 activators with a full share borrows once."""
        borrowed = set()
        for index in range(10):
            one = One(container_concurrency, seed=index)
            one.healthy(addresses(40))
            one.throttler.set_share(ActivatorShare(index, 10), one.now)
            one.requests(4 * container_concurrency)
            borrowed.update(pods_of([one.request()]))
        assert len(borrowed) >= 7

    def test_waiters_prefer_our_own_pods_too(self) -> None:
        one = One(1)
        tickets = one.requests(2)
        one.throttler.set_share(ActivatorShare(1, 2), one.now)
        one.set_endpoints([A])
        one.passed(one.pod(A))
        assert pods_of(tickets) == [A, "waits"]

    def test_without_borrowing_a_request_waits_for_our_own(self) -> None:
        one = One(1, borrow=False)
        one.healthy([A, B, C])
        one.throttler.set_share(ActivatorShare(1, 2), one.now)
        assert pods_of(one.requests(2)) == [B, "waits"]
        assert one.throttler.statistics().capacity == 1

    def test_another_share_lets_waiters_go(self) -> None:
        one = One(1, borrow=False)
        one.healthy([A, B, C])
        one.throttler.set_share(ActivatorShare(1, 2), one.now)
        tickets = one.requests(3)
        changes = one.throttler.set_share(ActivatorShare(0, 1), one.now)
        assert changes.assigned == tickets[1:]

    def test_a_request_on_a_pod_that_is_ours_no_more_frees_nothing_of_ours(self) -> None:
        one = One(1, borrow=False)
        one.healthy([A, B])
        one.throttler.set_share(ActivatorShare(0, 2), one.now)
        running, waiting = one.requests(2)
        one.throttler.set_share(ActivatorShare(1, 2), one.now)
        assert pods_of([waiting]) == [B]
        last = one.request()
        assert one.release(running) == []
        assert last.pod is None

    def test_without_a_limit_per_pod_there_is_nothing_to_share_out(self) -> None:
        one = One(0, borrow=False)
        one.healthy([A, B, C])
        one.throttler.set_share(ActivatorShare(0, 3), one.now)
        assert set(pods_of(one.requests(30))) == {A, B, C}

    def test_two_pods_at_one_address_are_in_the_same_order_for_every_activator(self) -> None:
        """The order does not depend on which of the two this activator saw first."""
        for order in ("xy", "yx"):
            one = One(1, borrow=False)
            for known in (order[:1], order):
                one.set_endpoints([Endpoint(A, uid) for uid in known])
            for pod in list(one.throttler.backends.pods.values()):
                one.passed(pod)
            one.throttler.set_share(ActivatorShare(1, 2), one.now)
            assert [p.endpoint.uid for p in one.throttler.backends.pods.values() if p.in_share] == [
                "y"
            ]

    @in_one_test(
        ("container_concurrency", "pods", "index", "count", "capacity"),
        [
            (10, 1, -1, 0, 10),
            (10, 2, 0, 1, 20),
            (10, 2, 0, 2, 10),
            (10, 3, 0, 2, 20),
            (10, 3, 1, 2, 10),
            (1, 5, 0, 2, 3),
            (1, 5, 1, 2, 2),
            (42, 6, 0, 4, 84),
            (0, 3, 0, 2, MAX_CAPACITY),
            (10, 0, 0, 2, 0),
            (0, 0, 0, 2, 0),
        ],
    )
    def test_the_capacity_of_our_share_is_knatives(
        self, container_concurrency: int, pods: int, index: int, count: int, capacity: int
    ) -> None:
        one = One(container_concurrency, borrow=False)
        one.throttler.set_share(ActivatorShare(index, count), one.now)
        one.healthy(addresses(pods))
        assert one.throttler.statistics().capacity == capacity

    def test_of_six_pods_the_first_of_four_activators_has_two(self) -> None:
        one = One(42, borrow=False)
        one.healthy(addresses(6))
        one.throttler.set_share(ActivatorShare(0, 4), one.now)
        counts = Counter(pods_of(one.requests(90)))
        assert counts == {addresses(6)[0]: 42, addresses(6)[4]: 42, "waits": 6}
        one.set_endpoints([])
        assert one.throttler.statistics().capacity == 0


class TestNewSpecification:
    def test_more_concurrency_lets_waiters_go_at_once(self) -> None:
        one = One(1)
        one.healthy([A])
        tickets = one.requests(4)
        assert one.throttler.set_revision(revision(3), one.now).assigned == tickets[1:3]

    def test_less_concurrency_aborts_nothing_and_admits_no_request_until_it_holds(self) -> None:
        one = One(3)
        one.healthy([A])
        tickets = one.requests(4)
        assert one.throttler.set_revision(revision(1), one.now).assigned == []
        assert [t.state for t in tickets[:3]] == [ASSIGNED] * 3
        assert one.release(tickets[0]) == []
        assert one.release(tickets[1]) == []
        assert one.release(tickets[2]) == [tickets[3]]

    def test_the_policy_follows(self) -> None:
        one = One(3)
        one.healthy([A, B, C])
        one.throttler.set_revision(revision(10), one.now)
        assert pods_of(one.requests(3)) == [A, B, C]

    def test_other_changes_leave_the_turn_where_it_was(self) -> None:
        one = One(10)
        one.healthy([A, B, C])
        one.request()
        one.throttler.set_revision(revision(10, uid="uid-2"), one.now)
        assert pods_of([one.request()]) == [B]

    def test_from_no_limit_to_one_and_back(self) -> None:
        one = One(0)
        one.healthy([A])
        one.requests(10)
        one.throttler.set_revision(revision(2), one.now)
        waiting = one.request()
        assert waiting.pod is None
        assert one.throttler.set_revision(revision(0), one.now).assigned == [waiting]
        assert one.pod(A).limit == 10 + 64


class TestSlowStart:
    @pytest.mark.untraced
    def test_waiters_are_released_in_doubling_steps_and_soon_all_of_them(self) -> None:
        one = One(0, depth=10_000)
        tickets = one.requests(5000)
        one.set_endpoints([A])
        released = [len(some(one.passed(one.pod(A))).assigned)]
        start = one.now
        while one.raise_at is not None and len(released) < 20:
            one.now = one.raise_at
            released.append(len(one.throttler.raise_limits(one.now).assigned))
        assert released == [64, 64, 128, 256, 512, 1024, 2048, 904]
        assert one.now - start == pytest.approx(7 * SLOW_START_STEP)
        assert all(t.state is ASSIGNED for t in tickets)
        assert one.deadlines.slow_starts == set()

    def test_responses_free_slots_without_waiting_for_a_step(self) -> None:
        one = One(0)
        tickets = one.requests(70)
        one.set_endpoints([A])
        one.passed(one.pod(A))
        assert one.release(tickets[0]) == [tickets[64]]

    def test_it_begins_when_a_request_has_to_wait_and_a_pod_is_there(self) -> None:
        one = One(0)
        one.requests(1)
        due = [one.raise_at]  # without a pod there is no limit to widen
        one.healthy([A])
        one.requests(63)
        due.append(one.raise_at)  # the queue is empty
        one.request()
        assert due == [None, None]
        assert one.raise_at == one.now + SLOW_START_STEP
        assert one.deadlines.slow_starts == {one.throttler.queue.slow_start}

    def test_a_pod_that_comes_back_to_health_starts_slowly_again(self) -> None:
        one = One(0, depth=10_000)
        (pod,) = one.healthy([A])
        one.requests(64)
        one.throttler.connect_failed(pod, "refused", one.now)
        one.requests(500)
        one.passed(pod)
        assert pod.in_flight == 128

    def test_a_limit_that_came_meanwhile_is_not_widened(self) -> None:
        one = One(0)
        (pod,) = one.healthy([A])
        tickets = one.requests(70)
        assert one.raise_at is not None
        one.throttler.set_revision(revision(10), one.now)
        one.now += SLOW_START_STEP
        assert one.throttler.raise_limits(one.now).assigned == []
        assert pod.limit == 10
        assert one.throttler.queue.slow_start.at is None
        assert not one.deadlines.slow_starts
        for ticket in tickets[:55]:
            one.release(ticket)
        assert pod.in_flight == 10

    def test_a_pod_with_room_is_not_widened(self) -> None:
        one = One(0)
        (pod,) = one.healthy([A])
        tickets = one.requests(65)
        one.release(tickets[0])
        one.release(tickets[1])
        one.throttler.raise_limits(one.now)
        assert pod.limit == 64

    def test_it_ends_with_the_last_pod_and_begins_with_the_next(self) -> None:
        one = One(0)
        one.healthy([A])
        one.requests(70)
        one.set_endpoints([])
        one.throttler.raise_limits(one.now)
        assert one.throttler.queue.slow_start.at is None
        waiting = one.throttler.queued.waiting
        assert len(one.set_endpoints([B]).assigned) == 0
        assert len(some(one.passed(one.pod(B))).assigned) == waiting == 6

    def test_a_revision_with_a_limit_has_none(self) -> None:
        one = One(1)
        one.healthy([A])
        one.requests(3)
        assert one.throttler.queue.slow_start.at is None


class TestStatistics:
    def test_they_tell_what_there_is(self) -> None:
        one = One(1, probe_suffices=False)
        one.healthy([A])
        one.set_endpoints([A], [B])
        one.passed(one.pod(B))
        one.request()
        first = one.request(size=70)
        one.request(size=30)
        statistics = one.throttler.statistics()
        assert (statistics.waiting, statistics.queued_bytes) == (2, 100)
        assert statistics.oldest_arrival == first.arrived
        assert (statistics.in_flight, statistics.capacity, statistics.in_reach) == (1, 1, 1)
        assert (statistics.healthy, statistics.queue_depth) == (2, 1000)
        assert [p.address for p in statistics.pods] == [A, B]
        assert statistics.share == ActivatorShare(-1, 0)

    def test_of_nothing_they_are_empty(self) -> None:
        statistics = One(1).throttler.statistics()
        assert (statistics.waiting, statistics.in_flight, statistics.capacity) == (0, 0, 0)
        assert statistics.oldest_arrival is None
        assert statistics.pods == ()

    def test_idle_is_a_revision_without_requests(self) -> None:
        one = One(1)
        idle = [one.throttler.idle]
        ticket = one.request()
        idle.append(one.throttler.idle)
        one.throttler.cancel(ticket, one.now)
        idle.append(one.throttler.idle)
        one.set_endpoints([A])
        idle.append(one.throttler.idle)
        assert idle == [True, False, True, True]


def test_a_late_request_that_leaves_a_full_pod_frees_its_slot_with_no_request_queued() -> None:
    one = One(1)
    one.healthy(addresses(1))
    ticket = one.request(timeout=1.0)
    one.now += 2.0
    changes = one.throttler.requeue(ticket, one.now)
    assert changes.expired == [ticket]
    assert changes.assigned == []
    assert one.request().state is ASSIGNED


@pytest.mark.parametrize("order", [None, QueueOrder(has_classes=True)])
@pytest.mark.parametrize("requests", [None, RequestPolicies()])
def test_the_loss_of_the_last_pod_names_the_queued_requests(
    order: QueueOrder | None, requests: RequestPolicies | None
) -> None:
    """Only a revision with policies for requests without a pod needs them."""
    one = One(1)
    spec = replace(revision(1), policies=Policies(order=order, requests=requests))
    one.throttler.set_revision(spec, one.now)
    one.healthy([A, B])
    first, *_, last = one.requests(4)
    assert not one.set_endpoints([A]).stranded
    some(one.throttler.connect_failed(one.pod(A), "gone", one.now))
    one.throttler.requeue(first, one.now)
    assert one.throttler.queued.tickets()[0] is first
    one.passed(one.pod(A))
    changes = one.set_endpoints()
    queued = [each for each in one.tickets if each.state is QUEUED] if requests else []
    assert {*changes.stranded} == {*queued}
    assert (last in changes.stranded) is (requests is not None)
