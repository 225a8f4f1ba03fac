"""Which other components scale a workload, and whether they can do it as its Service asks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from activator.objects.fields import ManifestError, ObjectKey
from activator.plain.annotations import Owner, Route
from activator.scale.owners import (
    HPA,
    SCALED_OBJECT,
    STAYS,
    Flapping,
    WorkloadOwners,
    replicas_manager,
)
from activator.scale.reasons import ScaleReason
from activator.scale.workloads.replicas import KNOWN, ScalableKind, ScaleTarget, TargetRef
from tests.activator.scale.world import Cluster, Running, cluster, elapse, leader, until
from tests.rows import in_one_test

HELLO = ScaleTarget(KNOWN["deployment"], "shop", "hello")
REF = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "hello"}
EXTERNAL = [{"type": "External", "external": {"metric": {"name": "activator_requests"}}}]
PUSH = [{"type": "external-push", "metadata": {"scalerAddress": "x:6000", "service": "hello"}}]


def hpa(name: str = "hello", **spec: Any) -> tuple[ObjectKey, Any]:
    spec = {"scaleTargetRef": REF, "minReplicas": 0, "maxReplicas": 5, "metrics": EXTERNAL} | spec
    owners = spec.pop("owners", None)
    metadata = {"name": name, "namespace": "shop", "ownerReferences": owners}
    return ObjectKey(HPA, "shop", name), {"metadata": metadata, "spec": spec}


def keda(name: str = "hello", annotations: Any = None, **spec: Any) -> tuple[ObjectKey, Any]:
    spec = {"scaleTargetRef": {"name": "hello"}, "triggers": PUSH} | spec
    metadata = {"name": name, "namespace": "shop", "annotations": annotations}
    return ObjectKey(SCALED_OBJECT, "shop", name), {"metadata": metadata, "spec": spec}


#: KEDA scales above one by an HPA of its own.
KEDAS_HPA = hpa(
    "keda-hpa-hello", minReplicas=1, owners=[{"kind": SCALED_OBJECT, "name": "hello", "uid": "1"}]
)


def known(*objects: tuple[ObjectKey, Any]) -> WorkloadOwners:
    owners = WorkloadOwners()
    for key, obj in objects:
        owners.put(key, obj)
    return owners


@in_one_test(
    ("owner", "objects", "other"),
    [
        (Owner.SELF, [], ""),
        (Owner.SELF, [hpa()], "HorizontalPodAutoscaler hello"),
        (Owner.SELF, [keda()], "ScaledObject hello"),
        (Owner.SELF, [keda(), KEDAS_HPA], "ScaledObject hello"),
        (Owner.SELF, [hpa("b"), hpa("a")], "HorizontalPodAutoscaler a, HorizontalPodAutoscaler b"),
        (Owner.SELF, [KEDAS_HPA], "HorizontalPodAutoscaler keda-hpa-hello"),
        (Owner.KEDA, [keda(), KEDAS_HPA], ""),
        (Owner.KEDA, [KEDAS_HPA], ""),
        (Owner.KEDA, [KEDAS_HPA, hpa()], "HorizontalPodAutoscaler hello"),
        (Owner.KEDA, [keda(), hpa()], "HorizontalPodAutoscaler hello"),
        (Owner.KEDA, [keda("a"), keda("b")], "ScaledObject b"),
        (Owner.HPA, [hpa()], ""),
        (Owner.HPA, [hpa(), keda()], "ScaledObject hello"),
        (Owner.NONE, [hpa(), keda()], ""),
    ],
)
def test_the_component_beside_the_owner(owner: Owner, objects: Any, other: str) -> None:
    owners = known(*objects)
    assert owners.other_owner(owner, HELLO) == other
    found = owners.findings(owner, HELLO, "hello")
    assert (ScaleReason.TWO_OWNERS in [each.reason for each in found]) is bool(other)
    assert all(other in each.note for each in found if each.reason is ScaleReason.TWO_OWNERS)


@in_one_test(
    ("owner", "objects", "reason", "note"),
    [
        (
            Owner.KEDA,
            [],
            ScaleReason.SCALED_OBJECT_MISSING,
            "no ScaledObject targets Deployment hello",
        ),
        (
            *(Owner.KEDA, [KEDAS_HPA], ScaleReason.SCALED_OBJECT_MISSING),
            "the scaler has not read ScaledObject hello: KEDA is newer than the scaler, which "
            "looks for it every 5 minutes, and when it starts",
        ),
        (
            *(Owner.KEDA, [keda(triggers=[{"type": "cron", "metadata": {"service": "hello"}}])]),
            *(ScaleReason.KEDA_TRIGGER_MISSING, "external-push with the metadata service: hello"),
        ),
        (
            *(Owner.KEDA, [keda(triggers=[{**PUSH[0], "metadata": {"service": "other"}}])]),
            *(ScaleReason.KEDA_TRIGGER_MISSING, "external-push"),
        ),
        (
            *(Owner.KEDA, [keda(annotations={"autoscaling.keda.sh/paused-replicas": "0"})]),
            *(
                ScaleReason.SCALED_OBJECT_PAUSED,
                "autoscaling.keda.sh/paused-replicas: KEDA keeps this number of replicas, and the",
            ),
        ),
        *(
            (
                *(Owner.KEDA, [keda(annotations={"autoscaling.keda.sh/paused": value})]),
                *(
                    ScaleReason.SCALED_OBJECT_PAUSED,
                    "KEDA adds and removes no replica, and the scaler starts no pod for a request",
                ),
            )
            for value in ("true", "1", "T", "yes", "")
        ),
        (
            *(Owner.KEDA, [keda(annotations={"autoscaling.keda.sh/paused-scale-out": "true"})]),
            *(ScaleReason.SCALED_OBJECT_PAUSED, "paused-scale-out: KEDA adds no replica, and"),
        ),
        (
            *(Owner.KEDA, [keda(annotations={"autoscaling.keda.sh/paused-scale-in": "true"})]),
            *(ScaleReason.SCALE_IN_PAUSED, "removes no replica, so the workload does not sleep"),
        ),
        (
            Owner.HPA,
            [],
            ScaleReason.HPA_MISSING,
            "no HorizontalPodAutoscaler targets Deployment hello",
        ),
        (Owner.HPA, [hpa(minReplicas=1)], ScaleReason.HPA_CANNOT_WAKE, "needs minReplicas: 0 and"),
        (Owner.HPA, [hpa(minReplicas=None)], ScaleReason.HPA_CANNOT_WAKE, "minReplicas: 0"),
        (
            *(Owner.HPA, [hpa(metrics=[{"type": "Resource"}, {"type": "Pods"}])]),
            *(ScaleReason.HPA_CANNOT_WAKE, "type Object or External"),
        ),
        (Owner.HPA, [hpa(metrics=None)], ScaleReason.HPA_CANNOT_WAKE, "type Object or External"),
    ],
)
def test_an_owner_that_cannot_do_it(
    owner: Owner, objects: Any, reason: ScaleReason, note: str
) -> None:
    [found] = known(*objects).findings(owner, HELLO, "hello")
    assert found.reason is reason
    assert note in found.note


@in_one_test(
    ("owner", "objects"),
    [
        (Owner.SELF, []),
        (Owner.NONE, []),
        (Owner.KEDA, [keda()]),
        (Owner.KEDA, [keda(triggers=[{"type": "cron"}, {**PUSH[0], "type": "external"}])]),
        *(
            (Owner.KEDA, [keda(annotations={f"autoscaling.keda.sh/paused{which}": value})])
            for which in ("", "-scale-in", "-scale-out")
            for value in ("false", "False", "FALSE", "f", "F", "0")
        ),
        (Owner.HPA, [hpa()]),
        (Owner.HPA, [hpa(metrics=[{"type": "Resource"}, {"type": "Object"}])]),
    ],
)
def test_an_owner_that_can(owner: Owner, objects: Any) -> None:
    assert known(*objects).findings(owner, HELLO, "hello") == []


@pytest.mark.parametrize(
    "ref",
    [
        {"name": "other"},
        {"kind": "StatefulSet"},
        {"apiVersion": "other.io/v1"},
        {"apiVersion": "v1"},
    ],
)
def test_a_component_of_another_workload_is_ignored(ref: Any) -> None:
    objects = [hpa(scaleTargetRef=REF | ref), keda(scaleTargetRef=REF | ref)]
    assert known(*objects).other_owner(Owner.SELF, HELLO) == ""


def test_the_version_and_the_namespace_of_a_workload() -> None:
    owners = known(hpa(scaleTargetRef=REF | {"apiVersion": "apps/v1beta2"}))
    assert owners.other_owner(Owner.SELF, HELLO) != ""
    assert owners.other_owner(Owner.SELF, HELLO._replace(namespace="x")) == ""
    rollout = ScaleTarget(
        ScalableKind("argoproj.io", "v1alpha1", "Rollout", "rollouts"), "shop", "hello"
    )
    ref = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "name": "hello"}
    assert known(keda(scaleTargetRef=ref)).other_owner(Owner.SELF, rollout) != ""


@pytest.mark.parametrize(
    ("owner", "objects", "seconds"),
    [
        (Owner.KEDA, [], 0),
        (Owner.KEDA, [keda()], 30),
        (Owner.KEDA, [keda(pollingInterval=5)], 5),
        (Owner.KEDA, [keda(pollingInterval=120)], 120),
        (Owner.KEDA, [keda(pollingInterval=100_000)], 600),
        (Owner.HPA, [keda(pollingInterval=120)], 0),
    ],
)
def test_the_time_between_two_reads_of_the_owner(
    owner: Owner, objects: Any, seconds: float
) -> None:
    assert known(*objects).lease(owner, HELLO) == seconds


def test_each_change_is_reported_once_for_each_workload() -> None:
    changed: list[TargetRef] = []
    owners = WorkloadOwners(changed.extend)
    here, there = HELLO.ref, HELLO._replace(name="other").ref
    owners.put(*hpa())
    owners.put(*hpa())
    assert changed == [here]
    owners.put(*hpa(scaleTargetRef=REF | {"name": "other"}))
    assert changed == [here, here, there]
    owners.remove(hpa()[0])
    owners.remove(hpa()[0])
    assert changed == [here, here, there, there]
    assert owners.other_owner(Owner.SELF, HELLO) == ""


@pytest.mark.parametrize(
    ("key", "obj"),
    [
        (hpa()[0], {"spec": {"minReplicas": "0"}}),
        (hpa()[0], {"spec": {"metrics": 5}}),
        (hpa()[0], {"metadata": {"ownerReferences": [5]}}),
        (keda()[0], {"spec": {"triggers": [{"metadata": 5, "type": "external"}]}}),
        (keda()[0], {"spec": {"scaleTargetRef": {"name": 5}}}),
    ],
)
def test_a_broken_object_is_an_error_and_the_last_state_stays(key: ObjectKey, obj: Any) -> None:
    owners = known(hpa(), keda())
    with pytest.raises(ManifestError):
        owners.put(key, obj)
    assert (
        owners.other_owner(Owner.SELF, HELLO) == "ScaledObject hello, HorizontalPodAutoscaler hello"
    )


@pytest.mark.parametrize(
    ("owner", "found", "is_seen"),
    [
        (Owner.KEDA, keda(), False),
        (Owner.KEDA, keda(triggers=[*PUSH, {"type": "cpu"}]), True),
        (Owner.HPA, hpa(), False),
        (Owner.HPA, hpa(metrics=[*EXTERNAL, {"type": "Resource"}]), True),
        (Owner.HPA, hpa(metrics=EXTERNAL * 2), True),
        (Owner.SELF, hpa(), True),
    ],
)
def test_a_metric_of_the_activators_alone_misses_requests_that_bypass_them(
    owner: Owner, found: tuple[ObjectKey, Any], is_seen: bool
) -> None:
    def notes(bypass: Route | None) -> list[str]:
        every = known(found).findings(owner, HELLO, "hello", bypass)
        return [each.note for each in every if each.reason is ScaleReason.LOAD_UNSEEN]

    for route in (Route.TAKEOVER, Route.FRONT):
        assert [note.split(",")[0] for note in notes(route)] == [f"with route {route.value}"] * (
            not is_seen
        )
    assert notes(None) == []


KEY = ObjectKey("Deployment", "shop", "hello")
HELLO_REF = TargetRef("shop", "apps", "Deployment", "hello")


def entry(manager: str = "argocd-controller", time: str | None = None, **more: Any) -> Any:
    fields: Any = {"f:spec": {"f:replicas": {}}}
    return {"manager": manager, "operation": "Apply", "time": time, "fieldsV1": fields} | more


def deployment(replicas: Any, *managers: Any) -> Any:
    return {"metadata": {"managedFields": list(managers)}, "spec": {"replicas": replicas}}


class World:
    def __init__(self) -> None:
        self.now = 100.0
        self.active = True
        self.changed: list[TargetRef] = []
        self.flapping = Flapping(lambda _: self.active, lambda: self.now, self.changed.extend)

    def see(self, *replicas: int) -> None:
        for each in replicas:
            self.flapping.put(KEY, deployment(each, entry()))

    def note(self) -> str:
        found = self.flapping.finding(HELLO_REF)
        return "" if found is None else found.note


def test_a_workload_that_is_set_to_zero_while_it_is_active() -> None:
    world = World()
    world.see(0, 1, 0)
    assert world.changed == [HELLO_REF]
    found = world.flapping.finding(HELLO_REF)
    assert found is not None
    assert found.reason is ScaleReason.REPLICAS_RESET
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
    assert world.changed == [HELLO_REF]


def test_a_workload_without_replicas_has_one() -> None:
    world = World()
    world.flapping.put(KEY, deployment(None))
    world.flapping.put(KEY, deployment(0))
    assert "no field manager has spec.replicas" in world.note()


def test_wrong_replicas_are_an_error() -> None:
    with pytest.raises(ManifestError):
        World().flapping.put(KEY, deployment("1"))


@in_one_test(
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


HPAS = "/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers"
OBJECTS = "/apis/keda.sh/v1alpha1/namespaces/shop/scaledobjects"


async def add_hpa(kube: Cluster) -> None:
    spec = {"scaleTargetRef": REF, "minReplicas": 1, "maxReplicas": 9}
    await kube.send("POST", HPAS, {"metadata": {"name": "h", "namespace": "shop"}, "spec": spec})


async def add_scaled_object(kube: Cluster, **annotations: str) -> None:
    spec = {"scaleTargetRef": REF, "triggers": [{"type": "cron", "metadata": {}}]}
    metadata = {"name": "s", "namespace": "shop", "annotations": annotations}
    body = {"metadata": metadata, "spec": spec}
    await kube.send(
        "POST", OBJECTS, {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject"} | body
    )


async def findings(running: Running) -> dict[str, str]:
    return {each["reason"]: each["note"] for each in (await running.service())["findings"]}


async def test_the_findings_of_a_tcp_service_speak_of_connections(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kube:
        await add_scaled_object(kube)
        await kube.add(replicas=1, owner="keda", protocol="tcp", listen_port="6379")
        async with leader(kube) as running:
            found = await findings(running)
    assert found["keda-trigger-missing"].endswith("to zero while connections are in flight")


@pytest.mark.untraced
@pytest.mark.parametrize(
    ("add", "path", "name"),
    [
        (add_hpa, f"{HPAS}/h", "HorizontalPodAutoscaler h"),
        (add_scaled_object, f"{OBJECTS}/s", "ScaledObject s"),
    ],
)
async def test_a_workload_of_another_component_is_not_scaled_down(
    tmp_path: Path, add: Any, path: str, name: str
) -> None:
    async with cluster(tmp_path) as kube:
        await add(kube)
        await kube.add(replicas=1, idle_seconds="1")
        await kube.set_ready("hello", 1)
        async with leader(kube) as running, running.activator():
            await elapse(150)
            assert kube.replicas() == 1
            view = await running.service()
            assert view["reason"] == "two-owners"
            assert view["cause"] is None  # its first request starts a pod
            assert name in view["detail"]
            assert name in (await findings(running))["two-owners"]
            await kube.send("DELETE", path)
            await until(lambda: kube.replicas() == 0, "no replica", within=10)
            assert "two-owners" not in await findings(running)


@pytest.mark.untraced
@pytest.mark.parametrize("which", ["paused", "paused-replicas", "paused-scale-out"])
async def test_no_pod_starts_while_keda_is_paused(tmp_path: Path, which: str) -> None:
    async with cluster(tmp_path) as kube:
        await kube.add(owner="keda")
        await add_scaled_object(kube, **{f"autoscaling.keda.sh/{which}": "1"})
        async with leader(kube) as running, running.activator() as activator:
            await activator.report(1)
            await elapse(1)
            assert (await running.service())["reason"] == "scaled-object-paused"
            await elapse(10)
            assert kube.replicas() == 0
            note = (await findings(running))["scaled-object-paused"]
            assert f"the annotation autoscaling.keda.sh/{which}: KEDA" in note
            annotations = {f"autoscaling.keda.sh/{which}": None}
            await kube.send("PATCH", f"{OBJECTS}/s", {"metadata": {"annotations": annotations}})
            await activator.report(1)
            await until(lambda: kube.replicas() == 1, "a replica", within=5)
            await elapse(1)
            assert (await running.service())["reason"] is None


async def test_keda_that_keeps_replicas_lets_a_request_start_one(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kube:
        await kube.add(owner="keda")
        await add_scaled_object(kube, **{"autoscaling.keda.sh/paused-scale-in": "true"})
        async with leader(kube) as running, running.activator() as activator:
            await activator.report(1)
            await until(lambda: kube.replicas() == 1, "a replica", within=1)
            assert "scale-in-paused" in await findings(running)


async def test_a_named_owner_is_missed_and_found(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kube:
        await kube.add(owner="hpa")
        async with leader(kube) as running:
            await elapse(1)
            assert "hpa-missing" in await findings(running)
            await add_hpa(kube)
            await elapse(1)
            assert "hpa-cannot-wake" in await findings(running)


@pytest.mark.parametrize(
    ("owner", "group", "plural"),
    [
        ("hpa", "autoscaling", "horizontalpodautoscalers"),
        ("keda", "keda.sh", "scaledobjects"),
    ],
)
async def test_an_owner_that_cannot_be_read_is_not_called_missing(
    tmp_path: Path, owner: str, group: str, plural: str
) -> None:
    async with cluster(tmp_path) as kube:
        kube.plane.faults.forbid("list", plural, group)
        await kube.add(owner=owner)
        async with leader(kube) as running:
            await elapse(1)
            found = await findings(running)
            assert list(found) == ["owner-unreadable"]
            rule = f'{{apiGroups: ["{group}"], resources: ["{plural}"], verbs: ["list", "watch"]}}'
            assert rule in found["owner-unreadable"]


async def test_a_component_that_undoes_a_cold_start_is_named(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kube:
        await kube.add()
        async with leader(kube) as running, running.activator() as activator:
            activator.hold(1)
            await until(lambda: kube.replicas() == 1, "a replica", within=2)
            path = "/apis/apps/v1/namespaces/shop/deployments/hello"
            await kube.send("PATCH", path, {"spec": {"replicas": 0}})
            await elapse(1)
            assert "test" in (await findings(running))["replicas-reset"]
            await until(lambda: kube.replicas() == 1, "a replica again", within=5)


async def test_a_cluster_without_keda_is_fine(tmp_path: Path) -> None:
    async with cluster(tmp_path, keda=False) as kube:
        await kube.add()
        async with leader(kube) as running, running.activator() as activator:
            await activator.report(1)
            await until(lambda: kube.replicas() == 1, "a replica", within=2)
