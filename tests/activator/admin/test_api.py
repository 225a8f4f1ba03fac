"""What the API says about a revision in each situation that users ask about."""

from __future__ import annotations

import pytest

from activator.admin.api import detail_view, revision_view
from activator.records.entries import Failed
from tests.activator.telemetry.world import World
from tests.activator.throttlers import release
from throttler.model import (
    AdaptiveMode,
    AppProtocol,
    HashKey,
    KeyKind,
    Overflow,
    Policies,
    ReadinessRule,
)
from throttler.reason import Reason

POD, OTHER = "10.0.0.1:8012", "10.0.0.2:8012"


@pytest.fixture
def world():
    return World()


def view(world, throttler):
    return revision_view(world.driver, throttler)


def pod_view(world, throttler):
    (pod,) = view(world, throttler)["pods"]
    return pod


def test_a_revision_at_zero(world):
    throttler = world.revision(timeout=300.0, protocol=AppProtocol.H2C)
    assert view(world, throttler) == {
        "namespace": "default",
        "name": "hello",
        "kind": "revision",
        "uid": "u1",
        "deleted": False,
        "containerConcurrency": 2,
        "protocol": "h2c",
        "timeoutSeconds": 300,
        "readinessRule": "probe",
        "loadBalancing": "first-available",
        "hashKey": None,
        "sticky": None,
        "adaptiveConcurrency": "off",
        "capacity": 0,
        "capacityBreakdown": {
            "way": "pods",
            "pods": 0,
            "limitPerPod": 2,
            "activators": 0,
            "ownPods": 0,
            "borrows": True,
            "sentence": "0 usable pods × 2 = 0",
        },
        "inFlight": 0,
        "queued": 0,
        "oldestWaiterSeconds": None,
        "queueDepth": 10_000,
        "heldBytes": 0,
        "reason": None,
        "reasonDetail": None,
        "lastFailure": None,
        "failedStarts": 0,
        "forecast": {
            "startSeconds": None,
            "startingSeconds": None,
            "drainSecondsPerRequest": None,
            "expectedWaitSeconds": None,
        },
        "reachableHealthyPods": 0,
        "activatorIndex": -1,
        "activatorCount": 0,
        "clusterIP": None,
        "pods": [],
    }


def test_a_full_pod_and_a_queue(world):
    throttler = world.revision(concurrency=2)
    world.healthy(throttler, POD)
    for size in (0, 0, 700):
        world.request(throttler, size)
    world.clock.now += 1.26
    seen = view(world, throttler)
    assert (seen["inFlight"], seen["capacity"], seen["queued"]) == (2, 2, 1)
    assert (seen["oldestWaiterSeconds"], seen["heldBytes"]) == (1.26, 700)
    assert (seen["reason"], seen["reasonDetail"]) == ("at-capacity", "2/2")
    assert seen["pods"] == [
        {
            "address": POD,
            "uid": f"uid-{POD}",
            "kubernetes": "ready",
            "probe": "passed",
            "probeStatus": 200,
            "lastProbeSecondsAgo": 1.26,
            "state": "healthy",
            "stateSecondsAgo": 1.26,
            "usable": True,
            "decision": "use",
            "decidedBy": "probe-passed",
            "explanation": "Used: it passed the activator's own probe. That is enough, "
            "whether Kubernetes lists it as ready or not.",
            "inFlight": 2,
            "silentSeconds": None,
            "limit": 2,
            "adaptiveLimit": None,
            "lastError": None,
            "zone": None,
            "near": None,
            "inSlice": True,
        }
    ]


def test_a_pod_that_has_requests_and_begins_no_response(world):
    throttler = world.revision()
    (pod,) = world.healthy(throttler, POD)
    ticket = world.request(throttler)
    world.clock.now += 4.9
    assert pod_view(world, throttler)["silentSeconds"] is None
    world.clock.now += 3.4567
    assert pod_view(world, throttler)["silentSeconds"] == 8.357
    world.driver.probe_failed(pod, pod.epoch, "no response in 1 s")
    seen = pod_view(world, throttler)
    assert (seen["silentSeconds"], seen["decision"]) == (8.357, "wait")
    release(world.driver, world.driver.throttler.of(ticket.config), ticket, world.clock.now)
    assert pod_view(world, throttler)["silentSeconds"] is None


