"""All revisions: the order of requests, removal of revisions, and the next timer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.throttler.world import H2C, HTTP1, NAME, Many, addresses, endpoints, revision
from throttler.capacity import SLOW_START_STEP
from throttler.errors import RequestQueueFull, RevisionNotFound
from throttler.model import AppProtocol, RevisionID, RevisionKind
from throttler.pod import PodState
from throttler.throttler import Limits
from throttler.ticket import ASSIGNED, QUEUED, TIMED_OUT

A, B, C = addresses(3)
OTHER = RevisionID("default", "other-00001")


def up(many: Many, container_concurrency: int = 1, pods: list[str] | None = None) -> None:
    """Return a revision with these healthy pods."""
    many.throttler.set_revision(revision(container_concurrency), many.now)
    many.pass_all(many.set_endpoints(pods or [A]))


class TestFinding:
    def test_what_was_never_seen_is_not_found_and_not_made(self) -> None:
        many = Many()
        with pytest.raises(RevisionNotFound, match='"hello-00001" not found'):
            many.find()
        assert list(many.throttler) == []

    def test_name_and_namespace_both_count(self) -> None:
        many = Many()
        up(many)
        assert many.find().revision.id == NAME
        for pair in (("default", "other"), ("other", NAME.name)):
            with pytest.raises(RevisionNotFound):
                many.throttler.find(*pair)

    def test_a_deleted_one_is_not_found(self) -> None:
        many = Many()
        up(many)
        many.throttler.delete_revision(NAME)
        with pytest.raises(RevisionNotFound):
            many.find()

    def test_one_that_was_deleted_is_known_for_as_long_as_it_has_requests(self) -> None:
        many = Many()
        up(many)
        running = many.request()
        many.throttler.delete_revision(NAME)
        left = many.throttler.find_any(*NAME)
        assert left.deleted
        assert list(many.throttler) == [left]
        left.release(running, many.now)
        assert list(many.throttler) == []
        with pytest.raises(RevisionNotFound):
            many.throttler.find_any(*NAME)

    def test_one_that_comes_back_is_deleted_no_more(self) -> None:
        many = Many()
        up(many)
        many.request()
        many.throttler.delete_revision(NAME)
        many.throttler.set_revision(revision(1), many.now)
        assert not many.throttler.find_any(*NAME).deleted
        assert many.throttler.find_any(*NAME) is many.find()


class TestOrderOfEvents:
    def test_endpoints_may_come_before_their_revision(self) -> None:
        many = Many()
        listed = many.set_endpoints([A], [B])
        assert listed is not None
        assert [*listed.probe, *listed.gone, *listed.assigned, *listed.expired] == []
        changes = many.throttler.set_revision(revision(1), many.now)
        assert {p.address: p.ready for p in changes.probe} == {A: True, B: False}

    def test_endpoints_may_come_after_their_revision(self) -> None:
        many = Many()
        assert many.throttler.set_revision(revision(1), many.now).probe == []
        ticket = many.request()
        assert many.pass_all(many.set_endpoints([A])) == [ticket]

    def test_endpoints_that_were_deleted_before_the_revision_came_are_removed(self) -> None:
        many = Many()
        many.set_endpoints([A])
        many.throttler.set_endpoints(NAME, {}, many.now)
        assert many.throttler.set_revision(revision(1), many.now).probe == []

    def test_deleting_the_endpoints_means_no_pods(self) -> None:
        many = Many()
        up(many)
        pod = many.request().pod
        changes = many.throttler.set_endpoints(NAME, {}, many.now)
        assert changes is not None
        assert changes.gone == []
        assert pod is not None
        assert pod.state is PodState.DRAINING
        assert many.request().state is QUEUED

    def test_activators_may_come_before_their_revision(self) -> None:
        many = Many(own_ip="10.9.0.2")
        listed = {HTTP1: ["10.9.0.1", "10.9.0.2"]}
        assert many.throttler.set_activators(NAME, listed, many.now) is None
        up(many)
        assert position(many) == (1, 2)


def position(many: Many) -> tuple[int, int]:
    """Return the index of the activator, and the number of activators."""
    share = many.find().share
    return share.index, share.count


class TestActivators:
    def test_of_two_activators_and_three_pods_the_second_has_one(self) -> None:
        many = Many(own_ip="130.0.0.2", borrow=False)
        many.throttler.set_revision(revision(1, protocol=H2C), many.now)
        many.pass_all(many.set_endpoints([A, B, C], protocol=H2C))
        two = {H2C: ["130.0.0.2", "130.0.0.1"]}
        assert many.throttler.set_activators(NAME, two, many.now) is not None
        assert position(many) == (1, 2)
        assert many.find().statistics().capacity == 1
        many.throttler.set_activators(NAME, {H2C: ["130.0.0.2"]}, many.now)
        assert position(many) == (0, 1)
        assert many.find().statistics().capacity == 3

    def test_without_borrowing_the_second_request_times_out(self) -> None:
        many = Many(own_ip="130.0.0.2", borrow=False)
        up(many, 1, [A, B, C])
        many.throttler.set_activators(NAME, {HTTP1: ["130.0.0.1", "130.0.0.2"]}, many.now)
        first, second = many.request(timeout=0.1), many.request(timeout=0.1)
        assert (first.state, second.state) == (ASSIGNED, QUEUED)
        assert many.throttler.run_due(many.now + 0.1).expired == [second]

    @pytest.mark.parametrize(
        "listed", [{}, {HTTP1: []}, {HTTP1: ["130.0.0.1"]}, {H2C: ["130.0.0.2"]}]
    )
    def test_while_we_are_not_listed_the_last_share_stays(
        self, listed: dict[AppProtocol, list[str]]
    ) -> None:
        many = Many(own_ip="130.0.0.2")
        up(many)
        many.throttler.set_activators(NAME, {HTTP1: ["130.0.0.1", "130.0.0.2"]}, many.now)
        assert many.throttler.set_activators(NAME, listed, many.now) is None
        assert position(many) == (1, 2)

    def test_the_same_list_again_changes_nothing(self) -> None:
        many = Many(own_ip="130.0.0.2")
        up(many)
        listed = {HTTP1: ["130.0.0.1", "130.0.0.2"]}
        assert many.throttler.set_activators(NAME, listed, many.now) is not None
        assert many.throttler.set_activators(NAME, listed, many.now) is None

    def test_the_requests_of_a_deleted_revision_follow_the_share_too(self) -> None:
        many = Many(own_ip="130.0.0.2", borrow=False)
        up(many, 1, [A, B])
        many.throttler.set_activators(NAME, {HTTP1: ["130.0.0.1", "130.0.0.2"]}, many.now)
        tickets = [many.request(), many.request()]
        many.throttler.delete_revision(NAME)
        changes = many.throttler.set_activators(NAME, {HTTP1: ["130.0.0.2"]}, many.now)
        assert changes is not None
        assert changes.assigned == tickets[1:]


class TestReplacement:
    def test_requests_that_wait_for_a_deleted_revision_are_served_when_it_comes_back(self) -> None:
        many = Many()
        many.throttler.set_revision(revision(1), many.now)
        ticket = many.request()
        many.throttler.delete_revision(NAME)
        assert many.set_endpoints([A]) is not None, "the queued request may still be served"
        many.throttler.set_revision(revision(1, uid="uid-2"), many.now)
        assert ticket.config is many.find().config
        pod = next(iter(many.find().backends.pods.values()))
        changes = many.find().probe_passed(pod, pod.epoch, many.now)
        assert changes is not None
        assert changes.assigned == [ticket]

    def test_a_deleted_revision_still_serves_those_that_wait(self) -> None:
        many = Many()
        many.throttler.set_revision(revision(1), many.now)
        ticket = many.request()
        many.throttler.delete_revision(NAME)
        assert many.pass_all(many.set_endpoints([A])) == [ticket]

    def test_it_is_kept_until_its_last_request_and_pod_are_gone(self) -> None:
        many = Many()
        up(many)
        ticket = many.request()
        kept = many.find()
        many.throttler.delete_revision(NAME)
        many.throttler.set_endpoints(NAME, {}, many.now)
        assert list(many.throttler) == [kept]
        kept.release(ticket, many.now)
        many.throttler.delete_revision(OTHER)
        assert list(many.throttler) == []

    def test_a_deleted_revision_with_nothing_left_is_removed_at_once(self) -> None:
        many = Many()
        many.throttler.set_revision(revision(1), many.now)
        many.throttler.delete_revision(NAME)
        assert list(many.throttler) == []
        many.throttler.delete_revision(NAME)

    def test_a_new_uid_keeps_waiters_and_lets_running_requests_finish(self) -> None:
        many = Many()
        up(many)
        running, waiting = many.request(), many.request()
        changes = many.throttler.set_revision(revision(2, uid="uid-2"), many.now)
        assert changes.assigned == [waiting]
        assert running.state is ASSIGNED
        assert many.find().slots.in_flight == 2

    def test_another_protocol_uses_the_other_ports_pods(self) -> None:
        many = Many()
        many.throttler.set_revision(revision(1), many.now)
        both = {HTTP1: endpoints([A]), H2C: endpoints([B])}
        many.pass_all(many.throttler.set_endpoints(NAME, both, many.now))
        (old,) = many.find().backends.pods.values()
        changes = many.throttler.set_revision(revision(1, protocol=H2C), many.now)
        assert [p.address for p in changes.gone] == [old.address] == [A]
        assert [p.address for p in changes.probe] == [B]

    def test_no_waiter_is_sent_to_a_pod_of_the_former_protocol(self) -> None:
        many = Many()
        up(many)
        running, waiting = many.request(), many.request()
        changes = many.throttler.set_revision(revision(10, protocol=H2C), many.now)
        assert changes.assigned == []
        assert (running.state, waiting.state) == (ASSIGNED, QUEUED)
        assert many.pass_all(many.set_endpoints([B], protocol=H2C)) == [waiting]

    def test_a_pod_that_has_the_same_address_in_both_protocols_is_probed_again(self) -> None:
        many = Many()
        many.throttler.set_revision(revision(1), many.now)
        both = {HTTP1: endpoints([A]), H2C: endpoints([A])}
        many.pass_all(many.throttler.set_endpoints(NAME, both, many.now))
        many.request()
        changes = many.throttler.set_revision(revision(1, protocol=H2C), many.now)
        assert [(p.address, p.state) for p in changes.probe] == [(A, PodState.PROBING)]


class TestBounds:
    def test_each_revision_has_its_own_bound_and_all_share_one(self) -> None:
        many = Many(limits=Limits(queue_depth=2, queue_depth_total=3))
        many.throttler.set_revision(revision(1), many.now)
        many.throttler.set_revision(revision(1, id=OTHER), many.now)
        many.request()
        many.request()
        with pytest.raises(RequestQueueFull) as caught:
            many.request()
        assert caught.value.limit == "revision-depth"
        many.request(OTHER)
        with pytest.raises(RequestQueueFull) as caught:
            many.request(OTHER)
        assert caught.value.limit == "total-depth"

    def test_bytes_are_bounded_for_a_revision_and_in_all(self) -> None:
        many = Many(limits=Limits(queue_bytes=100, queue_bytes_total=150))
        many.throttler.set_revision(revision(1), many.now)
        many.throttler.set_revision(revision(1, id=OTHER), many.now)
        many.request(size=100)
        with pytest.raises(RequestQueueFull) as caught:
            many.request(size=1)
        assert caught.value.limit == "revision-bytes"
        with pytest.raises(RequestQueueFull) as caught:
            many.request(OTHER, size=51)
        assert caught.value.limit == "total-bytes"


class TestTime:
    def test_without_queued_requests_there_is_no_timer(self) -> None:
        many = Many()
        up(many)
        many.request()
        assert many.throttler.deadlines.next_due() is None

    def test_the_earliest_deadline_of_all_revisions_is_next(self) -> None:
        many = Many()
        many.throttler.set_revision(revision(1), many.now)
        many.throttler.set_revision(revision(1, id=OTHER), many.now)
        many.request(timeout=9.0)
        soon = many.request(OTHER, timeout=2.0)
        assert many.throttler.deadlines.next_due() == soon.deadline

    def test_a_deadline_ends_the_request_and_no_other(self) -> None:
        many = Many()
        many.throttler.set_revision(revision(1), many.now)
        late, soon = many.request(timeout=9.0), many.request(timeout=2.0)
        assert many.throttler.run_due(soon.deadline - 1e-9).expired == []
        assert many.throttler.run_due(soon.deadline).expired == [soon]
        assert (soon.state, late.state) == (TIMED_OUT, QUEUED)
        assert many.find().queued.waiting == 1
        assert many.throttler.deadlines.next_due() == late.deadline

    def test_a_request_at_a_pod_is_not_ended_by_the_queue(self) -> None:
        many = Many()
        up(many)
        ticket = many.request(timeout=1.0)
        assert many.throttler.run_due(many.now + 100).expired == []
        assert ticket.state is ASSIGNED

    def test_the_timer_of_a_slow_start_precedes_the_deadlines(self) -> None:
        many = Many()
        up(many, 0)
        for _ in range(70):
            many.request()
        due = many.throttler.deadlines.next_due()
        # The sixty-fifth had to wait.
        assert due == pytest.approx(0.065 + SLOW_START_STEP)
        assert due is not None
        assert many.throttler.run_due(due - 1e-9).assigned == []
        assert len(many.throttler.run_due(due).assigned) == 6
        assert many.throttler.deadlines.next_due() is None

    def test_a_deadline_before_the_timer_of_a_slow_start_is_next(self) -> None:
        many = Many()
        up(many, 0)
        for _ in range(65):
            many.request()
        soon = many.request(timeout=SLOW_START_STEP / 2)
        assert many.throttler.deadlines.next_due() == soon.deadline

    def test_a_slow_start_of_a_removed_revision_raises_no_limit(self) -> None:
        many = Many()
        up(many, 0)
        tickets = [many.request() for _ in range(70)]
        due = many.throttler.deadlines.next_due()
        assert due is not None
        left = many.find()
        many.throttler.delete_revision(NAME)
        for ticket in reversed(tickets):  # the queued ones first
            left.cancel(ticket, many.now)
        many.throttler.delete_revision(OTHER)
        assert list(many.throttler) == []
        assert many.throttler.run_due(due).assigned == []
        assert many.throttler.deadlines.next_due() is None

    def test_the_requests_of_a_deleted_revision_expire_as_they_would_have(self) -> None:
        many = Many()
        many.throttler.set_revision(revision(1), many.now)
        ticket = many.request(timeout=3.0)
        many.throttler.delete_revision(NAME)
        assert many.throttler.deadlines.next_due() == ticket.deadline
        assert many.throttler.run_due(ticket.deadline).expired == [ticket]
        assert many.throttler.total.depth == 0


def test_a_client_without_a_known_revision_may_come_again_in_seconds() -> None:
    assert 1 <= Many().throttler.retry_after() <= 120


class TestSharesOfServices:
    SHOP = RevisionID("default", "shop", RevisionKind.SERVICE)

    def world(self) -> Many:
        many = Many(own_ip="10.9.0.1")
        many.throttler.set_revision(revision(1, id=self.SHOP, behind_queue_proxy=False), 0.0)
        many.pass_all(many.set_endpoints(["10.0.0.1:80", "10.0.0.2:80"], id=self.SHOP))
        return many

    def list_activators(self, many: Many, *ips: str) -> None:
        many.throttler.set_activators(self.SHOP, {HTTP1: ips}, many.now)

    def test_no_pod_of_another_share_is_borrowed_since_no_queue_proxy_limits_it(self) -> None:
        many = self.world()
        self.list_activators(many, "10.9.0.1", "10.9.0.2")
        first, second = many.request(self.SHOP), many.request(self.SHOP)
        assert first.pod is not None
        assert first.pod.address == "10.0.0.1:80"
        assert second.state is QUEUED
        assert many.find(self.SHOP).capacity() == 1

    def test_an_activator_that_is_not_listed_keeps_its_share(self) -> None:
        """Its Service does not list it while it ends."""
        many = self.world()
        self.list_activators(many, "10.9.0.1", "10.9.0.2")
        self.list_activators(many, "10.9.0.2")
        assert many.find(self.SHOP).capacity() == 1

    def test_without_a_list_of_activators_all_pods_are_used_again(self) -> None:
        many = self.world()
        self.list_activators(many, "10.9.0.1", "10.9.0.2")
        self.list_activators(many)
        requests = [many.request(self.SHOP) for _ in range(2)]
        assert all(request.pod is not None for request in requests)


def test_pods_are_new_when_their_port_speaks_tls() -> None:
    many = Many()
    many.throttler.set_revision(revision(1, behind_queue_proxy=False), 0.0)
    many.pass_all(many.set_endpoints([A]))
    secure = replace(revision(1, behind_queue_proxy=False), tls=True)
    changes = many.throttler.set_revision(secure, 0.0)
    assert [pod.address for pod in changes.gone] == [A]
    assert [pod.address for pod in changes.probe] == [A]
