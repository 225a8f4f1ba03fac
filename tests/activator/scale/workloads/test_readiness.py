from __future__ import annotations

from typing import Any

import pytest

from activator.objects.fields import ManifestError, ObjectKey
from activator.scale.reports.load import Name
from activator.scale.workloads.readiness import Readiness

HELLO = Name("shop", "hello")


class World:
    """The ready pods, and the Services that have changed."""

    def __init__(self) -> None:
        self.changed: list[Name] = []
        self.readiness = Readiness(self.changed.append)

    def put(self, name: str, *endpoints: Any, service: str = "hello", **more: Any) -> None:
        labels = {"kubernetes.io/service-name": service} | more.pop("labels", {})
        obj = {
            "metadata": {"name": name, "namespace": "shop", "labels": labels},
            "addressType": "IPv4",
            "ports": [{"name": "http", "port": 8080}],
            "endpoints": list(endpoints),
            **more,
        }
        self.readiness.put(ObjectKey("EndpointSlice", "shop", name), obj)

    def remove(self, name: str) -> None:
        self.readiness.remove(ObjectKey("EndpointSlice", "shop", name))

    def ready(self, port: str = "http") -> int:
        return self.readiness.ready(HELLO, port)


def pod(**conditions: bool | None) -> Any:
    return {"addresses": ["10.0.0.1"], "conditions": conditions}


def test_only_pods_that_take_new_requests_count() -> None:
    world = World()
    world.put("a", pod(ready=True), pod(ready=False), pod(), pod(ready=True, terminating=True))
    assert world.ready() == 2
    assert world.ready("other") == 0


def test_pods_as_kubernetes_writes_them_count_as_others_do() -> None:
    """Nearly all endpoints have all three conditions, which are read in a shorter way."""
    world = World()
    usual = {"serving": True, "terminating": False}
    pods = [pod(ready=True, **usual), pod(ready=False, **usual), pod(ready=True, **usual)]
    world.put("a", *pods, pod(ready=True, terminating=None), {"addresses": ["10.0.0.9"]})
    assert world.ready() == 4
    for wrong in ("yes", 1):
        with pytest.raises(ManifestError, match=r"endpoints\[1\].conditions.ready"):
            world.put("a", pods[0], {"conditions": {"ready": wrong, "terminating": False}})
    assert world.ready() == 4


def test_slices_add_up_and_a_changed_one_replaces_its_former_state() -> None:
    world = World()
    world.put("a", pod(), pod())
    world.put("b", pod())
    assert world.ready() == 3
    world.put("a", pod())
    assert world.ready() == 2
    world.remove("b")
    world.remove("b")
    assert world.ready() == 1
    assert world.changed == [HELLO] * 4


def test_a_pod_with_addresses_of_two_families_counts_once() -> None:
    world = World()
    world.put("a", pod(), pod())
    world.put("b", pod(), pod(), addressType="IPv6")
    assert world.ready() == 2


def test_an_unchanged_number_is_no_change() -> None:
    world = World()
    world.put("a", pod())
    world.put("a", pod())
    assert world.changed == [HELLO]


def test_takeover_slices_and_slices_of_no_service_do_not_count() -> None:
    world = World()
    ours = {"endpointslice.kubernetes.io/managed-by": "activator.dev"}
    world.put("a", pod(), labels=ours)
    world.put("b", pod(), service="")
    assert world.ready() == 0
    assert world.changed == []


def test_a_slice_that_moves_to_another_service_leaves_the_first() -> None:
    world = World()
    world.put("a", pod())
    world.put("a", pod(), service="other")
    assert world.ready() == 0
    assert world.readiness.ready(Name("shop", "other"), "http") == 1


def test_ports_may_be_null() -> None:
    world = World()
    world.put("a", ports=None, endpoints=None)
    assert world.ready() == 0


def test_a_wrong_field_changes_nothing() -> None:
    world = World()
    world.put("a", pod())
    with pytest.raises(ManifestError):
        world.put("a", {"addresses": [], "conditions": {"ready": "yes"}})
    assert world.ready() == 1