async def test_how_long_it_takes_to_get_a_pod(world):
    throttler = world.revision(concurrency=2)
    first = world.request(throttler)
    world.clock.now += 4.0
    world.healthy(throttler, POD)
    assert view(world, throttler)["forecast"] == {
        "startSeconds": 4.0,
        "startingSeconds": None,
        "drainSecondsPerRequest": None,
        "expectedWaitSeconds": 0.0,
    }
    second, *_ = [world.request(throttler) for _ in range(4)]
    for ticket in (first, second):
        world.clock.now += 0.5
        throttler.release(ticket, world.clock.now)
    assert view(world, throttler)["forecast"] == {
        "startSeconds": 4.0,
        "startingSeconds": None,
        "drainSecondsPerRequest": 0.5,
        "expectedWaitSeconds": 1.0,
    }


def test_the_reason_why_a_request_would_wait_is_shown_before_one_does(world):
    throttler = world.revision()
    assert next_reason(world, throttler) == ("no-endpoints", None)
    assert next_reason(world, throttler, autoscaler_lost=True) == ("autoscaler-unreachable", None)
    world.healthy(throttler, POD)
    world.request(throttler)
    assert next_reason(world, throttler) == (None, None)
    world.request(throttler)
    assert next_reason(world, throttler) == ("at-capacity", "2/2")


def next_reason(world, throttler, autoscaler_lost=False):
    world.driver.autoscaler_lost = lambda kind: autoscaler_lost
    seen = detail_view(world.driver, throttler)
    return seen["nextReason"], seen["nextReasonDetail"]


def test_the_last_request_that_failed_and_how_many_did(world):
    throttler = world.revision()
    failures = world.entry(throttler).failures
    failures.record(Failed(world.clock.now, 504, Reason.RESPONSE_LATE, ""))
    failures.record(Failed(world.clock.now, 502, Reason.UPSTREAM_FAILED, f"{POD}: closed"))
    world.clock.now += 2.5
    seen = detail_view(world.driver, throttler)
    assert seen["lastFailure"] == {
        "secondsAgo": 2.5,
        "status": 502,
        "reason": "upstream-failed",
        "detail": f"{POD}: closed",
    }
    assert seen["failures"] == {"response-late": 1, "upstream-failed": 1}


async def test_a_request_waits_for_an_address(world):
    throttler = world.revision()
    world.request(throttler)
    assert view(world, throttler)["reason"] == "no-endpoints"
    world.driver.autoscaler_lost = lambda kind: True
    assert view(world, throttler)["reason"] == "autoscaler-unreachable"


def test_a_pod_that_was_not_probed_yet(world):
    throttler = world.revision()
    world.pods(throttler, not_ready=(POD,))
    pod = pod_view(world, throttler)
    assert (pod["kubernetes"], pod["probe"], pod["state"]) == ("not-ready", "unknown", "probing")
    assert pod["lastProbeSecondsAgo"] is None
    assert not pod["usable"]


async def test_a_pod_that_fails_its_probe(world):
    throttler = world.revision()
    (pod,) = world.pods(throttler, POD)
    world.request(throttler)
    world.driver.probe_failed(pod, pod.epoch, "connection refused")
    seen = pod_view(world, throttler)
    assert (seen["probe"], seen["lastError"]) == ("failed", "connection refused")
    assert view(world, throttler)["reason"] == "probe-failing"
    assert view(world, throttler)["reasonDetail"] == f"{POD}: connection refused"


def test_a_pod_that_dropped_a_connection_has_failed(world):
    throttler = world.revision()
    (pod,) = world.healthy(throttler, POD)
    world.driver.connect_failed(pod, "reset")
    seen = pod_view(world, throttler)
    assert (seen["probe"], seen["state"], seen["lastError"]) == ("failed", "probing", "reset")


def test_a_pod_that_leaves_with_requests(world):
    throttler = world.revision()
    world.healthy(throttler, POD)
    world.request(throttler)
    world.pods(throttler)
    seen = pod_view(world, throttler)
    assert (seen["kubernetes"], seen["state"], seen["usable"]) == ("gone", "draining", False)
    assert not seen["inSlice"]


def test_a_pod_that_passed_our_probe_where_that_does_not_suffice(world):
    throttler = world.revision(readiness=ReadinessRule.EXEC_READINESS_PROBE)
    (pod,) = world.pods(throttler, not_ready=(POD,))
    world.driver.probe_passed(pod, pod.epoch)
    seen = pod_view(world, throttler)
    assert (seen["probe"], seen["state"], seen["usable"]) == ("passed", "healthy", False)
    assert (seen["kubernetes"], seen["probeStatus"]) == ("not-ready", 200)
    assert (seen["decision"], seen["decidedBy"]) == ("wait", "exec-readiness-probe")
    assert view(world, throttler)["readinessRule"] == "exec-readiness-probe"


