from __future__ import annotations

from typing import Any

import pytest

from activator.objects.fields import ObjectKey
from activator.plain import service as services
from activator.plain.service import PlainService
from activator.scale.reports.load import Name
from activator.scale.workloads.actuator import Target
from activator.scale.workloads.subresource import KNOWN
from activator.scale.workloads.targets import TargetProblem, Workloads

HELLO = Name("shop", "hello")


def service(target: str = "", selector: Any = None, name: str = "hello") -> PlainService:
    annotations = {"activator.dev/enabled": "true"}
    if target:
        annotations["activator.dev/target"] = target
    selects = {"app": "hello"} if selector is None else selector
    found = services.parse(
        {
            "metadata": {"name": name, "namespace": "shop", "annotations": annotations},
            "spec": {"selector": selects, "ports": [{"port": 80}]},
        }
    )
    assert found is not None
    return found


class World:
    """Workloads, and the Services that have changed."""

    def __init__(self) -> None:
        self.changed: list[Name] = []
        self.workloads = Workloads(self.changed.append)

    def put(
        self,
        name: str,
        labels: Any,
        replicas: int | None = 1,
        kind: str = "Deployment",
        namespace: str = "shop",
    ) -> None:
        spec = {"replicas": replicas, "template": {"metadata": {"labels": labels}}}
        metadata = {"name": name, "namespace": namespace}
        self.workloads.put(ObjectKey(kind, namespace, name), {"metadata": metadata, "spec": spec})

    def remove(self, name: str, kind: str = "Deployment") -> None:
        self.workloads.remove(ObjectKey(kind, "shop", name))

    def drain(self) -> set[Name]:
        changed = set(self.changed)
        self.changed.clear()
        return changed


def test_the_one_workload_that_the_selector_matches_is_the_target() -> None:
    world = World()
    world.put("w", {"app": "hello", "version": "1"}, 3)
    world.put("other", {"app": "other"})
    world.put("far", {"app": "hello"}, namespace="elsewhere")
    found = world.workloads.find(service())
    assert found.target == Target(KNOWN["deployment"], "shop", "w")
    assert found.replicas == 3


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_absent_replicas_are_one(kind: str) -> None:
    world = World()
    world.put("w", {"app": "hello"}, None, kind)
    found = world.workloads.find(service())
    assert found.target == Target(KNOWN[kind.lower()], "shop", "w")
    assert found.replicas == 1


def test_several_workloads_are_an_error_that_names_them() -> None:
    world = World()
    world.put("b", {"app": "hello"})
    world.put("a", {"app": "hello"}, kind="StatefulSet")
    found = world.workloads.find(service())
    assert (found.target, found.problem) == (None, TargetProblem.SEVERAL)
    for part in ("deployment/b, statefulset/a", "app=hello", "activator.dev/target"):
        assert part in found.detail


def test_no_workload_is_an_error_that_names_the_selector() -> None:
    found = World().workloads.find(service(selector={"app": "hello", "tier": "web"}))
    assert (found.target, found.problem) == (None, TargetProblem.NONE)
    assert "app=hello,tier=web" in found.detail


def test_a_named_workload_wins_over_the_selector() -> None:
    world = World()
    world.put("a", {"app": "hello"})
    world.put("b", {"app": "unrelated"}, 2, "StatefulSet")
    found = world.workloads.find(service("statefulset/b"))
    assert found.target == Target(KNOWN["statefulset"], "shop", "b")
    assert found.replicas == 2
    found = world.workloads.find(service("apps/v1/Deployment/a"))
    assert found.target == Target(KNOWN["deployment"], "shop", "a")


def test_a_named_workload_that_does_not_exist_is_an_error() -> None:
    found = World().workloads.find(service("deployment/missing"))
    assert (found.target, found.problem) == (None, TargetProblem.NONE)
    assert "Deployment shop/missing does not exist" in found.detail


def test_a_kind_of_another_group_is_looked_up() -> None:
    found = World().workloads.find(service("argoproj.io/v1alpha1/Rollout/web"))
    assert found.look_up is not None
    assert (found.look_up.kind, found.problem) == ("Rollout", None)


def test_a_known_kind_without_a_watch_needs_no_look_up() -> None:
    found = World().workloads.find(service("replicaset/web"))
    assert found.target == Target(KNOWN["replicaset"], "shop", "web")
    assert (found.replicas, found.look_up) == (None, None)


def test_an_unknown_kind_without_a_group_is_an_error_that_shows_the_form() -> None:
    found = World().workloads.find(service("rollout/web"))
    assert found.problem is TargetProblem.UNKNOWN_KIND
    assert "GROUP/VERSION/rollout/web" in found.detail


def test_a_service_is_reported_when_its_workload_comes_changes_or_goes() -> None:
    world = World()
    world.workloads.follow(HELLO, service(selector={"app": "hello", "tier": "web"}))
    world.put("w", {"app": "hello", "tier": "web"}, 0)
    assert world.drain() == {HELLO}
    world.put("w", {"app": "hello", "tier": "web"}, 0)
    assert world.drain() == set()
    world.put("w", {"app": "hello", "tier": "web"}, 1)
    assert world.drain() == {HELLO}
    world.put("w", {"app": "moved"}, 1)
    assert world.drain() == {HELLO}
    world.put("w", {"app": "moved"}, 2)
    assert world.drain() == set()
    world.put("w", {"app": "hello", "tier": "web"}, 2)
    assert world.drain() == {HELLO}
    world.remove("w")
    assert world.drain() == {HELLO}


def test_a_service_that_names_its_workload_is_reported_for_that_one_alone() -> None:
    world = World()
    world.workloads.follow(HELLO, service("deployment/w"))
    world.put("w", {"app": "x"}, 0)
    assert world.drain() == {HELLO}
    world.put("other", {"app": "hello"})
    assert world.drain() == set()
    world.workloads.leave(HELLO)
    world.put("w", {"app": "x"}, 1)
    assert world.drain() == set()


def test_a_changed_service_follows_its_new_selector_alone() -> None:
    world = World()
    world.workloads.follow(HELLO, service())
    world.workloads.follow(HELLO, service(selector={"app": "new"}))
    world.put("old", {"app": "hello"})
    assert world.drain() == set()
    world.put("new", {"app": "new"})
    assert world.drain() == {HELLO}
