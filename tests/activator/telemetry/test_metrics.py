"""Metrics of revisions, pods, probes and requests; clients cannot inflate their number."""

from __future__ import annotations

import random
import re
from math import inf
from types import SimpleNamespace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from activator.autoscaler.concurrency import Stat
from activator.records.cold_starts import ColdStartPhase
from activator.records.source_status import (
    NO_SOURCE,
    FilesStatus,
    KindStatus,
    MissedEvents,
    SourceStatus,
    WatchCounters,
)
from activator.runtime import Runtime
from activator.settings.config import load
from activator.telemetry.families import FAMILIES, HTTP_SCOPE, MetricKind
from activator.telemetry.metric_writers import CHUNK, PIECES
from activator.telemetry.metrics import Metrics
from tests.activator.telemetry.world import World, text_of
from throttler.model import (
    AdaptiveMode,
    AppProtocol,
    FlowKey,
    HashKey,
    MeshMode,
    Overflow,
    Policies,
    QueueOrder,
    RevisionID,
    RevisionKind,
)
from throttler.request_policies import RequestPolicies, WaitMode, WhileWaiting
from throttler.throttler import Limits
from throttler.ticket import NO_OWNER, Ticket

REVISION = {"k8s_namespace_name": "default", "kn_revision_name": "hello"}
SERVICE = REVISION | {"kn_service_name": "svc", "kn_configuration_name": "cfg"}


@pytest.fixture
def world():
    return World()


def scrape(world):
    """Return the samples: (name, labels) -> value. Fail where two samples are the same series."""
    found = {}
    for family in text_string_to_metric_families(text_of(world)):
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in found, f"{key} twice"
            found[key] = sample.value
    return found


def value(world, name, **labels):
    return scrape(world)[name, frozenset(labels.items())]


def with_everything(world):
    """Return a world with one of each series."""
    throttler = world.revision()
    world.healthy(throttler, "10.0.0.1:8012")
    counters = world.entry(throttler).counters
    counters.server_of((b"GET", 1, 200)).duration.observe(0.3)
    counters.client_of(("10.0.0.1:8012", b"GET", 1, 200)).duration.observe(0.2)
    counters.requeued("connect-failed")
    counters.cold_starts["served"] = 1
    world.links.autoscaler = SimpleNamespace(
        connected=True, ever_connected=True, connection_losses=4, age=lambda: 2.5
    )
    world.source = SourceStatus(
        kind="test",
        name="everywhere",
        kinds={"Revision": KindStatus(in_force=1, age=3.0, watch=WatchCounters())},
        files=FilesStatus("/m", age=4.0, changed_age=5.0),
        missed=MissedEvents({"drifted": 1}, {"Revision": 2}, {"Revision": 1}),
    )
    return throttler, counters


def test_requests_that_leave_the_zone_are_counted():
    world = World(zone="a")
    near, far = "10.0.0.1:8012", "10.0.0.2:8012"
    throttler = world.revision(concurrency=1)
    own, _ = world.healthy(throttler, near, far, zones={near: "a", far: "b"})
    assert world.request(throttler).pod is own
    name, labels = "activator_requests_outside_zone_total", {"kn_revision_name": "hello"}
    assert value(world, name, k8s_namespace_name="default", **labels) == 0
    world.request(throttler)
    assert value(world, name, k8s_namespace_name="default", **labels) == 1


