"""Outlier ejection: pods are ejected, left alone, half-open, and the last pod always stays."""

from __future__ import annotations

import pytest

from tests.throttler.world import One, addresses
from throttler.backends import (
    CONSECUTIVE_ERRORS,
    EJECTION_TIME,
    EJECTION_TIME_MAX,
    PANIC_PAUSE,
    RECOVERED_AFTER,
    ejection_time,
)
from throttler.capacity import ActivatorShare
from throttler.model import MeshMode
from throttler.pod import PodState, PodTracker
from throttler.ticket import QUEUED, Ticket

A, B, C, D = addresses(4)


def bad(one: One, pod: PodTracker, *, untouched: bool = False, times: int = 1) -> None:
    for _ in range(times):
        one.throttler.responded_badly(pod, "responded 503", one.now, untouched=untouched)


def well(one: One, pod: PodTracker) -> None:
    one.throttler.responded_well(pod, one.now)


def is_out(pod: PodTracker) -> bool:
    return pod.state is PodState.PROBING


def back(one: One, pod: PodTracker, after: float) -> bool:
    """Pass a probe that much later; return whether the pod has recovered."""
    one.now += after
    one.passed(pod)
    return pod.state is PodState.HEALTHY


def test_an_application_that_fails_now_and_then_stays() -> None:
    one = One(1)
    pod, _, _ = one.healthy([A, B, C])
    for _ in range(20):
        bad(one, pod, times=CONSECUTIVE_ERRORS - 1)
        well(one, pod)
    assert not is_out(pod)


def test_a_pod_with_consecutive_errors_is_an_outlier_until_a_good_response() -> None:
    one = One(1)
    pod, other, _ = one.healthy([A, B, C])
    bad(one, pod, times=CONSECUTIVE_ERRORS)
    outliers = one.throttler.backends.outliers
    assert pod in outliers
    assert other not in outliers
    assert back(one, pod, 1.0)
    well(one, pod)
    assert pod not in outliers


def test_consecutive_errors_eject_a_pod_and_have_it_probed() -> None:
    one = One(1)
    pod, other, _ = one.healthy([A, B, C])
    bad(one, pod, times=CONSECUTIVE_ERRORS - 1)
    changes = one.throttler.responded_badly(pod, "responded 503", one.now, untouched=False)
    assert changes is not None
    assert changes.probe == [pod]
    assert one.request().pod is other
    assert pod.probe.error == "responded 503"


def test_one_response_of_queue_proxy_alone_is_enough() -> None:
    one = One(1)
    pod, _, _ = one.healthy([A, B, C])
    bad(one, pod, untouched=True)
    assert is_out(pod)


def test_a_probe_that_passes_too_soon_proves_nothing() -> None:
    one = One(1)
    pod, _, _ = one.healthy([A, B, C])
    bad(one, pod, untouched=True)
    assert not back(one, pod, EJECTION_TIME * 0.9)
    assert back(one, pod, EJECTION_TIME * 0.2)


def test_each_relapse_leaves_it_alone_for_twice_as_long_up_to_a_bound() -> None:
    assert [ejection_time(n) for n in range(8)] == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    assert ejection_time(10**9) == EJECTION_TIME_MAX
    one = One(1)
    pod, _, _ = one.healthy([A, B, C])
    for relapse in range(8):
        bad(one, pod, untouched=True)
        assert not back(one, pod, ejection_time(relapse) * 0.99)
        assert back(one, pod, ejection_time(relapse) * 0.02)


@pytest.mark.parametrize(("served", "hold"), [(0.9, ejection_time(1)), (1.1, ejection_time(0))])
def test_the_count_of_ejections_is_reset_after_a_while_of_good_responses(
    served: float, hold: float
) -> None:
    one = One(1)
    pod, _, _ = one.healthy([A, B, C])
    bad(one, pod, untouched=True)
    assert back(one, pod, EJECTION_TIME)
    well(one, pod)
    one.now += RECOVERED_AFTER * served
    bad(one, pod, untouched=True)
    assert pod.ejection.until == one.now + hold


def test_a_pod_that_is_never_well_is_not_forgiven_for_being_left_alone_long() -> None:
    one = One(1)
    pod, _, _ = one.healthy([A, B, C])
    for _ in range(6):
        bad(one, pod, untouched=True)
        assert back(one, pod, RECOVERED_AFTER * 2)
    bad(one, pod, untouched=True)
    assert pod.ejection.until == one.now + EJECTION_TIME_MAX


# -- half-open -----------------------------------------------------------------------------------


