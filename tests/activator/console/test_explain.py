"""``activator explain``: why requests wait, and the advice."""

from __future__ import annotations

import itertools
import json
import re
import shlex
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from activator.admin.api import detail_view
from activator.admin.views.revisions import WAITING
from activator.console import explain, explain_parts
from activator.console.client import NOTHING, parse
from activator.console.explain import meaning, page_of, what_to_do
from activator.console.screen import Fact, plain
from activator.plain.annotations import Owner
from activator.scale import reasons
from activator.scale.reasons import ScaleReason
from tests.activator.console.explained import OTHER, POD, shown, view
from tests.activator.telemetry.world import World
from tests.rows import in_one_test
from throttler.model import (
    AppProtocol,
    ProbeKind,
    ProbeSpec,
    ReadinessRule,
    RevisionKind,
    ServiceRoute,
)
from throttler.reason import ROWS, TABLE, Reason

COLUMNS = (
    "custom-columns=POD:.metadata.name,IP:.status.podIP,"
    "CONTAINER:.status.containerStatuses[*].name,READY:.status.containerStatuses[*].ready"
)


@pytest.fixture
def world():
    return World()


def test_kubernetes_says_no_our_probe_says_yes_and_the_rule_is_named(world):
    throttler = world.revision(readiness=ReadinessRule.EXEC_READINESS_PROBE)
    (pod, _) = world.pods(throttler, not_ready=(POD, OTHER))
    world.driver.probe_passed(pod, pod.epoch)
    world.clock.now += 1
    world.request(throttler, 700)
    world.request(throttler)
    world.clock.now += 2.5
    assert shown(view(world, throttler)) == [
        "default/hello: 2 requests wait, pods-not-ready",
        "",
        "Reason      Kubernetes lists pods of this revision, but none is usable yet. (probe "
        "passed, not listed as ready)",
        "What to do  Read in the table of pods which rule keeps each pod from use, then find out "
        "which container is not ready, and why.",
        "            kubectl get pods -n default -l serving.knative.dev/revision=hello "
        f"-o '{COLUMNS}'",
        "            kubectl describe pods -n default -l serving.knative.dev/revision=hello",
        "Read on     activator reason pods-not-ready",
        "Queue       2 of at most 10000, the first for 2.5s, 700 bytes in memory",
        "In flight   0 of 0",
        "Capacity    0 usable pods × 2 = 0",
        "Readiness   a pod is usable if it passes the activator's probe and Kubernetes lists it as "
        "ready: exec-readiness-probe",
        "Balancing   first-available",
        "",
        "ADDRESS        KUBERNETES  PROBE    STATUS  PROBED  STATE    SINCE  DECISION  DECIDED-BY"
        "            IN-FLIGHT  LAST-ERROR",
        "10.0.0.1:8012  not-ready   passed   200     3.5s    healthy  3.5s   wait      "
        "exec-readiness-probe  0/2        -",
        "10.0.0.2:8012  not-ready   unknown  -       -       probing  3.5s   wait      "
        "awaiting-probe        0/2        -",
        "",
        "exec-readiness-probe  (1) Waits: it passed the activator's own probe, but Kubernetes does "
        "not list it as ready. Its readiness counts because a container has an exec readiness "
        "probe, which only kubelet can run.",
        "awaiting-probe        (1) Waits for the activator's own probe: none has ended since "
        "Kubernetes lists it as it does.",
    ]


def test_a_revision_at_zero(world):
    assert shown(view(world, world.revision())) == [
        "default/hello: no request waits; a new one would wait",
        "",
        "Queue      0 of at most 10000",
        "In flight  0 of 0",
        "Capacity   0 usable pods × 2 = 0",
        "Readiness  a pod is usable if it passes the activator's probe",
        "Balancing  first-available",
    ]


def test_reason_and_advice_are_shown_before_a_request_waits(world):
    zero = detail_view(world.driver, world.revision())
    lines = shown(zero)
    assert lines[0] == "default/hello: no request waits; a new one would wait (no-endpoints)"
    assert lines[2:4] == [
        "Reason      Kubernetes lists no pod of this revision.",
        "What to do  Nothing while no request waits: the first request wakes the workload.",
    ]
    lines = shown(zero, manifests={"folder": "/srv/objects"})
    assert lines[3].startswith(
        "What to do  If nothing scales this revision, add its pod to an Endpoints"
    )
    assert lines[3].endswith("in the folder /srv/objects")
    assert not any("kubectl" in line for line in lines)
    for link in ({"scaler": {"connected": True}}, {"autoscaler": {"connected": True}}):
        lines = shown(zero, manifests={"folder": "/srv/objects"}, **link)
        assert lines[3] == (
            "What to do  Nothing while no request waits: the first request wakes the workload."
        )
    full = world.revision("full")
    world.healthy(full, POD)
    for _ in range(2):
        world.request(full)
    lines = shown(detail_view(world.driver, full))
    assert lines[0] == "default/full: no request waits; a new one would wait (at-capacity)"


