"""HPAs and ScaledObjects of a workload: what scales it, and whether that works."""

from __future__ import annotations

from typing import Any

import pytest

from activator.objects.fields import ManifestError, ObjectKey
from activator.plain.annotations import Owner, Route
from activator.scale.decisions.findings import Reason
from activator.scale.owners.owners import HPA, SCALED_OBJECT, Owners, Scaled, scaled
from activator.scale.workloads.actuator import Target
from activator.scale.workloads.subresource import KNOWN, Resource

HELLO = Target(KNOWN["deployment"], "shop", "hello")
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


def known(*objects: tuple[ObjectKey, Any]) -> Owners:
    owners = Owners()
    for key, obj in objects:
        owners.put(key, obj)
    return owners


@pytest.mark.parametrize(
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
    assert (Reason.TWO_OWNERS in [each.reason for each in found]) is bool(other)
    assert all(other in each.note for each in found if each.reason is Reason.TWO_OWNERS)


@pytest.mark.parametrize(
    ("owner", "objects", "reason", "note"),
    [
        (Owner.KEDA, [], Reason.SCALED_OBJECT_MISSING, "no ScaledObject targets Deployment hello"),
        (
            *(Owner.KEDA, [KEDAS_HPA], Reason.SCALED_OBJECT_MISSING),
            "the scaler has not read ScaledObject hello: KEDA is newer than the scaler, which "
            "looks for it every 5 minutes, and when it starts",
        ),
        (
            *(Owner.KEDA, [keda(triggers=[{"type": "cron", "metadata": {"service": "hello"}}])]),
            *(Reason.KEDA_TRIGGER_MISSING, "external-push with the metadata service: hello"),
        ),
        (
            *(Owner.KEDA, [keda(triggers=[{**PUSH[0], "metadata": {"service": "other"}}])]),
            *(Reason.KEDA_TRIGGER_MISSING, "external-push"),
        ),
        (
            *(Owner.KEDA, [keda(annotations={"autoscaling.keda.sh/paused-replicas": "0"})]),
            *(
                Reason.SCALED_OBJECT_PAUSED,
                "autoscaling.keda.sh/paused-replicas: KEDA keeps this number of replicas, and the",
            ),
        ),
        *(
            (
                *(Owner.KEDA, [keda(annotations={"autoscaling.keda.sh/paused": value})]),
                *(
                    Reason.SCALED_OBJECT_PAUSED,
                    "KEDA adds and removes no replica, and the scaler starts no pod for a request",
                ),
            )
            for value in ("true", "1", "T", "yes", "")
        ),
        (
            *(Owner.KEDA, [keda(annotations={"autoscaling.keda.sh/paused-scale-out": "true"})]),
            *(Reason.SCALED_OBJECT_PAUSED, "paused-scale-out: KEDA adds no replica, and"),
        ),
        (
            *(Owner.KEDA, [keda(annotations={"autoscaling.keda.sh/paused-scale-in": "true"})]),
            *(Reason.SCALE_IN_PAUSED, "removes no replica, so the workload does not sleep"),
        ),
        (Owner.HPA, [], Reason.HPA_MISSING, "no HorizontalPodAutoscaler targets Deployment hello"),
        (Owner.HPA, [hpa(minReplicas=1)], Reason.HPA_CANNOT_WAKE, "needs minReplicas: 0 and"),
        (Owner.HPA, [hpa(minReplicas=None)], Reason.HPA_CANNOT_WAKE, "minReplicas: 0"),
        (
            *(Owner.HPA, [hpa(metrics=[{"type": "Resource"}, {"type": "Pods"}])]),
            *(Reason.HPA_CANNOT_WAKE, "type Object or External"),
        ),
        (Owner.HPA, [hpa(metrics=None)], Reason.HPA_CANNOT_WAKE, "type Object or External"),
    ],
)
def test_an_owner_that_cannot_do_it(owner: Owner, objects: Any, reason: Reason, note: str) -> None:
    [found] = known(*objects).findings(owner, HELLO, "hello")
    assert found.reason is reason
    assert note in found.note


@pytest.mark.parametrize(
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
    rollout = Target(Resource("argoproj.io", "v1alpha1", "Rollout", "rollouts"), "shop", "hello")
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
    changed: list[Scaled] = []
    owners = Owners(changed.append)
    here, there = scaled(HELLO), scaled(HELLO._replace(name="other"))
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
        return [each.note for each in every if each.reason is Reason.LOAD_UNSEEN]

    for route in (Route.TAKEOVER, Route.FRONT):
        assert [note.split(",")[0] for note in notes(route)] == [f"with route {route.value}"] * (
            not is_seen
        )
    assert notes(None) == []
