from __future__ import annotations

from typing import Any

import pytest

from activator.objects.fields import ManifestError, ObjectKey
from activator.plain.annotations import Owner
from activator.scale.reports.load import Name
from activator.scale.workloads.services import Services

HELLO = Name("shop", "hello")
SERVICE = ObjectKey("Service", "shop", "hello")


class World:
    """Services, and which have changed."""

    def __init__(self) -> None:
        self.changed: list[Name] = []
        self.services = Services(self.changed.append)

    def put(self, ports: Any = None, **annotations: str) -> None:
        asked = {f"activator.dev/{name}": value for name, value in annotations.items()}
        metadata = {"name": "hello", "namespace": "shop", "annotations": asked}
        spec = {"selector": {"app": "hello"}, "ports": ports or [{"name": "http", "port": 80}]}
        self.services.put(SERVICE, {"metadata": metadata, "spec": spec})

    def deployment(self, replicas: int = 0) -> None:
        template = {"metadata": {"labels": {"app": "hello"}}}
        key = ObjectKey("Deployment", "shop", "w")
        obj = {"metadata": {"name": "w"}, "spec": {"replicas": replicas, "template": template}}
        self.services.views()["Deployment"].put(key, obj)

    def slice(self, ready: int, port: str = "http") -> None:
        obj = {
            "metadata": {"labels": {"kubernetes.io/service-name": "hello"}},
            "addressType": "IPv4",
            "ports": [{"name": port, "port": 8080}],
            "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": True}}] * ready,
        }
        self.services.views()["EndpointSlice"].put(ObjectKey("EndpointSlice", "shop", "s"), obj)


def test_a_service_is_joined_with_its_workload_and_its_pods_in_any_order() -> None:
    world = World()
    world.slice(2)
    world.deployment(3)
    assert world.services.get(HELLO) is None
    assert world.changed == []
    world.put(enabled="true")
    joined = world.services.get(HELLO)
    assert joined is not None
    assert (joined.found.replicas, joined.ready) == (3, 2)
    assert world.changed == [HELLO]
    world.slice(1)
    world.deployment(4)
    assert set(world.changed) == {HELLO}
    joined = world.services.get(HELLO)
    assert joined is not None
    assert (joined.found.replicas, joined.ready) == (4, 1)


def test_only_the_buffered_port_counts() -> None:
    world = World()
    world.put([{"name": "http", "port": 80}, {"name": "metrics", "port": 90}], enabled="true")
    world.slice(2, "metrics")
    joined = world.services.get(HELLO)
    assert joined is not None
    assert joined.ready == 0


def test_a_service_that_opts_out_or_is_deleted_is_gone() -> None:
    world = World()
    world.put(enabled="true")
    world.put(enabled="false")
    assert list(world.services) == []
    world.put(enabled="true")
    world.services.remove(SERVICE)
    world.services.remove(SERVICE)
    assert len(world.services) == 0
    assert world.changed == [HELLO] * 4


def test_an_unchanged_service_is_no_change() -> None:
    world = World()
    world.put(enabled="true")
    world.put(enabled="true")
    assert world.changed == [HELLO]


def test_a_wrong_annotation_keeps_the_last_state() -> None:
    world = World()
    world.put(enabled="true", **{"max-scale": "3"})
    with pytest.raises(ManifestError, match="max-scale"):
        world.put(enabled="true", **{"max-scale": "many"})
    joined = world.services.get(HELLO)
    assert joined is not None
    assert joined.service.asks.scale.max_scale == 3
    (warning,) = joined.service.warnings
    assert "max-scale" in warning
    assert "its last good state stays in force" in warning
    world.put(enabled="true", **{"max-scale": "4"})
    joined = world.services.get(HELLO)
    assert joined is not None
    assert joined.service.warnings == ()


def test_a_wrong_policy_of_the_first_state_has_its_default() -> None:
    world = World()
    for wrong in ({"max-scale": "many"}, {"owner": "Keda"}, {"route": "next-version"}):
        with pytest.raises(ManifestError):
            world.put(enabled="true", **{"idle-seconds": "7"}, **wrong)
        joined = world.services.get(HELLO)
        assert joined is not None
        asks = joined.service.asks
        assert (joined.service.refused, asks.scale.idle, asks.scale.max_scale) == ("", 7, 0)
        # No owner removes replicas if another one may, or if the load may be unseen.
        assert asks.owner is (Owner.SELF if "max-scale" in wrong else Owner.NONE)
        (warning,) = joined.service.warnings
        assert all(name in warning for name in wrong)
        assert "each wrong annotation has a safe default" in warning
    with pytest.raises(ManifestError):
        world.put(enabled="true", port="No!")
    joined = world.services.get(HELLO)
    assert joined is not None
    assert joined.service.port is not None


def test_a_service_whose_port_was_never_valid_is_refused_with_the_reason() -> None:
    world = World()
    with pytest.raises(ManifestError):
        world.put(enabled="true", port="No!", **{"max-scale": "3"})
    joined = world.services.get(HELLO)
    assert joined is not None
    assert "port" in joined.service.refused
    assert joined.service.asks.scale.max_scale == 0
    world.services.remove(SERVICE)
    assert world.services.get(HELLO) is None