@pytest.mark.parametrize(
    ("field", "scaler", "advice"),
    [
        ("nextReason", None, "Remove the annotation activator.dev/asleep"),
        ("reason", None, "Remove the annotation activator.dev/asleep"),
        ("nextReason", {"connected": True}, "Nothing while no request waits: the first request"),
        ("nextReason", {"connected": False}, "Nothing for some seconds. Then find out why"),
        ("reason", {"connected": True}, "Nothing for some seconds. Then find out why"),
    ],
)
def test_a_folder_of_a_scaler_is_not_changed_by_hand(world, field, scaler, advice):
    """The scaler owns the annotation, and lists the pods."""
    answer = view(world, service(world), queued=int(field == "reason"))
    answer |= {field: "pods-asleep"}
    lines = shown(answer, manifests={"folder": "/srv/objects"}, scaler=scaler)
    assert lines[3].startswith(f"What to do  {advice}")
    assert lines[4].startswith("Read on")


@pytest.mark.untraced
@pytest.mark.parametrize("kind", list(RevisionKind))
@pytest.mark.parametrize(
    ("usual", "took", "begins", "advice"),
    [
        (2.0, 1.2, "1 request waits, starting, 1.2 of about 2 s", False),
        (2.0, 5.0, "1 request waits, starting for 5.0 s, longer than the usual 2 s; ", True),
        (None, 1.2, "1 request waits, starting, 1.2 s", False),
        (None, 60.0, "1 request waits, starting for 60.0 s; ", True),
    ],
)
async def test_a_start_has_its_progress_and_advice_only_if_it_is_late(
    world, kind, usual, took, begins, advice
):
    throttler = world.revision(kind=kind)
    if usual is not None:
        throttler.forecast.starts.add(usual)
    ticket = world.request(throttler)
    world.clock.now += took / 2
    for pods in ((), (POD,)):  # none is listed, and one that is not ready
        world.pods(throttler, not_ready=pods)
        world.clock.now = ticket.arrived + took
        lines = shown(detail_view(world.driver, throttler))
        assert lines[0].partition(": ")[2].startswith(begins)
        assert any("kubectl" in line for line in lines) == advice
        assert ("What to do  Nothing yet: a pod is starting" in "\n".join(lines)) != advice
        promises = [line for line in lines if "a new request would wait" in line]
        assert bool(promises) == (usual is not None and not advice)
    throttler.cancel(ticket, world.clock.now)
    lines = shown(detail_view(world.driver, throttler))
    assert lines[0].partition(": ")[2].startswith(begins.replace("1 request", "no request"))
    world.driver.close()


def test_failed_starts_are_shown_after_their_clients_have_left(world):
    throttler = world.revision(kind=RevisionKind.SERVICE)
    for count in (1, 2):
        cold_start = world.driver.cold_starts.join(throttler, {}, world.clock.now)
        world.clock.now += 20
        world.driver.cold_starts.request_ended(cold_start, "cancelled", world.clock.now)
        lines = shown(detail_view(world.driver, throttler))
        assert "Nothing while no request waits" not in "\n".join(lines)
        (at,) = [n for n, line in enumerate(lines) if line.startswith("Failed starts")]
        assert lines[at].split("  ")[-1].startswith(f"{count} in a row, without a usable pod")
        assert lines[at + 1].endswith("for 20.0 s, cancelled; no-endpoints")
    world.healthy(throttler, POD)
    lines = shown(detail_view(world.driver, throttler))
    assert not [line for line in lines if line.startswith("Failed starts")]


@pytest.mark.parametrize("usual", [None, 2.0])
async def test_after_a_failed_start_the_next_one_has_advice_at_once(world, usual):
    throttler = world.revision(kind=RevisionKind.SERVICE)
    if usual is not None:
        throttler.forecast.starts.add(usual)
    cold_start = world.driver.cold_starts.join(throttler, {}, world.clock.now)
    ticket = world.request(throttler)
    world.pods(throttler, not_ready=(POD,))
    world.clock.now += 1.5
    lines = shown(detail_view(world.driver, throttler))
    assert "What to do  Nothing yet: a pod is starting." in lines
    world.driver.cold_starts.request_ended(cold_start, "timed-out", world.clock.now)
    lines = shown(detail_view(world.driver, throttler))
    starts = "starting for 1.5 s; pods-not-ready" if usual is None else "starting, 1.5 of about 2 s"
    assert lines[0].endswith(f"1 request waits, {starts}")
    assert any("kubectl" in line for line in lines)
    assert not any("Nothing yet" in line for line in lines)
    throttler.cancel(ticket, world.clock.now)
    world.driver.close()