def half_open_pod(container_concurrency: int) -> tuple[One, PodTracker, list[Ticket]]:
    """Return a revision with one half-open pod, and ten requests that waited for it."""
    one = One(container_concurrency)
    (pod,) = one.healthy([A])
    bad(one, pod, untouched=True)
    waiting = one.requests(10)
    assert back(one, pod, PANIC_PAUSE)
    return one, pod, waiting


@pytest.mark.parametrize("container_concurrency", [0, 10])
def test_a_half_open_pod_gets_one_request_until_that_has_a_response(
    container_concurrency: int,
) -> None:
    one, pod, waiting = half_open_pod(container_concurrency)
    assert [t.pod for t in waiting] == [pod] + [None] * 9
    well(one, pod)
    assert all(t.pod is pod for t in waiting)


def test_any_response_of_the_application_ends_half_open() -> None:
    one, pod, waiting = half_open_pod(10)
    bad(one, pod)
    assert all(t.pod is pod for t in waiting)


@pytest.mark.parametrize("container_concurrency", [0, 10])
def test_a_request_that_queue_proxy_does_not_give_back_at_once_has_reached_the_application(
    container_concurrency: int,
) -> None:
    one, pod, waiting = half_open_pod(container_concurrency)
    assert one.raise_at == one.now + 0.02
    one.now += 0.02
    one.throttler.raise_limits(one.now)
    assert all(t.pod is pod for t in waiting)


def test_a_full_pod_keeps_its_limit_when_another_is_half_open_no_more() -> None:
    one, pod, _ = half_open_pod(10)
    *_, other = one.healthy([A, B])
    one.requests(20)
    assert (pod.in_flight, other.in_flight) == (1, 10)
    one.now += 0.02
    one.throttler.raise_limits(one.now)
    assert (pod.in_flight, other.in_flight, other.limit) == (10, 10, 10)


def test_a_trial_that_has_just_begun_is_not_over_because_a_timer_was_armed_before() -> None:
    one = One(0)
    (pod,) = one.healthy([A])
    bad(one, pod, untouched=True)
    waiting = one.requests(10)
    assert back(one, pod, PANIC_PAUSE)
    one.now += 0.005
    one.throttler.raise_limits(one.now)
    assert [t.pod for t in waiting].count(pod) == 1


def test_another_containerconcurrency_does_not_end_a_trial() -> None:
    one, pod, waiting = half_open_pod(10)
    one.throttler.set_revision(one.throttler.revision, one.now)
    assert [t.pod for t in waiting].count(pod) == 1


# -- the last pod --------------------------------------------------------------------------------


def test_the_only_pod_stays_with_any_response_of_its_application() -> None:
    one = One(1)
    (pod,) = one.healthy([A])
    bad(one, pod, times=100)
    assert one.request().pod is pod


def test_the_only_pod_is_probed_again_soon_when_queue_proxy_has_no_application() -> None:
    one = One(1)
    (pod,) = one.healthy([A])
    for _ in range(20):
        bad(one, pod, untouched=True)
        assert not back(one, pod, PANIC_PAUSE * 0.9)
        assert back(one, pod, PANIC_PAUSE * 0.2)


def test_half_of_the_pods_may_be_out_and_with_one_more_all_are_back() -> None:
    one = One(1)
    pods = one.healthy([A, B, C, D])
    for pod in pods[:2]:
        bad(one, pod, times=CONSECUTIVE_ERRORS)
        assert is_out(pod)
    bad(one, pods[2], times=CONSECUTIVE_ERRORS - 1)
    changes = one.throttler.responded_badly(pods[2], "responded 503", one.now, untouched=False)
    assert not is_out(pods[2])
    assert changes is not None
    assert set(changes.probe) == set(pods[:2]), "pods that were left alone are probed"
    one.now += 3 * PANIC_PAUSE
    for pod in pods[:2]:
        one.passed(pod)
    assert {t.pod for t in one.requests(4)} == set(pods)


def test_one_pod_with_good_responses_ends_the_panic() -> None:
    one = One(1)
    pods = one.healthy([A, B])
    for pod in pods:
        bad(one, pod, times=CONSECUTIVE_ERRORS)
    assert [is_out(pod) for pod in pods] == [True, False]
    well(one, pods[1])
    assert back(one, pods[0], PANIC_PAUSE * 3)
    bad(one, pods[0], times=CONSECUTIVE_ERRORS)
    assert is_out(pods[0])


