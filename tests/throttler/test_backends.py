"""Pods for which Kubernetes' readiness decides: used unprobed, suspect only after a refusal."""

from __future__ import annotations

import pytest

from tests.throttler.world import Many, One, addresses, revision
from throttler.model import MeshMode, ReadinessRule
from throttler.pod import PodState
from throttler.ticket import QUEUED

A, B = addresses(2)


@pytest.fixture
def one() -> One:
    return One(1, mode=MeshMode.DISABLED)


def test_a_ready_pod_is_used_unprobed(one: One) -> None:
    waiting = one.request()
    changes = one.set_endpoints([A], [B])
    assert changes.assigned == [waiting]
    assert [pod.address for pod in changes.probe] == [B]
    assert not one.pod(A).wants_probe


def test_a_pod_that_becomes_ready_is_used_from_then_on(one: One) -> None:
    one.set_endpoints([], [A])
    one.failed(one.pod(A))
    waiting = one.request()
    assert one.set_endpoints([A]).assigned == [waiting]


def test_a_pod_that_is_not_ready_yet_is_used_when_it_passes_our_probe(one: One) -> None:
    one.set_endpoints([], [A])
    one.passed(one.pod(A))
    assert one.request().pod is one.pod(A)


@pytest.mark.parametrize("status", [None, 404, 503])
def test_no_failed_probe_takes_a_ready_pod_out(one: One, status: int | None) -> None:
    one.set_endpoints([A])
    pod = one.pod(A)
    one.failed(pod, status)
    assert one.request().pod is pod
    assert pod.probe.failures == 1, "but it is known"


def test_a_refused_request_makes_it_suspect_until_any_response(one: One) -> None:
    one.set_endpoints([A])
    pod = one.pod(A)
    changes = one.throttler.connect_failed(pod, "refused", one.now)
    assert changes is not None
    assert changes.probe == [pod]
    assert pod.wants_probe
    waiting = one.request()
    assert one.failed(pod, None) is None
    assert waiting.state is QUEUED
    one.failed(pod, 404)
    assert waiting.pod is pod
    assert not pod.wants_probe


def test_a_suspect_is_used_again_when_it_is_listed_again(one: One) -> None:
    one.set_endpoints([A])
    one.throttler.connect_failed(one.pod(A), "refused", one.now)
    one.set_endpoints([A, B])
    assert one.pod(A).state is PodState.PROBING, "a pod that is still listed causes no change"
    one.set_endpoints([B], [A])
    one.set_endpoints([B, A])
    assert one.pod(A).state is PodState.HEALTHY


def test_a_pod_that_kubernetes_takes_out_is_probed(one: One) -> None:
    one.set_endpoints([A])
    changes = one.set_endpoints([], [A])
    assert changes.probe == [one.pod(A)]
    assert one.request().state is QUEUED
    one.passed(one.pod(A))
    assert one.tickets[-1].pod is one.pod(A)


def test_a_pod_that_comes_back_with_requests_is_used_at_once(one: One) -> None:
    one.set_endpoints([A])
    one.request()
    one.set_endpoints([])
    assert one.set_endpoints([A]).probe == []
    assert one.pod(A).state is PodState.HEALTHY


def test_a_pod_that_terminates_gets_no_new_requests_and_finishes_its_own() -> None:
    one = One(1)
    pods = one.healthy([A, B])
    first, second = one.requests(2)
    one.set_endpoints([A], [], [B])
    waiting = one.request()
    assert waiting.state is QUEUED
    running = first if first.pod is pods[1] else second
    assert one.release(running) == []
    assert [pod.address for pod in one.throttler.backends.pods.values()] == [A]


@pytest.mark.parametrize("other", ["ready", "not ready"])
def test_a_pod_that_terminates_waits_behind_any_other_pod(other: str) -> None:
    one = One(1)
    one.set_endpoints([A] if other == "ready" else [], [] if other == "ready" else [A], [B])
    assert [pod.address for pod in one.throttler.backends.pods.values()] == [A]


def test_pods_that_terminate_serve_on_without_a_probe_while_there_is_no_other() -> None:
    one = One(1)
    one.healthy([A, B])
    changes = one.set_endpoints([], [], [A, B])
    assert changes.probe == changes.gone == []
    assert {request.pod for request in one.requests(2)} == set(one.throttler.backends.pods.values())
    one.set_endpoints([], ["10.0.0.9:8012"], [A, B])
    assert one.request().state is QUEUED


def test_a_pod_that_terminates_must_pass_a_probe_if_it_was_not_used_before() -> None:
    one = One(1)
    waiting = one.request()
    changes = one.set_endpoints([], [], [A])
    assert [pod.address for pod in changes.probe] == [A]
    one.passed(one.pod(A))
    assert waiting.pod is one.pod(A)


def test_a_pod_is_not_probed_where_kubernetes_alone_decides() -> None:
    many = Many()
    plain = revision(1, readiness=ReadinessRule.NO_PROBE, behind_queue_proxy=False)
    many.throttler.set_revision(plain, 0.0)
    waiting = many.request()
    changes = many.set_endpoints([], [A])
    assert changes is not None
    assert changes.probe == []
    assert waiting.state is QUEUED
    many.set_endpoints([A])
    (pod,) = many.find().backends.pods.values()
    assert waiting.pod is pod
    assert not pod.wants_probe
    assert many.find().connect_failed(pod, "refused", 0.0) is not None
    assert pod.wants_probe, "whether it accepts a connection again"


def test_the_readiness_of_a_plain_service_is_followed_live() -> None:
    many = Many()
    many.throttler.set_revision(revision(1, behind_queue_proxy=False), 0.0)
    many.set_endpoints([A])
    assert many.request().state is QUEUED
    plain = revision(1, readiness=ReadinessRule.NO_PROBE, behind_queue_proxy=False)
    assert len(many.throttler.set_revision(plain, 0.0).assigned) == 1