async def test_a_start_for_a_request_in_another_activator_has_no_advice_for_failures(world):
    throttler = service(world)
    for pods in ((), (POD,)):
        world.pods(throttler, not_ready=pods)
        answer = parse(json.dumps(detail_view(world.driver, throttler)))
        page = explain.page(answer, NOTHING, explain_parts.ScalerFacts(starting=9.0))
        lines = plain(page).splitlines()
        assert lines[0] == "Service default/hello: no request waits, a pod is starting"
        assert "What to do  Nothing yet: a pod is starting." in lines
        lines = plain(explain.page(answer, NOTHING, explain_parts.ScalerFacts())).splitlines()
        assert "a new one would" in lines[0]
    world.driver.close()


@pytest.mark.parametrize(
    ("usual", "took", "is_late"),
    [
        *((0.819, 9.0, False), (0.819, 28.0, True), (6.0, 17.0, False), (6.0, 19.0, True)),
        *((None, 29.0, False), (None, 31.0, True)),
    ],
)
async def test_a_start_that_takes_clearly_longer_has_the_advice_of_its_reason(
    world, usual, took, is_late
):
    """As the pod of a container that ends again and again: the scaler calls it starting."""
    throttler = service(world)
    if usual is not None:
        throttler.forecast.starts.add(usual)
    ticket = world.request(throttler)
    world.pods(throttler, not_ready=(POD,))
    world.clock.now = ticket.arrived + took
    throttler.cancel(ticket, world.clock.now)
    answer = parse(json.dumps(detail_view(world.driver, throttler)))
    for seconds in (took, 1.0):  # the scaler changed the replicas at once, or later
        page = explain.page(answer, NOTHING, explain_parts.ScalerFacts(starting=seconds))
        lines = plain(page).splitlines()
        assert ("What to do  Nothing yet: a pod is starting." in lines) != is_late
        for command in ("kubectl get pods -n default $(", "kubectl logs -n default $pod"):
            assert any(command in line for line in lines) == is_late
    world.driver.close()


async def test_a_starting_pod_that_kubernetes_lists_as_ready_at_once_is_no_failure(world):
    """Without a readiness probe, Kubernetes lists a pod as ready before it listens."""
    throttler = world.revision(kind=RevisionKind.SERVICE)
    ticket = world.request(throttler)
    (pod,) = world.pods(throttler, POD)
    world.driver.probe_failed(pod, pod.epoch, "connection refused")
    world.clock.now += 1.5
    lines = shown(detail_view(world.driver, throttler))
    assert lines[0] == "Service default/hello: 1 request waits, starting, 1.5 s"
    assert "What to do  Nothing yet: a pod is starting." in lines
    throttler.cancel(ticket, world.clock.now)
    world.driver.close()


def test_what_keeps_pods_from_starting_comes_before_a_generic_reason(world):
    forbidden = (Fact("Scaler", ("asleep", "scale-forbidden: the role lacks a rule")),)
    throttler = service(world)
    queued = world.request(throttler)
    port = {"kind": "Service", "namespace": "default", "name": "hello"}
    port |= {"reason": "no-such-port", "warning": "no EndpointSlice has the port"}
    for scaled, warnings, cause in (
        (explain_parts.ScalerFacts(forbidden, "scale-forbidden"), [], "scale-forbidden"),
        (explain_parts.NOT_SCALED, [port], "no-such-port"),
        (explain_parts.NOT_SCALED, [port | {"reason": "limited"}], ""),
    ):
        answer = detail_view(world.driver, throttler)
        one = parse(json.dumps(answer | {"objectWarnings": warnings}))
        lines = plain(explain.page(one, NOTHING, scaled)).splitlines()
        assert lines[0].endswith(cause or "starting, 0.0 s")
        assert lines[2].startswith("Scaler" if scaled.cause else "Reason")
        todo = [line for line in lines if line.startswith("What to do  Correct ")]
        assert bool(todo) == bool(cause)
        about = cause or "no-endpoints"
        assert ("No EndpointSlice has the port." in lines[2]) == (cause == "no-such-port")
        assert any(line.endswith(f"activator reason {about}") for line in lines)
        assert not warnings or todo == ["What to do  Correct Service default/hello."] * bool(cause)
    throttler.cancel(queued, world.clock.now)
    answer = detail_view(world.driver, throttler)
    page = explain.page(
        parse(json.dumps(answer)), NOTHING, explain_parts.ScalerFacts(forbidden, "scale-forbidden")
    )
    assert plain(page).startswith("Service default/hello: no request waits, scale-forbidden")


WRONG = {"namespace": "default", "name": "hello-private", "warning": "it lacks a label"}