def test_a_suspect_that_is_left_alone_is_probed_when_the_other_pods_go() -> None:
    one = One(1)
    pod, _, _ = one.healthy([A, B, C])
    bad(one, pod, untouched=True, times=1)
    pod.ejection.until = one.now + EJECTION_TIME_MAX  # after many ejections
    changes = one.set_endpoints([A])
    assert changes.probe == [pod]
    assert back(one, pod, PANIC_PAUSE)


def test_pods_that_do_not_respond_to_their_probe_do_not_count_as_left() -> None:
    one = One(1)
    pod, *dead = one.healthy([A, B, C, D])
    for other in dead:
        one.failed(other, None)
    bad(one, pod, times=CONSECUTIVE_ERRORS)
    assert one.request().pod is pod


def test_while_all_are_suspect_the_revision_is_tried_fifty_times_a_second_in_all() -> None:
    one = One(1)
    pods = one.healthy(addresses(10))
    for pod in pods:
        bad(one, pod, untouched=True)
    assert pods[-1].ejection.until == pytest.approx(one.now + 10 * PANIC_PAUSE)


def test_while_the_application_fails_its_responses_decide_nothing_more() -> None:
    one = One(1)
    pods = one.healthy(addresses(100))
    for pod in pods:
        bad(one, pod, times=CONSECUTIVE_ERRORS)
    in_use = [pod for pod in pods if not is_out(pod)]
    before = [pod.in_use for pod in in_use]
    for pod in in_use:
        assert one.throttler.responded_badly(pod, "503", one.now, untouched=False) is None
    assert [pod.in_use for pod in in_use] == before


# -- other evidence ------------------------------------------------------------------------------


def test_a_connect_that_fails_decides_over_responses() -> None:
    one = One(1)
    pod, _, _ = one.healthy([A, B, C])
    bad(one, pod, untouched=True)
    one.throttler.connect_failed(pod, "refused", one.now)
    assert back(one, pod, 0.0), "its probe decides at once"
    assert pod.limit == 1


def test_a_probe_that_fails_decides_over_responses() -> None:
    one = One(10)
    pod, _, _ = one.healthy([A, B, C])
    bad(one, pod, untouched=True)
    one.failed(pod)
    assert back(one, pod, 0.0)
    assert pod.limit == 10


def test_a_late_response_of_an_ejected_pod_changes_nothing() -> None:
    one = One(1)
    pod, _, _ = one.healthy([A, B, C])
    bad(one, pod, untouched=True)
    held = pod.ejection.until
    well(one, pod)
    bad(one, pod, untouched=True, times=10)
    assert is_out(pod)
    assert pod.ejection.until == held


def test_responses_of_the_cluster_ip_count_for_no_pod() -> None:
    one = One(1, service="10.96.0.5:80")
    one.set_endpoints([A])
    one.failed(one.pod(A), 503)
    service = one.throttler.backends.service.tracker
    assert service is not None
    one.passed(service)
    bad(one, service, untouched=True, times=10)
    assert one.request().pod is service


def test_where_the_word_of_kubernetes_is_enough_a_suspect_is_left_alone_all_the_same() -> None:
    one = One(1, mode=MeshMode.DISABLED)
    one.set_endpoints([A, B, C])
    pod = one.pod(A)
    bad(one, pod, untouched=True)
    one.failed(pod, 404)
    assert is_out(pod)
    one.now += EJECTION_TIME
    one.failed(pod, 404)
    assert not is_out(pod)


# -- another pod first ---------------------------------------------------------------------------


def test_a_request_that_a_pod_failed_is_given_to_another_first() -> None:
    one = One(10)
    one.healthy([A, B, C])
    ticket = one.request()
    failed = []
    for _ in range(3):
        failed.append(ticket.pod)
        one.throttler.requeue(ticket, one.now)
    assert len(set(failed)) == 3


def test_the_pod_that_failed_it_gets_it_where_no_other_has_room() -> None:
    one = One(1)
    pod, other = one.healthy([A, B])
    ticket = one.request()
    blocking = one.request()
    one.throttler.requeue(ticket, one.now)
    assert (ticket.pod, blocking.pod) == (pod, other)


def test_it_goes_beyond_our_slice_rather_than_to_the_pod_that_failed_it() -> None:
    one = One(10)
    one.healthy([A, B])
    one.throttler.set_share(ActivatorShare(0, 2), one.now)
    ticket = one.request()
    mine = ticket.pod
    one.throttler.requeue(ticket, one.now)
    assert ticket.pod is not mine
    assert ticket.state is not QUEUED