def test_the_table_and_the_scrape_hold_the_same_metrics_with_the_same_types_and_labels():
    world = World(zone="a")
    with_everything(world)
    policies = Policies(sticky=HashKey(b"x-user"), adaptive=AdaptiveMode.ON)
    world.healthy(world.revision("limited", 0, policies=policies), "10.0.0.2:8012")
    order = QueueOrder(has_classes=True, fair_by=FlowKey())
    shared = world.revision("shared", policies=Policies(order=order))
    waiting = RequestPolicies(waiting=WhileWaiting((WaitMode.PAGE,)))
    paging = world.revision("paging", policies=Policies(requests=waiting))
    route = world.revision("route", kind=RevisionKind.HTTP_ROUTE)
    world.entry(route).counters.server_of((b"GET", 1, 200)).duration.observe(0.3)
    world.request(world.revision("sleeping"))
    world.request(shared)
    world.request(paging)
    seen = {}
    for family in text_string_to_metric_families(text_of(world)):
        name = family.name + "_total" * (family.type == "counter")
        if name.startswith(("process_", "python_")):
            continue
        # A revision that is none of Knative's has one more label there.
        samples = [one for one in family.samples if one.labels.get("kn_revision_name") != "route"]
        labels = {frozenset(set(sample.labels) - {"le"}) for sample in samples}
        assert len(labels) == 1, name
        seen[name] = (family.type, labels.pop(), family.documentation)
    assert seen == {
        family.name: (family.kind.value, frozenset(family.labels), family.meaning)
        for family in FAMILIES
    }


def test_queued_requests_are_counted_by_class_and_by_flow(world):
    order = QueueOrder(has_classes=True, fair_by=FlowKey())
    throttler = world.revision(policies=Policies(order=order))
    world.request(throttler)
    found = scrape(world)
    assert found["activator_queue_flows", frozenset(REVISION.items())] == 1
    counts = [
        found["activator_queued_requests_by_class", frozenset((REVISION | {"class": name}).items())]
        for name in ("high", "normal", "low")
    ]
    assert counts == [0, 1, 0]


def test_queued_requests_are_counted_by_what_their_clients_get_and_a_lease_has_its_time(world):
    waiting = RequestPolicies(waiting=WhileWaiting((WaitMode.PAGE,)))
    throttler = world.revision(policies=Policies(requests=waiting))
    for _ in range(3):
        world.request(throttler)
    entry = world.entry(throttler)
    entry.counters.waiting["page"] = 2
    entry.lease.keep(world.clock.now + 10, world.clock.now)
    entry.counters.early_heads = 4
    found = scrape(world)
    assert found["activator_early_heads_total", frozenset(REVISION.items())] == 4
    assert found["activator_wake_lease_seconds", frozenset(REVISION.items())] == 10
    counts = {
        mode: found[
            "activator_queued_requests_by_mode", frozenset((REVISION | {"mode": mode}).items())
        ]
        for mode in ("hold", "page", "heartbeat", "refuse")
    }
    assert counts == {"hold": 1, "page": 2, "heartbeat": 0, "refuse": 0}


def test_process_metrics_are_there(world):
    names = {name for name, _ in scrape(world)}
    assert {"process_resident_memory_bytes", "process_open_fds", "python_info"} <= names


def test_waiting_and_running_requests_and_the_room_for_them(world):
    throttler = world.revision(concurrency=2)
    world.healthy(throttler, "10.0.0.1:8012")
    for size in (0, 0, 100, 23):
        world.request(throttler, size)
    world.clock.now += 1.5
    found = scrape(world)
    revision = frozenset(REVISION.items())
    assert found["activator_queued_requests", revision] == 2  # deprecated alias, as the next one
    assert found["activator_active_requests", revision] == 2
    assert found["activator_oldest_waiter_seconds", revision] == 1.5
    assert found["activator_queue_bytes", revision] == 123
    assert found["activator_revision_capacity", revision] == 2


def test_waiting_requests_are_counted_by_reason(world):
    busy, idle = world.revision(concurrency=1), world.revision("idle")
    world.healthy(busy, "10.0.0.1:8012")
    world.healthy(idle, "10.0.0.2:8012")
    sleeping = world.revision("sleeping")
    world.driver.autoscaler_lost = lambda _kind: True
    for throttler in (busy, busy, busy, idle, sleeping):
        world.request(throttler)
    found = {
        (labels["kn_revision_name"], labels["reason"]): waiting
        for (name, pairs), waiting in scrape(world).items()
        if name == "activator_waiting_requests" and (labels := dict(pairs))
    }
    assert found == {("hello", "at-capacity"): 2, ("sleeping", "autoscaler-unreachable"): 1}