@pytest.mark.parametrize("folder", ["", "/srv/objects"])
@pytest.mark.parametrize("kind", ["Endpoints", "EndpointSlice"])
def test_the_advice_names_the_object_that_should_list_the_pods(world, kind, folder):
    zero = detail_view(world.driver, world.revision())
    activator = {"manifests": {"folder": folder}} if folder else {}
    lines = shown(zero | {"objectWarnings": [WRONG | {"kind": kind}]}, **activator)
    assert lines[2:6] == [
        "Reason      Kubernetes lists no pod of this revision.",
        ("What to do  In the folder /srv/objects, correct " if folder else "What to do  Correct ")
        + f"{kind} default/hello-private: it lacks a label",
        "Read on     activator reason no-endpoints",
        f"Warnings    {kind} default/hello-private: it lacks a label",
    ]


def test_a_warning_about_the_revision_itself_is_no_advice_about_its_pods(world):
    zero = detail_view(world.driver, world.revision())
    warnings = [WRONG | {"kind": "Revision", "name": f"r{n}"} for n in range(7)]
    lines = shown(zero | {"objectWarnings": warnings})
    assert (
        lines[3]
        == "What to do  Nothing while no request waits: the first request wakes the workload."
    )
    (first,) = [line for line in lines if line.startswith("Warnings")]
    assert first == "Warnings    Revision default/r0: it lacks a label"
    assert lines[lines.index(first) + 5] == "            and 2 more"


def test_a_deleted_revision_is_shown_as_such_and_no_pod_of_it_is_awaited(world):
    throttler = world.revision()
    ticket = world.request(throttler)
    world.driver.throttler.delete_revision(throttler.revision.id)
    lines = shown(view(world, throttler))
    assert lines[0] == "default/hello: 1 request waits, no-endpoints"
    assert lines[2].endswith("lists no pod of this revision. (the object was deleted)")
    assert lines[3].startswith("What to do  Apply the Revision again")
    assert not any("kubectl" in line for line in lines)
    throttler.cancel(ticket, world.clock.now)
    lines = shown(detail_view(world.driver, throttler))
    assert lines[0] == "default/hello: deleted; no request waits, a new one would get 404"


def test_why_the_last_request_failed(world):
    failed = {
        "secondsAgo": 3.21,
        "status": 502,
        "reason": "upstream-failed",
        "detail": "10.0.0.1:8012: closed",
    }
    answer = view(world, world.revision(), lastFailure=failed, failures={"upstream-failed": 3})
    lines = shown(answer)
    first = lines.index(
        "Last failure  502 upstream-failed (10.0.0.1:8012: closed), 3.2s ago",
    )
    assert [line.strip() for line in lines[first + 1 : first + 4]] == [
        "The pod failed the request, or the TLS handshake before it, and no retry is possible.",
        "activator reason upstream-failed",
        "Not served    3 upstream-failed, since the start",
    ]


def test_all_pods_are_full(world):
    throttler = world.revision()
    world.healthy(throttler, POD, OTHER)
    addresses = {AppProtocol.HTTP1: frozenset(("10.9.9.8", "10.9.9.9"))}
    world.driver.set_activators(throttler.revision.id, addresses)
    for _ in range(5):
        world.request(throttler)
    lines = shown(view(world, throttler))
    assert lines[0] == "default/hello: 1 request waits, at-capacity"
    assert lines[2] == (
        "Reason      Every usable pod has its maximum of concurrent requests. (4/4)"
    )
    assert (
        "Capacity    2 usable pods × 2 = 4; share of activator 2 of 2: 1 pod (2) × 2 = 2, "
        "then it borrows the others" in lines
    )
    assert lines[-2].startswith(
        "beyond-share  (1) Used once all pods of this activator's share are full"
    )


def test_pods_that_fail_their_probes_and_the_cluster_ip(world):
    throttler = world.revision(concurrency=0)
    world.driver.set_service(throttler.revision.id, {AppProtocol.HTTP1: "10.96.0.5:80"})
    (pod,) = world.pods(throttler, POD)
    world.driver.probe_failed(pod, pod.epoch, "status 503", 503)
    world.driver.probe_passed(
        throttler.backends.service.tracker, throttler.backends.service.tracker.epoch
    )
    world.request(throttler)
    lines = [line.split() for line in shown(view(world, throttler))]
    assert ["10.0.0.1:8012", "ready", "failed", "503", "0.0s", "probing", "0.0s", "wait"] in [
        line[:8] for line in lines
    ]
    assert ["10.96.0.5:80", "service", "passed", "200", "0.0s", "healthy", "0.0s", "use"] in [
        line[:8] for line in lines
    ]
    way = "1 ready pod without limit (containerConcurrency is 0), through the ClusterIP"
    assert f"Capacity   {way}" in shown(view(world, throttler))


