"""When requests go to the ClusterIP, and when they stop to go there."""

from __future__ import annotations

import pytest

from tests.throttler.world import HTTP1, NAME, Many, One, addresses, endpoints, revision
from throttler.capacity import MAX_CAPACITY, SLOW_START, ActivatorShare
from throttler.model import PROOF_LASTS, REACH, MeshMode, RevisionID
from throttler.pod import PodState, PodTracker
from throttler.ticket import ASSIGNED, QUEUED, RELEASED, Changes

A, B, C = addresses(3)
VIP, OTHER_VIP = "10.96.0.5:80", "10.96.0.6:80"


def probed(changes: Changes | None) -> list[str]:
    return sorted(pod.address for pod in changes.probe) if changes else []


def service(one: One) -> PodTracker:
    tracker = one.throttler.backends.service.tracker
    assert tracker is not None
    return tracker


def meshed(container_concurrency: int = 1, pods: tuple[str, ...] = (A, B)) -> One:
    """Return a revision with unreachable ready pods, and a ClusterIP that responds."""
    one = One(container_concurrency, service=VIP)
    one.set_endpoints(pods)
    for pod in pods:
        one.failed(one.pod(pod))
    one.passed(service(one))
    return one


class TestAuto:
    def test_it_is_probed_when_the_last_ready_pod_has_responded_as_a_mesh_would(self) -> None:
        one = One(1, service=VIP)
        one.set_endpoints([A, B], [C])
        assert probed(one.failed(one.pod(A), None)) == []
        assert one.throttler.backends.service.tracker is None
        assert probed(one.failed(one.pod(B), 503)) == [VIP]
        assert service(one).is_service

    def test_it_gets_requests_when_it_has_passed_a_probe_itself(self) -> None:
        one = One(1, service=VIP)
        waiting = one.request()
        one.set_endpoints([A])
        one.failed(one.pod(A))
        one.failed(service(one))
        assert waiting.state is QUEUED
        changes = one.passed(service(one))
        assert waiting.pod is service(one)
        assert changes is not None
        assert changes.service is service(one)

    @pytest.mark.parametrize("status", [200, 301, 404, 500])
    def test_one_response_that_only_a_pod_sends_proves_that_pods_are_reachable(
        self, status: int
    ) -> None:
        one = One(1, service=VIP)
        one.set_endpoints([A], [B])
        one.failed(one.pod(B), status)
        assert probed(one.failed(one.pod(A))) == []
        assert one.throttler.backends.service.tracker is None

    def test_a_later_probe_may_disprove_a_pods_proof(self) -> None:
        """Another server may have sent its first 404, before the pod had the address."""
        one = One(1, service=VIP)
        one.set_endpoints([A], [B])
        one.failed(one.pod(B), 404)
        one.failed(one.pod(A))
        assert probed(one.failed(one.pod(B), None)) == [VIP]

    def test_such_a_response_ends_its_use_too(self) -> None:
        one = meshed()
        running = one.request()
        changes = one.failed(one.pod(A), 404)
        assert changes is not None
        assert (one.throttler.backends.service.tracker, changes.gone) == (None, [])
        assert one.request().state is QUEUED
        assert running.state is ASSIGNED, "requests in flight finish"
        gone = one.throttler.release(running, one.now)
        assert gone is not None
        assert [pod.address for pod in gone.gone] == [VIP]

    def test_a_503_of_a_starting_pod_is_no_mesh(self) -> None:
        one = One(1, service=VIP)
        one.set_endpoints([], [A])
        for _ in range(100):
            assert one.failed(one.pod(A), 503) is None
        one.set_endpoints([A])
        assert one.throttler.backends.service.tracker is None, (
            "it is probed again, now that it is ready"
        )
        assert probed(one.failed(one.pod(A), 503)) == [VIP]

    def test_it_is_not_probed_while_any_pod_is_usable(self) -> None:
        one = One(1, service=VIP)
        one.set_endpoints([A, B])
        one.passed(one.pod(A))
        one.failed(one.pod(B))
        assert one.throttler.backends.service.tracker is None

    def test_it_is_not_probed_for_pods_that_are_not_ready(self) -> None:
        one = One(1, service=VIP)
        one.set_endpoints([], [A])
        one.failed(one.pod(A))
        assert one.throttler.backends.service.tracker is None, "nothing is behind it"

    def test_the_first_pod_that_passes_has_the_requests_back(self) -> None:
        one = meshed(pods=(A, B))
        there = one.request()
        changes = one.passed(one.pod(B))
        assert changes is not None
        assert changes.service is there.pod
        assert one.throttler.backends.service.tracker is None
        assert probed(changes) == [A], "the others may be back as well"
        assert one.request().pod is one.pod(B)
        assert there.state is ASSIGNED
        one.release(there)
        assert there.state is RELEASED

    def test_pods_that_come_while_it_is_used_do_not_interrupt_it(self) -> None:
        one = meshed(pods=(A,))
        assert probed(one.set_endpoints([A, B], [C])) == [B, C]
        assert one.request().pod is service(one)

    def test_pods_that_lose_it_are_probed_at_once(self) -> None:
        one = meshed(pods=(A, B))
        there = service(one)
        changes = one.throttler.connect_failed(there, "refused", one.now)
        assert probed(changes) == [A, B, VIP]
        assert one.request().state is QUEUED
        one.passed(there)
        assert one.tickets[-1].pod is there

    def test_without_ready_pods_it_is_left_and_probed_again_afterwards(self) -> None:
        one = meshed(pods=(A,))
        there = service(one)
        assert one.set_endpoints([], [A]).gone == [there]
        assert there.state is PodState.GONE
        one.set_endpoints([A])
        assert probed(one.failed(one.pod(A))) == [VIP]
        assert service(one) is not there
        assert one.request().state is QUEUED

    def test_a_response_of_a_removed_one_changes_nothing(self) -> None:
        one = meshed(pods=(A,))
        there = service(one)
        one.set_endpoints([])
        assert one.passed(there) is None
        assert one.failed(there) is None
        assert one.throttler.connect_failed(there, "refused", one.now) is None

    def test_without_a_service_there_is_no_fallback(self) -> None:
        one = One(1)
        one.set_endpoints([A])
        assert probed(one.failed(one.pod(A))) == []
        assert probed(one.throttler.set_service(VIP, one.now)) == [VIP]

    def test_another_address_is_probed_before_it_is_used(self) -> None:
        one = meshed()
        running, old = one.request(), service(one)
        changes = one.throttler.set_service(OTHER_VIP, one.now)
        assert OTHER_VIP in probed(changes)
        assert changes.service is old, "only the old one is no longer used"
        assert one.request().state is QUEUED
        one.passed(service(one))
        assert one.tickets[-1].pod is service(one) is not old
        assert running.pod is old

    def test_a_service_that_is_deleted_is_not_used(self) -> None:
        one = meshed()
        one.throttler.set_service("", one.now)
        assert one.request().state is QUEUED