async def test_a_way_around_the_pods_is_seen(world):
    throttler = world.revision(concurrency=2)
    world.driver.set_service(throttler.revision.id, {AppProtocol.HTTP1: "10.96.0.5:80"})
    for pod in world.pods(throttler, "10.0.0.1:8012", "10.0.0.2:8012"):
        world.driver.probe_failed(pod, pod.epoch, "status 503", 503)
    assert value(world, "activator_cluster_ip_in_use", **REVISION) == 0
    world.driver.probe_passed(
        throttler.backends.service.tracker, throttler.backends.service.tracker.epoch
    )
    assert value(world, "activator_cluster_ip_in_use", **REVISION) == 1
    assert value(world, "activator_revision_capacity", **REVISION) == 4


def test_knatives_names_for_the_same(world):
    throttler = world.revision(concurrency=1)
    world.healthy(throttler, "10.0.0.1:8012")
    for _ in range(3):
        world.request(throttler)
    world.entry(throttler)
    world.history([Stat(throttler.revision.id, 0.25, 3)])
    scope = {"otel_scope_name": "knative.dev/serving/pkg/activator"}
    assert value(world, "kn_revision_request_queued", **REVISION, **scope) == 2
    assert value(world, "kn_revision_request_active", **REVISION, **scope) == 1
    assert value(world, "kn_revision_request_concurrency", **SERVICE, **scope) == 0.25


def test_without_a_limit_per_pod_the_capacity_is_infinite_and_without_pods_0(world):
    throttler = world.revision(concurrency=0)
    world.pods(throttler, "10.0.0.1:8012")
    assert value(world, "activator_revision_capacity", **REVISION) == 0
    world.healthy(throttler, "10.0.0.1:8012")
    assert value(world, "activator_revision_capacity", **REVISION) == inf


def test_pods_by_state(world):
    throttler = world.revision()
    world.healthy(throttler, "10.0.0.1:8012")
    world.request(throttler)
    world.pods(throttler, "10.0.0.2:8012", "10.0.0.3:8012")  # the first pod drains
    world.driver.probe_passed(
        next(p for p in throttler.backends.pods.values() if "0.2:" in p.address), 0
    )
    states = ("probing", "healthy", "draining")
    found = scrape(world)
    assert [
        found["activator_pods", frozenset((REVISION | {"state": state}).items())]
        for state in states
    ] == [1, 1, 1]


def test_a_revision_at_zero_without_requests_has_no_series(world):
    world.revision("idle")
    assert not [labels for _, labels in scrape(world) if ("kn_revision_name", "idle") in labels]


def test_server_histograms_have_knatives_labels_and_cumulative_buckets(world):
    counters = world.entry(world.revision()).counters
    record = counters.server_of((b"POST", 0, 503))
    for seconds in (0.004, 0.3, 99):
        record.duration.observe(seconds)
    record.request_size.observe(700)
    labels = SERVICE | {
        "http_request_method": "POST",
        "url_scheme": "http",
        "server_address": "hello.default",
        "network_protocol_name": "http",
        "network_protocol_version": "1.0",
        "http_response_status_code": "503",
        "otel_scope_name": HTTP_SCOPE,
    }
    found = scrape(world)

    def of(name, **more):
        return found[name, frozenset((labels | more).items())]

    duration = "http_server_request_duration_seconds"
    buckets = [of(f"{duration}_bucket", le=le) for le in ("0.005", "0.25", "0.5", "10", "+Inf")]
    assert buckets == [1, 1, 2, 2, 3]
    assert of(f"{duration}_count") == 3
    assert of(f"{duration}_sum") == pytest.approx(99.304)
    assert of("http_server_request_body_size_bytes_bucket", le="500") == 0
    assert of("http_server_request_body_size_bytes_bucket", le="750") == 1
    assert of("http_server_response_body_size_bytes_count") == 0