def test_forecast_and_cold_starts_where_an_activator_tells_them(world):
    cold_start = {
        "began": "2026-01-02T03:04:05.678Z",
        "outcome": "served",
        "seconds": 1.5234,
        "requests": 3,
        "pod": POD,
        "phases": {"stat-sent": 0.001, "address": 0.8, "first-byte": 1.5234},
        "probeAheadSeconds": None,
    }
    under_way: dict[str, Any] = {"began": "2026-01-02T04:04:05.678Z", "outcome": None, "phases": {}}
    forecast = {"startSeconds": 1.2, "drainSecondsPerRequest": None, "expectedWaitSeconds": 2}
    answer = view(world, world.revision(), coldStarts=[under_way, cold_start], forecast=forecast)
    lines = shown(answer)
    assert "Forecast   a start takes about 1.2 s; a new request would wait about 2 s" in lines
    assert lines[-3:] == [
        "COLD-START                OUTCOME    SECONDS  REQUESTS  POD            PHASES",
        "2026-01-02T04:04:05.678Z  under-way  -        -         -",
        "2026-01-02T03:04:05.678Z  served     1.523    3         10.0.0.1:8012  stat-sent+0.001 "
        "address+0.800 first-byte+1.523",
    ]


def test_an_older_activator_tells_less(world):
    throttler = world.revision()
    world.healthy(throttler, POD)
    answer = view(world, throttler)
    for name in ("readinessRule", "loadBalancing", "hashKey", "capacityBreakdown", "clusterIP"):
        del answer[name]
    for name in ("decision", "decidedBy", "explanation", "probeStatus", "stateSecondsAgo"):
        del answer["pods"][0][name]
    lines = shown(answer)
    assert lines[-1].split() == [
        *(POD, "ready", "passed", "-", "0.0s", "healthy", "-", "-", "-", "0/2", "-")
    ]


def service(world, **changes):
    return world.revision(
        kind=RevisionKind.SERVICE, behind_queue_proxy=False, probe_why="Because.", **changes
    )


@pytest.mark.parametrize(
    ("probe", "text"),
    [
        (ProbeSpec(), "TCP connect"),
        (ProbeSpec(ProbeKind.HTTP, b"/up", tls=True), "GET /up over TLS"),
        (ProbeSpec(ProbeKind.HTTP, b"/", host=b"a.com"), "GET /, Host: a.com"),
        (ProbeSpec(ProbeKind.GRPC), "health check by gRPC"),
        (ProbeSpec(ProbeKind.GRPC, service=b"a.B"), "health check of a.B by gRPC"),
        (ProbeSpec(ProbeKind.NONE), "none"),
    ],
)
def test_a_service_has_its_probe_and_the_reason_for_it(world, probe, text):
    lines = shown(detail_view(world.driver, service(world, probe=probe)))
    assert lines[0].startswith("Service default/hello: no request waits")
    at = lines.index(f"Probe       {text}")
    assert lines[at + 1].strip() == "Because."


async def test_a_service_has_no_advice_of_knative(world):
    throttler = service(world)
    world.request(throttler)
    world.clock.now += 60.0
    text = "\n".join(shown(view(world, throttler)))
    assert "kubectl describe service -n default hello" in text
    assert "knative" not in text
    world.driver.delete_revision(throttler.revision.id)
    assert "Apply the Service again" in "\n".join(shown(view(world, throttler)))
    world.driver.close()


@pytest.mark.parametrize(
    ("protocol", "tls", "text"),
    [
        (AppProtocol.HTTP1, False, "HTTP/1.1"),
        (AppProtocol.H2C, False, "HTTP/2"),
        (AppProtocol.HTTP1, True, "HTTP/1.1 over TLS; certificates are not verified"),
        (
            AppProtocol.TCP,
            False,
            "TCP: bytes pass as they come; limits and load count connections",
        ),
    ],
)
def test_a_service_has_the_protocol_of_its_pods(world, protocol, tls, text):
    plain_service = service(world, protocol=protocol, tls=tls)
    lines = shown(detail_view(world.driver, plain_service))
    assert f"Protocol    {text}" in lines


async def test_a_tcp_service_has_connections(world):
    throttler = service(world, protocol=AppProtocol.TCP)
    assert shown(view(world, throttler))[0] == (
        "Service default/hello: no connection waits; a new one would wait"
    )
    route = ServiceRoute("2026-01-01", port=10_001, pods="hello-pods", is_tcp=True)
    world.driver.set_route(throttler.revision.id, route)
    world.request(throttler)
    failed = {"secondsAgo": 3.21, "status": 0, "reason": "no-endpoints", "detail": None}
    forecast = {"startSeconds": 1, "drainSecondsPerRequest": 2, "expectedWaitSeconds": 3}
    more = {"lastFailure": failed, "forecast": forecast}
    lines = shown(detail_view(world.driver, throttler) | more)
    assert lines[0] == "Service default/hello: 1 connection waits, no-endpoints"
    assert "Last failure  closed, no-endpoints, 3.2s ago" in lines
    assert "Port          10001" in lines
    assert (
        "Forecast      a start takes about 1 s; a connection leaves the queue about every 2 s; a "
        "new connection would wait about 3 s" in lines
    )
    world.request(throttler)
    assert shown(view(world, throttler))[0].startswith(
        "Service default/hello: 2 connections wait, "
    )
    world.driver.delete_revision(throttler.revision.id)
    answer = view(world, throttler) | {"queued": 0, "reason": None, "nextReason": None}
    text = "deleted; no connection waits, a new one would get no pod"
    assert shown(answer)[0] == f"Service default/hello: {text}"
    world.driver.close()


