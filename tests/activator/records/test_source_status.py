from __future__ import annotations

from activator.records.source_status import KindStatus, SourceStatus, WatchCounters


def test_a_source_is_synced_once_all_its_kinds_are() -> None:
    pods, config = KindStatus(synced=False, watch=WatchCounters()), KindStatus()
    assert not SourceStatus("test", "test", {"Pod": pods, "ConfigMap": config}).synced
    assert SourceStatus("test", "test", {"ConfigMap": config}).synced


def test_only_kinds_with_a_watch_are_watched() -> None:
    pods, config = KindStatus(watch=WatchCounters()), KindStatus()
    assert SourceStatus("test", "test", {"Pod": pods, "ConfigMap": config}).watched == {"Pod": pods}