@pytest.mark.parametrize(
    ("address", "minor", "host", "port", "version"),
    [
        ("10.0.0.1:8012", 1, "10.0.0.1", "8012", "1.1"),
        ("[fd00::1]:8013", 2, "fd00::1", "8013", "2"),
    ],
)
def test_client_histograms_name_the_pod(world, address, minor, host, port, version):
    counters = world.entry(world.revision()).counters
    counters.client_of((address, b"GET", minor, 200)).duration.observe(0.1)
    labels = next(
        dict(labels)
        for name, labels in scrape(world)
        if name == "http_client_request_duration_seconds_count"
    )
    assert (labels["server_address"], labels["server_port"]) == (host, port)
    assert labels["network_protocol_version"] == version


def test_requests_that_pods_get_over_tls_have_its_scheme_and_the_port_that_was_dialled(world):
    throttler, counters = with_everything(world)
    world.driver.set_service(throttler.revision.id, {AppProtocol.HTTP1: "10.9.0.1:80"})
    world.driver.set_mesh(MeshMode.ENABLED, False)
    counters.client_of(("10.9.0.1:80", b"GET", 1, 200)).duration.observe(0.2)
    world.pools.tls = object()
    found = {
        (labels["url_scheme"], labels["server_address"], labels["server_port"])
        for name, labels in ((name, dict(pairs)) for name, pairs in scrape(world))
        if name == "http_client_request_duration_seconds_count"
    }
    assert found == {("https", "10.0.0.1", "8112"), ("https", "10.9.0.1", "443")}


def test_series_of_a_pod_that_is_gone_vanish(world):
    throttler = world.revision()
    world.pods(throttler, "10.0.0.1:8012")
    counters = world.entry(throttler).counters
    counters.client_of(("10.0.0.1:8012", b"GET", 1, 200)).duration.observe(0.1)
    assert "10.0.0.1" in text_of(world)
    world.pods(throttler)
    assert "10.0.0.1" not in text_of(world)


def test_series_of_a_deleted_revision_vanish(world):
    throttler, _ = with_everything(world)
    world.driver.delete_revision(throttler.revision.id)
    world.driver.set_endpoints(throttler.revision.id, {})
    assert "hello" not in text_of(world)


def test_waits_outcomes_and_requeues(world):
    counters = world.entry(world.revision()).counters
    counters.waits.observe(45)
    counters.outcomes["timed-out"] += 3
    counters.requeued("connect-failed")
    found = scrape(world)
    revision = frozenset(REVISION.items())
    wait = "activator_request_wait_seconds"
    assert found[f"{wait}_bucket", revision | {("le", "30")}] == 0
    assert found[f"{wait}_bucket", revision | {("le", "60")}] == 1
    assert found[f"{wait}_bucket", revision | {("le", "600")}] == 1
    assert found["activator_requests_total", revision | {("outcome", "timed-out")}] == 3
    assert found["activator_requests_total", revision | {("outcome", "served")}] == 0
    assert found["activator_requeues_total", revision | {("cause", "connect-failed")}] == 1


def test_what_is_counted_outside_any_revision(world):
    assert value(world, "activator_probes_total") == 7
    assert value(world, "activator_probe_failures_total", reason="timeout") == 2
    assert value(world, "activator_probes_in_flight") == 1
    assert value(world, "activator_upstream_connections") == 5
    assert value(world, "activator_upstream_idle_connections") == 3
    assert value(world, "activator_unknown_revision_requests_total") == 11
    assert value(world, "activator_bad_requests_total") == 13


def test_the_link_is_reachable_or_not_only_after_its_first_connection(world):
    peer = {"peer": "autoscaler", "otel_scope_name": "knative.dev/serving/pkg/activator"}
    names = {name for name, _ in scrape(world)}
    assert not {name for name in names if name.startswith("kn_activator_stats")}
    world.links.autoscaler = SimpleNamespace(
        connected=False, ever_connected=False, connection_losses=0, age=lambda: None
    )
    names = {name for name, _ in scrape(world)}
    assert "kn_activator_stats_conn_reachable" not in names
    assert value(world, "kn_activator_stats_conn_errors_total", **peer) == 0
    world.links.autoscaler = SimpleNamespace(
        connected=True, ever_connected=True, connection_losses=4, age=lambda: 2.5
    )
    assert value(world, "kn_activator_stats_conn_reachable", **peer) == 1
    world.links.autoscaler.connected = False
    assert value(world, "kn_activator_stats_conn_reachable", **peer) == 0
    assert value(world, "kn_activator_stats_conn_errors_total", **peer) == 4


