"""Why a request waits."""

from __future__ import annotations

from dataclasses import replace

from tests.throttler.world import NAME, Many, One, addresses, revision
from throttler.backends import EJECTION_TIME
from throttler.capacity import ActivatorShare
from throttler.model import (
    AppProtocol,
    Endpoint,
    ListedEndpoints,
    MeshMode,
    Policies,
    QueueOrder,
    RevisionID,
    RevisionKind,
)
from throttler.reason import Reason
from throttler.request_policies import HIGH, LOW
from throttler.wait_reason import expired_reason, waiting_reason

A, B, C = addresses(3)


def test_no_pod_is_listed() -> None:
    assert waiting_reason(One().throttler) == (Reason.NO_ENDPOINTS, "")


def test_the_autoscaler_matters_only_while_no_pod_is_listed() -> None:
    one = One()
    assert waiting_reason(one.throttler, True) == (Reason.AUTOSCALER_UNREACHABLE, "")
    one.set_endpoints([], [A])
    assert waiting_reason(one.throttler, True) == (Reason.PODS_NOT_READY, "")


def test_a_service_waits_for_the_scaler() -> None:
    many, service = Many(), RevisionID("default", "shop", RevisionKind.SERVICE)
    many.throttler.set_revision(revision(id=service, behind_queue_proxy=False), 0.0)
    assert waiting_reason(many.find(service), True) == (Reason.SCALER_UNREACHABLE, "")
    assert waiting_reason(many.find(service)) == (Reason.NO_ENDPOINTS, "")


def test_a_pod_is_not_at_fault_for_what_another_met() -> None:
    one = One()
    one.set_endpoints([A], [B])
    one.throttler.probe_failed(one.pod(B), one.pod(B).epoch, "refused", 1.0)
    assert waiting_reason(one.throttler) == (Reason.PODS_NOT_READY, f"{B}: refused")
    one.throttler.probe_failed(one.pod(A), one.pod(A).epoch, "late", 1.0)
    assert waiting_reason(one.throttler) == (Reason.PROBE_FAILING, f"{A}: late")


def test_of_many_pods_the_one_of_the_lowest_address_gives_the_detail() -> None:
    """All activators give the same detail, in whatever order they have read of the pods."""
    one = One()
    for listed in ([C], [B, C], [A, B, C]):
        one.set_endpoints([], listed)
    for address in (C, A, B):
        pod = one.pod(address)
        one.throttler.probe_failed(pod, pod.epoch, "refused", 1.0)
    assert waiting_reason(one.throttler) == (Reason.PODS_NOT_READY, f"{A}: refused")
    one.set_endpoints([B, C], [A])
    assert waiting_reason(one.throttler) == (Reason.PROBE_FAILING, f"{B}: refused")


def test_a_pods_earlier_errors_are_removed_when_it_is_listed_again() -> None:
    one = One(1)
    one.healthy([A])
    one.request()
    one.throttler.connect_failed(one.pod(A), "refused", 1.0)
    one.set_endpoints([])
    one.set_endpoints([A])
    assert waiting_reason(one.throttler) == (Reason.PODS_NOT_READY, "")


def test_requests_that_pods_only_finish_do_not_count_against_the_limit() -> None:
    one = One(2)
    one.healthy([A, B])
    one.requests(4)
    one.set_endpoints([B])
    one.request()
    assert waiting_reason(one.throttler) == (Reason.AT_CAPACITY, "2/2")


def test_a_pod_that_only_finishes_its_requests_does_not_count() -> None:
    one = One(1)
    one.healthy([A])
    one.request()
    one.set_endpoints([])
    assert waiting_reason(one.throttler) == (Reason.NO_ENDPOINTS, "")


def test_pods_are_listed_but_none_has_responded_yet() -> None:
    one = One()
    one.set_endpoints([], [A])
    assert waiting_reason(one.throttler) == (Reason.PODS_NOT_READY, "")
    one.set_endpoints([A])
    assert waiting_reason(one.throttler) == (Reason.PODS_NOT_READY, "")