@pytest.mark.untraced
@pytest.mark.parametrize("field", ["reason", "nextReason", "lastFailure"])
@pytest.mark.parametrize("folder", [None, {"folder": "objects"}])
async def test_no_text_of_a_tcp_service_means_requests(world, field, folder):
    throttler = service(world, protocol=AppProtocol.TCP)
    world.pods(throttler, POD, not_ready=(OTHER,))
    world.request(throttler)
    cold_start: dict[str, object] = {
        "began": "1",
        "outcome": None,
        "seconds": None,
        "requests": 1,
        "phases": {},
    }
    found = detail_view(world.driver, throttler) | {
        "coldStarts": [cold_start],
        "forecast": {"drainSecondsPerRequest": 2, "expectedWaitSeconds": 3},
        "failures": {"queue-full": 2},
    }
    for row in TABLE:
        reason = row.reason.value
        if reason in ("bad-request", "denied", "not-authorized", "asleep"):
            continue  # nothing but HTTP has them
        failed = {"secondsAgo": 3.2, "status": 0, "reason": reason, "detail": None}
        given = {"lastFailure": failed} if field == "lastFailure" else {field: reason}
        for deleted in (False, True):
            answer = found | {"reason": None, "nextReason": None, "deleted": deleted} | given
            lines = [line for line in shown(answer, manifests=folder) if "kubectl" not in line]
            assert "connection" in lines[0]
            assert not [line for line in lines if re.search(r"\brequests?\b", line)], reason
    world.driver.close()


def test_a_service_has_its_hosts_and_its_port(world):
    route = {"hosts": [f"h{n}" for n in range(7)], "port": 10_000, "reconnect": True}
    lines = shown(view(world, service(world), route=route))
    assert "Hosts      h0, h1, h2, h3, h4 and 2 more" in lines
    assert "Port       10000, new connections reach the pods" in lines
    closed = {"kind": "Service", "namespace": "default", "name": "hello"}
    closed |= {"reason": "port-conflict", "warning": "cannot listen on 0.0.0.0:10000"}
    lines = shown(view(world, service(world), route=route, objectWarnings=[closed]))
    assert "Port       10000, where the activator does not listen: see Warnings" in lines
    assert (
        "Warnings   Service default/hello: port-conflict: cannot listen on 0.0.0.0:10000" in lines
    )


async def test_the_commands_about_pods_of_a_front_name_its_pods_service(world):
    throttler = service(world)
    world.pods(throttler, not_ready=(POD,))
    ticket = world.request(throttler)
    route = {"hosts": [], "port": 10_000, "reconnect": False, "podsService": "hello-pods"}
    lines = shown(view(world, throttler, route=route))
    assert any("kubernetes.io/service-name=hello-pods " in line for line in lines)
    throttler.cancel(ticket, world.clock.now)
    world.driver.close()


ROUTE: dict[str, Any] = {
    "object": "InterceptorRoute",
    "target": "hello:80",
    "readinessSeconds": 20.0,
    "staticRoutes": 2,
}


@pytest.mark.parametrize(
    ("changes", "lines"),
    [
        ({}, ["Limits         20 s of waiting, then 504", "300 s from a pod to its response"]),
        (
            {"fallback": True},
            ["Limits         20 s of waiting, then the request goes to the fallb"],
        ),
        ({"problem": "none"}, ["Limits         20 s of waiting, then 500"]),
        ({"readinessSeconds": None}, ["Limits         no limit for the wait"]),
        ({"maxPendingRequests": 3}, ["3 waiting requests, then 503"]),
        ({"maxPendingRequests": 3, "overflow": True}, ["3 waiting requests, then the placeholder"]),
        ({"requestSeconds": 9.0}, ["9 s for the whole request"]),
        ({"placeholderStatus": 503}, ["Placeholder    status 503 while no pod is usable"]),
    ],
)
def test_an_object_of_keda_has_its_target_and_its_limits(world, changes, lines):
    throttler = world.revision("web", kind=RevisionKind.HTTP_ROUTE, behind_queue_proxy=False)
    found = shown(view(world, throttler, interceptor=ROUTE | changes, waitSeconds=20.0))
    assert found[0].startswith("InterceptorRoute default/web: no request waits")
    for line in (
        "Target         hello:80",
        "Static routes  2; their requests start no pod",
        *lines,
    ):
        assert any(each.strip().startswith(line) for each in found), line
    assert not any(each.startswith("Wait ") for each in found), "its limits have it"