def test_a_service_and_a_revision_of_one_name_have_series_of_their_own(world):
    with_everything(world)
    plain = world.revision(kind=RevisionKind.SERVICE, service="", configuration="")
    world.healthy(plain, "10.0.0.2:8080")
    counters = world.entry(plain).counters
    counters.server_of((b"GET", 1, 200)).duration.observe(0.3)
    world.request(plain)
    found = scrape(world)  # a sample that comes twice fails here
    of_both = [dict(labels) for name, labels in found if name == "activator_pods"]
    assert {each.get("kind", "") for each in of_both} == {"", "service"}
    with_kind = {name for name, labels in found if dict(labels).get("kind") == "service"}
    assert {"kn_revision_request_active", "http_server_request_duration_seconds_count"} < with_kind


def test_a_scaler_that_was_never_reached_is_not_reachable(world):
    world.links.scaler = SimpleNamespace(connected=False, ever_connected=False, connection_losses=0)
    peer = {"peer": "scaler", "otel_scope_name": "knative.dev/serving/pkg/activator"}
    assert value(world, "kn_activator_stats_conn_reachable", **peer) == 0


def test_each_autoscaler_is_a_peer_of_its_own(world):
    connected = {"connected": True, "ever_connected": True, "age": lambda: 2.5}
    world.links.autoscaler = SimpleNamespace(connection_losses=4, **connected)
    world.links.scaler = SimpleNamespace(connection_losses=7, **connected)
    scope = "knative.dev/serving/pkg/activator"
    for peer, losses in (("autoscaler", 4), ("scaler", 7)):
        labels = {"peer": peer, "otel_scope_name": scope}
        assert value(world, "kn_activator_stats_conn_reachable", **labels) == 1
        assert value(world, "kn_activator_stats_conn_errors_total", **labels) == losses


@pytest.mark.untraced
def test_thousands_of_made_up_methods_and_revisions_make_one_series(world):
    entry = world.entry(world.revision())
    chance = random.Random(1)
    entry.counters.server_of((b"BREW", 1, 200)).duration.observe(1)
    before = scrape(world)
    for _ in range(2_000):
        made_up = chance.randbytes(6).hex().encode()
        entry.counters.server_of((made_up, 1, 200)).duration.observe(0.25)
        with pytest.raises(Exception, match="not found"):
            world.driver.entries.find(b"default", made_up)
    after = scrape(world)
    assert set(after) == set(before)
    total = {
        v
        for (name, labels), v in after.items()
        if name == "http_server_request_duration_seconds_sum"
        and ("http_request_method", "_OTHER") in labels
    }
    assert total == {1 + 2_000 * 0.25}


@pytest.mark.untraced
@pytest.mark.parametrize(
    "name", ['quo"te', "back\\slash", "new\nline", 'all"\\\n"', "nul\0", "%s%d"]
)
def test_labels_from_outside_stay_in_their_quotes(world, name):
    counters = world.entry(world.revision(service=name, configuration="x")).counters
    counters.server_of((b"GET", 1, 200)).duration.observe(1)
    found = {dict(labels).get("kn_service_name") for _, labels in scrape(world)}
    assert found == {None, name}


def test_half_a_surrogate_pair_does_not_end_all_metrics(world):
    world.entry(world.revision(service="\ud800"))
    assert b'kn_service_name="?"' in text_of(world).encode()


