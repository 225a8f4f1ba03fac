from __future__ import annotations

from activator.records.source_status import (
    KindStatus,
    MissedEvents,
    SourceStatus,
    WatchCounters,
)
from activator.telemetry.staleness import source_metrics


def samples(source: SourceStatus | None) -> dict[tuple[str, str], float]:
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
    assert samples(None) == {}