class TestProof:
    """A pod that passed a probe proves that pods are reachable."""

    @pytest.mark.parametrize("status", [None, 502, 503])
    def test_a_restart_behind_queue_proxy_is_no_mesh(self, status: int | None) -> None:
        one = One(1, service=VIP)
        (pod,) = one.healthy([A])
        one.throttler.responded_badly(pod, "responded 502", one.now, untouched=True)
        waiting = one.request()
        for _ in range(599):
            assert one.failed(pod, status) is None
            one.now += 0.1
        assert one.throttler.backends.service.tracker is None
        one.passed(pod)
        assert waiting.pod is pod

    @pytest.mark.parametrize("ready", [True, False])
    def test_one_pod_proves_it_for_all(self, ready: bool) -> None:
        one = One(1, service=VIP, probe_suffices=ready)
        one.set_endpoints([A], [] if ready else [B])
        one.passed(one.pod(A if ready else B))
        one.set_endpoints([A, C], [] if ready else [B])
        for address in (A, C, A, C):
            one.failed(one.pod(address))
        assert one.throttler.backends.service.tracker is None

    def test_it_ends_with_a_probe_that_fails_a_minute_after_the_first(self) -> None:
        """A mesh, or a network policy, may have been switched on during the pod's life."""
        one = One(1, service=VIP)
        (pod,) = one.healthy([A])
        one.failed(pod)
        one.now += PROOF_LASTS - 0.1
        assert one.failed(pod) is None
        one.now += 0.1
        assert probed(one.failed(pod)) == [VIP]
        one.passed(service(one))
        assert one.request().pod is service(one)
        one.passed(pod)
        assert one.throttler.backends.service.tracker is None, (
            "and a passed probe starts a new proof"
        )
        one.failed(pod)
        assert probed(one.failed(pod)) == []

    def test_each_pod_that_has_proved_it_has_its_own_minute(self) -> None:
        one = One(1, service=VIP)
        first, second = one.healthy([A, B])
        for pod in (first, second):
            one.failed(pod)
            one.now += 1
        one.now += PROOF_LASTS
        assert probed(one.failed(first)) == []
        assert probed(one.failed(second)) == [VIP]

    def test_a_pod_that_is_listed_as_ready_again_has_it_again(self) -> None:
        """The pod was away for minutes, and its container ends again at once."""
        one = One(1, service=VIP)
        (pod,) = one.healthy([A])
        one.set_endpoints([], [A])
        one.failed(pod)
        one.now += PROOF_LASTS - 1
        one.failed(pod)
        one.set_endpoints([A])
        one.now += 2
        assert one.failed(pod) is None
        assert one.throttler.backends.service.tracker is None

    def test_new_pods_have_to_prove_it_themselves(self) -> None:
        one = One(1, service=VIP)
        one.healthy([A])
        one.set_endpoints([B])
        assert probed(one.failed(one.pod(B))) == [VIP]

    def test_a_pod_that_leaves_the_list_takes_it_along(self) -> None:
        """The pod still has a request, so it is known when Kubernetes lists it again."""
        one = One(1, service=VIP)
        (pod,) = one.healthy([A])
        one.request()
        one.set_endpoints([])
        one.set_endpoints([A])
        assert one.pod(A) is pod
        assert probed(one.failed(pod)) == [VIP]

    def test_a_pod_that_was_probed_through_the_mesh_proves_nothing(self) -> None:
        one = One(1, service=VIP, mode=MeshMode.AUTO, addressable=True)
        (pod,) = one.healthy([A])
        one.throttler.set_reach(REACH[MeshMode.AUTO, False], one.now)
        one.failed(pod)
        assert probed(one.failed(pod)) == [VIP]

    @pytest.mark.untraced
    def test_a_thousand_pods_are_looked_through_a_few_times(self) -> None:
        """A thousand proofs end one after the other; only a few ends cause a scan."""
        one = One(1, service=VIP)
        pods = one.healthy(addresses(1000))
        for pod in pods:
            one.failed(pod)
        one.now += PROOF_LASTS
        seen = [changes for pod in pods if (changes := one.failed(pod)) is not None]
        assert len(seen) < 50
        assert probed(seen[-1]) == [VIP]