@pytest.mark.untraced  # long when traced
def test_the_text_comes_in_small_chunks_that_the_world_may_change_between(world):
    # More than one chunk, so that several pieces have the list of revisions.
    for number in range(3 * PIECES):
        throttler = world.revision(f"r{number}")
        world.pods(throttler, f"10.0.{number >> 8}.{number & 255}:8012")
        world.entry(throttler).counters.server_of((b"GET", 1, 200))
    chunks = []
    for number, chunk in enumerate(Metrics(world).chunks()):
        chunks.append(chunk)
        if number < 100:
            world.driver.delete_revision(RevisionID("default", f"r{number}"))
            world.entry(world.revision(f"new{number}"))
    assert max(map(len, chunks)) < CHUNK + 8192
    text = b"".join(chunks).decode()
    types = [line for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(types) == len(set(types))
    # Each form of a line once: the parser takes seconds for 70,000 lines with other names.
    forms = dict.fromkeys(re.sub(r'"(r|new)\d+', '"r', line) for line in text.splitlines())
    list(text_string_to_metric_families("\n".join(forms)))


@pytest.mark.untraced
def test_a_cold_start_is_counted_by_revision_and_its_time_by_phase_for_all(world):
    throttler = world.revision()
    counts = world.entry(throttler).counters.cold_starts
    cold_starts = world.driver.cold_starts
    cold_start = cold_starts.join(throttler, counts, world.clock.now)
    world.clock.now += 2
    (pod,) = world.pods(throttler, not_ready=("10.0.0.1:8012",))
    world.clock.now += 0.5
    world.driver.probe_passed(pod, pod.epoch)
    cold_starts.responded(cold_start, world.clock.now, pod.endpoint, world.clock.now)
    world.clock.now += 0.75
    world.pods(throttler, "10.0.0.1:8012")
    assert value(world, "activator_cold_starts_total", **REVISION, outcome="served") == 1
    assert value(world, "activator_cold_start_seconds_sum") == 2.5
    assert value(world, "activator_cold_start_seconds_bucket", le="2.5") == 1
    assert value(world, "activator_probe_ahead_seconds_sum") == 0.75
    sums = [
        value(world, "activator_cold_start_phase_seconds_sum", phase=p.value)
        for p in ColdStartPhase
    ]
    assert sums == [0, 2, 0, 0.5, 0, 0]
    seen = [
        value(world, "activator_cold_start_phase_seconds_count", phase=p.value)
        for p in ColdStartPhase
    ]
    assert seen == [0, 1, 0, 1, 1, 1]


def test_old_names_of_cold_starts_have_the_values_of_the_new_ones(world):
    with_everything(world)
    world.driver.cold_starts.seconds.observe(2.5)
    world.driver.cold_starts.phase_seconds[ColdStartPhase.PROBE].observe(0.5)
    found = scrape(world)
    names = (("wake_ups", "cold_starts"), ("wake_up", "cold_start"))
    for old, new in names:
        of_old = {
            (name.replace(old, new), labels): number
            for (name, labels), number in found.items()
            if name.startswith(f"activator_{old}_")
        }
        assert of_old
        of_new = {key: n for key, n in found.items() if key[0].startswith(f"activator_{new}_")}
        assert of_old == of_new
    helps = {family.name: family.meaning for family in FAMILIES}
    assert helps["activator_wake_ups_total"] == "Deprecated alias of activator_cold_starts_total."


def test_names_follow_prometheus_rules():
    for family in FAMILIES:
        assert family.name.endswith("_total") == (family.kind is MetricKind.COUNTER)
        if not family.name.startswith("interceptor_"):  # the names of KEDA's HTTP add-on
            assert not family.name.endswith(("_count", "_sum", "_bucket", "_info_total"))
        assert not any(
            word in family.name for word in ("gauge", "counter", "histogram", "_ms", "milli")
        )
        assert family.meaning.endswith(".")
    assert len({family.name for family in FAMILIES}) == len(FAMILIES)


def test_the_total_of_queue_bytes_is_what_counts_against_the_budget():
    world = World(Limits())
    for throttler in [world.revision("a"), world.revision("b")]:
        world.request(throttler, 50)
    found = scrape(world)
    total = sum(v for (name, _), v in found.items() if name == "activator_queue_bytes")
    assert total == world.driver.throttler.total.bytes == 100


def test_wrong_keys_and_the_request_log_are_counted(world):
    assert value(world, "activator_config_errors", config_map="config-network") == 29
    expiry = "activator_certificate_expiry_timestamp_seconds"
    assert value(world, expiry, listener="https") == 1_800_000_000
    totals = [value(world, f"activator_request_log_{name}_total") for name in ("lines", "failures")]
    assert totals == [31, 37]
    assert value(world, "activator_log_lines_dropped_total", sink="stdout") == 41
    assert value(world, "activator_log_lines_dropped_total", sink="stderr") == 43


@pytest.mark.untraced
def test_what_self_checks_found_and_how_old_all_is(world):
    with_everything(world)
    assert value(world, "activator_self_checks_total", result="drifted") == 1
    assert value(world, "activator_drift_total", kind="Revision") == 2
    assert value(world, "activator_drifted_objects", kind="Revision") == 1
    assert value(world, "activator_manifests_age_seconds") == 4
    assert value(world, "activator_autoscaler_link_age_seconds") == 2.5
    world.links.autoscaler.age = lambda: None
    world.source = NO_SOURCE
    names = {name for name, _ in scrape(world)}
    assert not names & {"activator_manifests_age_seconds", "activator_autoscaler_link_age_seconds"}


def test_free_pods_that_no_waiting_request_may_use_have_no_room(world):
    """Otherwise the alert about a queue beside free pods would fire for sticky requests."""
    policies = Policies(sticky=HashKey(b"x-user"), sticky_overflow=Overflow.WAIT)
    throttler = world.revision(concurrency=1, policies=policies)
    world.healthy(throttler, "10.0.0.1:8012", "10.0.0.2:8012")
    room = "activator_pods_with_room", frozenset(REVISION.items())
    for waiting, free in ((0, 1), (1, 0)):
        ticket = Ticket(NO_OWNER, 1e9)
        ticket.key = b"anna"
        throttler.admit(ticket, world.clock.now)
        assert throttler.queued.waiting == waiting
        assert scrape(world)[room] == free


def test_a_real_activator_exports_every_metric_of_the_table(tmp_path):
    environ = {"ACTIVATOR_AUTOSCALER_URL": "ws://127.0.0.1:1", "POD_NAME": "activator-7"}
    runtime = Runtime(load("local", {"manifests": str(tmp_path)}, environ))
    text = b"".join(runtime.metrics()).decode()
    found = {family.name: family for family in text_string_to_metric_families(text)}
    expected = {family.name.removesuffix("_total") for family in FAMILIES}
    # Reachable exists only after the first connection.
    assert expected - set(found) == {"kn_activator_stats_conn_reachable"}
    (info,) = found["target_info"].samples
    assert info.labels["service_name"] == "activator"
    assert info.labels["k8s_pod_name"] == "activator-7"


@pytest.mark.untraced
def test_objects_of_the_add_on_have_its_metrics_by_its_names(world):
    route = world.revision("web", kind=RevisionKind.HTTP_ROUTE)
    world.revision("other")
    entry = world.entry(route)
    for key, seconds in (((b"GET", 1, 200), 0.3), ((b"GET", 2, 200), 4), ((b"PURGE", 1, 503), 9)):
        entry.counters.server_of(key).observe(seconds, 0, 0)
    entry.counters.outcomes["queue-full"] += 2
    entry.load.request_began(world.clock.now)
    names = {"route_name": "web", "route_namespace": "default"}
    assert value(world, "interceptor_request_concurrency", **names) == 1
    assert value(world, "interceptor_pending_request_count", host="default/web") == 1
    assert value(world, "interceptor_cold_start_rejections_total", **names) == 2
    ok = names | {"code": "200", "method": "GET"}
    assert value(world, "interceptor_request_count_total", **ok) == 2, "of both versions of HTTP"
    assert value(world, "interceptor_request_duration_seconds_sum", **ok) == 4.3
    assert value(world, "interceptor_request_duration_seconds_bucket", le="0.5", **ok) == 1
    failed = names | {"code": "503", "method": "_OTHER"}
    assert value(world, "interceptor_request_count_total", **failed) == 1
    unknown = {"code": "404", "method": "_OTHER", "route_name": "", "route_namespace": ""}
    assert value(world, "interceptor_request_count_total", **unknown) == 11
