"""Services that opt in, joined with their workloads and their ready pods."""

from __future__ import annotations

from typing import Any

import pytest

from activator.objects.fields import ManifestError, ObjectKey
from activator.plain import service as services
from activator.plain.annotations import Owner
from activator.plain.service import PlainService
from activator.scale.reasons import ScaleReason
from activator.scale.reports.load import ServiceName
from activator.scale.workloads.replicas import KNOWN, ScaleTarget
from activator.scale.workloads.services import EnabledServices, ReadyPods, Workloads

HELLO = ServiceName("shop", "hello")
SERVICE = ObjectKey("Service", "shop", "hello")


class World:
    """Services, and which have changed."""

    def __init__(self) -> None:
        self.changed: list[ServiceName] = []
        self.services = EnabledServices(self.changed.extend)

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
    assert list(world.services) == []
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


class PodsWorld:
    """The ready pods, and the Services that have changed."""

    def __init__(self) -> None:
        self.changed: list[ObjectKey] = []
        self.readiness = ReadyPods(self.changed.extend)

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
        return self.readiness.ready(SERVICE, port)


def pod(**conditions: bool | None) -> Any:
    return {"addresses": ["10.0.0.1"], "conditions": conditions}


def test_only_pods_that_take_new_requests_count() -> None:
    world = PodsWorld()
    world.put("a", pod(ready=True), pod(ready=False), pod(), pod(ready=True, terminating=True))
    assert world.ready() == 2
    assert world.ready("other") == 0


def test_pods_as_kubernetes_writes_them_count_as_others_do() -> None:
    """Nearly all endpoints have all three conditions, which are read in a shorter way."""
    world = PodsWorld()
    usual = {"serving": True, "terminating": False}
    pods = [pod(ready=True, **usual), pod(ready=False, **usual), pod(ready=True, **usual)]
    world.put("a", *pods, pod(ready=True, terminating=None), {"addresses": ["10.0.0.9"]})
    assert world.ready() == 4
    for wrong in ("yes", 1):
        with pytest.raises(ManifestError, match=r"endpoints\[1\].conditions.ready"):
            world.put("a", pods[0], {"conditions": {"ready": wrong, "terminating": False}})
    assert world.ready() == 4


def test_slices_add_up_and_a_changed_one_replaces_its_former_state() -> None:
    world = PodsWorld()
    world.put("a", pod(), pod())
    world.put("b", pod())
    assert world.ready() == 3
    world.put("a", pod())
    assert world.ready() == 2
    world.remove("b")
    world.remove("b")
    assert world.ready() == 1
    assert world.changed == [SERVICE] * 4


def test_a_pod_with_addresses_of_two_families_counts_once() -> None:
    world = PodsWorld()
    world.put("a", pod(), pod())
    world.put("b", pod(), pod(), addressType="IPv6")
    assert world.ready() == 2


def test_an_unchanged_number_is_no_change() -> None:
    world = PodsWorld()
    world.put("a", pod())
    world.put("a", pod())
    assert world.changed == [SERVICE]


def test_takeover_slices_and_slices_of_no_service_do_not_count() -> None:
    world = PodsWorld()
    ours = {"endpointslice.kubernetes.io/managed-by": "activator.dev"}
    world.put("a", pod(), labels=ours)
    world.put("b", pod(), service="")
    assert world.ready() == 0
    assert world.changed == []


def test_a_slice_that_moves_to_another_service_leaves_the_first() -> None:
    world = PodsWorld()
    world.put("a", pod())
    world.put("a", pod(), service="other")
    assert world.ready() == 0
    assert world.readiness.ready(ObjectKey("Service", "shop", "other"), "http") == 1


def test_ports_may_be_null() -> None:
    world = PodsWorld()
    world.put("a", ports=None, endpoints=None)
    assert world.ready() == 0


def test_a_wrong_field_changes_nothing() -> None:
    world = PodsWorld()
    world.put("a", pod())
    with pytest.raises(ManifestError):
        world.put("a", {"addresses": [], "conditions": {"ready": "yes"}})
    assert world.ready() == 1


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


class TargetsWorld:
    """Workloads, and the Services that have changed."""

    def __init__(self) -> None:
        self.changed: list[ServiceName] = []
        self.workloads = Workloads(self.changed.extend)

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

    def drain(self) -> set[ServiceName]:
        changed = set(self.changed)
        self.changed.clear()
        return changed


