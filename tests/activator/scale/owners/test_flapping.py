"""Other components that set an active workload to zero, and how their name is found."""

from __future__ import annotations

from typing import Any

import pytest

from activator.objects.fields import ManifestError, ObjectKey
from activator.scale.decisions.findings import Reason
from activator.scale.owners.flapping import STAYS, Flapping, replicas_manager
from activator.scale.owners.owners import Scaled

KEY = ObjectKey("Deployment", "shop", "hello")
HELLO = Scaled("shop", "apps", "Deployment", "hello")


def entry(manager: str = "argocd-controller", time: str | None = None, **more: Any) -> Any:
    fields: Any = {"f:spec": {"f:replicas": {}}}
    return {"manager": manager, "operation": "Apply", "time": time, "fieldsV1": fields} | more


def deployment(replicas: Any, *managers: Any) -> Any:
    return {"metadata": {"managedFields": list(managers)}, "spec": {"replicas": replicas}}


class World:
    def __init__(self) -> None:
        self.now = 100.0
        self.active = True
        self.changed: list[Scaled] = []
        self.flapping = Flapping(lambda _: self.active, lambda: self.now, self.changed.append)

    def see(self, *replicas: int) -> None:
        for each in replicas:
            self.flapping.put(KEY, deployment(each, entry()))

    def note(self) -> str:
        found = self.flapping.finding(HELLO)
        return "" if found is None else found.note


def test_a_workload_that_is_set_to_zero_while_it_is_active() -> None:
    world = World()
    world.see(0, 1, 0)
    assert world.changed == [HELLO]
    found = world.flapping.finding(HELLO)
    assert found is not None
    assert found.reason is Reason.REPLICAS_RESET
    assert found.note.startswith("another component set Deployment hello to 0 replicas while")
    assert "the field manager argocd-controller has written spec.replicas" in found.note
    world.now += STAYS
    assert world.note()
    world.now += 1
    assert not world.note()


@pytest.mark.parametrize(
    ("active", "replicas"), [(False, (1, 0)), (True, (0, 0)), (True, (1, 2)), (True, (0, 1, 3))]
)
def test_usual_changes_are_none(active: bool, replicas: tuple[int, ...]) -> None:
    world = World()
    world.active = active
    world.see(*replicas)
    assert (world.changed, world.note()) == ([], "")


def test_a_deleted_workload_leaves_nothing() -> None:
    world = World()
    world.see(1, 0)
    world.flapping.remove(KEY)
    world.flapping.remove(KEY)
    assert not world.note()
    world.see(0)
    assert world.changed == [HELLO]


def test_a_workload_without_replicas_has_one() -> None:
    world = World()
    world.flapping.put(KEY, deployment(None))
    world.flapping.put(KEY, deployment(0))
    assert "no field manager has spec.replicas" in world.note()


def test_wrong_replicas_are_an_error() -> None:
    with pytest.raises(ManifestError):
        World().flapping.put(KEY, deployment("1"))


@pytest.mark.parametrize(
    ("managers", "name"),
    [
        ([], ""),
        ([entry("flux")], "flux"),
        ([entry("old", "2026-01-01T00:00:00Z"), entry("new", "2026-01-02T00:00:00Z")], "new"),
        ([entry("dated", "2026-01-01T00:00:00Z"), entry("undated")], "dated"),
        ([entry("kubectl", subresource="status")], ""),
        ([entry("kubectl", fieldsV1={"f:spec": {"f:template": {}}})], ""),
        ([entry("kubectl", fieldsV1=None)], ""),
        ([entry("kubectl", fieldsV1={"f:spec": 5}), 5, None, entry(None)], "unknown"),  # type: ignore[arg-type] # broken
        ([entry("x" * 500)], "x" * 128),
    ],
)
def test_the_field_manager(managers: Any, name: str) -> None:
    assert replicas_manager(deployment(0, *managers)) == name


@pytest.mark.parametrize("obj", [None, 5, {"metadata": 5}, {"metadata": {"managedFields": 5}}])
def test_a_broken_object_has_no_manager(obj: Any) -> None:
    assert replicas_manager(obj) == ""
