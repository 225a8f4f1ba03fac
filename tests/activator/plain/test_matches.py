"""The workloads behind a Service, through changes of both in any order."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from activator.objects.fields import ObjectKey
from activator.plain.annotations import ScaleTarget
from activator.plain.matches import Matches, known_target
from activator.plain.workloads import Workload, matches

LABELS: tuple[dict[str, str], ...] = (
    {"app": "a"},
    {"app": "a", "tier": "x"},
    {"app": "b", "tier": "x"},
    {"tier": "x"},
    {},
)


def workload(name: str, labels: Any, namespace: str = "shop") -> Workload:
    return Workload(ObjectKey("Deployment", namespace, name), "", 0, labels, ())


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (ScaleTarget("", "", "deployment", "w"), ObjectKey("Deployment", "shop", "w")),
        (ScaleTarget("apps", "v1", "StatefulSet", "w"), ObjectKey("StatefulSet", "shop", "w")),
        (ScaleTarget("argoproj.io", "v1alpha1", "Rollout", "w"), None),
        (ScaleTarget("example.org", "v1", "Deployment", "w"), None),
        (ScaleTarget("", "", "Job", "w"), None),
    ],
)
def test_the_target_that_an_annotation_names(
    target: ScaleTarget, expected: ObjectKey | None
) -> None:
    assert known_target(target, "shop") == expected


@pytest.mark.parametrize("seed", range(12))
def test_any_order_of_changes_finds_what_a_search_of_all_finds(seed: int) -> None:
    chance = Random(seed)
    index: Matches[str] = Matches()
    services: dict[str, tuple[str, Any, ObjectKey | None]] = {}
    workloads: dict[ObjectKey, Workload] = {}

    def expected(name: str) -> list[Workload]:
        namespace, selector, target = services[name]
        if target is not None:
            return [workloads[target]] if target in workloads else []
        found = [
            each
            for key, each in workloads.items()
            if key.namespace == namespace and matches(selector, each)
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
                wish = (chance.choice(("shop", "other")), chance.choice(LABELS), named)
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
                concerned = set(index.put(each.key, each))
        for name in services:
            assert index.find(name) == expected(name)
            if before.get(name, expected(name)) != expected(name):
                assert name in concerned
    for name in list(services):
        index.unfollow(name)
    for key in workloads:
        index.put(key, None)
    assert not any(vars(index).values())  # nothing is left


def test_a_label_that_all_share_does_not_make_a_change_concern_all() -> None:
    index: Matches[int] = Matches()
    for number in range(100):
        index.follow(number, "shop", {"part-of": "shop", "app": str(number)}, None)
    changed = workload("w", {"part-of": "shop", "app": "7"})
    assert list(index.put(changed.key, changed)) == [7]
    assert index.find(7) == [changed]
    assert max(map(len, index._selecting.values())) < 3