def test_the_one_workload_that_the_selector_matches_is_the_target() -> None:
    world = TargetsWorld()
    world.put("w", {"app": "hello", "version": "1"}, 3)
    world.put("other", {"app": "other"})
    world.put("far", {"app": "hello"}, namespace="elsewhere")
    found = world.workloads.find(service())
    assert found.target == ScaleTarget(KNOWN["deployment"], "shop", "w")
    assert found.replicas == 3


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_absent_replicas_are_one(kind: str) -> None:
    world = TargetsWorld()
    world.put("w", {"app": "hello"}, None, kind)
    found = world.workloads.find(service())
    assert found.target == ScaleTarget(KNOWN[kind.lower()], "shop", "w")
    assert found.replicas == 1


def test_several_workloads_are_an_error_that_names_them() -> None:
    world = TargetsWorld()
    world.put("b", {"app": "hello"})
    world.put("a", {"app": "hello"}, kind="StatefulSet")
    found = world.workloads.find(service())
    assert (found.target, found.problem) == (None, ScaleReason.SEVERAL_TARGETS)
    for part in ("deployment/b, statefulset/a", "app=hello", "activator.dev/target"):
        assert part in found.detail


def test_no_workload_is_an_error_that_names_the_selector() -> None:
    found = TargetsWorld().workloads.find(service(selector={"app": "hello", "tier": "web"}))
    assert (found.target, found.problem) == (None, ScaleReason.NO_SCALABLE_TARGET)
    assert "app=hello,tier=web" in found.detail


def test_a_named_workload_wins_over_the_selector() -> None:
    world = TargetsWorld()
    world.put("a", {"app": "hello"})
    world.put("b", {"app": "unrelated"}, 2, "StatefulSet")
    found = world.workloads.find(service("statefulset/b"))
    assert found.target == ScaleTarget(KNOWN["statefulset"], "shop", "b")
    assert found.replicas == 2
    found = world.workloads.find(service("apps/v1/Deployment/a"))
    assert found.target == ScaleTarget(KNOWN["deployment"], "shop", "a")


def test_a_named_workload_that_does_not_exist_is_an_error() -> None:
    found = TargetsWorld().workloads.find(service("deployment/missing"))
    assert (found.target, found.problem) == (None, ScaleReason.NO_SCALABLE_TARGET)
    assert "Deployment shop/missing does not exist" in found.detail


def test_a_kind_of_another_group_is_looked_up() -> None:
    found = TargetsWorld().workloads.find(service("argoproj.io/v1alpha1/Rollout/web"))
    assert found.look_up is not None
    assert (found.look_up.kind, found.problem) == ("Rollout", None)


def test_a_known_kind_without_a_watch_needs_no_look_up() -> None:
    found = TargetsWorld().workloads.find(service("replicaset/web"))
    assert found.target == ScaleTarget(KNOWN["replicaset"], "shop", "web")
    assert (found.replicas, found.look_up) == (None, None)


def test_an_unknown_kind_without_a_group_is_an_error_that_shows_the_form() -> None:
    found = TargetsWorld().workloads.find(service("rollout/web"))
    assert found.problem is ScaleReason.UNKNOWN_TARGET_KIND
    assert "GROUP/VERSION/rollout/web" in found.detail


def test_a_service_is_reported_when_its_workload_comes_changes_or_goes() -> None:
    world = TargetsWorld()
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
    world = TargetsWorld()
    world.workloads.follow(HELLO, service("deployment/w"))
    world.put("w", {"app": "x"}, 0)
    assert world.drain() == {HELLO}
    world.put("other", {"app": "hello"})
    assert world.drain() == set()
    world.workloads.leave(HELLO)
    world.put("w", {"app": "x"}, 1)
    assert world.drain() == set()


def test_a_changed_service_follows_its_new_selector_alone() -> None:
    world = TargetsWorld()
    world.workloads.follow(HELLO, service())
    world.workloads.follow(HELLO, service(selector={"app": "new"}))
    world.put("old", {"app": "hello"})
    assert world.drain() == set()
    world.put("new", {"app": "new"})
    assert world.drain() == {HELLO}
