"""The metrics of the activator as a whole."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from activator.records.counters import LAG_BOUNDS
from activator.records.source_status import (
    NO_SOURCE,
    KindStatus,
    MissedEvents,
    SourceStatus,
    WatchCounters,
)
from activator.telemetry.collection import source_metrics
from tests.activator.telemetry.world import World, text_of
from throttler.throttler import Limits


def values(world: World) -> dict[tuple[str, str], float]:
    """Return the samples by name and the value of their only label."""
    text = text_of(world)
    return {
        (sample.name, "".join(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_readiness_and_the_end_are_seen() -> None:
    world = World()
    assert values(world)["activator_ready", ""] == 1
    assert values(world)["activator_draining", ""] == 0
    world.not_ready = "connection has not yet been established"
    world.proxy.services.draining = True
    assert values(world)["activator_ready", ""] == 0
    assert values(world)["activator_draining", ""] == 1


def test_limits_are_those_of_the_settings() -> None:
    limits = Limits(queue_depth=3, queue_bytes=50, queue_depth_total=7, queue_bytes_total=110)
    found = values(World(limits))
    assert found["activator_queued_requests_limit", "revision"] == 3
    assert found["activator_queued_requests_limit", "all"] == 7
    assert found["activator_queue_bytes_limit", "revision"] == 50
    assert found["activator_queue_bytes_limit", "all"] == 110
    assert found["activator_unfinished_header_bytes_limit", ""] == 47
    assert found["activator_unfinished_header_bytes", ""] == 43
    assert found["activator_traffic_files_limit", ""] == 144


def test_files_of_traffic_are_counted_by_use() -> None:
    found = values(World())
    assert found["activator_traffic_files", "clients"] == 71
    assert found["activator_traffic_files", "pods"] == 73
    assert found["activator_traffic_files_waiting", ""] == 79
    assert found["activator_turned_away_clients_total", ""] == 83


def test_unread_bytes_have_a_gauge_a_limit_and_a_counter_by_side() -> None:
    found = values(World())
    assert found["activator_unread_bytes", ""] == 53
    assert found["activator_unread_bytes_limit", ""] == 59
    assert found["activator_unread_ended_total", "client"] == 61
    assert found["activator_unread_ended_total", "pod"] == 67


def test_the_lag_of_the_loop_is_a_histogram() -> None:
    world = World()
    world.observers.loop_lag.seconds.observe(LAG_BOUNDS[1])
    found = values(world)
    assert found["activator_event_loop_lag_seconds_bucket", f"{LAG_BOUNDS[0]:g}"] == 0
    assert found["activator_event_loop_lag_seconds_bucket", f"{LAG_BOUNDS[1]:g}"] == 1


def test_pauses_of_the_collector_are_a_histogram() -> None:
    world = World()
    world.observers.pauses.observe(LAG_BOUNDS[1])
    found = values(world)
    assert found["activator_gc_pause_seconds_bucket", f"{LAG_BOUNDS[0]:g}"] == 0
    assert found["activator_gc_pause_seconds_bucket", f"{LAG_BOUNDS[1]:g}"] == 1


def samples(source: SourceStatus) -> dict[tuple[str, str], float]:
    return {
        (family.name, word): value
        for family, _, values in source_metrics(source)
        for word, value in values.items()
    }


def test_objects_and_watches_have_metrics_by_kind() -> None:
    revisions = KindStatus(5, rejected=2, age=60.0, watch=WatchCounters(failures=3))
    optional = KindStatus(synced=False, watch=WatchCounters(failures=1))
    kinds = {"Revision": revisions, "EndpointSlice": optional, "Secret": KindStatus()}
    missed = MissedEvents({"drifted": 1}, {"Revision": 2}, {"Revision": 1})
    assert samples(SourceStatus("test", "test", kinds, missed=missed)) == {
        ("activator_objects", "Revision"): 5,
        ("activator_objects", "EndpointSlice"): 0,
        ("activator_objects", "Secret"): 0,
        ("activator_rejected_objects", "Revision"): 2,
        ("activator_rejected_objects", "EndpointSlice"): 0,
        ("activator_rejected_objects", "Secret"): 0,
        ("activator_watch_failures_total", "Revision"): 3,
        ("activator_watch_failures_total", "EndpointSlice"): 1,
        ("activator_watch_age_seconds", "Revision"): 60,
        ("activator_self_checks_total", "drifted"): 1,
        ("activator_drift_total", "Revision"): 2,
        ("activator_drifted_objects", "Revision"): 1,
    }


def test_a_source_without_watches_has_no_metrics_of_them() -> None:
    assert {
        name for name, _ in samples(SourceStatus("test", "test", {"Revision": KindStatus(5)}))
    } == {
        "activator_objects",
        "activator_rejected_objects",
    }
    assert samples(NO_SOURCE) == {}
