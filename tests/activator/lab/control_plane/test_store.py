"""Kinds, selectors, and stored objects."""

from __future__ import annotations

import pytest

from activator.lab.control_plane import store as module
from activator.lab.control_plane.api import (
    BUILT_IN,
    DEPLOYMENTS,
    NODES,
    SCALED_OBJECTS,
    SERVICES,
    ApiError,
    ApiKinds,
    ApiPath,
)
from activator.lab.control_plane.store import PlaneStore, matches, selector
from tests.activator.lab.control_plane.world import service
from tests.control_plane.client import path_of
from tests.rows import naming


def test_path_leads_to_its_place_and_back():
    known = ApiKinds(BUILT_IN)
    for place in (
        ApiPath(SERVICES),
        ApiPath(SERVICES, "shop"),
        ApiPath(SERVICES, "shop", "web"),
        ApiPath(DEPLOYMENTS, "shop", "w", "scale"),
        ApiPath(NODES, "", "n"),
    ):
        with naming(place):
            assert known.find(path_of(*place)) == place


def test_path_that_leads_nowhere():
    known = ApiKinds(BUILT_IN)
    for path in ("/", "/api", "/apis/apps", "/api/v1/namespaces/a/nodes/n", "/api/v1/pods/a/b/c"):
        with naming(path):
            assert known.find(path) is None


async def test_plural_is_found_by_discovery(world):
    found = await world.send("GET", "/apis/apps/v1")
    kinds = {each["name"]: each["kind"] for each in found["resources"]}
    assert kinds["deployments"] == "Deployment"
    assert kinds["deployments/scale"] == "Scale"
    short = {each["name"]: each.get("shortNames") for each in found["resources"]}
    assert (short["deployments"], short["deployments/scale"]) == (["deploy"], None)
    assert found["groupVersion"] == "apps/v1"
    core = await world.send("GET", "/api/v1")
    assert "services/scale" not in {each["name"] for each in core["resources"]}


async def test_groups_come_and_go_with_their_kinds(world):
    async def groups() -> set[str]:
        return {group["name"] for group in (await world.send("GET", "/apis"))["groups"]}

    assert {"apps", "keda.sh"} <= await groups()
    assert (await world.send("GET", "/apis/keda.sh"))["preferredVersion"]["version"] == "v1alpha1"
    world.plane.resources.remove(SCALED_OBJECTS)
    assert "keda.sh" not in await groups()
    assert await world.try_("GET", "/apis/keda.sh/v1alpha1") == (404, "404 page not found\n")


async def test_version_and_health(world):
    assert (await world.send("GET", "/version"))["gitVersion"].startswith("v1.")
    assert await world.try_("GET", "/readyz") == (200, "ok")


FOUND = {"metadata": {"name": "n", "namespace": "s", "labels": {"a": "1", "b": "2"}}}


def test_terms_select_by_labels():
    for text, wanted in (
        ("", True),
        ("a=1", True),
        ("a==1,b=2", True),
        ("a=2", False),
        ("a!=2", True),
        ("c!=2", True),
        ("a", True),
        ("c", False),
        ("!c", True),
        ("!a", False),
        ("a in (1, 3),b", True),
        ("a notin (1,3)", False),
        ("c notin (1)", True),
    ):
        with naming(text):
            assert selector({"labelSelector": text})(FOUND) is wanted


def test_terms_select_by_name_and_namespace():
    for text, wanted in (
        ("metadata.name=n", True),
        ("metadata.name!=n", False),
        ("metadata.name=n,metadata.namespace==t", False),
    ):
        with naming(text):
            assert selector({"fieldSelector": text})(FOUND) is wanted
    with pytest.raises(ApiError, match="field label not supported"):
        selector({"fieldSelector": "spec.other=1"})


def test_all_labels_of_a_selector_must_match():
    assert matches({"a": "1"}, FOUND)
    assert not matches({"a": "1", "c": "3"}, FOUND)
    assert not matches({"a": "1"}, {"metadata": {}})


def test_stored_objects_are_separate_from_those_of_callers():
    store, found = PlaneStore(), service()
    returned = store.put(SERVICES, found)
    found["spec"] = returned["spec"] = None
    read = store.get(SERVICES, "shop", "web")
    assert read is not None
    read["spec"]["ports"] = None
    kept = store.get(SERVICES, "shop", "web")
    assert kept is not None
    assert kept["spec"]["ports"]


def test_each_change_has_a_version_of_its_own():
    store = PlaneStore()
    first = store.put(SERVICES, service())["metadata"]["resourceVersion"]
    second = store.put(SERVICES, service())["metadata"]["resourceVersion"]
    third = store.delete(SERVICES, "shop", "web")["metadata"]["resourceVersion"]
    assert int(first) < int(second) < int(third) == store.version
    assert [change.version for change in store.since(int(first))] == [int(second), int(third)]


def test_old_versions_are_compacted(monkeypatch):
    monkeypatch.setattr(module, "HISTORY", 3)
    store = PlaneStore()
    for _ in range(5):
        store.put(SERVICES, service())
    assert len(store.since(store.oldest)) == 3
    with pytest.raises(ApiError, match="too old resource version"):
        store.since(store.oldest - 1)