class TestEnabled:
    def one(self) -> One:
        return One(1, service=VIP, mode=MeshMode.ENABLED)

    def test_pods_are_never_probed(self) -> None:
        one = self.one()
        assert probed(one.set_endpoints([A], [B])) == [VIP]
        assert list(one.throttler.backends.unhealthy()) == [service(one)]
        assert not one.pod(A).wants_probe
        assert service(one).wants_probe

    def test_a_healthy_pod_is_ignored(self) -> None:
        one = self.one()
        one.set_endpoints([A])
        assert one.passed(one.pod(A)) is None
        one.passed(service(one))
        assert one.request().pod is service(one)

    def test_it_waits_for_a_ready_pod(self) -> None:
        one = self.one()
        assert probed(one.set_endpoints([], [A])) == []
        assert probed(one.set_endpoints([A])) == [VIP]


class TestNever:
    @pytest.mark.parametrize(
        ("mode", "addressable"),
        [(MeshMode.DISABLED, False), *((mode, True) for mode in MeshMode)],
    )
    def test_it_is_not_used_where_pods_can_be_reached(
        self, mode: MeshMode, addressable: bool
    ) -> None:
        one = One(1, service=VIP, mode=mode, addressable=addressable)
        one.set_endpoints([A], [B])
        one.throttler.connect_failed(one.pod(A), "refused", one.now)
        for pod in (A, B):
            one.failed(one.pod(pod), None)
        assert one.throttler.backends.service.tracker is None
        one.passed(one.pod(B))
        assert one.request().pod is one.pod(B), "enabled and addressable serves, too"