def test_a_pod_that_starts_fails_our_probe_which_is_no_surprise() -> None:
    one = One()
    one.set_endpoints([], [A])
    pod = one.pod(A)
    one.throttler.probe_failed(pod, pod.epoch, "refused", 1.0)
    assert waiting_reason(one.throttler) == (Reason.PODS_NOT_READY, f"{A}: refused")


def test_a_pod_that_kubernetes_calls_ready_fails_our_probe() -> None:
    one = One()
    one.set_endpoints([A])
    pod = one.pod(A)
    one.throttler.probe_failed(pod, pod.epoch, "no response in 0.3 s", 1.0)
    assert waiting_reason(one.throttler) == (Reason.PROBE_FAILING, f"{A}: no response in 0.3 s")


def test_our_probe_passed_but_kubernetes_has_the_last_word() -> None:
    one = One(probe_suffices=False)
    one.set_endpoints([], [A])
    one.passed(one.pod(A))
    reason = (Reason.PODS_NOT_READY, "probe passed, not listed as ready")
    assert waiting_reason(one.throttler) == reason


def test_all_pods_are_busy() -> None:
    one = One(2)
    one.healthy([A, B])
    one.requests(5)
    assert waiting_reason(one.throttler) == (Reason.AT_CAPACITY, "4/4")


def test_only_the_pods_in_our_reach_count_for_the_limit() -> None:
    one = One(2, borrow=False)
    one.healthy([A, B])
    one.throttler.set_share(ActivatorShare(0, 2), one.now)
    one.requests(3)
    assert waiting_reason(one.throttler) == (Reason.AT_CAPACITY, "2/2")


VIP = "10.96.0.5:80"


def test_only_the_cluster_ip_may_be_used_and_nothing_is_behind_it() -> None:
    one = One(1, mode=MeshMode.ENABLED, service=VIP)
    assert waiting_reason(one.throttler) == (Reason.NO_ENDPOINTS, "")
    one.set_endpoints([], [A])
    assert waiting_reason(one.throttler) == (Reason.PODS_NOT_READY, "")


def test_only_the_cluster_ip_may_be_used_and_there_is_none() -> None:
    one = One(1, mode=MeshMode.ENABLED)
    one.set_endpoints([A])
    detail = "mesh mode is enabled, the private Service has no ClusterIP"
    assert waiting_reason(one.throttler) == (Reason.NO_ENDPOINTS, detail)


def test_the_cluster_ip_fails_its_probe() -> None:
    one = One(1, mode=MeshMode.ENABLED, service=VIP)
    one.set_endpoints([A])
    service = one.throttler.backends.service.tracker
    assert service is not None
    assert waiting_reason(one.throttler) == (Reason.PROBE_FAILING, "")
    one.throttler.probe_failed(service, service.epoch, "status 503", one.now, 503)
    assert waiting_reason(one.throttler) == (
        Reason.PROBE_FAILING,
        f"ClusterIP {VIP}: status 503",
    )


def test_neither_pods_nor_the_cluster_ip_respond() -> None:
    one = One(1, service=VIP)
    one.set_endpoints([A])
    one.failed(one.pod(A), None)
    service = one.throttler.backends.service.tracker
    assert service is not None
    one.throttler.probe_failed(service, service.epoch, "refused", one.now)
    detail = f"{A}: None; ClusterIP {VIP}: refused"
    assert waiting_reason(one.throttler) == (Reason.PROBE_FAILING, detail)


def test_the_cluster_ip_is_full() -> None:
    one = One(2, service=VIP)
    one.set_endpoints([A])
    one.failed(one.pod(A))
    service = one.throttler.backends.service.tracker
    assert service is not None
    one.passed(service)
    one.requests(3)
    assert waiting_reason(one.throttler) == (Reason.AT_CAPACITY, "2/2")


