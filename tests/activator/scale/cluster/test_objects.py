from __future__ import annotations

from typing import Any

from activator.discovery.object_warnings import Effect, Rejection
from activator.objects.fields import ObjectKey, root
from activator.scale.cluster.objects import Objects

KIND = "Deployment"


class Names:
    """A view that records the value of each object."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}

    def put(self, key: ObjectKey, obj: object) -> None:
        self.values[key.name] = root(obj, key.kind)["value"].text()

    def remove(self, key: ObjectKey) -> None:
        self.values.pop(key.name, None)


def deployment(name: str = "a", version: int = 1, value: Any = "x", uid: str = "u") -> Any:
    metadata = {"name": name, "namespace": "shop", "resourceVersion": str(version), "uid": uid}
    return {"kind": KIND, "metadata": metadata, "value": value}


class World:
    """Objects with one view."""

    def __init__(self) -> None:
        self.view = Names()
        self.rejections: list[Rejection] = []
        self.objects = Objects({KIND: [self.view]}, self.rejections.append)

    def replace(self, *objects: Any) -> None:
        for _ in self.objects.replacing(KIND, objects):
            pass


def test_an_object_is_added_changed_and_removed() -> None:
    world = World()
    world.objects.apply(deployment(value="x"))
    world.objects.apply(deployment(version=2, value="y"))
    assert world.view.values == {"a": "y"}
    assert world.objects.counts == {KIND: 1}
    world.objects.remove(KIND, "shop", "a", "u")
    world.objects.remove(KIND, "shop", "a", "u")
    assert world.view.values == {}
    assert world.objects.counts == {KIND: 0}


def test_an_outdated_event_is_ignored() -> None:
    world = World()
    world.objects.apply(deployment(version=10, value="new"))
    world.objects.apply(deployment(version=9, value="old"))
    assert world.view.values == {"a": "new"}
    world.objects.remove(KIND, "shop", "a", uid="another object")
    assert world.view.values == {"a": "new"}


def test_a_list_removes_all_others_and_may_be_older() -> None:
    world = World()
    world.objects.apply(deployment("a", version=10, value="new"))
    world.objects.apply(deployment("b", version=11))
    world.replace(deployment("a", version=5, value="restored"), deployment("c"))
    assert world.view.values == {"a": "restored", "c": "x"}
    assert world.objects.counts == {KIND: 2}


def test_a_broken_object_keeps_its_last_state_and_is_reported_once() -> None:
    world = World()
    world.objects.apply(deployment(value="good"))
    world.objects.apply(deployment(version=2, value=5))
    world.objects.apply(deployment(version=3, value=5))
    world.replace(deployment(version=3, value=5))
    assert world.view.values == {"a": "good"}
    (rejection,) = world.rejections
    assert rejection.effect is Effect.KEPT
    assert "shop/a" in rejection.reason
    assert len(world.objects.rejected) == 1
    world.objects.apply(deployment(version=4, value="well"))
    assert world.view.values == {"a": "well"}
    assert not world.objects.rejected


def test_objects_of_other_kinds_and_noise_are_ignored() -> None:
    world = World()
    for noise in (None, 5, {}, {"kind": "Pod"}, {"kind": ["x"]}, {"kind": KIND}):
        world.objects.apply(noise)
    assert world.view.values == {}