class TestCapacity:
    @pytest.mark.untraced
    @pytest.mark.parametrize(
        ("ready", "activators", "capacity"),
        [
            (1, 0, 10),
            (10, 1, 100),
            (100, 1, 1000),
            (10, 5, 20),
            (3, 2, 15),
            (3, 4, 7),
            (10, 200, 1),
        ],
    )
    def test_it_is_what_the_ready_pods_have_divided_among_the_activators(
        self, ready: int, activators: int, capacity: int
    ) -> None:
        one = meshed(10, tuple(addresses(ready)))
        one.throttler.set_share(ActivatorShare(0 if activators else -1, activators), one.now)
        assert one.throttler.statistics().capacity == capacity
        requests = one.requests(capacity + 1)
        assert [r.state for r in requests] == [ASSIGNED] * capacity + [QUEUED]

    def test_pods_that_are_not_ready_do_not_count(self) -> None:
        one = meshed(10, (A, B))
        one.set_endpoints([A], [B, C])
        assert one.throttler.capacity() == 10

    def test_it_follows_the_ready_pods(self) -> None:
        one = meshed(1, (A,))
        first, second = one.requests(2)
        assert (first.state, second.state) == (ASSIGNED, QUEUED)
        assert one.set_endpoints([A, B]).assigned == [second]
        one.set_endpoints([A])
        third = one.request()
        one.release(first)
        assert third.state is QUEUED, "one request is in flight, and one pod is left"

    def test_without_a_limit_it_starts_slowly_and_has_none(self) -> None:
        one = meshed(0, (A,))
        assert one.throttler.statistics().capacity == MAX_CAPACITY
        one.requests(SLOW_START + 1)
        assert one.throttler.queued.waiting == 1
        assert one.raise_at is not None
        assert one.throttler.raise_limits(one.raise_at).assigned == [one.tickets[-1]]

    def test_another_container_concurrency_counts_at_once(self) -> None:
        one = meshed(1, (A, B))
        one.requests(5)
        changes = one.throttler.set_revision(revision(2), one.now)
        assert len(changes.assigned) == 2
        assert service(one).limit == 4

    def test_no_pod_is_in_reach_while_it_is_used(self) -> None:
        one = meshed()
        statistics = one.throttler.statistics()
        assert (statistics.in_reach, statistics.healthy) == (0, 0)
        assert statistics.service is service(one)