def test_a_pod_is_ejected_for_its_responses_while_its_probe_passes() -> None:
    one = One(1)
    (pod,) = one.healthy([A])
    one.throttler.responded_badly(pod, "responded 502: EOF", one.now, untouched=True)
    assert waiting_reason(one.throttler) == (Reason.BAD_ANSWERS, f"{A}: responded 502: EOF")
    one.failed(pod)
    assert waiting_reason(one.throttler) == (Reason.PROBE_FAILING, f"{A}: 503")
    one.passed(pod)
    one.throttler.responded_badly(pod, "responded 502: EOF", one.now, untouched=True)
    one.now += EJECTION_TIME
    one.passed(pod)
    assert waiting_reason(one.throttler)[0] is Reason.AT_CAPACITY


def test_a_deleted_revision_is_the_reason() -> None:
    many = Many()
    many.throttler.set_revision(revision(1), 0.0)
    many.request()
    many.throttler.delete_revision(NAME)
    left = many.throttler.find_any(*NAME)
    assert waiting_reason(left, True) == (Reason.NO_ENDPOINTS, "the object was deleted")


def test_the_only_pods_that_are_listed_are_of_another_revision_by_now() -> None:
    many, thief = Many(), RevisionID("elsewhere", "thief")
    for id in (thief, NAME):
        many.throttler.set_revision(revision(1, id=id), 0.0)
    many.set_endpoints([Endpoint(A, "old"), Endpoint(B, "old")])
    many.set_endpoints([Endpoint(A, "new")], id=thief)
    assert waiting_reason(many.find())[0] is Reason.PODS_NOT_READY, "the other may come"
    many.set_endpoints([Endpoint(A, "new"), Endpoint(B, "new")], id=thief)
    detail = "2 addresses taken by elsewhere/thief"
    assert waiting_reason(many.find(), True) == (Reason.NO_ENDPOINTS, detail)
    many.set_endpoints([], id=thief)
    assert waiting_reason(many.find()) == (Reason.PODS_NOT_READY, "")


def test_addresses_are_listed_under_the_port_of_another_protocol() -> None:
    many = Many()
    many.throttler.set_revision(revision(1, protocol=AppProtocol.H2C), 0.0)
    pods = ListedEndpoints(frozenset({Endpoint(A, "a")}), frozenset({Endpoint(B, "b")}))
    many.throttler.set_endpoints(NAME, {AppProtocol.HTTP1: pods}, 0.0)
    detail = "2 addresses without a port named http2: the revision speaks h2c"
    assert waiting_reason(many.find(), True) == (Reason.NO_ENDPOINTS, detail)
    ending = {AppProtocol.HTTP1: ListedEndpoints(terminating=pods.ready)}
    many.throttler.set_endpoints(NAME, ending, 0.0)
    detail = "1 address without a port named http2: the revision speaks h2c"
    assert waiting_reason(many.find(), True) == (Reason.NO_ENDPOINTS, detail)
    both = {AppProtocol.HTTP1: pods, AppProtocol.H2C: pods}
    many.throttler.set_endpoints(NAME, both, 0.0)
    assert waiting_reason(many.find()) == (Reason.PODS_NOT_READY, "")
    many.throttler.set_endpoints(NAME, {}, 0.0)
    assert waiting_reason(many.find()) == (Reason.NO_ENDPOINTS, "")


def test_a_request_that_later_ones_of_a_higher_class_overtook_expires_outranked() -> None:
    one = One(1)
    classes = Policies(order=QueueOrder(has_classes=True))
    one.throttler.set_revision(replace(revision(1), policies=classes), one.now)
    one.healthy(addresses(1))
    running = one.request()
    low, high = one.tickets.make(60.0), one.tickets.make(60.0)
    low.priority, high.priority = LOW, HIGH
    for ticket in (low, high):
        one.now += 1
        one.throttler.admit(ticket, one.now)
    full = waiting_reason(one.throttler)
    assert expired_reason(one.throttler, low, full) == full == (Reason.AT_CAPACITY, "1/1")
    assert one.release(running) == [high]
    assert expired_reason(one.throttler, low, full) == (Reason.OUTRANKED, "class low, 1/1")
    assert expired_reason(one.throttler, high, full) == full
    absent = (Reason.NO_ENDPOINTS, "")
    assert expired_reason(one.throttler, low, absent) == absent
