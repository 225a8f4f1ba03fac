from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from activator.telemetry.staleness import knowledge


def samples(*arguments: Any) -> dict[tuple[str, str], float]:
    return {
        (family.name, kind): value
        for family, values in knowledge(*arguments)
        for kind, value in values.items()
    }


def test_objects_and_watches_are_told_by_kind() -> None:
    objects = SimpleNamespace(counts={"Revision": 5, "Secret": 0}, rejected={"Revision": 2})
    counters = {"Revision": SimpleNamespace(failures=3)}
    watch = SimpleNamespace(counters=counters, ages=lambda now: {"Revision": now - 100})
    assert samples(objects, watch, 160.0) == {
        ("activator_objects", "Revision"): 5,
        ("activator_objects", "Secret"): 0,
        ("activator_rejected_objects", "Revision"): 2,
        ("activator_watch_failures_total", "Revision"): 3,
        ("activator_watch_age_seconds", "Revision"): 60,
    }


def test_without_a_cluster_nothing_is_said_of_watches() -> None:
    objects = SimpleNamespace(counts={"Revision": 5}, rejected={"Revision": 0})
    assert {name for name, _ in samples(objects, None, 0.0)} == {
        "activator_objects",
        "activator_rejected_objects",
    }
    assert samples(None, None, 0.0) == {}