class TestModes:
    """A change is in force at once, for all revisions; requests in flight stay where they are."""

    def set_mode(self, one: One, mode: MeshMode, addressable: bool = False) -> Changes:
        return one.throttler.set_reach(REACH[mode, addressable], one.now)

    def test_a_change_of_the_mode_leaves_a_draining_pod_alone(self) -> None:
        one = One(1, service=VIP)
        (pod,) = one.healthy([A])
        running = one.request()
        one.set_endpoints([B])
        assert pod.state is PodState.DRAINING
        assert pod not in probed(self.set_mode(one, MeshMode.DISABLED))
        self.set_mode(one, MeshMode.ENABLED)
        assert pod.state is PodState.DRAINING
        assert running.pod is pod

    def test_from_pods_to_the_cluster_ip(self) -> None:
        one = One(1, service=VIP)
        (pod,) = one.healthy([A])
        running = one.request()
        assert probed(self.set_mode(one, MeshMode.ENABLED)) == [VIP]
        waiting = one.request()
        assert (running.pod, waiting.state) == (pod, QUEUED)
        one.passed(service(one))
        assert waiting.pod is service(one)
        one.release(running)

    def test_and_back_where_pods_are_probed_before_they_are_used(self) -> None:
        one = One(1, service=VIP)
        one.healthy([A])
        self.set_mode(one, MeshMode.ENABLED)
        one.passed(service(one))
        there = one.request()
        changes = self.set_mode(one, MeshMode.AUTO)
        assert A in probed(changes)
        assert one.request().state is QUEUED
        one.passed(one.pod(A))
        assert one.tickets[-1].pod is one.pod(A)
        assert there.state is ASSIGNED

    def test_an_earlier_response_does_not_count_when_pods_are_back(self) -> None:
        one = One(1, service=VIP)
        (pod,) = one.healthy([A])
        before = pod.epoch
        self.set_mode(one, MeshMode.ENABLED)
        self.set_mode(one, MeshMode.AUTO)
        assert one.throttler.probe_passed(pod, before, one.now) is None
        assert one.request().state is QUEUED

    def test_trust_that_ends_is_followed_by_a_probe_and_no_outage(self) -> None:
        one = One(1, mode=MeshMode.DISABLED)
        one.set_endpoints([A])
        assert probed(self.set_mode(one, MeshMode.AUTO)) == [A]
        first = one.request()
        assert first.pod is one.pod(A)
        one.release(first)
        one.failed(one.pod(A))
        assert one.request().state is QUEUED

    def test_trust_that_begins_frees_those_that_wait(self) -> None:
        one = One(1)
        waiting = one.request()
        one.set_endpoints([A], [B])
        one.failed(one.pod(A))
        changes = self.set_mode(one, MeshMode.DISABLED)
        assert changes.assigned == [waiting]
        assert probed(changes) == [B]

    def test_all_revisions_follow_and_those_that_come_later(self) -> None:
        many, other = Many(), RevisionID("default", "other")
        many.throttler.set_revision(revision(1), many.now)
        many.set_endpoints([A])
        many.throttler.set_service(NAME, {HTTP1: VIP}, many.now)
        many.throttler.set_service(other, {HTTP1: OTHER_VIP}, many.now)
        changes = many.throttler.set_mesh(MeshMode.ENABLED, False, many.now)
        assert probed(changes) == [VIP]
        assert probed(many.throttler.set_mesh(MeshMode.ENABLED, False, many.now)) == []
        many.throttler.set_revision(revision(1, id=other), many.now)
        assert probed(many.throttler.set_endpoints(other, {HTTP1: endpoints([B])}, many.now)) == [
            OTHER_VIP
        ]

    def test_a_service_that_is_deleted_before_its_revision_comes_is_removed(self) -> None:
        many = Many()
        many.throttler.set_mesh(MeshMode.ENABLED, False, many.now)
        many.throttler.set_service(NAME, {HTTP1: VIP}, many.now)
        many.throttler.set_service(NAME, {}, many.now)
        many.throttler.set_revision(revision(1), many.now)
        assert probed(many.set_endpoints([A])) == []

    def test_a_deleted_revision_leaves_no_service_behind(self) -> None:
        many = Many()
        many.throttler.set_mesh(MeshMode.ENABLED, False, many.now)
        many.throttler.set_service(NAME, {HTTP1: VIP}, many.now)
        many.throttler.set_revision(revision(1), many.now)
        many.pass_all(many.set_endpoints([A]))
        gone = many.throttler.delete_revision(NAME).gone
        assert sorted(pod.address for pod in gone) == [A, VIP]

    def test_a_revision_that_comes_back_follows_a_change_made_while_it_was_deleted(self) -> None:
        many = Many()
        many.throttler.set_revision(revision(), many.now)
        many.pass_all(many.set_endpoints(addresses(1)))
        running = many.request()
        many.throttler.delete_revision(NAME)
        deleted = many.throttler.find_any(*NAME)
        deleted.release(running, many.now)
        many.throttler.set_mesh(MeshMode.ENABLED, False, many.now)
        many.throttler.set_revision(revision(), many.now)
        assert many.find().config.reach == REACH[MeshMode.ENABLED, False]
        assert many.request().pod is None