def test_a_fallback_is_shown_as_such(world):
    throttler = world.revision("web", kind=RevisionKind.FALLBACK, behind_queue_proxy=False)
    found = shown(view(world, throttler, interceptor=ROUTE))
    assert found[0].startswith("fallback of InterceptorRoute default/web: no request waits")


async def test_an_object_of_keda_has_its_own_advice(world):
    throttler = world.revision("web", kind=RevisionKind.HTTP_ROUTE, behind_queue_proxy=False)
    world.request(throttler)
    world.clock.now += 60.0
    route = {"hosts": [], "rules": [], "taken": {}, "podsService": "hello"}
    answer = view(world, throttler, interceptor=ROUTE, route=route)
    text = "\n".join(shown(answer))
    assert "kubectl get scaledobjects -n default" in text
    assert "Kubernetes lists no pod of this Service." in text
    assert "knative" not in text
    assert "Apply the object again" in "\n".join(shown(answer | {"deleted": True}))
    problem = {"kind": "InterceptorRoute", "namespace": "default", "name": "web"}
    problem |= {"reason": "no-such-service", "warning": "the Service hello is missing"}
    lines = shown(answer | {"objectWarnings": [problem]})
    assert "Reason         The Service hello is missing." in lines
    assert "What to do     Correct InterceptorRoute default/web, or what it names." in lines
    capacity = "\n".join(shown(answer | {"reason": "at-capacity"}))
    assert "kubectl describe service -n default hello" in capacity
    world.driver.close()


def test_the_rules_that_other_objects_have_are_named(world):
    throttler = world.revision("web", kind=RevisionKind.HTTP_ROUTE, behind_queue_proxy=False)
    route: Any = {"hosts": ["a.com"], "rules": ["a.com/api"], "podsService": "hello"}
    route["taken"] = {"b.com": "Service default/hello"}
    lines = shown(view(world, throttler, interceptor=ROUTE, route=route))
    assert "Rules          a.com/api" in lines
    assert "Not its own    b.com: Service default/hello has it" in lines


def test_problems_of_a_service_have_their_reason(world):
    problem = {"kind": "Service", "namespace": "default", "name": "hello"}
    problem |= {"reason": "host-conflict", "warning": "the host a.com belongs to another"}
    lines = shown(view(world, service(world), objectWarnings=[problem]))
    text = "Service default/hello: host-conflict: the host a.com belongs to another"
    assert f"Warnings   {text}" in lines


@pytest.mark.untraced
@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_can_be_shown_of_each_kind_from_each_source(world, reason):
    """Also with every owner, and beside every reason of the scaler."""
    rows = itertools.product(
        RevisionKind, ("", "/srv/{objects}"), ("reason", "nextReason"), (False, True)
    )
    for number, (kind, folder, field, deleted) in enumerate(rows):
        throttler = world.revision(f"r{number}", kind=kind)
        answer = view(world, throttler, queued=int(field == "reason"), deleted=deleted)
        activator = {"manifests": {"folder": folder}} if folder else {}
        text = "\n".join(shown(answer | {field: reason.value}, **activator))
        assert ROWS[reason].title(is_service=kind is not RevisionKind.REVISION) in text
        assert "{namespace}" not in text
        assert "{name}" not in text


def test_an_error_of_a_file_is_shown_once(world):
    """The warning about the object has its text already."""
    about = {"kind": "Service", "namespace": "default", "name": "hello", "reason": "invalid"}
    warnings = [about | {"warning": "idle-seconds: expected 60"}]
    errors = {
        "manifestErrors": {
            "/m/s.yaml": "line 1: Service default/hello: " + "idle-seconds: "
            "expected 60\nline 9: Service default/other: port"
        }
    }
    answer = view(world, service(world), objectWarnings=warnings)
    text = "\n".join(shown(answer, manifests={"folder": "/m"}, **errors))
    assert text.count("expected 60") == 1
    assert "/m/s.yaml: line 9: Service default/other: port" in text


@pytest.mark.untraced
@pytest.mark.parametrize("owner", list(Owner))
def test_every_reason_of_the_scaler_can_be_shown(world, owner):
    scaled = {"owner": owner.value, "replicas": {"present": 0, "ready": 0}, "phase": "asleep"}
    for word in ScaleReason:
        why = {"reason": word, "detail": reasons.text(word, "")}
        found = {"findings": [{"reason": word, "note": "Because."}]}
        for more in (why, found, why | found):
            part = explain_parts.ScalerFacts(
                tuple(explain_parts.facts(parse(json.dumps(scaled | more)))), word
            )
            answer = parse(json.dumps(view(world, service(world), nextReason="no-endpoints")))
            lines = plain(explain.page(answer, NOTHING, part)).splitlines()
            assert any(word in line for line in lines)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
FULL = World()
PODS = FULL.revision()
FULL.healthy(PODS, POD)
for _number in range(3):
    FULL.request(PODS)
