"""Which waker a Service has: by its annotations, by the kind of its target, and when by none."""

from __future__ import annotations

from typing import Any

import pytest

from activator.plain import service as services
from activator.plain.annotations import AsleepWhen, Cpu
from activator.scale.wakers.http import HttpWaker
from activator.scale.wakers.patch import PatchWaker
from activator.scale.wakers.resize import ResizeWaker
from activator.scale.wakers.scale import SCALE
from activator.scale.wakers.table import waker_of
from activator.scale.workloads.replicas import KNOWN, ScalableKind, ScaleTarget
from tests.activator.plain.objects import service

SANDBOX = ScalableKind("agents.x-k8s.io", "v1beta1", "Sandbox", "sandboxes", has_scale=False)
CLUSTER = ScalableKind("postgresql.cnpg.io", "v1", "cluster", "clusters", has_scale=False)
MACHINE = ScalableKind("kubevirt.io", "v1", "VirtualMachine", "virtualmachines", has_scale=False)
ROLLOUT = ScalableKind("argoproj.io", "v1alpha1", "Rollout", "rollouts")
PATCHES = {"sleep_patch": '{"spec": {"stop": true}}', "wake_patch": '{"spec": {"stop": false}}'}


def chosen(kind: ScalableKind = KNOWN["deployment"], /, **annotations: str) -> Any:
    found = services.parse(service(annotations))
    assert found is not None
    return waker_of(found, ScaleTarget(kind, "shop", "hello"))


@pytest.mark.parametrize("kind", [*KNOWN.values(), ROLLOUT, SANDBOX._replace(version="v1alpha1")])
def test_most_kinds_are_scaled(kind: ScalableKind) -> None:
    assert chosen(kind) is SCALE


@pytest.mark.parametrize(
    ("kind", "sleep", "wake"),
    [
        (
            *(SANDBOX, '{"spec":{"operatingMode":"Suspended"}}'),
            '{"spec":{"operatingMode":"Running"}}',
        ),
        (
            CLUSTER,
            '{"metadata":{"annotations":{"cnpg.io/hibernation":"on"}}}',
            '{"metadata":{"annotations":{"cnpg.io/hibernation":"off"}}}',
        ),
        (MACHINE, '{"spec":{"runStrategy":"Halted"}}', '{"spec":{"runStrategy":"Always"}}'),
    ],
)
def test_a_known_kind_needs_no_words(kind: ScalableKind, sleep: str, wake: str) -> None:
    assert chosen(kind) == PatchWaker(sleep, wake)


def test_words_of_the_annotations_replace_those_of_the_kind() -> None:
    other = '{"spec":{"runStrategy":"RerunOnFailure"}}'
    found = chosen(MACHINE, wake_patch=other, awake_condition="Ready=True")
    assert (found.sleep, found.wake) == ('{"spec":{"runStrategy":"Halted"}}', other)
    assert str(found.condition) == "Ready=True"


def test_any_kind_can_be_patched() -> None:
    found = chosen(waker="patch", **PATCHES)
    assert found == PatchWaker('{"spec":{"stop":true}}', '{"spec":{"stop":false}}')


@pytest.mark.parametrize(
    ("kind", "annotations", "why"),
    [
        (
            KNOWN["deployment"],
            {"waker": "patch"},
            "waker patch needs the annotations activator.dev/sleep-patch and "
            "activator.dev/wake-patch",
        ),
        (
            KNOWN["deployment"],
            PATCHES,
            "only activator.dev/waker patch reads activator.dev/sleep-patch and "
            "activator.dev/wake-patch: change one of them",
        ),
        (
            KNOWN["deployment"],
            {"waker": "patch", **PATCHES, "wake_patch": '{"spec": {"start": true}}'},
            "activator.dev/wake-patch changes no value that activator.dev/sleep-patch sets, so the "
            "workload would not wake",
        ),
        (
            KNOWN["deployment"],
            {"waker": "http", "sleep_url": "/off"},
            "waker http needs the annotations activator.dev/sleep-url, activator.dev/wake-url, "
            "activator.dev/state-url, activator.dev/asleep-when",
        ),
        (
            KNOWN["deployment"],
            {"wake_url": "/on"},
            "only activator.dev/waker http reads activator.dev/wake-url: change one of them",
        ),
        (
            KNOWN["deployment"],
            {"profile": "vllm-sleep", "route": "takeover"},
            "with waker http Kubernetes lists sleeping pods as ready, so with activator.dev/route "
            "takeover clients would connect to them: use route front or shared",
        ),
        (
            MACHINE,
            {"owner": "keda"},
            "waker patch needs activator.dev/owner self or none, and it is keda: change "
            "activator.dev/owner or activator.dev/waker",
        ),
    ],
)
def test_a_waker_that_does_not_fit_is_a_text(
    kind: ScalableKind, annotations: dict[str, str], why: str
) -> None:
    assert chosen(kind, **annotations) == why


VLLM = ("/sleep?level=1", "/wake_up", "/is_sleeping", AsleepWhen("is_sleeping", "true"))


def test_a_profile_fills_in_the_words_of_its_server() -> None:
    assert chosen(profile="vllm-sleep") == HttpWaker(*VLLM, "hello", "")
    assert chosen(profile="vllm-sleep", sleep_url="/sleep?level=2").sleep == "/sleep?level=2"
    assert chosen(profile="vllm-sleep", waker="scale") is SCALE


def test_pods_are_parked_with_a_little_cpu() -> None:
    assert chosen(waker="resize") == ResizeWaker(Cpu(1, 10))
    assert chosen(waker="resize", parked_cpu="5m/50m") == ResizeWaker(Cpu(5, 50))
    why = "only activator.dev/waker resize reads activator.dev/parked-cpu: change one of them"
    assert chosen(parked_cpu="5m") == why


def test_pods_with_tls_are_not_called() -> None:
    tls = {"name": "https", "port": 443, "appProtocol": "https"}
    found = services.parse(service({"profile": "vllm-sleep"}, ports=[tls]))
    assert found is not None
    assert waker_of(found, ScaleTarget(KNOWN["deployment"], "shop", "hello")) == (
        "waker http calls pods without TLS, and appProtocol names TLS: name a Service"
    )


def test_the_words_are_part_of_the_identity() -> None:
    one, other = chosen(waker="patch", **PATCHES), chosen(waker="patch", **PATCHES)
    assert (hash(one), one) == (hash(other), other)
    assert one != chosen(MACHINE)
