from __future__ import annotations

import pytest

from activator.lab.control_plane import store as module
from activator.lab.control_plane.resources import SERVICES
from activator.lab.control_plane.status import ApiError
from activator.lab.control_plane.store import ObjectStore
from tests.activator.lab.control_plane.world import service


def test_stored_objects_are_separate_from_those_of_callers():
    store, found = ObjectStore(), service()
    returned = store.put(SERVICES, found)
    found["spec"] = returned["spec"] = None
    read = store.get(SERVICES, "shop", "web")
    assert read is not None
    read["spec"]["ports"] = None
    kept = store.get(SERVICES, "shop", "web")
    assert kept is not None
    assert kept["spec"]["ports"]


def test_each_change_has_a_version_of_its_own():
    store = ObjectStore()
    first = store.put(SERVICES, service())["metadata"]["resourceVersion"]
    second = store.put(SERVICES, service())["metadata"]["resourceVersion"]
    third = store.delete(SERVICES, "shop", "web")["metadata"]["resourceVersion"]
    assert int(first) < int(second) < int(third) == store.version
    assert [change.version for change in store.since(int(first))] == [int(second), int(third)]


def test_old_versions_are_compacted(monkeypatch):
    monkeypatch.setattr(module, "HISTORY", 3)
    store = ObjectStore()
    for _ in range(5):
        store.put(SERVICES, service())
    assert len(store.since(store.oldest)) == 3
    with pytest.raises(ApiError, match="too old resource version"):
        store.since(store.oldest - 1)