EXTRA = {"forecast": {"startSeconds": 1}, "coldStarts": [{"phases": {"a": 1}, "seconds": 1}]}
ANSWER = view(FULL, PODS, **EXTRA)
FIELDS = sorted(ANSWER)
POD_FIELDS = sorted(ANSWER["pods"][0])


@pytest.mark.untraced
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # may be slow
@given(
    st.dictionaries(st.sampled_from(FIELDS), JSON),
    st.dictionaries(st.sampled_from(POD_FIELDS), JSON),
)
def test_any_value_in_any_field_gives_a_page_or_says_what_is_wrong(changes, pod_changes):
    pod = ANSWER["pods"][0] | pod_changes
    try:
        page = explain.page(parse(json.dumps(ANSWER | {"pods": [pod]} | changes)))
    except ValueError:
        return
    assert plain(page).isprintable() or all(line.isprintable() for line in plain(page).split("\n"))


@in_one_test("reason", [reason.value for reason in WAITING])
def test_each_reason_to_wait_is_explained(reason):
    lines = what_to_do(reason, "shop", "cart-00007")
    assert meaning(reason).endswith(".")
    assert page_of(reason) == f"activator reason {reason}"
    assert lines[-1].startswith("kubectl ")
    assert "{" not in "".join(lines)
    if not reason.endswith("scaler-unreachable"):
        assert "-n shop -l serving.knative.dev/revision=cart-00007" in lines[-1]


def test_pods_that_are_not_ready_are_shown_container_by_container():
    """`kubectl get pods` shows only READY 1/2, not which of the two is ready."""
    commands = [
        shlex.split(line)
        for line in what_to_do("pods-not-ready", "shop", "cart-00007")
        if line.startswith("kubectl ")
    ]
    *select, output, columns = commands[0]
    assert select == shlex.split(
        "kubectl get pods -n shop -l serving.knative.dev/revision=cart-00007"
    )
    assert output == "-o"
    named = dict(each.split(":") for each in columns.removeprefix("custom-columns=").split(","))
    assert named == {
        "POD": ".metadata.name",
        "IP": ".status.podIP",
        "CONTAINER": ".status.containerStatuses[*].name",
        "READY": ".status.containerStatuses[*].ready",
    }


@pytest.mark.parametrize(
    ("reason", "commands"),
    [
        ("no-endpoints", ["pods --field-selector=status.phase=Pending", "reason=FailedCreate"]),
        ("pods-not-ready", ["kubectl describe pods -n shop $("]),
        ("probe-failing", ["kubectl describe pods -n shop $("]),
        ("bad-answers", ["do kubectl logs -n shop $pod"]),
    ],
)
def test_the_advice_about_a_plain_service_shows_what_its_pods_lack(reason, commands):
    """The names of pods alone do not say why a pod does not start."""
    advice = "\n".join(what_to_do(reason, "shop", "cart", is_service=True))
    for command in commands:
        assert command.replace("pods --field", "pods -n shop --field") in advice
    assert ("kubernetes.io/service-name=cart" in advice) == ("$(" in advice)


def test_the_pods_of_a_front_are_those_of_its_pods_service():
    advice = what_to_do("pods-not-ready", "shop", "cart", pods="cart-pods", is_service=True)
    assert "kubernetes.io/service-name=cart-pods " in advice[-1]


def test_the_meaning_for_a_plain_service_names_no_revision() -> None:
    for row in TABLE:
        if row.reason is not Reason.AUTOSCALER_UNREACHABLE:  # of a Revision alone
            assert "revision" not in meaning(row.reason.value, is_service=True)


def test_names_cannot_add_to_the_command_that_is_shown():
    lines = what_to_do("no-endpoints", "a;b", "$(c)")
    assert "-n 'a;b' -l serving.knative.dev/revision='$(c)'" in lines[-1]


@in_one_test("reason", [reason.value for reason in WAITING])
def test_a_folder_in_place_of_a_cluster_has_no_kubectl(reason):
    advice = " ".join(what_to_do(reason, "shop", "cart-00007", "/srv/{objects}"))
    assert "kubectl" not in advice
    assert advice.endswith("/srv/{objects}") or reason.endswith("scaler-unreachable")


@in_one_test("reason", [reason.value for reason in WAITING])
def test_the_advice_for_a_plain_service_in_a_folder_has_no_object_of_knative(reason):
    advice = " ".join(what_to_do(reason, "shop", "cart", "/srv/objects", is_service=True))
    assert not re.search("Endpoints |notReadyAddresses|containerConcurrency|kubectl", advice)
    assert advice.endswith("/srv/objects") or reason.endswith("scaler-unreachable")


def test_a_word_of_a_newer_activator_is_shown_without_advice():
    assert meaning("never-heard-of") == ""
    assert what_to_do("never-heard-of", "a", "b") == []
