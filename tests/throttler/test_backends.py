"""Pods for which Kubernetes' readiness decides: used unprobed, suspect only after a refusal."""

from __future__ import annotations

import pytest

from tests.throttler.world import One, addresses
from throttler.health import PodState
from throttler.model import MeshMode
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
