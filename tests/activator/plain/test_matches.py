"""The workloads behind a Service, through changes of both in any order."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from activator.objects.fields import ObjectKey
from activator.plain.annotations import NamedTarget
from activator.plain.workloads import Groups, Index, Matches, PlainWorkload, known_target
from tests.rows import in_one_test

LABELS: tuple[dict[str, str], ...] = (
    {"app": "a"},
    {"app": "a", "tier": "x"},
    {"app": "b", "tier": "x"},
    {"tier": "x"},
    {},
)


def workload(name: str, labels: Any, namespace: str = "shop") -> PlainWorkload:
    return PlainWorkload(ObjectKey("Deployment", namespace, name), "", 0, labels, ())


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (NamedTarget("", "", "deployment", "w"), ObjectKey("Deployment", "shop", "w")),
        (NamedTarget("apps", "v1", "StatefulSet", "w"), ObjectKey("StatefulSet", "shop", "w")),
        (NamedTarget("argoproj.io", "v1alpha1", "Rollout", "w"), None),
        (NamedTarget("example.org", "v1", "Deployment", "w"), None),
        (NamedTarget("", "", "Job", "w"), None),
    ],
)
def test_the_target_that_an_annotation_names(
    target: NamedTarget, expected: ObjectKey | None
) -> None:
    assert known_target(target, "shop") == expected


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ({"app": "hello"}, True),
        ({"app": "hello", "tier": "web"}, True),
        ({"app": "hello", "tier": "db"}, False),
        ({"zone": ""}, False),
        ({}, False),
    ],
)
def test_a_selector_matches_the_labels_of_the_template(selector: Any, expected: bool) -> None:
    index: Matches[str, PlainWorkload] = Matches()
    found = workload("w", {"app": "hello", "tier": "web"})
    index.put(found.key, found, found.labels)
    assert index.find("shop", tuple(selector.items()), None) == ([found] if expected else [])


@in_one_test("seed", range(12))
def test_any_order_of_changes_finds_what_a_search_of_all_finds(seed: int) -> None:
    chance = Random(seed)
    index: Matches[str, PlainWorkload] = Matches()
    services: dict[str, tuple[str, Any, ObjectKey | None]] = {}
    workloads: dict[ObjectKey, PlainWorkload] = {}

    def expected(name: str) -> list[PlainWorkload]:
        namespace, selector, target = services[name]
        if target is not None:
            return [workloads[target]] if target in workloads else []
        found = [
            each
            for key, each in workloads.items()
            if key.namespace == namespace and selector and {*selector} <= each.labels.items()
        ]
        return sorted(found, key=lambda each: each.key)

    for _ in range(80):
        before = {name: expected(name) for name in services}
        concerned = set()
        if chance.random() < 0.5:
            name = chance.choice("stu")
            services.pop(name, None)
            index.unfollow(name)
            if chance.random() < 0.7:
                target = ObjectKey("Deployment", "shop", chance.choice("vw"))
                named = target if chance.random() < 0.3 else None
                selector = tuple(chance.choice(LABELS).items())
                wish = (chance.choice(("shop", "other")), selector, named)
                services[name] = wish
                index.follow(name, *wish)
            before.pop(name, None)
        else:
            each = workload(chance.choice("vwx"), chance.choice(LABELS))
            if chance.random() < 0.3:
                workloads.pop(each.key, None)
                concerned = set(index.put(each.key, None))
            else:
                workloads[each.key] = each
                concerned = set(index.put(each.key, each, each.labels))
        for name in services:
            assert index.find(*services[name]) == expected(name)
            if before.get(name, expected(name)) != expected(name):
                assert name in concerned
    for name in list(services):
        index.unfollow(name)
    for key in workloads:
        index.put(key, None)
    assert not any(vars(index).values())  # nothing is left


def test_a_label_that_all_share_does_not_make_a_change_concern_all() -> None:
    index: Matches[int, PlainWorkload] = Matches()
    for number in range(100):
        index.follow(number, "shop", (("part-of", "shop"), ("app", str(number))), None)
    changed = workload("w", {"part-of": "shop", "app": "7"})
    assert {7} <= set(index.put(changed.key, changed, changed.labels)) <= {0, 7}
    assert list(index.put(changed.key, changed, changed.labels)) == []
    assert index.find("shop", (("app", "7"),), None) == [changed]


def test_a_key_has_no_value_one_or_several() -> None:
    index = Index[str, int]()
    assert list(index.get("a")) == []
    index.add("a", 1)
    index.add("a", 1)
    assert list(index.get("a")) == [1]
    index.add("a", 2)
    index.add("b", 3)
    assert list(index.get("a")) == [1, 2]
    assert list(index.get("b")) == [3]


def test_values_are_removed_one_by_one() -> None:
    index = Index[str, int]()
    for value in (1, 2, 3):
        index.add("a", value)
    for value, left in ((2, [1, 3]), (9, [1, 3]), (1, [3]), (1, [3]), (3, []), (3, [])):
        index.discard("a", value)
        assert list(index.get("a")) == left
    index.add("a", 0)
    assert list(index.get("a")) == [0]


def test_groups_report_each_group_that_has_changed() -> None:
    groups: Groups[str, int, str] = Groups()
    assert list(groups.put("a", "x", 1)) == ["x"]
    assert list(groups.put("a", "x", 1)) == []
    assert list(groups.put("a", "x", 2)) == ["x"]
    groups.put("b", "x", 3)
    assert groups.of("x") == [("a", 2), ("b", 3)]
    assert list(groups.put("a", "y", 2)) == ["x", "y"]
    assert (groups.of("x"), groups.of("y")) == ([("b", 3)], [("a", 2)])
    assert list(groups.remove("a")) == ["y"]
    assert list(groups.remove("a")) == []
    assert groups.of("y") == []