def test_without_a_limit_nothing_is_said_of_one(world):
    throttler = world.revision(concurrency=0)
    assert view(world, throttler)["capacity"] == 0
    world.healthy(throttler, POD)
    assert view(world, throttler)["capacity"] is None
    assert view(world, throttler)["capacityBreakdown"]["limitPerPod"] is None
    assert pod_view(world, throttler)["limit"] is None


def test_our_share_of_the_pods(world):
    throttler = world.revision()
    world.healthy(throttler, POD, OTHER)
    addresses = {AppProtocol.HTTP1: frozenset(("10.9.9.8", "10.9.9.9"))}
    world.driver.set_activators(throttler.revision.id, addresses)
    seen = view(world, throttler)
    assert (seen["activatorIndex"], seen["activatorCount"]) == (1, 2)
    terms = seen["capacityBreakdown"]
    assert (terms["pods"], terms["ownPods"], terms["activators"]) == (2, 1, 2)
    assert terms["sentence"].endswith(
        "share of activator 2 of 2: 1 pod (2) × 2 = 2, then it borrows the others"
    )
    assert [(pod["address"], pod["inSlice"], pod["usable"]) for pod in seen["pods"]] == [
        (POD, False, True),
        (OTHER, True, True),
    ]


@pytest.mark.parametrize(("seconds", "shown"), [(300.0, "300"), (0.5, "0.5"), (0.0, "0")])
def test_time_outs_are_written_as_the_manifest_does(world, seconds, shown):
    assert str(view(world, world.revision(timeout=seconds))["timeoutSeconds"]) == shown


async def test_pods_that_cannot_be_reached_and_their_cluster_ip(world):
    throttler = world.revision(concurrency=2)
    world.driver.set_service(throttler.revision.id, {AppProtocol.HTTP1: "10.96.0.5:80"})
    (pod,) = world.pods(throttler, POD)
    assert view(world, throttler)["clusterIP"] is None
    world.driver.probe_failed(pod, pod.epoch, "status 503", 503)
    service = throttler.backends.service.tracker
    assert not view(world, throttler)["clusterIP"]["usable"]
    world.driver.probe_passed(service, service.epoch)
    world.request(throttler)
    seen = view(world, throttler)
    assert (seen["capacity"], seen["reachableHealthyPods"], seen["inFlight"]) == (2, 0, 1)
    named = ("address", "kubernetes", "probe", "state", "usable", "inFlight", "limit")
    assert [seen["clusterIP"][name] for name in named] == [
        *("10.96.0.5:80", "service", "passed", "healthy", True, 1, 2)
    ]
    assert seen["capacityBreakdown"]["way"] == "cluster-ip"
    pod = pod_view(world, throttler)
    assert (pod["lastError"], pod["probeStatus"]) == ("status 503", 503)


def test_sticky_requests_are_counted_by_their_result(world):
    policies = Policies(sticky=HashKey(kind=KeyKind.COOKIE), sticky_overflow=Overflow.WAIT)
    throttler = world.revision(policies=policies)
    world.healthy(throttler, POD)
    world.request(throttler)
    sticky = view(world, throttler)["sticky"]
    assert sticky == {
        "key": "cookie",
        "overflow": "wait",
        **dict.fromkeys(("kept", "hashed", "overflowed", "waited"), 0),
    }


def test_adaptive_limits_are_limits_only_if_they_apply(world):
    for mode, limit in ((AdaptiveMode.OBSERVE, None), (AdaptiveMode.ON, 4)):
        throttler = world.revision(concurrency=0, policies=Policies(adaptive=mode))
        world.healthy(throttler, POD)
        pod = pod_view(world, throttler)
        assert view(world, throttler)["adaptiveConcurrency"] == mode.value
        assert (pod["limit"], pod["adaptiveLimit"]) == (limit, 4)
    throttler = world.revision(concurrency=1, policies=Policies(adaptive=AdaptiveMode.ON))
    assert view(world, throttler)["adaptiveConcurrency"] == "off"
    assert pod_view(world, throttler)["adaptiveLimit"] is None
